//! `mysql-mutex-per-request`: every request makes a mutex and takes it. Known to be unsafe: tests must catch it.
//!
//! # How it works
//! The steps of `mysql-mutex`, but the mutex is a field of an object that is made for each request:
//! the service is not the one instance that its author thought of. Each buyer locks a mutex that
//! nobody else has.
//!
//! # What can go wrong
//! Nobody ever waits for anybody. Two buyers read the same number and both sell it, as without any
//! lock; and since the code shows a lock, nobody suspects it.
//!
//! # When to use it
//! Never. To remember that a lock is the object, not the word.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Mutex;

use super::kit::textbook;
use super::{Breaks, Card, Decision, Entry, Options, Strategy, StrategyContext, WaitingBuyer};
use shop_domain::Purchase;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "mysql-mutex-per-request",
        family: "mutex",
        breaks_with: Breaks::Alone,
        summary: "Each request makes a mutex of its own and takes it around SELECT, check, UPDATE and COMMIT.",
        breaks_when: "Always: no two requests share a mutex.",
        ..Card::USUAL
    },
    build: |context| Ok(Arc::new(MysqlMutexPerRequest { context: context.clone() })),
};

struct MysqlMutexPerRequest {
    context: StrategyContext,
}

#[async_trait]
impl Strategy for MysqlMutexPerRequest {
    async fn purchase(&self, purchase: Purchase, _: Options, buyer: &WaitingBuyer) -> Decision {
        let of_this_request = Mutex::new(());
        let _held = of_this_request.lock().await;
        textbook::on_ledger(&self.context, &purchase, buyer.deadline).await
    }
}
