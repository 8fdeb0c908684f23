//! The five tables.

use sqlx::Row;

use super::market::{self, Way};
use super::{ArticleTable, Setup};
use crate::document::grouped;
use crate::failure::{CannotJudge, EXIT_CLEAN, OrCannotJudge};
use crate::options::{RunOptions, Switch};
use crate::run::{self, Run};
use crate::servers::database;
use ledger_audit::Outcome;

/// Ways to wait, sellers and buyers, and what the article counted: listed, bought, retries, mean
/// wait of a purchase in milliseconds.
type Theirs = Option<[&'static str; 4]>;
const MARKETS: [(Way, usize, usize, Theirs); 9] = [
    (Way::Watch, 1, 1, Some(["145,000", "27,000", "8,000", "14"])),
    (Way::Watch, 5, 1, Some(["331,000", "< 200", "5,000", "150"])),
    (Way::Watch, 5, 5, Some(["206,000", "< 600", "161,000", "498"])),
    (Way::OneLock, 1, 1, Some(["51,000", "50,000", "0", "1"])),
    (Way::OneLock, 5, 1, Some(["68,000", "13,000", "< 10", "5"])),
    (Way::OneLock, 5, 5, Some(["21,000", "20,500", "0", "14"])),
    (Way::LockPerItem, 1, 1, None),
    (Way::LockPerItem, 5, 1, None),
    (Way::LockPerItem, 5, 5, None),
];

/// S2: our option, what the article did, what it found.
const WAITS: [(&str, &str, &str); 5] = [
    ("spin-then-yield", "spin for 600 ms, then yield", "most requests fail, twice the time"),
    ("yield-then-sleep", "yield for 600 ms, then sleep 200 ms", "fine"),
    ("sleep-200", "sleep 200 ms", "fine; the better first 90 %"),
    ("sleep-2000", "sleep 2 s", "too long"),
    ("yield", "yield", "(named without a figure)"),
];
const WAITS_REQUESTS: u32 = 2_000;
const WAITS_CONCURRENCY: u32 = 1_000;

/// S4: what, our strategy, instances, requests per second as printed, whether it oversells.
const WAYS: [(&str, &str, usize, &str, bool); 16] = [
    ("counter in memory, no lock", "memory-naive", 1, "5,400", true),
    ("stock in MySQL, no lock", "mysql-naive", 1, "2,000", true),
    ("in-process lock around the MySQL steps", "mysql-mutex", 1, "520 to 550", false),
    ("the same, several lock objects", "mysql-mutex-per-request", 1, "1,800", true),
    ("the same, inside the transaction", "mysql-mutex-in-tx", 1, "750", true),
    ("the same, two servers", "mysql-mutex", 2, "610", true),
    ("one UPDATE that judges and writes", "mysql-atomic", 1, "1,950", false),
    ("SELECT ... FOR UPDATE", "mysql-for-update", 1, "600", false),
    ("version CAS", "mysql-version", 1, "230", false),
    ("stock in Redis, read then decrement", "redis-naive", 1, "2,000, 3,200 warm", true),
    ("WATCH / MULTI / EXEC", "redis-watch", 1, "370", false),
    ("setnx + del lock", "lock-redis-setnx?store=redis", 1, "550 to 600", false),
    ("+ script against wrong deletion", "lock-redis-token?store=redis", 1, "550, 620 warm", false),
    ("+ reentrant (hash + scripts)", "lock-redis-reentrant?store=redis", 1, "600", false),
    ("Redisson", "lock-redis?store=redis", 1, "870", false),
    ("(not in the article) one queue per item", "mysql-batch", 1, "-", false),
];
const WAYS_UNITS: u32 = 5_000;
const WAYS_CONCURRENCY: u32 = 500;

impl Setup<'_> {
    async fn fire(
        &self,
        strategy: &str,
        instances: usize,
        change: impl FnOnce(&mut RunOptions),
    ) -> Result<Run, CannotJudge> {
        let instances = &self.instances[..instances];
        let mut options = self.testbed.load(strategy, instances, self.testbed.seed);
        options.arbiter = Switch::Off;
        change(&mut options);
        Box::pin(run::execute(&options, &self.testbed.environment)).await
    }
}

