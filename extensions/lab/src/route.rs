//! `/api/lab/runs`: comparisons of strategies inside the service, for operators.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::sse::Event as SseEvent;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use utoipa::ToSchema;

use crate::plan::{self, Plan, StrategyChoice};
use crate::problems;
use crate::report::{Arbiters, Event, Run, RunRequest, RunState};
use crate::runs::Lab;
use extension::actor_of;
use ledger::Ledger;
use ledger::rows::actions::{self, Actor};
use web::body::{Integer, JsonBody};
use web::extract::Operator;
use web::problem::Problem;
use web::streams::{Events, Streams};

/// A comparison to run.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateRunBody {
    /// Names of `/api/strategies`; a lock strategy may carry its options, as in
    /// `lock-redis?scope=market&store=redis`.
    strategies: Vec<String>,
    /// Units of each lane's item.
    #[schema(value_type = i64, minimum = 1, maximum = 10000)]
    stock: Integer,
    /// The number of buyers.
    #[schema(value_type = u32, minimum = 1, maximum = 10000)]
    buyers: Integer,
    /// Purchases of each lane; as many as buyers if it is left out.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 100000)]
    requests: Integer,
    /// Purchases that run at once.
    #[schema(value_type = u32, minimum = 1, maximum = 1000)]
    concurrency: Integer,
    /// `off` (if it is left out), `on` or `both`.
    arbiter: Option<Arbiters>,
    /// How many times each lane runs; 1 if it is left out.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 5)]
    rounds: Integer,
    /// Units of each purchase; 1 if it is left out.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 10)]
    quantity: Integer,
    /// Seconds after which a lane sends no further purchase; 30 if it is left out.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 120)]
    seconds_max: Integer,
}

/// The last runs.
#[derive(Serialize, ToSchema)]
pub struct RunsBody {
    /// Newest first.
    runs: Vec<Run>,
}

/// Compare strategies.
#[utoipa::path(post, path = "/api/lab/runs", tag = "lab", request_body = CreateRunBody,
    responses((status = 202, description = "The run, which continues in the background", body = Run)))]
pub async fn create(
    State(lab): State<Lab>,
    State(ledger): State<Ledger>,
    operator: Operator,
    JsonBody(body): JsonBody<CreateRunBody>,
) -> Result<Response, Problem> {
    let plan = plan(body)?;
    let run = lab.start(&plan, operator.user).ok_or(&problems::LAB_BUSY)?;
    tracing::info!(run = run.id, operator = %operator.user, "lab run started");
    record(&ledger, &actor_of(&operator), "lab_run_started", &run.id).await;
    let location = [("location", format!("/api/lab/runs/{}", run.id))];
    Ok((StatusCode::ACCEPTED, location, Json(run)).into_response())
}

/// List the last runs.
#[utoipa::path(get, path = "/api/lab/runs", tag = "lab",
    responses((status = 200, description = "The last 20, newest first", body = RunsBody)))]
pub async fn list(State(lab): State<Lab>, _: Operator) -> Json<RunsBody> {
    Json(RunsBody { runs: lab.list() })
}

/// Find a run.
#[utoipa::path(get, path = "/api/lab/runs/{id}", tag = "lab", params(("id" = String, Path)),
    responses((status = 200, description = "The present state of the run", body = Run)))]
pub async fn find(
    State(lab): State<Lab>,
    _: Operator,
    Path(id): Path<String>,
) -> Result<Json<Run>, Problem> {
    Ok(Json(lab.find(&id).ok_or(&problems::RUN_NOT_FOUND)?))
}

/// End a run. One that has ended stays as it is.
#[utoipa::path(delete, path = "/api/lab/runs/{id}", tag = "lab", params(("id" = String, Path)),
    responses((status = 200, description = "The run, which ends in a moment", body = Run)))]
pub async fn cancel(
    State(lab): State<Lab>,
    State(ledger): State<Ledger>,
    operator: Operator,
    Path(id): Path<String>,
) -> Result<Json<Run>, Problem> {
    let run = lab.cancel(&id).ok_or(&problems::RUN_NOT_FOUND)?;
    tracing::info!(run = run.id, operator = %operator.user, "lab run cancelled");
    record(&ledger, &actor_of(&operator), "lab_run_ended", &run.id).await;
    Ok(Json(run))
}

