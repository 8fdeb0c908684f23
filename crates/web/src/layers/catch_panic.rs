//! Answers 500 when a handler panics. The panic hook has written its message to the log, and
//! `problem_body` adds the request's id.

use std::any::Any;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use futures::future::{CatchUnwind, Map};
use tower::Service;

use crate::problems;

/// A service whose panics are caught. Unlike that of tower-http it leaves the body of a response as it is,
/// which spares an allocation for each response.
#[derive(Clone)]
pub(super) struct PanicGuard<S>(pub(super) S);

type Answer = Result<Response, Infallible>;

impl<S> Service<Request> for PanicGuard<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
{
    type Response = Response;
    type Error = Infallible;
    type Future =
        Map<CatchUnwind<AssertUnwindSafe<S::Future>>, fn(Result<Answer, Panic>) -> Answer>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let answer: fn(Result<Answer, Panic>) -> Answer =
            if request.method().is_safe() { after_read } else { after_change };
        AssertUnwindSafe(self.0.call(request)).catch_unwind().map(answer)
    }
}

type Panic = Box<dyn Any + Send>;

fn after_read(ended: Result<Answer, Panic>) -> Answer {
    ended.unwrap_or_else(|_| Ok(problems::INTERNAL.problem().into_response()))
}

/// The handler may have made its change before it panicked.
fn after_change(ended: Result<Answer, Panic>) -> Answer {
    ended.unwrap_or_else(|_| Ok(problems::INTERNAL.problem().outcome_unknown().into_response()))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Method;
    use serde_json::Value;
    use tower::{ServiceExt, service_fn};

    use super::*;
    use crate::problem::Problem;

    async fn panics(_: Request) -> Answer {
        panic!("planted");
    }

    #[test]
    fn a_panic_in_a_change_leaves_its_outcome_unknown() {
        let outcome = |method: Method| {
            let mut request = Request::new(Body::empty());
            *request.method_mut() = method;
            let guard = PanicGuard(service_fn(panics));
            let Ok(answer) = guard.oneshot(request).now_or_never().expect("no wait");
            assert_eq!(answer.status(), 500);
            let problem = answer.extensions().get::<Problem>().expect("a problem");
            let body: Value = serde_json::from_slice(&problem.body("1")).expect("JSON");
            body["outcome"].as_str().expect("text").to_owned()
        };
        assert_eq!(outcome(Method::POST), "unknown");
        assert_eq!(outcome(Method::GET), "none");
    }
}
