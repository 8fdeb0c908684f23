//! One figure measured several times: its median and how far the measurements lie apart.

use std::fmt;

use serde::Serialize;

/// Median, lowest and highest of some measurements of one figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The middle measurement; with an even number of them the mean of the middle two.
    pub median: f64,
    /// The lowest measurement.
    pub min: f64,
    /// The highest measurement.
    pub max: f64,
}

impl Spread {
    /// Of any measurements, in any order. Infinite values and NaN are left out; of none it is zero.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (Some(min), Some(max)) = (values.first(), values.last()) else {
            return Self::default();
        };
        let lower = (values.len() - 1) / 2;
        let upper = values.len() / 2;
        Self { median: f64::midpoint(values[lower], values[upper]), min: *min, max: *max }
    }

    /// Whether every measurement lies above every one of `other`: only then is a difference more
    /// than noise.
    pub fn is_above(self, other: Self) -> bool {
        self.min > other.max
    }
}

/// `1.05 (0.98 to 1.10)`; a precision such as `{:.0}` holds for all three.
impl fmt::Display for Spread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = formatter.precision().unwrap_or(2);
        let Self { median, min, max } = self;
        write!(formatter, "{median:.digits$} ({min:.digits$} to {max:.digits$})")
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn the_median_of_even_and_odd_counts() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Spread::of([1.0, 2.0]).median, 1.5);
        assert_eq!(Spread::of([3.0, 1.0, f64::NAN, 2.0, 10.0]).median, 2.5);
        assert_eq!(Spread::of([]), Spread::default());
    }
}
