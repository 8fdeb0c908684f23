//! Kills the service during a load, again and again, and starts it again where it was.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::sleep;

use crate::drive::{Drive, Instance};
use crate::environment::Environment;
use crate::failure::CannotJudge;
use crate::launcher::{Launcher, Service};
use crate::options::RunOptions;
use crate::tokens::seckill_program;

/// How often the progress of the load is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// An instance of our own, which is killed during the load.
pub struct Victim {
    launcher: Launcher,
    service: Service,
    kills: u32,
    /// Draws the places of the load at which it is killed.
    seed: u64,
}

impl Victim {
    /// Starts the instance on the servers of the shop, where the options ask for kills.
    pub async fn start(
        options: &RunOptions,
        environment: &Environment,
        seed: u64,
    ) -> Result<Option<Self>, CannotJudge> {
        if options.kills == 0 {
            return Ok(None);
        }
        let program = seckill_program(options.seckill.clone());
        let logs = std::env::temp_dir().join(format!("seckill-loadtest-{}", std::process::id()));
        let launcher = Launcher::new(program, environment, &logs)?;
        let service = launcher.start("killed", &[]).await?;
        Ok(Some(Self { launcher, service, kills: options.kills, seed }))
    }

    /// Where it answers, also after a kill.
    pub fn instance(&self) -> Instance {
        self.service.instance.clone()
    }

    /// Kills it and starts it again, each time at a random place of the next part of the load. Returns it when it was
    /// killed for the last time.
    ///
    /// # Errors
    /// When it does not start again, which stops the load, or when the load is over before the last kill.
    pub async fn suffer(mut self, drive: Arc<Drive>) -> Result<Self, CannotJudge> {
        let mut random = StdRng::seed_from_u64(self.seed);
        let part = drive.plan.requests.len() as f64 / f64::from(self.kills + 1);
        for kill in 0..self.kills {
            let place = (part * (f64::from(kill) + random.random_range(0.0..1.0))) as u64;
            while drive.tally.done.load(Ordering::Relaxed) < place && !drive.is_stopped() {
                sleep(LOOK_EVERY).await;
            }
            if drive.is_stopped() {
                return Err(CannotJudge(format!(
                    "the load was over after {kill} kills: send more"
                )));
            }
            let instance = self.instance();
            self.service.kill().await;
            match self.launcher.start_at("killed", &[], instance).await {
                Ok(service) => self.service = service,
                Err(failure) => {
                    drive.stop();
                    return Err(failure);
                }
            }
        }
        Ok(self)
    }
}
