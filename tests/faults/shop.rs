//! A trial that sells: service processes, an item for each strategy, a crowd, and a fault meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use rand::SeedableRng;
use rand::rngs::StdRng;
use seckill::account::Role;
use seckill::domain::outcome::Dependency;
use seckill::strategy::LIST;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::Run;
use crate::crowd::{Crowd, Good, Pace};
use crate::service::{Service, Setup};
use crate::stage::Stage;
use crate::verdict::{self, Trial};

/// Its lock stays for ever when its holder dies: that is what it is there to show.
const WITHOUT_EXPIRY: &str = "lock-redis-setnx";
/// Units of each item, unless the plan says otherwise.
const STOCK: i64 = 160;
/// Purchases beyond the stock.
const TOO_MANY: i64 = 40;
/// Enough that purchases are in flight when a fault comes, and few enough that some are left.
const EVEN: Pace = Pace { workers: 6, per_second: 120.0 };
/// Everybody at once, so that a lane has batches.
pub const RUSH: Pace = Pace { workers: 32, per_second: 1e6 };
/// Strategies that one trial sells with at once; the next seed goes on with the next ones.
const AT_ONCE: usize = 6;
/// Strategies that are caught by an audit, one in each trial.
const CONTROLS: [&str; 2] = ["mysql-naive", "mysql-mutex-per-request"];
/// How long a crowd may take until it sells again.
pub const RECOVERY_MAX: Duration = Duration::from_secs(30);
/// How long the first sales may take.
const FIRST_SALES_MAX: Duration = Duration::from_secs(20);

/// How often it is looked whether anything is still sold, and the time from one look to the next.
const LOOKS_MAX: usize = 20;
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// Which strategies a fault concerns.
#[derive(Clone, Copy, Debug)]
pub enum Wanted {
    /// Every safe one.
    Safe,
    /// Safe ones that need this server, `redis` for instance.
    Needing(&'static str),
    /// These.
    These(&'static [&'static str]),
}

impl Wanted {
    /// The strategies of the trial with this seed.
    pub fn of(self, seed: u64) -> Vec<&'static str> {
        let all: Vec<&'static str> = match self {
            Self::These(names) => return names.to_vec(),
            Self::Safe => safe(|_| true),
            Self::Needing(server) => {
                safe(|needs| needs.iter().any(|needed| needed.name() == server))
            }
        };
        let first = usize::try_from(seed).unwrap_or_default() * AT_ONCE % all.len();
        all.iter().copied().cycle().skip(first).take(AT_ONCE.min(all.len())).collect()
    }
}

fn safe(wanted: impl Fn(&[Dependency]) -> bool) -> Vec<&'static str> {
    let cards = LIST.iter().map(|entry| entry.card);
    let cards = cards.filter(|card| card.name != WITHOUT_EXPIRY);
    cards.filter(|card| card.safe && wanted(card.needs)).map(|card| card.name).collect()
}

/// What a trial sells, and how its services are started.
pub struct Plan {
    pub seed: u64,
    pub strategies: Vec<&'static str>,
    /// How each of the instances is started.
    pub setups: Vec<Setup>,
    /// Whether the known-bad strategy sells as well.
    pub control: bool,
    /// Orders that were answered 202 may be lost: the queue's Redis promises no more.
    pub queue_may_be_lost: bool,
    /// Units of each item.
    pub stock: i64,
    /// How many buy, and how fast.
    pub pace: Pace,
    /// What the request that makes an item has beside the usual.
    pub item: Value,
}

impl Plan {
    /// Two equal instances and a control.
    pub fn new(seed: u64, wanted: Wanted, setup: &Setup) -> Self {
        Self {
            seed,
            strategies: wanted.of(seed),
            setups: vec![setup.clone(), setup.clone()],
            control: true,
            queue_may_be_lost: false,
            stock: STOCK,
            pace: EVEN,
            item: json!({}),
        }
    }
}

/// A running trial.
pub struct Shop {
    pub services: Vec<Service>,
    pub crowd: Crowd,
    /// Decides what the seed decides.
    pub dice: StdRng,
    /// How often the fault was injected.
    pub injections: u32,
    mended: Option<Instant>,
}

impl Shop {
    /// The fault is over: recovery counts from now.
    pub fn mended(&mut self) {
        self.crowd.mended();
        self.mended = Some(Instant::now());
    }

    /// The sum of a metric over the instances and over its labels that have `with` in them.
    pub async fn metric(&self, name: &str, with: &str) -> f64 {
        let mut sum = 0.0;
        for service in &self.services {
            sum += service.metric(name, with).await;
        }
        sum
    }

