//! The client: the address is checked after its name was resolved, redirects are not followed, and answers have a
//! limit.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_util::task::AbortOnDropHandle;

use super::target::{PrivateNetworks, Target};
use super::tls;

/// How long the rest of an answer may take whose status is known, for its connection to be kept.
const REST_MAX: Duration = Duration::from_secs(1);

/// Sends requests to other systems. Clones share the trusted certificates.
#[derive(Clone)]
pub struct HttpsClient {
    networks: PrivateNetworks,
    tls: Arc<ClientConfig>,
    /// How long one request may take, from the look-up of the name to the answer, with its body where that is read.
    pub timeout: Duration,
}

/// A connection, which may serve one request after another.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    _driver: AbortOnDropHandle<()>,
}

/// A stream of bytes, encrypted or not.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl HttpsClient {
    /// A client that reaches public addresses and `networks`, and trusts the authorities of the system and those in
    /// the PEM file `ca_file`, unless its name is empty.
    ///
    /// # Errors
    /// A sentence for the operator, which begins with the name of a setting.
    pub fn new(
        networks: PrivateNetworks,
        ca_file: &Path,
        timeout: Duration,
    ) -> Result<Self, String> {
        let tls = tls::client(ca_file).map_err(|why| format!("ca_file cannot be used: {why}"))?;
        Ok(Self { networks, tls: Arc::new(tls), timeout })
    }

    /// Sends a request to `target`, and reads the answer up to `bytes_max`: JSON, unless the request asks for
    /// something else.
    ///
    /// # Errors
    /// A sentence for the log.
    pub async fn fetch(
        &self,
        target: &Target,
        mut request: Request<Full<Bytes>>,
        bytes_max: usize,
    ) -> Result<(StatusCode, Bytes), String> {
        let exchange = async {
            let json = HeaderValue::from_static("application/json");
            request.headers_mut().entry(ACCEPT).or_insert(json);
            let answer = self.connect(target).await?.send(target, request).await?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), bytes_max).collect().await;
            let body = body.map_err(|error| format!("answer not read: {error}"))?;
            Ok((status, body.to_bytes()))
        };
        self.in_time(exchange).await
    }

    /// Sends a request without an address of its own to `target`, over `kept` if it is usable, and returns the status.
    /// The connection is kept if the rest of the answer has at most `bytes_max`, and comes soon.
    ///
    /// # Errors
    /// A sentence for the log. The receiver may have got the request all the same.
    pub async fn send(
        &self,
        target: &Target,
        request: Request<Full<Bytes>>,
        kept: &mut Option<Connection>,
        bytes_max: usize,
    ) -> Result<StatusCode, String> {
        let usable = kept.take().filter(|kept| !kept.sender.is_closed());
        let mut used = None;
        let exchange = async {
            let connection = match usable {
                Some(kept) => kept,
                None => self.connect(target).await?,
            };
            used.insert(connection).send(target, request).await
        };
        let answer = self.in_time(exchange).await?;
        let status = answer.status();
        // The status tells what became of the request, also if the rest of the answer never ends.
        let rest = Limited::new(answer.into_body(), bytes_max).collect();
        if let Ok(Ok(_)) = tokio::time::timeout(REST_MAX, rest).await {
            *kept = used;
        }
        Ok(status)
    }

    async fn in_time<T>(
        &self,
        exchange: impl Future<Output = Result<T, String>>,
    ) -> Result<T, String> {
        match tokio::time::timeout(self.timeout, exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer within {} ms", self.timeout.as_millis())),
        }
    }

    async fn connect(&self, target: &Target) -> Result<Connection, String> {
        let found = tokio::net::lookup_host((target.host.as_str(), target.port)).await;
        let found = found.map_err(|error| format!("host name not resolved: {error}"))?;
        let found: Vec<SocketAddr> = found.collect();
        let permitted: Vec<SocketAddr> = found
            .iter()
            .copied()
            .filter(|address| self.networks.permit(address.ip(), target.tls))
            .collect();
        if permitted.is_empty() {
            let first = found.first().map_or_else(|| "none".to_owned(), |one| one.ip().to_string());
            return Err(format!(
                "address {first} not permitted: use https and a public address, or name its network in the setting private_networks"
            ));
        }
        let stream = TcpStream::connect(&*permitted).await;
        let stream = stream.map_err(|error| format!("not connected: {error}"))?;
        let _ = stream.set_nodelay(true);
        let stream: Box<dyn Stream> = if target.tls {
            let name = ServerName::try_from(target.host.clone());
            let name = name.map_err(|_| "host name not fit for a certificate".to_owned())?;
            let connected = TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await;
            Box::new(connected.map_err(|error| format!("no encrypted connection: {error}"))?)
        } else {
            Box::new(stream)
        };
        let (sender, driver) =
            handshake(TokioIo::new(stream)).await.map_err(|error| format!("no HTTP: {error}"))?;
        let driver = tokio::spawn(async move {
            // An error shows in the request that it breaks.
            let _ = driver.await;
        });
        Ok(Connection { sender, _driver: AbortOnDropHandle::new(driver) })
    }
}

impl Connection {
    /// Sends a request to the path of `target`.
    async fn send(
        &mut self,
        target: &Target,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, String> {
        *request.uri_mut() = target.path.parse().map_err(|_| "path not usable".to_owned())?;
        let host = target.authority.parse().map_err(|_| "host not usable".to_owned())?;
        let agent = HeaderValue::from_static(concat!("seckill/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert(HOST, host);
        request.headers_mut().insert(USER_AGENT, agent);
        let answer = self.sender.send_request(request).await;
        answer.map_err(|error| format!("connection broken off: {error}"))
    }
}
