//! What handlers ask of a request: who it is, which item or order, which parameters.

use std::borrow::Cow;

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRef, FromRequestParts, OptionalFromRequestParts, Path};
use axum::http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, Uri};

use super::Web;
use super::problem::Problem;
use crate::account::{Claims, Role, TokenError};
use crate::domain::{ItemId, OrderId, RequestKey};

/// Somebody with a valid token.
#[derive(Clone, Debug)]
pub struct Buyer(pub Claims);

/// Somebody with a valid token of an operator.
#[derive(Clone, Debug)]
pub struct Admin(pub Claims);

impl<S> FromRequestParts<S> for Buyer
where
    S: Send + Sync,
    Web: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let web = Web::from_ref(state);
        let Some(token) = token_of(parts, &web)? else {
            let detail = "Sign in, or send Authorization: Bearer.";
            return Err(Problem::new(401, "unauthenticated", "Who are you?", detail));
        };
        let claims = web.tokens.read(token, web.clock.now()).map_err(|error| match error {
            TokenError::Invalid => invalid_token(),
            TokenError::Expired => {
                Problem::new(401, "token_expired", "Session over", "Sign in again.")
            }
        })?;
        if web.revocations.contains(&claims.token_id) {
            return Err(invalid_token());
        }
        // Nobody knows yet who has signed out.
        if !web.revocations.was_read() {
            return Err(Problem::dependency("mysql"));
        }
        if claims.role != Role::Admin {
            web.rates.user(claims.user).inspect_err(|_| web.metrics.rate_limited("user"))?;
        }
        Ok(Self(claims))
    }
}

impl<S> OptionalFromRequestParts<S> for Buyer
where
    S: Send + Sync,
    Web: FromRef<S>,
{
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &S,
    ) -> Result<Option<Self>, Self::Rejection> {
        Ok(<Self as FromRequestParts<S>>::from_request_parts(parts, state).await.ok())
    }
}

impl<S> FromRequestParts<S> for Admin
where
    S: Send + Sync,
    Web: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Buyer(claims) =
            <Buyer as FromRequestParts<S>>::from_request_parts(parts, state).await?;
        if claims.role == Role::Admin {
            Ok(Self(claims))
        } else {
            Err(Problem::new(403, "forbidden", "Not allowed", "This is for operators."))
        }
    }
}

fn invalid_token() -> Problem {
    Problem::new(
        401,
        "invalid_token",
        "Invalid token",
        "The token is not valid here; sign in again.",
    )
}

/// The token of a request: a header beats the cookie. A cookie is sent by the browser on behalf of
/// any page, so with it a change must come from our own pages.
fn token_of<'a>(parts: &'a Parts, web: &Web) -> Result<Option<&'a str>, Problem> {
    if let Some(value) = parts.headers.get(AUTHORIZATION) {
        let value = value.to_str().map_err(|_| invalid_token())?;
        let token =
            value.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        return token.map(|(_, token)| Some(token.trim())).ok_or_else(invalid_token);
    }
    let token = cookie(&parts.headers, web.cookie_name());
    if token.is_some() {
        refuse_cross_site(&parts.method, &parts.uri, &parts.headers)?;
    }
    Ok(token)
}

/// A request that no other site's page has asked for.
#[derive(Clone, Copy, Debug)]
pub struct SameSite;

impl<S: Send + Sync> FromRequestParts<S> for SameSite {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        refuse_cross_site(&parts.method, &parts.uri, &parts.headers).map(|()| Self)
    }
}

/// Refuses a change that another site's page asked for. Our own name is in `Host`, or, in HTTP/2, in
/// the address of the request (`:authority`). A page without a name has the origin `null`: not ours.
///
/// # Errors
/// 403 `cross_site_request`.
pub fn refuse_cross_site(method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    if method.is_safe() {
        return Ok(());
    }
    let our_name = match headers.get(HOST) {
        Some(host) => host.to_str().ok(),
        None => uri.authority().map(Authority::as_str),
    };
    let is_ours = |origin: &HeaderValue| {
        let name = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
        let names = name.map(|(_, name)| name).zip(our_name);
        names.is_some_and(|(theirs, ours)| theirs.eq_ignore_ascii_case(ours))
    };
    let by_browser =
        headers.get("sec-fetch-site").map(|site| site == "same-origin" || site == "none");
    let ours = by_browser.unwrap_or_else(|| headers.get(ORIGIN).is_none_or(is_ours));
    if ours {
        return Ok(());
    }
    let detail = "Another site's page asked for this.";
    Err(Problem::new(403, "cross_site_request", "Not from our pages", detail))
}

/// The value of a cookie.
#[must_use]
pub fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

/// An id in the path, by the parameter's name.
macro_rules! path_id {
    ($(#[$doc:meta])* $name:ident, $id:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name(pub $id);

        impl<S: Send + Sync> FromRequestParts<S> for $name {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
                let path: Result<Path<String>, PathRejection> =
                    <Path<String> as FromRequestParts<S>>::from_request_parts(parts, state).await;
                path.ok().and_then(|Path(text)| <$id>::parse(&text)).map(Self).ok_or_else(bad_path)
            }
        }
    };
}

path_id! {
    /// The item in the path.
    ItemPath, ItemId
}

path_id! {
    /// The order in the path.
    OrderPath, OrderId
}

/// 400 for a path that cannot name anything.
#[must_use]
pub fn bad_path() -> Problem {
    let detail = "An id in the path is not one.";
    Problem::new(400, "invalid_path_parameter", "Not an id", detail)
}

/// 400 for a parameter of the query.
#[must_use]
pub fn bad_query(detail: impl Into<Cow<'static, str>>) -> Problem {
    Problem::new(400, "invalid_query_parameter", "Not a parameter", detail)
}

/// The parameters of the query, in order; their names are judged by the handler.
#[derive(Clone, Debug)]
pub struct QueryPairs(pub Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for QueryPairs {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        if parts.uri.query().is_none_or(str::is_empty) {
            return Ok(Self(Vec::new()));
        }
        let query =
            axum::extract::Query::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        query.map(|query| Self(query.0)).map_err(|_| bad_query("The query was not understood."))
    }
}

/// The `Idempotency-Key`, if the request has one.
#[derive(Clone, Debug)]
pub struct IdempotencyKey(pub Option<RequestKey>);

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let mut values = parts.headers.get_all("idempotency-key").iter();
        let Some(value) = values.next() else { return Ok(Self(None)) };
        let key = value.to_str().ok().and_then(RequestKey::parse);
        match (key, values.next()) {
            (Some(key), None) => Ok(Self(Some(key))),
            _ => {
                let detail = "Send one Idempotency-Key of 1 to 64 printable characters.";
                Err(Problem::new(400, "idempotency_key_invalid", "Not a key", detail))
            }
        }
    }
}

/// The ticket of a waiting room, if the request has one. What is no text is no ticket.
#[derive(Clone, Debug)]
pub struct PurchaseTicket(pub Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for PurchaseTicket {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let value = parts.headers.get("purchase-ticket");
        Ok(Self(value.map(|value| value.to_str().unwrap_or_default().to_owned())))
    }
}
