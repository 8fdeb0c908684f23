//! One trial: service processes, an item for each strategy, clients that buy, and a fault meanwhile.

use gates::LIST;
use loadtest::drive::readers::AcceptedOrders;
use shop_domain::outcome::Dependency;
use time::format_description::well_known::Rfc3339;

use crate::checker::{self, Allowed};
use crate::item::Counts;
use crate::prelude::*;
use crate::workload::Workload;

/// Left out: its lock never expires when its holder dies, which is what it is there to show.
const WITHOUT_EXPIRY: &str = "lock-redis-setnx";
/// Units of each item, unless the plan says otherwise.
const STOCK: i64 = 160;
/// Purchases beyond the stock.
const TOO_MANY: i64 = 40;
/// Fast enough that purchases are in flight when a fault comes, slow enough that units are left then.
const EVEN: Pace = Pace { clients: 6, per_second: 120.0 };
/// All clients at once, so that orders share batches.
pub const RUSH: Pace = Pace { clients: 32, per_second: 1e6 };
/// Strategies that one trial sells with at once; the next seed goes on with the next ones.
const AT_ONCE: usize = 6;
/// Strategies that are known to oversell, one in each trial: the audit must catch them.
const CONTROLS: [&str; 2] = ["mysql-naive", "mysql-mutex-per-request"];
/// After the fault, each item must be sold again within this time.
pub const RECOVERY_MAX: Duration = Duration::from_secs(30);
/// How long the first sales may take.
const FIRST_SALES_MAX: Duration = Duration::from_secs(20);

/// Looks at whether anything is still sold, at most, and the time between two of them.
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
                safe(|needs| needs.iter().any(|needed| needed.as_str() == server))
            }
        };
        let first = usize::try_from(seed).unwrap_or_default() * AT_ONCE % all.len();
        all.iter().copied().cycle().skip(first).take(AT_ONCE.min(all.len())).collect()
    }

    /// Every strategy that is safe.
    pub fn every_safe() -> Vec<&'static str> {
        safe(|_| true)
    }
}

fn safe(wanted: impl Fn(&[Dependency]) -> bool) -> Vec<&'static str> {
    let cards = LIST.iter().map(|entry| entry.card);
    let cards = cards.filter(|card| card.name != WITHOUT_EXPIRY);
    cards.filter(|card| card.is_safe() && wanted(card.needs)).map(|card| card.name).collect()
}

/// What a trial sells, and how its services are started.
pub struct Plan {
    pub seed: u64,
    pub strategies: Vec<&'static str>,
    /// How each of the instances is started.
    pub setups: Vec<Setup>,
    /// Whether the known-bad strategy sells as well.
    pub control: bool,
    /// What the servers of this trial do not promise.
    pub allowed: Allowed,
    /// Units of each item.
    pub stock: i64,
    /// Items of each order; their orders are written by `mysql-batch`.
    pub lines: usize,
    /// Number and speed of the clients.
    pub pace: Pace,
    /// Fields of the request that creates an item, beside the usual ones.
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
            allowed: Allowed::default(),
            stock: STOCK,
            lines: 1,
            pace: EVEN,
            item: json!({}),
        }
    }
}

/// A running trial.
pub struct Trial {
    pub services: Vec<Service>,
    pub workload: Workload,
    /// Random numbers that follow from the seed.
    pub random: StdRng,
    /// How often the fault was injected, where it is not once.
    pub injections: u32,
    /// What the servers of this trial do not promise; a fault may add to it.
    pub allowed: Allowed,
    fault_ended: Option<Instant>,
}

impl Trial {
    /// The fault is over: recovery counts from now.
    pub fn fault_ended(&mut self) {
        self.workload.fault_ended();
        self.fault_ended = Some(Instant::now());
    }

    /// Waits for a time below `below_ms` milliseconds, which the seed chooses, and returns it in milliseconds.
    pub async fn wait_a_moment(&mut self, below_ms: u64) -> u64 {
        let after = self.random.random_range(0..below_ms);
        sleep(Duration::from_millis(after)).await;
        after
    }