/// S0.
pub async fn marketplace(setup: &Setup<'_>) -> Result<ArticleTable, CannotJudge> {
    let seconds = setup.options.seconds;
    let mut rows = Vec::new();
    let mut broken = Vec::new();
    for (way, sellers, buyers, theirs) in MARKETS {
        let figures = market::run(setup.testbed, way, sellers, buyers, seconds).await?;
        let name = match way {
            Way::Watch => "WATCH",
            Way::OneLock => "one lock",
            Way::LockPerItem => "a lock per item",
        };
        let ours = [
            grouped(figures.listed),
            grouped(figures.bought),
            grouped(figures.retries),
            format!("{:.1}", figures.wait_ms_mean()),
        ];
        let theirs = theirs.unwrap_or(["-"; 4]);
        let pairs = ours.into_iter().zip(theirs).map(|(ours, theirs)| format!("{ours} ({theirs})"));
        rows.push(std::iter::once(format!("{name} {sellers}x{buyers}")).chain(pairs).collect());
        if figures.faults != 0 {
            broken.push(format!(
                "{name} {sellers}x{buyers}: {} items are in two places or in none",
                figures.faults
            ));
        }
    }
    Ok(ArticleTable {
        name: "S0",
        title: "a market in Redis, under WATCH and under locks",
        setting: format!(
            "Sellers x buyers, {seconds} s each (the article's: 60 s). In parentheses the article's figures."
        ),
        head: vec!["market", "listed", "bought", "retries", "mean wait of a purchase, ms"],
        rows,
        remarks: vec!["Our sellers wait when 500,000 items are on offer, so that the memory of a long market stays bounded. The generator is one thread here, and Redis has the same cores. An absolute figure therefore says nothing about the article's.".to_owned()],
        broken,
    })
}

/// S1.
pub async fn three_tasks(setup: &Setup<'_>) -> Result<ArticleTable, CannotJudge> {
    const TASKS: u32 = 3;
    const UNITS: i64 = 30;
    let run = setup
        .fire("lock-redis-token?wait=backoff", 1, |options| {
            options.stock = Some(UNITS);
            options.requests = 36;
            options.buyers = 36;
            options.concurrency = TASKS;
            options.arbiter = Switch::On;
        })
        .await?;
    let mut database = database(&setup.testbed.environment).await?;
    let fences: Vec<Option<i64>> = sqlx::query(
        "SELECT CAST(fence AS SIGNED) AS fence FROM orders WHERE item_id = ? ORDER BY created_at, id",
    )
    .bind(run.report.circumstances.item_id)
    .fetch_all(&mut database)
    .await
    .and_then(|rows| rows.iter().map(|row| row.try_get("fence")).collect())
    .or_cannot_judge("the orders cannot be read")?;
    let mut distinct: Vec<i64> = fences.iter().flatten().copied().collect();
    distinct.sort_unstable();
    distinct.dedup();
    let each_once = i64::try_from(distinct.len()) == Ok(UNITS);
    let sold = run.report.audit.units_live;
    let mut broken = Vec::new();
    if !each_once || sold != UNITS {
        broken.push(format!("{sold} units sold of {UNITS} under {} holds", distinct.len()));
    }
    let refused = run.traffic.answers.iter().filter(|at| at.outcome == Outcome::Refused).count();
    Ok(ArticleTable {
        name: "S1",
        title: "three tasks take turns under one lock",
        setting: "Three clients at once buy until nothing is left, under the article's lock (`lock-redis-token?wait=backoff`: SET NX PX, compare-and-delete, look again). The article prints each task's turn; we count the holds of the lock.".to_owned(),
        head: vec!["what", "ours", "the article's"],
        rows: vec![
            vec!["units sold".to_owned(), format!("{sold} of {UNITS}"), "all, one after the other".to_owned()],
            vec!["holds of the lock, each with a fence of its own".to_owned(), distinct.len().to_string(), "one a turn".to_owned()],
            vec!["turned away afterwards".to_owned(), refused.to_string(), "-".to_owned()],
        ],
        remarks: vec!["Each order carries the fence of the hold under which it was written. As many different fences as units: no two tasks were under the lock at once.".to_owned()],
        broken,
    })
}

