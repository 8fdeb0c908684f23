//! One run: lane after lane, each on a fresh item that is ended afterwards.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};

use super::crowd::{Answer, Crowd, Said, Tally};
use super::judge::{self, Evidence, note};
use super::plan::Chosen;
use super::report::{Event, Lane, LaneState, Latency, Progress, RunState};
use super::{Parts, Running};
use crate::catalog;
use crate::domain::{
    ArbiterMode, Cents, Item, ItemEdit, ItemId, ItemKind, NewItem, OrderStatus, Quantity,
    SaleWindow, UserId, audit,
};
use crate::store::mysql::actions::Actor;
use crate::store::mysql::orders::Recorded;
use crate::store::mysql::{self, orders, stock};

/// How often the lane that runs tells its figures.
const PROGRESS_PERIOD: Duration = Duration::from_millis(100);
/// How long queued orders and purchases of an unknown outcome may take to settle.
const SETTLE_MAX: Duration = Duration::from_secs(20);
/// How often it is looked whether they have.
const SETTLE_LOOK: Duration = Duration::from_millis(200);
/// How long a lane's item stays open if nobody ends it.
const OPEN_MAX: time::Duration = time::Duration::HOUR;

/// Runs every lane until the end or until somebody cancels.
pub async fn run(parts: &Parts, running: &Running, lanes: Vec<Chosen>) {
    for (index, chosen) in lanes.iter().enumerate() {
        if running.cancelled.is_cancelled() {
            break;
        }
        let mut lane = running.lane(index);
        let (_, available) = parts
            .purchases
            .strategies()
            .cards()
            .find(|(card, _)| card.name == chosen.card.name)
            .unwrap_or((chosen.card, false));
        if !available {
            lane.state = LaneState::Skipped;
            note(&mut lane, "Its servers are not configured here.");
            running.show(lane);
            continue;
        }
        let work = Work { parts, running, chosen };
        let ended = tokio::select! {
            ended = work.lane(&mut lane) => ended,
            () = running.cancelled.cancelled() => break,
        };
        if let Err(error) = ended {
            tracing::warn!(%error, strategy = lane.strategy, "a lane of the lab failed");
            lane.state = LaneState::Failed;
            note(&mut lane, &format!("It could not be run: {error}"));
            running.show(lane);
        }
    }
    let cancelled = running.cancelled.is_cancelled();
    let mut failed = false;
    for mut lane in running.lanes() {
        failed |= lane.state == LaneState::Failed;
        let unfinished =
            matches!(lane.state, LaneState::Waiting | LaneState::Running | LaneState::Auditing);
        if unfinished {
            lane.state = LaneState::Skipped;
            note(&mut lane, "Cancelled.");
            running.show(lane.clone());
        }
        if let Some(item) = lane.item_id.and_then(ItemId::new) {
            end(parts, running.operator, item).await;
        }
    }
    running.finish(match (cancelled, failed) {
        (true, _) => RunState::Cancelled,
        (false, true) => RunState::Failed,
        (false, false) => RunState::Done,
    });
}

/// What a lane is run with.
struct Work<'a> {
    parts: &'a Parts,
    running: &'a Running,
    chosen: &'a Chosen,
}

