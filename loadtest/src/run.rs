//! One load on one item, or on several, from the first token to the verdict.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderValue;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use ledger_audit::{Evidence, InTime, Judgement, Ledger, Reader, judge, write_history};

use crate::carts::{Carts, name_guests};
use crate::drive::batches::Batches;
use crate::drive::{self, Drive, Instance, Policy, Traffic};
use crate::environment::Environment;
use crate::failure::CannotJudge;
use crate::files;
use crate::kills::Victim;
use crate::options::{RunOptions, Switch};
use crate::plan::{Pace, Plan};
use crate::process::{self, ProcessorMeter, ProcessorUse};
use crate::report::{JudgedItems, Report, RunCircumstances, ServiceSays, TrafficSummary, Verdict};
use crate::service::{self, Admin};
use crate::tokens::{Mint, TestShop, seckill_program};

/// How long the service's counters in Redis may take to come to the ledger's figure.
const DRIFT_MAX: Duration = Duration::from_secs(10);
/// How often it is asked meanwhile.
const AUDIT_AGAIN: Duration = Duration::from_millis(250);
/// Units of a lab item when `--stock` is not given.
const STOCK_DEFAULT: i64 = 500;
/// How long the audit waits at most for queued orders and running purchases to end.
const SETTLE_MAX: Duration = Duration::from_secs(30);
/// How long to go on trying for a connection where the service is killed meanwhile.
const KILLED_WAIT: Duration = Duration::from_secs(60);

/// What the purchases are aimed at.
struct Sale {
    /// The items, as they were before the first purchase.
    items: Vec<(i64, Ledger)>,
    /// Units on sale, from our own input; for an existing item without `--stock` the total that
    /// the ledger showed before the first purchase.
    stock: i64,
    per_buyer_limit: i64,
    /// `None` when an existing item does not tell; then it is judged as on.
    arbiter: Option<Switch>,
    /// What the orders have, if they are reservations.
    carts: Option<Carts>,
}

impl Sale {
    /// The id of the first item.
    fn item_id(&self) -> i64 {
        self.items[0].0
    }
}

/// What the traffic left behind.
struct Aftermath {
    traffic: Traffic,
    processor: ProcessorUse,
    audit: Judgement,
    service_says: ServiceSays,
    items: JudgedItems,
}

/// A judged load with every answer.
pub struct Run {
    pub report: Report,
    /// The record of answers.
    pub traffic: Traffic,
}

/// Runs one load and judges it.
pub async fn execute(options: &RunOptions, environment: &Environment) -> Result<Run, CannotJudge> {
    let seed = options.seed.unwrap_or_else(rand::random);
    let victim = Victim::start(options, environment, seed).await?;
    let instances = match &victim {
        Some(victim) => vec![victim.instance()],
        None => service::instances(&options.url, environment).await?,
    };
    let mut reader = Reader::connect(&environment.database_url()?).await?;
    let database = reader.database().await?;
    let mint = Mint::new(seckill_program(options.seckill.clone()), environment);
    let admin = Admin::new(instances.clone(), mint.admin().await?);
    let sale = prepare_sale(options, &admin, &mut reader, seed).await?;
    let plan = draw_plan(options, &sale, seed)?;
    let requests = plan.requests.len();
    let tokens = mint.buyers(options.first_buyer, buyer_tokens(options)).await?;
    let shop = match options.batch {
        0 | 1 => None,
        _ => Some(mint.shop().await?),
    };
    let drive = prepare_drive(options, plan, &instances, tokens, shop.as_ref(), &sale)?;

    let started_at = OffsetDateTime::now_utc();
    let aftermath = fire_and_judge(options, drive, &sale, &admin, &mut reader, victim).await;
    if let Some(shop) = shop {
        mint.end(&shop).await?;
    }
    let aftermath = aftermath?;
    let circumstances = RunCircumstances {
        started_at: started_at.format(&Rfc3339).unwrap_or_default(),
        options: options.clone(),
        item_id: sale.item_id(),
        stock: sale.stock,
        requests,
        per_buyer_limit: sale.per_buyer_limit,
        arbiter: sale.arbiter.map_or("unknown", Switch::as_str),
        instances: instances.iter().map(|instance| instance.url.clone()).collect(),
        seed,
        cores: process::cores(),
        processor: aftermath.processor,
        database,
    };
    let report = Report {
        verdict: Verdict::of(
            &aftermath.audit,
            &aftermath.service_says,
            sale.stock,
            &aftermath.items,
            options.expect_oversell,
        ),
        circumstances,
        traffic: TrafficSummary::of(&aftermath.traffic, &options.strategies()),
        audit: aftermath.audit,
        service_says: aftermath.service_says,
        items: aftermath.items,
    };
    if let Some(path) = &options.json {
        files::write_json(path, &report)?;
    }
    Ok(Run { report, traffic: aftermath.traffic })
}

