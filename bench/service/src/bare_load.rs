//! Loads on baseline H, by the generator that also loads the service.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderValue;

use crate::bare_http::{self, BareHttp};
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
        let prefix = Some(Uuid::now_v7().simple().to_string());
        let plan = Plan::draw(pace, BUYERS, 1, 1, prefix, rand::random())?;
        let policy = Policy::once(clients as usize, span);
        let instances = vec![Instance::at(self.bare.address)];
        let paths = vec![bare_http::PATH.to_owned()];
        let tokens = self.tokens.clone();
        let drive = Drive::new(plan, policy, instances, paths, tokens, FIRST_BUYER);
        let look = || Moment::now(&Services::default());
        let (traffic, [before, after]) = drive::fire_and_look(Arc::new(drive), look).await;
        let summary = TrafficSummary::of(&traffic, &["bare".to_owned()]);
        Ok((summary, before.until(&after)))
    }
}
