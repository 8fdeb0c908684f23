//! Tells a holder at once that its hold is gone, by the server's own messages (RESP3 client tracking).
//!
//! **How it works.** A second connection to each primary reads the key of every hold that has lasted
//! for [`TRACKED_AFTER`], with `CLIENT TRACKING ON`: the server then sends one message when the key was
//! changed, deleted, flushed or has expired. The tracker reads the key again. If the owner is another
//! one, or none, the hold is lost; otherwise it was a renewal, and the read asks for the next message.
//! Shorter holds cost the server nothing.
//!
//! **When the connection breaks**, perhaps the server is gone with what it knew. The keys are read on
//! the shared connection, which finds the server that took over, and are then tracked there.
//!
//! **What can go wrong.** A server that refuses RESP3 or `CLIENT TRACKING` sends nothing, and an answer
//! that is an error proves nothing: then the next renewal finds out, as it does for every hold.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::redis::aio::ConnectionLike;
use ::redis::{
    Cmd, ErrorKind, PushInfo, PushKind, RedisError, RedisResult, Value, from_redis_value,
};
use ::redis_connection::{Node, SharedConnection, is_command_refused};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, interval, sleep};

use super::{Keys, tag};
use crate::LockName;
use crate::store::WatchedHold;
use crate::threads::locked;

/// How long to wait before a lost connection is tried again.
pub(super) const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// How often the link is looked after, and how long the answer may take.
pub(super) const PING_PERIOD: Duration = Duration::from_secs(5);
/// How long a hold lasts before its key is tracked: most holds end sooner.
const TRACKED_AFTER: Duration = Duration::from_millis(50);
/// When a key that could not be read is read again.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// When a server that refused is asked again: it may have been replaced.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);
/// Holds that wait to be tracked. Further ones are not tracked.
const WAITING_MAX: usize = 10_000;
/// Keys that are read in one pipeline.
const READ_TOGETHER_MAX: usize = 256;

/// A hold, and where its key is.
#[derive(Clone)]
pub(super) struct TrackedHold {
    hold: WatchedHold,
    keys: Keys,
    /// The field of a hash that has the owner; elsewhere the value begins with it.
    field: Option<&'static str>,
    /// Which name of a group; `None` for the whole group.
    part: Option<LockName>,
}

/// The holds of one program that are to be tracked.
#[derive(Default)]
pub(super) struct Tracker {
    waiting: Mutex<Vec<WaitingHold>>,
    added: Notify,
    /// Whether no server tells anything.
    is_refused: AtomicBool,
}

struct WaitingHold {
    due: Instant,
    hold: TrackedHold,
}

/// The holds whose keys one server watches, by their keys.
#[derive(Default)]
pub(super) struct Tracked(HashMap<String, Vec<TrackedHold>>);

impl TrackedHold {
    pub(super) fn new(hold: WatchedHold, keys: Keys, field: Option<&'static str>) -> Self {
        Self { hold, keys, field, part: None }
    }

    /// One for each key, while the hold lasts.
    fn parts(self) -> Vec<Self> {
        let Some(live) = self.hold.live() else { return Vec::new() };
        if self.part.is_some() {
            return vec![self];
        }
        live.name.parts().map(|part| Self { part: Some(part), ..self.clone() }).collect()
    }

    /// Whether `owner` has this hold. Otherwise it is lost, unless it was released.
    fn stays(&self, owner: Option<&str>) -> bool {
        let Some(live) = self.hold.live() else { return false };
        let is_ours = owner == Some(live.token.owner());
        if !is_ours {
            self.hold.lose();
        }
        is_ours
    }
}

impl Tracker {
    /// Tracks a hold if it lasts.
    pub(super) fn add(&self, hold: TrackedHold) {
        if !self.is_refused.load(Ordering::Relaxed) {
            self.add_due(Instant::now() + TRACKED_AFTER, [hold]);
        }
    }

    fn add_due(&self, due: Instant, holds: impl IntoIterator<Item = TrackedHold>) {
        let mut waiting = locked(&self.waiting);
        let was_empty = waiting.is_empty();
        let room = WAITING_MAX.saturating_sub(waiting.len());
        waiting.extend(holds.into_iter().take(room).map(|hold| WaitingHold { due, hold }));
        drop(waiting);
        if was_empty {
            self.added.notify_waiters();
        }
    }

    /// Takes the holds that are due and have their keys at `server`; forgets those that have ended.
    fn take_due(&self, servers: &SharedConnection, server: &Node) -> Vec<TrackedHold> {
        let now = Instant::now();
        let mut due = Vec::new();
        locked(&self.waiting).retain(|one| {
            let Some(live) = one.hold.hold.live() else { return false };
            let is_here = || {
                let owner = servers.server_of_tag(tag(&live.name));
                owner.is_some_and(|owner| owner.name() == server.name())
            };
            let stays = one.due > now || !is_here();
            if !stays {
                due.push(one.hold.clone());
            }
            stays
        });
        due
    }

    /// Waits until a hold may be due.
    async fn until_due(&self) {
        let added = self.added.notified();
        tokio::pin!(added);
        added.as_mut().enable();
        if locked(&self.waiting).is_empty() {
            added.await;
        }
        sleep(TRACKED_AFTER).await;
    }

    fn refuse(&self) {
        self.is_refused.store(true, Ordering::Relaxed);
        locked(&self.waiting).clear();
    }
}