    /// Waits until `more` further purchases are accepted.
    pub async fn until_sold(&self, more: u64) -> Run<()> {
        let sold = self.sold() + more;
        let look = || std::future::ready((self.sold() >= sold).then_some(()));
        until("some purchases", RECOVERY_MAX, look).await
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
    pub fn item_ids(&self) -> Vec<i64> {
        self.workload.items.iter().filter(|item| !item.control).map(|item| item.id).collect()
    }

    /// Purchases accepted so far.
    pub fn sold(&self) -> u64 {
        self.workload.items.iter().map(|item| item.sold()).sum()
    }
}

/// Runs one trial: sells, injects `fault` meanwhile, and audits. `fault` calls [`Trial::fault_ended`] if it goes on after
/// the end of the fault, and returns the proof in words that it took effect.
pub async fn run_trial(
    testbed: &mut Testbed,
    plan: Plan,
    fault: impl AsyncFnOnce(&mut Testbed, &mut Trial) -> Run<String>,
) -> Run<TrialOutcome> {
    let services = plan.setups.iter().map(Service::start);
    let services = futures::future::try_join_all(services).await?;
    let mut items = Vec::new();
    let mut more = plan.item;
    more["stock"] = plan.stock.into();
    let controls = plan.control.then(|| CONTROLS[usize::try_from(plan.seed).unwrap_or(0) % 2]);
    for (index, &strategy) in plan.strategies.iter().chain(&controls).enumerate() {
        let control = index >= plan.strategies.len();
        if control {
            more["arbiter"] = "off".into();
        }
        let id = make_item(testbed, &services[0], &more).await?;
        let first = i64::try_from(index).unwrap_or(0) * 100_000 + 1;
        let buyers = first..first + plan.stock + TOO_MANY;
        let tokens = buyers.map(|id| (id, testbed.token(id, Role::Buyer))).collect();
        let mut further = Vec::new();
        for _ in 1..(if control { 1 } else { plan.lines }) {
            further.push(make_item(testbed, &services[0], &more).await?);
        }
        items.push(Arc::new(SaleItem {
            strategy: strategy.to_owned(),
            id,
            further,
            stock: plan.stock,
            control,
            tokens,
            accepted: AcceptedOrders::default(),
            counts: Counts::default(),
        }));
    }
    let addresses: Vec<_> = services.iter().map(|service| service.addr).collect();
    let begin = Instant::now();
    let workload = Workload::start(items, &addresses, plan.pace, plan.seed);
    let random = StdRng::seed_from_u64(plan.seed);
    let allowed = plan.allowed;
    let mut trial = Trial { services, workload, random, injections: 0, allowed, fault_ended: None };
    let proof = inject(testbed, &mut trial, fault).await;
    if trial.fault_ended.is_none() {
        trial.fault_ended();
    }
    let recovered = trial.workload.recovered(RECOVERY_MAX).await;
    // Long enough that a trial is not over before its clients have bought.
    sleep(testbed.sells.saturating_sub(begin.elapsed())).await;
    let Trial { services, workload, injections, allowed, .. } = trial;
    let records = workload.finish().await?;
    let proof = proof?;
    let trial = TrialOutcome::new(injections.max(1), proof, recovered);
    checker::check_trial(testbed, &services[0], records, trial, &allowed).await
}

/// Injects the fault once each item has been sold five times.
async fn inject(
    testbed: &mut Testbed,
    trial: &mut Trial,
    fault: impl AsyncFnOnce(&mut Testbed, &mut Trial) -> Run<String>,
) -> Run<String> {
    let end = Instant::now() + FIRST_SALES_MAX;
    while trial.workload.items.iter().any(|item| item.sold() < 5) {
        if Instant::now() >= end {
            let sold = trial.workload.items.iter().map(|item| (&item.strategy, item.sold()));
            return Err(format!("sells nothing: {:?}", sold.collect::<Vec<_>>()));
        }
        sleep(Duration::from_millis(5)).await;
    }
    Box::pin(fault(testbed, trial)).await
}

/// Purchases sold once the fault has stopped the sale; after 6 s at the latest.
pub async fn when_it_stops(sold: impl Fn() -> u64) -> u64 {
    let mut last = sold();
    for _ in 0..LOOKS_MAX {
        sleep(LOOK_EVERY).await;
        let before = std::mem::replace(&mut last, sold());
        if last == before {
            break;
        }
    }
    last
}

/// Makes an item that is open now.
pub async fn make_item(testbed: &Testbed, service: &Service, more: &Value) -> Run<i64> {
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
        "arbiter": "on",
    });
    if let (Value::Object(body), Value::Object(more)) = (&mut body, more.clone()) {
        body.extend(more);
    }
    let token = testbed.token(1, Role::Admin);
    let (status, made) = service.ask("POST", "/api/admin/items", &token, &body.to_string()).await;
    made["id"].as_i64().ok_or_else(|| format!("no item was made: {status} {made}"))
}
