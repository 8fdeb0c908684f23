//! Processes that die or stop, with whatever they hold.
//!
//! [`dying`] is a process whose runtime ends in the middle of everything: nothing is released,
//! renewed or given back any more. [`Child`] is a process of its own, this very program started
//! again, which can be killed and stopped by signals.

use std::process::Stdio;

use leaselock::redis as redis_locks;
use redis::AsyncCommands;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child as Process, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::fenced_number::Number;
use super::testbed::{Testbed, name};
use super::{LONG_LEASE, PATIENCE, SHORT_LEASE, connect, until, waiting_for};

/// Runs `work` on a runtime of its own that ends when it is done, and returns what `work` answered.
/// What it holds by then is left as a dead process leaves it.
pub async fn dying<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let (tell, ended) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let answer = runtime.block_on(work);
        runtime.shutdown_background();
        // Guards in it are dropped after their releaser has ended.
        let _ = tell.send(answer);
    });
    ended.await.expect("the process does not panic before it dies")
}

/// What a child is to do. It speaks lines: `held` with its fence, then waits for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Holds `setnx`.
    HoldsSetnx,
    /// SETNX by hand; the expiry would be its next command.
    BetweenSetnxAndExpire,
    /// Holds `token`, checks that it does, and writes on command, without a fence.
    WritesBare,
    /// Like `WritesBare`, but writes with its fence.
    WritesFenced,
}

/// The number that a child writes on command.
pub const LATE: u64 = 1;

/// A child process.
pub struct Child {
    process: Process,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Child {
    /// Starts a child that works where `testbed` does.
    pub async fn start(testbed: &Testbed, role: Role) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        if matches!(role, Role::WritesBare | Role::WritesFenced) {
            command.env("SECKILL_TEST_CHILD_MYSQL", testbed.database_url().await);
        }
        let mut process = command
            .args(["--exact", "dying::plays_a_process_when_asked", "--nocapture"])
            .env("SECKILL_TEST_CHILD_ROLE", format!("{role:?}"))
            .env("SECKILL_TEST_CHILD_PREFIX", &testbed.prefix)
            .env("SECKILL_TEST_CHILD_REDIS", crate::support::redis_url().await)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("started");
        let orders = process.stdin.take().expect("a pipe");
        let answers = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        Self { process, orders, answers }
    }

    /// Waits for a line that begins with `word`, and answers the rest of it.
    pub async fn says(&mut self, word: &str) -> String {
        let answer = timeout(PATIENCE * 2, async {
            while let Some(line) = self.answers.next_line().await.expect("a line") {
                // The test harness speaks as well, and on the same line.
                if let Some((_, rest)) = line.split_once(&format!("child:{word}")) {
                    return rest.trim().to_owned();
                }
            }
            panic!("the child ended without saying {word}")
        });
        answer.await.unwrap_or_else(|_| panic!("the child does not say {word}"))
    }

    /// Lets it go on.
    pub async fn go_on(&mut self) {
        self.orders.write_all(b"go on\n").await.expect("sent");
    }

    /// `kill -9`, and gone when this returns.
    pub async fn kill(mut self) {
        self.process.kill().await.expect("killed");
    }

    /// SIGSTOP: it does nothing until SIGCONT, and does not know that time passes.
    pub async fn stop(&self) {
        self.signal("STOP").await;
        let stat = format!("/proc/{}/task", self.process.id().expect("it runs"));
        // The signal was sent; each of its threads stops a moment later.
        until("it stops", || all_stopped(&stat)).await;
    }

    /// SIGCONT.
    pub async fn resume(&self) {
        self.signal("CONT").await;
    }

    async fn signal(&self, signal: &str) {
        let pid = self.process.id().expect("it runs");
        // The shell's own kill: a bare machine has no program of that name.
        let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {pid}")]).status();
        assert!(sent.await.expect("a shell runs").success());
    }
}

/// Whether all threads under `/proc/PID/task` are stopped.
fn all_stopped(tasks: &str) -> bool {
    let mut threads = std::fs::read_dir(tasks).expect("/proc");
    threads.all(|thread| {
        let stat = std::fs::read_to_string(thread.expect("a thread").path().join("stat"));
        // The state follows the name, which stands in parentheses.
        stat.is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T')))
    })
}

/// No test but the child's side; without a role there is nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plays_a_process_when_asked() {
    let Ok(role) = std::env::var("SECKILL_TEST_CHILD_ROLE") else { return };
    let given = |what: &str| std::env::var(format!("SECKILL_TEST_CHILD_{what}")).expect("given");
    let (prefix, tasks) = (given("PREFIX"), TaskTracker::new());
    let mut redis = connect(&given("REDIS")).await;
    let options = || waiting_for(SHORT_LEASE, LONG_LEASE);
    match &*role {
        "HoldsSetnx" => {
            let mutex = leaselock::demo::setnx::mutex(redis, &prefix, &tasks).expect("a prefix");
            let _guard = mutex.acquire(&name(), options()).await.expect("granted");
            say("held");
            may_go_on().await;
        }
        "BetweenSetnxAndExpire" => {
            let key = format!("{prefix}setnx-expire:lock:{}", name());
            let set: bool = redis.set_nx(&key, "the child").await.expect("SETNX");
            assert!(set);
            say("held");
            may_go_on().await;
            let _: bool = redis.pexpire(&key, 300).await.expect("PEXPIRE");
        }
        "WritesBare" | "WritesFenced" => {
            let mut number = Number::at(&given("MYSQL")).await;
            let mutex = redis_locks::token::mutex(redis, &prefix, &tasks).expect("a prefix");
            loop {
                let guard = mutex.acquire(&name(), options()).await.expect("granted");
                let fence = guard.fence().expect("a fence").get();
                // The connection is warm, so that the write is one command.
                let _ = number.read(fence).await;
                assert!(!guard.is_lost(), "it looks before it writes");
                say("held");
                // What stops it comes between its look and its write.
                if !may_go_on().await {
                    return;
                }
                // The store refuses no write that shows the highest fence.
                let shown = if role == "WritesBare" { u64::MAX } else { fence };
                say(if number.write(LATE, shown).await { "wrote" } else { "refused" });
                drop(guard);
                if !may_go_on().await {
                    return;
                }
            }
        }
        other => panic!("no such role: {other}"),
    }
}

fn say(word: &str) {
    println!("child:{word}");
}

/// `false` when the parent is gone.
async fn may_go_on() -> bool {
    let listen = || std::io::stdin().read_line(&mut String::new()).expect("a line") > 0;
    tokio::task::spawn_blocking(listen).await.expect("no panic")
}
