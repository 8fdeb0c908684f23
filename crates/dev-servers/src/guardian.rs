//! The owner of one server process: starts it, signals it, and never lets it outlive us.
//!
//! A child process survives the `kill -9` of its parent, and the system call that would change
//! that needs `unsafe`. So each server runs under a small shell (`guardian.sh`) that holds the
//! other end of a pipe from us: when we end, in whatever way, the pipe closes and the shell stops
//! the server. The same pipe carries signals, so that a process number is never used after its
//! process was reaped. The shell leads a process group of its own: Ctrl-C goes to us alone.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::lock;

/// How long a server may take to end by itself before it is killed. Commits are durable, so a
/// kill costs nothing but a recovery at the next start.
pub(super) const STOP_SECONDS_MAX: u64 = 10;

/// How often a waiting caller looks whether the process has ended.
const EXIT_POLL: Duration = Duration::from_millis(20);

const SCRIPT: &str = include_str!("guardian.sh");

/// A running process and the shell that guards it. Dropping it asks the shell to stop the server
/// and returns at once; [`Guardian::stop`] also waits for the end.
#[derive(Debug)]
pub(super) struct Guardian {
    /// Taken only by `drop`, which hands it to a thread that reaps it.
    child: Mutex<Option<Child>>,
    /// Taken only by `drop`: the end of the pipe is the order to stop.
    line: Mutex<Option<Line>>,
    pid: u32,
}

/// Orders out, answers in.
#[derive(Debug)]
struct Line {
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Guardian {
    /// Runs `command` (program and arguments, no shell words) in `directory`, with both outputs
    /// appended to `log`.
    ///
    /// The process, its guardian and `log` share one open file: a lock on `log` is held until the
    /// last of them is gone.
    ///
    /// Blocks for the few milliseconds until the shell has told the process number.
    pub(super) fn spawn(command: &[String], directory: &Path, log: &File) -> io::Result<Self> {
        let mut child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "seckill-guardian"])
            .arg(STOP_SECONDS_MAX.to_string())
            .args(command)
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.try_clone()?)
            .process_group(0)
            .spawn()?;
        let orders = child.stdin.take().expect("stdin was asked to be a pipe");
        let answers = child.stdout.take().expect("stdout was asked to be a pipe");
        let mut line = Line { orders, answers: BufReader::new(answers) };
        let first = line.read()?;
        let pid = first
            .strip_prefix("pid ")
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| io::Error::other(format!("the guardian said {first:?}")))?;
        Ok(Self { child: Mutex::new(Some(child)), line: Mutex::new(Some(line)), pid })
    }

    /// The number of the guarded process itself, not of its shell.
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends a signal by its name without `SIG`. `false` when the process had already ended.
    pub(super) fn signal(&self, name: &str) -> bool {
        let mut slot = lock(&self.line);
        let Some(line) = slot.as_mut() else {
            return false;
        };
        let answer = writeln!(line.orders, "{name}").and_then(|()| line.read());
        matches!(answer.as_deref(), Ok("sent"))
    }

    /// How the process ended, or `None` while it runs.
    pub(super) fn exit_status(&self) -> Option<ExitStatus> {
        let mut slot = lock(&self.child);
        let child = slot.as_mut()?;
        // An error means that other code has reaped our child; then the child has certainly ended.
        child.try_wait().unwrap_or(Some(ExitStatus::default()))
    }

    /// Waits for the end of the process.
    pub(super) async fn exited(&self) -> ExitStatus {
        loop {
            if let Some(status) = self.exit_status() {
                return status;
            }
            sleep(EXIT_POLL).await;
        }
    }

    /// Asks the process to end, waits [`STOP_SECONDS_MAX`], then kills it; returns when it is gone.
    pub(super) async fn stop(&self) {
        self.signal("TERM");
        // A paused process takes the TERM only once it goes on.
        self.signal("CONT");
        let patience = Duration::from_secs(STOP_SECONDS_MAX);
        if timeout(patience, self.exited()).await.is_err() {
            self.kill().await;
        }
    }

    /// `kill -9`, and waits until the process is gone.
    pub(super) async fn kill(&self) {
        self.signal("KILL");
        self.exited().await;
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        lock(&self.line).take();
        if self.exit_status().is_some() {
            return;
        }
        if let Some(mut child) = lock(&self.child).take() {
            // Nobody waits for this thread: if we end before it, init reaps instead.
            thread::spawn(move || child.wait());
        }
    }
}

impl Line {
    fn read(&mut self) -> io::Result<String> {
        let mut text = String::new();
        if self.answers.read_line(&mut text)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(text.trim_end().to_owned())
    }
}
