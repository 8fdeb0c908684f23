//! A restart refuses no connection when the socket outlives the process: who connects meanwhile waits.
//!
//! A shell does what systemd does (`sd_listen_fds(3)`): it hands the same socket to one process after the other.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Stdio;
use std::sync::atomic::AtomicUsize;

use tokio::process::Command;

use crate::process::program::{beside, stop};
use crate::process::sockets::{Folder, client_of};
use crate::support::prelude::*;
use crate::support::raw::Raw;

/// Descriptor 3 is the first that is passed. `exec` keeps the number of the process.
const PASS: &str =
    r#"exec 3<&0 </dev/null; LISTEN_PID=${MEANT_FOR:-$$} LISTEN_FDS=1 exec "$0" serve"#;
const CLIENTS: usize = 6;
const RESTARTS: usize = 3;
/// Orders between two restarts.
const ORDERS: usize = 30;

/// The program with a socket that this process keeps.
fn with_socket(shop: &Shop, socket: OwnedFd) -> Command {
    let mut shell = beside(shop, "/bin/sh");
    shell.arg("-c").arg(PASS).arg(program(shop, &[]).as_std().get_program());
    shell.stdin(Stdio::from(socket));
    shell
}

/// Buyers order, each over a new connection, while the program is replaced again and again.
async fn restart(shop: &Shop, maker: &Instance, client: Client, socket: impl Fn() -> OwnedFd) {
    let item = maker.make_item(json!({ "stock": 1_000_000, "per_buyer_limit": 1_000_000 })).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let sold = Arc::new(AtomicUsize::new(0));
    let path = purchase_path("mysql-batch", item);
    let buyers = (1..).take(CLIENTS).map(|buyer| {
        let client = client.with_token(&maker.token(buyer, Role::Buyer));
        let is_over = Arc::clone(&is_over);
        let sold = Arc::clone(&sold);
        let path = path.clone();
        tokio::spawn(async move {
            while !is_over.load(Ordering::SeqCst) {
                let key = sold.fetch_add(1, Ordering::SeqCst).to_string();
                let request = client.request(Method::POST, &path).header("idempotency-key", key);
                let answer = request.send().await.expect("no connection is refused or broken");
                assert_eq!(answer.status(), 201);
            }
        })
    });
    let mut child = with_socket(shop, socket()).spawn().expect("started");
    let buyers: Vec<_> = buyers.collect();
    for restart in 0..=RESTARTS {
        let before = sold.load(Ordering::SeqCst);
        eventually("orders", || async {
            let more = sold.load(Ordering::SeqCst) - before;
            let broken = buyers.iter().any(tokio::task::JoinHandle::is_finished);
            when(more >= ORDERS || broken, more)
        })
        .await;
        if restart < RESTARTS {
            stop(child).await;
            child = with_socket(shop, socket()).spawn().expect("started");
        }
    }
    is_over.store(true, Ordering::SeqCst);
    for buyer in join_all(buyers).await {
        buyer.expect("each request was answered");
    }
    let orders = "SELECT COUNT(*) FROM orders WHERE item_id = ?";
    let orders: i64 = shop.read(sqlx::query_scalar(orders).bind(item)).await;
    assert_eq!(usize::try_from(orders), Ok(sold.load(Ordering::SeqCst)));
    assert_clean(maker, item).await;
    stop(child).await;
}

/// No request waits for a connection that an earlier one left open: each has its own.
fn builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder().pool_max_idle_per_host(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_under_load_refuses_no_connection() {
    let (shop, maker) = Shop::open().await;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("an address");
    let client = Client::of(builder(), format!("http://{addr}"), None);
    let socket = || listener.try_clone().expect("a copy").into();
    restart(&shop, &maker, client, socket).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_on_a_unix_socket_refuses_no_connection() {
    let (shop, maker) = Shop::open().await;
    let folder = Folder::new();
    let listener = UnixListener::bind(&folder.socket).expect("a socket");
    let socket = || listener.try_clone().expect("a copy").into();
    restart(&shop, &maker, client_of(&folder.socket, builder()), socket).await;
    assert!(folder.socket.exists(), "it belongs to this process");
}

/// Its connection is not closed before the first request had time to come.
#[tokio::test]
async fn who_connected_just_before_a_stop_is_answered() {
    let (_shop, instance) = Shop::open().await;
    let mut raw = Raw::connect(instance.addr).await;
    // The connection of the question, and this one.
    until_metric(&instance.stranger(), "seckill_http_connections 2").await;
    instance.lifecycle.stop();
    tokio::time::sleep(Duration::from_millis(100)).await;
    raw.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(raw.answer().await.status, 200);
    assert!(raw.ends().await, "and then it is closed");
}

#[tokio::test]
async fn a_passed_socket_that_cannot_be_used_is_refused() {
    let shop = Shop::new().await;
    let ends_with = async |mut command: Command, sentence: &str| {
        let output = told(&command.output().await.expect("runs"));
        assert!(output.0 == 2 && output.1.contains(sentence), "{sentence}: {output:?}");
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let passed = || OwnedFd::from(listener.try_clone().expect("a copy"));
    let mut named = with_socket(&shop, passed());
    named.env("LISTEN_FDNAMES", "metrics");
    ends_with(named, "its unit must say FileDescriptorName=http").await;
    let pair = UnixStream::pair().expect("a connection");
    ends_with(with_socket(&shop, pair.0.into()), "Accept=no").await;
    let file = std::fs::File::open("/dev/null").expect("a file");
    ends_with(with_socket(&shop, file.into()), "is not a socket").await;
    // A secret that is fine for this machine alone is judged by the socket, and not by http.addr.
    let public = TcpListener::bind("0.0.0.0:0").expect("a port");
    let mut guessable = with_socket(&shop, public.into());
    guessable.env("SECKILL_SECRET", "x".repeat(40));
    ends_with(guessable, "easy to guess").await;
    // What is meant for another process is not touched.
    let mut foreign = with_socket(&shop, passed());
    foreign.env("LISTEN_FDNAMES", "metrics").env("MEANT_FOR", "1").env("SECKILL_SECRET", "");
    ends_with(foreign, "SECKILL_SECRET is not set").await;
}
