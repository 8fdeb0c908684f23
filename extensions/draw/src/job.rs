//! The job that closes draws, and gives the entries their places.

use async_trait::async_trait;

use crate::advance::Advanced;
use crate::draws::Draws;
use extension::job::Job;

/// The job that advances the draws.
pub struct AdvanceDraws {
    pub draws: Draws,
}

#[async_trait]
impl Job for AdvanceDraws {
    async fn run(&self) -> Result<String, String> {
        let Advanced { due, failed, held } =
            self.draws.advance().await.map_err(|error| error.to_string())?;
        if failed > 0 {
            return Err(format!("{failed} of {due} draws failed, see the log"));
        }
        if held > 0 {
            return Err(format!("{held} of {due} draws wait for a lock that another session has"));
        }
        Ok(format!("{due} draws due"))
    }
}
