//! A named test for every strategy on THE LIST, so that `cargo test redis_lua` runs what it says.

/// Makes one test per strategy, named after it, in the module that uses it:
/// `test_each_strategy!(check)` calls `check("redis-lua").await` in the test `redis_lua`.
macro_rules! test_each_strategy {
    ($check:path) => {
        crate::support::strategies::with_names! { crate::support::strategies::tests! $check; }
    };
}

/// Calls a macro with its arguments and the names of all strategies.
macro_rules! with_names {
    ($($with:ident)::+! $($arguments:tt)*) => {
        $($with)::+! {
            $($arguments)*
            lock_etcd lock_local lock_mysql_named lock_mysql_table lock_redis lock_redis_fair
            lock_redis_getset lock_redis_reentrant lock_redis_setnx lock_redis_setnx_expire
            lock_redis_token lock_redlock lock_zookeeper lock_zookeeper_spin memory_mutex
            memory_naive mysql_atomic mysql_batch mysql_for_update mysql_mutex mysql_mutex_in_tx
            mysql_mutex_per_request mysql_naive mysql_timestamp mysql_unit_rows mysql_version redis_bucket
            redis_lua redis_mutex redis_naive redis_stream redis_watch
        }
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

macro_rules! names {
    ($($name:ident)*) => { [$(stringify!($name)),*] };
}

pub(crate) use {names, test_each_strategy, tests, with_names};

#[test]
fn every_strategy_has_its_named_tests() {
    let named = with_names! { crate::support::strategies::names! };
    let named = named.map(|name| name.replace('_', "-"));
    let mut listed: Vec<_> = gates::LIST.iter().map(|entry| entry.card.name).collect();
    listed.sort_unstable();
    assert_eq!(named.as_slice(), listed, "tests/support/strategies.rs names them in this order");
}
