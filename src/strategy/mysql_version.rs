//! `mysql-version`: compare-and-set on a version column, with bounded retries.
//!
//! # How it works
//! Read `available` and `version`; write with `... AND version = <the one read>`. When somebody
//! was faster no row matches: everything is rolled back, and after a jittered pause it starts
//! again with a new read *in a new transaction* (inside the old one a snapshot could show the old
//! version for ever).
//!
//! # What can go wrong
//! Nothing is oversold: the version only rises, so there is no ABA. But of N buyers that read the
//! same version N - 1 worked for nothing: a crowd makes it slower, and when the retries or the
//! time run out the answer is 503 `contended`. A version that was read long before the write is
//! always old, so only a few buyers try at once and the others wait before they read; without
//! that, a thousand buyers in line for connections sell four units a second. On a replica the
//! version read may be old.
//!
//! # When to use it
//! Where conflicts are rare. Not for a hot item.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::shared::compare_and_set::CompareAndSet;
use super::{Breaks, Card, Entry, Request, Strategy};
use crate::arbiter::Bare;
use crate::domain::Outcome;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "mysql-version",
        family: "cas",
        store: "mysql",
        safe: true,
        breaks_with: Breaks::Never,
        summary: "Compare-and-set on a version column; losers try again in a new transaction.",
        breaks_when: "Never oversells; under a crowd most tries are wasted and retries run out.",
        needs: &[],
        durable_before_reply: true,
        source: "S4",
        takes_options: false,
    },
    build: |gear| {
        let on_version = CompareAndSet::new(gear, |seen, available| Bare::CompareVersion {
            available,
            version: seen.version,
        });
        Some(Arc::new(MysqlVersion { on_version }))
    },
};

struct MysqlVersion {
    on_version: CompareAndSet,
}

impl Strategy for MysqlVersion {
    fn purchase<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Outcome> {
        Box::pin(self.on_version.purchase(request))
    }
}
