//! Background jobs: each has a name, a period and a last result. All instances may run it at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::FutureExt;
use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;

use shop_metrics::Metrics;

/// How long one run of a job may take: far longer than any does.
const RUN_MAX: Duration = Duration::from_secs(300);

/// How often the log repeats that a job still fails.
const REMINDER: Duration = Duration::from_secs(60);

/// A background job: work that is repeated after a pause.
#[async_trait]
pub trait Job: Send + Sync + 'static {
    /// Runs once, and returns what it did in a few words. A failure is logged; the next run tries
    /// again.
    async fn run(&self) -> Result<String, String>;

    /// The longest pause before the next run, if the job has a reason for a shorter one than its schedule's.
    fn pause_max(&self) -> Duration {
        Duration::MAX
    }
}

/// A job with its place in the schedule.
pub struct ScheduledJob {
    /// Its name in logs, metrics and the console.
    pub name: &'static str,
    /// The pause between two runs.
    pub period: Duration,
    pub job: Box<dyn Job>,
}

impl ScheduledJob {
    pub fn new(name: &'static str, period: Duration, job: impl Job) -> Self {
        Self { name, period, job: Box::new(job) }
    }
}

/// The last run of a job.
#[derive(Clone, Debug)]
pub struct LastRun {
    /// The time of its end.
    pub ended_at: OffsetDateTime,
    /// A summary of what it did, or its error.
    pub result: Result<String, String>,
}

/// The last run of each job. Clones share them.
#[derive(Clone, Default)]
pub struct JobStatus {
    runs: Arc<Mutex<BTreeMap<&'static str, LastRun>>>,
}

impl JobStatus {
    /// The last run of each job that has run.
    pub fn read(&self) -> BTreeMap<&'static str, LastRun> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn write(&self, name: &'static str, result: Result<String, String>) {
        let run = LastRun { ended_at: OffsetDateTime::now_utc(), result };
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).insert(name, run);
    }
}

/// The failures of a job since its last success. A job runs twice a second, and a lost server can be
/// away for an hour: the log has a line for each new error, and a reminder now and then.
#[derive(Default)]
struct Failures {
    count: u32,
    error: String,
    logged: Option<Instant>,
}

impl Failures {
    /// Logs a failure, unless the log has its error already.
    fn log(&mut self, job: &'static str, error: &str) {
        self.count += 1;
        let is_due = self.logged.is_none_or(|logged| logged.elapsed() >= REMINDER);
        if is_due || self.error != error {
            let count = self.count;
            tracing::warn!(job, error, count, "job failed; it runs again");
            self.logged = Some(Instant::now());
            error.clone_into(&mut self.error);
        }
    }

    /// Logs the first success after failures.
    fn ended(&mut self, job: &'static str) {
        if self.count > 0 {
            tracing::info!(job, count = self.count, "job works again after failures");
            *self = Self::default();
        }
    }
}

/// Runs a job until `stop` fires. A panic counts as a failed run.
pub async fn run(
    ScheduledJob { name, period, job }: ScheduledJob,
    status: JobStatus,
    metrics: Metrics,
    stop: CancellationToken,
) {
    let mut failures = Failures::default();
    loop {
        tokio::select! {
            () = tokio::time::sleep(period.min(job.pause_max())) => {}
            () = stop.cancelled() => return,
        }
        let run = std::panic::AssertUnwindSafe(job.run()).catch_unwind();
        let result = match tokio::time::timeout(RUN_MAX, run).await {
            Ok(ended) => ended.unwrap_or_else(|_| Err("it panicked".to_owned())),
            Err(_) => Err(format!("it timed out after {} s", RUN_MAX.as_secs())),
        };
        match &result {
            Ok(did) => {
                tracing::trace!(job = name, did, "job done");
                metrics.job_ran(name, "ok");
                failures.ended(name);
            }
            Err(error) => {
                failures.log(name, error);
                metrics.job_ran(name, "failed");
            }
        }
        status.write(name, result);
    }
}
