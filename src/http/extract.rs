//! Extractors: who sends a request, for which item or order, with which parameters.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::IpAddr;

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, OptionalFromRequestParts, Path};
use axum::http::header::{HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, Uri};
use axum_extra::TypedHeader;
use axum_extra::extract::CookieJar;
use axum_extra::headers::Authorization;
use axum_extra::headers::authorization::Bearer;
use utoipa::IntoParams;

use super::Web;
use super::address::ClientAddress;
use super::problem::{Problem, ProblemType};
use crate::account::{Actor, Claims, GuestError, Holder, Role, TokenError};
use shop_domain::trace::{Span, SpanKind, TraceContext};
use shop_domain::{
    BuyerReference, Clock, EndpointId, ItemId, OrderId, ProductId, RequestKey, ShopId, UserId,
};
use shop_traces::Traces;

/// The header that names the guest for whom a shop's program acts.
const BUYER_REFERENCE: &str = "buyer-reference";

/// A user with a valid token, or the guest for whom a shop's program acts.
#[derive(Clone, Debug)]
pub struct Buyer {
    /// Who buys.
    pub user: UserId,
    /// The token, which may be that of a shop.
    pub claims: Claims,
}

/// Somebody with a valid token and a role that may run sales: operator or admin.
#[derive(Clone)]
pub struct Operator {
    pub user: UserId,
    pub role: Role,
    pub claims: Claims,
    pub address: IpAddr,
    clock: Clock,
}

impl FromRequestParts<Web> for Buyer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, web: &Web) -> Result<Self, Problem> {
        let claims = claims_of(parts, web).await?;
        let user = match claims.holder {
            Holder::Shop(shop) => guest_named(&parts.headers, shop, web).await?,
            // Otherwise a shop with the wrong token would buy for the owner of the token.
            Holder::User { .. } if parts.headers.contains_key(BUYER_REFERENCE) => {
                let detail = "Send a token of a shop with Buyer-Reference.";
                return Err(ProblemType::Forbidden.detail(detail));
            }
            Holder::User { id, .. } => id,
        };
        Ok(Self { user, claims })
    }
}

/// The claims of the request's token.
async fn claims_of(parts: &mut Parts, web: &Web) -> Result<Claims, Problem> {
    let token = token_of(parts, web).await?.ok_or(ProblemType::Unauthenticated)?;
    let claims = web.tokens.read(&token, web.clock.now()).map_err(|error| match error {
        TokenError::Invalid => ProblemType::InvalidToken,
        TokenError::Expired => ProblemType::TokenExpired,
    })?;
    if web.revocations.contains(&claims) {
        return Err(ProblemType::InvalidToken.into());
    }
    // The list of signed-out tokens is not read yet: this token may be on it.
    if !web.revocations.was_read() {
        return Err(Problem::dependency("mysql"));
    }
    match web.revocations.has_begun(&claims).await {
        Ok(true) => {}
        Ok(false) => return Err(ProblemType::InvalidToken.into()),
        Err(_) => return Err(Problem::dependency("mysql")),
    }
    if let Holder::User { id, role: Role::Buyer } = claims.holder {
        web.rates.user(id).inspect_err(|_| web.metrics.rate_limited("user"))?;
    }
    Ok(claims)
}

/// The guest for whom a shop's program sends a request.
async fn guest_named(headers: &HeaderMap, shop: ShopId, web: &Web) -> Result<UserId, Problem> {
    let mut values = headers.get_all(BUYER_REFERENCE).iter();
    let reference = values.next().filter(|_| values.next().is_none());
    let reference = reference_of(reference.and_then(|value| value.to_str().ok()).unwrap_or(""))?;
    let guests = web.accounts.guests(shop, &BTreeSet::from([reference.clone()])).await?;
    Ok(guests.buyer(&reference)?)
}

/// Reads a shop's reference of a guest.
///
/// # Errors
/// 400 `buyer_reference_invalid`.
pub fn reference_of(text: &str) -> Result<BuyerReference, Problem> {
    BuyerReference::parse(text).ok_or_else(|| ProblemType::InvalidBuyerReference.into())
}

impl From<GuestError> for Problem {
    fn from(error: GuestError) -> Self {
        match error {
            GuestError::NoShop => ProblemType::InvalidToken.into(),
            GuestError::Ledger(error) => error.into(),
        }
    }
}

/// Somebody with a valid token, of a user or of a shop, who ends this token.
#[derive(Clone, Debug)]
pub struct TokenHolder(pub Claims);

impl FromRequestParts<Web> for TokenHolder {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, web: &Web) -> Result<Self, Problem> {
        claims_of(parts, web).await.map(Self)
    }
}

/// A user with a valid token: no program of a shop.
#[derive(Clone, Debug)]
pub struct AccountHolder {
    pub user: UserId,
    pub role: Role,
    pub claims: Claims,
}

impl FromRequestParts<Web> for AccountHolder {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, web: &Web) -> Result<Self, Problem> {
        let claims = claims_of(parts, web).await?;
        match claims.holder {
            Holder::User { id: user, role } => Ok(Self { user, role, claims }),
            Holder::Shop(_) => {
                let detail = "A token of a shop acts for guests, and has no account. \
                    `seckill shop rotate` ends all tokens of a shop.";
                Err(ProblemType::Forbidden.detail(detail))
            }
        }
    }
}

/// The program of another shop.
#[derive(Clone, Copy, Debug)]
pub struct Shop(pub ShopId);

impl FromRequestParts<Web> for Shop {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, web: &Web) -> Result<Self, Problem> {
        match claims_of(parts, web).await?.holder {
            Holder::Shop(shop) => Ok(Self(shop)),
            Holder::User { .. } => Err(ProblemType::Forbidden.detail("Send a token of a shop.")),
        }
    }
}

