//! `POST /api/users`: sign up.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::account::Accounts;
use crate::http::address::{ClientAddress, rate_limit_key};
use crate::http::body::JsonBody;
use crate::http::document::TryAgain;
use crate::http::extract::SameSite;
use crate::http::problem::Problem;
use crate::http::rates::AddressRateLimit;

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
#[utoipa::path(post, path = "/api/users", tag = "everyone", request_body = CredentialsBody, responses(
    (status = 201, description = "The new account", body = UserBody),
    (status = "4XX", description = "The user name is taken, or the user name or the password is invalid"), TryAgain,
))]
pub async fn create(
    State(accounts): State<Accounts>,
    _: AddressRateLimit,
    _: SameSite,
    ClientAddress(address): ClientAddress,
    JsonBody(body): JsonBody<CredentialsBody>,
) -> Result<(StatusCode, Json<UserBody>), Problem> {
    let signed_up = accounts.sign_up(&body.username, body.password, rate_limit_key(address)).await;
    let user = signed_up?;
    Ok((StatusCode::CREATED, Json(UserBody { user_id: user.get() })))
}
