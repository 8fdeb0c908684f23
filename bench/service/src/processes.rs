//! Processor time by program, for seeing where it goes: the service, the database, Redis, this
//! generator, the bare handler, the proxy.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use loadtest::process::name_and_seconds;

/// The program under test.
pub const SERVICE: &str = "service";
/// The database server.
pub const DATABASE: &str = "database";
/// Redis.
pub const REDIS: &str = "redis";
/// This program.
pub const GENERATOR: &str = "generator";
/// Baseline H, which is this program once more.
pub const BARE: &str = "bare handler";
/// HAProxy, for P11.
pub const PROXY: &str = "proxy";

/// What a program is called in the report, by the start of its process's name.
const PROGRAMS: [(&str, &str); 7] = [
    ("seckill", SERVICE),
    ("mariadbd", DATABASE),
    ("mysqld", DATABASE),
    // The MySQL of scripts/mysql-sid, which the loader of its own libraries runs.
    ("ld-linux", DATABASE),
    ("redis-server", REDIS),
    ("service-bench", GENERATOR),
    ("haproxy", PROXY),
];

/// Which processes are the service and the database; `None`: all of that name.
#[derive(Debug, Clone, Default)]
pub struct Services {
    pub services: Option<Vec<u32>>,
    /// Others may run beside them, such as those of tests.
    pub database: Option<Vec<u32>>,
}

/// Processor time so far.
pub struct Moment {
    at: Instant,
    seconds: BTreeMap<&'static str, f64>,
}

/// Processor time between two moments.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// Seconds that passed.
    pub elapsed: f64,
    /// Processor seconds by program.
    pub seconds: BTreeMap<&'static str, f64>,
}

impl Moment {
    /// Reads `/proc`.
    pub fn now(services: &Services) -> Self {
        let seconds = seconds_by_program(services);
        Self { at: Instant::now(), seconds }
    }

    /// What was used until `later`.
    pub fn until(&self, later: &Self) -> Usage {
        let elapsed = later.at.duration_since(self.at).as_secs_f64().max(0.001);
        let mut seconds = later.seconds.clone();
        for (program, seconds) in &mut seconds {
            let before = self.seconds.get(program).copied().unwrap_or(0.0);
            *seconds = (*seconds - before).max(0.0);
        }
        Usage { elapsed, seconds }
    }
}

impl Usage {
    /// Microseconds by program for each of `operations`.
    pub fn us_for_each(&self, operations: u64) -> BTreeMap<&'static str, f64> {
        let operations = operations.max(1) as f64;
        self.seconds.iter().map(|(name, seconds)| (*name, seconds * 1e6 / operations)).collect()
    }
}

fn seconds_by_program(services: &Services) -> BTreeMap<&'static str, f64> {
    let mut sums = BTreeMap::new();
    let own = std::process::id();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        // Not `self`, which would count this program twice.
        let id = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let Some(id) = id else { continue };
        let Some((name, seconds)) = name_and_seconds(&entry.path()) else { continue };
        let Some(program) = program(&name, id, own, services) else { continue };
        *sums.entry(program).or_insert(0.0) += seconds;
    }
    sums
}

fn program(name: &str, id: u32, own: u32, services: &Services) -> Option<&'static str> {
    for (only, program) in [(&services.services, SERVICE), (&services.database, DATABASE)] {
        if only.as_ref().is_some_and(|only| only.contains(&id)) {
            return Some(program);
        }
    }
    let (_, program) = PROGRAMS.iter().find(|(start, _)| name.starts_with(start))?;
    match *program {
        SERVICE if services.services.is_some() => None,
        DATABASE if services.database.is_some() => None,
        GENERATOR if id != own => Some(BARE),
        program => Some(program),
    }
}

/// The process of a database server with this pid file, if it runs on this machine.
pub fn database_of(pid_file: &Path) -> Option<u32> {
    let id = fs::read_to_string(pid_file).ok()?.trim().parse().ok()?;
    let (name, _) = name_and_seconds(&Path::new("/proc").join(format!("{id}")))?;
    (program(&name, id, 0, &Services::default()) == Some(DATABASE)).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_build_is_not_the_service() {
        let only = Services { services: Some(vec![7]), database: None };
        assert_eq!(program("old-seckill", 7, 1, &only), Some(SERVICE));
        assert_eq!(program("seckill", 8, 1, &only), None);
        assert_eq!(program("seckill", 8, 1, &Services::default()), Some(SERVICE));
        assert_eq!(program("service-bench", 1, 1, &only), Some(GENERATOR));
        assert_eq!(program("service-bench", 2, 1, &only), Some(BARE));
        assert_eq!(program("bash", 3, 1, &only), None);
        assert_eq!(program("mariadbd", 9, 1, &only), Some(DATABASE));
        let one = Services { database: Some(vec![9, 11]), ..only };
        assert_eq!(program("mariadbd", 9, 1, &one), Some(DATABASE));
        assert_eq!(program("mysqld", 10, 1, &one), None);
        assert_eq!(program("ld-linux-x86-64", 3, 1, &Services::default()), Some(DATABASE));
        assert_eq!(program("vtgate", 11, 1, &one), Some(DATABASE));
    }
}
