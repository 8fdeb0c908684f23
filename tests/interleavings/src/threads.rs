//! The locks that threads share, by shuttle, and the mistakes that tests plant.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::PoisonError;

pub use shuttle::sync::atomic::AtomicBool;
pub use shuttle::sync::{Mutex, MutexGuard};

thread_local! {
    /// The mistake that is planted in the runs of this thread.
    static PLANTED: Cell<Option<&'static str>> = const { Cell::new(None) };
    /// The statics of the present run by their places.
    static STATICS: RefCell<HashMap<usize, &'static dyn Any>> = RefCell::default();
}

/// Locks, also after a panic.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a test has planted this mistake.
#[must_use]
pub fn planted(mistake: &str) -> bool {
    PLANTED.get() == Some(mistake)
}

/// Whether a mistake is planted.
pub(crate) fn has_planted() -> bool {
    PLANTED.get().is_some()
}

/// Plants a mistake in the runs of this thread.
pub(crate) fn plant(mistake: Option<&'static str>) {
    PLANTED.set(mistake);
}

/// A value that is made when it is first needed, once in each run. It is never dropped, as a static is not.
pub struct LazyLock<T: 'static>(fn() -> T);

impl<T: 'static> LazyLock<T> {
    /// A value that `make` makes.
    pub const fn new(make: fn() -> T) -> Self {
        Self(make)
    }
}

impl<T: 'static> Deref for LazyLock<T> {
    type Target = T;

    fn deref(&self) -> &T {
        let place = std::ptr::from_ref(self).addr();
        let made = STATICS.with_borrow(|statics| statics.get(&place).copied());
        let value = made.unwrap_or_else(|| {
            let value: &'static dyn Any = Box::leak(Box::new(self.0()));
            STATICS.with_borrow_mut(|statics| statics.insert(place, value));
            value
        });
        value.downcast_ref().expect("a place has one static")
    }
}

/// Begins a run, which makes its statics anew.
pub(crate) fn begin_run() {
    STATICS.with_borrow_mut(HashMap::clear);
}
