//! Delivers events to endpoints: in the order of the log, each at least once.
//!
//! One task serves one endpoint, so a slow receiver holds up no other. After a failure the endpoint
//! pauses, longer after each further one. A receiver that is away is waited for. A receiver that
//! refuses an event again and again gets the next one, and the event becomes a dead letter. To find
//! the event, a refused message is cut in half until one event is left.
//!
//! What the filter of an endpoint leaves out is passed by: the endpoint moves on as if it had got it.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use extension::Core;
use failpoint::hold;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use webhooks::{Failure, WebhookClient, pause_after};

use crate::filter::{Filter, FilteredEvent};
use crate::metrics::EventMetrics;
use crate::receiver::Receiver;
use crate::settings::Events as Settings;
use crate::sql::deliveries::{Claim, Replay, due};
use crate::sql::endpoints::Endpoint;
use crate::sql::event_log::{self, LoggedEvent};
use shop_domain::EndpointId;

/// The largest sum of the data of the events in one message, in bytes; a single event may be larger.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// The pause after the first failure; it doubles.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// How long a claim outlasts the longest delivery.
const LEASE_MARGIN: Duration = Duration::from_secs(15);
/// How long the last note about a delivery may take when the service stops.
const END_MAX: Duration = Duration::from_secs(2);

/// Delivers to all endpoints.
#[derive(Clone)]
pub struct Deliverer {
    pub core: Core,
    pub settings: Settings,
    pub webhooks: WebhookClient,
    pub metrics: EventMetrics,
}

/// An endpoint that is being served.
struct Service<'a> {
    deliverer: &'a Deliverer,
    claim: Claim<'a>,
    endpoint: Endpoint,
    /// `None`: the address or the filter cannot be read.
    receiver: Option<Receiver>,
    filter: Filter,
    /// Events that were read and not delivered yet.
    read: VecDeque<FilteredEvent>,
    /// Events of the next message of the log, while the refused one is looked for.
    limit: usize,
    /// Events of the next message of a replay.
    replay_limit: usize,
}

/// The result of one step of a service.
#[derive(PartialEq, Eq)]
enum Step {
    /// There is nothing to deliver.
    Idle,
    /// Something was delivered or set aside.
    Done,
    /// The endpoint pauses, or belongs to another instance.
    Stop,
}

/// A message: the events of some positions that match the filter.
#[derive(Default)]
struct Cut {
    events: Vec<LoggedEvent>,
    /// The last of the positions; `None` when there was none.
    last: Option<i64>,
}

/// The log or a replay: where the events of a message come from.
#[derive(Clone, Copy)]
enum Source<'a> {
    Log,
    Replay(&'a Replay),
}

impl Deliverer {
    /// Delivers until `stop` fires.
    pub async fn run(self, stop: CancellationToken) {
        let poll = Duration::from_millis(self.settings.poll_ms);
        let mut serving = JoinSet::new();
        let mut served: HashSet<EndpointId> = HashSet::new();
        while stop.run_until_cancelled(tokio::time::sleep(poll)).await.is_some() {
            while let Some(ended) = serving.try_join_next() {
                match ended {
                    Ok(id) => served.remove(&id),
                    // A panic: which endpoint it was is not known, so all are served again; the
                    // claims keep two tasks off one endpoint.
                    Err(_) => {
                        served.clear();
                        false
                    }
                };
            }
            let due = match due(&self.core.ledger.pool).await {
                Ok(due) => due,
                Err(error) => {
                    tracing::warn!(%error, "event endpoints not read");
                    continue;
                }
            };
            for id in due {
                if served.insert(id) {
                    let deliverer = self.clone();
                    let stop = stop.clone();
                    serving.spawn(async move {
                        deliverer.serve(id, &stop).await;
                        id
                    });
                }
            }
        }
        while serving.join_next().await.is_some() {}
    }

    /// Delivers to one endpoint until it has everything, fails, or the service stops.
    async fn serve(&self, id: EndpointId, stop: &CancellationToken) {
        let lease = self.webhooks.https.timeout + LEASE_MARGIN;
        let Core { ledger, instance, .. } = &self.core;
        let claim = Claim { pool: &ledger.pool, endpoint: id, instance, lease };
        let work = async {
            let Some(endpoint) = claim.take().await? else { return Ok(()) };
            let receiver = endpoint.filter.as_ref().and_then(|_| Receiver::of(&endpoint));
            let filter = endpoint.filter.clone().unwrap_or_default();
            // The refused event is the first one.
            let batch_max = self.settings.batch_max as usize;
            let limit = if endpoint.refusals > 0 { 1 } else { batch_max };
            let mut service = Service {
                deliverer: self,
                claim,
                endpoint,
                receiver,
                filter,
                read: VecDeque::new(),
                limit,
                replay_limit: batch_max,
            };
            service.run().await
        };
        let worked: Option<ledger::Result<()>> = stop.run_until_cancelled(work).await;
        if let Some(Err(error)) = worked {
            tracing::warn!(%error, endpoint = %id, "event delivery interrupted; it goes on by itself");
        }
        let _ = tokio::time::timeout(END_MAX, claim.end()).await;
    }
}

