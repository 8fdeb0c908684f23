//! Work that is finished whether or not anybody waits for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Work that the task that waits for it does itself. When that task waits no more, the rest is done by a
/// task of its own. So nearly every purchase needs one task: its connection's. With a second one, each
/// purchase would wait twice more for its turn among the tasks of its runtime.
pub(super) struct Finishing<T: Send + 'static> {
    /// `None` when it has ended.
    work: Option<BoxFuture<'static, T>>,
    tasks: TaskTracker,
    /// A stop waits for the work, whoever does it.
    _token: TaskTrackerToken,
}

impl<T: Send + 'static> Finishing<T> {
    /// Work that `tasks` tracks.
    pub(super) fn new(work: impl Future<Output = T> + Send + 'static, tasks: &TaskTracker) -> Self {
        Self { work: Some(work.boxed()), tasks: tasks.clone(), _token: tasks.token() }
    }
}

/// Its output is `None` when the work panicked.
impl<T: Send + 'static> Future for Finishing<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let Some(work) = &mut self.work else { return Poll::Ready(None) };
        let output = match catch_unwind(AssertUnwindSafe(|| work.poll_unpin(context))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Some(output),
            Err(_) => None,
        };
        self.work = None;
        Poll::Ready(output)
    }
}

impl<T: Send + 'static> Drop for Finishing<T> {
    fn drop(&mut self) {
        // Without a runtime the process ends.
        if let (Some(work), Ok(runtime)) = (self.work.take(), Handle::try_current()) {
            self.tasks.spawn_on(work.map(drop), &runtime);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn work_is_finished_when_nobody_waits_any_more() {
        let tasks = TaskTracker::new();
        tasks.close();
        let (go, gone) = oneshot::channel::<()>();
        let (done, is_done) = oneshot::channel();
        let work = async move {
            gone.await.expect("it goes on");
            done.send(()).expect("somebody looks");
        };
        let mut waiting = Finishing::new(work, &tasks);
        assert_eq!((&mut waiting).now_or_never(), None);
        drop(waiting);
        assert!(tasks.wait().now_or_never().is_none(), "a stop waits for it");
        go.send(()).expect("the work waits");
        is_done.await.expect("the work is done");
        tasks.wait().await;
    }

    #[tokio::test]
    async fn work_that_ends_needs_no_task_and_a_panic_stays_inside() {
        let tasks = TaskTracker::new();
        assert_eq!(Finishing::new(async { 1 }, &tasks).await, Some(1));
        let broken: Finishing<()> = Finishing::new(async { panic!("of the work") }, &tasks);
        assert_eq!(broken.await, None);
        assert!(tasks.is_empty());
    }
}
