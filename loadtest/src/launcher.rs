//! Starts further instances of the service on the servers of the running shop.
//!
//! Each one is a process of the `seckill` program on a free port of the loopback interface, with its
//! log in a file. Dropping it ends the process, by its own process id.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::drive::Instance;
use crate::environment::Environment;
use crate::failure::{CannotJudge, OrCannotJudge};

/// An instance must serve within this; debug builds on a busy machine are slow.
const START_MAX: Duration = Duration::from_secs(60);
/// The time between two questions whether it serves.
const START_POLL: Duration = Duration::from_millis(50);
/// An answer to that question must come within this.
const READY_ANSWER_MAX: Duration = Duration::from_secs(2);
/// Starts with another port, because another program may have taken the one that was free.
const PORT_ATTEMPTS_MAX: u32 = 3;
/// After SIGTERM an instance may finish its work within this; then it is killed.
const STOP_MAX: Duration = Duration::from_secs(15);

/// A running instance.
pub struct Service {
    /// Where it answers.
    pub instance: Instance,
    child: Child,
}

/// Starts instances.
#[derive(Debug, Clone)]
pub struct Launcher {
    program: PathBuf,
    environment: Environment,
    logs: PathBuf,
}

impl Launcher {
    /// `program` is the `seckill` program; logs go to the folder `logs`.
    pub fn new(
        program: PathBuf,
        environment: &Environment,
        logs: &Path,
    ) -> Result<Self, CannotJudge> {
        std::fs::create_dir_all(logs)
            .or_cannot_judge(format_args!("cannot make {}", logs.display()))?;
        for name in ["DATABASE_URL", "REDIS_URL", "SECKILL_SECRET"] {
            if environment.get(name).is_none() {
                return Err(CannotJudge(format!(
                    "{name} is not known: start a shop with `make run` in this folder, or set it"
                )));
            }
        }
        Ok(Self { program, environment: environment.clone(), logs: logs.to_owned() })
    }

    /// Starts an instance with these settings beside the shop's own, and returns when it answers. `name` names its
    /// log.
    pub async fn start(
        &self,
        name: &str,
        settings: &[(String, String)],
    ) -> Result<Service, CannotJudge> {
        let mut failure = CannotJudge::new("no port is free");
        for _ in 0..PORT_ATTEMPTS_MAX {
            let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
            match self.start_at(name, settings, Instance::at(address)).await {
                Ok(service) => return Ok(service),
                Err(reason) => failure = reason,
            }
        }
        Err(failure)
    }

    /// Starts an instance at this address and returns when it answers. `name` names its log.
    pub async fn start_at(
        &self,
        name: &str,
        settings: &[(String, String)],
        instance: Instance,
    ) -> Result<Service, CannotJudge> {
        let log = self.logs.join(format!("{name}.log"));
        let output = File::create(&log).and_then(|output| Ok((output.try_clone()?, output)));
        let (output, errors) =
            output.or_cannot_judge(format_args!("cannot write {}", log.display()))?;
        let mut child = Command::new(&self.program)
            .arg("serve")
            .envs(self.environment.for_service())
            .env("SECKILL_HTTP_ADDR", instance.address.to_string())
            // The load needs the API alone.
            .env("SECKILL_HTTP_STATIC_DIR", "none")
            .envs(settings.iter().map(|(name, value)| (name, value)))
            .env_remove("SECKILL_URL")
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .kill_on_drop(true)
            .spawn()
            .or_cannot_judge(format_args!("{} did not start", self.program.display()))?;
        if answers(&mut child, &instance, "/healthz", START_MAX).await {
            return Ok(Service { instance, child });
        }
        let log_text = std::fs::read_to_string(&log).unwrap_or_default();
        let last = log_text.lines().last().unwrap_or("its log is empty");
        Err(CannotJudge(format!("an instance did not start: {last}")))
    }
}

/// Waits until a process that was started has a page at this path; whether it has.
pub async fn answers(child: &mut Child, instance: &Instance, path: &str, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    loop {
        let answers = instance.page(path, READY_ANSWER_MAX).await.is_some();
        // One that has ended did not answer: another program has taken its port.
        let has_ended = child.try_wait().ok().flatten().is_some();
        if answers || has_ended || Instant::now() >= until {
            return answers && !has_ended;
        }
        sleep(START_POLL).await;
    }
}

impl Service {
    /// The id of its process, while it runs.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        self.child.id()
    }

    /// Freezes the process: its connections stay open and nothing is answered.
    pub fn pause(&self) -> Result<(), CannotJudge> {
        self.signal(Signal::STOP)
    }

    /// Lets a frozen process go on.
    pub fn resume(&self) -> Result<(), CannotJudge> {
        self.signal(Signal::CONT)
    }

    /// Sends SIGTERM and waits for the end of the process.
    pub async fn stop(mut self) {
        if self.signal(Signal::TERM).is_ok() {
            let _ = tokio::time::timeout(STOP_MAX, self.child.wait()).await;
        }
        // Dropping kills what is left.
    }

    /// Kills the process, as a power cut would.
    pub async fn kill(mut self) {
        let _ = self.child.kill().await;
    }

    fn signal(&self, signal: Signal) -> Result<(), CannotJudge> {
        let id = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let sent = id.is_some_and(|id| kill_process(id, signal).is_ok());
        let gone = || CannotJudge::new("an instance has ended by itself; see its log");
        sent.then_some(()).ok_or_else(gone)
    }
}

/// The settings of an instance whose clock runs ahead of the machine's; `None` where libfaketime is not installed.
pub fn clock_ahead(seconds: u32) -> Option<Vec<(String, String)>> {
    let library = dev_servers::libfaketime()?;
    // Not through the program of that name: it would stay in between, and take our signals.
    let settings = [
        ("LD_PRELOAD", library.display().to_string()),
        ("FAKETIME", format!("+{seconds}s")),
        // Waiting goes by the other clock, which is nobody's time of day.
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ];
    Some(settings.map(|(name, value)| (name.to_owned(), value)).to_vec())
}

/// A port of the loopback that is free now.
pub fn free_port() -> Result<u16, CannotJudge> {
    dev_servers::free_port().or_cannot_judge("no port is free")
}
