//! What an optional feature gives to the program, and what it gets from the core.
//!
//! An [`Extension`] is one crate under `extensions`: its settings, use cases, SQL, routes, jobs and types of problem. It
//! knows the core by [`Core`] alone, and the core knows none of them: the program lists them in one place, builds each
//! from the settings, and serves without any.

pub mod job;
pub mod ports;

use std::sync::Arc;

use futures::future::BoxFuture;
use ledger::Ledger;
use ledger::erasure::traces::Trace;
use ledger::rows::actions::Actor;
use ledger::rows::outbox::Outbox;
use ledger::waiting_list::WaitingLine;
use settings::Sections;
use shop_domain::Currency;
use shop_traces::Traces;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use web::extract::Operator;
use web::kit::Kit;
use web::problem::ProblemType;

use job::ScheduledJob;
use ports::{
    AnnounceDraws, IdentityProvider, Items, NewItems, OrdersToPay, PaidElsewhere, ReadItem,
    SessionOpener, TrialSales, WaitingLists,
};

/// An optional feature.
pub struct Extension {
    /// Its name, which is that of its section of the settings.
    pub name: &'static str,
    /// Its sections of `defaults.toml`, with a comment for each key.
    pub defaults: &'static str,
    /// Refuses settings that are out of range or contradict each other, in a sentence for the operator.
    pub check: fn(&Sections) -> Result<(), String>,
    /// Its table of types of problem.
    pub problems: &'static [&'static ProblemType],
    /// Each column that it has of people, and what the deletion of a person does to it.
    pub personal_data: &'static [Trace],
    /// Describes its routes.
    pub document: fn() -> OpenApi,
    /// Builds its parts. The error is a sentence for the operator: a setting that cannot be used, a file that cannot be
    /// read.
    pub build: fn(&Core, &Sections) -> Result<Parts, String>,
}

/// What the core gives to extensions. Clones share everything.
#[derive(Clone)]
pub struct Core {
    /// What the extractors of routes need, with clock, metrics and lifecycle.
    pub kit: Arc<Kit>,
    pub ledger: Ledger,
    /// Whether each change of an order is written as an event.
    pub outbox: Outbox,
    pub accounts: Arc<dyn SessionOpener>,
    pub orders: Arc<dyn OrdersToPay>,
    /// Who gets units that come back.
    pub line: WaitingLine,
    pub items: Arc<dyn Items>,
    pub waiting_lists: Arc<dyn WaitingLists>,
    pub traces: Traces,
    /// The name of this instance for the others.
    pub instance: String,
    /// The currency of items that name none.
    pub currency: Currency,
    /// Sales that are tried out.
    pub trial_sales: Arc<dyn TrialSales>,
    /// Reads the fields of a sale.
    pub read_item: ReadItem,
    /// Creates sales.
    pub new_items: Arc<dyn NewItems>,
}

/// What an extension gives to the program.
#[derive(Default)]
pub struct Parts {
    pub routes: OpenApiRouter,
    pub jobs: Vec<ScheduledJob>,
    pub workers: Vec<Worker>,
    /// Who else knows who people are.
    pub identity: Option<Arc<dyn IdentityProvider>>,
    pub paid_elsewhere: PaidElsewhere,
    /// Announces draws; without it no item is drawn.
    pub draws: Option<Arc<dyn AnnounceDraws>>,
}

/// A worker: its name for the log, and its work, which ends when the service stops.
pub type Worker = (&'static str, BoxFuture<'static, ()>);

/// Who does something now, for the log of the operators' actions.
pub fn actor_of(operator: &Operator) -> Actor {
    Actor { user: operator.user, address: Some(operator.address), now: operator.at }
}
