//! Writes that are answered once replicas have received them.
//!
//! Each server gets the writes in pipelines with one WAIT behind them. WAIT blocks its connection, so
//! these writes have one of their own; and while one pipeline waits, the next one is collected. A
//! server whose replicas were missed once gets no further write before its replicas have caught up:
//! such a write is refused, and did not run.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use redis::{Cmd, RedisError, RedisResult, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{timeout, timeout_at};

use crate::connection::{Exchange, SharedConnection};
use crate::node::Node;
use crate::refusal::{Failure, Refusal};

/// Writes in one pipeline.
const PIPELINE_MAX: usize = 256;
/// Writes that wait for one server; the caller of a further one waits until one has gone.
const WAITING_MAX: usize = 1_024;
/// How long the connection to a server is kept without a write.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// The code of the error of a write that was not sent since replicas are missing. It is the code of
/// a server with `min-replicas-to-write`, and means the same.
const TOO_FEW: &str = "NOREPLICAS";
/// The code of the error of a write whose turn did not come in time.
const NOT_SENT: &str = "NOTSENT";

/// Sends writes and waits for replicas. Clones share the connections.
#[derive(Clone)]
pub struct ReplicatedWriter {
    connection: SharedConnection,
    wanted: ReplicaGoal,
    queues: Arc<Mutex<BTreeMap<Box<str>, mpsc::Sender<Write>>>>,
}

/// A write that ran.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicatedWrite<T> {
    /// The server's answer.
    pub answer: T,
    /// Whether as many replicas as were asked for have received it in time.
    pub is_replicated: bool,
}

#[derive(Clone, Copy, Debug)]
struct ReplicaGoal {
    replicas_min: u32,
    wait_max: Duration,
}

/// A write on its way to one server.
struct Write {
    command: Cmd,
    /// Whether the server has to be asked to run it although the slot is not its own yet.
    asked_first: bool,
    /// Set by the task that sends it, or by the caller that withdraws it: only one of them is first.
    taken: Arc<AtomicBool>,
    done: oneshot::Sender<Result<(Value, u32), Failure>>,
}

/// A write, and how many replicas have it.
struct TrackedWrite<'a> {
    writer: &'a ReplicatedWriter,
    command: &'a Cmd,
    /// When it is not sent any more.
    until: Instant,
    replicas: AtomicU32,
}

impl ReplicatedWriter {
    /// Waits for `replicas_min` replicas of the server of each write, for at most `wait_max`.
    #[must_use]
    pub fn new(connection: SharedConnection, replicas_min: u32, wait_max: Duration) -> Self {
        let wanted = ReplicaGoal { replicas_min, wait_max };
        Self { connection, wanted, queues: Arc::default() }
    }

    /// Sends a command that writes; it is sent again only if it certainly did not run. One that still waits for its turn
    /// at `until` ends with an error, and did not run.
    ///
    /// # Errors
    /// The server's or the connection's; NOREPLICAS when it was not sent since replicas are missing.
    pub async fn send(&self, command: &Cmd, until: Instant) -> RedisResult<ReplicatedWrite<Value>> {
        let tracked = TrackedWrite { writer: self, command, until, replicas: AtomicU32::new(0) };
        let answer = self.connection.exchange(&tracked, command).await?.extract_error()?;
        let replicas = tracked.replicas.load(Ordering::Relaxed);
        Ok(ReplicatedWrite { answer, is_replicated: replicas >= self.wanted.replicas_min })
    }

    /// The queue to the server, which a task empties.
    fn queue(&self, node: &Node) -> mpsc::Sender<Write> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        match queues.get(node.name()) {
            Some(queue) if !queue.is_closed() => queue.clone(),
            _ => {
                queues.retain(|_, queue| !queue.is_closed());
                let (queue, writes) = mpsc::channel(WAITING_MAX);
                let answer_max = self.connection.command_timeout() + self.wanted.wait_max;
                let patient = node.with_connection_of_its_own(answer_max);
                tokio::spawn(serve(patient, self.wanted, writes));
                queues.insert(node.name().into(), queue.clone());
                queue
            }
        }
    }
}

impl Exchange for TrackedWrite<'_> {
    async fn send(&self, node: &Node, asked_first: bool) -> Result<Value, Failure> {
        let taken = Arc::new(AtomicBool::new(false));
        let mut answer = pin!(self.queued(node, asked_first, Arc::clone(&taken)));
        match timeout_at(self.until.into(), &mut answer).await {
            Ok(answer) => answer,
            // The server may run it, so its answer counts.
            Err(_) if taken.swap(true, Ordering::AcqRel) => answer.await,
            Err(_) => Err(Failure::Unknown(not_sent())),
        }
    }
}

