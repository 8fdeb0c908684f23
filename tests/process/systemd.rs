//! What the program tells systemd (`sd_notify(3)`): the test listens in systemd's place.

use tokio::net::UnixDatagram;
use tokio::process::Command;

use crate::process::program::signal;
use crate::process::sockets::Folder;
use crate::support::prelude::*;
use crate::support::raw::Raw;

/// The period of the watchdog, in microseconds: one that a busy machine keeps.
const WATCHDOG_US: &str = "2000000";

/// Who is told.
struct Manager {
    socket: UnixDatagram,
    folder: Folder,
}

impl Manager {
    fn new() -> Self {
        let folder = Folder::new();
        Self { socket: UnixDatagram::bind(&folder.socket).expect("a socket"), folder }
    }

    fn starts(&self, shop: &Shop) -> Command {
        let mut serve = program(shop, &["serve"]);
        serve.env("NOTIFY_SOCKET", &self.folder.socket).env("WATCHDOG_USEC", WATCHDOG_US);
        serve
    }

    /// The next message.
    async fn told(&self) -> String {
        let mut bytes = [0; 4_096];
        let received = tokio::time::timeout(BOUND, self.socket.recv(&mut bytes)).await;
        let count = received.expect("a message in time").expect("received");
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    }
}

/// A service with as many clients as it may have is busy, and its watchdog hears of it all the same.
#[tokio::test]
async fn systemd_hears_that_it_is_ready_answers_and_stops() {
    let shop = Shop::new().await;
    let manager = Manager::new();
    let addr = free_addr();
    let mut serve = manager.starts(&shop);
    serve.env("SECKILL_HTTP_ADDR", &addr).env("SECKILL_HTTP_CONNECTIONS_MAX", "1");
    let mut child = serve.spawn().expect("started");
    assert_eq!(manager.told().await, "READY=1\nSTATUS=selling\n");
    let mut raw = Raw::connect(addr.parse().expect("an address")).await;
    raw.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(raw.answer().await.status, 200, "the one connection is taken");
    for _ in 0..2 {
        assert_eq!(manager.told().await, "WATCHDOG=1\n");
    }
    signal(child.id().expect("running"), "TERM").await;
    let mut message = manager.told().await;
    while message == "WATCHDOG=1\n" {
        message = manager.told().await;
    }
    assert_eq!(message, "STOPPING=1\nSTATUS=stopping\n");
    assert_eq!(child.wait().await.expect("ended").code(), Some(0));
    let more = manager.socket.try_recv(&mut [0; 64]);
    assert!(more.is_err(), "nothing is said after it");
}

#[tokio::test]
async fn systemd_is_not_told_ready_while_the_ledger_is_away() {
    let shop = Shop::new().await;
    let manager = Manager::new();
    let mut serve = manager.starts(&shop);
    serve.env("DATABASE_URL", "mysql://u:p@127.0.0.1:9/seckill");
    serve.env("SECKILL_LIFECYCLE_START_WAIT_MS", "1000");
    let ended = tokio::time::timeout(Duration::from_secs(60), serve.status()).await;
    // After exit 2 it would not be started again.
    assert_eq!(ended.expect("it gives up").expect("runs").code(), Some(1));
    let first = manager.told().await;
    assert!(first.starts_with("STATUS=waiting: ") && first.contains("127.0.0.1:9"), "{first}");
    let mut bytes = [0; 4_096];
    while let Ok(count) = manager.socket.try_recv(&mut bytes) {
        let message = String::from_utf8_lossy(&bytes[..count]);
        assert!(!message.contains("READY") && !message.contains("WATCHDOG"), "{message}");
    }
}
