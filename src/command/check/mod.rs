//! The checks of an installation: `serve` runs them before it sells, `seckill doctor` on demand.
//!
//! Each check returns what it found and, unless that is fine, with what to do about it.

pub mod engine;
pub mod machine;
pub mod mysql;
pub mod redis;
pub mod settings;

use crate::config::{Config, Risk};
use serde::Serialize;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// Usable, with a drawback.
    Warning,
    /// Not usable yet, and it may heal by itself: a server that starts, a schema that is migrated.
    Waiting,
    /// The service cannot start like this.
    Failed,
}

/// What a check found.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The name of the check, such as `ledger.schema`.
    pub check: &'static str,
    /// The result.
    pub state: State,
    /// What was found, in a sentence without its full stop.
    pub found: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

impl Finding {
    /// A check whose result is fine.
    pub fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, state: State::Ok, found: found.into(), remedy: None }
    }

    /// A check whose result is not fine.
    pub fn bad(
        check: &'static str,
        state: State,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { check, state, found: found.into(), remedy: Some(remedy.into()) }
    }

    /// A risk: it stops the start unless the settings accept it.
    pub fn risk(
        config: &Config,
        check: &'static str,
        risk: Risk,
        found: impl Into<String>,
    ) -> Self {
        let accept = format!("set SECKILL_ACCEPT_RISKS={} to start nevertheless", risk.as_str());
        let state = if config.accepts(risk) { State::Warning } else { State::Failed };
        Self::bad(check, state, found, accept)
    }

    /// The finding and its remedy in one sentence.
    pub fn sentence(&self) -> String {
        match &self.remedy {
            Some(remedy) => format!("{}; {remedy}", self.found),
            None => self.found.clone(),
        }
    }
}

/// The first finding with a state, as a sentence.
pub fn first(findings: &[Finding], state: State) -> Option<String> {
    findings.iter().find(|finding| finding.state == state).map(Finding::sentence)
}
