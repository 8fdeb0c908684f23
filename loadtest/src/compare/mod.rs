//! `loadtest compare`: all strategies of the running service side by side.
//!
//! Each load has a new item and an audit of its own. There are four setups: the arbiter off (the
//! gate alone) and on, each with one instance of the service and with two, all started here on the
//! servers of the shop. Rounds go through all of them in a shuffled order, every second round
//! backwards, so that a machine that grows slower is unfair to nobody. An unsafe strategy that was
//! not caught gets further rounds with more buyers at once, the last of them with an instance
//! whose clock runs ahead where libfaketime is installed.
//!
//! In reading order: [`cell`] (one load), [`verdict`] (against the card), [`figures`] (rounds
//! summed up), [`result`] (what is concluded), [`charts`] on a [`canvas`](crate::canvas), and the [`report`].

mod cell;
mod charts;
mod figures;
mod report;
mod result;
mod verdict;

use std::collections::BTreeMap;
use std::path::Path;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use crate::circumstances::Circumstances;
use crate::document::Document;
use crate::drive::Instance;
use crate::failure::{CannotJudge, OrCannotJudge};
use crate::files;
use crate::launcher::{Service, clock_ahead};
use crate::options::{CompareOptions, RunOptions, Switch, check_only, is_wanted};
use crate::program::CommandResult;
use crate::progress::Steps;
use crate::service::Admin;
use crate::spread::Spread;
use crate::testbed::Testbed;
use crate::tokens::Mint;
use cell::{Cell, RETRIES_MAX, Round};
use figures::{Card, Row};
use ledger_audit::Expectation;
use result::{Comparison, StrategyVerdict, conclusion, judge_strategy};

/// One load: units, buyers who each want one, how many at once, and after how long no purchase begins.
const STOCK: i64 = 100;
const REQUESTS: u32 = 400;
const CONCURRENCY: u32 = 100;
const SECONDS_MAX: f64 = 15.0;
/// Further rounds for an unsafe strategy that has not oversold yet, each with more connections.
const FURTHER_ROUNDS: u32 = 6;
/// Instances at most.
const INSTANCES_MAX: usize = 2;
/// How far the clock of the last resort runs ahead: further than any lease.
const CLOCK_AHEAD_SECONDS: u32 = 3_600;
/// More buyers at once than this only wait for each other on a small machine.
pub const CONCURRENCY_MAX: u32 = 800;

/// The loads so far.
type Rounds = BTreeMap<Cell, Vec<Round>>;

/// Compares and writes the report.
pub async fn run(options: &CompareOptions) -> CommandResult {
    let testbed = Testbed::find(&options.testbed)?;
    let circumstances = testbed.circumstances().await?;
    let (services, instances) = testbed.pair("compare").await?;
    let cards = cards(options, &testbed, &instances).await?;
    let steps = Steps::new("compare", 0);
    let mut grid =
        Grid { options, testbed: &testbed, instances, cards, rounds: Rounds::new(), steps };
    grid.walk().await;
    grid.catch().await;
    let comparison = grid.sum_up(circumstances);
    for service in services {
        service.stop().await;
    }
    let document = write(&testbed.out, &comparison)?;
    let out = testbed.out.display();
    let files = format!("\nthe report: {out}/report.html, {out}/report.md, {out}/report.json\n");
    Ok((document.for_terminal() + &files, comparison.exit_code))
}

async fn cards(
    options: &CompareOptions,
    testbed: &Testbed,
    instances: &[Instance],
) -> Result<Vec<Card>, CannotJudge> {
    let mint = Mint::new(testbed.program.clone(), &testbed.environment);
    let admin = Admin::new(instances.to_vec(), mint.admin().await?);
    let list = admin.strategies().await?;
    let mut cards: Vec<Card> =
        serde_json::from_value(list).or_cannot_judge("the list of strategies is not as agreed")?;
    check_only(&options.only, &cards.iter().map(|card| &*card.name).collect::<Vec<_>>())?;
    cards.retain(|card| is_wanted(&options.only, &card.name));
    if !cards.iter().any(|card| card.available) {
        return Err(CannotJudge::new("no strategy can be compared here"));
    }
    Ok(cards)
}

struct Grid<'a> {
    options: &'a CompareOptions,
    testbed: &'a Testbed,
    instances: Vec<Instance>,
    cards: Vec<Card>,
    rounds: Rounds,
    steps: Steps,
}

