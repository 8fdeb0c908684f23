//! `/api/session` and `/api/sessions`: how to sign in, sign in, sign out, and change the password.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::SET_COOKIE;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Deserializer, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::account::Accounts;
use crate::http::problems;
use extension::ports::{IDENTITY_TOKEN_BYTES_MAX, IdentityProvider};
use shop_domain::Clock;
use web::address::{ClientAddress, rate_limit_key};
use web::body::JsonBody;
use web::extract::{AccountHolder, SameSite, TokenHolder};
use web::problem::Problem;
use web::rates::AddressRateLimit;
use web::session::{Session, SessionCookie};

/// The longest body with a token of the identity provider, in bytes: the token, and room for a name and a password.
pub(super) const TOKEN_BODY_BYTES: usize = IDENTITY_TOKEN_BYTES_MAX + (2 << 10);

/// A user name and a password.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CredentialsBody {
    /// 1 to 32 visible letters, digits, `.`, `_` and `-` of one script.
    #[schema(min_length = 1, max_length = 32)]
    pub username: String,
    /// 8 characters to 256 bytes.
    #[schema(format = Password, min_length = 8, max_length = 256)]
    pub password: String,
}

/// The ways to sign in.
#[derive(Serialize, ToSchema)]
pub struct MethodsBody {
    /// Whether accounts with passwords can sign in and sign up.
    passwords: bool,
    /// The identity provider, if browsers can sign in by it.
    provider: Option<ProviderBody>,
}

/// The identity provider.
#[derive(Serialize, ToSchema)]
pub struct ProviderBody {
    /// Its name, for a button.
    name: String,
    /// Where the sign-in starts; `return` is the path to go to afterwards.
    start: &'static str,
}

/// List the ways to sign in.
#[utoipa::path(get, path = "/api/session/methods", tag = "everyone",
    responses((status = 200, description = "The ways to sign in", body = MethodsBody)))]
pub async fn methods(
    State(accounts): State<Accounts>,
    State(identity): State<Option<Arc<dyn IdentityProvider>>>,
) -> Json<MethodsBody> {
    let name = identity.as_ref().and_then(|identity| identity.name_for_browsers());
    let provider =
        name.map(|name| ProviderBody { name: name.to_owned(), start: "/api/session/provider" });
    Json(MethodsBody { passwords: accounts.own_accounts(), provider })
}

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

/// A token of the identity provider.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct IdentityTokenBody {
    /// A JSON Web Token for this service, signed as the setting `identity.algorithms` says.
    #[schema(min_length = 1, max_length = 32768)]
    pub token: String,
}

/// Who signs in: a name and a password, or a token of the identity provider. The document shows the
/// fields of [`SignInFields`] in this way.
#[derive(ToSchema)]
#[schema(as = SignInBody)]
#[serde(untagged)]
pub enum SignInBody {
    /// An account of ours.
    Credentials(CredentialsBody),
    /// An account of the identity provider.
    Token(IdentityTokenBody),
}

/// The fields of either body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignInFields {
    #[serde(default, deserialize_with = "text")]
    username: Option<String>,
    #[serde(default, deserialize_with = "text")]
    password: Option<String>,
    #[serde(default, deserialize_with = "text")]
    token: Option<String>,
}

/// Reads a field that may be left out, but not be `null`.
pub(super) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    String::deserialize(deserializer).map(Some)
}

/// Sign in, with a password or with a token of the identity provider.
#[utoipa::path(post, path = "/api/session", tag = "everyone", request_body = SignInBody,
    responses((status = 200, description = "A token, also as an HttpOnly cookie", body = SessionBody)))]
