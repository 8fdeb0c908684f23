//! Crash points: places at which a test makes the process end at once, as a power cut would.
//!
//! `failpoint!("name")` does nothing unless this crate is built with the feature `armed`, which tests
//! are and a release build refuses to be. Then a process that was started
//! with `FAILPOINT=name` aborts when it comes to that point, with `FAILPOINT=name:3` the third
//! time. [`POINTS`] is every step between the first write of something and the answer to it.

#[cfg(all(feature = "armed", not(debug_assertions)))]
compile_error!("the feature `armed` of `failpoint` is for tests: a release build must not have it");

/// Every point, in the order of a purchase's way and then of an order's.
pub const POINTS: &[&str] = &[
    "counter-taken",
    "buckets-taken",
    "given-back",
    "queued",
    "queue-read",
    "begun",
    "fence-raised",
    "order-inserted",
    "buyer-counted",
    "movement-inserted",
    "stock-taken",
    "committed",
    "batch-orders-inserted",
    "batch-buyers-counted",
    "batch-movements-inserted",
    "batch-stock-taken",
    "batch-committed",
    "reject-inserted",
    "decided",
    "acknowledged",
    "step-status-set",
    "step-applied",
    "step-committed",
    "expiry-applied",
    "expiry-committed",
    "events-moved",
];

/// The points of a draw after its close, in their order.
pub const DRAW_POINTS: &[&str] = &["draw-closed", "draw-listed", "draw-valued", "draw-part-placed"];

/// The point of the opening of a waiting room: some places are written.
pub const ROOM_POINT: &str = "room-part-placed";

/// Ends the process if `name` is the point that it was started with.
#[cfg(feature = "armed")]
pub fn reach(name: &str) {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static ARMED: LazyLock<Option<(String, u64)>> = LazyLock::new(|| {
        let text = std::env::var("FAILPOINT").ok()?;
        let (name, time) = text.split_once(':').unwrap_or((&text, "1"));
        Some((name.to_owned(), time.parse().ok()?))
    });
    static REACHED: AtomicU64 = AtomicU64::new(0);

    if let Some((armed, time)) = &*ARMED
        && armed == name
        && REACHED.fetch_add(1, Ordering::SeqCst) + 1 == *time
    {
        std::process::abort();
    }
}

/// Does nothing: crash points are for tests alone.
#[cfg(not(feature = "armed"))]
#[inline]
pub const fn reach(_name: &str) {}

/// Pauses at which a test decides who goes on, and in which order.
#[cfg(feature = "armed")]
pub mod hold;

/// A pause: `hold!("stock-read", buyer)` waits while a test holds this buyer there. It does nothing unless
/// this crate is built with the feature `armed`, and nothing for a buyer whom no test directs.
#[macro_export]
macro_rules! hold {
    ($name:literal, $buyer:expr) => {
        $crate::pause($name, $buyer).await;
    };
}

#[cfg(feature = "armed")]
pub use hold::pause;

/// Does nothing: pauses are for tests alone.
#[cfg(not(feature = "armed"))]
#[inline]
pub fn pause(_name: &'static str, _buyer: i64) -> std::future::Ready<()> {
    std::future::ready(())
}

/// A crash point; see this crate.
#[macro_export]
macro_rules! failpoint {
    ($name:literal) => {
        $crate::reach($name);
    };
}
