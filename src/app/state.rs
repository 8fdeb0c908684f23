//! Builds what the HTTP handlers and the extensions share.

use std::sync::Arc;
use std::time::Duration;

use super::shared::Shared;
use crate::account::{self, Accounts, HashingPool};
use crate::config::Config;
use crate::http::item_form::read_item;
use crate::order::Orders;
use crate::purchase::Purchases;
use crate::trial::TrialSales;
use crate::waiting_list::WaitingLists;
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
    accounts: &Accounts,
    orders: &Orders,
    purchases: &Purchases,
    waiting_lists: &WaitingLists,
) -> Result<Core, String> {
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

pub(super) fn accounts(config: &Config, shared: &Shared) -> Accounts {
    let settings = &config.session;
    Accounts::new(account::AccountParts {
        ledger: shared.ledger.clone(),
        eraser: shared.eraser.clone(),
        hashing: HashingPool::new(settings.hashing_max),
        tokens: Tokens::new(&config.secret, &config.secret_previous),
        subject_keys: account::subject_keys(&config.secret, &config.secret_previous),
        revocations: shared.revocations.clone(),
        clock: shared.clock.clone(),
        token_life: Duration::from_secs(u64::from(settings.token_hours) * 3_600),
        demo_accounts: config.demo_accounts,
        own_accounts: config.session.own_accounts,
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
