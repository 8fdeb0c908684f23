//! Everything that the core has of a person: each column, and what the deletion of the person does to it.
//!
//! A test compares the list, with those of the extensions, with the columns of the schema: a new column with a person
//! needs a line.

use futures::future::BoxFuture;
use sqlx::MySqlConnection;

use crate::waiting_list::{self, LineChange, WaitingLine};
use crate::work::item_permit::ItemPermit;
use shop_domain::UserId;

/// A column that names a person, or says something of one.
#[derive(Clone, Copy, Debug)]
pub struct Trace {
    pub table: &'static str,
    pub column: &'static str,
    pub fate: Fate,
}

/// What the deletion of a person does to a column.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    /// The rows whose column is the number of the person are deleted.
    RowsDeleted,
    /// The column goes with the row that another column names.
    GoesWithRow,
    /// What is open is ended or taken back; what is over stays, by the number alone.
    Ended {
        /// The statement that reads the items at which the person, its only value, has something open.
        items: &'static str,
        end: EndAtItem,
    },
    /// The column stays, by the number alone, because stock, money or limits would not add up without it.
    Counts,
    /// The column stays for a limited time.
    ForATime,
    /// The column stays for good: the log of operators' actions.
    Logged,
}

/// Ends what a person has open at an item, whose stock row the caller has locked.
pub type EndAtItem = for<'a> fn(
    &'a WaitingLine,
    &'a mut MySqlConnection,
    &'a ItemPermit,
    UserId,
) -> BoxFuture<'a, sqlx::Result<Option<LineChange>>>;

use Fate::{Counts, ForATime, GoesWithRow, Logged, RowsDeleted};

const fn trace(table: &'static str, column: &'static str, fate: Fate) -> Trace {
    Trace { table, column, fate }
}

/// Everything that the core has of a person.
pub static ALL: [Trace; 27] = [
    trace("users", "id", RowsDeleted),
    trace("users", "username", GoesWithRow),
    trace("users", "username_folded", GoesWithRow),
    trace("users", "username_skeleton", GoesWithRow),
    trace("users", "password_hash", GoesWithRow),
    trace("subjects", "user_id", RowsDeleted),
    trace("subjects", "subject_hash", GoesWithRow),
    trace("subjects", "issuer", GoesWithRow),
    trace("subjects", "subject", GoesWithRow),
    trace("guests", "user_id", RowsDeleted),
    trace("guests", "reference", GoesWithRow),
    // By the hash of the name.
    trace("sign_in_failures", "account", GoesWithRow),
    trace("sign_in_failures", "address", GoesWithRow),
    waiting_list::TRACE,
    trace("orders", "user_id", Counts),
    trace("buyer_limits", "user_id", Counts),
    trace("group_limits", "user_id", Counts),
    // Until no token of the person can be valid, and no sale runs that counts the person.
    trace("erased_users", "user_id", ForATime),
    trace("erased_users", "subject_hash", ForATime),
    trace("session_generations", "user_id", Counts),
    // Until the request ends.
    trace("running_requests", "user_id", ForATime),
    // `events.keep_hours`.
    trace("outbox", "payload", ForATime),
    trace("restocks", "user_id", Logged),
    trace("item_creations", "user_id", Logged),
    trace("admin_actions", "user_id", Logged),
    trace("admin_actions", "address", Logged),
    trace("admin_actions", "detail", Logged),
];
