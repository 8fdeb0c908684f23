//! The contenders of this client: one per token, with a hold or a queue position at the servers.
//!
//! A session keeps every node of a living process. So a node that was not renewed in time, whose
//! contender was refused and never came back, or that could not be deleted, is deleted from here when
//! its time is over.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use zookeeper_client::{Client, Error};

use crate::store::{Notifications, StoreResult, Subscription, Token};
use crate::threads::locked;

/// How long a queue position is kept after its contender's last attempt. There is one every second.
pub(super) const QUEUED_MAX: Duration = Duration::from_secs(5);

/// The pause before a deletion that was not answered is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// How long one deletion may take.
const LEAVE_MAX: Duration = Duration::from_millis(500);

/// The nodes of one token.
#[derive(Clone)]
pub(super) struct Contender {
    /// The session of its nodes. They are never carried over into another session.
    pub(super) client: Client,
    /// The directory of the name, or the nodes themselves.
    pub(super) paths: Vec<String>,
    /// Its node, once the server has confirmed it. Of several nodes, which come and go together, the
    /// one that only this token has.
    pub(super) node: Option<Node>,
    /// Whether a command was sent whose answer is not known.
    pub(super) unsure: bool,
    /// When it is over, unless it is renewed before.
    pub(super) until: Instant,
    /// What it waits for.
    pub(super) ahead: Option<Ahead>,
}

/// A node that is ours.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) path: String,
    /// The transaction that made it.
    pub(super) made_by: i64,
    /// Its fence, once it was granted.
    pub(super) fence: Option<u64>,
}

/// The nodes that must change before the next attempt is worth it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ahead {
    /// This node.
    Node(String),
    /// Any node in this directory.
    Children(String),
}

/// All contenders of one lock.
pub(super) struct Contenders {
    state: Mutex<State>,
    earlier: Arc<Notify>,
    /// Starts the sweeper on the present runtime.
    start: Box<dyn Fn() -> AbortHandle + Send + Sync>,
    /// The sweeper. It ends with its runtime; then the next contender starts it again on its own.
    sweeper: Mutex<Option<AbortHandle>>,
    _end: DropGuard,
}

#[derive(Default)]
struct State {
    by_token: HashMap<String, Contender>,
    /// When the sweeper wakes up by itself.
    alarm: Option<Instant>,
}

/// Something that can delete what a token has.
#[async_trait]
pub(super) trait Nodes: Send + Sync + 'static {
    /// Deletes it; `false` when there was nothing of ours.
    async fn leave(&self, contender: &Contender, token: &str) -> StoreResult<bool>;

    fn contenders(&self) -> &Arc<Contenders>;
}

impl Contenders {
    /// Makes a store around its contenders. What they leave is deleted by a task on `tasks`.
    pub(super) fn serve<S: Nodes>(
        tasks: &TaskTracker,
        make: impl FnOnce(Arc<Self>) -> S,
    ) -> Arc<S> {
        Arc::new_cyclic(|swept| {
            let ended = CancellationToken::new();
            let earlier = Arc::new(Notify::new());
            let swept = Weak::clone(swept);
            let tasks = tasks.clone();
            make(Arc::new(Self {
                state: Mutex::default(),
                earlier: Arc::clone(&earlier),
                sweeper: Mutex::default(),
                _end: ended.clone().drop_guard(),
                start: Box::new(move || {
                    let sweep = sweep(Weak::clone(&swept), Arc::clone(&earlier));
                    let ended = ended.clone();
                    tasks
                        .spawn(async move { ended.run_until_cancelled(sweep).await })
                        .abort_handle()
                }),
            }))
        })
    }

    fn keep_sweeping(&self) {
        let mut sweeper = locked(&self.sweeper);
        if sweeper.as_ref().is_none_or(AbortHandle::is_finished) {
            *sweeper = Some((self.start)());
        }
    }

    /// The token's contender in this session, as it was before the command that follows; until its
    /// answer, a contender without a node is unsure. One of an earlier session is forgotten: that
    /// session is over.
    pub(super) fn enter(
        &self,
        token: &str,
        client: &Client,
        paths: &[String],
        until: Instant,
    ) -> Contender {
        self.keep_sweeping();
        let mut state = locked(&self.state);
        let contender = state.by_token.entry(token.to_owned());
        let contender = contender.or_insert_with(|| Contender::new(client, paths, until));
        if contender.client.session_id() != client.session_id() {
            *contender = Contender::new(client, paths, until);
        }
        contender.until = contender.until.max(until);
        let before = contender.clone();
        contender.unsure = contender.node.is_none();
        self.wake_before(&state, until);
        before
    }

    /// Changes the token's contender, if there still is one; returns whether there is.
    pub(super) fn update(&self, token: &str, change: impl FnOnce(&mut Contender)) -> bool {
        let mut state = locked(&self.state);
        let Some(contender) = state.by_token.get_mut(token) else { return false };
        change(contender);
        let until = contender.until;
        self.wake_before(&state, until);
        true
    }

