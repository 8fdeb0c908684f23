//! What the operating system tells about this process: cores, processor time, open files.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Instant;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use crate::failure::{CannotJudge, OrCannotJudge};

/// The kernel counts processor time for programs in 1/100 s (USER_HZ) on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;
/// Files beside the connections: database, report, runtime, pipes.
const FILES_BESIDE_CONNECTIONS: u64 = 64;

/// Processor time between two moments.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ProcessorUse {
    /// Processor seconds of this program.
    pub generator_seconds: f64,
    /// That time as a share of the whole machine, 0 to 1.
    pub generator_share: f64,
}

/// The start of a measurement of processor time.
pub struct ProcessorMeter {
    started: Instant,
    own_seconds: f64,
}

impl ProcessorMeter {
    /// Starts to measure.
    pub fn start() -> Self {
        Self { started: Instant::now(), own_seconds: own_seconds() }
    }

    /// What was used since the start.
    pub fn stop(&self) -> ProcessorUse {
        let elapsed = self.started.elapsed().as_secs_f64().max(0.000_001);
        let generator_seconds = (own_seconds() - self.own_seconds).max(0.0);
        ProcessorUse {
            generator_seconds,
            generator_share: generator_seconds / elapsed / cores() as f64,
        }
    }
}

/// Processors that this process may use.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Threads of a load generator: half of the processors, because the service and its databases usually share this machine.
pub fn generator_threads() -> usize {
    (cores() / 2).max(1)
}

/// Makes room for one open file per connection, as far as this system allows.
pub fn allow_open_files(connections: u32) -> Result<(), CannotJudge> {
    let hard = open_files_max();
    let needed = u64::from(connections) + FILES_BESIDE_CONNECTIONS;
    if let Some(hard) = hard.filter(|hard| *hard < needed) {
        return Err(CannotJudge(format!(
            "{connections} connections need {needed} open files and this system allows {hard}; \
             raise the limit (ulimit -n) or lower --concurrency"
        )));
    }
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard })
        .or_cannot_judge("the limit of open files stays")
}

/// The most connections that [`allow_open_files`] can make room for.
pub fn connections_max() -> u32 {
    let hard = open_files_max().unwrap_or(u64::MAX);
    u32::try_from(hard.saturating_sub(FILES_BESIDE_CONNECTIONS)).unwrap_or(u32::MAX)
}

/// The hard limit, up to which any program may raise its own; none is no limit.
fn open_files_max() -> Option<u64> {
    getrlimit(Resource::Nofile).maximum
}

fn own_seconds() -> f64 {
    name_and_seconds(Path::new("/proc/self")).map_or(0.0, |(_, seconds)| seconds)
}

/// The name of a process and its processor seconds so far, from its folder in `/proc`; `None` when
/// it has ended.
pub fn name_and_seconds(process: &Path) -> Option<(String, f64)> {
    let text = fs::read_to_string(process.join("stat")).ok()?;
    // The name stands in parentheses and may hold spaces: count the fields after it.
    let (head, rest) = text.rsplit_once(") ")?;
    let name = head.split_once('(').map_or("", |(_, name)| name);
    let fields: Vec<&str> = rest.split(' ').collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok());
    Some((name.to_owned(), (ticks(11)? + ticks(12)?) / TICKS_PER_SECOND))
}

/// The most memory that a process has had so far, in MiB; `None` when it has ended.
pub fn resident_mib_max(process: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib / 1024.0)
}