impl Service<'_> {
    async fn run(&mut self) -> ledger::Result<()> {
        loop {
            let new = self.deliver_new().await?;
            if new == Step::Stop {
                return Ok(());
            }
            match (new, self.deliver_replay().await?) {
                (_, Step::Stop) | (Step::Idle, Step::Idle) => return Ok(()),
                _ => {}
            }
        }
    }

    /// Delivers the next events of the log.
    async fn deliver_new(&mut self) -> ledger::Result<Step> {
        if self.read.is_empty() {
            let first = self.endpoint.delivered + 1;
            let limit = self.deliverer.settings.batch_max;
            let read = event_log::read(self.claim.pool, first, i64::MAX, limit).await?;
            self.read = self.filter.apply(read);
        }
        let Cut { events, last } = cut(&mut self.read, self.limit);
        let Some(last) = last else { return Ok(Step::Idle) };
        let span = (self.endpoint.delivered, last);
        let noted = match events.first() {
            None => self.claim.skipped(span).await?,
            Some(first) => {
                let first = first.position;
                if let Err(failure) = self.send(&events, span).await {
                    self.read.clear();
                    return self.failed(&failure, (first, events.len()), Source::Log).await;
                }
                self.limit = self.deliverer.settings.batch_max as usize;
                self.endpoint.refusals = 0;
                self.claim.delivered(span).await?
            }
        };
        if !noted {
            return Ok(Step::Stop);
        }
        self.endpoint.delivered = last;
        Ok(Step::Done)
    }

    /// Delivers the next events of the oldest replay.
    async fn deliver_replay(&mut self) -> ledger::Result<Step> {
        let Some(replay) = self.claim.replay().await? else { return Ok(Step::Idle) };
        // The refused event is the first one.
        let events_max = if replay.refusals > 0 { 1 } else { self.replay_limit };
        let limit = u32::try_from(events_max).unwrap_or(u32::MAX);
        let events = event_log::read(self.claim.pool, replay.next, replay.last, limit).await?;
        hold!("replay-read", self.endpoint.id);
        let mut events = self.filter.apply(events);
        let Cut { events, last } = cut(&mut events, events_max);
        // A replay moves on under the claim alone: whoever has lost it may have an old filter.
        let (Some(first), Some(last)) = (events.first(), last) else {
            // The rest of the range is deleted, does not exist, or is not for this endpoint.
            let rest = last.unwrap_or(replay.last);
            let step = self.prolonged().await?;
            if step == Step::Done {
                self.claim.skip_replay(&replay, rest, replay.refusals).await?;
            }
            return Ok(step);
        };
        match self.send(&events, (replay.next - 1, last)).await {
            Ok(()) => {
                self.replay_limit = self.deliverer.settings.batch_max as usize;
                let here = (self.endpoint.delivered, self.endpoint.delivered);
                if !self.claim.delivered(here).await? {
                    return Ok(Step::Stop);
                }
                self.claim.replayed(&replay, last).await?;
                Ok(Step::Done)
            }
            Err(failure) => {
                let message = (first.position, events.len());
                self.failed(&failure, message, Source::Replay(&replay)).await
            }
        }
    }

    /// Sends what matches of the positions behind `span.0` up to `span.1`.
    async fn send(&mut self, message: &[LoggedEvent], span: (i64, i64)) -> Result<(), Failure> {
        let now = self.deliverer.core.kit.clock.now();
        let covers = (self.filter != Filter::default()).then_some(span);
        let sent = match &mut self.receiver {
            Some(receiver) => receiver.send(&self.deliverer.webhooks, (message, covers), now).await,
            None => Err(Failure::Away("address or filter not readable".to_owned())),
        };
        if sent.is_ok() {
            self.deliverer.metrics.delivered.inc_by(message.len() as u64);
            self.endpoint.failures = 0;
        }
        sent
    }

    /// Notes the failure of a message of `count` events that begins at the position `first`.
    async fn failed(
        &mut self,
        failure: &Failure,
        (first, count): (i64, usize),
        source: Source<'_>,
    ) -> ledger::Result<Step> {
        let (error, is_refusal) = match failure {
            Failure::Away(error) => (error, false),
            Failure::Refused(error) => (error, true),
        };
        self.deliverer.metrics.failed(is_refusal);
        if is_refusal && count > 1 {
            *self.limit_of(source) = count / 2;
            return self.prolonged().await;
        }
        let refusals = match source {
            Source::Log => self.endpoint.refusals,
            Source::Replay(replay) => replay.refusals,
        };
        if is_refusal && refusals + 1 >= self.deliverer.settings.refusals_max {
            self.set_aside(first, error, source).await?;
            return self.prolonged().await;
        }
        if let (true, Source::Replay(replay)) = (is_refusal, source) {
            self.claim.replay_refused(replay).await?;
        }
        let pause_max = Duration::from_secs(self.deliverer.settings.pause_seconds_max);
        let pause = pause_after(self.endpoint.failures, PAUSE_FIRST, pause_max);
        let endpoint = self.endpoint.id;
        tracing::warn!(%endpoint, error, ?pause, "events not delivered; the next try is after the pause");
        let is_refusal_of_log = is_refusal && matches!(source, Source::Log);
        self.claim.failed(error, is_refusal_of_log, pause).await?;
        Ok(Step::Stop)
    }

    /// Prolongs the claim, unless it is lost: the next steps take time, and another instance would begin with a whole
    /// message again.
    async fn prolonged(&self) -> ledger::Result<Step> {
        let here = (self.endpoint.delivered, self.endpoint.delivered);
        let kept = self.claim.skipped(here).await?;
        Ok(if kept { Step::Done } else { Step::Stop })
    }

    fn limit_of(&mut self, source: Source<'_>) -> &mut usize {
        match source {
            Source::Log => &mut self.limit,
            Source::Replay(_) => &mut self.replay_limit,
        }
    }

    /// Makes a dead letter of an event, and goes on behind it.
    async fn set_aside(
        &mut self,
        position: i64,
        error: &str,
        source: Source<'_>,
    ) -> ledger::Result<()> {
        let endpoint = self.endpoint.id;
        tracing::error!(%endpoint, position, error, "event refused too often: it is a dead letter now");
        let delivered = match source {
            Source::Log => position,
            // Later events of the log were not sent yet.
            Source::Replay(_) => self.endpoint.delivered,
        };
        self.claim.set_aside(position, error, delivered).await?;
        if let Source::Replay(replay) = source {
            self.claim.skip_replay(replay, position, 0).await?;
        }
        self.deliverer.metrics.dead_letters.inc();
        self.endpoint.delivered = delivered;
        (self.endpoint.failures, self.endpoint.refusals) = (0, 0);
        *self.limit_of(source) = self.deliverer.settings.batch_max as usize;
        Ok(())
    }
}

