//! Proves that the service answers: over connections that no client can take.
//!
//! Each probe passes the task that accepts connections, and then, on every runtime, all that a request passes. It
//! needs no free connection: a service with as many clients as it may have is busy, and not dead.

use std::io;
use std::os::unix::net::UnixStream as StdStream;
use std::time::Duration;

use futures::future::try_join_all;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
/// How its answer begins.
const FINE: &[u8; 12] = b"HTTP/1.1 200";

/// Asks for a connection to each runtime.
pub(crate) type Question = oneshot::Sender<io::Result<Vec<StdStream>>>;

/// Asks the service whether it answers. Clones ask the same service.
#[derive(Clone)]
pub struct Prober(mpsc::Sender<Question>);

/// The questions of a [`Prober`], which the server answers.
pub struct Probes(pub(crate) mpsc::Receiver<Question>);

/// A prober, and the questions that the server has to be given.
pub fn prober() -> (Prober, Probes) {
    let channel = mpsc::channel(1);
    (Prober(channel.0), Probes(channel.1))
}

impl Prober {
    /// Asks every runtime for `/healthz`, and waits at most `bound` for all of them.
    ///
    /// # Errors
    /// What is wrong, as a sentence.
    pub async fn ask(&self, bound: Duration) -> Result<(), String> {
        let asked = tokio::time::timeout(bound, self.ask_all()).await;
        asked.unwrap_or_else(|_| Err(format!("no answer within {} ms", bound.as_millis())))
    }

    async fn ask_all(&self) -> Result<(), String> {
        let gone = || "the server has ended".to_owned();
        let question = oneshot::channel();
        self.0.send(question.0).await.map_err(|_| gone())?;
        let streams = question.1.await.map_err(|_| gone())?;
        let failed = |error: io::Error| format!("no connection to itself: {error}");
        let answers = streams
            .map_err(failed)?
            .into_iter()
            .map(async |stream| ask(UnixStream::from_std(stream).map_err(failed)?).await);
        try_join_all(answers).await.map(drop)
    }
}

/// Asks for `/healthz` on a connection.
///
/// # Errors
/// What else than 200 was answered, as a sentence.
pub async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Result<(), String> {
    let mut start = [0; FINE.len()];
    let failed = |error: io::Error| format!("no answer to /healthz: {error}");
    stream.write_all(REQUEST).await.map_err(failed)?;
    stream.read_exact(&mut start).await.map_err(failed)?;
    let other = || format!("/healthz answers {:?}", String::from_utf8_lossy(&start));
    (start == *FINE).then_some(()).ok_or_else(other)
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::get;
    use lifecycle::Lifecycle;
    use shop_metrics::Metrics;

    use super::*;
    use crate::address::Proxies;
    use crate::connection_limiter::ConnectionLimiter;
    use crate::runtimes::Runtimes;
    use crate::server::{self, ServerOptions};

    const LONG: Duration = Duration::from_secs(20);
    const SHORT: Duration = Duration::from_millis(100);

    /// A timer would go on when one runtime stands still; and no client can have a connection.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_runtime_has_to_answer() {
        let lifecycle = Lifecycle::new();
        let runtimes = Runtimes::start(2, &lifecycle.drained()).expect("threads");
        let one = runtimes.as_ref().expect("two").all()[1].clone();
        let options = ServerOptions {
            connections_max: 0,
            head_timeout: LONG,
            connection_limiter: ConnectionLimiter::new(0, Proxies::default(), false),
            write_timeout: LONG,
            runtimes,
        };
        let prober = prober();
        let routes = Router::new().route("/healthz", get(|| async { "fine" }));
        let (asking, metrics) = (lifecycle.clone(), Metrics::new());
        tokio::spawn(server::serve(Vec::new(), prober.1, routes, options, asking, metrics));
        let prober = prober.0;
        assert_eq!(prober.ask(LONG).await, Ok(()));
        let block = std::sync::mpsc::channel::<()>();
        one.spawn(async move { block.1.recv() });
        let silence = prober.ask(SHORT).await.expect_err("one stands still");
        assert_eq!(silence, "no answer within 100 ms");
        drop(block.0);
        assert_eq!(prober.ask(LONG).await, Ok(()));
        lifecycle.stop();
        lifecycle.run_until_stopped(LONG).await;
        assert_eq!(prober.ask(LONG).await, Err("the server has ended".to_owned()));
    }

    #[tokio::test]
    async fn another_answer_than_200_is_told() {
        let pair = UnixStream::pair().expect("a connection");
        let mut other = pair.1;
        other.write_all(b"HTTP/1.1 503 Service Unavailable\r\n\r\n").await.expect("written");
        let told = ask(pair.0).await.expect_err("it is not 200");
        assert!(told.ends_with("\"HTTP/1.1 503\""), "{told}");
        let closed = UnixStream::pair().expect("a connection");
        drop(closed.1);
        assert!(ask(closed.0).await.is_err());
    }
}
