//! Runs of `token` on Redis are paths of its model (`tests/protocol-models`): each process has a thread and a runtime
//! of its own, and the model's steps replay its decisions.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex as StdMutex};
use std::thread::JoinHandle;
use std::time::Duration;

use leaselock::{AcquireError, AcquireOptions, Guard, LeasedMutex, LockName, Wait};
use protocol_models::lock::replay::explain;
use protocol_models::trace::{Event, Explained, LOCK_TARGET, Recorder};
use rand::RngExt;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::connect;
use super::testbed::{Testbed, listed};
use crate::support::{eventually, random, redis_url, rounds};

/// Long enough for a busy machine, short enough to wait for its end.
const LEASE: Duration = Duration::from_secs(1);

/// Some processes, the store that they write to, and what they decide.
struct Run {
    testbed: Testbed,
    name: LockName,
    recorder: Recorder,
    store: Arc<Store>,
}

/// A store that refuses a write with a lower fence than the last one.
#[derive(Default)]
struct Store {
    last: StdMutex<u64>,
}

impl Store {
    /// The rest of a write that its holder has begun: it may come late.
    fn arrives(&self, name: &LockName, fence: u64) -> bool {
        let mut last = self.last.lock().expect("no panic");
        let ok = fence >= *last;
        *last = fence.max(*last);
        tracing::trace!(target: LOCK_TARGET, what = "wrote", %name, fence, ok);
        ok
    }
}

/// Says that a holder begins to write. Answers its fence, unless its hold is over.
fn begins(guard: &Guard) -> Option<u64> {
    let fence = super::fence_of(guard).get();
    let is_over = guard.is_lost();
    if !is_over {
        tracing::trace!(target: LOCK_TARGET, what = "write", name = %guard.name(), fence);
    }
    (!is_over).then_some(fence)
}

impl Run {
    fn new(name: &str) -> Self {
        let name = LockName::new(name).expect("a name");
        let testbed = Testbed::new();
        Self { testbed, name, recorder: Recorder::default(), store: Arc::default() }
    }

    /// Has one more process work on a thread of its own. It dies with what it has left.
    fn process<T: Send + 'static, F: Future<Output = T>>(
        &self,
        work: impl FnOnce(LeasedMutex, LockName, Arc<Store>) -> F + Send + 'static,
    ) -> JoinHandle<T> {
        let testbed = self.testbed.clone();
        let recorder = self.recorder.clone();
        let name = self.name.clone();
        let store = Arc::clone(&self.store);
        std::thread::spawn(move || {
            let _recorded = tracing::subscriber::set_default(recorder);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime");
            let answer = runtime.block_on(async {
                let process = testbed.process(listed("redis", "token")).await;
                work(process, name, store).await
            });
            runtime.shutdown_background();
            answer
        })
    }

    /// Waits until as many tokens are in the queue. Answers the process that came last.
    async fn until_queued(&self, count: usize) -> String {
        eventually("the queue", || async {
            let mut listens = BTreeSet::new();
            let mut queued = BTreeSet::new();
            let mut last = String::new();
            for event in self.events() {
                let token = event.text("token").to_owned();
                match event.what() {
                    "ask" if event.flag("listens") == Some(true) => {
                        event.text("process").clone_into(&mut last);
                        listens.insert(token);
                    }
                    "refused" if listens.contains(&token) => drop(queued.insert(token)),
                    _ => {}
                }
            }
            (queued.len() >= count).then_some(last)
        })
        .await
    }

    /// Waits until as many processes listen at the server.
    async fn until_listening(&self, count: usize) {
        let redis = connect(&redis_url().await).await;
        let channels = format!("{}wake:*", self.testbed.prefix);
        eventually("the server to notice", || async {
            let mut redis = redis.clone();
            let mut command = redis::cmd("PUBSUB");
            command.arg("CHANNELS").arg(&channels);
            let found: Vec<String> = command.query_async(&mut redis).await.expect("an answer");
            (found.len() == count).then_some(())
        })
        .await;
    }

    fn events(&self) -> Vec<Event> {
        self.recorder.events(LOCK_TARGET)
    }

    /// Waits until as many events say this.
    async fn until(&self, what: &str, count: usize) {
        eventually(what, || async {
            let said = self.events().iter().filter(|one| one.what() == what).count();
            (said >= count).then_some(())
        })
        .await;
    }

    /// # Panics
    /// With the first event that no step of the model fits.
    fn explained(&self) -> Explained {
        explained(&self.events())
    }
}