async fn prepare_sale(
    options: &RunOptions,
    admin: &Admin,
    reader: &mut Reader,
    seed: u64,
) -> Result<Sale, CannotJudge> {
    let Some(item_id) = options.item else {
        return sale_of_new_items(options, admin, reader, seed).await;
    };
    let item = admin.item(item_id).await?;
    let before = reader.ledger(item_id).await?;
    let total = before.stock.map(|stock| stock.total);
    let stock = options.stock.or(total).ok_or_else(|| {
        CannotJudge(format!("item {item_id} has no stock row: there is nothing to audit"))
    })?;
    let per_buyer_limit = item["per_buyer_limit"].as_i64().unwrap_or(1);
    let items = vec![(item_id, before)];
    Ok(Sale { items, stock, per_buyer_limit, arbiter: arbiter_of(&item), carts: None })
}

async fn sale_of_new_items(
    options: &RunOptions,
    admin: &Admin,
    reader: &mut Reader,
    seed: u64,
) -> Result<Sale, CannotJudge> {
    let stock = options.stock.unwrap_or(STOCK_DEFAULT);
    let name = options.strategy.join(", ");
    let mut items = Vec::new();
    for _ in 0..options.item_count() {
        let item = admin.create_lab_item(&name, stock, options.arbiter).await?;
        let before = reader.ledger(item).await?;
        if !before.item_exists {
            return Err(CannotJudge(format!(
                "the service made item {item}, and this database does not have it: is DATABASE_URL the service's own?"
            )));
        }
        items.push((item, before));
    }
    let ids: Vec<i64> = items.iter().map(|(item, _)| *item).collect();
    let carts = options.are_reservations().then(|| Carts::draw(&ids, options.lines.into(), seed));
    Ok(Sale { items, stock, per_buyer_limit: 1, arbiter: Some(options.arbiter), carts })
}

fn arbiter_of(item: &Value) -> Option<Switch> {
    match item["arbiter"].as_str() {
        Some("on") => Some(Switch::On),
        Some("off") => Some(Switch::Off),
        _ => None,
    }
}

fn draw_plan(options: &RunOptions, sale: &Sale, seed: u64) -> Result<Plan, CannotJudge> {
    let pace = match (options.rate, options.seconds) {
        (Some(rate_per_second), Some(seconds)) => Pace::Open { rate_per_second, seconds },
        _ => Pace::Closed { requests: options.requests },
    };
    // The number of a reservation's strategy is that of its cart.
    let strategies = match &sale.carts {
        Some(carts) => carts.count(),
        None => u32::try_from(options.strategies().len()).unwrap_or(u32::MAX),
    };
    let key_prefix = Some(Uuid::now_v7().simple().to_string());
    Plan::draw(pace, options.buyers, strategies, key_prefix, seed)
}

/// The number of buyers who need a token: a shop's program has one token for all guests.
fn buyer_tokens(options: &RunOptions) -> u32 {
    if options.batch > 1 { 1 } else { options.buyers }
}

