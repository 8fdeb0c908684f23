//! What the service processes of a trial have said of their batches, replayed by the batches' model.
//!
//! A process writes its log, with these events in it, into a file of its own. If it is killed, it leaves half a line at
//! most.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};

use protocol_models::batch::replay::explain_each;
use protocol_models::trace::{BATCH_TARGET, Event};

use crate::prelude::*;

/// The filter of the log with which a process says these events, too.
pub const FILTER: &str = "warn,ledger::protocol=trace";
/// The longest file of a process. What it says later is lost.
pub const BYTES_MAX: u64 = 64 << 20;

/// The events of a trial.
#[derive(Debug, Default)]
pub struct CheckedEvents {
    pub events: usize,
    /// Those that are steps of the model.
    pub explained: usize,
    /// How long the check took.
    pub took: Duration,
    /// The first event that no step of the model fits.
    pub unexplained: Option<String>,
}

impl CheckedEvents {
    /// Adds those of another trial.
    pub fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.explained += other.explained;
        self.took += other.took;
    }
}

impl fmt::Display for CheckedEvents {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events = self.events as f64;
        let share = 100.0 * self.explained as f64 / events.max(1.0);
        let rate = events / self.took.as_secs_f64().max(1e-6);
        write!(formatter, "{events} events, {share} % explained, {rate:.0} a second")
    }
}

/// Takes the files that processes have left in `folder`, and replays their events. What else they have said is appended to
/// `log`.
pub fn check(folder: &Path, log: &Path) -> Run<CheckedEvents> {
    let texts = taken(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let file = File::options().create(true).append(true).open(log);
    let mut file = file.map_err(|error| format!("{}: {error}", log.display()))?;
    let lines = texts.iter().flat_map(|text| text.split_inclusive('\n'));
    for line in lines.filter(|line| !line.contains(BATCH_TARGET) && line.ends_with('\n')) {
        file.write_all(line.as_bytes()).map_err(|error| format!("{}: {error}", log.display()))?;
    }
    let begin = Instant::now();
    let processes: Vec<Vec<Event>> = texts.iter().map(|text| events_of(text)).collect();
    let each = explain_each(&processes);
    let unexplained = each.unexplained.map(|why| why.to_string());
    let took = begin.elapsed();
    Ok(CheckedEvents { events: each.events, explained: each.explained, took, unexplained })
}

/// The texts of the files, which are removed.
fn taken(folder: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let files: Vec<PathBuf> = entries.collect::<io::Result<_>>()?;
    files.iter().map(|file| take(file)).collect()
}

fn take(file: &Path) -> io::Result<String> {
    let text = fs::read(file)?;
    fs::remove_file(file)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The events in what a process has said.
pub fn events_of(text: &str) -> Vec<Event> {
    text.lines().filter_map(event_of).collect()
}

/// The event in a line of the log, if it is one.
fn event_of(line: &str) -> Option<Event> {
    if !line.contains(BATCH_TARGET) {
        return None;
    }
    let line: Value = serde_json::from_str(line).ok()?;
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let fields = line["fields"].as_object()?.iter();
    let fields = fields.map(|(name, value)| (name.clone(), text(value))).collect();
    // The order of the lines is that of the events.
    (line["target"] == BATCH_TARGET).then_some(Event { at_us: 0, fields })
}
