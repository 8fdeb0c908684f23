//! Baseline H: a bare axum handler that reads and writes JSON, in a process of its own.
//!
//! On the service's shape of runtimes (`SECKILL_HTTP_RUNTIMES`, as the service reads it) and its
//! allocator. It does what no purchase can do without: reads
//! a JSON body and answers 201 with an order's worth of JSON. No login, no limit, no database.

use std::io;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use axum::http::StatusCode;
use axum::routing::post;
use axum::serve::{Listener, ListenerExt};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;

use loadtest::failure::CannotJudge;

/// How long the handler's process may take to tell its address.
const START_MAX: Duration = Duration::from_secs(30);
/// Where the handler is.
pub const PATH: &str = "/bare";

#[derive(Deserialize)]
struct Purchase {
    #[serde(default = "one")]
    quantity: i64,
}

/// As long as the service's answer.
#[derive(Serialize)]
struct Order {
    id: &'static str,
    item_id: i64,
    user_id: i64,
    quantity: i64,
    amount_cents: i64,
    status: &'static str,
    strategy: &'static str,
    fence: Option<i64>,
    created_at: &'static str,
    expires_at: &'static str,
    paid_at: Option<&'static str>,
}

fn one() -> i64 {
    1
}

async fn purchase(Json(purchase): Json<Purchase>) -> (StatusCode, Json<Order>) {
    let order = Order {
        id: "01900000-0000-7000-8000-000000000000",
        item_id: 1,
        user_id: 1_000_000_001,
        quantity: purchase.quantity,
        amount_cents: 100 * purchase.quantity,
        status: "pending",
        strategy: "mysql-batch",
        fence: None,
        created_at: "2026-01-01T00:00:00.000000Z",
        expires_at: "2026-01-01T01:00:00.000000Z",
        paid_at: None,
    };
    (StatusCode::CREATED, Json(order))
}

/// Serves until standard input closes; prints its address first.
pub async fn serve() -> Result<(), CannotJudge> {
    let failed = |error: io::Error| CannotJudge(format!("the bare handler: {error}"));
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
    println!("{}", listener.local_addr().map_err(failed)?);
    let router = Router::new().route(PATH, post(purchase));
    // However the input ends, so does the baseline.
    let input = tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink()));
    let runtimes = std::env::var("SECKILL_HTTP_RUNTIMES").ok().and_then(|text| text.parse().ok());
    tokio::select! {
        served = serve_on(listener, router, runtimes.unwrap_or(0)) => served.map_err(failed),
        _ = input => Ok(()),
    }
}

/// Serves on the present runtime, or on `runtimes` threads with a runtime each.
async fn serve_on(listener: TcpListener, router: Router, runtimes: usize) -> io::Result<()> {
    if runtimes == 0 {
        let listener = listener.tap_io(|stream| {
            // A socket that cannot be set is only slower.
            let _ = stream.set_nodelay(true);
        });
        return axum::serve(listener, router).await;
    }
    let address = listener.local_addr()?;
    let mut threads = Vec::with_capacity(runtimes);
    for _ in 0..runtimes {
        let (sender, streams) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let router = router.clone();
        let served = async move { axum::serve(StreamQueue { streams, address }, router).await };
        std::thread::spawn(move || runtime.block_on(served));
        threads.push(sender);
    }
    for thread in threads.iter().cycle() {
        let (stream, peer) = listener.accept().await?;
        stream.set_nodelay(true)?;
        // A thread that is gone has closed its connections, too.
        let _ = thread.send((stream.into_std()?, peer));
    }
    Ok(())
}

/// The connections that are dealt to one thread.
struct StreamQueue {
    streams: mpsc::UnboundedReceiver<(std::net::TcpStream, SocketAddr)>,
    address: SocketAddr,
}

impl Listener for StreamQueue {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            let Some((stream, peer)) = self.streams.recv().await else {
                return std::future::pending().await;
            };
            if let Ok(stream) = TcpStream::from_std(stream) {
                return (stream, peer);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

/// The handler's process. It ends with this value.
pub struct BareHttp {
    pub address: SocketAddr,
    /// Ends the process when it is dropped.
    _child: Child,
}

impl BareHttp {
    /// Starts this program once more as the handler.
    pub async fn start() -> Result<Self, CannotJudge> {
        let failed = |error: io::Error| CannotJudge(format!("the bare handler: {error}"));
        let mut child = Command::new(std::env::current_exe().map_err(failed)?)
            .arg("bare-http")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let output = child.stdout.take().ok_or_else(|| CannotJudge::new("no output"))?;
        let mut line = String::new();
        timeout(START_MAX, BufReader::new(output).read_line(&mut line))
            .await
            .map_err(|_| CannotJudge::new("the bare handler does not start"))?
            .map_err(failed)?;
        let address = line
            .trim()
            .parse()
            .map_err(|_| CannotJudge(format!("the bare handler said {line:?}")))?;
        Ok(Self { address, _child: child })
    }
}