    pub(super) fn get(&self, token: &str) -> Option<Contender> {
        locked(&self.state).by_token.get(token).cloned()
    }

    pub(super) fn remove(&self, token: &str) -> Option<Contender> {
        locked(&self.state).by_token.remove(token)
    }

    /// Puts a contender back whose nodes could not be deleted, to be swept a little later.
    pub(super) fn put_back(&self, token: &str, contender: Contender) {
        let until = Instant::now() + RETRY_PAUSE;
        let mut state = locked(&self.state);
        state.by_token.entry(token.to_owned()).or_insert(Contender { until, ..contender });
        self.wake_before(&state, until);
    }

    fn wake_before(&self, state: &State, until: Instant) {
        if state.alarm.is_none_or(|alarm| until < alarm) {
            self.earlier.notify_one();
        }
    }

    /// Takes out the contenders whose time is over.
    fn take_over(&self) -> Vec<(String, Contender)> {
        let now = Instant::now();
        let mut state = locked(&self.state);
        let over = state.by_token.extract_if(|_, contender| contender.until <= now).collect();
        state.alarm = None;
        over
    }

    fn set_alarm(&self) -> Option<Instant> {
        let mut state = locked(&self.state);
        state.alarm = state.by_token.values().map(|contender| contender.until).min();
        state.alarm
    }
}

impl Contender {
    fn new(client: &Client, paths: &[String], until: Instant) -> Self {
        let client = client.clone();
        let paths = paths.to_vec();
        Self { client, paths, node: None, unsure: false, until, ahead: None }
    }
}

impl Drop for Contenders {
    fn drop(&mut self) {
        for contender in locked(&self.state).by_token.values() {
            let Some(node) = &contender.node else { continue };
            let nodes = if contender.paths.contains(&node.path) {
                contender.paths.as_slice()
            } else {
                std::slice::from_ref(&node.path)
            };
            let mut writer = contender.client.new_multi_writer();
            if nodes.iter().all(|path| writer.add_delete(path, None).is_ok()) {
                // Sent at once, and nobody waits for the answer.
                drop(writer.commit());
            }
        }
    }
}

/// Deletes what the token has; `false` when there was nothing of ours.
pub(super) async fn give_up(store: &impl Nodes, token: &str) -> StoreResult<bool> {
    let Some(contender) = store.contenders().get(token) else { return Ok(false) };
    let left = store.leave(&contender, token).await?;
    store.contenders().remove(token);
    Ok(left)
}

/// Deletes what is over. Does not keep the store alive, and is ended with it.
async fn sweep<S: Nodes>(store: Weak<S>, earlier: Arc<Notify>) {
    loop {
        let Some(alive) = store.upgrade() else { return };
        for (token, contender) in alive.contenders().take_over() {
            // Each within its own bound: one session that hangs must not keep the others waiting.
            let leaving = timeout(LEAVE_MAX, alive.leave(&contender, &token));
            if !matches!(leaving.await, Ok(Ok(_))) {
                alive.contenders().put_back(&token, contender);
            }
        }
        let alarm = alive.contenders().set_alarm();
        drop(alive);
        tokio::select! {
            () = earlier.notified() => {}
            () = sleep_until(alarm.unwrap_or_else(Instant::now)), if alarm.is_some() => {}
        }
    }
}

/// Notifies when the nodes ahead of a token's node have changed.
pub(super) struct TokenSubscription {
    contenders: Arc<Contenders>,
    token: String,
    /// What is watched, and the watch.
    armed: Option<(Ahead, BoxFuture<'static, ()>)>,
}

impl TokenSubscription {
    pub(super) fn to(contenders: &Arc<Contenders>, token: &Token) -> Subscription {
        let contenders = Arc::clone(contenders);
        let token = token.as_str().to_owned();
        Box::new(Self { contenders, token, armed: None })
    }
}

#[async_trait]
impl Notifications for TokenSubscription {
    async fn next(&mut self) -> bool {
        let Some(contender) = self.contenders.get(&self.token) else { return false };
        let Some(ahead) = contender.ahead else { return false };
        if self.armed.as_ref().is_none_or(|(watched, _)| *watched != ahead) {
            let watcher = match &ahead {
                Ahead::Node(path) => match contender.client.get_and_watch_data(path).await {
                    Ok((_, _, watcher)) => watcher,
                    Err(error) => return error == Error::NoNode,
                },
                Ahead::Children(path) => {
                    match contender.client.list_and_watch_children(path).await {
                        Ok((_, watcher)) => watcher,
                        Err(_) => return false,
                    }
                }
            };
            let is_node = matches!(ahead, Ahead::Node(_));
            self.armed = Some((ahead, Box::pin(async move { drop(watcher.changed().await) })));
            // A directory may have changed between the look and the watch.
            if !is_node {
                return true;
            }
        }
        if let Some((_, change)) = &mut self.armed {
            change.await;
        }
        self.armed = None;
        true
    }
}
