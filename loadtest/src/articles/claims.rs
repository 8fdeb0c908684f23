//! The statements of the articles, checked against our figures: each one is found here too, or it is
//! not, and then the report says why.

use super::market::{Figures, Way};
use crate::document::grouped;

/// One statement of an article.
struct Claim {
    /// What it says, with its figures.
    theirs: &'static str,
    /// Our figures for it.
    ours: String,
    found: bool,
    /// Why ours differ, where they do.
    reason: &'static str,
}

impl Claim {
    fn sentence(&self) -> String {
        let Self { theirs, ours, found, reason } = self;
        if *found {
            format!("The article: {theirs}. Here too: {ours}.")
        } else {
            format!("The article: {theirs}. **Not here**: {ours}. {reason}")
        }
    }
}

/// One market of S0.
pub struct Market {
    pub way: Way,
    pub sellers: usize,
    pub buyers: usize,
    pub figures: Figures,
}

/// One way to wait of S2.
pub struct WaitResult {
    pub way: &'static str,
    pub served: u64,
    pub requests: u64,
    pub seconds: f64,
    pub p90_us: u64,
    pub max_us: u64,
}

/// One way to sell of S4.
pub struct SaleResult {
    pub strategy: &'static str,
    pub instances: usize,
    pub per_second: f64,
    pub oversold: i64,
    /// Whether the article's oversold.
    pub oversells: bool,
}

/// S0.
pub fn of_markets(all: &[Market]) -> Vec<String> {
    let find = |way, sellers, buyers| {
        let found = all.iter().find(|m| (m.way, m.sellers, m.buyers) == (way, sellers, buyers));
        found.map(|market| &market.figures)
    };
    let per_purchase = |figures: &Figures| figures.retries as f64 / figures.bought.max(1) as f64;
    let figures = (
        find(Way::Watch, 1, 1),
        find(Way::Watch, 5, 1),
        find(Way::Watch, 5, 5),
        find(Way::OneLock, 1, 1),
        find(Way::OneLock, 5, 5),
        find(Way::LockPerItem, 5, 5),
    );
    let (Some(alone), Some(starved), Some(watch), Some(one), Some(lock), Some(fine)) = figures
    else {
        return Vec::new();
    };
    let locked = all.iter().filter(|market| market.way != Way::Watch);
    let (retries, bought) = locked.fold((0, 0), |(retries, bought), market| {
        (retries + market.figures.retries, bought + market.figures.bought)
    });
    let claims = [
        Claim {
            theirs: "WATCH collapses as sellers and buyers come, from 0.3 retries a purchase (1x1) to more than 268 (5x5), since every change of the market undoes every purchase under way",
            ours: format!("{:.2} and {:.2}", per_purchase(alone), per_purchase(watch)),
            found: per_purchase(watch) > 2.0 * per_purchase(alone) && watch.bought < alone.bought,
            reason: "The sellers were so slow that they seldom came between.",
        },
        Claim {
            theirs: "under WATCH five sellers starve one buyer (fewer than 200 bought instead of 27,000)",
            ours: format!("{} instead of {}", grouped(starved.bought), grouped(alone.bought)),
            found: 2 * starved.bought < alone.bought,
            reason: "The sellers were so slow that they seldom came between.",
        },
        Claim {
            theirs: "WATCH keeps a buyer waiting for 498 ms at 5x5, one lock for 14 ms",
            ours: format!("{:.1} ms and {:.1} ms", watch.wait_ms_mean(), lock.wait_ms_mean()),
            found: watch.wait_ms_mean() > lock.wait_ms_mean(),
            reason: "A purchase under WATCH that meets nobody is shorter, by the lock's two round trips.",
        },
        Claim {
            theirs: "a lock does not retry",
            ours: format!("{} retries, {} bought under locks", grouped(retries), grouped(bought)),
            found: retries * 1_000 <= bought,
            reason: "Some waited for the lock longer than the limit of ten seconds.",
        },
        Claim {
            theirs: "at 5x5 one lock buys 34 times as much as WATCH (20,500 and fewer than 600)",
            ours: format!("{} and {}", grouped(lock.bought), grouped(watch.bought)),
            found: lock.bought > 2 * watch.bought,
            reason: "Redis answers so fast here that a purchase is seldom undone.",
        },
        Claim {
            theirs: "even at 1x1 one lock buys more than WATCH (50,000 and 27,000)",
            ours: format!("{} and {}", grouped(one.bought), grouped(alone.bought)),
            found: one.bought > alone.bought,
            reason: "The one seller and the one buyer seldom meet here, so WATCH repeats little, and the lock costs two round trips more; which of the two is ahead differs from run to run.",
        },
        Claim {
            theirs: "a lock per item does better still (without a figure)",
            ours: format!("at 5x5 {} instead of {}", grouped(fine.bought), grouped(lock.bought)),
            found: fine.bought > lock.bought,
            reason: "All of them share one Redis and one thread, which are busy already.",
        },
    ];
    let mut remarks: Vec<String> = claims.iter().map(Claim::sentence).collect();
    remarks.push("What else differs: our sellers wait when 500,000 items are on offer, so that the memory of a long market stays bounded. The generator is one thread here, and Redis has the same cores. An absolute figure therefore says nothing about the article's.".to_owned());
    remarks
}

