//! The record of answers: one entry for each attempt. Nothing is summed up before it is recorded.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde::Serialize;

use crate::{CannotJudge, OrCannotJudge};

/// The codes of refusals by a sale that is not open.
const NOT_OPEN: [&str; 4] = ["sale_not_started", "sale_ended", "sale_paused", "draw_only"];

/// One attempt at a purchase and the answer to it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Answer {
    /// Number of the purchase in the plan.
    pub request: u32,
    /// 0 for the first attempt; retries count up.
    pub attempt: u16,
    /// Whether the client made no further attempt.
    pub last: bool,
    /// The buyer's id.
    pub buyer: i64,
    /// The Idempotency-Key that was sent.
    pub key: Option<String>,
    /// Index of the strategy in the list of those that were used.
    pub strategy: u32,
    /// HTTP status; 0 when there was no answer.
    pub status: u16,
    /// `sold`, `queued`, the problem's code, or what happened to the connection.
    pub code: String,
    /// What the client may conclude from the answer.
    pub outcome: Outcome,
    /// The order's id, when accepted.
    pub order_id: Option<String>,
    /// The order's quantity as answered.
    pub order_quantity: Option<i64>,
    /// The order's status as answered.
    pub order_status: Option<String>,
    /// The item of the line that refused an order of several items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_item: Option<i64>,
    /// Whether a later attempt may have another answer.
    #[serde(skip)]
    pub retryable: bool,
    /// Microseconds from the start of the traffic until this answer.
    pub answered_at_us: u64,
    /// Microseconds from the planned instant (closed model: from the moment in
    /// which the connection became free), earlier attempts and waiting included.
    pub from_plan_us: u64,
    /// Microseconds from sending this attempt.
    pub from_send_us: u64,
}

/// What the client may conclude from an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// An order was made, or queued.
    Accepted,
    /// Definitely nothing changed, and asking again will not help.
    Refused,
    /// Definitely nothing changed; try again.
    Unavailable,
    /// Something may have changed: the ledger tells.
    #[default]
    Unknown,
}

impl Outcome {
    /// The name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Refused => "refused",
            Self::Unavailable => "unavailable",
            Self::Unknown => "unknown",
        }
    }
}

impl Answer {
    /// Whether the request may have reached the service.
    pub fn was_sent(&self) -> bool {
        self.status != 0 || self.outcome == Outcome::Unknown
    }

    /// Whether the request was invalid, the strategy does not run here, or the sale was not open: such an answer says
    /// nothing about how stock is sold.
    pub fn is_no_sale(&self) -> bool {
        matches!(self.status, 400 | 401 | 403 | 404 | 405 | 413 | 415 | 422)
            || self.code == "strategy_unavailable"
            || self.is_of_closed_sale()
    }

    /// Whether the sale was not open: the units that are left do not matter then.
    pub fn is_of_closed_sale(&self) -> bool {
        NOT_OPEN.contains(&&*self.code)
    }

    /// Whether another request with the same key was being processed. The outcome of that one stays
    /// open.
    pub fn is_in_progress(&self) -> bool {
        self.code == "request_in_progress"
    }

    /// Whether the service promised that this purchase changed nothing.
    pub fn is_definite_refusal(&self) -> bool {
        matches!(self.outcome, Outcome::Refused | Outcome::Unavailable) && !self.is_in_progress()
    }
}

/// Writes a record to a file, each answer as one line of JSON.
pub fn write_history(path: &Path, answers: &[Answer]) -> Result<(), CannotJudge> {
    let what = format!("{} not written", path.display());
    let mut file = BufWriter::new(File::create(path).or_cannot_judge(&what)?);
    for answer in answers {
        serde_json::to_writer(&mut file, answer).or_cannot_judge(&what)?;
        file.write_all(b"\n").or_cannot_judge(&what)?;
    }
    file.flush().or_cannot_judge(&what)
}
