//! One kept-alive HTTP/1.1 connection that tells a request that was not sent from one without an
//! answer.
//!
//! The difference that matters is between a request that was *surely not sent* and one that was
//! sent and got no answer: only the second may have sold something.

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::RETRY_AFTER;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A single connection attempt gives up after this.
const CONNECT_SECONDS_MAX: u64 = 5;
/// A longer body is no answer of this service.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// An open connection. Its protocol work is done inside [`Connection::exchange`], in the same
/// task: no wake-up crosses a task on the way of a request.
pub struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: Pin<Box<http1::Connection<TokioIo<TcpStream>, Full<Bytes>>>>,
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

/// A whole answer.
#[derive(Debug)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// How long the service asks to wait before the next try.
    pub retry_after: Option<Duration>,
    /// The whole body.
    pub body: Bytes,
}

impl Connection {
    /// Connects, with TCP_NODELAY: a small request must not wait for an acknowledgement.
    pub async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = timeout(Duration::from_secs(CONNECT_SECONDS_MAX), TcpStream::connect(address))
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        stream.set_nodelay(true)?;
        let (sender, driver) =
            http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        Ok(Self { sender, driver: Box::pin(driver), open: true })
    }

    /// Whether another request may be tried on it.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Sends one request and waits for its whole answer, at most `limit`.
    pub async fn exchange(&mut self, request: Request<Full<Bytes>>, limit: Duration) -> Exchange {
        let Self { sender, driver, open } = self;
        if !*open {
            return Exchange::NotSent;
        }
        let talk = async {
            if sender.ready().await.is_err() {
                return Exchange::NotSent;
            }
            match sender.try_send_request(request).await {
                Ok(response) => read(response).await,
                Err(error) if error.message().is_some() => Exchange::NotSent,
                Err(_) => Exchange::Lost,
            }
        };
        let both = async {
            let mut talk = pin!(talk);
            tokio::select! {
                biased;
                end = &mut talk => end,
                _ = driver.as_mut() => {
                    *open = false;
                    talk.await
                }
            }
        };
        let end = timeout(limit, both).await.unwrap_or(Exchange::TimedOut);
        if !matches!(end, Exchange::Answered(_)) {
            *open = false;
        }
        end
    }
}

async fn read(response: Response<Incoming>) -> Exchange {
    let status = response.status().as_u16();
    let retry_after = response
        .headers()
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.trim().parse().ok())
        .map(Duration::from_secs);
    match Limited::new(response.into_body(), BODY_BYTES_MAX).collect().await {
        Ok(body) => Exchange::Answered(Reply { status, retry_after, body: body.to_bytes() }),
        Err(_) => Exchange::Lost,
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
        let request = Request::post("/").body(Full::new(Bytes::from_static(b"{}"))).expect("valid");
        connection.exchange(request, Duration::from_secs(5)).await
    }

    #[tokio::test]
    async fn a_whole_answer_is_read_and_the_connection_kept() {
        let mut connection = peer(&[ANSWER, ANSWER]).await;
        for _ in 0..2 {
            let Exchange::Answered(reply) = send(&mut connection).await else {
                panic!("no answer")
            };
            assert_eq!((reply.status, reply.body.as_ref()), (409, b"{}".as_ref()));
            assert_eq!(reply.retry_after, Some(Duration::from_secs(2)));
        }
    }

    #[tokio::test]
    async fn a_connection_closed_while_idle_was_surely_not_used() {
        let mut connection = peer(&[ANSWER]).await;
        assert!(matches!(send(&mut connection).await, Exchange::Answered(_)));
        // Until the peer's end of the connection has arrived here.
        tokio::time::sleep(Duration::from_millis(200)).await;
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
        let request = Request::post("/").body(Full::new(Bytes::new())).expect("valid");
        let end = connection.exchange(request, Duration::from_millis(50)).await;
        assert!(matches!(end, Exchange::TimedOut));
        assert!(!connection.is_open());
    }
}
