//! The statements of the articles, checked against our figures: each one is found here too, or it is not.

use super::experiments::WAITS_REQUESTS;
use super::market::Figures;
use crate::document::grouped;

/// A statement of an article, with its figures, and ours for it.
fn claim(theirs: &str, ours: &str, found: bool) -> String {
    let here = if found { "Here too" } else { "**Not here**" };
    format!("The article: {theirs}. {here}: {ours}.")
}

/// One way to wait of S2.
pub struct WaitResult {
    pub served: u64,
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

/// S0; the markets in the order of the table.
pub fn of_markets(all: &[Figures]) -> Vec<String> {
    let [alone, starved, watch, one, _, lock, _, _, fine] = all else {
        return Vec::new();
    };
    let per_purchase = |figures: &Figures| figures.retries as f64 / figures.bought.max(1) as f64;
    let locked = &all[3..];
    let retries: u64 = locked.iter().map(|figures| figures.retries).sum();
    let bought: u64 = locked.iter().map(|figures| figures.bought).sum();
    vec![
        claim(
            "WATCH collapses as sellers and buyers come, from 0.3 retries a purchase (1x1) to more than 268 (5x5), since every change of the market undoes every purchase under way",
            &format!("{:.2} and {:.2}", per_purchase(alone), per_purchase(watch)),
            per_purchase(watch) > 2.0 * per_purchase(alone) && watch.bought < alone.bought,
        ),
        claim(
            "under WATCH five sellers starve one buyer (fewer than 200 bought instead of 27,000)",
            &format!("{} instead of {}", grouped(starved.bought), grouped(alone.bought)),
            2 * starved.bought < alone.bought,
        ),
        claim(
            "WATCH keeps a buyer waiting for 498 ms at 5x5, one lock for 14 ms",
            &format!("{:.1} ms and {:.1} ms", watch.wait_ms_mean(), lock.wait_ms_mean()),
            watch.wait_ms_mean() > lock.wait_ms_mean(),
        ),
        claim(
            "a lock does not retry",
            &format!("{} retries, {} bought under locks", grouped(retries), grouped(bought)),
            retries * 1_000 <= bought,
        ),
        claim(
            "at 5x5 one lock buys 34 times as much as WATCH (20,500 and fewer than 600)",
            &format!("{} and {}", grouped(lock.bought), grouped(watch.bought)),
            lock.bought > 2 * watch.bought,
        ),
        claim(
            "even at 1x1 one lock buys more than WATCH (50,000 and 27,000)",
            &format!("{} and {}", grouped(one.bought), grouped(alone.bought)),
            one.bought > alone.bought,
        ),
        claim(
            "a lock per item does better still (without a figure)",
            &format!("at 5x5 {} instead of {}", grouped(fine.bought), grouped(lock.bought)),
            fine.bought > lock.bought,
        ),
        "What else differs: our sellers wait when 500,000 items are on offer, so that the memory of a long market stays bounded. The generator is one thread here, and Redis has the same cores. An absolute figure therefore says nothing about the article's.".to_owned(),
    ]
}

/// S2; the ways to wait in the order of the table.
pub fn of_waits(all: &[WaitResult]) -> Vec<String> {
    let [spin, mixed, short, long, ..] = all else {
        return Vec::new();
    };
    let requests = u64::from(WAITS_REQUESTS);
    let served = |waited: &WaitResult| format!("{} of {requests}", waited.served);
    let ms = |micros: u64| micros / 1_000;
    vec![
        claim(
            "spinning fails most requests",
            &format!("{} served, {} where the losers sleep", served(spin), served(short)),
            spin.served * 2 < requests,
        ),
        claim(
            "and takes twice the time",
            &format!("{:.1} s instead of {:.1} s", spin.seconds, short.seconds),
            spin.seconds >= 1.5 * short.seconds,
        ),
        claim(
            "to sleep 200 ms is fine, with or without yielding before",
            &format!("{} and {} served", served(short), served(mixed)),
            short.served == requests && mixed.served == requests,
        ),
        claim(
            "of the two, sleeping at once is better for the first 90 %",
            &format!("p90 {} ms instead of {} ms", ms(short.p90_us), ms(mixed.p90_us)),
            short.p90_us < mixed.p90_us,
        ),
        claim(
            "to sleep 2 s is too long",
            &format!(
                "{} served and the last after {} ms, instead of {} and {} ms",
                served(long),
                ms(long.max_us),
                served(short),
                ms(short.max_us)
            ),
            long.served < short.served || long.max_us > short.max_us,
        ),
    ]
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
    vec![
        claim(
            "nine ways do not oversell and six do",
            &format!("the verdict of {unlike} rows differs"),
            unlike == 0,
        ),
        claim(
            "a counter in memory is more than twice as fast as one in the database (5,400 and 2,000)",
            &format!("{memory:.0} and {naive:.0}"),
            memory > 2.0 * naive,
        ),
        claim(
            "one UPDATE that judges and writes is the fastest way that does not oversell (1,950; the next 870)",
            &format!("{update:.0}; the next {best:.0}"),
            update > best,
        ),
        claim(
            "SELECT ... FOR UPDATE reaches a third of it (600)",
            &format!("{locked_row:.0}"),
            2.0 * locked_row < update,
        ),
        claim(
            "an in-process lock is no faster than that (520 to 550)",
            &format!("{mutex:.0}"),
            mutex <= 1.1 * locked_row,
        ),
        claim(
            "compare-and-set on a version is the slowest (230)",
            &format!(
                "{version:.0}; in-process lock {mutex:.0}, WATCH {watch:.0}, locks on Redis from {slowest:.0}"
            ),
            version <= mutex.min(watch).min(slowest),
        ),
        claim(
            "WATCH is slower than every lock on Redis (370 and 550 to 870)",
            &format!("{watch:.0} and {slowest:.0} to {:.0}", fastest.max(redisson)),
            watch < slowest.min(redisson),
        ),
        claim(
            "Redisson's lock is the fastest (870; the others 550 to 620)",
            &format!("{redisson:.0}; the others {slowest:.0} to {fastest:.0}"),
            redisson > 1.1 * fastest,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

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
