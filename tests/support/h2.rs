//! A client of HTTP/2: any number of requests over one connection, without TLS.

use std::convert::Infallible;
use std::net::SocketAddr;

use axum::http::request;
use bytes::Bytes;
use futures::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::support::Answer;

/// What a request carries.
#[derive(Clone, Copy)]
pub enum Carried {
    /// The head says that there is nothing.
    Nothing,
    /// A body of these bytes, without a `content-length` header.
    Bytes(&'static str),
}

/// One connection.
pub struct Http2 {
    sender: SendRequest<BoxBody<Bytes, Infallible>>,
    authority: String,
}

impl Http2 {
    pub async fn connect(addr: SocketAddr) -> Self {
        Self::connect_with(addr, &Builder::new(TokioExecutor::new())).await
    }

    /// A connection whose streams take this many bytes that are not read.
    pub async fn connect_with_window(addr: SocketAddr, bytes: u32) -> Self {
        let mut builder = Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(bytes);
        Self::connect_with(addr, &builder).await
    }

    async fn connect_with(addr: SocketAddr, builder: &Builder<TokioExecutor>) -> Self {
        let stream = TcpStream::connect(addr).await.expect("a connection");
        Self::over(stream, addr.to_string(), builder).await
    }

    /// HTTP/2 over a connection that there is already.
    pub async fn over(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        authority: String,
        builder: &Builder<TokioExecutor>,
    ) -> Self {
        let (sender, connection) =
            builder.handshake(TokioIo::new(stream)).await.expect("HTTP/2 is spoken");
        // It ends with the last sender.
        tokio::spawn(connection);
        Self { sender, authority }
    }

    /// A request to be sent; the name of the host is in `:authority` alone.
    pub fn request(&self, method: Method, path: &str) -> request::Builder {
        Request::builder().method(method).uri(format!("http://{}{path}", self.authority))
    }

    /// Sends a request; answers as soon as the head of the answer is there.
    pub async fn open(&self, request: request::Builder, carried: Carried) -> Response<Incoming> {
        let body = match carried {
            Carried::Nothing => Empty::new().boxed(),
            Carried::Bytes(text) => {
                let frame = Frame::data(Bytes::from_static(text.as_bytes()));
                StreamBody::new(stream::iter([Ok(frame)])).boxed()
            }
        };
        let request = request.body(body).expect("a request");
        self.sender.clone().send_request(request).await.expect("an answer")
    }

    /// Sends a request and reads the answer to its end.
    pub async fn ask(&self, request: request::Builder, carried: Carried) -> Answer {
        read(self.open(request, carried).await).await
    }
}

/// Reads an answer to its end.
pub async fn read(answer: Response<Incoming>) -> Answer {
    let (head, body) = answer.into_parts();
    let bytes = body.collect().await.expect("a whole body").to_bytes();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let json = serde_json::from_str(&text).unwrap_or(Value::Null);
    Answer { status: head.status.as_u16(), headers: head.headers, text, json }
}
