//! `lock-mysql-named`: one lock per item: GET_LOCK on a session of its own; read, check, write.
//!
//! # How it works
//! One session per instance holds all its named locks; GET_LOCK without waiting tries, RELEASE_LOCK gives
//! back.
//!
//! # What can go wrong
//! When the session breaks, the server frees all its locks before any holder knows. There is no fence: only
//! the arbiter's condition on the stock is left. Replicas know nothing of named locks.
//!
//! # When to use it
//! To keep two copies of a job apart. For a sale `lock-mysql-table` is the better one.

use super::shared::lock_body::LockBody;
use super::{Breaks, Card, Entry};
use crate::domain::outcome::Dependency;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "lock-mysql-named",
        family: "lock",
        store: "mysql",
        safe: true,
        breaks_with: Breaks::Never,
        summary: "One lock per item: GET_LOCK on a session of its own; read, check, write.",
        breaks_when: "The lock's session is killed or breaks: all its holds end at once, and no fence tells.",
        needs: &[],
        durable_before_reply: true,
        source: "S4",
        takes_options: true,
    },
    build: |gear| Some(LockBody::per_item(gear, &gear.locks.named, None, Dependency::Mysql)),
};
