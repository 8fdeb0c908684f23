//! The connections on which a program receives notifications, shared by all its locks: one to each
//! primary, and a second one while long holds are tracked.
//!
//! **How it works.** Each program has a channel of its own at each server. A refused contender
//! leaves its token and this channel in the queue of the name. A release grants the lock to the first contender in the
//! queue and publishes a message on its channel only. The token says which task it is for.
//!
//! | message | to | meaning |
//! |---|---|---|
//! | `token fence fences others attempt` | a contender | the lock is granted, with these fences |
//! | `token granted attempt` | a contender | a permit is granted, where there are no fences |
//! | `token look` | a contender for several names | one of them is free: ask again |
//! | `token wanted` | a holder | another client begins to wait |
//!
//! The last number of a grant is that of the attempt by which the contender entered the queue. A
//! contender that stood still may receive a grant whose lease is over, after a later attempt was
//! refused: then the number is too low, and the grant is dropped.
//!
//! **What can go wrong.** Redis keeps no messages, so they are lost while the connection is broken.
//! Then every subscription ends and its contender polls; a contender with a subscription also asks
//! again once in a while. A dead link is noticed by a ping.
//!
//! **Several servers.** In a cluster `PUBLISH` reaches every node and a replica hears what its primary
//! publishes, but the answer counts the listeners of one server. A contender that listens elsewhere
//! would count as gone and receive its grant nevertheless, while the script grants the lock to the next
//! one: two holders. So a script asks for the listeners of its own server *before* it grants
//! (`PUBSUB NUMSUB`), and there is one connection to each primary, with a channel of its own: its name
//! is that of the program and of the server. A contender names the channel of the server that has the
//! slot of its name. After a slot has moved it is skipped until it has asked again.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::redis::{Msg, RedisResult};
use ::redis_connection::{Node, SharedConnection};
use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{interval, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::InvalidName;
use crate::redis::Keys;
use crate::redis::tracker::{self, PING_PERIOD, RECONNECT_PAUSE, Tracked, TrackedHold, Tracker};
use crate::store::{BackendError, Grant, Notifications, StoreResult, Subscription, Token};
use crate::threads::locked;

/// How long connecting and subscribing may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Receives the notifications for the locks of one program. Clones share one connection, which is
/// made when a lock first waits, and ends with the last clone and the last lock that has one.
#[derive(Clone)]
pub struct Subscriber {
    shared: Arc<Shared>,
    _end: Arc<DropGuard>,
}

struct Shared {
    servers: SharedConnection,
    /// The beginning of the channels' names; the server's name follows.
    channel: String,
    state: Mutex<State>,
    tracker: Tracker,
    /// The number of connections that were made.
    connected: watch::Sender<u64>,
    end: CancellationToken,
    tasks: TaskTracker,
    /// The task that keeps the connections. It ends with its runtime; then the next contender starts
    /// it again on its own.
    task: Mutex<Option<AbortHandle>>,
}

#[derive(Default)]
struct State {
    /// The names of the servers to which there is a connection.
    connected: HashSet<Box<str>>,
    listeners: HashMap<Arc<str>, ServerListener>,
}

/// A subscription, and the name of the server whose channel notifies it.
struct ServerListener {
    server: Box<str>,
    listener: Arc<Listener>,
}

/// The subscription of one token, with the messages for it.
#[derive(Default)]
struct Listener {
    notified: Notify,
    granted: Mutex<Option<NumberedGrant>>,
    wanted: AtomicBool,
    cut_off: AtomicBool,
}

/// A grant and the number of its attempt: 0 where the message has none.
struct NumberedGrant {
    grant: Grant,
    attempt: u32,
}

impl Subscriber {
    /// Makes it; its task runs on `tasks` from the first wait on. `servers` is a
    /// [`SharedConnection`], or a client of redis-rs for one server. The channels' names begin with
    /// `key_prefix`.
    ///
    /// # Errors
    /// When the prefix is not valid.
    pub fn start(
        servers: impl Into<SharedConnection>,
        key_prefix: &str,
        tasks: &TaskTracker,
    ) -> Result<Self, InvalidName> {
        Keys::new(key_prefix)?;
        let end = CancellationToken::new();
        let shared = Arc::new(Shared {
            servers: servers.into(),
            channel: format!("{key_prefix}wake:{:032x}:", rand::random::<u128>()),
            state: Mutex::default(),
            tracker: Tracker::default(),
            connected: watch::Sender::default(),
            end: end.clone(),
            tasks: tasks.clone(),
            task: Mutex::default(),
        });
        Ok(Self { shared, _end: Arc::new(end.drop_guard()) })
    }

    /// Ends a hold at once when its key no longer belongs to it.
    pub(super) fn watch_hold(&self, hold: TrackedHold) {
        self.shared.tracker.add(hold);
    }

    /// Subscribes `token`, which waits for keys with the hash tag `tag`, if there is a connection to
    /// their server now.
    pub(super) fn listen(&self, token: &Token, tag: &str) -> Option<Subscription> {
        let server = self.shared.servers.server_of_tag(tag);
        let mut state = locked(&self.shared.state);
        let server = server.filter(|server| state.connected.contains(server.name()));
        let Some(server) = server else {
            drop(state);
            self.shared.keep_running();
            return None;
        };
        let listener = Arc::new(Listener::default());
        let placed =
            ServerListener { server: server.name().into(), listener: Arc::clone(&listener) };
        state.listeners.insert(Arc::clone(token.shared()), placed);
        drop(state);
        let shared = Arc::clone(&self.shared);
        let token = Arc::clone(token.shared());
        Some(Box::new(TokenSubscription { shared, token, listener }))
    }

    /// Subscribes `token` as soon as there is a connection.
    pub(super) async fn watch(&self, token: &Token, tag: &str) -> StoreResult<Subscription> {
        let mut connected = self.shared.connected.subscribe();
        loop {
            connected.mark_unchanged();
            if let Some(listening) = self.listen(token, tag) {
                return Ok(listening);
            }
            if connected.changed().await.is_err() {
                return Err(BackendError::new("the subscriber has ended"));
            }
        }
    }

    /// The channel on which `token` is notified by the server that has the keys with this hash tag
    /// now: empty unless it is subscribed.
    pub(super) fn channel(&self, token: &Token, tag: &str) -> String {
        let mut state = locked(&self.shared.state);
        let State { connected, listeners } = &mut *state;
        let Some(placed) = listeners.get_mut(token.as_str()) else { return String::new() };
        if let Some(server) = self.shared.servers.server_of_tag(tag)
            && server.name() != &*placed.server
            && connected.contains(server.name())
        {
            // The slot has moved.
            placed.server = server.name().into();
        }
        [&*self.shared.channel, &*placed.server].concat()
    }
}

impl Shared {
    /// Starts the task on this runtime, unless it runs.
    fn keep_running(self: &Arc<Self>) {
        let mut task = locked(&self.task);
        if task.as_ref().is_none_or(AbortHandle::is_finished) {
            let run = run(Arc::clone(self));
            let end = self.end.clone();
            *task = Some(
                self.tasks.spawn(async move { end.run_until_cancelled(run).await }).abort_handle(),
            );
        }
    }

    /// Ends all subscriptions at a server, since its connection is broken; contenders may subscribe
    /// again.
    fn cut_off(&self, server: &str) {
        let listeners: Vec<_> = {
            let mut state = locked(&self.state);
            state.connected.remove(server);
            state.listeners.extract_if(|_, placed| &*placed.server == server).collect()
        };
        for (_, ServerListener { listener, .. }) in listeners {
            listener.cut_off.store(true, Ordering::Release);
            listener.notified.notify_one();
        }
    }

    fn deliver(&self, message: &Msg) {
        let Ok(text) = std::str::from_utf8(message.get_payload_bytes()) else { return };
        let mut words = text.split(' ');
        let listener = words.next().and_then(|token| {
            locked(&self.state).listeners.get(token).map(|placed| Arc::clone(&placed.listener))
        });
        // A contender that is no longer subscribed has given its grant back.
        let Some(listener) = listener else { return };
        let number = |word: Option<&str>| word.and_then(|word| word.parse().ok()).unwrap_or(0);
        match (words.next(), words.next(), words.next()) {
            (Some("wanted"), ..) => listener.wanted.store(true, Ordering::Release),
            (Some("granted"), attempt, _) => {
                let granted = NumberedGrant { grant: Grant::UNFENCED, attempt: number(attempt) };
                *locked(&listener.granted) = Some(granted);
                listener.notified.notify_one();
            }
            (Some("look"), ..) => listener.notified.notify_one(),
            (Some(fence), Some(fences), Some(others)) => {
                let fence = fence.parse();
                let fences = fences.parse();
                if let (Ok(fence), Ok(fences)) = (fence, fences) {
                    let grant = Grant::block(fence, fences, others != "0");
                    *locked(&listener.granted) =
                        Some(NumberedGrant { grant, attempt: number(words.next()) });
                }
                listener.notified.notify_one();
            }
            _ => {}
        }
    }
}

/// A subscription, until it is dropped.
struct TokenSubscription {
    shared: Arc<Shared>,
    token: Arc<str>,
    listener: Arc<Listener>,
}

#[async_trait]
impl Notifications for TokenSubscription {
    async fn next(&mut self) -> bool {
        self.listener.notified.notified().await;
        !self.listener.cut_off.load(Ordering::Acquire)
    }

    fn granted(&mut self, attempt: u32) -> Option<Grant> {
        let granted = locked(&self.listener.granted).take()?;
        (granted.attempt == attempt).then_some(granted.grant)
    }

    fn others_wait(&self) -> bool {
        let heard = |flag: &AtomicBool| flag.load(Ordering::Acquire);
        heard(&self.listener.wanted) || heard(&self.listener.cut_off)
    }
}

impl Drop for TokenSubscription {
    fn drop(&mut self) {
        locked(&self.shared.state).listeners.remove(&self.token);
    }
}

/// Ends all subscriptions when the connections end with their task.
struct EndOfConnections<'a>(&'a Shared);

