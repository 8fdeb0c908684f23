//! The types of problem of a sign-in by the identity provider.

use web::problem::Problem;

pub use web::problems::*;

web::problem_types! {
    IDENTITY_REFUSED: 401 "identity_refused",
        "Get a new token for this service from the identity provider, or sign in again.";
    SIGN_IN_NOT_STARTED: 403 "sign_in_not_started",
        "Start again on the page of sign-in, and finish within ten minutes.";
}

/// The problem of a provider that does not answer.
pub(crate) fn unavailable() -> Problem {
    Problem::dependency("the identity provider")
}

/// The problem of a sign-in that is refused; `why` is for the log.
pub(crate) fn refused(why: &str) -> Problem {
    tracing::warn!(%why, "sign-in by the identity provider refused");
    IDENTITY_REFUSED.problem()
}

/// The problem of a token that is not believed; `why` is for the log.
pub(crate) fn not_believed(why: &str) -> Problem {
    tracing::info!(%why, "token of the identity provider refused");
    IDENTITY_REFUSED.problem()
}