impl TrackedWrite<'_> {
    /// Puts the write into the queue to its server, and waits for the answer.
    async fn queued(
        &self,
        node: &Node,
        asked_first: bool,
        taken: Arc<AtomicBool>,
    ) -> Result<Value, Failure> {
        let (done, answered) = oneshot::channel();
        let mut write = Write { command: self.command.clone(), asked_first, taken, done };
        // A queue that was idle for long may end right now; the next one is new.
        while let Err(back) = self.writer.queue(node).send(write).await {
            write = back.0;
        }
        match answered.await {
            Ok(answer) => answer.map(|(value, replicas)| {
                self.replicas.store(replicas, Ordering::Relaxed);
                value
            }),
            Err(_) => {
                Err(Failure::Unknown(std::io::Error::other("the write was broken off").into()))
            }
        }
    }
}

/// Sends the writes of one server until there was none for [`IDLE_MAX`].
async fn serve(node: Node, wanted: ReplicaGoal, mut writes: mpsc::Receiver<Write>) {
    let mut batch = Vec::new();
    // Whether the replicas were missed and have not been seen since.
    let mut is_short = false;
    loop {
        match timeout(IDLE_MAX, writes.recv_many(&mut batch, PIPELINE_MAX)).await {
            Ok(0) => return,
            Ok(_) => {}
            // What came meanwhile is received before the end.
            Err(_) => writes.close(),
        }
        batch.retain(|write| !write.done.is_closed());
        if batch.is_empty() {
            continue;
        }
        if is_short {
            match replicas(&node, wanted).await {
                Ok(count) if count >= wanted.replicas_min => {}
                Ok(count) => {
                    // Also those that came while it waited: each would wait as long in vain.
                    while let Ok(write) = writes.try_recv() {
                        batch.push(write);
                    }
                    fail_all(&mut batch, &Failure::Unknown(too_few(count, wanted)));
                    continue;
                }
                Err(failure) => {
                    fail_all(&mut batch, &Failure::NotConnected(failure.into_error()));
                    continue;
                }
            }
        }
        // From here on no caller can withdraw one.
        batch.retain(|write| !write.taken.swap(true, Ordering::AcqRel));
        if !batch.is_empty() {
            is_short = send_all(&node, wanted, &mut batch).await;
        }
    }
}

fn fail_all(batch: &mut Vec<Write>, failure: &Failure) {
    for write in batch.drain(..) {
        let _ = write.done.send(Err(failure.clone()));
    }
}

/// Sends writes with a WAIT behind them, and answers them; whether replicas were missed.
async fn send_all(node: &Node, wanted: ReplicaGoal, batch: &mut Vec<Write>) -> bool {
    let mut pipeline = redis::pipe();
    for write in &mut *batch {
        if write.asked_first {
            pipeline.cmd("ASKING");
        }
        pipeline.add_command(write.command.clone());
    }
    pipeline.add_command(wait(wanted));
    let commands = pipeline.cmd_iter().count();
    let (mut values, replicas) = match node.pipeline(&pipeline, 0, commands).await {
        Ok(mut values) => match values.pop() {
            Some(Value::Int(count)) => (values.into_iter(), u32::try_from(count).unwrap_or(0)),
            // The server became a replica, or does not know WAIT.
            _ => (values.into_iter(), 0),
        },
        Err(failure) => {
            fail_all(batch, &failure);
            return false;
        }
    };
    let mut ran = false;
    let mut is_demoted = false;
    for write in batch.drain(..) {
        if write.asked_first {
            values.next();
        }
        let Some(value) = values.next() else { continue };
        let refusal = Refusal::of_value(&value);
        is_demoted |= refusal == Some(Refusal::Demoted);
        ran |= refusal.is_none();
        let _ = write.done.send(Ok((value, replicas)));
    }
    if is_demoted {
        node.give_up();
    }
    ran && replicas < wanted.replicas_min
}

/// How many replicas have received what was written on this connection.
async fn replicas(node: &Node, wanted: ReplicaGoal) -> Result<u32, Failure> {
    match node.command(&wait(wanted)).await? {
        Value::Int(count) => Ok(u32::try_from(count).unwrap_or(0)),
        _ => Ok(0),
    }
}

fn wait(wanted: ReplicaGoal) -> Cmd {
    let mut command = redis::cmd("WAIT");
    // 0 would wait for ever.
    command.arg(wanted.replicas_min).arg(wanted.wait_max.as_millis().max(1).to_string());
    command
}

fn too_few(count: u32, wanted: ReplicaGoal) -> RedisError {
    let detail = format!("{count} of {} replicas have the last write", wanted.replicas_min);
    redis::make_extension_error(TOO_FEW.to_owned(), Some(detail))
}

fn not_sent() -> RedisError {
    let detail = "its turn did not come in time".to_owned();
    redis::make_extension_error(NOT_SENT.to_owned(), Some(detail))
}

/// Whether a write was refused since too few replicas follow: it did not run.
#[must_use]
pub fn is_too_few_replicas(error: &RedisError) -> bool {
    error.code() == Some(TOO_FEW)
}

/// Whether a write was not sent because its turn did not come in time: it did not run.
#[must_use]
pub fn is_not_sent(error: &RedisError) -> bool {
    error.code() == Some(NOT_SENT)
}
