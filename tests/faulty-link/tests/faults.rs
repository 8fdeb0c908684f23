//! What each fault does to a client and a server that only echo.

use std::time::Duration;

use faulty_link::{Fault, FaultyLink, Trap};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};

/// Far longer than anything here takes.
const BOUND: Duration = Duration::from_secs(10);
/// How often a state is looked at that is waited for.
const LOOK: Duration = Duration::from_millis(1);
/// How long nothing comes where nothing may come.
const QUIET: Duration = Duration::from_millis(60);

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

    async fn bitten(&self, bites: u64) {
        let bitten = async {
            while self.link.bites() < bites {
                sleep(LOOK).await;
            }
        };
        timeout(BOUND, bitten).await.expect("the fault bites");
    }
}

/// What comes next; "" at the connection's end.
async fn next(stream: &mut TcpStream) -> String {
    let mut bytes = [0; 64];
    let read = timeout(BOUND, stream.read(&mut bytes)).await.expect("something comes");
    String::from_utf8_lossy(&bytes[..read.unwrap_or(0)]).into_owned()
}

async fn hears_nothing(stream: &mut TcpStream) -> bool {
    timeout(QUIET, stream.read(&mut [0; 64])).await.is_err()
}

#[tokio::test]
async fn without_a_fault_everything_passes() {
    let mut pair = Pair::new().await;
    pair.send("ask").await;
    assert_eq!(next(&mut pair.server).await, "ask");
    pair.answer("told").await;
    assert_eq!(next(&mut pair.client).await, "told");
    assert_eq!((pair.link.bites(), pair.link.connections()), (0, 1));
}

#[tokio::test]
async fn a_delay_makes_requests_late() {
    let mut pair = Pair::new().await;
    pair.link.set(Fault::Delay(QUIET));
    let since = Instant::now();
    pair.send("ask").await;
    assert_eq!(next(&mut pair.server).await, "ask");
    assert!(since.elapsed() >= QUIET);
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
async fn what_a_stall_holds_back_arrives_later() {
    let mut pair = Pair::new().await;
    pair.link.set(Fault::Stall);
    pair.send("ask").await;
    pair.answer("told").await;
    pair.bitten(2).await;
    assert!(hears_nothing(&mut pair.server).await && hears_nothing(&mut pair.client).await);
    pair.link.mend();
    assert_eq!(next(&mut pair.server).await, "ask");
    assert_eq!(next(&mut pair.client).await, "told");
}

#[tokio::test]
async fn what_is_sent_into_silence_is_lost() {
    let mut pair = Pair::new().await;
    pair.link.set(Fault::Silence);
    pair.bitten(1).await;
    pair.send("ask").await;
    assert!(hears_nothing(&mut pair.server).await && hears_nothing(&mut pair.client).await);
    pair.link.mend();
    assert_eq!(next(&mut pair.server).await, "");
    assert_eq!(next(&mut pair.client).await, "");
}

#[tokio::test]
async fn stranded_connections_stay_silent_while_new_ones_work() {
    let mut pair = Pair::new().await;
    pair.link.strand();
    pair.bitten(1).await;
    pair.send("lost").await;
    let mut client = TcpStream::connect(pair.link.addr()).await.expect("connected");
    client.write_all(b"new").await.expect("sent");
    let (mut server, _) = pair.listener.accept().await.expect("accepted");
    assert_eq!(next(&mut server).await, "new");
    pair.link.mend();
    assert!(hears_nothing(&mut pair.server).await && hears_nothing(&mut pair.client).await);
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
async fn a_request_can_be_cut_before_the_server_gets_it() {
    let mut pair = Pair::new().await;
    pair.link.trap(Trap::at(b"COMMIT").skip(1));
    pair.send("COMMIT 1").await;
    assert_eq!(next(&mut pair.server).await, "COMMIT 1");
    pair.send("COMMIT 2").await;
    assert_eq!(next(&mut pair.server).await, "");
    assert_eq!(next(&mut pair.client).await, "");
    assert_eq!(pair.link.caught(), 1);
}

#[tokio::test]
async fn an_answer_can_be_lost_after_the_server_has_acted() {
    let mut pair = Pair::new().await;
    pair.link.trap(Trap::at(b"COMMIT").lose_answer().then(Fault::RefuseNext));
    pair.send("COMMIT").await;
    assert_eq!(next(&mut pair.server).await, "COMMIT");
    assert_eq!(pair.link.caught(), 0);
    pair.answer("done").await;
    assert_eq!(next(&mut pair.client).await, "");
    assert_eq!(pair.link.fault(), Fault::RefuseNext);
    let mut refused = TcpStream::connect(pair.link.addr()).await.expect("accepted");
    assert_eq!(next(&mut refused).await, "");
    assert_eq!(pair.link.fault(), Fault::Pass);
}

#[tokio::test]
async fn a_held_request_passes_when_it_is_let_go() {
    let mut pair = Pair::new().await;
    pair.link.trap(Trap::at(b"BEGIN").hold().always());
    pair.send("SELECT").await;
    assert_eq!(next(&mut pair.server).await, "SELECT");
    pair.send("BEGIN").await;
    timeout(BOUND, pair.link.holds(1)).await.expect("held");
    assert!(hears_nothing(&mut pair.server).await);
    pair.link.mend();
    assert_eq!(next(&mut pair.server).await, "BEGIN");
}

#[tokio::test]
async fn a_request_can_reach_the_server_after_its_client_has_gone() {
    let mut pair = Pair::new().await;
    pair.link.trap(Trap::at(b"COMMIT").cut_client_and_hold());
    pair.send("COMMIT").await;
    assert_eq!(next(&mut pair.client).await, "");
    assert!(hears_nothing(&mut pair.server).await);
    pair.link.mend();
    assert_eq!(next(&mut pair.server).await, "COMMIT");
}

#[tokio::test]
async fn a_server_can_be_cut_off_while_the_client_hears_nothing() {
    let mut pair = Pair::new().await;
    pair.link.trap(Trap::at(b"COMMIT").cut_server_in_silence());
    pair.send("COMMIT").await;
    assert_eq!(next(&mut pair.server).await, "");
    assert!(hears_nothing(&mut pair.client).await);
    pair.link.mend();
    assert_eq!(next(&mut pair.client).await, "");
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

#[tokio::test]
async fn requests_are_counted_and_blanked_out() {
    let mut pair = Pair::new().await;
    pair.link.count(b"EVALSHA");
    pair.link.blank(b"LOCK");
    pair.send("EVALSHA EVA").await;
    assert_eq!(next(&mut pair.server).await, "EVALSHA EVA");
    pair.send("LSHA LOCK").await;
    assert_eq!(next(&mut pair.server).await, "LSHA     ");
    assert_eq!(pair.link.counted(), 2);
}

#[tokio::test]
async fn a_url_leads_through_the_link() {
    let pair = Pair::new().await;
    let at = pair.listener.local_addr().expect("an address");
    let url = format!("redis://:pw@{at}/3");
    let link = FaultyLink::to_url(&url).await.expect("a link");
    assert_eq!(link.url(), format!("redis://:pw@{}/3", link.addr()));
    assert!(FaultyLink::to_url("/no/url").await.is_err());
}
