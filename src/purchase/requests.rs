//! The requests that run: each key once at a time, and announced to the other instances.
//!
//! A request that runs may become an order at any moment, so a second one with its key must not be
//! refused for good meanwhile. In this process a set has the keys. For the other instances a
//! request is *announced* in the ledger (`running_requests`) once it has run for
//! [`ANNOUNCE_AFTER`], or at once when its client went away; the row goes when the request has
//! ended, or by its expiry when this process dies. Most requests end earlier, and cost no
//! statement. Many are announced by one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mysql_connection::Database;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use ledger::rows::orders::RequestOf;
use ledger::rows::running;
use shop_domain::{ItemId, RequestKey, UserId};

/// How long a request runs before it is announced: longer than a purchase takes while the service
/// is well, and shorter than a client waits before it asks again.
pub const ANNOUNCE_AFTER: Duration = Duration::from_millis(500);
/// Time between two searches of the announcer for such requests.
const LOOK_PERIOD: Duration = Duration::from_millis(100);
/// Time between two renewals of an announcement while its request runs.
const RENEW_PERIOD: Duration = Duration::from_secs(10);
/// After a failed announcement nothing is announced for this long.
const TROUBLE_PAUSE: Duration = Duration::from_secs(1);
/// Requests that are announced, or whose announcements are withdrawn, at a time.
const ANNOUNCED_TOGETHER_MAX: usize = 1_024;

/// The requests with a caller's key that run in this process. Clones share them.
#[derive(Clone, Default)]
pub struct Requests {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    running: Mutex<HashMap<RequestOf, Running>>,
    /// Requests that were announced and have ended.
    ended: Mutex<Vec<RequestOf>>,
    client_left: Notify,
}

#[derive(Clone, Copy)]
struct Running {
    since: Instant,
    client_left: bool,
    announced: Option<Instant>,
}

/// A request that runs; dropping it ends it.
pub struct RunningRequest {
    shared: Arc<Shared>,
    request: RequestOf,
    has_ended: Arc<AtomicBool>,
}

/// A client that waits for its request's answer; dropping it says that the client went away.
pub struct WaitingClient {
    shared: Arc<Shared>,
    request: Option<RequestOf>,
    has_ended: Arc<AtomicBool>,
}

/// Announces running requests to the other instances.
pub struct Announcer {
    requests: Requests,
    pool: Database,
    instance: String,
}

impl Requests {
    /// Makes an empty set, and the announcer of `instance`, whose name must be unique.
    pub fn new(pool: Database, instance: String) -> (Self, Announcer) {
        let requests = Self::default();
        (requests.clone(), Announcer { requests, pool, instance })
    }

    /// Begins a request; `None` when one with its key runs already.
    #[must_use]
    pub fn begin(&self, buyer: UserId, item: ItemId, key: &RequestKey) -> Option<RunningRequest> {
        let request = (buyer, item, key.as_str().to_owned());
        let mut running = self.shared.running();
        if running.contains_key(&request) {
            return None;
        }
        let state = Running { since: Instant::now(), client_left: false, announced: None };
        running.insert(request.clone(), state);
        let shared = Arc::clone(&self.shared);
        Some(RunningRequest { shared, request, has_ended: Arc::default() })
    }

    /// Whether a request with this key runs in this process.
    pub fn is_running(&self, buyer: UserId, item: ItemId, key: &RequestKey) -> bool {
        self.shared.running().contains_key(&(buyer, item, key.as_str().to_owned()))
    }

    /// Takes the requests that are due, and marks them as announced.
    fn due(&self, now: Instant) -> Vec<RequestOf> {
        let mut running = self.shared.running();
        let due = running.iter_mut().filter(|(_, state)| state.is_due(now));
        due.take(ANNOUNCED_TOGETHER_MAX)
            .map(|(request, state)| {
                state.announced = Some(now);
                request.clone()
            })
            .collect()
    }

    /// Takes the marks back, because the announcement failed.
    fn not_announced(&self, requests: &[RequestOf]) {
        let mut running = self.shared.running();
        for request in requests {
            if let Some(state) = running.get_mut(request) {
                state.announced = None;
            }
        }
    }
}

impl Running {
    fn is_due(&self, now: Instant) -> bool {
        match self.announced {
            None => self.client_left || now >= self.since + ANNOUNCE_AFTER,
            Some(announced) => now >= announced + RENEW_PERIOD,
        }
    }
}

impl Shared {
    fn running(&self) -> MutexGuard<'_, HashMap<RequestOf, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self) -> MutexGuard<'_, Vec<RequestOf>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a request, unless it has ended: another one may have its key by then.
    fn end(&self, request: &RequestOf, has_ended: &AtomicBool) {
        if has_ended.swap(true, Ordering::Relaxed) {
            return;
        }
        let ended = self.running().remove(request);
        if ended.is_some_and(|state| state.announced.is_some()) {
            self.ended().push(request.clone());
        }
    }
}

impl RunningRequest {
    /// The client that waits for it.
    pub fn client(&self) -> WaitingClient {
        let shared = Arc::clone(&self.shared);
        let has_ended = Arc::clone(&self.has_ended);
        WaitingClient { shared, request: Some(self.request.clone()), has_ended }
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.shared.end(&self.request, &self.has_ended);
    }
}

impl WaitingClient {
    /// Ends the request, whose outcome is known, although it still runs.
    pub fn end_request(&self) {
        self.request.iter().for_each(|request| self.shared.end(request, &self.has_ended));
    }

    /// Notes that the client has its answer.
    pub fn answered(mut self) {
        self.request = None;
    }
}

