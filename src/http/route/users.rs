//! `/api/users`: sign up, and delete an account.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::session::{CredentialsBody, TOKEN_BODY_BYTES, forget, text};
use crate::account::Accounts;
use crate::http::problems;
use crate::waiting_list::WaitingLists;
use extension::actor_of;
use extension::ports::IdentityProvider;
use web::address::{ClientAddress, rate_limit_key};
use web::body::JsonBody;
use web::extract::{AccountHolder, Operator, SameSite, UserPath};
use web::problem::Problem;
use web::rates::AddressRateLimit;
use web::session::SessionCookie;
use web::token::Role;

/// A new account.
#[derive(Serialize, ToSchema)]
pub struct UserBody {
    user_id: i64,
}

/// Sign up.
#[utoipa::path(post, path = "/api/users", tag = "everyone", request_body = CredentialsBody,
    responses((status = 201, description = "The new account", body = UserBody)))]
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

/// Who asks for the deletion, proved once more: by the password, or by a token of the identity provider.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteAccountBody {
    /// The password of an account of ours.
    #[serde(default, deserialize_with = "text")]
    #[schema(value_type = Option<String>, format = Password, max_length = 256)]
    password: Option<String>,
    /// A token for this service that the identity provider has given to the same user.
    #[serde(default, deserialize_with = "text")]
    #[schema(value_type = Option<String>, max_length = 32768)]
    token: Option<String>,
}

/// Delete the account: its name, its password and its sessions go, waiting lists are left, and entries of open draws are
/// taken back. Orders stay without a name.
#[utoipa::path(delete, path = "/api/users/me", tag = "buyer", request_body = DeleteAccountBody,
    responses((status = 204, description = "Deleted; every token of the account is invalid")))]
#[expect(clippy::too_many_arguments, reason = "each argument is an extractor")]
pub async fn delete(
    State(accounts): State<Accounts>,
    State(identity): State<Option<Arc<dyn IdentityProvider>>>,
    State(lists): State<WaitingLists>,
    State(cookie): State<SessionCookie>,
    _: AddressRateLimit,
    holder: AccountHolder,
    ClientAddress(address): ClientAddress,
    JsonBody(body): JsonBody<DeleteAccountBody, TOKEN_BODY_BYTES>,
) -> Result<Response, Problem> {
    // The provider may give a role that the account does not have.
    if holder.role.may_operate() {
        return Err(problems::OPERATOR_ACCOUNT.problem());
    }
    let erased = match (body.password, body.token) {
        (Some(password), None) => {
            let address = rate_limit_key(address);
            accounts.delete_by_password(holder.user, password, address).await?
        }
        (None, Some(token)) => {
            let identity = identity.ok_or(&problems::IDENTITY_OFF)?;
            if identity.role_by_token(&token, holder.user).await?.may_operate() {
                return Err(problems::OPERATOR_ACCOUNT.problem());
            }
            accounts.erase(holder.user, None, None).await?
        }
        (None, None) => {
            return Err(problems::MISSING_FIELD.detail("missing field `password` or `token`"));
        }
        (Some(_), Some(_)) => {
            return Err(problems::UNKNOWN_FIELD.detail("Send a password or a token."));
        }
    };
    lists.publish_all(&erased.lines).await;
    Ok(forget(cookie))
}

/// Delete the account of a person who has asked for it: as an admin. A user without an account changes nothing.
#[utoipa::path(delete, path = "/api/admin/users/{id}", tag = "operator", params(UserPath),
    responses((status = 204, description = "Deleted; every token of the account is invalid")))]
pub async fn erase(
    State(accounts): State<Accounts>,
    State(lists): State<WaitingLists>,
    operator: Operator,
    UserPath(user): UserPath,
) -> Result<StatusCode, Problem> {
    if operator.role != Role::Admin {
        return Err(problems::FORBIDDEN.detail("Sign in as an admin."));
    }
    let actor = actor_of(&operator);
    let erased = accounts.erase(user, None, Some(&actor)).await?;
    lists.publish_all(&erased.lines).await;
    Ok(StatusCode::NO_CONTENT)
}
