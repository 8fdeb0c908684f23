//! Runs the cells of a run one after the other, each on a fresh item whose sale is ended
//! afterwards.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use ledger_audit::{Answer, Outcome};
use mysql_connection::limits::LONG_READ_MAX;
use mysql_connection::within;
use tokio::time::{Instant, MissedTickBehavior};

use crate::evaluate::{self, Evidence, note};
use crate::load_generator::{AnswerCounts, LoadGenerator};
use crate::plan::StrategyChoice;
use crate::report::{Cell, CellState, Event, Latency, RunState};
use crate::tracked::TrackedRun;
use extension::Core;
use ledger::rows::actions::Actor;
use ledger::rows::orders::OrderRecord;
use ledger::rows::{self, items, orders};
use shop_domain::{
    ArbiterMode, Cents, Currency, Item, ItemEdit, ItemId, ItemKind, NewItem, OrderStatus,
    SaleWindow, UserId, audit,
};

/// Time between two progress events of the cell that runs.
const PROGRESS_PERIOD: Duration = Duration::from_millis(100);
/// How long the evaluation waits until queued orders and unknown outcomes are decided.
const DECIDED_WAIT_MAX: Duration = Duration::from_secs(20);
/// Time between two checks of them.
const DECIDED_CHECK_PERIOD: Duration = Duration::from_millis(200);
/// How long a cell's item stays open if the run does not end it.
const OPEN_MAX: time::Duration = time::Duration::HOUR;

/// Runs every cell until the end or until the run is cancelled.
pub async fn run(core: &Core, running: &TrackedRun, cells: Vec<StrategyChoice>) {
    for (index, chosen) in cells.iter().enumerate() {
        if running.cancelled.is_cancelled() {
            break;
        }
        let mut cell = running.run().cells[index].clone();
        if !core.trial_sales.is_available(chosen.card.name) {
            cell.state = CellState::Skipped;
            note(&mut cell, "Its servers are not configured here.");
            running.update(cell);
            continue;
        }
        let work = Work { core, running, chosen };
        // An item is made to the end, so that its sale is ended, too.
        let ended = match work.make_item(&mut cell).await {
            Ok(item) => tokio::select! {
                ended = work.cell(&mut cell, item) => ended,
                () = running.cancelled.cancelled() => break,
            },
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            tracing::warn!(%error, strategy = cell.strategy, "lab cell failed");
            cell.state = CellState::Failed;
            note(&mut cell, &format!("It could not be run: {error}"));
            running.update(cell);
        }
    }
    let cancelled = running.cancelled.is_cancelled();
    let mut failed = false;
    let cells = running.run().cells.clone();
    for mut cell in cells {
        failed |= cell.state == CellState::Failed;
        let unfinished =
            matches!(cell.state, CellState::Waiting | CellState::Running | CellState::Auditing);
        if unfinished {
            cell.state = CellState::Skipped;
            note(&mut cell, "Cancelled.");
            running.update(cell.clone());
        }
        if let Some(item) = cell.item_id.and_then(ItemId::new) {
            end(core, running.operator, item).await;
        }
    }
    running.finish(match (cancelled, failed) {
        (true, _) => RunState::Cancelled,
        (false, true) => RunState::Failed,
        (false, false) => RunState::Done,
    });
}

/// The parts that one cell needs.
struct Work<'a> {
    core: &'a Core,
    running: &'a TrackedRun,
    chosen: &'a StrategyChoice,
}

