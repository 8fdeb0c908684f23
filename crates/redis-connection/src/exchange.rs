//! One exchange with one server, and when it is tried again.

use std::time::{Duration, Instant};

use redis::{Cmd, Value};
use tokio::time::timeout_at;

use crate::cluster::unreachable_cluster;
use crate::node::Node;
use crate::refusal::{Failure, Refusal};

/// Redirections that a command follows before it pauses.
const REDIRECTIONS_MAX: u32 = 4;
/// The first and the longest pause before a command that did not run is sent again.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// A way of sending a command to one server and getting its answer.
pub(crate) trait Exchange: Sync {
    /// Sends it. `asked_first` has the server run it although the slot is not its own yet.
    fn send(
        &self,
        node: &Node,
        asked_first: bool,
    ) -> impl Future<Output = Result<Value, Failure>> + Send;
}

/// When a command that did not run is sent again.
pub(crate) struct Tries {
    until: Instant,
    pause: Duration,
    redirections: u32,
}

impl Tries {
    /// Until a time.
    pub(crate) fn until(until: Instant) -> Self {
        Self { until, pause: PAUSE_FIRST, redirections: 0 }
    }

    /// Whether to try again, after a pause if need be.
    pub(crate) async fn again(&mut self, refusal: &Refusal) -> bool {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        let is_redirected = matches!(refusal, Refusal::Moved(_) | Refusal::Ask(_));
        if is_redirected && self.redirections < REDIRECTIONS_MAX {
            self.redirections += 1;
            return true;
        }
        let pause = self.pause.mul_f64(rand::random_range(0.5..=1.0)).min(left);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        tokio::time::sleep(pause).await;
        true
    }

    /// Waits for the server to try next, no longer than there is time for tries.
    pub(crate) async fn in_time<T>(&self, next: impl Future<Output = Option<T>>) -> Option<T> {
        timeout_at(self.until.into(), next).await.ok().flatten()
    }
}

impl Exchange for Cmd {
    async fn send(&self, node: &Node, asked: bool) -> Result<Value, Failure> {
        if asked { asked_first(node, self).await } else { node.command(self).await }
    }
}

/// Sends a command to the server that receives its slot, which runs it although the slot is not
/// its own yet.
async fn asked_first(node: &Node, command: &Cmd) -> Result<Value, Failure> {
    let mut pipeline = redis::pipe();
    pipeline.cmd("ASKING").add_command(command.clone());
    let mut answers = node.pipeline(&pipeline, 0, 2).await?;
    match (answers.pop(), answers.pop()) {
        (Some(answer), Some(_)) => Ok(answer),
        _ => Err(Failure::Unknown(unreachable_cluster("no answer behind ASKING"))),
    }
}
