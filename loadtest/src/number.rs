//! Numbers as people read them.

use indicatif::HumanCount;

/// `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    HumanCount(number).to_string()
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }
}
