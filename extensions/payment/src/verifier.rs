//! Where a provider's messages are verified: a long body is hashed on a thread for such work, so that
//! the connections of a runtime do not wait for it.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use time::OffsetDateTime;
use tokio::sync::Semaphore;

use crate::message::{Headers, Message, Sender};
use crate::take_error::TakeError;

/// The longest body that is hashed where it arrives, in bytes: that takes a few microseconds.
const INLINE_BYTES_MAX: usize = 4 << 10;
/// Long bodies that are hashed at once.
const LONG_BODIES_MAX: usize = 2;
/// How long a message with a long body waits for its turn. The provider sends it again later.
const TURN_WAIT_MAX: Duration = Duration::from_secs(2);

/// Verifies and reads messages. Clones share the turns of long bodies.
#[derive(Clone)]
pub(crate) struct Verifier {
    turns: Arc<Semaphore>,
}

impl Verifier {
    pub(crate) fn new() -> Self {
        Self { turns: Arc::new(Semaphore::new(LONG_BODIES_MAX)) }
    }

    /// Verifies and reads a message, unless its sender `is_limited` when the turn has come.
    pub(crate) async fn read(
        &self,
        sender: Sender<'_>,
        headers: Headers,
        body: Bytes,
        now: OffsetDateTime,
        is_limited: impl Fn() -> bool,
    ) -> Result<Message, TakeError> {
        if body.len() <= INLINE_BYTES_MAX {
            return Message::read(sender, &headers, &body, now);
        }
        let turn = tokio::time::timeout(TURN_WAIT_MAX, Arc::clone(&self.turns).acquire_owned());
        let Ok(Ok(turn)) = turn.await else { return Err(TakeError::Busy) };
        // Of many that came at once, others were verified meanwhile.
        if is_limited() {
            return Err(TakeError::Limited);
        }
        let secret = sender.secret.to_owned();
        let shop = sender.shop.clone();
        let work = tokio::task::spawn_blocking(move || {
            // Held to the end of the work, also when nobody waits for it any more.
            let _turn = turn;
            let sender = Sender { secret: &secret, shop: &shop };
            Message::read(sender, &headers, &body, now)
        });
        work.await.map_err(|_| TakeError::Busy)?
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures::FutureExt;
    use shop_domain::Currency;
    use shop_domain::payment::CurrencyCode;
    use tokio::runtime::Builder;
    use tokio::sync::OwnedSemaphorePermit;

    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn message(length: usize) -> (Headers, Bytes, OffsetDateTime) {
        let body = format!(r#"{{"type":"other","more":"{}"}}"#, "x".repeat(length));
        let now = OffsetDateTime::from_unix_timestamp(1_700_000_000).expect("a time");
        let signatures = webhooks::sign(SECRET, "m1", 1_700_000_000, body.as_bytes());
        let headers = Headers { id: "m1".into(), timestamp: "1700000000".into(), signatures };
        (headers, body.into(), now)
    }

    #[test]
    fn a_long_body_is_not_hashed_on_the_runtime_of_a_connection() {
        // The only thread for such work is held up, so that it cannot end before the test looks.
        let runtime = Builder::new_current_thread().enable_time().max_blocking_threads(1).build();
        runtime.expect("a runtime").block_on(async {
            let (free, held_up) = std::sync::mpsc::channel::<()>();
            tokio::task::spawn_blocking(move || held_up.recv());
            let verifier = Verifier::new();
            let shop = CurrencyCode::from(Currency::USD);
            let read = async |length| {
                let (headers, body, now) = message(length);
                let sender = Sender { secret: SECRET, shop: &shop };
                verifier.read(sender, headers, body, now, || false).await
            };
            assert!(matches!(read(10).now_or_never(), Some(Ok(Message::Other))), "a short one");
            assert!(
                read(INLINE_BYTES_MAX).now_or_never().is_none(),
                "a long one is work elsewhere"
            );
            drop(free);
            assert!(matches!(read(INLINE_BYTES_MAX).await, Ok(Message::Other)));
            let (headers, body, now) = message(INLINE_BYTES_MAX);
            let stranger = Sender { secret: "whsec_AAAA", shop: &shop };
            let forged = verifier.read(stranger, headers, body, now, || false).await;
            assert_eq!(forged.err(), Some(TakeError::Forged));
        });
    }

    /// Takes the turns of all long bodies.
    async fn all_turns(verifier: &Verifier) -> OwnedSemaphorePermit {
        let all = u32::try_from(LONG_BODIES_MAX).expect("few");
        Arc::clone(&verifier.turns).acquire_many_owned(all).await.expect("open")
    }

    #[tokio::test]
    async fn a_long_body_does_not_wait_for_ever() {
        let verifier = Verifier::new();
        let turns = all_turns(&verifier).await;
        let shop = CurrencyCode::from(Currency::USD);
        let (headers, body, now) = message(INLINE_BYTES_MAX);
        let sender = Sender { secret: SECRET, shop: &shop };
        let waited = verifier.read(sender, headers, body, now, || false).await;
        assert_eq!(waited.err(), Some(TakeError::Busy));
        drop(turns);
    }

    #[tokio::test]
    async fn a_limit_that_is_reached_meanwhile_ends_a_wait() {
        let verifier = Verifier::new();
        let turns = all_turns(&verifier).await;
        let shop = CurrencyCode::from(Currency::USD);
        let (headers, body, now) = message(INLINE_BYTES_MAX);
        let sender = Sender { secret: SECRET, shop: &shop };
        let is_limited = AtomicBool::new(false);
        let looks = || is_limited.load(Ordering::Relaxed);
        let read = verifier.read(sender, headers, body, now, looks);
        let others = async {
            is_limited.store(true, Ordering::Relaxed);
            drop(turns);
        };
        let (read, ()) = tokio::join!(read, others);
        assert_eq!(read.err(), Some(TakeError::Limited));
    }
}
