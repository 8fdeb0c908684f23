//! What the service counts, on its page `/metrics`.

/// The sum of all series of a name whose labels contain `label`, on a page of metrics.
pub fn sum(text: &str, name: &str, label: &str) -> f64 {
    let value_of = |line: &str| -> Option<f64> {
        let (key, value) = line.rsplit_once(' ')?;
        let (found, labels) = key.split_once('{').unwrap_or((key, ""));
        if found == name && labels.contains(label) { value.parse().ok() } else { None }
    };
    text.lines().filter_map(value_of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_summed_over_their_labels() {
        let text = "# TYPE seckill_lock gauge\n\
            seckill_lock{lock=\"redis\",event=\"contended\"} 3\n\
            seckill_lock{lock=\"local\",event=\"contended\"} 4\n\
            seckill_lock{lock=\"local\",event=\"wait_us\"} 1500\n\
            seckill_arbiter_retries_total 5\n";
        assert_eq!(sum(text, "seckill_lock", "event=\"contended\""), 7.0);
        assert_eq!(sum(text, "seckill_arbiter_retries_total", ""), 5.0);
    }
}
