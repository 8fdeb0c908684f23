//! The job that ends what requests which were under way left to deleted people, and forgets who they were once no sale
//! needs it.

use async_trait::async_trait;

use crate::waiting_list::WaitingLists;
use extension::job::Job;
use ledger::erasure;

/// The job that finishes the deletions of people.
pub struct FinishErasures {
    /// The lists that the people leave.
    pub lists: WaitingLists,
}

#[async_trait]
impl Job for FinishErasures {
    async fn run(&self) -> Result<String, String> {
        let finished = erasure::finish(self.lists.waitlist()).await;
        let changes = finished.map_err(|error| error.to_string())?;
        self.lists.publish_all(&changes).await;
        Ok(format!("{} places ended", changes.len()))
    }
}
