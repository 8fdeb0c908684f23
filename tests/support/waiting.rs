//! Waiting for a state with a bound.

use std::fmt::Debug;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::Instance;

/// How long a test waits for a state that is no promise in seconds: generous, since a test machine
/// may be busy with other things.
pub const BOUND: Duration = Duration::from_secs(20);
/// The pause between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// What is waited for, in words or as a bound of its own.
pub struct Wait {
    what: String,
    bound: Duration,
}

impl From<&str> for Wait {
    fn from(what: &str) -> Self {
        Self { what: what.to_owned(), bound: BOUND }
    }
}

impl From<&String> for Wait {
    fn from(what: &String) -> Self {
        what.as_str().into()
    }
}

impl From<Duration> for Wait {
    fn from(bound: Duration) -> Self {
        Self { what: "the state".to_owned(), bound }
    }
}

/// The result of one look: the state (`Some`, `Ok`), or not yet (`None`, `Err` with the value that
/// was found instead).
pub trait Look {
    type State;
    fn state(self) -> Result<Self::State, String>;
}

impl<T> Look for Option<T> {
    type State = T;

    fn state(self) -> Result<T, String> {
        self.ok_or_else(|| "it is not there".to_owned())
    }
}

impl<T, E: Debug> Look for Result<T, E> {
    type State = T;

    fn state(self) -> Result<T, String> {
        self.map_err(|instead| format!("{instead:?}"))
    }
}

/// Looks again and again until the state is there, and answers it. Fails with what the last look
/// saw instead once the bound is over, which is [`BOUND`] unless `wait` is a time of its own.
pub async fn eventually<L: Look, F: Future<Output = L>>(
    wait: impl Into<Wait>,
    mut look: impl FnMut() -> F,
) -> L::State {
    let Wait { what, bound } = wait.into();
    let started = Instant::now();
    loop {
        match look().await.state() {
            Ok(state) => return state,
            Err(instead) => {
                assert!(started.elapsed() < bound, "no {what} within {bound:?}: {instead}");
                tokio::time::sleep(LOOK_PAUSE).await;
            }
        }
    }
}

/// Repeats `look` until `is_wanted` accepts its result, and returns that result. The limit of the wait is that of
/// [`eventually`].
pub async fn until<T: Debug, F: Future<Output = T>>(
    wait: impl Into<Wait>,
    mut look: impl FnMut() -> F,
    is_wanted: impl Fn(&T) -> bool,
) -> T {
    eventually(wait, || {
        let seen = look();
        async {
            let seen = seen.await;
            when(is_wanted(&seen), seen)
        }
    })
    .await
}

/// Makes a look for [`eventually`]: `Ok(seen)` when `holds`, else `Err(seen)`.
pub fn when<T: Debug>(holds: bool, seen: T) -> Result<T, T> {
    if holds { Ok(seen) } else { Err(seen) }
}

/// Asserts of each item what [`assert_clean`] does.
pub async fn assert_all_clean(instance: &Instance, items: &[i64]) {
    for item in items {
        assert_clean(instance, *item).await;
    }
}

/// Asserts that every invariant of the item holds, its Redis counter too once traffic is quiet;
/// answers the audit.
pub async fn assert_clean(instance: &Instance, item: i64) -> Value {
    until("a clean audit", || instance.audit(item), |audit| audit["clean"] == true).await
}