#[expect(clippy::too_many_arguments, reason = "each argument is an extractor")]
pub async fn create(
    State(accounts): State<Accounts>,
    State(identity): State<Option<Arc<dyn IdentityProvider>>>,
    State(clock): State<Clock>,
    State(cookie): State<SessionCookie>,
    _: AddressRateLimit,
    _: SameSite,
    ClientAddress(address): ClientAddress,
    JsonBody(body): JsonBody<SignInFields, TOKEN_BODY_BYTES>,
) -> Result<Response, Problem> {
    let session = match (body.username, body.password, body.token) {
        (None, None, Some(token)) => {
            let identity = identity.ok_or(&problems::IDENTITY_OFF)?;
            identity.sign_in_by_token(&token).await?
        }
        (Some(username), Some(password), None) => {
            accounts.sign_in(&username, password, rate_limit_key(address)).await?
        }
        (Some(_), None, None) => {
            return Err(problems::MISSING_FIELD.detail("missing field `password`"));
        }
        (None, _, None) => {
            return Err(problems::MISSING_FIELD.detail("missing field `username`"));
        }
        (_, _, Some(_)) => {
            return Err(problems::UNKNOWN_FIELD.detail("Send a token, or a name and a password."));
        }
    };
    Ok(answer(session, &clock, cookie))
}

/// Whose session it is.
#[derive(Serialize, ToSchema)]
pub struct WhoBody {
    user_id: i64,
    /// The name on pages; `null` for a user without an account, as in load tests.
    username: Option<String>,
    /// `buyer`, `operator` or `admin`.
    role: &'static str,
    #[serde(with = "time::serde::rfc3339")]
    expires_at: OffsetDateTime,
}

/// Say whose session it is.
#[utoipa::path(get, path = "/api/session", tag = "buyer",
    responses((status = 200, description = "The user", body = WhoBody)))]
pub async fn find(
    State(accounts): State<Accounts>,
    holder: AccountHolder,
) -> Result<Json<WhoBody>, Problem> {
    let AccountHolder { user, role, claims } = holder;
    let username = accounts.name_of(user).await?;
    let expires_at = claims.expires_at;
    Ok(Json(WhoBody { user_id: user.get(), username, role: role.as_str(), expires_at }))
}

/// The answer with a new session, and its cookie.
fn answer(session: Session, clock: &Clock, cookie: SessionCookie) -> Response {
    let cookie = cookie.set_until(&session.token, session.expires_at, clock.now());
    let Session { token, user, role, expires_at } = session;
    let body = SessionBody { token, user_id: user.get(), role: role.as_str(), expires_at };
    ([(SET_COOKIE, cookie)], Json(body)).into_response()
}

/// Sign out: the token becomes invalid, of a user or of a shop, on other instances after two seconds at most.
#[utoipa::path(delete, path = "/api/session", tag = "buyer",
    responses((status = 204, description = "Signed out")))]
pub async fn end(
    State(accounts): State<Accounts>,
    State(cookie): State<SessionCookie>,
    TokenHolder(claims): TokenHolder,
) -> Result<Response, Problem> {
    accounts.sign_out(&claims).await?;
    Ok(forget(cookie))
}

/// Sign out everywhere: all tokens of the user become invalid, on other instances after two seconds
/// at most.
#[utoipa::path(delete, path = "/api/sessions", tag = "buyer",
    responses((status = 204, description = "Signed out everywhere")))]
pub async fn end_all(
    State(accounts): State<Accounts>,
    State(cookie): State<SessionCookie>,
    holder: AccountHolder,
) -> Result<Response, Problem> {
    accounts.sign_out_everywhere(holder.user).await?;
    Ok(forget(cookie))
}

/// The answer after which the browser has no session any more.
pub(super) fn forget(cookie: SessionCookie) -> Response {
    (StatusCode::NO_CONTENT, [(SET_COOKIE, cookie.set("", Duration::ZERO))]).into_response()
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
#[utoipa::path(put, path = "/api/session/password", tag = "buyer", request_body = PasswordBody,
    responses((status = 200, description = "A new token, also as an HttpOnly cookie", body = SessionBody)))]
pub async fn change_password(
    State(accounts): State<Accounts>,
    State(clock): State<Clock>,
    State(cookie): State<SessionCookie>,
    _: AddressRateLimit,
    holder: AccountHolder,
    ClientAddress(address): ClientAddress,
    JsonBody(body): JsonBody<PasswordBody>,
) -> Result<Response, Problem> {
    let PasswordBody { current_password, new_password } = body;
    let address = rate_limit_key(address);
    let changed = accounts.change_password(holder.user, current_password, new_password, address);
    Ok(answer(changed.await?, &clock, cookie))
}