impl Grid<'_> {
    /// All rounds through all cells of the grid.
    async fn walk(&mut self) {
        let mut random = StdRng::seed_from_u64(self.testbed.seed);
        let mut cells = self.cells();
        self.steps.add(cells.len() * self.options.rounds as usize);
        for round in 0..self.options.rounds {
            if round.is_multiple_of(2) {
                cells.shuffle(&mut random);
            } else {
                cells.reverse();
            }
            for (index, cell) in cells.clone().into_iter().enumerate() {
                let counted = format!("round {}, {} of {}", round + 1, index + 1, cells.len());
                let instances = self.instances[..cell.instances].to_vec();
                self.load(cell, &instances, CONCURRENCY, &counted).await;
            }
        }
    }

    fn cells(&self) -> Vec<Cell> {
        let available = self.cards.iter().enumerate().filter(|(_, card)| card.available);
        available
            .flat_map(|(strategy, _)| {
                [Switch::On, Switch::Off].into_iter().flat_map(move |arbiter| {
                    (1..=INSTANCES_MAX).map(move |instances| Cell { strategy, arbiter, instances })
                })
            })
            .collect()
    }

    async fn load(&mut self, cell: Cell, instances: &[Instance], concurrency: u32, counted: &str) {
        let name = self.cards[cell.strategy].name.clone();
        let count = self.rounds.get(&cell).map_or(0, Vec::len) as u64;
        let testbed = self.testbed;
        let requests = REQUESTS.max(concurrency);
        let load = RunOptions {
            stock: Some(STOCK),
            buyers: requests,
            requests,
            concurrency,
            arbiter: cell.arbiter,
            retry: RETRIES_MAX,
            seconds_max: Some(SECONDS_MAX),
            ..testbed.load(&name, instances, testbed.seed.wrapping_add(count))
        };
        let round = Box::pin(cell::run(&load, &testbed.environment)).await;
        self.steps.end(&line(&name, cell, &round, counted));
        self.rounds.entry(cell).or_default().push(round);
    }

    /// Further rounds for those that should have been caught.
    async fn catch(&mut self) {
        let mut ahead: Option<Service> = None;
        for step in 1..=FURTHER_ROUNDS {
            let uncaught = self.uncaught();
            if uncaught.is_empty() {
                break;
            }
            let concurrency = (CONCURRENCY << step).min(CONCURRENCY_MAX);
            // In the second half one of the clocks is wrong, as it may be on two machines.
            let wants_clock = step > FURTHER_ROUNDS / 2;
            if wants_clock
                && ahead.is_none()
                && let Some(mut settings) = clock_ahead(CLOCK_AHEAD_SECONDS)
            {
                // By its clock every hold has run out: it must not tidy up, least of all in the
                // shop of somebody else.
                settings.push(("SECKILL_JOB_EXPIRE_PERIOD_MS".to_owned(), "86400000".to_owned()));
                ahead = self.testbed.launcher.start("compare-clock-ahead", &settings).await.ok();
            }
            let mut instances = self.instances.clone();
            if let Some(service) = ahead.as_ref().filter(|_| wants_clock) {
                instances[INSTANCES_MAX - 1] = service.instance.clone();
            }
            self.steps.add(uncaught.len());
            for cell in uncaught {
                let counted = format!("further round {step}");
                self.load(cell, &instances[..cell.instances], concurrency, &counted).await;
            }
        }
        if let Some(service) = ahead {
            service.stop().await;
        }
    }

    /// The cells with the most instances of unsafe strategies that were never caught.
    fn uncaught(&self) -> Vec<Cell> {
        let arbiter = Switch::Off;
        let cells = self.cells().into_iter().filter(|cell| {
            let card = &self.cards[cell.strategy];
            (cell.arbiter, cell.instances) == (arbiter, INSTANCES_MAX) && !card.safe
        });
        cells
            .filter(|uncaught| {
                let mut everywhere = (1..=INSTANCES_MAX).filter_map(|instances| {
                    let cell = Cell { instances, ..*uncaught };
                    let card = &self.cards[cell.strategy];
                    (card.breaks_with.expectation(false, instances) == Expectation::Caught)
                        .then(|| self.rounds.get(&cell))?
                });
                !everywhere.any(|rounds| rounds.iter().any(|round| round.faults.oversold > 0))
            })
            .collect()
    }

    fn sum_up(self, circumstances: Circumstances) -> Comparison {
        let generator = self.rounds.values().flatten().map(|round| round.generator_share);
        let generator_share = Spread::of(generator).median;
        let mut rows: Vec<Row> = self
            .rounds
            .into_iter()
            .map(|(cell, rounds)| {
                Row::of(&self.cards[cell.strategy], cell.arbiter, cell.instances, rounds)
            })
            .collect();
        figures::set_ranks(&mut rows);
        let strategies: Vec<StrategyVerdict> =
            self.cards.into_iter().map(|card| judge_strategy(card, &rows)).collect();
        let (exit_code, sentence) = conclusion(&strategies);
        let load = format!(
            "{STOCK} units, {REQUESTS} buyers who each want one, {CONCURRENCY} at once, at most {SECONDS_MAX} s, {} rounds; the generator used {:.0} % of the machine",
            self.options.rounds,
            generator_share * 100.0
        );
        Comparison { exit_code, sentence, circumstances, load, strategies, rows }
    }
}

fn line(name: &str, cell: Cell, round: &Round, counted: &str) -> String {
    let verdict = round.could_not_judge.as_ref().unwrap_or(&round.verdict);
    format!(
        "{counted}: {name}, arbiter {}, {} inst., {:.0}/s, {verdict}",
        cell.arbiter.as_str(),
        cell.instances,
        round.accepted_per_second
    )
}

fn write(out: &Path, comparison: &Comparison) -> Result<Document, CannotJudge> {
    let charts = charts::draw(comparison);
    let mut files: Vec<(String, String)> =
        charts.iter().map(|chart| (format!("{}.svg", chart.name), chart.alone())).collect();
    let document = report::document(comparison, charts);
    files::write_report(out, "report", comparison, &document)?;
    files.push(("report.html".to_owned(), document.html()));
    for (name, text) in files {
        files::write(&out.join(name), &text)?;
    }
    Ok(document)
}
