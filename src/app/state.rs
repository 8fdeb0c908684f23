//! Builds what the HTTP handlers and the extensions share.

use std::sync::Arc;
use std::time::Duration;

use super::extended::ExtensionParts;
use super::locks::LockServers;
use super::shared::Shared;
use super::use_cases::UseCases;
use crate::account::Accounts;
use crate::audit::Auditor;
use crate::config::Config;
use crate::http::AppParts;
use crate::http::item_form::read_item;
use crate::readiness::Readiness;
use crate::trial::TrialSales;
use extension::Core;
use web::address::Proxies;
use web::body::BodyLimits;
use web::cross_site::CorsOrigins;
use web::kit::Kit;
use web::rates::{Rate, Rates};
use web::session::{Authenticator, AuthenticatorParts, SessionCookie};
use web::stream_limiter::{StreamLimiter, StreamLimits};
use web::streams::Streams;
use web::token::Tokens;

/// What the extractors of all routes need.
///
/// # Errors
/// A sentence when a setting cannot be used.
pub(super) fn kit(
    config: &Config,
    shared: &Shared,
    accounts: &Accounts,
    proxies: Proxies,
) -> Result<Arc<Kit>, String> {
    let rates = Arc::new(rates(config));
    let session_cookie = SessionCookie { secure: config.http.cookie_secure };
    let authenticator = Authenticator::new(AuthenticatorParts {
        tokens: Tokens::new(&config.secret, &config.secret_previous),
        sessions: Arc::new(accounts.clone()),
        rates: Arc::clone(&rates),
        cookie: session_cookie,
        clock: shared.clock.clone(),
        metrics: shared.metrics.clone(),
    });
    let streams = Streams {
        limiter: StreamLimiter::new(stream_limits(config), shared.metrics.clone()),
        rates: Arc::clone(&rates),
        authenticator: authenticator.clone(),
        lifecycle: shared.lifecycle.clone(),
        metrics: shared.metrics.clone(),
    };
    Ok(Arc::new(Kit {
        authenticator,
        streams,
        rates,
        proxies,
        cors: CorsOrigins::parse(&config.http.cors_origins)?,
        body_limits: BodyLimits {
            bytes_max: config.http.body_bytes_max,
            timeout: Duration::from_millis(config.http.body_timeout_ms),
        },
        session_cookie,
        lifecycle: shared.lifecycle.clone(),
        clock: shared.clock.clone(),
        metrics: shared.metrics.clone(),
    }))
}

/// What the core gives to the extensions.
///
/// # Errors
/// A sentence when a setting cannot be used.
pub(super) fn core(
    config: &Config,
    shared: &Shared,
    kit: &Arc<Kit>,
    use_cases: &UseCases,
) -> Result<Core, String> {
    let UseCases { accounts, orders, purchases, waiting_lists } = use_cases;
    Ok(Core {
        kit: Arc::clone(kit),
        ledger: shared.ledger.clone(),
        outbox: shared.events,
        accounts: Arc::new(accounts.clone()),
        orders: Arc::new(orders.clone()),
        line: shared.line.clone(),
        items: Arc::new(shared.catalog.clone()),
        waiting_lists: Arc::new(waiting_lists.clone()),
        traces: shared.traces.clone(),
        instance: shared.instance.clone(),
        currency: config.currency()?,
        read_item,
        new_items: Arc::new(shared.catalog.clone()),
        trial_sales: Arc::new(TrialSales {
            catalog: shared.catalog.clone(),
            purchases: purchases.clone(),
            sold_out_age: Duration::from_millis(2 * config.purchase.sold_out_ms),
        }),
    })
}

/// What the routes have beside the kit.
///
/// # Errors
/// A sentence when a setting cannot be used.
pub(super) fn parts(
    config: &Config,
    shared: &Shared,
    lock_servers: LockServers,
    use_cases: UseCases,
    extended: &ExtensionParts,
) -> Result<AppParts, String> {
    let UseCases { accounts, orders, purchases, waiting_lists } = use_cases;
    Ok(AppParts {
        locks: purchases.strategies().locks(),
        purchases,
        orders,
        paid_elsewhere: extended.paid_elsewhere,
        waiting_lists,
        draws: extended.draws.clone(),
        catalog: shared.catalog.clone(),
        accounts,
        identity: extended.identity.clone(),
        auditor: Auditor { ledger: shared.ledger.clone(), counters: shared.counters.clone() },
        readiness: Arc::new(Readiness::new(
            shared.pool.clone(),
            shared.redis.clone(),
            config.queue.replicas_min,
            lock_servers.probes(),
        )),
        hub: shared.hub.clone(),
        watch: shared.watch.clone(),
        job_status: shared.job_status.clone(),
        currency: config.currency()?,
        traces: shared.traces.clone(),
        instance: shared.instance.clone(),
    })
}

fn rates(config: &Config) -> Rates {
    let limits = &config.limits;
    Rates::new(
        Rate { per_second: limits.user_per_second, burst: limits.user_burst },
        Rate { per_second: limits.address_per_second, burst: limits.address_burst },
        limits.loopback_exempt,
    )
}

fn stream_limits(config: &Config) -> StreamLimits {
    let all = config.live.streams_max;
    let limits = &config.limits;
    // Rounded down: the share of a few streams may be 0.
    let kept = all.saturating_mul(config.live.streams_kept_percent) / 100;
    StreamLimits {
        all,
        strangers: all.saturating_sub(kept),
        each_user: limits.user_streams_max,
        each_address: limits.address_streams_max,
    }
}
