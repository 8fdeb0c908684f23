//! `/api/session`: sign in and out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use moka::sync::Cache;
use serde::Serialize;
use time::OffsetDateTime;
use tokio::sync::Semaphore;
use utoipa::ToSchema;

use super::users::CredentialsBody;
use crate::http::Web;
use crate::http::body::JsonBody;
use crate::http::extract::{Buyer, refuse_cross_site};
use crate::http::problem::{Problem, ProblemBody};
use crate::http::rates::Costly;
use crate::session::{Role, password};
use crate::store::mysql::users;

/// Failed sign-ins per name before it has to wait.
const FAILURES_MAX: u32 = 10;
/// How long it has to wait, counted from its first try.
const FAILURES_FORGOTTEN: Duration = Duration::from_secs(60);
/// Names whose failures are remembered.
const FAILURES_NAMES_MAX: u64 = 100_000;
/// Hashings that wait for a place; one more is answered 503.
const HASHING_WAITING_MAX: usize = 64;

/// Where passwords are hashed: bounded, so that sign-ins cannot take the processor from the sale,
/// and throttled by name.
#[derive(Clone)]
pub struct Door {
    places: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    failures: Cache<String, Arc<AtomicU32>>,
}

impl Door {
    /// A door that hashes `hashing_max` passwords at once.
    #[must_use]
    pub fn new(hashing_max: usize) -> Self {
        let failures = Cache::builder()
            .max_capacity(FAILURES_NAMES_MAX)
            .time_to_live(FAILURES_FORGOTTEN)
            .build();
        Self {
            places: Arc::new(Semaphore::new(hashing_max.max(1))),
            waiting: Arc::new(Semaphore::new(HASHING_WAITING_MAX + hashing_max.max(1))),
            failures,
        }
    }

    /// Hashes a password.
    ///
    /// # Errors
    /// When too many wait already.
    pub async fn hash(&self, password: String) -> Result<String, Problem> {
        self.compute(move || password::hash(&password)).await?.ok_or_else(Problem::internal)
    }

    /// Checks a password, at the same cost whether anybody has that name.
    async fn verify(&self, password: String, hash: Option<String>) -> Result<bool, Problem> {
        self.compute(move || password::verify(&password, hash.as_deref())).await
    }

    async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let busy = |_| {
            let detail = "Too many sign-ins at once; try again in a moment.";
            Problem::new(503, "overloaded", "Busy", detail).retry_after(1)
        };
        let _waiting = self.waiting.try_acquire().map_err(busy)?;
        let _place = self.places.acquire().await.map_err(|_| Problem::internal())?;
        tokio::task::spawn_blocking(work).await.map_err(|_| Problem::internal())
    }

    /// Counts a try with a name as failed before it is judged: of many at once none must slip
    /// through while the others are being hashed. [`Try::forgive`] takes it back.
    fn count_try(&self, name: &str) -> Result<Try, Problem> {
        let failures = self.failures.get_with(name.to_owned(), Arc::default);
        let counted = Try(failures);
        if counted.0.fetch_add(1, Ordering::Relaxed) < FAILURES_MAX {
            return Ok(counted);
        }
        counted.forgive();
        let detail = "Too many failed sign-ins with this name; wait a minute.";
        Err(Problem::new(429, "too_many_attempts", "Too many attempts", detail).retry_after(60))
    }
}

/// A try that counts as failed.
struct Try(Arc<AtomicU32>);

impl Try {
    /// It was none of the caller's fault.
    fn forgive(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

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
    method: Method,
    headers: HeaderMap,
    JsonBody(body): JsonBody<CredentialsBody>,
) -> Result<Response, Problem> {
    refuse_cross_site(&method, &headers)?;
    let wrong = || {
        let detail = "The name or the password is wrong.";
        Problem::new(401, "invalid_credentials", "Not signed in", detail)
    };
    let folded = password::fold_username(&body.username).ok_or_else(wrong)?;
    if body.password.len() > password::PASSWORD_BYTES_MAX {
        return Err(wrong());
    }
    let counted = web.door.count_try(&folded)?;
    let account = web.ask(users::find(&web.pool, &folded)).await;
    let account = account.inspect_err(|_| counted.forgive())?;
    let hash = account.as_ref().map(|account| account.password_hash.clone());
    let right = web.door.verify(body.password, hash).await.inspect_err(|_| counted.forgive())?;
    let allowed = |account: &users::Account| right && (!account.demo || web.demo_accounts);
    let account = account.filter(allowed).ok_or_else(wrong)?;
    counted.forgive();
    let role = Role::parse(&account.role).unwrap_or(Role::Buyer);
    let expires_at = web.clock.now() + web.token_life;
    let token = web.tokens.sign(account.id, role, expires_at);
    let cookie = set_cookie(&web, &token, web.token_life);
    let user_id = account.id.get();
    let body = SessionBody { token, user_id, role: role.word(), expires_at };
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test]
    async fn hashings_wait_in_a_line_with_an_end() {
        let door = Door::new(1);
        let (release, released) = mpsc::channel::<()>();
        let mut hashings = JoinSet::new();
        let first = door.clone();
        hashings.spawn(async move { first.compute(move || released.recv().is_ok()).await });
        for _ in 0..HASHING_WAITING_MAX {
            let next = door.clone();
            hashings.spawn(async move { next.compute(|| true).await });
        }
        // One task after the other on this thread: each is in the line before it waits.
        while door.waiting.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let refused = door.compute(|| ()).await.map_err(|problem| problem.into_response().status());
        assert_eq!(refused, Err(StatusCode::SERVICE_UNAVAILABLE));
        release.send(()).expect("somebody hashes");
        assert!(hashings.join_all().await.iter().all(Result::is_ok));
        assert!(door.compute(|| ()).await.is_ok(), "it has places again");
    }
}
