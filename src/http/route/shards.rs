//! `GET /api/admin/shards`: the ledgers, and the moves of items between them.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::http::document::TryAgain;
use crate::http::extract::Operator;
use crate::http::problem::Problem;
use ledger::item_move::{ItemMove, LedgerView, Overview};

/// A ledger.
#[derive(Serialize, ToSchema)]
pub struct ShardBody {
    /// 0 is the home ledger.
    number: u16,
    /// Items that live there.
    items: i64,
    /// `ok`, `read-only`, `does not answer`, or what is wrong with its schema.
    state: &'static str,
}

impl From<LedgerView> for ShardBody {
    fn from(view: LedgerView) -> Self {
        Self { number: view.shard.get(), items: view.items, state: view.state }
    }
}

/// A move of an item from one ledger to another.
#[derive(Serialize, ToSchema)]
pub struct MoveBody {
    item_id: i64,
    source: u16,
    target: u16,
    /// `copying` (the item sells), `closed` (it is paused), `flipped` (it sells at the target), `done` or
    /// `given_up` (it sells where it was).
    state: &'static str,
    /// Whether something is left to do.
    under_way: bool,
    #[serde(with = "time::serde::rfc3339")]
    started_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    ended_at: Option<OffsetDateTime>,
    /// The pause of the item in milliseconds; `null` if it has not ended, or there was none.
    pause_ms: Option<i64>,
}

impl From<&ItemMove> for MoveBody {
    fn from(of: &ItemMove) -> Self {
        let pause = of.closed_at.zip(of.flipped_at).map(|(closed, flipped)| flipped - closed);
        Self {
            item_id: of.item.get(),
            source: of.source.get(),
            target: of.target.get(),
            state: of.state.as_str(),
            under_way: of.ended_at.is_none(),
            started_at: of.started_at,
            ended_at: of.ended_at,
            pause_ms: pause.and_then(|pause| i64::try_from(pause.whole_milliseconds()).ok()),
        }
    }
}

/// The ledgers and the moves.
#[derive(Serialize, ToSchema)]
pub struct ShardsBody {
    /// In the order of their numbers.
    shards: Vec<ShardBody>,
    /// Those under way first, then the newest; at most 200.
    moves: Vec<MoveBody>,
}

/// List the ledgers with their items and their state, and the moves of items between them.
#[utoipa::path(get, path = "/api/admin/shards", tag = "operator", responses(
    (status = 200, description = "The ledgers and the moves", body = ShardsBody),
    (status = "4XX", description = "Not an operator"), TryAgain,
))]
pub async fn list(
    State(overview): State<Overview>,
    _: Operator,
) -> Result<Json<ShardsBody>, Problem> {
    let view = overview.read().await?;
    let shards = view.ledgers.into_iter().map(ShardBody::from).collect();
    Ok(Json(ShardsBody { shards, moves: view.moves.iter().map(MoveBody::from).collect() }))
}