impl OptionalFromRequestParts<Web> for Buyer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, web: &Web) -> Result<Option<Self>, Infallible> {
        Ok(<Self as FromRequestParts<Web>>::from_request_parts(parts, web).await.ok())
    }
}

impl FromRequestParts<Web> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, web: &Web) -> Result<Self, Problem> {
        let claims = claims_of(parts, web).await?;
        let Holder::User { id: user, role } = claims.holder else {
            return Err(ProblemType::Forbidden.into());
        };
        if !role.may_operate() {
            return Err(ProblemType::Forbidden.into());
        }
        let Ok(ClientAddress(address)) = ClientAddress::from_request_parts(parts, web).await;
        Ok(Self { user, role, claims, address, clock: web.clock.clone() })
    }
}

impl Operator {
    /// Who does something now, for the log of the operators' actions.
    #[must_use]
    pub fn actor(&self) -> Actor {
        Actor { user: self.user, address: Some(self.address), now: self.clock.now() }
    }
}

/// The token of a request: the `Authorization` header, or without one the session cookie. Browsers
/// send the cookie with the requests of any page, so a change by cookie must come from our pages.
async fn token_of(parts: &mut Parts, web: &Web) -> Result<Option<String>, Problem> {
    type BearerToken = TypedHeader<Authorization<Bearer>>;
    let header = <BearerToken as OptionalFromRequestParts<()>>::from_request_parts(parts, &());
    if let Some(TypedHeader(bearer)) = header.await.map_err(|_| ProblemType::InvalidToken)? {
        return Ok(Some(bearer.token().to_owned()));
    }
    let token = cookie(&parts.headers, web.session_cookie.name());
    if token.is_some() {
        refuse_cross_site(&parts.method, &parts.uri, &parts.headers)?;
    }
    Ok(token)
}

/// The trace that a request belongs to: its `traceparent` says which. One that cannot be read is left
/// out, as the standard says.
#[derive(Clone, Debug)]
pub struct RequestTrace {
    traces: Traces,
    parent: Option<TraceContext>,
}

impl RequestTrace {
    /// Begins the span of the request.
    #[must_use]
    pub fn begin(&self, name: &'static str) -> Span {
        self.traces.begin(name, SpanKind::Server, self.parent)
    }
}

impl FromRequestParts<Web> for RequestTrace {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, web: &Web) -> Result<Self, Infallible> {
        let mut values = parts.headers.get_all("traceparent").iter();
        let only = values.next().filter(|_| values.next().is_none());
        let parent = only.and_then(|value| TraceContext::parse(value.to_str().ok()?));
        Ok(Self { traces: web.traces.clone(), parent })
    }
}

/// A request that does not come from a page of another site, unless the setting `http.cors_origins`
/// names that site.
#[derive(Clone, Copy, Debug)]
pub struct SameSite;

impl FromRequestParts<Web> for SameSite {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, web: &Web) -> Result<Self, Problem> {
        // Browsers do not store a cookie of the answer for pages of another site.
        if web.cors.contain(&parts.headers) {
            return Ok(Self);
        }
        refuse_other_sites(&parts.uri, &parts.headers).map(|()| Self)
    }
}

/// Refuses a change that a page of another site asked for.
///
/// # Errors
/// 403 `cross_site_request`.
pub fn refuse_cross_site(method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    if method.is_safe() { Ok(()) } else { refuse_other_sites(uri, headers) }
}

/// Refuses a request that a page of another site asked for. Compares `Origin` with `Host` (HTTP/2:
/// `:authority`); `Origin: null` never matches.
fn refuse_other_sites(uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
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
    Err(ProblemType::CrossSiteRequest.into())
}

/// The value of the cookie `name`.
#[must_use]
pub fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    CookieJar::from_headers(headers).get(name).map(|cookie| cookie.value().to_owned())
}

/// Declares the ids in paths, and how the document describes them.
macro_rules! path_ids {
    ($($name:ident($id:ty, $($param:tt)*);)*) => {$(
        #[derive(Clone, Copy, Debug, IntoParams)]
        #[into_params(names("id"), parameter_in = Path)]
        pub struct $name(#[param($($param)*)] pub $id);

        impl<S: Send + Sync> FromRequestParts<S> for $name {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
                let path: Result<Path<String>, PathRejection> =
                    <Path<String> as FromRequestParts<S>>::from_request_parts(parts, state).await;
                path.ok().and_then(|Path(text)| <$id>::parse(&text)).map(Self).ok_or_else(|| ProblemType::InvalidPathParameter.into())
            }
        }
    )*};
}

path_ids! {
    ItemPath(ItemId, value_type = i64, minimum = 1);
    OrderPath(OrderId, value_type = uuid::Uuid);
    EndpointPath(EndpointId, value_type = i64, minimum = 1);
    ProductPath(ProductId, value_type = i64, minimum = 1);
    UserPath(UserId, value_type = i64, minimum = 1);
}

/// The parameters of the query, in order; the handler checks their names.
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
        query.map(|query| Self(query.0)).map_err(|_| {
            ProblemType::InvalidQueryParameter.detail("Send the query in UTF-8, percent-encoded.")
        })
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
            _ => Err(ProblemType::InvalidIdempotencyKey.into()),
        }
    }
}

/// The ticket of a waiting room, if the request has one; empty, and so invalid, if it is not text.
#[derive(Clone, Debug)]
pub struct PurchaseTicket(pub Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for PurchaseTicket {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let value = parts.headers.get("purchase-ticket");
        Ok(Self(value.map(|value| value.to_str().unwrap_or_default().to_owned())))
    }
}
