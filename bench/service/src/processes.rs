//! Processor time by program, for seeing where it goes: the service, the database, Redis, this
//! generator, the bare handler. All processes of such a name on this machine count.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use loadtest::process::name_and_seconds;

/// What a program is called in the report, by the start of its process's name.
const PROGRAMS: [(&str, &str); 5] = [
    ("seckill", "service"),
    ("mariadbd", "database"),
    ("mysqld", "database"),
    ("redis-server", "redis"),
    ("service-bench", GENERATOR),
];

const GENERATOR: &str = "generator";

/// A moment to count from.
pub struct Meter {
    began: Instant,
    seconds: BTreeMap<&'static str, f64>,
}

impl Meter {
    /// Starts to count.
    pub fn start() -> Self {
        Self { began: Instant::now(), seconds: seconds_by_program() }
    }

    /// Cores kept busy since the start, by program: 1.0 is one core all the time.
    pub fn stop(self) -> BTreeMap<&'static str, f64> {
        let elapsed = self.began.elapsed().as_secs_f64().max(0.001);
        let mut cores = self.seconds();
        cores.values_mut().for_each(|seconds| *seconds /= elapsed);
        cores
    }

    /// Processor seconds since the start, by program.
    pub fn seconds(&self) -> BTreeMap<&'static str, f64> {
        let mut now = seconds_by_program();
        for (program, seconds) in &mut now {
            let before = self.seconds.get(program).copied().unwrap_or(0.0);
            *seconds = (*seconds - before).max(0.0);
        }
        now
    }
}

fn seconds_by_program() -> BTreeMap<&'static str, f64> {
    let mut sums = BTreeMap::new();
    let own = std::process::id().to_string();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        // Not `self`, which would count this program twice.
        let is_process = entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok());
        if !is_process {
            continue;
        }
        let Some((name, seconds)) = name_and_seconds(&entry.path()) else { continue };
        let program = PROGRAMS.iter().find(|(start, _)| name.starts_with(start));
        let Some(&(_, mut program)) = program else { continue };
        // The bare handler is this program once more.
        if program == GENERATOR && entry.file_name().to_str() != Some(&*own) {
            program = "bare handler";
        }
        *sums.entry(program).or_insert(0.0) += seconds;
    }
    sums
}