impl Drop for EndOfConnections<'_> {
    fn drop(&mut self) {
        let servers: Vec<_> = locked(&self.0.state).connected.iter().cloned().collect();
        servers.iter().for_each(|server| self.0.cut_off(server));
    }
}

/// Keeps a connection to each primary, from the first subscription on.
async fn run(shared: Arc<Shared>) {
    let _cut_off = EndOfConnections(&shared);
    let mut primaries = shared.servers.watch_primaries();
    let mut followed: HashMap<Box<str>, CancellationToken> = HashMap::new();
    let mut connections = FuturesUnordered::new();
    loop {
        let now = primaries.now();
        followed.retain(|name, end| {
            let stays = now.iter().any(|primary| primary.name() == &**name);
            if !stays {
                end.cancel();
            }
            stays
        });
        for primary in &now {
            followed.entry(primary.name().into()).or_insert_with(|| {
                let end = CancellationToken::new();
                connections.push(follow(primary.clone(), Arc::clone(&shared), end.clone()));
                end
            });
        }
        tokio::select! {
            () = primaries.changed() => {}
            Some(()) = connections.next() => {}
            () = find(&shared.servers), if now.is_empty() => {}
        }
    }
}

/// Finds the primaries, which no command has needed yet.
async fn find(servers: &SharedConnection) {
    if servers.primaries().await.is_err() {
        sleep(RECONNECT_PAUSE).await;
    }
}