fn explained(events: &[Event]) -> Explained {
    let explained = explain(events).unwrap_or_else(|unexplained| panic!("{unexplained}"));
    println!("{} events, all explained, at most {} states", explained.events, explained.states_max);
    explained
}

fn waiting() -> AcquireOptions {
    super::waiting_for(LEASE, 20 * LEASE)
}

async fn granted(process: &LeasedMutex, name: &LockName) -> Guard {
    process.acquire(name, waiting()).await.expect("granted")
}

/// A client that comes again and again. Sometimes it does not wait, or gives up soon, or its write comes late.
async fn comes(process: LeasedMutex, name: LockName, store: Arc<Store>, times: u32, seed: u64) {
    let mut choices = <rand::rngs::StdRng as rand::SeedableRng>::seed_from_u64(seed);
    for _ in 0..times {
        let soon = Duration::from_micros(choices.random_range(100..5_000));
        let wait = match choices.random_range(0..8) {
            0 => Wait::Never,
            1 => Wait::Until(Instant::now() + soon),
            _ => waiting().wait,
        };
        match process.acquire(&name, AcquireOptions { lease: LEASE, wait }).await {
            Ok(guard) => {
                let fence = begins(&guard);
                match choices.random_range(0..4) {
                    0 => sleep(soon / 4).await,
                    1 => tokio::task::yield_now().await,
                    _ => {}
                }
                let is_late = choices.random_range(0..16) == 0;
                if !is_late && let Some(fence) = fence {
                    store.arrives(&name, fence);
                }
                if choices.random_range(0..8) == 0 {
                    drop(guard);
                } else {
                    let _ = guard.release().await;
                }
                if is_late && let Some(fence) = fence {
                    store.arrives(&name, fence);
                }
            }
            Err(AcquireError::Busy | AcquireError::TimedOut) => sleep(soon / 2).await,
            Err(error) => panic!("{error}"),
        }
    }
}

/// A crowd of `rounds` rounds: three processes with two clients each.
fn crowd(rounds: u32) -> Run {
    let run = Run::new("{thing}:crowd");
    let mut choices = random();
    let processes = [0; 3].map(|_| {
        let seeds = [0; 2].map(|_| choices.random());
        run.process(move |process, name, store| async move {
            let clients = seeds
                .map(|seed| comes(process.clone(), name.clone(), Arc::clone(&store), rounds, seed));
            futures::future::join_all(clients).await;
            // What was dropped is given back.
            let last = granted(&process, &name).await;
            let _ = last.release().await;
        })
    });
    for process in processes {
        process.join().expect("no panic");
    }
    run
}

/// Each decision of a crowd is a step of the model, with its fence and its deadline.
#[test]
fn a_crowd_is_a_path_of_the_model() {
    let run = crowd(rounds(50));
    assert!(run.explained().events > 1_000);
}

/// A holder that stands still beyond its lease: the next one takes the lock, and the late write is refused.
#[tokio::test]
async fn a_late_holder_is_a_path_of_the_model() {
    let run = Run::new("late");
    let (tell, told) = std::sync::mpsc::channel();
    let late = run.process(|process, name, store| async move {
        let guard = granted(&process, &name).await;
        let fence = begins(&guard).expect("it has just begun");
        // Nothing of this process goes on meanwhile.
        told.recv().expect("the next one has written");
        assert!(!store.arrives(&name, fence));
        drop(guard);
    });
    run.until("holds", 1).await;
    let next = run.process(move |process, name, store| async move {
        let guard = granted(&process, &name).await;
        assert!(store.arrives(&name, begins(&guard).expect("it has just begun")));
        tell.send(()).expect("it stands still");
        let _ = guard.release().await;
    });
    for process in [next, late] {
        process.join().expect("no panic");
    }
    run.explained();
}

/// The first in the queue has died: the release grants the lock to the second one.
#[tokio::test]
async fn a_dead_waiter_is_a_path_of_the_model() {
    dead_waiter().await.explained();
}

