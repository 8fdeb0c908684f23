//! `/api/admin/limit-groups`: groups of items that share a limit.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::fields::limit;
use super::texts;
use crate::catalog::Catalog;
use extension::actor_of;
use shop_domain::LimitGroup;
use web::body::{Integer, JsonBody};
use web::extract::Operator;
use web::problem::Problem;

/// A group of items of which one buyer may have a number of units together.
#[derive(Serialize, ToSchema)]
pub struct LimitGroupBody {
    id: i64,
    name: String,
    /// Units of all items of the group together that one buyer may have.
    per_buyer_limit: u32,
}

impl From<&LimitGroup> for LimitGroupBody {
    fn from(group: &LimitGroup) -> Self {
        let LimitGroup { id, name, per_buyer_limit } = group;
        Self { id: id.get(), name: name.clone(), per_buyer_limit: *per_buyer_limit }
    }
}

/// The groups.
#[derive(Serialize, ToSchema)]
pub struct LimitGroupsBody {
    groups: Vec<LimitGroupBody>,
}

/// A new group.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateLimitGroupBody {
    name: String,
    /// Units of all items of the group together that one buyer may have. It cannot be changed.
    #[serde(deserialize_with = "Integer::deserialize")]
    #[schema(value_type = u32, minimum = 1)]
    per_buyer_limit: Integer,
}

/// List the groups of items that share a limit.
#[utoipa::path(get, path = "/api/admin/limit-groups", tag = "operator",
    responses((status = 200, description = "The groups, oldest first", body = LimitGroupsBody)))]
pub async fn list(
    State(catalog): State<Catalog>,
    _: Operator,
) -> Result<Json<LimitGroupsBody>, Problem> {
    let groups = catalog.limit_groups().await?;
    Ok(Json(LimitGroupsBody { groups: groups.iter().map(LimitGroupBody::from).collect() }))
}

/// Create a group of items that share a limit. `limit_group_id` of an item puts the item into it.
#[utoipa::path(post, path = "/api/admin/limit-groups", tag = "operator",
    request_body = CreateLimitGroupBody,
    responses((status = 201, description = "The group", body = LimitGroupBody)))]
pub async fn create(
    State(catalog): State<Catalog>,
    operator: Operator,
    JsonBody(body): JsonBody<CreateLimitGroupBody>,
) -> Result<(StatusCode, Json<LimitGroupBody>), Problem> {
    let name = texts::name(&body.name)?;
    let per_buyer_limit = limit(body.per_buyer_limit, None)?;
    let created = catalog.create_limit_group(&name, per_buyer_limit, &actor_of(&operator)).await?;
    Ok((StatusCode::CREATED, Json((&created).into())))
}
