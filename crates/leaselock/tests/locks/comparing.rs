//! The servers' own compare-and-delete and compare-and-set. On a server that has none, scripts do the same;
//! `VALKEY_SERVER=$(scripts/valkey-sid)` runs these tests on one that has both.

use dev_servers::{RedisOptions, RedisServer};
use leaselock::{LockName, ReleaseOutcome, redis as redis_locks};
use redis_connection::{Options, is_command_refused};
use tokio_util::task::TaskTracker;

use super::support::{own_redis, rounds};
use super::testbed::{Testbed, granted, label, let_go, listed, name};
use super::{LONG_LEASE, SHORT_LEASE, at_once, shared, until_lost, waiting};

/// The kinds that compare the whole value of one key.
const KINDS: [&str; 4] = ["plain", "setnx-expire", "setnx", "getset"];
/// The value of a holder from elsewhere.
const OTHER_OWNER: &str = "another owner";

/// The key of the only hold on this server.
async fn held_key(server: &RedisServer) -> String {
    let keys: Vec<String> = server.run(&["KEYS", "*"]).await.expect("KEYS");
    let [key] = &keys[..] else { panic!("one hold is one key: {keys:?}") };
    key.clone()
}

async fn value(server: &RedisServer, key: &str) -> Option<String> {
    server.run(&["GET", key]).await.expect("GET")
}

#[tokio::test]
async fn a_hold_whose_value_has_changed_is_neither_released_nor_renewed() {
    let server = own_redis(1, &[]).await.remove(0);
    for kind in KINDS {
        let kind = listed("redis", kind);
        let process = Testbed::new().process_behind(kind, &server.tcp_url()).await;
        let guard = granted(&process, LONG_LEASE).await;
        let key = held_key(&server).await;
        let () = server.run(&["SET", &key, OTHER_OWNER]).await.expect("SET");
        assert_eq!(guard.release().await, ReleaseOutcome::AlreadyLost, "{}", label(kind));
        assert_eq!(value(&server, &key).await.as_deref(), Some(OTHER_OWNER), "{}", label(kind));
        let () = server.run(&["FLUSHALL"]).await.expect("FLUSHALL");
        if !kind.renewed {
            continue;
        }
        let guard = granted(&process, SHORT_LEASE).await;
        let key = held_key(&server).await;
        let () = server.run(&["SET", &key, OTHER_OWNER]).await.expect("SET");
        until_lost(&guard).await;
        drop(guard);
        let left_ms: i64 = server.run(&["PTTL", &key]).await.expect("PTTL");
        assert_eq!(left_ms, -1, "{}: another hold got an expiry", label(kind));
        let () = server.run(&["FLUSHALL"]).await.expect("FLUSHALL");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_failover_to_a_server_without_the_command_releases_by_the_script() {
    for kind in ["plain", "setnx-expire", "setnx"] {
        for is_ours in [true, false] {
            let first = own_redis(1, &[]).await.remove(0);
            let process = Testbed::new();
            let process = process.process_behind(listed("redis", kind), &first.tcp_url()).await;
            // It has asked for the command by then.
            let_go(kind, granted(&process, LONG_LEASE).await).await;
            let guard = granted(&process, LONG_LEASE).await;
            let key = held_key(&first).await;
            let ours = value(&first, &key).await.expect("held");
            let password = first.tcp_url().split(['@', ':']).nth(2).map(str::to_owned);
            let (port, program) = (Some(first.port()), None);
            first.stop().await;

            // The usual program of this machine, whatever `VALKEY_SERVER` names.
            let options = RedisOptions { port, password, program, ..RedisOptions::default() };
            let second = RedisServer::start(options).await.expect("it starts");
            let kept = if is_ours { &*ours } else { OTHER_OWNER };
            let () = second.run(&["SET", &key, kept]).await.expect("SET");
            // Connects again, so that the release below has no earlier try whose answer was lost.
            let other = LockName::new("another").expect("a name");
            let other = process.acquire(&other, waiting(LONG_LEASE)).await.expect("free");
            let released = guard.release().await;
            let expected =
                if is_ours { ReleaseOutcome::Released } else { ReleaseOutcome::AlreadyLost };
            assert_eq!(released, expected, "{kind}");
            let left = value(&second, &key).await;
            assert_eq!(left.as_deref(), (!is_ours).then_some(OTHER_OWNER), "{kind}");
            let_go(kind, other).await;
            second.stop().await;
        }
    }
}

/// Valkey 9.1 has Lua as a module, which may be absent.
#[tokio::test]
async fn kinds_that_compare_by_the_servers_own_command_need_no_scripts() {
    let server = own_redis(1, &["enable-module-command local"]).await.remove(0);
    let unloaded = server.run::<()>(&["MODULE", "UNLOAD", "lua"]).await;
    if unloaded.is_err() {
        println!("this server has Lua built in");
        return server.stop().await;
    }
    for kind in KINDS {
        let process = Testbed::new();
        let process = process.process_behind(listed("redis", kind), &server.tcp_url()).await;
        for _ in 0..rounds(3) {
            let_go(kind, granted(&process, LONG_LEASE).await).await;
        }
    }
    // A renewal is more than a lease old when this hold ends.
    let process = Testbed::new().process_behind(listed("redis", "plain"), &server.tcp_url()).await;
    let guard = granted(&process, SHORT_LEASE).await;
    tokio::time::sleep(SHORT_LEASE * 2).await;
    assert!(!guard.is_lost(), "it was renewed");
    let_go("plain", guard).await;

    // The others say why they cannot.
    let redis = shared(&server.tcp_url(), Options::default());
    let error = redis::cmd("EVAL").arg("return 1").arg(0).exec_async(&mut redis.clone()).await;
    assert!(is_command_refused(&error.expect_err("no Lua")));
    let token = redis_locks::token::mutex(redis, "lua:", &TaskTracker::new()).expect("a prefix");
    let error = token.acquire(&name(), at_once(LONG_LEASE)).await.expect_err("no Lua");
    assert!(format!("{error:?}").contains("scripting engine"), "{error:?}");
    server.stop().await;
}