/// Keeps the connection to one primary until `end` is cancelled.
async fn follow(server: Node, shared: Arc<Shared>, end: CancellationToken) {
    let hear = async {
        loop {
            if let Err(error) = listen(&server, &shared).await {
                tracing::debug!(%error, server = server.name(), "no notifications of locks");
            }
            shared.cut_off(server.name());
            sleep(RECONNECT_PAUSE.mul_f64(rand::random_range(0.5..=1.0))).await;
        }
    };
    let mut tracked = Tracked::default();
    let keep = async {
        let track = tracker::keep(&server, &shared.servers, &shared.tracker, &mut tracked);
        tokio::join!(hear, track)
    };
    let _: Option<((), ())> = end.run_until_cancelled(keep).await;
    tracked.give_back(&shared.tracker);
    shared.cut_off(server.name());
}

/// One connection from its beginning to its end.
async fn listen(server: &Node, shared: &Shared) -> RedisResult<()> {
    let connect = async {
        let mut connection = server.subscribe().await?;
        connection.subscribe([&*shared.channel, server.name()].concat()).await?;
        RedisResult::Ok(connection.split())
    };
    let (mut sink, mut messages) = within(CONNECT_TIMEOUT, connect).await?;
    locked(&shared.state).connected.insert(server.name().into());
    shared.connected.send_modify(|count| *count += 1);
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
