//! `tokio::select!`, always in the order of its branches: its random order would not be repeated with the seed.

/// Waits for the first of several branches.
#[macro_export]
macro_rules! select {
    (biased; $($branches:tt)*) => {
        $crate::select::real_select! { biased; $($branches)* }
    };
    ($($branches:tt)*) => {
        $crate::select::real_select! { biased; $($branches)* }
    };
}

pub use real_tokio::select as real_select;
