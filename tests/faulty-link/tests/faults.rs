//! What the faults do whose other tests only count how often they bite: the rows of the fault matrix.

use std::time::Duration;

use faulty_link::{Fault, FaultyLink, Trap};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

/// Far longer than anything here takes.
const BOUND: Duration = Duration::from_secs(10);
/// How much later a request comes.
const LATE: Duration = Duration::from_millis(60);

/// A client and the server's end of its connection.
struct Pair {
    link: FaultyLink,
    listener: TcpListener,
    client: TcpStream,
    server: TcpStream,
}

impl Pair {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let at = listener.local_addr().expect("an address");
        let link = FaultyLink::to(at).await.expect("a link");
        let client = TcpStream::connect(link.addr()).await.expect("connected");
        let (server, _) = listener.accept().await.expect("accepted");
        Self { link, listener, client, server }
    }

    async fn send(&mut self, text: &str) {
        self.client.write_all(text.as_bytes()).await.expect("sent");
    }

    async fn answer(&mut self, text: &str) {
        self.server.write_all(text.as_bytes()).await.expect("answered");
    }
}

/// What comes next; "" at the connection's end.
async fn next(stream: &mut TcpStream) -> String {
    let mut bytes = [0; 64];
    let read = timeout(BOUND, stream.read(&mut bytes)).await.expect("something comes");
    String::from_utf8_lossy(&bytes[..read.unwrap_or(0)]).into_owned()
}

#[tokio::test]
async fn a_delay_makes_requests_late() {
    let mut pair = Pair::new().await;
    pair.link.set(Fault::Delay(LATE));
    let since = Instant::now();
    pair.send("ask").await;
    assert_eq!(next(&mut pair.server).await, "ask");
    assert!(since.elapsed() >= LATE);
}

#[tokio::test]
async fn a_cut_closes_both_ends_at_once_and_new_connections_too() {
    let mut pair = Pair::new().await;
    pair.link.cut();
    assert_eq!(next(&mut pair.client).await, "");
    assert_eq!(next(&mut pair.server).await, "");
    let mut refused = TcpStream::connect(pair.link.addr()).await.expect("accepted");
    assert_eq!(next(&mut refused).await, "");
    pair.link.mend();
    let mut client = TcpStream::connect(pair.link.addr()).await.expect("connected");
    client.write_all(b"again").await.expect("sent");
    let (mut server, _) = pair.listener.accept().await.expect("accepted");
    assert_eq!(next(&mut server).await, "again");
}

#[tokio::test]
async fn dribbled_answers_come_byte_by_byte_and_at_once_when_mended() {
    let mut pair = Pair::new().await;
    pair.link.set(Fault::Dribble(BOUND * 10));
    pair.answer("told").await;
    assert_eq!(next(&mut pair.client).await, "t");
    pair.link.mend();
    let mut rest = [0; 3];
    timeout(BOUND, pair.client.read_exact(&mut rest)).await.expect("in time").expect("the rest");
    assert_eq!(&rest, b"old");
}

#[tokio::test]
async fn an_answer_can_end_in_a_reset_in_its_middle() {
    let mut pair = Pair::new().await;
    pair.link.trap(Trap::at_answer().reset().every(2));
    pair.answer("told").await;
    let mut bytes = Vec::new();
    let end = timeout(BOUND, pair.client.read_to_end(&mut bytes)).await.expect("in time");
    assert_eq!(end.map_err(|error| error.kind()), Err(std::io::ErrorKind::ConnectionReset));
}
