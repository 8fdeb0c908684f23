//! `seckill dead-letter`: queued orders that could not be decided, for an operator to resolve. An order that is sold needs
//! no operator: one consumer gave it up while another one wrote it. So the ledger is asked first, and such a dead letter
//! is finished.

use std::path::Path;
use std::pin::pin;
use std::process::ExitCode;

use futures::stream::{self, StreamExt};
use gates::redis_store::Queue;
use gates::redis_store::queue::{DeadLetter, Intention, NO_ENTRY, Reader, Resolution};
use gates::redis_stream;
use ledger::rows::actions::{self, Actor};
use ledger::rows::outbox::Outbox;
use ledger::rows::{items, orders};
use ledger::write::Arbiter;
use mysql_connection::Database;
use serde_json::json;
use shop_domain::{Clock, ItemId, OrderStatus, UserId};
use shop_metrics::Metrics;

use super::output::{counted, print_line};
use super::{ExitResult, parse_item, parse_user};

/// Items that are read at once: one whose server is away is waited for until `redis.retry_ms_max`.
const ITEMS_AT_ONCE_MAX: usize = 64;

/// The arguments: which orders, and what to do with them.
#[derive(clap::Args)]
pub struct Arguments {
    /// One item; all items with a queue if it is left out.
    #[arg(long, value_parser = parse_item)]
    item: Option<ItemId>,
    /// Put this entry of the item back into its queue.
    #[arg(long, value_name = "ENTRY", requires_all = ["item", "operator"], conflicts_with = "drop")]
    retry: Option<String>,
    /// Reject the order of this entry of the item, and give its units back.
    #[arg(long, value_name = "ENTRY", requires_all = ["item", "operator", "reason"])]
    drop: Option<String>,
    /// The reason, for the operators' log.
    #[arg(long, requires = "drop")]
    reason: Option<String>,
    /// The operator, for the operators' log.
    #[arg(long, value_name = "USER", value_parser = parse_user)]
    operator: Option<UserId>,
}

/// Lists the dead letters, or resolves one of them. Finishes those whose order is sold. Exit 1 when there is no such
/// entry, or when the list is incomplete.
pub async fn run(file: Option<&Path>, arguments: &Arguments) -> ExitResult {
    let config = super::settings(file)?;
    if let Some(operator) = arguments.operator {
        super::operator::check(&config, operator).await?;
    }
    let pool = mysql_connection::pool(&config)?;
    let queue = super::queue(&config, &pool)?;
    let desk = Desk { pool, queue, outbox: Outbox::new(config.events.enabled) };
    let Arguments { item, retry, drop, reason, operator } = arguments;
    match (item, operator, retry.as_ref().or(drop.as_ref())) {
        (Some(item), Some(operator), Some(entry)) => {
            desk.resolve(*item, entry, *operator, reason.as_deref()).await
        }
        _ => desk.list(*item).await,
    }
}

struct Desk {
    outbox: Outbox,
    pool: Database,
    queue: Queue,
}

impl Desk {
    /// Prints the dead letters of one item or of all. An item whose server does not answer is named, and the exit is 1.
    async fn list(&self, item: Option<ItemId>) -> ExitResult {
        let items = match item {
            Some(item) => [item].into(),
            None => self.queue.refresh().await.map_err(|error| no_ledger(&error))?,
        };
        let read = async |item| (item, self.dead_letters(item).await);
        let mut answers = pin!(stream::iter(items).map(read).buffered(ITEMS_AT_ONCE_MAX));
        let mut listed = 0_usize;
        let mut unread = 0_usize;
        while let Some((item, letters)) = answers.next().await {
            let Ok(letters) =
                letters.inspect_err(|error| eprintln!("seckill: item {item}: {error}"))
            else {
                unread += 1;
                continue;
            };
            for letter in letters {
                if self.finish_if_sold(item, &letter).await? {
                    continue;
                }
                listed += 1;
                print_line(format_args!(
                    "item {item} entry {}: {}; {}",
                    letter.id,
                    described(&letter),
                    letter.why
                ));
            }
        }
        let listed = counted(listed, "dead letter");
        if unread == 0 {
            print_line(listed);
            return Ok(ExitCode::SUCCESS);
        }
        let unread = counted(unread, "item");
        print_line(format_args!("{listed}; incomplete: {unread} could not be read"));
        Ok(ExitCode::from(1))
    }