/// Records the operator's action. A failure does not stop the run: the run writes to the same
/// ledger, and ends by itself if the ledger does not answer.
async fn record(ledger: &Ledger, actor: &Actor, action: &'static str, run: &str) {
    let detail = json!({ "run": run });
    let recorded = actions::record_alone(&ledger.pool, actor, action, None, &detail).await;
    if let Err(error) = recorded {
        tracing::error!(%error, action, run, operator = %actor.user, "operator action not recorded");
    }
}

/// The events of a run: `run` first, then `progress` and `lane`, and `done` at the end.
#[utoipa::path(get, path = "/api/lab/runs/{id}/events", tag = "lab", params(("id" = String, Path)), responses(
    (status = 200, description = "Events `alive`, `run`, `progress`, `lane` and `done`", content_type = "text/event-stream", body = String),
))]
pub async fn events(
    State(streams): State<Streams>,
    State(lab): State<Lab>,
    Operator { user, claims, address, .. }: Operator,
    Path(id): Path<String>,
) -> Result<Events, Problem> {
    let (first, mut changes) = lab.watch(&id).ok_or(&problems::RUN_NOT_FOUND)?;
    let stream = streams.open(Some(user), address)?;
    Ok(streams.send(stream, Some(claims), move |out| async move {
        let mut ended = first.state != RunState::Running;
        if out.send(event("run", &first)).await.is_err() {
            return;
        }
        while !ended {
            let change = tokio::select! {
                change = changes.recv() => change,
                () = out.closed() => return,
            };
            let sent = match change {
                Ok(Event::Progress(progress)) => event("progress", &progress),
                Ok(Event::Cell(cell)) => event("lane", &cell),
                Ok(Event::Done) | Err(RecvError::Closed) => {
                    ended = true;
                    continue;
                }
                // This stream missed events: send the whole run instead.
                Err(RecvError::Lagged(_)) => {
                    let Some(now) = lab.find(&id) else { return };
                    event("run", &now)
                }
            };
            if out.send(sent).await.is_err() {
                return;
            }
        }
        let last = lab.find(&id).unwrap_or(first);
        let _ = out.send(event("done", &last)).await;
    }))
}

fn event(name: &str, data: &impl Serialize) -> SseEvent {
    SseEvent::default().event(name).data(serde_json::to_string(data).unwrap_or_default())
}

/// Checks a request for a run.
fn plan(body: CreateRunBody) -> Result<Plan, Problem> {
    let chosen =
        body.strategies.iter().map(|text| StrategyChoice::parse(text)).collect::<Result<_, _>>()?;
    let buyers = number(body.buyers, None, plan::BUYERS_MAX, "buyers")?;
    let request = RunRequest {
        strategies: body.strategies,
        stock: number(body.stock, None, plan::STOCK_MAX, "stock")?,
        buyers,
        requests: number(body.requests, Some(buyers), plan::REQUESTS_MAX, "requests")?,
        concurrency: number(body.concurrency, None, plan::CONCURRENCY_MAX, "concurrency")?,
        arbiter: body.arbiter.unwrap_or_default(),
        rounds: number(body.rounds, Some(1), plan::ROUNDS_MAX, "rounds")?,
        quantity: number(body.quantity, Some(1), plan::QUANTITY_MAX, "quantity")?,
        seconds_max: number(
            body.seconds_max,
            Some(plan::SECONDS_DEFAULT),
            plan::SECONDS_MAX,
            "seconds_max",
        )?,
    };
    let plan = Plan { request, chosen };
    if !(1..=plan::CELLS_MAX).contains(&plan.cells().len()) {
        let detail =
            format!("Choose strategies, rounds and arbiters for 1 to {} lanes.", plan::CELLS_MAX);
        return Err(problems::LANES_OUT_OF_RANGE.detail(detail));
    }
    Ok(plan)
}

/// A number from 1 to `most`; `field` names it in the problem.
fn number<T: TryFrom<i128> + Into<i128> + Copy>(
    given: Integer,
    default: Option<T>,
    most: T,
    field: &str,
) -> Result<T, Problem> {
    let kind = match field {
        "stock" => &problems::STOCK_OUT_OF_RANGE,
        "quantity" => &problems::QUANTITY_OUT_OF_RANGE,
        _ => &problems::OUT_OF_RANGE,
    };
    let valid = |number| (1..=most.into()).contains(&number).then(|| T::try_from(number).ok())?;
    given.or(default, valid, || kind.detail(format!("Send {field} from 1 to {}.", most.into())))
}
