//! The locks of one purchase: what they are called, how they are taken, and what it means to the
//! buyer when one is not to be had.

use std::sync::Arc;

use super::lock_body::LockBody;
use crate::domain::{Doubt, Outcome, Refusal, Unavailable};
use crate::lock::combine::SubmitError;
use crate::lock::{AcquireError, AcquireOptions, Guard, LockName, Mutex, Wait};
use crate::strategy::Request;

impl LockBody {
    /// The buyer's lock, without waiting.
    pub(super) async fn try_buyer(&self, request: &Request) -> Result<Guard, Outcome> {
        let name = name_of(&format!("user:{}", request.purchase.buyer));
        let in_progress = Outcome::Refused(Refusal::RequestInProgress);
        self.acquire(&self.buyers, &name, Wait::Never, in_progress).await
    }

    /// A shared lock, waiting as the request says.
    pub(super) async fn wait_for(
        &self,
        request: &Request,
        name: &LockName,
    ) -> Result<Guard, Outcome> {
        let contended = Outcome::Unavailable(Unavailable::Contended);
        let wait = request.options.wait.until(request.deadline);
        self.acquire(&self.mutex, name, wait, contended).await
    }

    async fn acquire(
        &self,
        mutex: &Arc<dyn Mutex>,
        name: &LockName,
        wait: Wait,
        taken: Outcome,
    ) -> Result<Guard, Outcome> {
        let options = AcquireOptions { lease: self.gear.lease, wait };
        mutex.acquire(name, options).await.map_err(|error| self.not_acquired(&error, taken))
    }

    fn not_acquired(&self, error: &AcquireError, taken: Outcome) -> Outcome {
        match error {
            AcquireError::Busy | AcquireError::TimedOut => taken,
            AcquireError::TooManyWaiters => Outcome::Unavailable(Unavailable::Overloaded),
            AcquireError::Unavailable(_) | AcquireError::InvalidOptions(_) => {
                tracing::warn!(%error, "no lock");
                Outcome::Unavailable(Unavailable::Dependency(self.dependency))
            }
        }
    }

    /// What it means when the batch has no answer for a purchase.
    pub(super) fn not_submitted(&self, error: SubmitError) -> Outcome {
        let contended = Outcome::Unavailable(Unavailable::Contended);
        match error {
            SubmitError::QueueFull => Outcome::Unavailable(Unavailable::Overloaded),
            SubmitError::TimedOut => contended,
            SubmitError::NotLocked(error) => self.not_acquired(&error, contended),
            SubmitError::Unknown => Outcome::Unknown(Doubt::BrokenOff),
        }
    }
}

/// What an item's lock is called.
pub(super) fn item_lock(request: &Request) -> LockName {
    name_of(&format!("{{item:{}}}", request.purchase.item.id))
}

/// A name made of digits and fixed words.
pub(super) fn name_of(text: &str) -> LockName {
    LockName::new(text).expect("made of digits and fixed words")
}

/// Gives a lock back, if there is one.
pub(super) async fn release(guard: Option<Guard>) {
    if let Some(guard) = guard {
        // Lost meanwhile or not: the write is judged already, by its fence.
        let _ = guard.release().await;
    }
}
