//! `/api/session`: sign in and out.

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
use crate::domain::username;
use crate::http::Web;
use crate::http::address::{ClientAddress, household};
use crate::http::body::JsonBody;
use crate::http::extract::{Buyer, SameSite};
use crate::http::problem::{Problem, ProblemBody};
use crate::http::rates::Costly;
use crate::session::{Role, password};
use crate::store::mysql::users;

/// A session.
#[derive(Serialize, ToSchema)]
pub struct SessionBody {
    /// Send it as `Authorization: Bearer`; browsers get it as a cookie as well.
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
    _: Costly,
    _: SameSite,
    ClientAddress(address): ClientAddress,
    JsonBody(body): JsonBody<CredentialsBody>,
) -> Result<Response, Problem> {
    let wrong = || {
        let detail = "The name or the password is wrong.";
        Problem::new(401, "invalid_credentials", "Not signed in", detail)
    };
    let folded = username::fold(&body.username).ok_or_else(wrong)?;
    if body.password.len() > password::PASSWORD_BYTES_MAX {
        return Err(wrong());
    }
    let address = household(address);
    // The ledger is asked by those alone who have a place: a crowd of guesses does not reach it.
    let place = web.door.enter(address).await?;
    let account = web.ask(users::find(&web.pool, &folded)).await?;
    let tried = web.door.count(&folded, address).await?;
    let hash = account.as_ref().map(|account| account.password_hash.clone());
    // The same cost whether anybody has that name.
    let verified = place.compute(move || password::verify(&body.password, hash.as_deref())).await;
    let right = verified.ok_or_else(Problem::internal)?;
    let user = account.as_ref().map(|account| account.id.get());
    let allowed = |account: &users::Account| right && (!account.demo || web.demo_accounts);
    let Some(account) = account.filter(allowed) else {
        tried.log_failure(user);
        return Err(wrong());
    };
    web.door.forgive(&tried).await;
    let role = Role::parse(&account.role).unwrap_or(Role::Buyer);
    let expires_at = web.clock.now() + web.token_life;
    let token = web.tokens.sign(account.id, role, expires_at);
    let cookie = set_cookie(&web, &token, web.token_life);
    let user_id = account.id.get();
    let body = SessionBody { token, user_id, role: role.as_str(), expires_at };
    Ok(([(SET_COOKIE, cookie)], Json(body)).into_response())
}

/// Sign out: the token is not taken any more, on other instances after two seconds at most.
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
    web.change(web.revocations.revoke(&claims.token_id, claims.expires_at)).await?;
    let cookie = set_cookie(&web, "", Duration::ZERO);
    Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, cookie)]).into_response())
}

fn set_cookie(web: &Web, token: &str, life: Duration) -> String {
    let (name, seconds) = (web.cookie_name(), life.as_secs());
    let secure = if web.cookie_secure { "; Secure" } else { "" };
    format!("{name}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}")
}