/// S2.
pub fn of_waits(all: &[WaitResult]) -> Vec<String> {
    let find = |way| all.iter().find(|waited| waited.way == way);
    let figures =
        (find("spin-then-yield"), find("yield-then-sleep"), find("sleep-200"), find("sleep-2000"));
    let (Some(spin), Some(mixed), Some(short), Some(long)) = figures else {
        return Vec::new();
    };
    let served = |waited: &WaitResult| format!("{} of {}", waited.served, waited.requests);
    let ms = |micros: u64| micros / 1_000;
    let claims = [
        Claim {
            theirs: "spinning fails most requests",
            ours: format!("{} served, {} where the losers sleep", served(spin), served(short)),
            found: spin.served * 2 < spin.requests,
            reason: "Between two looks our spinner awaits Redis' answer, and the holder works meanwhile; the article's holds on to a thread that the holder needs.",
        },
        Claim {
            theirs: "and takes twice the time",
            ours: format!("{:.1} s instead of {:.1} s", spin.seconds, short.seconds),
            found: spin.seconds >= 1.5 * short.seconds,
            reason: "A request gives up at the service's deadline of 8 s, so no way takes much longer than two of those.",
        },
        Claim {
            theirs: "to sleep 200 ms is fine, with or without yielding before",
            ours: format!("{} and {} served", served(short), served(mixed)),
            found: short.served == short.requests && mixed.served == mixed.requests,
            reason: "One lock lets one transaction after the other through, each with a commit on the disk; what is not through by the deadline has failed. A waiter that yields first asks Redis all the time, and that load is on the same cores here.",
        },
        Claim {
            theirs: "of the two, sleeping at once is better for the first 90 %",
            ours: format!("p90 {} ms instead of {} ms", ms(short.p90_us), ms(mixed.p90_us)),
            found: short.p90_us < mixed.p90_us,
            reason: "The figure counts served requests only, so a way of waiting that serves fewer requests has fewer late ones. Besides, a waiter that yields finds a free lock at once, one that sleeps only after up to 200 ms; where Redis is quick enough for all who ask, that decides.",
        },
        Claim {
            theirs: "to sleep 2 s is too long",
            ours: format!(
                "{} served and the last after {} ms, instead of {} and {} ms",
                served(long),
                ms(long.max_us),
                served(short),
                ms(short.max_us)
            ),
            found: long.served < short.served || long.max_us > short.max_us,
            reason: "With this many waiters one of them always wakes soon, and a waiter that never gets the lock gives up at the deadline in both cases.",
        },
    ];
    claims.iter().map(Claim::sentence).collect()
}