/// Cuts a message off the events: at most `limit` of them, and not too many bytes, with the positions around them that
/// do not match.
fn cut(read: &mut VecDeque<FilteredEvent>, limit: usize) -> Cut {
    let mut cut = Cut::default();
    let mut bytes = 0;
    while let Some(next) = read.front() {
        if let Some(event) = &next.event {
            let is_first = cut.events.is_empty();
            bytes += event.payload.len();
            if !is_first && (cut.events.len() >= limit || bytes > MESSAGE_BYTES_MAX) {
                break;
            }
        }
        let next = read.pop_front();
        cut.last = next.as_ref().map(|next| next.position);
        cut.events.extend(next.and_then(|next| next.event));
    }
    cut
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::*;

    fn event(position: i64, bytes: usize) -> LoggedEvent {
        let created_at = OffsetDateTime::UNIX_EPOCH;
        let (id, kind) = (position.to_string(), "orders.changed".to_owned());
        LoggedEvent { position, id, kind, payload: "x".repeat(bytes), created_at }
    }

    #[test]
    fn a_message_has_few_events_and_few_bytes_but_one_at_least() {
        let positions = |sizes: &[usize], limit| {
            let events = sizes.iter().zip(1..).map(|(&bytes, position)| event(position, bytes));
            let mut events = Filter::default().apply(events.collect());
            cut(&mut events, limit).events.len()
        };
        assert_eq!(positions(&[10; 5], 3), 3);
        assert_eq!(positions(&[10; 5], 0), 1);
        assert_eq!(positions(&[400_000; 5], 5), 2);
        assert_eq!(positions(&[2_000_000, 1], 5), 1);
        assert_eq!(positions(&[], 5), 0);
    }
}
