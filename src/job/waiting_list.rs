//! The jobs that end places in waiting lists: those of offers which were not accepted in time, of sales that are over,
//! and of deleted people.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;

use crate::waiting_list::{TendRun, WaitingLists};
use extension::job::Job;
use ledger::erasure::{Eraser, Finished};

/// The pause between two measurements.
const MEASURED_EVERY: Duration = Duration::from_secs(2);

/// The job that looks after the waiting lists.
pub struct TendWaitingLists {
    lists: WaitingLists,
    measured: Mutex<Option<Instant>>,
}

impl TendWaitingLists {
    /// The job for the `lists`.
    pub fn new(lists: WaitingLists) -> Self {
        Self { lists, measured: Mutex::default() }
    }

    fn is_due(&self) -> bool {
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = measured.is_none_or(|at| at.elapsed() >= MEASURED_EVERY);
        if is_due {
            *measured = Some(Instant::now());
        }
        is_due
    }
}

#[async_trait]
impl Job for TendWaitingLists {
    async fn run(&self) -> Result<String, String> {
        let tended = self.lists.tend().await.map_err(|error| error.to_string())?;
        if self.is_due() {
            self.lists.measure().await.map_err(|error| error.to_string())?;
        }
        let TendRun { changed, failed } = tended;
        match failed {
            0 => Ok(format!("{changed} places changed")),
            1 => Err(format!("1 line not tended, see the log; {changed} places changed")),
            _ => Err(format!("{failed} lines not tended, see the log; {changed} places changed")),
        }
    }
}

/// The job that ends what requests which were under way left to deleted people, and forgets who they were once no sale
/// needs it.
pub struct FinishErasures {
    /// The lists that the people leave.
    pub lists: WaitingLists,
    pub eraser: Eraser,
}

#[async_trait]
impl Job for FinishErasures {
    async fn run(&self) -> Result<String, String> {
        let finished = self.eraser.finish().await;
        let Finished { lines, put_off } = finished.map_err(|error| error.to_string())?;
        self.lists.publish_all(&lines).await;
        match put_off {
            0 => Ok(format!("{} places ended", lines.len())),
            people => Err(format!("places of {people} deleted people not ended yet")),
        }
    }
}