/// S2.
pub async fn waiting(setup: &Setup<'_>) -> Result<ArticleTable, CannotJudge> {
    let mut rows = Vec::new();
    let mut broken = Vec::new();
    let ours = [("", "(ours) in line, only the first asks", "-")];
    for (wait, what, theirs) in WAITS.into_iter().chain(ours) {
        let parameter = if wait.is_empty() { String::new() } else { format!("&wait={wait}") };
        let run = setup
            .fire(&format!("lock-redis?scope=item{parameter}"), 1, |options| {
                options.stock = Some(i64::from(WAITS_REQUESTS));
                options.requests = WAITS_REQUESTS;
                options.buyers = WAITS_REQUESTS;
                options.concurrency = WAITS_CONCURRENCY;
                options.arbiter = Switch::On;
            })
            .await?;
        let report = &run.report;
        let traffic = &run.report.traffic;
        let latency = traffic.accepted.from_plan;
        let ms = |micros: u64| format!("{:.0}", micros as f64 / 1e3);
        rows.push(vec![
            if wait.is_empty() { what.to_owned() } else { format!("`{wait}`: {what}") },
            format!("{} of {WAITS_REQUESTS}", traffic.accepted.purchases),
            format!("{:.1}", traffic.seconds),
            format!("{:.0}", traffic.accepted.per_second),
            ms(latency.p50_us),
            ms(latency.p90_us),
            ms(latency.max_us),
            theirs.to_owned(),
        ]);
        if report.audit.oversold.count + report.audit.lost.count > 0 {
            broken.push(format!("{wait}: {}", report.verdict.sentence));
        }
    }
    let remarks = [
        "A request of ours waits as long as the service's deadline (8 s), and under the lock each of them ends in a transaction on the disk, so the share that fails differs with the disk and with the load of the machine; the order of the ways is what compares.",
        "The last row is what the service does by itself: losers stand in line inside the process, only the first of them asks Redis, and one hold writes the orders of all who wait.",
    ];
    Ok(ArticleTable {
        name: "S2",
        title: "five ways to wait for a lock",
        setting: format!(
            "{WAITS_REQUESTS} requests, {WAITS_CONCURRENCY} at once, one lock on the item (`lock-redis?scope=item&wait=...`); a request that does not get the lock in time has failed.",
        ),
        head: vec![
            "how a loser waits",
            "served",
            "seconds",
            "served/s",
            "p50 ms",
            "p90 ms",
            "max ms",
            "the article's",
        ],
        rows,
        remarks: remarks.map(str::to_owned).to_vec(),
        broken,
    })
}

