//! A connection to one member of a cluster at a time, and another one when that does not answer.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::stream::{self, StreamExt};
use hyper::http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::api::{AUTHENTICATE, LEASE_KEEP_ALIVE, LeaseRequest, LeaseResponse, RANGE, WATCH};
use super::api::{RangeRequest, RangeResponse};
use super::api::{WatchCreateRequest, WatchRequest, WatchResponse};
use super::login::Login;
use crate::LEASE_MAX;
use crate::store::{BackendError, ask};
use crate::threads::locked;

/// How long one attempt to connect may take.
const CONNECT_TIMEOUT_MAX: Duration = Duration::from_millis(500);

/// A client of one etcd cluster. Cheap to clone; clones share their connection.
///
/// It talks to one member until a call gets no answer (an error, a time-out, or a caller that goes
/// away), then to the next member of the list, over a new connection. So neither a dead member nor a
/// link that swallows everything is used twice in a row.
#[derive(Clone)]
pub struct Client {
    members: Arc<[Endpoint]>,
    current: Arc<Mutex<Current>>,
    login: Option<Arc<Login>>,
}

#[derive(Default)]
struct Current {
    /// Rises each time a connection is given up, so that many callers give up one connection once.
    left: usize,
    /// Made by the first call, since it needs a runtime.
    channel: Option<Channel>,
}

/// Why a list of addresses is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{address:?} is not the address of an etcd server: {why}")]
pub struct InvalidEndpoint {
    address: String,
    why: &'static str,
}

impl Client {
    /// Takes the members' addresses, such as `http://10.0.0.1:2379`, with commas between them.
    /// Connects when first used. An address with `https` means TLS, with the roots of the system; it
    /// needs the feature `etcd-tls`.
    ///
    /// # Errors
    /// When the list is empty or an address is not valid. A password does not belong into an address:
    /// see [`with_password`](Self::with_password).
    pub fn new(endpoints: &str) -> Result<Self, InvalidEndpoint> {
        let members: Vec<Endpoint> =
            endpoints.split(',').map(|address| member(address.trim())).collect::<Result<_, _>>()?;
        Ok(Self { members: members.into(), current: Arc::default(), login: None })
    }

    /// Logs in as this user. Without TLS the password goes over the network as it is.
    #[must_use]
    pub fn with_password(self, user: &str, password: &str) -> Self {
        Self { login: Some(Arc::new(Login::new(user, password))), current: Arc::default(), ..self }
    }

    /// Uses these certificates with all members whose addresses have `https`.
    ///
    /// # Errors
    /// When a certificate or a key cannot be read.
    #[cfg(feature = "etcd-tls")]
    pub fn with_certificates(self, certificates: &Certificates) -> Result<Self, InvalidEndpoint> {
        let certified = |member: &Endpoint| match member.uri().scheme_str() {
            Some("https") => encrypted(member.clone(), certificates),
            _ => Ok(member.clone()),
        };
        let members: Vec<Endpoint> =
            self.members.iter().map(certified).collect::<Result<_, _>>()?;
        Ok(Self { members: members.into(), current: Arc::default(), ..self })
    }

    /// Asks for a sign of life, which takes a quorum.
    ///
    /// # Errors
    /// When there is none within half a second.
    pub async fn ping(&self) -> Result<(), String> {
        let question =
            RangeRequest { key: b"ping".to_vec(), keys_only: true, ..Default::default() };
        let answer = async {
            let member = self.member();
            member.ask::<_, RangeResponse>(RANGE, question).await.map(drop).map_err(backend_error)
        };
        ask(LEASE_MAX, answer).await.map_err(|error| error.to_string())
    }

    /// The member to ask now.
    pub(super) fn member(&self) -> Member<'_> {
        let mut current = locked(&self.current);
        let left = current.left;
        let endpoint = &self.members[left % self.members.len()];
        let channel = current.channel.get_or_insert_with(|| endpoint.connect_lazy()).clone();
        Member { client: self, left, channel, awaits_answer: AtomicBool::new(false) }
    }

    fn leave(&self, left: usize) {
        let mut current = locked(&self.current);
        if current.left == left {
            *current = Current { left: left.wrapping_add(1), channel: None };
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").field("members", &self.members).finish_non_exhaustive()
    }
}

fn member(address: &str) -> Result<Endpoint, InvalidEndpoint> {
    let invalid = |why| InvalidEndpoint { address: address.to_owned(), why };
    if address.contains('@') {
        return Err(InvalidEndpoint { address: String::new(), why: "it has a user or a password" });
    }
    let endpoint = Endpoint::from_shared(address.to_owned());
    let endpoint = endpoint.map_err(|_| invalid("it is no URL"))?;
    let endpoint = endpoint.connect_timeout(CONNECT_TIMEOUT_MAX).tcp_nodelay(true);
    match endpoint.uri().scheme_str() {
        Some("http") => Ok(endpoint),
        #[cfg(feature = "etcd-tls")]
        Some("https") => encrypted(endpoint, &Certificates::default()),
        #[cfg(not(feature = "etcd-tls"))]
        Some("https") => Err(invalid("https needs the feature etcd-tls")),
        _ => Err(invalid("it begins neither with http:// nor with https://")),
    }
}

