//! A named test for every strategy on THE LIST, so that `cargo test redis_lua` runs what it says.

/// Makes one test per strategy, named after it, in the module that uses it:
/// `test_each_strategy!(check)` calls `check("redis-lua").await` in the test `redis_lua`.
macro_rules! test_each_strategy {
    ($check:path) => {
        gates::with_strategies! { crate::support::strategies::tests! $check; }
    };
}

macro_rules! tests {
    ($check:path; $($name:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            $check(&stringify!($name).replace('_', "-")).await;
        }
    )*};
}

pub(crate) use {test_each_strategy, tests};
