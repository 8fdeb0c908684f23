//! Tokio's channels, permits and locks, with a switch before each operation. They need no runtime.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

pub use real_tokio::sync::{AcquireError, TryAcquireError, mpsc};

use crate::task::switch;

/// Tokio's `Notify`.
#[derive(Debug, Default)]
pub struct Notify(real_tokio::sync::Notify);

impl Notify {
    /// Without a notification.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes one task, or the next that waits.
    pub fn notify_one(&self) {
        switch();
        self.0.notify_one();
    }

    /// Waits for a notification.
    pub async fn notified(&self) {
        switch();
        self.0.notified().await;
    }
}

/// Tokio's `CancellationToken`.
#[derive(Clone, Debug, Default)]
pub struct CancellationToken(real_tokio_util::sync::CancellationToken);

impl CancellationToken {
    /// A token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels it.
    pub fn cancel(&self) {
        switch();
        self.0.cancel();
    }

    /// Whether it is cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        switch();
        self.0.is_cancelled()
    }

    /// Waits until it is cancelled.
    pub async fn cancelled(&self) {
        switch();
        self.0.cancelled().await;
    }

    /// Waits for something until it is cancelled.
    pub async fn run_until_cancelled<T>(&self, awaited: impl Future<Output = T>) -> Option<T> {
        crate::select! {
            () = self.cancelled() => None,
            come = awaited => Some(come),
        }
    }

    /// Waits until it is cancelled, in a future that borrows nothing.
    pub async fn cancelled_owned(self) {
        self.cancelled().await;
    }
}

/// Tokio's `Semaphore`, as far as its permits are owned.
#[derive(Debug)]
pub struct Semaphore(Arc<real_tokio::sync::Semaphore>);

/// A permit of a [`Semaphore`].
#[derive(Debug)]
pub struct OwnedSemaphorePermit(Option<real_tokio::sync::OwnedSemaphorePermit>);

impl Semaphore {
    /// A semaphore with permits.
    #[must_use]
    pub fn new(permits: usize) -> Self {
        Self(Arc::new(real_tokio::sync::Semaphore::new(permits)))
    }

    /// The permits that are free.
    #[must_use]
    pub fn available_permits(&self) -> usize {
        switch();
        self.0.available_permits()
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// When it was closed.
    pub async fn acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.acquire_many_owned(1).await
    }

    /// Waits for permits.
    ///
    /// # Errors
    /// When it was closed.
    pub async fn acquire_many_owned(
        self: Arc<Self>,
        permits: u32,
    ) -> Result<OwnedSemaphorePermit, AcquireError> {
        switch();
        let permit = Arc::clone(&self.0).acquire_many_owned(permits).await;
        permit.map(|permit| OwnedSemaphorePermit(Some(permit)))
    }

    /// Takes a permit that is free.
    ///
    /// # Errors
    /// When none is.
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        switch();
        let permit = Arc::clone(&self.0).try_acquire_owned();
        permit.map(|permit| OwnedSemaphorePermit(Some(permit)))
    }
}

impl OwnedSemaphorePermit {
    /// Takes some of its permits out of it.
    pub fn split(&mut self, permits: usize) -> Option<Self> {
        self.0.as_mut()?.split(permits).map(|permit| Self(Some(permit)))
    }
}

impl Drop for OwnedSemaphorePermit {
    fn drop(&mut self) {
        switch();
        self.0 = None;
    }
}

/// Tokio's `Mutex`, as far as its guards are owned.
#[derive(Debug, Default)]
pub struct Mutex<T>(Arc<real_tokio::sync::Mutex<T>>);

/// A guard of a [`Mutex`].
#[derive(Debug)]
pub struct OwnedMutexGuard<T>(Option<real_tokio::sync::OwnedMutexGuard<T>>);

impl<T> Mutex<T> {
    /// Waits for the lock.
    pub async fn lock_owned(self: Arc<Self>) -> OwnedMutexGuard<T> {
        switch();
        OwnedMutexGuard(Some(Arc::clone(&self.0).lock_owned().await))
    }
}

impl<T> Drop for OwnedMutexGuard<T> {
    fn drop(&mut self) {
        switch();
        self.0 = None;
    }
}

pub mod oneshot {
    //! Tokio's channel for one value.

    use super::{Context, Pin, Poll, switch};

    pub use real_tokio::sync::oneshot::error;

    /// The end that sends.
    #[derive(Debug)]
    pub struct Sender<T>(Option<real_tokio::sync::oneshot::Sender<T>>);

    /// The end that receives.
    #[derive(Debug)]
    pub struct Receiver<T>(Option<real_tokio::sync::oneshot::Receiver<T>>);

    /// A channel.
    #[must_use]
    pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
        let (sender, receiver) = real_tokio::sync::oneshot::channel();
        (Sender(Some(sender)), Receiver(Some(receiver)))
    }

    impl<T> Sender<T> {
        /// Sends the value.
        ///
        /// # Errors
        /// The value, when the receiver is gone.
        pub fn send(mut self, value: T) -> Result<(), T> {
            switch();
            match self.0.take() {
                Some(sender) => sender.send(value),
                None => Err(value),
            }
        }
    }

    impl<T> Drop for Sender<T> {
        fn drop(&mut self) {
            if let Some(sender) = self.0.take() {
                switch();
                drop(sender);
            }
        }
    }

    impl<T> Future for Receiver<T> {
        type Output = Result<T, error::RecvError>;

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
            switch();
            let receiver = self.0.as_mut().expect("it is dropped with its future");
            Pin::new(receiver).poll(context)
        }
    }

    impl<T> Drop for Receiver<T> {
        fn drop(&mut self) {
            switch();
            self.0 = None;
        }
    }
}