impl Work<'_> {
    async fn cell(&self, cell: &mut Cell, item: ItemId) -> Result<(), String> {
        let strategy = self.chosen.card.name;
        let refused_before = self.core.kit.metrics.arbiter_refusals_of(strategy);
        let started = Instant::now();
        let counts = Arc::new(AnswerCounts::default());
        let mut answers = self.send_load(cell, item, &counts).await;
        count(cell, counts.read(), started.elapsed());
        cell.latency_ms = Latency::of(answers.iter().map(|answer| answer.from_send_us).collect());
        let asked = u64::from(self.running.request.requests);
        if cell.requests_done < asked {
            let rest = asked - cell.requests_done;
            let seconds = self.running.request.seconds_max;
            note(cell, &format!("{rest} purchases were not sent within {seconds} s."));
        }
        cell.state = CellState::Auditing;
        self.running.update(cell.clone());

        let unread = |error: ledger::Error| error.to_string();
        let orders = self.decided_orders(item, &answers).await.map_err(unread)?;
        cell.arbiter_refusals =
            self.core.kit.metrics.arbiter_refusals_of(strategy) - refused_before;
        let facts = Box::pin(rows::audit::facts(&self.core.ledger.pool, item));
        let facts = within(LONG_READ_MAX, facts).await.map_err(unread)?;
        let facts = facts.ok_or("its item is gone")?;
        answers.sort_unstable_by_key(|answer| answer.request);
        let evidence = Evidence {
            answers: &answers,
            orders: &orders,
            report: &audit::verify(facts),
            stock: self.running.request.stock,
            quantity: self.running.request.quantity.into(),
            sold_out_age: self.core.trial_sales.sold_out_age(),
            breaks_with: self.chosen.breaks_with(),
        };
        evaluate::evaluate(cell, &evidence);
        cell.state = CellState::Done;
        self.running.update(cell.clone());
        Ok(())
    }

    async fn make_item(&self, cell: &mut Cell) -> Result<ItemId, String> {
        let wanted = &self.running.request;
        let now = self.core.kit.clock.now();
        let window = SaleWindow::new(now - time::Duration::MINUTE, now + OPEN_MAX);
        // The limit lets each buyer have all its purchases: the stock alone is contended.
        let purchases_each = wanted.requests.div_ceil(wanted.buyers);
        let new = NewItem {
            name: format!("Lab: {}, arbiter {}", cell.strategy, cell.arbiter),
            description: String::new(),
            image_url: None,
            price: Cents::new(100).expect("a price"),
            currency: Currency::USD,
            stock: wanted.stock,
            window: window.ok_or("the clock is out of range")?,
            per_buyer_limit: purchases_each
                .saturating_mul(wanted.quantity)
                .min(Item::PER_BUYER_LIMIT_MAX),
            unpaid_max: 0,
            hold_seconds: Item::HOLD_SECONDS_MAX,
            strategy: self.chosen.card.name.to_owned(),
            kind: ItemKind::Lab,
            arbiter: ArbiterMode::parse(cell.arbiter).unwrap_or(ArbiterMode::On),
            waiting_room: false,
            offer_seconds: 0,
            extend_seconds: 0,
            return_seconds: 0,
            variant: None,
            draw: None,
            limit_group: None,
        };
        let item = self.core.trial_sales.create(&new, now).await?.id;
        cell.item_id = Some(item.get());
        cell.state = CellState::Running;
        self.running.update(cell.clone());
        Ok(item)
    }

    /// Runs the load generator and sends progress events.
    async fn send_load(
        &self,
        cell: &Cell,
        item: ItemId,
        counts: &Arc<AnswerCounts>,
    ) -> Vec<Answer> {
        let wanted = &self.running.request;
        let load = LoadGenerator {
            sales: Arc::clone(&self.core.trial_sales),
            item,
            choice: self.chosen.clone(),
            request: wanted.clone(),
        };
        let started = Instant::now();
        let mut load = std::pin::pin!(load.send_all(Arc::clone(counts)));
        let mut tick = tokio::time::interval(PROGRESS_PERIOD);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                answers = &mut load => return answers,
                _ = tick.tick() => {}
            }
            // The database may be slow: the load does not wait for this read.
            let available = tokio::select! {
                answers = &mut load => return answers,
                row = items::read_stock(&self.core.ledger.pool, item) => {
                    row.ok().flatten().map_or(cell.stock, |row| row.available)
                }
            };
            let mut seen = Box::new(cell.clone());
            count(&mut seen, counts.read(), started.elapsed());
            let accepted = i64::try_from(seen.accepted).unwrap_or(i64::MAX);
            seen.available = available;
            seen.sold = accepted * i64::from(wanted.quantity);
            seen.oversold = (seen.sold - seen.stock).max(0);
            self.running.publish(Event::Progress(seen));
        }
    }

    /// The item's orders, once all queued orders and unknown outcomes are decided.
    async fn decided_orders(
        &self,
        item: ItemId,
        answers: &[Answer],
    ) -> ledger::Result<Vec<OrderRecord>> {
        let queued = answers.iter().filter(|answer| answer.code == "queued");
        let queued: Vec<&String> = queued.filter_map(|answer| answer.order_id.as_ref()).collect();
        let moving = answers.iter().any(|answer| answer.outcome == Outcome::Unknown);
        let until = Instant::now() + DECIDED_WAIT_MAX;
        let mut before: Option<Vec<OrderRecord>> = None;
        loop {
            let mut now = orders::of_item(&self.core.ledger.pool, item).await?;
            now.sort_unstable_by_key(|order| order.id);
            let decided = now.iter().filter(|order| order.status != OrderStatus::Queued);
            let decided: HashSet<String> = decided.map(|order| order.id.to_string()).collect();
            let still = !moving || before.as_ref() == Some(&now);
            let all_decided = queued.iter().all(|order| decided.contains(*order));
            if (still && all_decided) || Instant::now() >= until {
                return Ok(now);
            }
            before = Some(now);
            tokio::time::sleep(DECIDED_CHECK_PERIOD).await;
        }
    }
}

/// Writes the counts and the times into the cell.
fn count(cell: &mut Cell, counts: [u64; 4], elapsed: Duration) {
    cell.elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    [cell.accepted, cell.refused, cell.unavailable, cell.unknown] = counts;
    cell.requests_done = counts.iter().sum();
    cell.accepted_per_second = per_second(cell.accepted, elapsed);
    cell.refused_per_second = per_second(cell.refused, elapsed);
}

fn per_second(count: u64, elapsed: Duration) -> f64 {
    let count = u32::try_from(count).map_or(f64::MAX, f64::from);
    let seconds = elapsed.as_secs_f64();
    if seconds > 0.0 { count / seconds } else { 0.0 }
}

/// Ends the sale of a lab item, so that it cannot be bought later.
async fn end(core: &Core, operator: UserId, item: ItemId) {
    let now = core.kit.clock.now();
    let edit = ItemEdit { ends_at: Some(now), ..ItemEdit::default() };
    let actor = Actor { user: operator, address: None, now };
    if let Err(error) = core.trial_sales.edit(item, &edit, &actor).await {
        tracing::warn!(error, %item, "sale of a lab item not ended");
    }
}