impl Tracked {
    /// Gives all of them to `tracker`, which tracks them where their keys are now.
    pub(super) fn give_back(&mut self, tracker: &Tracker) {
        let holds = self.0.drain().flat_map(|entry| entry.1);
        tracker.add_due(Instant::now(), holds);
    }

    /// Adds holds, and answers their keys.
    fn insert(&mut self, holds: Vec<TrackedHold>) -> Vec<String> {
        let mut keys = Vec::new();
        for hold in holds.into_iter().flat_map(TrackedHold::parts) {
            let Some(part) = &hold.part else { continue };
            let key = hold.keys.lock(part);
            self.0.entry(key.clone()).or_default().push(hold);
            keys.push(key);
        }
        keys
    }

    fn all(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// The keys of a message of the server that are tracked: all after a flush.
    fn changed(&self, push: &PushInfo) -> Vec<String> {
        match push.data.first() {
            _ if push.kind != PushKind::Invalidate => Vec::new(),
            Some(Value::Array(keys)) => {
                let keys = keys.iter().filter_map(|key| from_redis_value(key.clone()).ok());
                keys.filter(|key| self.0.contains_key(key)).collect()
            }
            _ => self.all(),
        }
    }

    /// Reads the owners of keys. A hold whose key has another owner, or none, is lost.
    async fn read(
        &mut self,
        redis: &mut impl ConnectionLike,
        keys: &[String],
        tracker: &Tracker,
    ) -> RedisResult<()> {
        for keys in keys.chunks(READ_TOGETHER_MAX) {
            let mut pipeline = ::redis::pipe();
            for key in keys {
                let field = self.0.get(key).and_then(|holds| holds.first()?.field);
                pipeline.add_command(owner_of(key, field));
            }
            let answers = redis.req_packed_commands(&pipeline, 0, keys.len()).await?;
            for (key, answer) in keys.iter().zip(answers) {
                self.take_answer(key, answer, tracker);
            }
        }
        Ok(())
    }

    fn take_answer(&mut self, key: &str, answer: Value, tracker: &Tracker) {
        let Some(mut holds) = self.0.remove(key) else { return };
        let value = match answer.extract_error() {
            Ok(value) => from_redis_value::<Option<String>>(value).unwrap_or_default(),
            Err(error) if error.code() == Some("WRONGTYPE") => None,
            Err(_) => return tracker.add_due(Instant::now() + READ_AGAIN_AFTER, holds),
        };
        let owner = value.as_deref().and_then(|value| value.split(':').next());
        holds.retain(|hold| hold.stays(owner));
        if !holds.is_empty() {
            self.0.insert(key.to_owned(), holds);
        }
    }
}

fn owner_of(key: &str, field: Option<&str>) -> Cmd {
    let mut command = ::redis::cmd(if field.is_some() { "HGET" } else { "GET" });
    command.arg(key).arg(field);
    command
}

/// Tracks the holds whose keys are at `server`, for ever. Those in `tracked` are the caller's afterwards.
pub(super) async fn keep(
    server: &Node,
    servers: &SharedConnection,
    tracker: &Tracker,
    tracked: &mut Tracked,
) {
    loop {
        while tracked.0.is_empty() {
            tracker.until_due().await;
            tracked.insert(tracker.take_due(servers, server));
        }
        let Err(error) = track(server, servers, tracker, tracked).await;
        tracing::debug!(%error, server = server.name(), "holds are not tracked");
        if is_refused(&error) {
            tracker.refuse();
            tracked.0.clear();
            sleep(REFUSED_PAUSE).await;
            tracker.is_refused.store(false, Ordering::Relaxed);
            continue;
        }
        let keys = tracked.all();
        if tracked.read(&mut servers.clone(), &keys, tracker).await.is_ok() {
            tracked.give_back(tracker);
        }
        sleep(RECONNECT_PAUSE).await;
    }
}

/// One connection from its beginning to its end.
async fn track(
    server: &Node,
    servers: &SharedConnection,
    tracker: &Tracker,
    tracked: &mut Tracked,
) -> RedisResult<Infallible> {
    // A read is followed by one message at most, so there are never many.
    let (sender, mut pushes) = mpsc::unbounded_channel();
    let mut redis = server.pushing(sender).await?;
    ::redis::cmd("CLIENT").arg("TRACKING").arg("ON").exec_async(&mut redis).await?;
    let mut pings = interval(PING_PERIOD);
    let mut keys = tracked.all();
    loop {
        tracked.read(&mut redis, &keys, tracker).await?;
        keys = tokio::select! {
            push = pushes.recv() => match push {
                Some(push) if push.kind != PushKind::Disconnection => tracked.changed(&push),
                _ => return Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into()),
            },
            () = tracker.until_due() => Vec::new(),
            _ = pings.tick() => {
                ::redis::cmd("PING").exec_async(&mut redis).await?;
                Vec::new()
            }
        };
        while let Ok(push) = pushes.try_recv() {
            keys.extend(tracked.changed(&push));
        }
        keys.extend(tracked.insert(tracker.take_due(servers, server)));
    }
}

fn is_refused(error: &RedisError) -> bool {
    error.kind() == ErrorKind::RESP3NotSupported
        || error.code() == Some("NOPROTO")
        || is_command_refused(error)
}