/// Certificates for TLS, in PEM.
#[cfg(feature = "etcd-tls")]
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Certificates {
    /// The roots that a member's certificate must come from; `None`: those of the system.
    pub roots: Option<Vec<u8>>,
    /// The certificate with which this client proves itself, and its key.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
}

#[cfg(feature = "etcd-tls")]
fn encrypted(endpoint: Endpoint, of: &Certificates) -> Result<Endpoint, InvalidEndpoint> {
    use tonic::transport::{Certificate, ClientTlsConfig, Identity};
    let address = endpoint.uri().to_string();
    let mut config = match &of.roots {
        Some(roots) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(roots)),
        None => ClientTlsConfig::new().with_native_roots(),
    };
    if let Some((certificate, key)) = &of.client {
        config = config.identity(Identity::from_pem(certificate, key));
    }
    let why = "its certificates cannot be read";
    endpoint.tls_config(config).map_err(|_| InvalidEndpoint { address, why })
}

/// One member, for commands that one member has to answer. When this is dropped before an answer has
/// come, the client moves on to the next member.
pub(super) struct Member<'a> {
    client: &'a Client,
    left: usize,
    channel: Channel,
    awaits_answer: AtomicBool,
}

impl Member<'_> {
    /// Sends one request and waits for its answer.
    pub(super) async fn ask<Q, A>(&self, path: &'static str, question: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.noted(async { self.unary(path, self.request(question).await?).await }).await
    }

    /// Renews a lease.
    pub(super) async fn keep_alive(&self, lease: i64) -> Result<LeaseResponse, Status> {
        let request = LeaseRequest { first: lease, second: 0 };
        let codec = ProstCodec::<LeaseRequest, LeaseResponse>::default();
        let path = PathAndQuery::from_static(LEASE_KEEP_ALIVE);
        self.noted(async {
            let requests = self.request(stream::iter([request])).await?;
            let mut grpc = self.ready().await?;
            let mut answers = grpc.streaming(requests, path, codec).await?.into_inner();
            let ended = || Status::unavailable("the stream ended before the answer");
            answers.message().await?.ok_or_else(ended)
        })
        .await
    }

    /// Watches for deletions. The stream ends by itself when the member loses its leader.
    pub(super) async fn watch(
        &self,
        create: WatchCreateRequest,
    ) -> Result<Streaming<WatchResponse>, Status> {
        let first = WatchRequest { create: Some(create) };
        let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
        self.noted(async {
            // The watch lasts as long as the stream of requests.
            let requests = stream::iter([first]).chain(stream::pending());
            let mut requests = self.request(requests).await?;
            requests.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
            let mut grpc = self.ready().await?;
            let answer = grpc.streaming(requests, PathAndQuery::from_static(WATCH), codec).await;
            answer.map(tonic::Response::into_inner)
        })
        .await
    }

    /// A request with the token of our login, if there is one.
    async fn request<T>(&self, message: T) -> Result<Request<T>, Status> {
        let mut request = Request::new(message);
        if let Some(login) = &self.client.login {
            let token = match login.token() {
                Some(token) => token,
                None => {
                    let question = Request::new(login.question());
                    login.accepted(self.unary(AUTHENTICATE, question).await?)?
                }
            };
            request.metadata_mut().insert("token", token);
        }
        Ok(request)
    }

    async fn unary<Q, A>(&self, path: &'static str, request: Request<Q>) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.ready().await?;
        let codec = ProstCodec::<Q, A>::default();
        let answer = grpc.unary(request, PathAndQuery::from_static(path), codec).await;
        answer.map(tonic::Response::into_inner)
    }

    async fn ready(&self) -> Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(grpc)
    }

    /// Waits for an answer, and notes whether the member gave one. A refusal is an answer; any other error is none.
    async fn noted<T>(&self, answer: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        const REFUSALS: [Code; 5] = [
            Code::NotFound,
            Code::FailedPrecondition,
            Code::InvalidArgument,
            Code::Unauthenticated,
            Code::PermissionDenied,
        ];
        self.awaits_answer.store(true, Ordering::Relaxed);
        let answer = answer.await;
        if let (Err(status), Some(login)) = (&answer, &self.client.login) {
            login.note(status);
        }
        let is_none = answer.as_ref().is_err_and(|status| !REFUSALS.contains(&status.code()));
        self.awaits_answer.store(is_none, Ordering::Relaxed);
        answer
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        if *self.awaits_answer.get_mut() {
            self.client.leave(self.left);
        }
    }
}

/// The error of a command that may or may not have run.
pub(super) fn backend_error(status: Status) -> BackendError {
    BackendError::new(format!("etcd: {}", status.message())).with_source(status)
}
