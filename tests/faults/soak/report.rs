//! What the soak found: a line for each trial, and totals with the seeds at the end.

use std::collections::BTreeMap;

use super::plan::SoakPlan;
use crate::prelude::*;

/// One trial.
pub struct Tried {
    pub trial: TrialResult,
    /// The faults that took effect.
    pub bites: Vec<&'static str>,
    /// Why the servers could not be repaired after it.
    pub unusable: Option<String>,
    pub took: Duration,
}

impl Tried {
    /// Whether nothing that was promised is broken.
    pub fn is_well(&self) -> bool {
        self.trial.as_ref().is_ok_and(|trial| trial.is_clean())
    }

    /// What is broken, in words; empty when all is well.
    fn broken(&self) -> String {
        match &self.trial {
            Err(why) => why.clone(),
            Ok(trial) if trial.is_clean() => String::new(),
            Ok(trial) => format!("{}; {}", trial.counted(), trial.broken.join("; ")),
        }
    }
}

/// The report of a run.
pub struct SoakReport {
    begin: Instant,
    folder: Option<PathBuf>,
    seeds: Vec<u64>,
    shrinking: usize,
    /// Taken together, without those that made a plan smaller.
    all: TrialOutcome,
    /// How often each fault took effect, and how often two did in one trial.
    bites: BTreeMap<&'static str, u64>,
    both: u64,
    failed: Vec<(SoakPlan, String)>,
    smallest: Vec<SoakPlan>,
}

impl SoakReport {
    /// An empty one. Its page goes to `folder`.
    pub fn new(folder: Option<&Path>) -> Self {
        Self {
            begin: Instant::now(),
            folder: folder.map(Path::to_owned),
            seeds: Vec::new(),
            shrinking: 0,
            all: TrialOutcome::default(),
            bites: BTreeMap::new(),
            both: 0,
            failed: Vec::new(),
            smallest: Vec::new(),
        }
    }

    /// Trials so far.
    pub fn trials(&self) -> usize {
        self.seeds.len() + self.shrinking
    }

    /// Adds the trial of a plan, and prints it.
    pub fn add(&mut self, plan: &SoakPlan, tried: &Tried) {
        self.seeds.push(plan.seed);
        self.both += u64::from(tried.bites.len() > 1);
        for fault in &tried.bites {
            *self.bites.entry(fault).or_default() += 1;
        }
        if let Ok(trial) = &tried.trial {
            self.all.add(trial, "");
        }
        self.print(plan, tried, "soak");
        if !tried.is_well() {
            self.failed.push((plan.clone(), tried.broken()));
        }
    }

    /// Adds the trial of a plan that was made smaller.
    pub fn add_smaller(&mut self, plan: &SoakPlan, tried: &Tried) {
        self.shrinking += 1;
        self.print(plan, tried, "smaller");
    }

    /// Adds a failing plan that could not be made smaller.
    pub fn found(&mut self, plan: SoakPlan) {
        println!("the smallest failing plan: make faults ARGS=\"--plan {plan}\"");
        self.smallest.push(plan);
    }

    /// Prints and writes the totals; the exit code tells whether all is well. `next` is the seed with
    /// which another run goes on.
    pub fn end(&self, next: Option<u64>) -> ExitCode {
        let page = self.page(next);
        println!("\n{page}");
        let write = |folder: &Path| std::fs::write(folder.join("soak.md"), &page);
        if let Some(Err(error)) = self.folder.as_deref().map(write) {
            println!("the report is not written: {error}");
        }
        let (passed, failed) = (self.seeds.len() - self.failed.len(), self.failed.len());
        let word = if failed == 0 { "ok" } else { "FAILED" };
        println!("test result: {word}. {passed} passed; {failed} failed; 0 ignored");
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn print(&self, plan: &SoakPlan, tried: &Tried, word: &str) {
        let (number, minutes) = (self.trials(), self.begin.elapsed().as_secs() / 60);
        let took = tried.took.as_secs_f64();
        let broken = tried.broken();
        let verdict = if broken.is_empty() { "ok" } else { "FAILED" };
        println!(
            "{word} {number}, {minutes} min: {plan} ... {verdict} in {took:.1} s; took effect: {}{}{broken}",
            tried.bites.join(", "),
            if broken.is_empty() { "" } else { "\n    " },
        );
    }

    fn page(&self, next: Option<u64>) -> String {
        let seeds = match (self.seeds.first(), self.seeds.last()) {
            (Some(first), Some(last)) => format!("{first} to {last}"),
            _ => "none".to_owned(),
        };
        let bites: u64 = self.bites.values().sum();
        let mut page = format!(
            "Soak: {} trials, seeds {seeds}, {} min, {} purchase requests; {bites} faults took effect, two at once in \
             {} trials. Unknown outcomes resolved by key: {}. Replayed by the model of the batches: {}. Known-bad runs \
             caught: {} of {}. Trials that failed: {}.\n\n\
             | fault | took effect |\n|---|---|\n",
            self.seeds.len(),
            self.begin.elapsed().as_secs() / 60,
            self.all.attempts,
            self.both,
            self.all.resolved,
            self.all.events,
            self.all.controls.0,
            self.all.controls.1,
            self.failed.len(),
        );
        for (fault, count) in &self.bites {
            page.push_str(&format!("| `{fault}` | {count} |\n"));
        }
        for (plan, broken) in &self.failed {
            page.push_str(&format!("\n* failed: `{plan}`: {broken}\n"));
        }
        for plan in &self.smallest {
            page.push_str(&format!("\n* the smallest plan that fails: `{plan}`\n"));
        }
        if let Some(next) = next {
            page.push_str(&format!(
                "\nGo on with `make faults ARGS=\"--hours 2 --seed {next}\"`.\n"
            ));
        }
        page
    }
}
