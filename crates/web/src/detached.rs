//! Changes that finish even when their client has gone.

use lifecycle::Lifecycle;

use crate::problem::Problem;
use crate::problems;

/// Runs a step on a task of its own, so that it finishes even when its client has gone: a step that
/// stops half-way would keep a row locked until MySQL notices.
pub fn detached<T: Send + 'static, E: Into<Problem> + Send + 'static>(
    lifecycle: &Lifecycle,
    step: impl Future<Output = Result<T, E>> + Send + 'static,
) -> impl Future<Output = Result<T, Problem>> {
    let task = lifecycle.purchases().spawn(step);
    async move {
        match task.await {
            Ok(stepped) => stepped.map_err(Into::into),
            Err(_) => Err(problems::INTERNAL.problem().outcome_unknown()),
        }
    }
}
