//! Looks for servers that callers share.

use std::time::Instant;

use redis::RedisResult;
use tokio::sync::Mutex;

/// Looks that run one at a time. A caller that came while one ran gets its answer, also an error: where
/// no server answers, callers in a row would each wait for a look of their own.
pub(crate) struct SharedLook<T> {
    last: Mutex<Option<Look<T>>>,
}

struct Look<T> {
    ended: Instant,
    answer: RedisResult<T>,
}

impl<T: Clone> SharedLook<T> {
    pub(crate) fn new() -> Self {
        Self { last: Mutex::new(None) }
    }

    /// Runs `look`, unless another one ends meanwhile.
    pub(crate) async fn share(&self, look: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
        let asked = Instant::now();
        let mut last = self.last.lock().await;
        if let Some(last) = &*last
            && last.ended >= asked
        {
            return last.answer.clone();
        }
        let answer = look.await;
        *last = Some(Look { ended: Instant::now(), answer: answer.clone() });
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::future::join_all;
    use redis::{ErrorKind, RedisError};

    use super::*;

    #[tokio::test]
    async fn callers_that_came_while_a_look_failed_share_its_error() {
        let looks = SharedLook::<()>::new();
        let begun = AtomicU32::new(0);
        let look = || {
            looks.share(async {
                begun.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                Err(RedisError::from((ErrorKind::ClusterConnectionNotFound, "nobody answers")))
            })
        };
        let answers = join_all((0..40).map(|_| look())).await;
        assert!(answers.iter().all(Result::is_err), "{answers:?}");
        assert_eq!(begun.load(Ordering::Relaxed), 1);
        assert!(look().await.is_err());
        assert_eq!(begun.load(Ordering::Relaxed), 2, "a later caller looks again");
    }
}