    /// The items of the safe strategies.
    pub fn items(&self) -> Vec<i64> {
        self.crowd.goods.iter().filter(|good| !good.control).map(|good| good.item).collect()
    }

    /// Purchases accepted so far.
    pub fn sold(&self) -> u64 {
        self.crowd.goods.iter().map(|good| good.sold()).sum()
    }
}

/// Sells while `fault` injects, shows that it bit, and mends; then audits. The fault's answer is the
/// proof in words; it calls [`Shop::mended`] when it is over.
pub async fn sell_through(
    stage: &mut Stage,
    plan: Plan,
    fault: impl AsyncFnOnce(&mut Stage, &mut Shop) -> Run<String>,
) -> Run<Trial> {
    let services = plan.setups.iter().map(Service::start);
    let services = futures::future::try_join_all(services).await?;
    let mut goods = Vec::new();
    let mut more = plan.item;
    more["stock"] = plan.stock.into();
    let controls = plan.control.then(|| CONTROLS[usize::try_from(plan.seed).unwrap_or(0) % 2]);
    for (index, &strategy) in plan.strategies.iter().chain(&controls).enumerate() {
        let control = index >= plan.strategies.len();
        let item = make_item(stage, &services[0], control, &more).await?;
        let first = i64::try_from(index).unwrap_or(0) * 100_000 + 1;
        let buyers = first..first + plan.stock + TOO_MANY;
        let tokens = buyers.map(|id| (id, stage.token(id, Role::Buyer))).collect();
        goods.push(Arc::new(Good::new(strategy, item, plan.stock, control, tokens)));
    }
    let addresses: Vec<_> = services.iter().map(|service| service.addr).collect();
    let begin = Instant::now();
    let crowd = Crowd::start(goods, &addresses, plan.pace, plan.seed);
    let dice = StdRng::seed_from_u64(plan.seed);
    let mut shop = Shop { services, crowd, dice, injections: 0, mended: None };
    let proof = bite(stage, &mut shop, fault).await;
    if shop.mended.is_none() {
        shop.mended();
    }
    let recovered = shop.crowd.recovered(RECOVERY_MAX).await;
    // Long enough that a trial is not over before the crowd has pressed.
    tokio::time::sleep(stage.sells.saturating_sub(begin.elapsed())).await;
    let Shop { services, crowd, injections, .. } = shop;
    let records = crowd.finish().await?;
    let proof = proof?;
    let trial = Trial::new(injections, proof, recovered);
    verdict::judge(stage, &services[0], records, trial, plan.queue_may_be_lost).await
}

/// The fault, once the first units are sold.
async fn bite(
    stage: &mut Stage,
    shop: &mut Shop,
    fault: impl AsyncFnOnce(&mut Stage, &mut Shop) -> Run<String>,
) -> Run<String> {
    let end = Instant::now() + FIRST_SALES_MAX;
    while shop.crowd.goods.iter().any(|good| good.sold() < 5) {
        if Instant::now() >= end {
            let sold = shop.crowd.goods.iter().map(|good| (&good.strategy, good.sold()));
            return Err(format!("sells nothing: {:?}", sold.collect::<Vec<_>>()));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Box::pin(fault(stage, shop)).await
}

/// How many are sold once a fault has stopped the sale, or after a while.
pub async fn when_it_stops(sold: impl Fn() -> u64) -> u64 {
    let mut last = sold();
    for _ in 0..LOOKS_MAX {
        tokio::time::sleep(LOOK_EVERY).await;
        let before = std::mem::replace(&mut last, sold());
        if last == before {
            break;
        }
    }
    last
}

/// Makes an item that is open now.
pub async fn make_item(stage: &Stage, service: &Service, control: bool, more: &Value) -> Run<i64> {
    let now = OffsetDateTime::now_utc();
    let time = |at: OffsetDateTime| at.format(&Rfc3339).unwrap_or_default();
    let mut body = json!({
        "name": "A thing",
        "price_cents": 250,
        "stock": STOCK,
        "per_buyer_limit": 1,
        "starts_at": time(now - time::Duration::minutes(1)),
        "ends_at": time(now + time::Duration::days(1)),
        "kind": "lab",
        "arbiter": if control { "off" } else { "on" },
    });
    if let (Value::Object(body), Value::Object(more)) = (&mut body, more.clone()) {
        body.extend(more);
    }
    let token = stage.token(1, Role::Admin);
    let body = Bytes::from(body.to_string());
    let reply = service.ask("POST", "/api/admin/items", Some(&token), body).await?;
    let made: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    made["id"].as_i64().ok_or_else(|| format!("no item was made: {} {made}", reply.status))
}
