//! `GET /api/admin/actions`: the log of the actions of operators.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::value::RawValue;
use time::OffsetDateTime;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

use crate::account::{ACTION_NAMES, Accounts, Action};
use shop_domain::OrderId;
use web::extract::{Operator, QueryPairs};
use web::paging::Page;
use web::problem::Problem;
use web::token::Role;

/// An action of an operator.
#[derive(Serialize, ToSchema)]
pub struct ActionBody {
    id: String,
    /// The operator who did it.
    user_id: i64,
    #[schema(schema_with = action_schema)]
    action: String,
    /// The item that was created or edited.
    item_id: Option<i64>,
    /// The request as it was sent.
    #[schema(value_type = Object)]
    detail: Option<Box<RawValue>>,
    /// The client address of the request; `null` for an action of the service on behalf of the
    /// operator.
    address: Option<String>,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
}

/// Names all actions.
fn action_schema() -> Object {
    let names: Vec<_> = ACTION_NAMES.iter().map(|name| format!("`{name}`")).collect();
    let description = format!("One of {}.", names.join(", "));
    ObjectBuilder::new().schema_type(Type::String).description(Some(description)).build()
}

impl From<Action> for ActionBody {
    fn from(action: Action) -> Self {
        Self {
            id: action.id.to_string(),
            user_id: action.user.get(),
            action: action.action,
            item_id: action.item.map(shop_domain::ItemId::get),
            detail: RawValue::from_string(action.detail).ok(),
            address: action.address,
            created_at: action.created_at,
        }
    }
}

/// A page of the log.
#[derive(Serialize, ToSchema)]
pub struct ActionsBody {
    /// Newest first.
    actions: Vec<ActionBody>,
    /// Pass it as `before` to get the next page; `null` on the last one.
    next: Option<String>,
}

/// List the actions of operators: one's own, or with the role admin those of all.
#[utoipa::path(get, path = "/api/admin/actions", tag = "operator", params(
    ("limit" = Option<u32>, Query, description = "Actions of a page", minimum = 1, maximum = 200),
    ("before" = Option<uuid::Uuid>, Query, description = "The `next` of the page before"),
), responses((status = 200, description = "A page, newest first", body = ActionsBody)))]
pub async fn list(
    State(accounts): State<Accounts>,
    operator: Operator,
    QueryPairs(pairs): QueryPairs,
) -> Result<Json<ActionsBody>, Problem> {
    let page = Page::read(&pairs, "before", OrderId::parse)?;
    let operator = (operator.role != Role::Admin).then_some(operator.user);
    let listed = accounts.actions(operator, page.cursor, page.rows()).await?;
    let (actions, next) = page.cut(listed, |action| action.id.to_string());
    Ok(Json(ActionsBody { actions: actions.into_iter().map(ActionBody::from).collect(), next }))
}
