//! What a run found: a line for each trial, and a table at the end, which is a file, too.

use crate::checker::JudgedInTime;
use crate::list::Row;
use crate::prelude::*;

/// The least share of known-bad runs that must be caught, in percent.
const CAUGHT_PERCENT_MIN: u32 = 95;
/// So few of them prove nothing about a share.
const CONTROLS_MIN: u32 = 20;

/// All trials of a run.
pub struct Report {
    options: Options,
    trials: Vec<(&'static Row, u64, TrialResult)>,
}

/// One trial in a line.
pub fn line(row: &Row, seed: u64, tried: &TrialResult, took: Duration) -> String {
    let name = row.name;
    let took = took.as_secs_f64();
    match tried {
        Err(why) => format!("faults::{name} seed {seed} ... FAILED in {took:.1} s: {why}"),
        Ok(trial) if !trial.is_clean() => format!(
            "faults::{name} seed {seed} ... FAILED in {took:.1} s: {}\n    {}",
            trial.counted(),
            trial.broken.join("\n    ")
        ),
        Ok(trial) => format!(
            "faults::{name} seed {seed} ... ok in {took:.1} s, {} requests, sells again after {}; {}; {}",
            trial.attempts,
            trial.slowest_recovery(),
            trial.events,
            trial.proof
        ),
    }
}

impl Report {
    pub fn new(options: &Options) -> Self {
        Self { options: options.clone(), trials: Vec::new() }
    }

    pub fn add(&mut self, row: &'static Row, seed: u64, tried: TrialResult) {
        self.trials.push((row, seed, tried));
    }

    /// Prints and writes the table; the exit code tells whether all is well.
    pub fn end(&self, took: Duration) -> ExitCode {
        let sums: Vec<Sum> = self.rows().into_iter().map(|row| self.sum(row)).collect();
        let mut total = TrialOutcome::default();
        sums.iter().for_each(|sum| total.add(&sum.all, sum.row.name));
        let page = page(&sums, &total, &self.options, took);
        println!("\n{page}");
        let written = self.options.out.as_deref().map(|out| write(out, &page));
        if let Some(Err(why)) = &written {
            println!("the report is not written: {why}");
        }
        let failed = self.trials.iter().filter(|(_, _, tried)| !is_well(tried)).count();
        for (row, seed, tried) in &self.trials {
            if !is_well(tried) {
                println!(
                    "again: make faults ARGS=\"--only {} --seed {seed}\"\n{}",
                    row.name,
                    line(row, *seed, tried, Duration::ZERO)
                );
            }
        }
        let (caught, controls) = total.controls;
        let missed = are_too_many_missed(caught, controls);
        if missed {
            println!("the audit caught {caught} of {controls} known-bad runs");
        }
        let failed = failed + usize::from(missed);
        let word = if failed == 0 { "ok" } else { "FAILED" };
        let passed = self.trials.len().saturating_sub(failed);
        // As a test binary says it.
        println!(
            "test result: {word}. {passed} passed; {failed} failed; 0 ignored; finished in {:.2}s",
            took.as_secs_f64()
        );
        let broken = failed > 0 || matches!(written, Some(Err(_)));
        if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    fn rows(&self) -> Vec<&'static Row> {
        let mut rows: Vec<&'static Row> = self.trials.iter().map(|(row, _, _)| *row).collect();
        rows.dedup_by_key(|row| row.name);
        rows
    }

    fn sum(&self, row: &'static Row) -> Sum {
        let all = TrialOutcome::default();
        let mut sum = Sum { row, all, recoveries: Vec::new() };
        for (_, seed, tried) in self.trials.iter().filter(|(other, _, _)| other.name == row.name) {
            match tried {
                Err(why) => sum.all.broken.push(format!("seed {seed}: {why}")),
                Ok(trial) => {
                    sum.all.add(trial, &format!("seed {seed}"));
                    sum.all.proof.clone_from(&trial.proof);
                    sum.recoveries.extend(trial.recovered_after());
                }
            }
        }
        sum.recoveries.sort_unstable();
        sum
    }
}

fn write(out: &Path, page: &str) -> Run<()> {
    let said = |error: std::io::Error| format!("{}: {error}", out.display());
    std::fs::create_dir_all(out).map_err(said)?;
    std::fs::write(out.join("faults.md"), page).map_err(said)
}

fn is_well(tried: &TrialResult) -> bool {
    tried.as_ref().is_ok_and(|trial| trial.is_clean())
}

/// All trials of one row.
struct Sum {
    row: &'static Row,
    /// Taken together, with the proof of the last one.
    all: TrialOutcome,
    /// Of the slowest strategy of each.
    recoveries: Vec<Duration>,
}

impl Sum {
    fn median(&self) -> Option<Duration> {
        self.recoveries.get(self.recoveries.len() / 2).copied()
    }
}

/// Few runs prove nothing about a share; then one may be missed.
pub fn are_too_many_missed(caught: u32, controls: u32) -> bool {
    match controls < CONTROLS_MIN {
        true => controls - caught > 1,
        false => caught * 100 < controls * CAUGHT_PERCENT_MIN,
    }
}

fn page(sums: &[Sum], total: &TrialOutcome, options: &Options, took: Duration) -> String {
    let TrialOutcome { injections, attempts, resolved, events, .. } = total;
    let JudgedInTime { sold_out, orders, lists } = total.in_time;
    let (caught, controls) = total.controls;
    let mut page = format!(
        "{} kinds of fault, {injections} injections, {attempts} purchase requests, seeds {}, {:.0} s. Oversold, \
         duplicated, lost and unresolved in all: {}. Unknown outcomes resolved by key: {resolved}. \
         Judged in the order of time: {sold_out} answers \"sold out\", {orders} observed order states, {lists} lists. \
         Replayed by the model of the batches: {events}. Known-bad runs caught: {caught} of {controls}.\n\n",
        sums.len(),
        options.seed_words(),
        took.as_secs_f64(),
        total.oversold + total.duplicated + total.lost + total.unresolved,
    );
    page.push_str(
        "| fault | injected | requests | oversold | duplicated | lost | unresolved | resolved by key | sells again after, median / worst | proof of the last one |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for sum in sums {
        let all = &sum.all;
        let mut lost = all.lost.to_string();
        let allowed = [(all.queued_lost, "queued"), (all.lost_with_writer, "with the old writer")];
        for (count, kind) in allowed.into_iter().filter(|(count, _)| *count > 0) {
            lost.push_str(&format!(" (and {count} {kind})"));
        }
        let again = match (sum.median(), sum.recoveries.last()) {
            (Some(median), Some(worst)) => format!("{} / {}", seconds(median), seconds(*worst)),
            _ => "-".to_owned(),
        };
        page.push_str(&format!(
            "| `{}` | {} | {} | {} | {} | {lost} | {} | {} | {again} | {} |\n",
            sum.row.name,
            all.injections,
            all.attempts,
            all.oversold,
            all.duplicated,
            all.unresolved,
            all.resolved,
            all.proof.replace('|', "/"),
        ));
    }
    page
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}
