//! The one connection on which a process receives notifications, shared by all its locks on a server.
//!
//! **How it works.** Each process has a channel of its own. A refused contender leaves its token and
//! this channel in the queue of the name. A release grants the lock to the first contender in the
//! queue and publishes a message on its channel only. The token says which task it is for.
//!
//! | message | to | meaning |
//! |---|---|---|
//! | `token fence fences others attempt` | a contender | the lock is granted, with these fences |
//! | `token granted attempt` | a contender | a permit is granted, where there are no fences |
//! | `token look` | a contender for several names | one of them is free: ask again |
//! | `token wanted` | a holder | another process begins to wait |
//!
//! The last number of a grant is that of the attempt by which the contender entered the queue. A
//! contender that stood still may receive a grant whose lease is over, after a later attempt was
//! refused: then the number is too low, and the grant is dropped.
//!
//! **What can go wrong.** Redis keeps no messages, so they are lost while the connection is broken.
//! Then every subscription ends and its contender polls; a contender with a subscription also asks
//! again once in a while. A dead link is noticed by a ping.
//!
//! A Redis Cluster is not supported. There `PUBLISH` reaches every node, but answers only how many
//! subscribers its own node has. A contender that is subscribed at another node would count as gone,
//! and the release would grant the lock to the next one, although the first one receives its grant.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::redis::{Client, Msg, RedisResult};
use async_trait::async_trait;
use futures::StreamExt;
use tokio::sync::{Notify, watch};
use tokio::time::{interval, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::InvalidName;
use crate::redis::Keys;
use crate::store::{BackendError, Grant, Notifications, StoreResult, Subscription, Token};

/// How long connecting and subscribing may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long to wait before a lost connection is tried again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// How often the link is looked after, and how long the answer may take.
const PING_PERIOD: Duration = Duration::from_secs(5);

/// Receives the notifications for the locks of one process. Clones share one connection, which is
/// made when a lock first waits, and ends with the last clone and the last lock that has one.
#[derive(Clone)]
pub struct Subscriber {
    shared: Arc<Shared>,
    _end: Arc<DropGuard>,
}

struct Shared {
    channel: String,
    state: Mutex<State>,
    connected: watch::Sender<bool>,
    wanted: Notify,
}

#[derive(Default)]
struct State {
    connected: bool,
    listeners: HashMap<Arc<str>, Arc<Listener>>,
}

/// The subscription of one token, with the messages for it.
#[derive(Default)]
struct Listener {
    notified: Notify,
    granted: Mutex<Option<Granted>>,
    wanted: AtomicBool,
    cut_off: AtomicBool,
}

/// A grant and the number of its attempt: 0 where the message has none.
struct Granted {
    grant: Grant,
    attempt: u32,
}

impl Subscriber {
    /// Starts its task on `tasks`; nothing connects yet. The channel's name begins with `key_prefix`.
    /// Needs a tokio runtime.
    ///
    /// # Errors
    /// When the prefix is not valid.
    pub fn start(
        client: Client,
        key_prefix: &str,
        tasks: &TaskTracker,
    ) -> Result<Self, InvalidName> {
        Keys::new(key_prefix)?;
        let shared = Arc::new(Shared {
            channel: format!("{key_prefix}wake:{:032x}", rand::random::<u128>()),
            state: Mutex::default(),
            connected: watch::Sender::new(false),
            wanted: Notify::new(),
        });
        let end = CancellationToken::new();
        let (run, ended) = (run(client, Arc::clone(&shared)), end.clone());
        tasks.spawn(async move { ended.run_until_cancelled(run).await });
        Ok(Self { shared, _end: Arc::new(end.drop_guard()) })
    }

    /// Subscribes `token`, if there is a connection now.
    pub(super) fn listen(&self, token: &Token) -> Option<Subscription> {
        let mut state = self.shared.locked();
        if !state.connected {
            self.shared.wanted.notify_one();
            return None;
        }
        let listener = Arc::new(Listener::default());
        state.listeners.insert(Arc::clone(token.shared()), Arc::clone(&listener));
        drop(state);
        let (shared, token) = (Arc::clone(&self.shared), Arc::clone(token.shared()));
        Some(Box::new(Listening { shared, token, listener }))
    }

    /// Subscribes `token` as soon as there is a connection.
    pub(super) async fn watch(&self, token: &Token) -> StoreResult<Subscription> {
        let mut connected = self.shared.connected.subscribe();
        loop {
            if let Some(listening) = self.listen(token) {
                return Ok(listening);
            }
            if connected.wait_for(|connected| *connected).await.is_err() {
                return Err(BackendError("the subscriber has ended".to_owned()));
            }
        }
    }

    /// The channel on which `token` is notified: empty unless it is subscribed.
    pub(super) fn channel(&self, token: &Token) -> &str {
        let listens = self.shared.locked().listeners.contains_key(token.as_str());
        if listens { &self.shared.channel } else { "" }
    }
}

impl Shared {
    fn locked(&self) -> MutexGuard<'_, State> {
        // Nothing in here can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all subscriptions, since the connection is broken; contenders may subscribe again.
    fn cut_off(&self) {
        let listeners = {
            let mut state = self.locked();
            state.connected = false;
            std::mem::take(&mut state.listeners)
        };
        self.connected.send_replace(false);
        for listener in listeners.into_values() {
            listener.cut_off.store(true, Ordering::Release);
            listener.notified.notify_one();
        }
    }

    fn deliver_text(&self, message: &str) {
        let mut words = message.split(' ');
        let listener = words.next().and_then(|token| self.locked().listeners.get(token).cloned());
        // A contender that is no longer subscribed has given its grant back.
        let Some(listener) = listener else { return };
        let number = |word: Option<&str>| word.and_then(|word| word.parse().ok()).unwrap_or(0);
        match (words.next(), words.next(), words.next()) {
            (Some("wanted"), ..) => listener.wanted.store(true, Ordering::Release),
            (Some("granted"), attempt, _) => {
                let granted = Granted { grant: Grant::UNFENCED, attempt: number(attempt) };
                *listener.granted() = Some(granted);
                listener.notified.notify_one();
            }
            (Some("look"), ..) => listener.notified.notify_one(),
            (Some(fence), Some(fences), Some(others)) => {
                let (fence, fences) = (fence.parse(), fences.parse());
                if let (Ok(fence), Ok(fences)) = (fence, fences) {
                    let grant = Grant::block(fence, fences, others != "0");
                    *listener.granted() = Some(Granted { grant, attempt: number(words.next()) });
                }
                listener.notified.notify_one();
            }
            _ => {}
        }
    }
}

impl Listener {
    fn granted(&self) -> MutexGuard<'_, Option<Granted>> {
        self.granted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A subscription, until it is dropped.
struct Listening {
    shared: Arc<Shared>,
    token: Arc<str>,
    listener: Arc<Listener>,
}

#[async_trait]
impl Notifications for Listening {
    async fn next(&mut self) -> bool {
        self.listener.notified.notified().await;
        !self.listener.cut_off.load(Ordering::Acquire)
    }

    fn granted(&mut self, attempt: u32) -> Option<Grant> {
        let granted = self.listener.granted().take()?;
        (granted.attempt == attempt).then_some(granted.grant)
    }

    fn others_wait(&self) -> bool {
        let heard = |flag: &AtomicBool| flag.load(Ordering::Acquire);
        heard(&self.listener.wanted) || heard(&self.listener.cut_off)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.shared.locked().listeners.remove(&self.token);
    }
}

/// Keeps the connection, from the first subscription on.
async fn run(client: Client, shared: Arc<Shared>) {
    shared.wanted.notified().await;
    loop {
        if let Err(error) = listen(&client, &shared).await {
            tracing::debug!(%error, "no notifications of locks");
        }
        shared.cut_off();
        sleep(RECONNECT_PAUSE.mul_f64(rand::random_range(0.5..=1.0))).await;
    }
}

/// One connection from its beginning to its end.
async fn listen(client: &Client, shared: &Shared) -> RedisResult<()> {
    let connect = async {
        let mut connection = client.get_async_pubsub().await?;
        connection.subscribe(&shared.channel).await?;
        RedisResult::Ok(connection.split())
    };
    let (mut sink, mut messages) = within(CONNECT_TIMEOUT, connect).await?;
    shared.locked().connected = true;
    shared.connected.send_replace(true);
    let mut pings = interval(PING_PERIOD);
    loop {
        let ping = async {
            pings.tick().await;
            within(PING_PERIOD, sink.ping::<::redis::Value>()).await.map(drop)
        };
        tokio::pin!(ping);
        loop {
            tokio::select! {
                message = messages.next() => match message {
                    Some(message) => shared.deliver(&message),
                    None => return Ok(()),
                },
                alive = &mut ping => break alive?,
            }
        }
    }
}

async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = RedisResult<T>>,
) -> RedisResult<T> {
    let too_late = |_| std::io::Error::from(std::io::ErrorKind::TimedOut);
    timeout(limit, answer).await.map_err(too_late)?
}

impl Shared {
    fn deliver(&self, message: &Msg) {
        if let Ok(text) = std::str::from_utf8(message.get_payload_bytes()) {
            self.deliver_text(text);
        }
    }
}
