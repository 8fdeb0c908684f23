//! Requests byte by byte, for what no decent client would send.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::BOUND;

/// A connection on which nothing is put right.
pub struct Raw {
    stream: TcpStream,
    received: Vec<u8>,
}

/// What the other side said before it fell silent or closed.
#[derive(Clone, Debug)]
pub struct Heard {
    /// 0 when nothing was said.
    pub status: u16,
    pub head: String,
    pub text: String,
    pub json: Value,
}

impl Heard {
    /// Status and code.
    pub fn brief(&self) -> (u16, &str) {
        (self.status, self.json["code"].as_str().unwrap_or_default())
    }
}

impl Raw {
    pub async fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).await.expect("a connection");
        stream.set_nodelay(true).expect("an option");
        Self { stream, received: Vec::new() }
    }

    /// Sends bytes; answers whether the other side still took them.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).await.is_ok()
    }

    /// Sends piece by piece with a pause after each until the other side has answered or closed,
    /// at most for [`BOUND`].
    pub async fn trickle<T: AsRef<[u8]>>(
        &mut self,
        pieces: impl IntoIterator<Item = T>,
        pause: Duration,
    ) {
        let trickled = tokio::time::timeout(BOUND, async {
            let mut buffer = [0; 4096];
            for piece in pieces {
                tokio::select! {
                    read = self.stream.read(&mut buffer) => {
                        self.received.extend_from_slice(&buffer[..read.unwrap_or(0)]);
                        return;
                    }
                    () = tokio::time::sleep(pause) => {}
                }
                if !self.send(piece).await {
                    return;
                }
            }
        });
        trickled.await.expect("neither an answer nor an end");
    }

    /// No more is to come from here.
    pub async fn finish(&mut self) {
        // The other side may have closed first.
        let _ = self.stream.shutdown().await;
    }

    /// The next answer with its body, as long as its Content-Length says.
    pub async fn answer(&mut self) -> Heard {
        let read = tokio::time::timeout(BOUND, async {
            loop {
                if let Some((heard, used)) = parse(&self.received) {
                    self.received.drain(..used);
                    return heard;
                }
                let mut buffer = [0; 4096];
                match self.stream.read(&mut buffer).await {
                    Ok(0) | Err(_) => return silence(),
                    Ok(count) => self.received.extend_from_slice(&buffer[..count]),
                }
            }
        });
        read.await.expect("an answer or an end")
    }

    /// Whether the other side closes, whatever it says before, at most after [`BOUND`].
    pub async fn ends(&mut self) -> bool {
        let mut rest = Vec::new();
        tokio::time::timeout(BOUND, self.stream.read_to_end(&mut rest)).await.is_ok()
    }

    /// Whether the other side closes without another word, at most after [`BOUND`].
    pub async fn is_closed(&mut self) -> bool {
        if !self.received.is_empty() {
            return false;
        }
        let mut buffer = [0; 64];
        let read = tokio::time::timeout(BOUND, self.stream.read(&mut buffer)).await;
        matches!(read, Ok(Ok(0) | Err(_)))
    }
}

fn silence() -> Heard {
    Heard { status: 0, head: String::new(), text: String::new(), json: Value::Null }
}

/// A whole answer and how many bytes it has.
fn parse(received: &[u8]) -> Option<(Heard, usize)> {
    let end = received.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&received[..end]).to_lowercase();
    let status: u16 = head.split(' ').nth(1)?.parse().ok()?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.map_or(Some(0), |length| length.trim().parse().ok())?;
    let body = received.get(end..end + length)?;
    let text = String::from_utf8_lossy(body).into_owned();
    let json = serde_json::from_str(&text).unwrap_or(Value::Null);
    Some((Heard { status, head, text, json }, end + length))
}