    /// Puts a dead letter back into its queue; or, with a `reason`, rejects its order, and deletes it. After a failure of
    /// any step, all of it can be done again: the operators' log has its line before the dead letter goes.
    async fn resolve(
        &self,
        item: ItemId,
        entry: &str,
        operator: UserId,
        reason: Option<&str>,
    ) -> ExitResult {
        let letters = self.dead_letters(item).await?;
        let Some(letter) = letters.into_iter().find(|letter| letter.id == entry) else {
            return not_there(item, entry);
        };
        if self.finish_if_sold(item, &letter).await? {
            return Ok(ExitCode::SUCCESS);
        }
        let Some(reason) = reason else {
            self.record(operator, "parked_retried", item, &json!({ "entry": entry })).await?;
            if !self.end(item, entry, Resolution::Retry).await? {
                // Another operator was quicker, so the line above needs a correction.
                let detail = json!({ "entry": entry, "was_there": false });
                self.record(operator, "parked_retried", item, &detail).await?;
                return not_there(item, entry);
            }
            print_line(format_args!("item {item} entry {entry}: back in the queue"));
            return Ok(ExitCode::SUCCESS);
        };
        let described = described(&letter);
        let ended = match &letter.order {
            Ok(order) => self.reject_order(item, order).await?.as_str(),
            Err(text) => {
                // Nobody could give its units back without it.
                let is_queued = self.queue.is_queued(item, text).await;
                if is_queued.map_err(|error| no_redis(&error))? {
                    let why = "holds the units of an order that another version has queued";
                    let then = "retry or drop it with that version";
                    return super::refuse(format_args!("item {item} entry {entry} {why}: {then}"));
                }
                "deleted"
            }
        };
        let detail = json!({ "entry": entry, "order": described, "reason": reason });
        self.record(operator, "parked_dropped", item, &detail).await?;
        self.end(item, entry, Resolution::Delete).await?;
        print_line(format_args!("item {item} entry {entry}: {described}; now {ended}"));
        Ok(ExitCode::SUCCESS)
    }

    /// Rejects the order unless the ledger has it already, and returns its status.
    async fn reject_order(&self, item: ItemId, order: &Intention) -> Result<OrderStatus, String> {
        let found = items::find(&self.pool, item).await.map_err(|error| no_ledger(&error))?;
        let found = found.ok_or_else(|| format!("there is no item {item}"))?;
        let purchase = order.clone().purchase(found.item, redis_stream::NAME);
        let arbiter = Arbiter::new(self.pool.clone(), Metrics::new()).with_outbox(self.outbox);
        let decided = arbiter.reject(&purchase).await.map_err(|error| no_ledger(&error))?;
        self.ack(item, order, decided.status == OrderStatus::Rejected).await?;
        Ok(decided.status)
    }

    /// Finishes a dead letter whose order the ledger has as sold. Returns whether it did.
    async fn finish_if_sold(&self, item: ItemId, letter: &DeadLetter) -> Result<bool, String> {
        let Ok(order) = &letter.order else { return Ok(false) };
        let found = orders::find(&self.pool, order.order, order.buyer).await;
        let found = found.map_err(|error| no_ledger(&error))?;
        let Some(sold) = found.filter(|found| found.status != OrderStatus::Rejected) else {
            return Ok(false);
        };
        self.ack(item, order, false).await?;
        self.end(item, &letter.id, Resolution::Delete).await?;
        let entry = &letter.id;
        let described = described(letter);
        let status = sold.status.as_str();
        print_line(format_args!("item {item} entry {entry}: {described}; sold, now {status}"));
        Ok(true)
    }

    async fn ack(&self, item: ItemId, order: &Intention, refused: bool) -> Result<(), String> {
        let reader = Reader::new(self.queue.clone());
        let acked = reader.ack(item, NO_ENTRY, order, refused).await;
        acked.map(|_| ()).map_err(|error| no_redis(&error))
    }

    /// Takes a dead letter out of the list; `false` if it is not there.
    async fn end(&self, item: ItemId, entry: &str, resolution: Resolution) -> Result<bool, String> {
        let ended = self.queue.resolve_dead_letter(item, entry, resolution).await;
        ended.map_err(|error| no_redis(&error))
    }

    async fn dead_letters(&self, item: ItemId) -> Result<Vec<DeadLetter>, String> {
        self.queue.dead_letters(item).await.map_err(|error| no_redis(&error))
    }

    async fn record(
        &self,
        operator: UserId,
        action: &'static str,
        item: ItemId,
        detail: &serde_json::Value,
    ) -> Result<(), String> {
        let actor = Actor { user: operator, address: None, now: Clock::default().now() };
        let recorded = actions::record_alone(&self.pool, &actor, action, Some(item), detail).await;
        recorded.map_err(|error| no_ledger(&error))
    }
}

fn described(letter: &DeadLetter) -> String {
    match &letter.order {
        Ok(order) => format!(
            "order {} of buyer {}, {}",
            order.order,
            order.buyer,
            counted(order.quantity.units(), "unit")
        ),
        Err(text) => format!("not an order: {text:?}"),
    }
}

fn not_there(item: ItemId, entry: &str) -> ExitResult {
    super::refuse(format_args!("item {item} has no dead letter {entry}"))
}

fn no_ledger(error: &ledger::Error) -> String {
    format!("the ledger does not answer: {error}")
}

fn no_redis(error: &redis::RedisError) -> String {
    format!("Redis does not answer: {error}")
}
