//! I16 to I19: the rules that compare answers in the order of time.
//!
//! One clock is enough: that of the clients. A fact that an answer showed was true at some moment
//! between the request and the answer; so two answers are in order when the second request was sent
//! after the first answer had come. The times in the ledger are not used: they are of other clocks,
//! and a row's time is not that of its COMMIT.

mod orders;
mod sold_out;

use std::collections::HashMap;
use std::hash::Hash;

use crate::{Answer, Evidence, Finding};

/// Times were cut to whole microseconds, and some were added up from several such figures.
const ROUNDING_US: u64 = 5;

/// Judges I16 to I19.
pub fn judge(evidence: &Evidence<'_>) -> Vec<Finding> {
    let Some(in_time) = &evidence.in_time else {
        let claims = [sold_out::CLAIM].into_iter().chain(orders::CLAIMS);
        let named = ["I16", "I17", "I18", "I19"].into_iter().zip(claims);
        return named
            .map(|(name, claim)| Finding::not_judged(name, claim, "no times were recorded"))
            .collect();
    };
    let mut findings = vec![sold_out::judge(evidence, in_time)];
    findings.extend(orders::judge(evidence, in_time.history));
    findings
}

impl Answer {
    /// When this attempt was sent, rounded to the earlier side.
    pub(crate) fn sent_at_us(&self) -> u64 {
        self.answered_at_us.saturating_sub(self.from_send_us).saturating_sub(ROUNDING_US)
    }
}

/// Microseconds as seconds, for messages.
fn seconds(micros: u64) -> String {
    format!("{:.6} s", micros as f64 / 1e6)
}

/// Notes the earliest moment of each `key`.
fn note<K: Eq + Hash>(earliest: &mut HashMap<K, u64>, key: K, at_us: u64) {
    let at = earliest.entry(key).or_insert(at_us);
    *at = at_us.min(*at);
}