async fn dead_waiter() -> Run {
    let run = Run::new("dead");
    let (leave, leaves) = oneshot::channel::<()>();
    let holder = run.process(|process, name, _| async move {
        let guard = granted(&process, &name).await;
        leaves.await.expect("told");
        let _ = guard.release().await;
    });
    run.until("holds", 1).await;
    let (die, dies) = oneshot::channel::<()>();
    let first = run.process(|process, name, _| async move {
        tokio::select! {
            _ = granted(&process, &name) => panic!("another client holds it"),
            told = dies => told.expect("told"),
        }
    });
    let dead = run.until_queued(1).await;
    let second = run.process(|process, name, _| async move {
        let _ = granted(&process, &name).await.release().await;
    });
    run.until_queued(2).await;
    {
        let _recorded = tracing::subscriber::set_default(run.recorder.clone());
        tracing::trace!(target: LOCK_TARGET, what = "dies", name = %run.name, process = dead);
    }
    die.send(()).expect("it waits");
    first.join().expect("no panic");
    run.until_listening(2).await;
    // The grant comes well after the attempt from which its lease counts.
    sleep(LEASE / 5).await;
    leave.send(()).expect("it holds");
    for process in [holder, second] {
        process.join().expect("no panic");
    }
    run
}

/// Each planted mistake of the model that a trace can show, written into the trace of a crowd, is refused at its event.
#[test]
fn mistakes_in_a_trace_are_refused() {
    let run = crowd(50);
    let events = run.events();
    let handed = |events: &[Event]| {
        let index = position(events, |one| one.what() == "handed");
        let token = events[index].text("token").to_owned();
        let before = events[..index]
            .iter()
            .rev()
            .find(|one| one.text("token") == token && one.fields.contains_key("fence"));
        (index, before.expect("it was granted").text("fence").to_owned())
    };
    refused("the same fence handed over", &events, |events| {
        let (index, fence) = handed(events);
        set(&mut events[index], "fence", fence);
        index
    });
    refused("a fence from the counter alone", &events, |events| {
        let index = position(events, |one| one.what() == "holds");
        set(&mut events[index], "fence", 7);
        index
    });
    refused("a lease that counts from the arrival", &events, |events| {
        let index = position(events, |one| one.what() == "holds");
        let left_us = events[index].number("left_us") + 100_000;
        set(&mut events[index], "left_us", left_us);
        index
    });
    refused("an old grant accepted", &events, |events| {
        let index = events.iter().rposition(|one| one.what() == "holds").expect("several");
        let old = position(events, |one| one.what() == "holds");
        let fence = events[old].text("fence").to_owned();
        set(&mut events[index], "fence", fence);
        index
    });
    refused("no fence", &events, |events| {
        let index = position(events, |one| one.what() == "wrote");
        let before = events[index].flag("ok").expect("a flag");
        set(&mut events[index], "ok", !before);
        index
    });
}

/// A release that looks at the head alone: the second waiter finds the lock free by its own look, and gets a fence of that
/// moment.
#[tokio::test]
async fn a_release_that_looks_at_the_head_alone_is_refused() {
    let run = dead_waiter().await;
    refused("only the head", &run.events(), |events| {
        let later = u64::try_from(LEASE.as_micros()).expect("short") / 3;
        let index = events.iter().rposition(|one| one.what() == "holds").expect("two");
        let token = events[index].text("token").to_owned();
        // The release was answered before: it has granted the lock to nobody.
        let is_answer = |one: &mut Event| one.what() == "released" && one.text("token") != token;
        let mut answers: Vec<Event> = events.extract_if(index.., is_answer).collect();
        answers.iter_mut().for_each(|one| one.at_us = events[index].at_us);
        let granted = index + answers.len();
        events.splice(index..index, answers);
        let index = granted;
        let is_ask = |one: &&Event| one.what() == "ask" && one.text("token") == token;
        let mut ask = events.iter().rfind(is_ask).expect("it asked").clone();
        for event in &mut events[index..] {
            event.at_us += later;
        }
        ask.at_us = events[index].at_us - 1_000;
        let at_us = ask.at_us;
        set(&mut events[index], "fence", at_us);
        events.insert(index, ask);
        index + 1
    });
}

fn position(events: &[Event], is_it: impl Fn(&Event) -> bool) -> usize {
    events.iter().position(is_it).expect("the run has such an event")
}

fn set(event: &mut Event, name: &str, value: impl std::fmt::Display) {
    event.fields.insert(name.to_owned(), value.to_string());
}

/// `plant` writes a mistake into the events, and answers at which one no step may fit any more.
fn refused(mistake: &str, events: &[Event], plant: impl FnOnce(&mut Vec<Event>) -> usize) {
    let mut events = events.to_vec();
    let index = plant(&mut events);
    let unexplained = explain(&events).expect_err(mistake);
    println!(
        "{mistake}: event {} of {}, {:?}",
        unexplained.number,
        events.len(),
        unexplained.event
    );
    assert_eq!(unexplained.number, index + 1, "{mistake}: {unexplained}");
}
