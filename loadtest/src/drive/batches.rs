//! Many reservations in one request, as the program of a shop sends them: each is judged as a purchase of its own.

use std::io::Write;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use hyper::header::HeaderValue;
use tokio::time::sleep;

use super::answer;
use super::caller::{Caller, pause};
use super::message;
use super::{Drive, Instance};
use ledger_audit::{Answer, Outcome};

const PATH: &str = "/api/reservations/batch";

/// How the reservations of a plan are sent.
pub struct Batches {
    /// Reservations of each request.
    pub size: usize,
    /// `Authorization` of the shop's program.
    pub token: HeaderValue,
    /// The lines of each order, as JSON.
    pub orders: Vec<String>,
}

impl Batches {
    /// The request with these purchases of the plan.
    fn render(&self, drive: &Drive, instance: &Instance, purchases: &[usize]) -> Vec<u8> {
        let mut body = Vec::new();
        for &index in purchases {
            let planned = drive.plan.requests[index];
            let guest = drive.first_buyer + i64::from(planned.buyer);
            let key = drive.plan.key(index).unwrap_or_else(|| format!("unnamed-{index}"));
            let lines = &self.orders[planned.strategy as usize];
            // Writing to memory does not fail.
            let _ = writeln!(body, r#"{{"buyer":"guest-{guest}","key":"{key}","lines":{lines}}}"#);
        }
        let headers: [(&str, &[u8]); 3] = [
            ("host", instance.host.as_bytes()),
            ("authorization", self.token.as_bytes()),
            ("content-type", b"application/x-ndjson"),
        ];
        message::render("POST", PATH, &headers, &body)
    }
}

impl Caller {
    /// Makes these purchases of the plan with one request, and sends those again that have no final answer.
    pub(super) async fn reserve_each(&mut self, purchases: Range<usize>, planned: Instant) {
        let drive = Arc::clone(&self.drive);
        let Some(batches) = &drive.batches else { return };
        let mut open: Vec<usize> = purchases.collect();
        for attempt in 0.. {
            let render = |instance: &Instance| batches.render(&drive, instance, &open);
            let (exchange, sent) = self.attempt(render).await;
            let may_repeat = attempt < drive.policy.retries_max && !drive.is_over(self.started);
            let mut again = Vec::new();
            let answers = answer::read_lines(&exchange, open.len());
            for (&index, answer) in open.iter().zip(answers) {
                let outcome = answer.outcome;
                let last = !(may_repeat && answer.retryable) || outcome == Outcome::Accepted;
                let answer = Answer { attempt, last, key: drive.plan.key(index), ..answer };
                self.write_down(index, answer, planned, sent);
                if last {
                    drive.finished(outcome);
                } else {
                    again.push(index);
                }
            }
            if again.is_empty() {
                return;
            }
            sleep(pause(&exchange, attempt)).await;
            open = again;
        }
    }
}
