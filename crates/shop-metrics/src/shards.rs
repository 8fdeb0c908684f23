//! The metrics of several ledgers: each further ledger counts for itself, and its series have the label
//! `shard`. Those without it are the home ledger's, and those that belong to no ledger.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use super::Metrics;

/// The metrics of the further ledgers.
#[derive(Clone, Debug, Default)]
pub(super) struct ShardMetrics(Arc<Mutex<Vec<(u16, Metrics)>>>);

impl Metrics {
    /// The metrics of a ledger: these for the home ledger, and others for each further one, which are
    /// rendered together with these.
    #[must_use]
    pub fn of_shard(&self, shard: u16) -> Self {
        if shard == 0 {
            return self.clone();
        }
        let metrics = Self::new();
        let mut all = self.shards.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((shard, metrics.clone()));
        metrics
    }

    /// The metrics of the further ledgers.
    pub(super) fn further(&self) -> Vec<(u16, Self)> {
        self.shards.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Puts the series of a further ledger into `text`, each below the description that it shares.
pub(super) fn merge(text: &str, shard: u16, further: &str) -> String {
    let (home, further) = (families(text), families(further));
    // A family without series is not in a text at all.
    let only_further = further.iter().filter(|(head, _)| !home.iter().any(|(own, _)| own == head));
    let only_further = only_further.map(|(head, _)| (*head, ""));
    let mut merged = String::with_capacity(text.len() * 2);
    for (head, series) in home.iter().copied().chain(only_further) {
        merged.push_str(head);
        merged.push_str(series);
        let same = further.iter().find(|(other, _)| *other == head);
        for line in same.map_or("", |(_, series)| series).lines() {
            write_labelled(&mut merged, line, shard);
        }
    }
    merged.push_str("# EOF\n");
    merged
}

/// The families of a text: the lines of each description, and those of its series.
fn families(text: &str) -> Vec<(&str, &str)> {
    let mut families = Vec::new();
    let mut rest = text.strip_suffix("# EOF\n").unwrap_or(text);
    while !rest.is_empty() {
        let (head, after) = rest.split_at(end_of(rest, |line| line.starts_with('#')));
        let (series, after) = after.split_at(end_of(after, |line| !line.starts_with('#')));
        families.push((head, series));
        rest = after;
    }
    families
}

/// The length of the first lines of which `is_one` holds.
fn end_of(text: &str, is_one: impl Fn(&str) -> bool) -> usize {
    text.split_inclusive('\n').take_while(|line| is_one(line)).map(str::len).sum()
}

fn write_labelled(merged: &mut String, line: &str, shard: u16) {
    let (name, value) = line.split_once(' ').unwrap_or((line, ""));
    // Writing to a string does not fail.
    let _ = match name.split_once('{') {
        // The rest of the line, since a value of a label may have a space.
        Some((name, _)) => {
            writeln!(merged, "{name}{{shard=\"{shard}\",{}", &line[name.len() + 1..])
        }
        None => writeln!(merged, "{name}{{shard=\"{shard}\"}} {value}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_is_described_once() {
        let metrics = Metrics::new();
        let second = metrics.of_shard(1);
        metrics.queue_parked.inc();
        second.queue_parked.inc_by(2);
        second.job_ran("expire", "ok");
        let text = metrics.render();
        assert_eq!(text.matches("# TYPE seckill_queue_parked ").count(), 1, "{text}");
        assert!(text.contains("seckill_queue_parked_total 1\n"), "{text}");
        assert!(text.contains("seckill_queue_parked_total{shard=\"1\"} 2\n"), "{text}");
        assert!(text.contains("{shard=\"1\",job=\"expire\",result=\"ok\"} 1"), "{text}");
        assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1, "{text}");
    }
}
