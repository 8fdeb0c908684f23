//! One kept-alive HTTP/1.1 connection that tells a request that was not sent from one without an
//! answer.
//!
//! The difference that matters is between a request that was *surely not sent* and one that was
//! sent and got no answer: only the second may have sold something.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep, timeout};

pub use super::message::Reply;
use super::message::{self, Read};

/// A single connection attempt gives up after this.
const CONNECT_SECONDS_MAX: u64 = 5;
/// Room for an answer to a purchase. What fits is read with one call.
const INPUT_BYTES: usize = 2 * 1024;
/// Room that is added for a longer answer.
const INPUT_BYTES_MORE: usize = 32 * 1024;

/// An open connection: a socket, read and written in the caller's own task.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    /// What was read of the present answer.
    input: Vec<u8>,
    /// Moved for each exchange: that is cheaper than a timer for each.
    timer: Pin<Box<Sleep>>,
    open: bool,
}

/// How one exchange ended.
#[derive(Debug)]
pub enum Exchange {
    /// A whole answer.
    Answered(Reply),
    /// The request was surely not sent.
    NotSent,
    /// The request may have been sent; the connection ended before a whole answer.
    Lost,
    /// The request may have been sent; no whole answer in time.
    TimedOut,
}

impl Connection {
    /// Connects, with TCP_NODELAY: a small request must not wait for an acknowledgement.
    pub async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = timeout(Duration::from_secs(CONNECT_SECONDS_MAX), TcpStream::connect(address))
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        stream.set_nodelay(true)?;
        let input = Vec::with_capacity(INPUT_BYTES);
        Ok(Self { stream, input, timer: Box::pin(sleep(Duration::ZERO)), open: true })
    }

    /// Whether another request may be tried on it.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Sends one request, which is rendered already, and waits for its whole answer, at most `limit`.
    pub async fn send(&mut self, request: &[u8], limit: Duration) -> Exchange {
        if !self.open || self.has_ended() {
            self.open = false;
            return Exchange::NotSent;
        }
        let Self { stream, input, timer, open } = self;
        timer.as_mut().reset(Instant::now() + limit);
        input.clear();
        let end = tokio::select! {
            biased;
            end = talk(stream, input, request) => end,
            () = timer.as_mut() => Exchange::TimedOut,
        };
        *open = matches!(&end, Exchange::Answered(reply) if reply.keeps_connection);
        end
    }

    /// Whether the peer has closed the connection, or speaks without being asked.
    fn has_ended(&self) -> bool {
        let read = self.stream.try_read(&mut [0]);
        !matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

async fn talk(stream: &mut TcpStream, input: &mut Vec<u8>, request: &[u8]) -> Exchange {
    let mut sent = 0;
    while sent < request.len() {
        match stream.write(&request[sent..]).await {
            Ok(count) if count > 0 => sent += count,
            _ if sent == 0 => return Exchange::NotSent,
            _ => return Exchange::Lost,
        }
    }
    loop {
        if input.len() == input.capacity() {
            input.reserve(INPUT_BYTES_MORE);
        }
        let Ok(count) = stream.read_buf(input).await else { return Exchange::Lost };
        match message::read(input, count == 0) {
            Read::Whole(reply) => return Exchange::Answered(reply),
            Read::Part if count > 0 => {}
            Read::Part | Read::Wrong => return Exchange::Lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    const ANSWER: &[u8] = b"HTTP/1.1 409 Conflict\r\nretry-after: 2\r\ncontent-length: 2\r\n\r\n{}";
    const HALF_AN_ANSWER: &[u8] = b"HTTP/1.1 201 Created\r\ncontent-length: 50\r\n\r\n{\"id\":";

    /// A peer that gives one connection these answers, one a request, and then closes it.
    async fn peer(answers: &'static [&'static [u8]]) -> Connection {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut request = [0; 1024];
            for answer in answers {
                let length = stream.read(&mut request).await.expect("a request");
                assert!(length > 0, "a request was expected");
                stream.write_all(answer).await.expect("written");
            }
        });
        Connection::open(address).await.expect("connected")
    }

    async fn send(connection: &mut Connection) -> Exchange {
        let request = message::render("POST", "/", &[("host", "x")], b"{}");
        connection.send(&request, Duration::from_secs(5)).await
    }

    #[tokio::test]
    async fn a_connection_closed_while_idle_was_surely_not_used() {
        let mut connection = peer(&[ANSWER]).await;
        assert!(matches!(send(&mut connection).await, Exchange::Answered(_)));
        // Until the peer's end of the connection has arrived here.
        sleep(Duration::from_millis(200)).await;
        assert!(matches!(send(&mut connection).await, Exchange::NotSent));
        assert!(!connection.is_open());
    }

    #[tokio::test]
    async fn a_request_without_a_whole_answer_may_have_taken_effect() {
        let mut silent = peer(&[b""]).await;
        assert!(matches!(send(&mut silent).await, Exchange::Lost));
        let mut cut = peer(&[HALF_AN_ANSWER]).await;
        assert!(matches!(send(&mut cut).await, Exchange::Lost));
        assert!(!cut.is_open());
    }

    #[tokio::test]
    async fn a_late_answer_is_timed_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let mut connection =
            Connection::open(listener.local_addr().expect("an address")).await.expect("connected");
        let request = message::render("POST", "/", &[("host", "x")], b"");
        let end = connection.send(&request, Duration::from_millis(50)).await;
        assert!(matches!(end, Exchange::TimedOut));
        assert!(!connection.is_open());
    }
}
