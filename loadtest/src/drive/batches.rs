//! Many reservations in one request, as the program of a shop sends them: each is judged as a purchase of its own.

use std::io::Write;

use hyper::header::HeaderValue;

use super::message;
use super::{Drive, Instance};

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
    pub(super) fn render(
        &self,
        drive: &Drive,
        instance: &Instance,
        purchases: &[usize],
    ) -> Vec<u8> {
        let mut body = Vec::new();
        for &index in purchases {
            let planned = drive.plan.requests[index];
            let guest = drive.first_buyer + i64::from(planned.buyer);
            let key = drive.plan.key(index).unwrap_or_default();
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
