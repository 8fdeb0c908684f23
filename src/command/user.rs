//! `seckill user`: deletes a person. It works on the ledger and the queues, without an instance.

use std::path::Path;
use std::process::ExitCode;

use ledger::erasure::{EraseError, ErasureRequest};
use ledger::rows::actions::Actor;
use ledger::rows::outbox::Outbox;
use ledger::rows::redis_lists;
use ledger::waiting_list::{WaitingLine, Waitlist};
use mysql_connection::Database;
use shop_domain::{Clock, UserId};
use shop_metrics::Metrics;
use time::OffsetDateTime;

use super::output::print_line;
use super::{ExitResult, parse_user};
use crate::config::Config;
use crate::{account, extensions};

/// The arguments: the action on a person.
#[derive(clap::Subcommand)]
pub enum Action {
    /// Delete the account of a person, end its sessions, and leave its waiting lists. Orders stay without a name.
    Erase {
        /// The user id.
        #[arg(long, value_parser = parse_user)]
        id: UserId,
        /// The user id of the operator who decides, for the log of actions.
        #[arg(long, value_name = "USER", value_parser = parse_user)]
        operator: UserId,
    },
}

/// Deletes a person. Exit 1 when something is open.
pub async fn run(file: Option<&Path>, action: &Action) -> ExitResult {
    let Action::Erase { id, operator } = *action;
    let config = super::settings(file)?;
    if config.secret.is_empty() {
        return Err("the setting `secret` is missing: it hides who a deleted person of the identity provider is".to_owned());
    }
    super::operator::check(&config, operator).await?;
    let clock = Clock::default();
    let events = Outbox::new(config.events.enabled);
    let line = WaitingLine::new(clock, events, Metrics::new(), config.waiting_list.line_max);
    let ledger = super::ledger(&config)?;
    let open =
        format!("user {id} has an open order: it has to be paid, cancelled or expired first");
    if has_queued_order(&config, &ledger.pool, id).await? {
        return super::refuse(open);
    }
    let waitlist = Waitlist { ledger, line };
    let eraser = extensions::eraser(waitlist);
    let actor = Actor { user: operator, address: None, now: OffsetDateTime::now_utc() };
    let keys = account::subject_keys(&config.secret, &config.secret_previous);
    let request =
        ErasureRequest { user: id, password_hash: None, actor: Some(&actor), keys: &keys };
    match eraser.erase(&request).await {
        Ok(erased) if erased.had_account => {
            print_line(format_args!("the account of user {id} is deleted"));
        }
        Ok(_) => print_line(format_args!("user {id} has no account; its sessions have ended")),
        Err(EraseError::OrdersOpen) => return super::refuse(open),
        Err(EraseError::Operator) => {
            return super::refuse(format_args!(
                "user {id} may run sales: take the role first, with `seckill operator revoke`"
            ));
        }
        Err(error) => return Err(format!("the account may or may not be deleted: {error}")),
    }
    for table in &eraser.tables_left {
        print_line(format_args!(
            "the table {table} keeps what it has of user {id}: this build lacks its extension"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether an order of a person waits in a queue. Redis is asked only where the ledger knows a queue.
async fn has_queued_order(config: &Config, pool: &Database, user: UserId) -> Result<bool, String> {
    let no_ledger = |error: ledger::Error| format!("nothing was deleted: {error}");
    if redis_lists::queues(pool, 0, 1).await.map_err(no_ledger)?.is_empty() {
        return Ok(false);
    }
    let queue = super::queue(config, pool)?;
    queue.refresh().await.map_err(no_ledger)?;
    let queued = queue.list(user).await;
    match queued.failed {
        Some(error) if queued.orders.is_empty() => {
            Err(format!("nothing was deleted, because a queue may have an order: {error}"))
        }
        _ => Ok(!queued.orders.is_empty()),
    }
}
