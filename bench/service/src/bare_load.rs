//! Loads on baseline H, by the generator that also loads the service.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderValue;

use crate::bare_http::{self, BareHttp};
use crate::load::{REQUESTS_PER_SECOND, halves};
use crate::processes::{Moment, Services, Usage};
use loadtest::drive::{self, Drive, Instance, Policy};
use loadtest::environment::Environment;
use loadtest::failure::CannotJudge;
use loadtest::plan::{Pace, Plan};
use loadtest::report::TrafficSummary;
use loadtest::tokens::{Mint, seckill_program};
use uuid::Uuid;

/// Buyers, who take turns: H knows nobody.
const BUYERS: u32 = 1_000;
const FIRST_BUYER: i64 = 1_000_000_001;
/// Requests that are planned for each second of a closed load.
const BARE_PER_SECOND: f64 = 2.0 * REQUESTS_PER_SECOND;
/// How many times as long a crowd goes on at most; it is ended with the load that is measured.
const CROWD_SPANS: u32 = 3;

/// H and the tokens of its buyers.
pub struct BareLoad {
    bare: BareHttp,
    tokens: Vec<HeaderValue>,
}

impl BareLoad {
    /// Starts H.
    pub async fn start(environment: &Environment) -> Result<Self, CannotJudge> {
        let mint = Mint::new(seckill_program(None), environment);
        Ok(Self { bare: BareHttp::start().await?, tokens: mint.buyers(FIRST_BUYER, BUYERS).await? })
    }

    /// Fires one load with the headers of a purchase; `span` bounds a closed one.
    pub async fn fire(
        &self,
        pace: Pace,
        clients: u32,
        span: Duration,
    ) -> Result<(TrafficSummary, Usage), CannotJudge> {
        let drive = self.drive(pace, Policy::once(clients as usize, span))?;
        let look = || Moment::now(&Services::default());
        let (traffic, [before, after]) = drive::fire_and_look(drive, look).await;
        let summary = TrafficSummary::of(&traffic, &["bare".to_owned()]);
        Ok((summary, before.until(&after)))
    }

    /// Answers per second in the two halves of a load.
    pub async fn halves(
        &self,
        clients: u32,
        connects_first: bool,
        span: Duration,
    ) -> Result<[f64; 2], CannotJudge> {
        let policy = Policy { connects_first, ..Policy::once(clients as usize, span) };
        let traffic = drive::fire(self.drive(closed(span), policy)?).await;
        Ok(halves(&traffic.answers, span))
    }

    /// p99 of some clients, beside others if there are any, in microseconds.
    pub async fn p99_us(
        &self,
        clients: u32,
        others: Option<u32>,
        span: Duration,
    ) -> Result<f64, CannotJudge> {
        let drive = self.drive(closed(span), Policy::once(clients as usize, span))?;
        let mut crowd = None;
        if let Some(others) = others {
            let span = CROWD_SPANS * span;
            let others_drive = self.drive(closed(span), Policy::once(others as usize, span))?;
            let traffic = tokio::spawn(drive::fire(Arc::clone(&others_drive)));
            others_drive.answered(others.into(), span).await;
            crowd = Some((others_drive, traffic));
        }
        let traffic = drive::fire(drive).await;
        if let Some((drive, traffic)) = crowd {
            drive.stop();
            traffic.await.map_err(|error| CannotJudge(error.to_string()))?;
        }
        Ok(TrafficSummary::of(&traffic, &["bare".to_owned()]).accepted.from_plan.p99_us as f64)
    }

    fn drive(&self, pace: Pace, policy: Policy) -> Result<Arc<Drive>, CannotJudge> {
        let prefix = Some(Uuid::now_v7().simple().to_string());
        let plan = Plan::draw(pace, BUYERS, 1, prefix, rand::random())?;
        let instance = Instance::at(self.bare.address);
        let path = bare_http::PATH.to_owned();
        let tokens = self.tokens.clone();
        Ok(Arc::new(Drive::new(plan, policy, vec![instance], vec![path], tokens, FIRST_BUYER)))
    }
}

/// More requests than H answers.
fn closed(span: Duration) -> Pace {
    Pace::Closed { requests: (BARE_PER_SECOND * span.as_secs_f64()) as u32 }
}
