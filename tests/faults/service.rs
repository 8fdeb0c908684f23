//! Service processes: started, killed, stopped, frozen.

use std::process::{ExitStatus, Stdio};

use tokio::process::{Child, Command};

use crate::events;
use crate::prelude::*;
use loadtest::counters;
use loadtest::drive::connection::{Connection, Exchange, Reply};
use loadtest::drive::message;

/// A service that does not answer by then does not start.
const START_MAX: Duration = Duration::from_secs(30);
/// How often another port is tried when ours was taken before the service had it.
const STARTS_MAX: u32 = 3;
/// How long one question to it may take.
const ASK_MAX: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);

/// How a service is started.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The program.
    pub program: PathBuf,
    /// Its whole environment.
    pub variables: Vec<(String, String)>,
    /// Open files that it may have; as many as we if it is `None`.
    pub files_max: Option<u32>,
    /// The folder in which each process has a file for what it says, named by the number of the process.
    pub said: PathBuf,
}

impl Setup {
    /// With another variable, or another value of one.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// A command of the program that has the crash points, with the settings of the services. It dies at `point`.
    pub fn command(&self, arguments: &[&str], point: Option<&str>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seckill"));
        command
            .args(arguments)
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .envs(point.map(|point| ("FAILPOINT", point)))
            .current_dir(std::env::temp_dir())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        command
    }
}

/// A running instance. Killed when dropped.
pub struct Service {
    setup: Setup,
    child: Child,
    /// Where it listens, also after a restart.
    pub addr: SocketAddr,
}

impl Service {
    /// Starts an instance on a free port and returns when it answers.
    pub async fn start(setup: &Setup) -> Run<Self> {
        let mut attempt = 1;
        loop {
            let port = dev_servers::free_port().said()?;
            let addr = SocketAddr::from(([127, 0, 0, 1], port));
            let child = spawn(setup, addr)?;
            let mut service = Self { setup: setup.clone(), child, addr };
            match service.answers().await {
                Err(_) if attempt < STARTS_MAX => attempt += 1,
                answers => return answers.map(|()| service),
            }
        }
    }

    /// Starts it again where it was; it must have ended.
    pub async fn restart(&mut self) -> Run<()> {
        self.child = spawn(&self.setup, self.addr)?;
        self.answers().await
    }

    /// Starts it again without one of its variables, which it never gets back.
    pub async fn restart_without(&mut self, name: &str) -> Run<()> {
        self.setup.variables.retain(|(known, _)| known != name);
        self.restart().await
    }

    /// The process number; an error when it has ended.
    pub fn pid(&self) -> Run<u32> {
        self.child.id().ok_or_else(|| "the service has ended".to_owned())
    }

    /// `kill -9`; returns when it is gone, and how it ended.
    pub async fn kill(&mut self) -> Run<ExitStatus> {
        self.child.start_kill().map_err(|error| format!("kill: {error}"))?;
        self.ended().await
    }

    /// Sends a signal by its name without `SIG`.
    pub async fn signal(&self, name: &str) -> Run<()> {
        // The shell's own kill: a bare machine has no program of that name.
        let text = format!("kill -{name} {}", self.pid()?);
        let sent = Command::new("sh").args(["-c", &text]).status().await;
        match sent {
            Ok(status) if status.success() => Ok(()),
            other => Err(format!("{text}: {other:?}")),
        }
    }

    /// Waits for its end.
    pub async fn ended(&mut self) -> Run<ExitStatus> {
        let ended = timeout(START_MAX, self.child.wait()).await;
        let ended = ended.map_err(|_| "the service does not end".to_owned())?;
        ended.map_err(|error| format!("wait: {error}"))
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// The sum of a metric over its labels that have `with` in them; zero while there is none.
    pub async fn metric(&self, name: &str, with: &str) -> f64 {
        let Ok(reply) = self.get("/metrics", None).await else { return 0.0 };
        counters::sum(&String::from_utf8_lossy(&reply.body), name, with)
    }

    /// One question on a connection of its own.
    pub async fn get(&self, path: &str, token: Option<&str>) -> Run<Reply> {
        ask_with(self.addr, "GET", path, token, (&[], Bytes::new())).await
    }

    /// Sends a request; returns the status, 0 without an answer, and the body.
    pub async fn ask(&self, method: &str, path: &str, token: &str, body: &str) -> (u16, Value) {
        let body = Bytes::from(body.to_owned());
        match ask_with(self.addr, method, path, Some(token), (&[], body)).await {
            Ok(reply) => (reply.status, serde_json::from_slice(&reply.body).unwrap_or_default()),
            Err(_) => (0, Value::Null),
        }
    }

    /// Its own audit of an item.
    pub async fn audit(&self, testbed: &Testbed, item: i64) -> Run<Value> {
        let token = testbed.token(1, Role::Admin);
        let reply = self.get(&format!("/api/admin/items/{item}/audit"), Some(&token)).await?;
        Ok(serde_json::from_slice(&reply.body).unwrap_or_default())
    }

    async fn answers(&mut self) -> Run<()> {
        let said = self.setup.said.join(format!("{}.jsonl", self.pid()?));
        let until = Instant::now() + START_MAX;
        loop {
            if self.get("/healthz", None).await.is_ok_and(|reply| reply.status == 200) {
                return Ok(());
            }
            if self.has_ended() {
                return Err(format!("the service ended: {}", last_line(&said)));
            }
            if Instant::now() >= until {
                return Err("the service does not start".to_owned());
            }
            sleep(POLL).await;
        }
    }
}

/// Runs a program with limits for the length of its files, in blocks of 512 bytes, and perhaps for their number. At the
/// first of them it gets an error and no signal.
const START: &str = r#"trap '' XFSZ; folder=$1; ulimit -f "$2"; [ -z "$3" ] || ulimit -n "$3"; shift 3
exec "$@" >>"$folder/$$.jsonl" 2>&1"#;

fn spawn(setup: &Setup, addr: SocketAddr) -> Run<Child> {
    let blocks = (events::BYTES_MAX / 512).to_string();
    let files = setup.files_max.map_or_else(String::new, |files| files.to_string());
    let mut command = Command::new("sh");
    command
        .args(["-c", START, "sh"])
        .arg(&setup.said)
        .args([blocks, files])
        .arg(&setup.program)
        .arg("serve")
        .env_clear()
        .envs(setup.variables.iter().map(|(name, value)| (name, value)))
        .env("SECKILL_HTTP_ADDR", addr.to_string())
        .env("SECKILL_HTTP_STATIC_DIR", "none")
        .env("SECKILL_LOG_FILTER", events::FILTER)
        .env("SECKILL_LOG_FORMAT", "json")
        .current_dir(std::env::temp_dir())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    command.spawn().map_err(|error| format!("{}: {error}", setup.program.display()))
}

/// The end of a log.
fn last_line(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().last().unwrap_or_default().to_owned()
}

/// One question to an instance on a connection of its own, with further headers.
pub async fn ask_with(
    addr: SocketAddr,
    method: &str,
    path: &str,
    token: Option<&str>,
    (headers, body): (&[(&str, &str)], Bytes),
) -> Run<Reply> {
    let mut connection = Connection::open(addr).await.said()?;
    let bearer = token.map(|token| format!("Bearer {token}"));
    let mut all = vec![("host", "localhost")];
    all.extend(headers);
    all.extend((!body.is_empty()).then_some(("content-type", "application/json")));
    all.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
    let request = message::render(method, path, &all, &body);
    match connection.send(&request, ASK_MAX).await {
        Exchange::Answered(reply) => Ok(reply),
        other => Err(format!("{method} {path}: {other:?}")),
    }
}