/// S3.
pub async fn one_each(setup: &Setup<'_>) -> Result<ArticleTable, CannotJudge> {
    const CLICKS: u32 = 10;
    const BUYERS: u32 = 200;
    const COUPONS: i64 = 150;
    let run = setup
        .fire("lock-redis", 2, |options| {
            options.stock = Some(COUPONS);
            options.buyers = BUYERS;
            options.requests = BUYERS * CLICKS;
            options.concurrency = 100;
            options.retry = 20;
            options.arbiter = Switch::On;
        })
        .await?;
    let audit = &run.report.audit;
    let count = |code: &str| run.traffic.answers.iter().filter(|at| at.code == code).count();
    let broken = if run.report.verdict.exit_code == EXIT_CLEAN && audit.over_limit.count == 0 {
        Vec::new()
    } else {
        vec![run.report.verdict.sentence.clone()]
    };
    Ok(ArticleTable {
        name: "S3",
        title: "one coupon per buyer",
        setting: format!("{BUYERS} buyers, {COUPONS} coupons, each buyer clicks {CLICKS} times, each click a request of its own, on two instances (`lock-redis`: the buyer's lock without waiting, then the item's)."),
        head: vec!["what", "ours", "the article's"],
        rows: vec![
            vec!["coupons given out".to_owned(), format!("{} of {COUPONS}", audit.units_live), "all, none twice".to_owned()],
            vec!["buyers with more than one".to_owned(), audit.over_limit.count.to_string(), "0".to_owned()],
            vec!["clicks answered \"another click of yours is running\"".to_owned(), count("request_in_progress").to_string(), "\"no repeated purchase\"".to_owned()],
            vec!["clicks answered \"you have one\"".to_owned(), count("limit_reached").to_string(), "\"one per buyer\"".to_owned()],
            vec!["clicks answered \"sold out\"".to_owned(), count("sold_out").to_string(), "\"no stock\"".to_owned()],
        ],
        remarks: vec!["The article gives no figures. Its one-per-buyer check is a query in the transaction; ours is a row with a CHECK, which holds without the lock, too.".to_owned(), "Clicks come in rounds, each buyer once a round, so the coupons may be gone before anybody's second click; then nobody is told \"you have one\".".to_owned()],
        broken,
    })
}

/// S4.
pub async fn every_way(setup: &Setup<'_>) -> Result<ArticleTable, CannotJudge> {
    let mut rows = Vec::new();
    let mut broken = Vec::new();
    let mut unlike = 0;
    for (what, strategy, instances, theirs, oversells) in WAYS {
        let run = setup
            .fire(strategy, instances, |options| {
                // Half of them in surplus: with as many requests as units nobody could be sold a
                // unit too many, and the article reads the fault from the rest of the stock.
                options.stock = Some(i64::from(WAYS_UNITS));
                options.requests = WAYS_UNITS + WAYS_UNITS / 2;
                options.buyers = WAYS_UNITS + WAYS_UNITS / 2;
                options.concurrency = WAYS_CONCURRENCY;
                options.retry = 20;
                options.seconds_max = Some(60.0);
            })
            .await?;
        let audit = &run.report.audit;
        let traffic = &run.report.traffic;
        let answers = traffic.accepted.purchases + traffic.refused.purchases;
        let per_second = answers as f64 / traffic.seconds.max(0.001);
        let word = |oversold: bool| if oversold { "yes" } else { "no" };
        let oversold = audit.oversold.count;
        let found = oversold > 0;
        unlike += usize::from(found != oversells);
        rows.push(vec![
            what.to_owned(),
            format!("`{strategy}`{}", if instances == 2 { ", two instances" } else { "" }),
            format!("{per_second:.0}"),
            theirs.to_owned(),
            format!("{} ({oversold} units)", word(found)),
            word(oversells).to_owned(),
        ]);
        if is_fault(oversold, oversells) {
            broken.push(format!("{strategy}: {}", run.report.verdict.sentence));
        }
    }
    Ok(ArticleTable {
        name: "S4",
        title: "overselling, and every way to stop it",
        setting: format!(
            "{WAYS_UNITS} units, {WAYS_CONCURRENCY} requests at once, the gate alone (arbiter off). The article sends as many requests as units and compares the stock; we send half as many again, so that a unit too many is a sold unit.",
        ),
        head: vec!["what", "strategy", "req/s", "the article's", "oversells", "the article's"],
        rows,
        remarks: vec![format!("In {unlike} rows the verdict is another one than the article's.")],
        broken,
    })
}

/// Whether a way oversold although the article's does not. One that oversells there may have been lucky here.
fn is_fault(oversold: i64, oversells: bool) -> bool {
    oversold > 0 && !oversells
}

#[cfg(test)]
mod tests {
    use super::is_fault;

    #[test]
    fn an_oversell_that_the_article_does_not_have_is_a_fault() {
        assert!(is_fault(1, false));
        assert!(!is_fault(0, false) && !is_fault(9, true) && !is_fault(0, true));
    }
}
