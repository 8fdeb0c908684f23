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
