//! What the provider says of people, and the users that it makes of them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ledger::rows::subjects::{self, Subject};
use ledger::work::{self, failed_change};
use outgoing_https::HttpsClient;
use time::OffsetDateTime;

use crate::claim_path::{ClaimPath, Values};
use crate::keys::{self, Keys, Source};
use crate::problems;
use crate::provider::Provider;
use crate::settings::Identity as Settings;
use crate::signature;
use crate::token::IdentityClaims;
use extension::Core;
use extension::ports::IdentityProvider;
use shop_domain::{LedgerError, UserId};
use web::problem::Problem;
use web::session::Session;
use web::token::Role;

/// How much of a name is shown, in characters: as many as an e-mail address may have, which is the name of many.
const NAME_LENGTH_MAX: usize = 320;
/// The name of a user whose provider says none.
const NAME_DEFAULT: &str = "user";
/// Claims that have a name to show, the best first; the last three are those of Auth0 and Amazon Cognito.
const NAMES: [&str; 5] = ["preferred_username", "name", "nickname", "cognito:username", "username"];

/// The identity provider, and the users that it knows.
pub struct Client {
    core: Core,
    settings: Settings,
    name: String,
    pub(crate) provider: Arc<Provider>,
    keys: Keys,
    audiences: Vec<String>,
    role_claim: ClaimPath,
}

impl Client {
    /// Makes the client of the provider that the settings name, which is asked by `https`.
    ///
    /// # Errors
    /// A sentence when a setting cannot be used.
    pub fn new(core: &Core, settings: &Settings, https: HttpsClient) -> Result<Self, String> {
        signature::install();
        let provider = Provider::new(https, &settings.issuer, &settings.jwks_url)?;
        let provider = Arc::new(provider);
        let file = &settings.jwks_file;
        let algorithms = signature::algorithms(&settings.algorithms)?;
        let source = if file.as_os_str().is_empty() {
            Source::Provider(Arc::clone(&provider))
        } else {
            // A wrong path would else be noticed by the first buyer who signs in.
            keys::check_file(file, &algorithms)
                .map_err(|why| format!("identity.jwks_file {}: {why}", file.display()))?;
            Source::File(file.clone())
        };
        let age_max = Duration::from_secs(settings.jwks_seconds_max);
        let keys = Keys::new(source, algorithms, age_max);
        let mut audiences = settings.audience.to_vec();
        if audiences.is_empty() {
            audiences.push(settings.client_id.clone());
        }
        Ok(Self {
            settings: settings.clone(),
            name: name_of(settings),
            core: core.clone(),
            provider,
            keys,
            audiences,
            role_claim: ClaimPath::parse(&settings.role_claim)?,
        })
    }

    /// The settings, if browsers can sign in by the provider.
    pub(crate) fn for_browsers(&self) -> Option<&Settings> {
        (!self.settings.client_id.is_empty()).then_some(&self.settings)
    }

    async fn find(&self, claims: &IdentityClaims) -> Result<Option<UserId>, LedgerError> {
        let subject = Subject { issuer: &self.settings.issuer, subject: &claims.subject };
        let ledger = &self.core.ledger;
        ledger.read(subjects::find(&ledger.pool, subject)).await
    }

    pub(crate) async fn verify(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<IdentityClaims, Problem> {
        self.settings.verify(token, &self.keys, audiences).await
    }

    /// Opens a session for the user of the claims.
    pub(crate) async fn open_session(
        &self,
        claims: &IdentityClaims,
        until: Option<OffsetDateTime>,
    ) -> Result<Session, Problem> {
        let user = self.user_of(claims).await?;
        Ok(self.core.accounts.open_session(user, self.role_of(claims), until).await?)
    }

    /// The user of a subject, who is created at the first sign-in.
    async fn user_of(&self, claims: &IdentityClaims) -> Result<UserId, LedgerError> {
        let Core { ledger, accounts, kit, .. } = &self.core;
        let subject = Subject { issuer: &self.settings.issuer, subject: &claims.subject };
        if let Some(user) = self.find(claims).await? {
            return Ok(user);
        }
        let name = shown_name(claims);
        let keys = accounts.subject_keys();
        let create = subjects::create(&ledger.pool, subject, keys, &name, kit.clock.now());
        let created = work::change(&ledger.breaker, create).await;
        match created.map_err(|error| failed_change(&error))? {
            Some(user) => Ok(user),
            // Another request of the user was first.
            None => self.find(claims).await?.ok_or(LedgerError::Unavailable),
        }
    }

    fn role_of(&self, claims: &IdentityClaims) -> Role {
        if self.role_claim.is_empty() {
            return Role::Buyer;
        }
        let values = match self.role_claim.values(&claims.all) {
            Values::Said(values) => values,
            Values::LeftOut => {
                tracing::warn!(
                    "the identity provider has left the groups out of a token, since they are too many, so its user is \
                     a buyer; let it send app roles, or only the groups of this application"
                );
                return Role::Buyer;
            }
        };
        let has =
            |wanted: &[String]| values.iter().any(|value| wanted.iter().any(|it| it == value));
        if has(&self.settings.admin_values) {
            Role::Admin
        } else if has(&self.settings.operator_values) {
            Role::Operator
        } else {
            Role::Buyer
        }
    }
}

#[async_trait]
impl IdentityProvider for Client {
    fn name_for_browsers(&self) -> Option<&str> {
        self.for_browsers().map(|_| self.name.as_str())
    }

    async fn sign_in_by_token(&self, token: &str) -> Result<Session, Problem> {
        let claims = self.verify(token, &self.audiences).await?;
        // The token is believed for this time, so the session lasts no longer.
        let until = claims.expires_at.saturating_add(self.settings.clock_skew());
        self.open_session(&claims, Some(until)).await
    }

    async fn role_by_token(&self, token: &str, user: UserId) -> Result<Role, Problem> {
        let claims = self.verify(token, &self.audiences).await?;
        match self.find(&claims).await? {
            Some(found) if found == user => Ok(self.role_of(&claims)),
            _ => Err(problems::IDENTITY_REFUSED.problem()),
        }
    }
}

/// The name of a user on pages: what the provider says, without characters that do not show.
fn shown_name(claims: &IdentityClaims) -> String {
    let said = NAMES.into_iter().find_map(|claim| claims.text(claim));
    let shown: String = said
        .unwrap_or_default()
        .chars()
        .filter(|it| it.is_alphanumeric() || " .-_@'".contains(*it))
        .take(NAME_LENGTH_MAX)
        .collect();
    let shown = shown.trim();
    if shown.is_empty() { NAME_DEFAULT.to_owned() } else { shown.to_owned() }
}

fn name_of(settings: &Settings) -> String {
    if !settings.name.is_empty() {
        return settings.name.clone();
    }
    let host = settings.issuer.split("://").nth(1).and_then(|rest| rest.split('/').next());
    host.unwrap_or_default().to_owned()
}
