//! The job that ends what requests which were under way left to deleted people, and forgets who they were once no sale
//! needs it.

use async_trait::async_trait;

use crate::waiting_list::WaitingLists;
use extension::job::Job;
use ledger::erasure::{self, Finished};

/// The job that finishes the deletions of people.
pub struct FinishErasures {
    /// The lists that the people leave.
    pub lists: WaitingLists,
}

#[async_trait]
impl Job for FinishErasures {
    async fn run(&self) -> Result<String, String> {
        let finished = erasure::finish(self.lists.waitlist()).await;
        let Finished { lines, put_off } = finished.map_err(|error| error.to_string())?;
        self.lists.publish_all(&lines).await;
        match put_off {
            0 => Ok(format!("{} places ended", lines.len())),
            people => Err(format!("places of {people} deleted people not ended yet")),
        }
    }
}
