//! `POST /api/users`: sign up.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::Username;
use crate::http::Web;
use crate::http::address::{ClientAddress, rate_limit_key};
use crate::http::body::JsonBody;
use crate::http::extract::SameSite;
use crate::http::problem::{Problem, ProblemBody, ProblemType};
use crate::http::rates::AddressRateLimit;
use crate::session::{Role, password};
use crate::store::mysql::users;

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

/// A new account.
#[derive(Serialize, ToSchema)]
pub struct UserBody {
    user_id: i64,
}

/// Sign up.
#[utoipa::path(
    post,
    path = "/api/users",
    tag = "everyone",
    request_body = CredentialsBody,
    responses(
        (status = 201, description = "The new account", body = UserBody),
        (status = "4XX", description = "The user name is taken, or the user name or the password is invalid", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "Try again", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub async fn create(
    State(web): State<Web>,
    _: AddressRateLimit,
    _: SameSite,
    ClientAddress(address): ClientAddress,
    JsonBody(body): JsonBody<CredentialsBody>,
) -> Result<(StatusCode, Json<UserBody>), Problem> {
    let username = Username::parse(&body.username).ok_or(ProblemType::InvalidUsername)?;
    if !password::is_acceptable(&body.password) {
        return Err(ProblemType::InvalidPassword.into());
    }
    let place = web.door.enter(rate_limit_key(address)).await?;
    let hash = place.compute(move || password::hash(&body.password)).await;
    let hash = hash.flatten().ok_or(ProblemType::Internal)?;
    let now = web.clock.now();
    let new = users::NewAccount {
        username: &username,
        password_hash: &hash,
        role: Role::Buyer.word(),
        demo: false,
    };
    match web.change(users::create(&web.pool, &new, now)).await? {
        Some(user) => Ok((StatusCode::CREATED, Json(UserBody { user_id: user.get() }))),
        None => Err(ProblemType::UsernameTaken.into()),
    }
}