fn prepare_drive(
    options: &RunOptions,
    plan: Plan,
    instances: &[Instance],
    tokens: Vec<HeaderValue>,
    shop: Option<&TestShop>,
    sale: &Sale,
) -> Result<Arc<Drive>, CannotJudge> {
    let strategies = options.strategies();
    let path = |strategy: &String| service::purchase_path(strategy, sale.item_id());
    let paths = strategies.iter().map(path).collect::<Result<Vec<_>, _>>()?;
    let policy = Policy {
        retries_max: options.retries_max(),
        wait: if options.kills > 0 { KILLED_WAIT } else { Duration::ZERO },
        traffic_max: options.seconds_max.map(Duration::from_secs_f64),
        readers: options.readers,
        change_percent: options.change_percent,
        ..Policy::once(options.concurrency as usize, Duration::ZERO)
    };
    let first_buyer = options.first_buyer;
    let mut drive = Drive::new(plan, policy, instances.to_vec(), paths, tokens, first_buyer);
    if let Some(carts) = &sale.carts {
        // The number of a purchase's strategy is that of its order.
        drive.orders = carts.requests();
        drive.batches = shop.map(|shop| {
            let token = shop.token.clone();
            Batches { size: options.batch.into(), token, orders: carts.lines() }
        });
    }
    Ok(Arc::new(drive))
}

async fn fire_and_judge(
    options: &RunOptions,
    drive: Arc<Drive>,
    sale: &Sale,
    admin: &Admin,
    reader: &mut Reader,
    victim: Option<Victim>,
) -> Result<Aftermath, CannotJudge> {
    let meter = ProcessorMeter::start();
    let killed = victim.map(|victim| tokio::spawn(victim.suffer(Arc::clone(&drive))));
    let mut traffic = drive::fire(drive).await;
    let processor = meter.stop();
    // It goes on to answer for the audit.
    let _victim = match killed {
        Some(killed) => Some(killed.await.map_err(|error| CannotJudge(error.to_string()))??),
        None => None,
    };
    if let Some(path) = &options.history {
        write_history(path, &traffic.answers)?;
    }
    // See `--sold-out-ms`.
    let sold_out_age = Duration::from_millis(2 * options.sold_out_ms);
    let mut judged: Vec<(Judgement, ServiceSays)> = Vec::new();
    let mut items = JudgedItems::default();
    // All items have the same units.
    for (item, before) in &sale.items {
        let after = if judged.is_empty() {
            reader.settled_ledger(*item, &traffic.answers, SETTLE_MAX).await?
        } else {
            reader.ledger(*item).await?
        };
        if options.batch > 1 {
            name_guests(&mut traffic.answers, &after);
        }
        let about = sale.carts.as_ref().map(|carts| carts.answers_about(*item, &traffic.answers));
        let audit = judge(&Evidence {
            per_buyer_limit: sale.per_buyer_limit,
            arbiter_on: sale.arbiter != Some(Switch::Off),
            before,
            in_time: Some(InTime { history: &traffic.history, sold_out_age }),
            ..Evidence::of(sale.stock, &after, about.as_ref().unwrap_or(&traffic.answers))
        })?;
        let says = settled_audit(admin, *item).await;
        let is_clean = Verdict::is_clean(&audit, &says);
        items.add(&audit, is_clean);
        // The report shows the first that is not clean, or the first.
        if judged.is_empty() || (!is_clean && items.unclean == 1) {
            judged = vec![(audit, says)];
        }
    }
    if sale.carts.is_some() {
        // The carts are known no more: the report counts by strategy.
        traffic.answers.iter_mut().for_each(|answer| answer.strategy = 0);
    }
    let (audit, service_says) = judged.pop().ok_or_else(|| CannotJudge::new("no item was sold"))?;
    Ok(Aftermath { traffic, processor, audit, service_says, items })
}

/// The service's own audit. Right after the traffic its counters in Redis may still be on their
/// way to the ledger's figure, so a drift (I7), and nothing else, is asked about again.
async fn settled_audit(admin: &Admin, item_id: i64) -> ServiceSays {
    let until = tokio::time::Instant::now() + DRIFT_MAX;
    loop {
        let audit = match admin.audit(item_id).await {
            Ok(audit) => audit,
            Err(reason) => return ServiceSays::Nothing(reason.to_string()),
        };
        let is_on = audit["arbiter"] == "on";
        let says = ServiceSays::Audit(audit);
        let only_drift = is_on && says.broken() == ["I7"];
        if !only_drift || tokio::time::Instant::now() >= until {
            return says;
        }
        tokio::time::sleep(AUDIT_AGAIN).await;
    }
}
