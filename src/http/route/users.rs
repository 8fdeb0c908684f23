//! `POST /api/users`: sign up.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::Username;
use crate::http::Web;
use crate::http::address::{ClientAddress, household};
use crate::http::body::JsonBody;
use crate::http::extract::SameSite;
use crate::http::problem::{Problem, ProblemBody};
use crate::http::rates::Costly;
use crate::session::Role;
use crate::session::password::{self, PASSWORD_BYTES_MAX, PASSWORD_LENGTH_MIN};
use crate::store::mysql::users;

/// A name and a password.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CredentialsBody {
    /// 1 to 32 letters, digits, `.`, `_` and `-` of one script, all of which can be seen.
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
        (status = "4XX", description = "The name is taken, or one of the two is not acceptable", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "Try again", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub async fn create(
    State(web): State<Web>,
    _: Costly,
    _: SameSite,
    ClientAddress(address): ClientAddress,
    JsonBody(body): JsonBody<CredentialsBody>,
) -> Result<(StatusCode, Json<UserBody>), Problem> {
    let username = Username::parse(&body.username).ok_or_else(|| {
        let detail = format!(
            "A name is 1 to {} letters, digits, '.', '_' and '-' of one script.",
            Username::LENGTH_MAX
        );
        Problem::new(422, "invalid_username", "Not a name", detail)
    })?;
    if !password::is_acceptable(&body.password) {
        let detail = format!(
            "A password has at least {PASSWORD_LENGTH_MIN} characters and at most {PASSWORD_BYTES_MAX} bytes."
        );
        return Err(Problem::new(422, "invalid_password", "Not a password", detail));
    }
    let place = web.door.enter(household(address)).await?;
    let hash = place.compute(move || password::hash(&body.password)).await;
    let hash = hash.flatten().ok_or_else(Problem::internal)?;
    let now = web.clock.now();
    let new = users::NewAccount {
        username: &username,
        password_hash: &hash,
        role: Role::Buyer.as_str(),
        demo: false,
    };
    match web.change(users::create(&web.pool, &new, now)).await? {
        Some(user) => Ok((StatusCode::CREATED, Json(UserBody { user_id: user.get() }))),
        None => Err(Problem::new(409, "username_taken", "Name taken", "Somebody has that name.")),
    }
}
