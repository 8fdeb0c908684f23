//! A connection to one member of a cluster at a time, and another one when that does not answer.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::stream::{self, StreamExt};
use hyper::http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::api::{LEASE_KEEP_ALIVE, LeaseRequest, LeaseResponse, RANGE, WATCH};
use super::api::{RangeRequest, RangeResponse};
use super::api::{WatchCreateRequest, WatchRequest, WatchResponse};
use crate::LEASE_MAX;
use crate::store::{BackendError, ask};

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
#[error("{0:?} is not the http address of an etcd server")]
pub struct InvalidEndpoint(String);

impl Client {
    /// Takes the members' addresses, such as `http://10.0.0.1:2379`, with commas between them.
    /// Connects when first used.
    ///
    /// # Errors
    /// When the list is empty or an address is not valid. Only plain `http` without a password is
    /// supported.
    pub fn new(endpoints: &str) -> Result<Self, InvalidEndpoint> {
        let member = |address: &str| {
            let invalid = || InvalidEndpoint(address.to_owned());
            if !address.starts_with("http://") || address.contains('@') {
                return Err(invalid());
            }
            let endpoint = Endpoint::from_shared(address.to_owned()).map_err(|_| invalid())?;
            Ok(endpoint.connect_timeout(CONNECT_TIMEOUT_MAX).tcp_nodelay(true))
        };
        let members: Vec<Endpoint> =
            endpoints.split(',').map(|address| member(address.trim())).collect::<Result<_, _>>()?;
        Ok(Self { members: members.into(), current: Arc::default() })
    }

    /// Asks for a sign of life, which takes a quorum.
    ///
    /// # Errors
    /// When there is none within half a second.
    pub async fn ping(&self) -> Result<(), String> {
        let question =
            RangeRequest { key: b"ping".to_vec(), keys_only: true, ..Default::default() };
        let answer = async {
            let mut member = self.member();
            member.ask::<_, RangeResponse>(RANGE, question).await.map(drop).map_err(backend_error)
        };
        ask(LEASE_MAX, answer).await.map_err(|BackendError(why)| why)
    }

    /// The member to ask now.
    pub(super) fn member(&self) -> Member<'_> {
        let mut current = self.locked();
        let left = current.left;
        let endpoint = &self.members[left % self.members.len()];
        let channel = current.channel.get_or_insert_with(|| endpoint.connect_lazy()).clone();
        Member { client: self, left, channel, awaits_answer: false }
    }

    fn leave(&self, left: usize) {
        let mut current = self.locked();
        if current.left == left {
            *current = Current { left: left.wrapping_add(1), channel: None };
        }
    }

    fn locked(&self) -> MutexGuard<'_, Current> {
        // Nothing in here can panic half-way through a change.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").field("members", &self.members).finish_non_exhaustive()
    }
}

/// One member, for commands that one member has to answer. When this is dropped before an answer has
/// come, the client moves on to the next member.
pub(super) struct Member<'a> {
    client: &'a Client,
    left: usize,
    channel: Channel,
    awaits_answer: bool,
}

impl Member<'_> {
    /// Sends one request and waits for its answer.
    pub(super) async fn ask<Q, A>(&mut self, path: &'static str, question: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.awaits_answer = true;
        let mut grpc = self.ready().await?;
        let codec = ProstCodec::<Q, A>::default();
        let path = PathAndQuery::from_static(path);
        let answer = grpc.unary(Request::new(question), path, codec).await;
        self.note(answer.map(tonic::Response::into_inner))
    }

    /// Renews a lease.
    pub(super) async fn keep_alive(&mut self, lease: i64) -> Result<LeaseResponse, Status> {
        self.awaits_answer = true;
        let mut grpc = self.ready().await?;
        let request = LeaseRequest { first: lease, second: 0 };
        let requests = Request::new(stream::iter([request]));
        let codec = ProstCodec::<LeaseRequest, LeaseResponse>::default();
        let path = PathAndQuery::from_static(LEASE_KEEP_ALIVE);
        let answer = async {
            let mut answers = grpc.streaming(requests, path, codec).await?.into_inner();
            let ended = || Status::unavailable("the stream ended before the answer");
            answers.message().await?.ok_or_else(ended)
        };
        let answer = answer.await;
        self.note(answer)
    }

    /// Watches for deletions. The stream ends by itself when the member loses its leader.
    pub(super) async fn watch(
        &mut self,
        create: WatchCreateRequest,
    ) -> Result<Streaming<WatchResponse>, Status> {
        self.awaits_answer = true;
        let mut grpc = self.ready().await?;
        let first = WatchRequest { create: Some(create) };
        // The watch lasts as long as the stream of requests.
        let mut requests = Request::new(stream::iter([first]).chain(stream::pending()));
        requests.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
        let answer = grpc.streaming(requests, PathAndQuery::from_static(WATCH), codec).await;
        self.note(answer.map(tonic::Response::into_inner))
    }

    async fn ready(&self) -> Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(grpc)
    }

    /// Notes whether the member answered. A refusal is an answer; any other error is none.
    fn note<T>(&mut self, answer: Result<T, Status>) -> Result<T, Status> {
        const REFUSALS: [Code; 3] =
            [Code::NotFound, Code::FailedPrecondition, Code::InvalidArgument];
        self.awaits_answer =
            answer.as_ref().is_err_and(|status| !REFUSALS.contains(&status.code()));
        answer
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        if self.awaits_answer {
            self.client.leave(self.left);
        }
    }
}

/// The error of a command that may or may not have run.
#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
pub(super) fn backend_error(status: Status) -> BackendError {
    BackendError(format!("etcd: {}", status.message()))
}
