//! Pauses at which a test decides who goes on, and in which order.
//!
//! A [`Director`] stops its buyers at every pause. The test waits until a buyer has arrived, and lets the buyer
//! go on when the schedule says so. Tests share a process, so each one directs buyers with ids of its own.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The directed buyers of this process.
static BUYERS: LazyLock<Mutex<HashMap<i64, Arc<Stage>>>> = LazyLock::new(Mutex::default);

/// Directs some buyers until it is dropped; then all go on.
#[derive(Debug)]
pub struct Director {
    buyers: Vec<i64>,
    stage: Arc<Stage>,
}

#[derive(Debug, Default)]
struct Stage {
    /// Where each buyer stands, until the buyer may go on.
    standing: Mutex<HashMap<i64, &'static str>>,
    is_over: Mutex<bool>,
    changed: Notify,
}

impl Director {
    /// Directs these buyers from now on.
    #[must_use]
    pub fn of(buyers: &[i64]) -> Self {
        let stage = Arc::new(Stage::default());
        let each = buyers.iter().map(|buyer| (*buyer, Arc::clone(&stage)));
        locked(&BUYERS).extend(each);
        Self { buyers: buyers.to_owned(), stage }
    }

    /// Waits until the buyer stands at the pause `name`. The caller bounds the wait.
    pub async fn arrival(&self, buyer: i64, name: &str) {
        self.stage.until(|stage| locked(&stage.standing).get(&buyer) == Some(&name)).await;
    }

    /// Lets the buyer go on, if the buyer stands somewhere.
    pub fn release(&self, buyer: i64) {
        locked(&self.stage.standing).remove(&buyer);
        self.stage.changed.notify_waiters();
    }
}

impl Drop for Director {
    fn drop(&mut self) {
        locked(&BUYERS).retain(|buyer, _| !self.buyers.contains(buyer));
        *locked(&self.stage.is_over) = true;
        self.stage.changed.notify_waiters();
    }
}

impl Stage {
    async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            if is_so(self) {
                return;
            }
            changed.await;
        }
    }
}

/// Stops a directed buyer until the test lets the buyer go on.
pub async fn pause(name: &'static str, buyer: i64) {
    let Some(stage) = locked(&BUYERS).get(&buyer).cloned() else { return };
    locked(&stage.standing).insert(buyer, name);
    stage.changed.notify_waiters();
    let may_go =
        |stage: &Stage| *locked(&stage.is_over) || !locked(&stage.standing).contains_key(&buyer);
    stage.until(may_go).await;
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