/// S4.
pub fn of_ways(all: &[SaleResult]) -> Vec<String> {
    let rate = |strategy: &str| {
        let found = all.iter().find(|way| way.strategy == strategy && way.instances == 1);
        found.map_or(0.0, |way| way.per_second)
    };
    let memory = rate("memory-naive");
    let naive = rate("mysql-naive");
    let update = rate("mysql-atomic");
    let locked_row = rate("mysql-for-update");
    let mutex = rate("mysql-mutex");
    let version = rate("mysql-version");
    let watch = rate("redis-watch");
    let textbook = ["lock-redis-setnx", "lock-redis-token", "lock-redis-reentrant"]
        .map(|lock| rate(&format!("{lock}?store=redis")));
    let fastest = textbook.into_iter().fold(0.0, f64::max);
    let slowest = textbook.into_iter().fold(f64::INFINITY, f64::min);
    let redisson = rate("lock-redis?store=redis");
    let others = all
        .iter()
        .filter(|way| !way.oversells && !["mysql-atomic", "mysql-batch"].contains(&way.strategy));
    let best = others.map(|way| way.per_second).fold(0.0, f64::max);
    let unlike = all.iter().filter(|way| (way.oversold > 0) != way.oversells).count();
    let claims = [
        Claim {
            theirs: "nine ways do not oversell and six do",
            ours: format!("the verdict of {unlike} rows differs"),
            found: unlike == 0,
            reason: "A way that can oversell need not do so in each run; one that oversells and should not is marked as broken.",
        },
        Claim {
            theirs: "a counter in memory is more than twice as fast as one in the database (5,400 and 2,000)",
            ours: format!("{memory:.0} and {naive:.0}"),
            found: memory > 2.0 * naive,
            reason: "The article's handler only counts. Ours writes an order and its movement in a transaction that is on the disk before the answer, wherever the counter is, so all of them are as fast as their transactions.",
        },
        Claim {
            theirs: "one UPDATE that judges and writes is the fastest way that does not oversell (1,950; the next 870)",
            ours: format!("{update:.0}; the next {best:.0}"),
            found: update > best,
            reason: "Loads of some seconds on a busy machine differ by more than these two do.",
        },
        Claim {
            theirs: "SELECT ... FOR UPDATE reaches a third of it (600)",
            ours: format!("{locked_row:.0}"),
            found: 2.0 * locked_row < update,
            reason: "It holds the row for one round trip more, which is short beside the rest of our transaction: the database is on the same machine.",
        },
        Claim {
            theirs: "an in-process lock is no faster than that (520 to 550)",
            ours: format!("{mutex:.0}"),
            found: mutex <= 1.1 * locked_row,
            reason: "The mutex is handed over inside the process, the row's lock inside the database.",
        },
        Claim {
            theirs: "compare-and-set on a version is the slowest (230)",
            ours: format!(
                "{version:.0}; in-process lock {mutex:.0}, WATCH {watch:.0}, locks on Redis from {slowest:.0}"
            ),
            found: version <= mutex.min(watch).min(slowest),
            reason: "Our locks are held until the order is on the disk, commit included, so one order follows the other; what loses a compare-and-set has not come that far and costs less.",
        },
        Claim {
            theirs: "WATCH is slower than every lock on Redis (370 and 550 to 870)",
            ours: format!("{watch:.0} and {slowest:.0} to {:.0}", fastest.max(redisson)),
            found: watch < slowest.min(redisson),
            reason: "Under WATCH only the step in Redis is repeated, and the orders are written side by side; under our locks they are written one after the other.",
        },
        Claim {
            theirs: "Redisson's lock is the fastest (870; the others 550 to 620)",
            ours: format!("{redisson:.0}; the others {slowest:.0} to {fastest:.0}"),
            found: redisson > 1.1 * fastest,
            reason: "All our kinds of lock share the line inside the process, so that only its head asks Redis, and the transaction under the lock takes far longer than a round trip to Redis. The article's others ask again in a loop, and Redisson's is told.",
        },
    ];
    claims.iter().map(Claim::sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waited(way: &'static str, served: u64, seconds: f64, p90_us: u64) -> WaitResult {
        WaitResult { way, served, requests: 2_000, seconds, p90_us, max_us: 2 * p90_us }
    }

    #[test]
    fn what_is_found_is_said_so_and_what_is_not_has_a_reason() {
        let mut all = vec![
            waited("spin-then-yield", 700, 20.0, 8_000_000),
            waited("yield-then-sleep", 2_000, 9.0, 4_000_000),
            waited("sleep-200", 2_000, 9.0, 3_000_000),
            waited("sleep-2000", 1_700, 12.0, 7_000_000),
        ];
        let as_theirs = of_waits(&all);
        assert_eq!(as_theirs.len(), 5);
        assert!(as_theirs.iter().all(|sentence| sentence.contains("Here too")), "{as_theirs:?}");
        all[0].served = 1_900;
        let unlike = of_waits(&all);
        assert!(
            unlike[0].contains("**Not here**") && unlike[0].ends_with("that the holder needs.")
        );
        assert!(of_waits(&all[1..]).is_empty(), "no claim of a run that did not take place");
    }

    #[test]
    fn a_verdict_unlike_the_articles_is_said() {
        let way = |strategy, oversold, oversells| SaleResult {
            strategy,
            instances: 1,
            per_second: 100.0,
            oversold,
            oversells,
        };
        let alike = of_ways(&[way("mysql-atomic", 0, false), way("mysql-naive", 9, true)]);
        assert!(alike[0].contains("Here too"), "{}", alike[0]);
        let unlike = of_ways(&[way("mysql-atomic", 1, false), way("mysql-naive", 9, true)]);
        assert!(unlike[0].contains("**Not here**: the verdict of 1 rows"), "{}", unlike[0]);
    }
}
