//! A connection that gives up on a client which does not read.
//!
//! A page that went to sleep, or a reader that is slower than the events, would otherwise have its
//! answer buffered, by us and by the kernel, for as long as it likes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// A TCP stream whose writes fail once the other side has taken nothing for `patience`.
pub(super) struct Patient {
    stream: TcpStream,
    patience: Duration,
    /// Set while a write waits.
    running_out: Option<Pin<Box<Sleep>>>,
    dropped: Counter,
}

impl Patient {
    /// Wraps a stream; `dropped` counts the readers that were given up.
    pub(super) fn new(stream: TcpStream, patience: Duration, dropped: Counter) -> Self {
        Self { stream, patience, running_out: None, dropped }
    }

    /// Judges a write: done, still worth waiting for, or given up.
    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.running_out = None;
            return written;
        }
        let patience = self.patience;
        let running_out =
            self.running_out.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(running_out.as_mut().poll(context));
        self.running_out = None;
        self.dropped.inc();
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.judge(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