impl Work<'_> {
    async fn lane(&self, lane: &mut Lane) -> Result<(), sqlx::Error> {
        let pool = &self.parts.pool;
        let item = self.make_item(lane).await?;
        lane.item_id = Some(item.get());
        lane.state = LaneState::Running;
        self.running.show(lane.clone());

        let strategy = self.chosen.card.name;
        let refused_before = self.parts.metrics.arbiter_refusals_of(strategy);
        let started = Instant::now();
        let mut answers = self.rush(lane, item).await;
        let elapsed = started.elapsed();
        lane.elapsed_ms = millis(elapsed);
        count(lane, &answers, elapsed);
        let asked = u64::from(self.running.wanted.requests);
        if lane.requests_done < asked {
            let rest = asked - lane.requests_done;
            let seconds = self.running.wanted.seconds_max;
            note(lane, &format!("{rest} purchases were not sent within {seconds} s."));
        }
        lane.state = LaneState::Auditing;
        self.running.show(lane.clone());

        let orders = self.settled(item, &answers).await?;
        lane.arbiter_refusals = self.parts.metrics.arbiter_refusals_of(strategy) - refused_before;
        let facts = mysql::audit::facts(pool, item).await?.ok_or(sqlx::Error::RowNotFound)?;
        answers.sort_unstable_by_key(|answer| answer.request);
        let evidence = Evidence {
            answers: &answers,
            orders: &orders,
            report: &audit::verify(facts),
            quantity: self.running.wanted.quantity.into(),
            breaks_with: self.chosen.breaks_with(),
        };
        judge::judge(lane, &evidence);
        lane.state = LaneState::Done;
        self.running.show(lane.clone());
        Ok(())
    }

    async fn make_item(&self, lane: &Lane) -> sqlx::Result<ItemId> {
        let wanted = &self.running.wanted;
        let now = self.parts.clock.now();
        let window = SaleWindow::new(now - time::Duration::MINUTE, now + OPEN_MAX);
        // Each buyer may have what it asks for: the stock is what is fought over.
        let turns = wanted.requests.div_ceil(wanted.buyers);
        let new = NewItem {
            name: format!("Lab: {}, arbiter {}", lane.strategy, lane.arbiter),
            description: String::new(),
            image_url: None,
            price: Cents::new(100).expect("a price"),
            stock: wanted.stock,
            window: window.ok_or(sqlx::Error::RowNotFound)?,
            per_buyer_limit: turns.saturating_mul(wanted.quantity).min(Item::PER_BUYER_LIMIT_MAX),
            hold_seconds: Item::HOLD_SECONDS_MAX,
            strategy: self.chosen.card.name.to_owned(),
            kind: ItemKind::Lab,
            arbiter: ArbiterMode::parse(lane.arbiter).unwrap_or(ArbiterMode::On),
            waiting_room: false,
        };
        Ok(catalog::create(&self.parts.pool, &new, now).await?.item.id)
    }

    /// Sends the crowd and tells how it gets on.
    async fn rush(&self, lane: &Lane, item: ItemId) -> Vec<Answer> {
        let wanted = &self.running.wanted;
        let crowd = Crowd {
            purchases: self.parts.purchases.clone(),
            item,
            chosen: self.chosen.clone(),
            quantity: Quantity::new(wanted.quantity.into()).unwrap_or(Quantity::ONE),
            buyers: wanted.buyers,
            requests: wanted.requests,
            concurrency: wanted.concurrency,
            time_max: Duration::from_secs(wanted.seconds_max.into()),
        };
        let tally = Arc::new(Tally::default());
        let started = Instant::now();
        let mut rush = std::pin::pin!(crowd.rush(Arc::clone(&tally)));
        let mut tick = tokio::time::interval(PROGRESS_PERIOD);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                answers = &mut rush => return answers,
                _ = tick.tick() => {}
            }
            // The database may be what is slow: the crowd is not made to wait for a look at it.
            let available = tokio::select! {
                answers = &mut rush => return answers,
                row = stock::read(&self.parts.pool, item) => {
                    row.ok().flatten().map_or(lane.stock, |row| row.available)
                }
            };
            let [accepted, refused, unavailable, unknown] = tally.read();
            let sold = i64::try_from(accepted).unwrap_or(i64::MAX) * i64::from(wanted.quantity);
            self.running.tell(Event::Progress(Progress {
                index: lane.index,
                elapsed_ms: millis(started.elapsed()),
                requests_done: accepted + refused + unavailable + unknown,
                accepted,
                refused,
                unavailable,
                unknown,
                available,
                sold,
                oversold: (sold - lane.stock).max(0),
            }));
        }
    }

    /// The item's orders, once what was queued has been decided and nothing moves any more.
    async fn settled(&self, item: ItemId, answers: &[Answer]) -> sqlx::Result<Vec<Recorded>> {
        let queued: Vec<_> = answers
            .iter()
            .filter_map(|answer| match answer.said {
                Said::Accepted { order, queued: true } => Some(order),
                _ => None,
            })
            .collect();
        let moving = answers.iter().any(|answer| answer.said == Said::Unknown);
        let until = Instant::now() + SETTLE_MAX;
        let mut before: Option<Vec<Recorded>> = None;
        loop {
            let mut now = orders::of_item(&self.parts.pool, item).await?;
            now.sort_unstable_by_key(|order| order.id);
            let decided = |id| {
                let place = now.binary_search_by_key(id, |order| order.id);
                place.is_ok_and(|place| now[place].status != OrderStatus::Queued)
            };
            let still = !moving || before.as_ref() == Some(&now);
            if (still && queued.iter().all(decided)) || Instant::now() >= until {
                return Ok(now);
            }
            before = Some(now);
            tokio::time::sleep(SETTLE_LOOK).await;
        }
    }
}

/// Writes the counts and the times into the lane.
fn count(lane: &mut Lane, answers: &[Answer], elapsed: Duration) {
    for answer in answers {
        lane.requests_done += 1;
        match answer.said {
            Said::Accepted { .. } => lane.accepted += 1,
            Said::Refused(_) => lane.refused += 1,
            Said::Unavailable => lane.unavailable += 1,
            Said::Unknown => lane.unknown += 1,
        }
    }
    let mut micros: Vec<u64> = answers.iter().map(|answer| answer.micros).collect();
    lane.latency_ms = Latency::of(&mut micros);
    lane.accepted_per_second = per_second(lane.accepted, elapsed);
    lane.refused_per_second = per_second(lane.refused, elapsed);
}

/// At most 100,000 purchases, so the conversion is exact.
fn per_second(count: u64, elapsed: Duration) -> f64 {
    let count = u32::try_from(count).map_or(f64::MAX, f64::from);
    let seconds = elapsed.as_secs_f64();
    if seconds > 0.0 { count / seconds } else { 0.0 }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Ends an item's sale: nobody buys a throw-away item later.
async fn end(parts: &Parts, operator: UserId, item: ItemId) {
    let now = parts.clock.now();
    let edit = ItemEdit { ends_at: Some(now), ..ItemEdit::default() };
    let actor = Actor { user: operator, address: None, now };
    match parts.catalog.edit(item, &edit, &actor).await {
        Ok(_) => parts.purchases.item_changed(item).await,
        Err(error) => tracing::warn!(%error, %item, "a lab item was not ended"),
    }
}
