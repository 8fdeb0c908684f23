//! The login of a client: a password, and the token that a cluster gives for it.

use std::sync::Mutex;

use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Code, Status};

use super::api::{AuthenticateRequest, AuthenticateResponse};
use crate::threads::locked;

/// What etcd says of a token that was made before its users changed.
const OLD_TOKEN: &str = "auth store is old";

/// A user and the password. A token is asked for when there is none; one that has expired is dropped
/// at the first refusal, and the next try of the lock gets another one.
pub(super) struct Login {
    user: String,
    password: String,
    token: Mutex<Option<MetadataValue<Ascii>>>,
}

impl Login {
    pub(super) fn new(user: &str, password: &str) -> Self {
        Self { user: user.to_owned(), password: password.to_owned(), token: Mutex::default() }
    }

    /// The present token.
    pub(super) fn token(&self) -> Option<MetadataValue<Ascii>> {
        locked(&self.token).clone()
    }

    pub(super) fn question(&self) -> AuthenticateRequest {
        AuthenticateRequest { name: self.user.clone(), password: self.password.clone() }
    }

    /// Keeps the token of an accepted login.
    pub(super) fn accepted(
        &self,
        answer: AuthenticateResponse,
    ) -> Result<MetadataValue<Ascii>, Status> {
        let token = MetadataValue::try_from(answer.token);
        let mut token = token.map_err(|_| Status::internal("the token is unreadable"))?;
        token.set_sensitive(true);
        *locked(&self.token) = Some(token.clone());
        Ok(token)
    }

    /// Drops the token if a member has refused it.
    pub(super) fn note(&self, status: &Status) {
        if status.code() == Code::Unauthenticated || status.message().contains(OLD_TOKEN) {
            *locked(&self.token) = None;
        }
    }
}
