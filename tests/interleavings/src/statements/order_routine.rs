//! The call of a whole order, which may go on after its answer is lost.

use super::{Attempt, OrderWrite, StockWrite, transaction};
use crate::events::log;
use crate::explore::reach;
use crate::random::{below, once_in};
use crate::rows::outbox::Outbox;
use crate::sql::{MySqlConnection, Process, Result};
use crate::time::{Duration, sleep};

#[derive(Clone, Debug, Default)]
pub(super) struct OrderCalls {
    pub(super) is_called: bool,
}

impl OrderCalls {
    pub(super) async fn try_once(
        &self,
        connection: &mut MySqlConnection,
        write: &OrderWrite<'_>,
        outbox: Outbox,
        _: bool,
    ) -> Result<Attempt> {
        if !connection.server.is_faulty || !once_in(16) {
            return transaction::run(connection, write, outbox).await;
        }
        log("ledger leaves a call without an answer");
        reach("call without an answer", 1);
        if once_in(2) {
            let mut server = connection.server.clone();
            server.process = Process::default();
            let purchase = write.purchase.clone();
            let time = Duration::from_millis(u64::from(below(900)));
            crate::spawn(async move {
                sleep(time).await;
                let stock = StockWrite::Guarded;
                let write = OrderWrite { purchase: &purchase, fence: None, stock, deadline: None };
                let _ = transaction::run(&mut server.connection(), &write, outbox).await;
            });
        }
        Ok(Attempt::CallLost)
    }
}
