//! `/api/session/provider` and `/api/session/callback`: sign-in by the identity provider, in a browser.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::SET_COOKIE;
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};

use crate::client::Client;
use crate::problems;
use crate::sign_in::{ProviderAnswer, SIGN_IN_SECONDS_MAX};
use shop_domain::Clock;
use web::extract::{QueryPairs, SameSite, cookie};
use web::problem::Problem;
use web::rates::AddressRateLimit;
use web::session::SessionCookie;

/// Start a sign-in by the identity provider; for browsers.
#[utoipa::path(get, path = "/api/session/provider", tag = "everyone",
    params(("return" = Option<String>, Query, description = "The path of this site to go to afterwards")),
    responses((status = 303, description = "The page of the provider")))]
pub async fn start(
    State(client): State<Option<Arc<Client>>>,
    State(session_cookie): State<SessionCookie>,
    _: AddressRateLimit,
    // It sets a cookie, so no page elsewhere may begin a sign-in in this browser.
    _: SameSite,
    QueryPairs(pairs): QueryPairs,
) -> Result<Response, Problem> {
    let path = match pairs.as_slice() {
        [] => "/",
        [(name, path)] if name == "return" => path,
        _ => return Err(problems::INVALID_QUERY_PARAMETER.problem()),
    };
    let client = client.ok_or(&problems::IDENTITY_OFF)?;
    let started = match client.start(path).await {
        Ok(started) => started,
        // A browser is here, so the answer is a page.
        Err(problem) if problem.status().is_server_error() => return Ok(page(&problem, path)),
        Err(problem) => return Err(problem),
    };
    let life = Duration::from_secs(SIGN_IN_SECONDS_MAX.into());
    let kept = session_cookie.set_sign_in(&started.cookie, life);
    Ok(([(SET_COOKIE, kept)], Redirect::to(&started.location)).into_response())
}

/// End a sign-in by the identity provider, which sends the browser here.
#[utoipa::path(get, path = "/api/session/callback", tag = "everyone", params(
    ("code" = Option<String>, Query, description = "The provider's code"),
    ("state" = Option<String>, Query, description = "The state of the start"),
    ("error" = Option<String>, Query, description = "Why the provider refuses"),
), responses((status = 303, description = "A page of ours, with a session if the sign-in succeeded")))]
pub async fn finish(
    State(client): State<Option<Arc<Client>>>,
    State(clock): State<Clock>,
    State(session_cookie): State<SessionCookie>,
    _: AddressRateLimit,
    headers: HeaderMap,
    QueryPairs(pairs): QueryPairs,
) -> Response {
    let mut returned = ProviderAnswer::default();
    for (name, value) in pairs {
        match name.as_str() {
            "code" => returned.code = value,
            "state" => returned.state = value,
            "iss" => returned.issuer = Some(value),
            "error" => returned.error = Some(value),
            // Providers add parameters of their own, such as `session_state`.
            _ => {}
        }
    }
    let kept = cookie(&headers, session_cookie.sign_in_name()).unwrap_or_default();
    let finished = match client {
        Some(client) => client.finish(&kept, &returned).await,
        None => Err(problems::IDENTITY_OFF.problem()),
    };
    // A sign-in ends once, well or not.
    let forget = session_cookie.set_sign_in("", Duration::ZERO);
    match finished {
        Ok((session, path)) => {
            let set = session_cookie.set_until(&session.token, session.expires_at, clock.now());
            let cookies = AppendHeaders([(SET_COOKIE, forget), (SET_COOKIE, set)]);
            (cookies, Redirect::to(&address(&[("done", "1"), ("return", &path)]))).into_response()
        }
        Err(problem) => {
            (AppendHeaders([(SET_COOKIE, forget)]), page(&problem, "/")).into_response()
        }
    }
}

/// Goes to the page of sign-in, which says what went wrong.
fn page(problem: &Problem, path: &str) -> Response {
    Redirect::to(&address(&[("problem", problem.code()), ("return", path)])).into_response()
}

/// The address of the page of sign-in with a query.
fn address(pairs: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(pairs);
    format!("/signin.html?{}", query.finish())
}
