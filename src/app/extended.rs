//! What the extensions give to the service, together.

use std::sync::Arc;

use utoipa_axum::router::OpenApiRouter;

use super::shared::Shared;
use super::workers;
use crate::config::Config;
use extension::ports::{AnnounceDraws, IdentityProvider, PaidElsewhere};
use extension::{Core, Extension, Worker};

/// The parts of all extensions.
#[derive(Default)]
pub(super) struct ExtensionParts {
    pub routes: Vec<OpenApiRouter>,
    /// Their workers, and those that run their jobs.
    pub workers: Vec<Worker>,
    /// Announces draws; without it no item is drawn.
    pub draws: Option<Arc<dyn AnnounceDraws>>,
    /// Who else knows who people are.
    pub identity: Option<Arc<dyn IdentityProvider>>,
    pub paid_elsewhere: PaidElsewhere,
}

impl ExtensionParts {
    /// Builds the parts of each extension.
    ///
    /// # Errors
    /// A sentence when a setting cannot be used.
    pub(super) fn build(
        extensions: &[&Extension],
        core: &Core,
        config: &Config,
        shared: &Shared,
    ) -> Result<Self, String> {
        let mut all = Self::default();
        for extension in extensions {
            let parts = (extension.build)(core, &config.sections)?;
            all.routes.push(parts.routes);
            all.workers.extend(parts.workers);
            all.workers.extend(parts.jobs.into_iter().map(|job| workers::job(job, shared)));
            all.draws = all.draws.or(parts.draws);
            all.identity = all.identity.or(parts.identity);
            all.paid_elsewhere.0 |= parts.paid_elsewhere.0;
        }
        if !config.session.own_accounts && all.identity.is_none() {
            return Err(
                "session.own_accounts = false needs an identity provider, or nobody can sign in"
                    .to_owned(),
            );
        }
        Ok(all)
    }
}
