//! `/api/session`: sign in and sign out.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::SET_COOKIE;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::users::CredentialsBody;
use crate::account::Session;
use crate::http::Web;
use crate::http::address::{ClientAddress, rate_limit_key};
use crate::http::body::JsonBody;
use crate::http::extract::{Buyer, SameSite};
use crate::http::problem::{Problem, ProblemBody};
use crate::http::rates::AddressRateLimit;

/// A session.
#[derive(Serialize, ToSchema)]
pub struct SessionBody {
    /// Send it as `Authorization: Bearer`. Browsers also get it as a cookie.
    token: String,
    user_id: i64,
    /// `buyer` or `admin`.
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
    State(web): State<Web>,
    _: AddressRateLimit,
    _: SameSite,
    ClientAddress(address): ClientAddress,
    JsonBody(body): JsonBody<CredentialsBody>,
) -> Result<Response, Problem> {
    let signed_in =
        web.accounts.sign_in(&body.username, body.password, rate_limit_key(address)).await;
    let Session { token, user, role, expires_at } = signed_in?;
    let life = (expires_at - web.clock.now()).try_into().unwrap_or_default();
    let cookie = set_cookie(&web, &token, life);
    let body = SessionBody { token, user_id: user.get(), role: role.as_str(), expires_at };
    Ok(([(SET_COOKIE, cookie)], Json(body)).into_response())
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
pub async fn end(State(web): State<Web>, Buyer(claims): Buyer) -> Result<Response, Problem> {
    web.accounts.sign_out(&claims).await?;
    let cookie = set_cookie(&web, "", Duration::ZERO);
    Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, cookie)]).into_response())
}

fn set_cookie(web: &Web, token: &str, life: Duration) -> String {
    let (name, seconds) = (web.cookie_name(), life.as_secs());
    let secure = if web.cookie_secure { "; Secure" } else { "" };
    format!("{name}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}")
}
