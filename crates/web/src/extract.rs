//! Extractors: who sends a request, for which item or order, with which parameters.

use std::convert::Infallible;
use std::net::IpAddr;

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRef, FromRequestParts, OptionalFromRequestParts, Path};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum_extra::TypedHeader;
use axum_extra::extract::CookieJar;
use axum_extra::headers::Authorization;
use axum_extra::headers::authorization::Bearer;
use time::OffsetDateTime;
use utoipa::IntoParams;

use crate::address::{ClientAddress, Proxies};
use crate::cross_site::{CorsOrigins, refuse_cross_site, refuse_other_sites};
use crate::problem::Problem;
use crate::problems;
use crate::session::Authenticator;
use crate::token::{Claims, Holder, Role};
use crate::too_long;
use shop_domain::{
    BuyerReference, EndpointId, ItemId, OrderId, ProductId, RequestKey, ShopId, UserId,
};

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
    /// When the request came.
    pub at: OffsetDateTime,
}

impl<S: Send + Sync> FromRequestParts<S> for Buyer
where
    Authenticator: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let authenticator = Authenticator::from_ref(state);
        let claims = claims_of(parts, &authenticator).await?;
        let user = match claims.holder {
            Holder::Shop(shop) => guest_named(&parts.headers, shop, &authenticator).await?,
            // Otherwise a shop with the wrong token would buy for the owner of the token.
            Holder::User { .. } if parts.headers.contains_key(BUYER_REFERENCE) => {
                let detail = "Send a token of a shop with Buyer-Reference.";
                return Err(problems::FORBIDDEN.detail(detail));
            }
            Holder::User { id, .. } => id,
        };
        Ok(Self { user, claims })
    }
}

/// The claims of the request's token.
async fn claims_of(parts: &mut Parts, authenticator: &Authenticator) -> Result<Claims, Problem> {
    let token = token_of(parts, authenticator).await?.ok_or(&problems::UNAUTHENTICATED)?;
    authenticator.claims(&token).await
}

/// The guest for whom a shop's program sends a request.
async fn guest_named(
    headers: &HeaderMap,
    shop: ShopId,
    authenticator: &Authenticator,
) -> Result<UserId, Problem> {
    let mut values = headers.get_all(BUYER_REFERENCE).iter();
    let reference = values.next().filter(|_| values.next().is_none());
    let reference = reference_of(reference.and_then(|value| value.to_str().ok()).unwrap_or(""))?;
    authenticator.guest(shop, reference).await
}

/// Reads a shop's reference of a guest.
///
/// # Errors
/// 400 `buyer_reference_invalid`.
pub fn reference_of(text: &str) -> Result<BuyerReference, Problem> {
    BuyerReference::parse(text).ok_or_else(|| match text.len() {
        length if length > BuyerReference::LENGTH_MAX => {
            let detail = too_long("Buyer-Reference", length, BuyerReference::LENGTH_MAX);
            problems::INVALID_BUYER_REFERENCE.detail(detail)
        }
        _ => problems::INVALID_BUYER_REFERENCE.problem(),
    })
}

/// Somebody with a valid token, of a user or of a shop, who ends this token.
#[derive(Clone, Debug)]
pub struct TokenHolder(pub Claims);

impl<S: Send + Sync> FromRequestParts<S> for TokenHolder
where
    Authenticator: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        claims_of(parts, &Authenticator::from_ref(state)).await.map(Self)
    }
}

/// A user with a valid token: no program of a shop.
#[derive(Clone, Debug)]
pub struct AccountHolder {
    pub user: UserId,
    pub role: Role,
    pub claims: Claims,
}

impl<S: Send + Sync> FromRequestParts<S> for AccountHolder
where
    Authenticator: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let claims = claims_of(parts, &Authenticator::from_ref(state)).await?;
        match claims.holder {
            Holder::User { id: user, role } => Ok(Self { user, role, claims }),
            Holder::Shop(_) => {
                let detail = "A token of a shop acts for guests, and has no account. \
                    `seckill shop rotate` ends all tokens of a shop.";
                Err(problems::FORBIDDEN.detail(detail))
            }
        }
    }
}

/// The program of another shop.
#[derive(Clone, Copy, Debug)]
pub struct Shop(pub ShopId);

impl<S: Send + Sync> FromRequestParts<S> for Shop
where
    Authenticator: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match claims_of(parts, &Authenticator::from_ref(state)).await?.holder {
            Holder::Shop(shop) => Ok(Self(shop)),
            Holder::User { .. } => Err(problems::FORBIDDEN.detail("Send a token of a shop.")),
        }
    }
}

impl<S: Send + Sync> OptionalFromRequestParts<S> for Buyer
where
    Authenticator: FromRef<S>,
{
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Option<Self>, Infallible> {
        Ok(<Self as FromRequestParts<S>>::from_request_parts(parts, state).await.ok())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Operator
where
    Authenticator: FromRef<S>,
    Proxies: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let claims = claims_of(parts, &Authenticator::from_ref(state)).await?;
        let Holder::User { id: user, role } = claims.holder else {
            return Err(problems::FORBIDDEN.problem());
        };
        if !role.may_operate() {
            return Err(problems::FORBIDDEN.problem());
        }
        let Ok(ClientAddress(address)) = ClientAddress::from_request_parts(parts, state).await;
        let at = Authenticator::from_ref(state).now();
        Ok(Self { user, role, claims, address, at })
    }
}

/// The token of a request: the `Authorization` header, or without one the session cookie. Browsers
/// send the cookie with the requests of any page, so a change by cookie must come from our pages.
async fn token_of(
    parts: &mut Parts,
    authenticator: &Authenticator,
) -> Result<Option<String>, Problem> {
    type BearerToken = TypedHeader<Authorization<Bearer>>;
    let header = <BearerToken as OptionalFromRequestParts<()>>::from_request_parts(parts, &());
    if let Some(TypedHeader(bearer)) = header.await.map_err(|_| &problems::INVALID_TOKEN)? {
        return Ok(Some(bearer.token().to_owned()));
    }
    let token = cookie(&parts.headers, authenticator.cookie_name());
    if token.is_some() {
        refuse_cross_site(&parts.method, &parts.uri, &parts.headers)?;
    }
    Ok(token)
}

/// A request that does not come from a page of another site, unless the setting `http.cors_origins`
/// names that site.
#[derive(Clone, Copy, Debug)]
pub struct SameSite;

impl<S: Send + Sync> FromRequestParts<S> for SameSite
where
    CorsOrigins: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        // Browsers do not store a cookie of the answer for pages of another site.
        if CorsOrigins::from_ref(state).contain(&parts.headers) {
            return Ok(Self);
        }
        refuse_other_sites(&parts.uri, &parts.headers).map(|()| Self)
    }
}

/// The value of the cookie `name`.
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
                path.ok().and_then(|Path(text)| <$id>::parse(&text)).map(Self).ok_or_else(|| problems::INVALID_PATH_PARAMETER.problem())
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
            problems::INVALID_QUERY_PARAMETER.detail("Send the query in UTF-8, percent-encoded.")
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
            (None, None) if value.len() > RequestKey::LENGTH_MAX => {
                let detail = too_long("Idempotency-Key", value.len(), RequestKey::LENGTH_MAX);
                Err(problems::INVALID_IDEMPOTENCY_KEY.detail(detail))
            }
            _ => Err(problems::INVALID_IDEMPOTENCY_KEY.problem()),
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
