//! `/api/session` and `/api/sessions`: sign in, sign out, and change the password.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::SET_COOKIE;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::users::CredentialsBody;
use crate::account::{Accounts, Session};
use crate::domain::Clock;
use crate::http::address::{ClientAddress, rate_limit_key};
use crate::http::body::JsonBody;
use crate::http::extract::{Buyer, SameSite};
use crate::http::problem::{Problem, ProblemBody};
use crate::http::rates::AddressRateLimit;
use crate::http::session_cookie::SessionCookie;

/// A session.
#[derive(Serialize, ToSchema)]
pub struct SessionBody {
    /// Send it as `Authorization: Bearer`. Browsers also get it as a cookie.
    token: String,
    user_id: i64,
    /// `buyer`, `operator` or `admin`.
    role: &'static str,
    #[serde(with = "time::serde::rfc3339")]
    expires_at: OffsetDateTime,
}

/// Sign in.
#[utoipa::path(
    post,
    path = "/api/session",
    tag = "everyone",
    request_body = CredentialsBody,
    responses(
        (status = 200, description = "A token, also as an HttpOnly cookie", body = SessionBody),
        (status = "4XX", description = "Wrong name or password, or too many attempts", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "Try again", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub async fn create(
    State(accounts): State<Accounts>,
    State(clock): State<Clock>,
    State(cookie): State<SessionCookie>,
    _: AddressRateLimit,
    _: SameSite,
    ClientAddress(address): ClientAddress,
    JsonBody(body): JsonBody<CredentialsBody>,
) -> Result<Response, Problem> {
    let signed_in = accounts.sign_in(&body.username, body.password, rate_limit_key(address)).await;
    Ok(answer(signed_in?, &clock, cookie))
}

/// The answer with a new session, and its cookie.
fn answer(session: Session, clock: &Clock, cookie: SessionCookie) -> Response {
    let Session { token, user, role, expires_at } = session;
    let life = (expires_at - clock.now()).try_into().unwrap_or_default();
    let cookie = cookie.set(&token, life);
    let body = SessionBody { token, user_id: user.get(), role: role.as_str(), expires_at };
    ([(SET_COOKIE, cookie)], Json(body)).into_response()
}

/// Sign out: the token becomes invalid, on other instances after two seconds at most.
#[utoipa::path(
    delete,
    path = "/api/session",
    tag = "buyer",
    responses(
        (status = 204, description = "Signed out"),
        (status = "4XX", description = "Not signed in", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "Try again", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("bearer" = [])),
)]
pub async fn end(
    State(accounts): State<Accounts>,
    State(cookie): State<SessionCookie>,
    Buyer(claims): Buyer,
) -> Result<Response, Problem> {
    accounts.sign_out(&claims).await?;
    let cookie = cookie.set("", Duration::ZERO);
    Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, cookie)]).into_response())
}

/// Sign out everywhere: all tokens of the user become invalid, on other instances after two seconds
/// at most.
#[utoipa::path(
    delete,
    path = "/api/sessions",
    tag = "buyer",
    responses(
        (status = 204, description = "Signed out everywhere"),
        (status = "4XX", description = "Not signed in", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "Try again", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("bearer" = [])),
)]
pub async fn end_all(
    State(accounts): State<Accounts>,
    State(cookie): State<SessionCookie>,
    Buyer(claims): Buyer,
) -> Result<Response, Problem> {
    accounts.sign_out_everywhere(claims.user).await?;
    let cookie = cookie.set("", Duration::ZERO);
    Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, cookie)]).into_response())
}

/// The present password and the one that replaces it.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PasswordBody {
    /// The present password.
    #[schema(format = Password, max_length = 256)]
    current_password: String,
    /// 8 characters to 256 bytes, and none that attackers try first.
    #[schema(format = Password, min_length = 8, max_length = 256)]
    new_password: String,
}

/// Change the password: all sessions of the user end, and a new one begins.
#[utoipa::path(
    put,
    path = "/api/session/password",
    tag = "buyer",
    request_body = PasswordBody,
    responses(
        (status = 200, description = "A new token, also as an HttpOnly cookie", body = SessionBody),
        (status = "4XX", description = "Wrong or unacceptable password, or too many attempts", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "Try again", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("bearer" = [])),
)]
pub async fn change_password(
    State(accounts): State<Accounts>,
    State(clock): State<Clock>,
    State(cookie): State<SessionCookie>,
    _: AddressRateLimit,
    Buyer(claims): Buyer,
    ClientAddress(address): ClientAddress,
    JsonBody(body): JsonBody<PasswordBody>,
) -> Result<Response, Problem> {
    let passwords = (body.current_password, body.new_password);
    let changed = accounts.change_password(claims.user, passwords, rate_limit_key(address)).await;
    Ok(answer(changed?, &clock, cookie))
}