impl Drop for WaitingClient {
    fn drop(&mut self) {
        let Some(request) = &self.request else { return };
        if let Some(state) = self.shared.running().get_mut(request) {
            state.client_left = true;
            self.shared.client_left.notify_one();
        }
    }
}

impl Announcer {
    /// Announces until `stop` fires, and then withdraws what is left.
    pub async fn run(self, stop: CancellationToken) {
        let mut tick = tokio::time::interval(LOOK_PERIOD);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut purged = Instant::now();
        while !stop.is_cancelled() {
            tokio::select! {
                _ = tick.tick() => {}
                () = self.requests.shared.client_left.notified() => {}
                () = stop.cancelled() => {}
            }
            if !self.tell().await {
                let pause = tokio::time::sleep(TROUBLE_PAUSE);
                stop.run_until_cancelled(pause).await;
            }
            if purged.elapsed() >= running::EXPIRES_AFTER {
                purged = Instant::now();
                if let Err(error) = running::purge(&self.pool).await {
                    tracing::debug!(%error, "announcements of dead instances not deleted yet");
                }
            }
        }
    }

    /// Announces the requests that run, and withdraws those that have ended, also while none can be announced: else
    /// they would gather. Returns whether all went well.
    async fn tell(&self) -> bool {
        let is_announced = self.announce().await;
        self.withdraw().await && is_announced
    }

    /// Announces the requests that are due. Returns whether all went well.
    async fn announce(&self) -> bool {
        let due = self.requests.due(Instant::now());
        let announced = running::announce(&self.pool, &self.instance, &due).await;
        if let Err(error) = &announced {
            tracing::warn!(%error, requests = due.len(), "running requests not announced");
            self.requests.not_announced(&due);
        }
        announced.is_ok()
    }

    /// Withdraws the announcements of requests that have ended. Returns whether all went well.
    async fn withdraw(&self) -> bool {
        let ended: Vec<RequestOf> = {
            let mut ended = self.requests.shared.ended();
            let count = ended.len().min(ANNOUNCED_TOGETHER_MAX);
            ended.drain(..count).collect()
        };
        let withdrawn = running::withdraw(&self.pool, &self.instance, &ended).await;
        // A later try with the same key may run by now, and its row is gone as well.
        self.requests.not_announced(&ended);
        if let Err(error) = &withdrawn {
            // They expire.
            tracing::warn!(%error, requests = ended.len(), "announcements of ended requests not deleted yet");
        }
        withdrawn.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use sqlx::mysql::MySqlPoolOptions;

    use super::*;

    fn request(key: &str) -> RequestOf {
        let (buyer, item) = (UserId::new(1).expect("positive"), ItemId::new(2).expect("positive"));
        (buyer, item, key.to_owned())
    }

    fn begin(requests: &Requests, key: &str) -> RunningRequest {
        let (buyer, item, key) = request(key);
        let key = RequestKey::parse(&key).expect("a key");
        requests.begin(buyer, item, &key).expect("none with this key runs")
    }

    #[test]
    fn slow_requests_and_left_ones_are_announced_and_withdrawn() {
        let requests = Requests::default();
        let now = Instant::now();
        let (left, fast) = (begin(&requests, "left"), begin(&requests, "fast"));
        let answered = begin(&requests, "answered");
        assert_eq!(requests.due(now), []);
        answered.client().answered();
        drop(left.client());
        assert_eq!(requests.due(now), [request("left")]);
        assert_eq!(requests.due(now), [], "once");
        drop((fast, answered));
        assert_eq!(*requests.shared.ended(), [], "they were not announced");
        let later = now + RENEW_PERIOD;
        assert_eq!(requests.due(later), [request("left")], "it still runs");
        requests.not_announced(&[request("left")]);
        assert_eq!(requests.due(later), [request("left")], "and it was not announced");
        drop(left);
        assert_eq!(*requests.shared.ended(), [request("left")]);
        let slow = begin(&requests, "slow");
        let a_while_later = Instant::now() + ANNOUNCE_AFTER;
        assert_eq!(requests.due(a_while_later), [request("slow")], "it runs for long");
        drop(slow);
    }

    #[test]
    fn a_request_that_has_its_outcome_leaves_its_key_to_the_next_one() {
        let requests = Requests::default();
        let first = begin(&requests, "k");
        let (buyer, item, key) = request("k");
        let key = RequestKey::parse(&key).expect("a key");
        let is_running = || requests.is_running(buyer, item, &key);
        first.client().end_request();
        assert!(!is_running(), "it has its outcome");
        let next = requests.begin(buyer, item, &key).expect("the key is free");
        drop(first);
        assert!(is_running(), "the next one runs");
        drop(next);
        assert!(!is_running());
    }

    #[tokio::test]
    async fn what_has_ended_does_not_gather_while_the_ledger_is_away() {
        let nowhere = MySqlPoolOptions::new()
            .acquire_timeout(Duration::from_millis(10))
            .connect_lazy("mysql://nobody@127.0.0.1:1/none");
        let pool = Database::from(nowhere.expect("a URL"));
        let (requests, announcer) = Requests::new(pool, "here".to_owned());
        let now = Instant::now();
        let [ended, left] = ["ended", "left"].map(|key| begin(&requests, key));
        drop(ended.client());
        assert_eq!(requests.due(now), [request("ended")]);
        drop(ended);
        drop(left.client());
        assert!(!announcer.tell().await);
        assert_eq!(*requests.shared.ended(), []);
        assert_eq!(requests.due(Instant::now()), [request("left")], "it is tried again");
    }
}
