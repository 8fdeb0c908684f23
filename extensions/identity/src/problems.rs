//! The types of problem of a sign-in by the identity provider.

pub use web::problems::*;

web::problem_types! {
    IDENTITY_REFUSED: 401 "identity_refused", "Sign-in not confirmed by the identity provider",
        "Get a new token of the identity provider for this service, or sign in again.";
    SIGN_IN_NOT_STARTED: 403 "sign_in_not_started", "Sign-in not started in this browser",
        "Start again on the page of sign-in, and finish within ten minutes.";
}
