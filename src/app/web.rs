//! Builds the state of the HTTP handlers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::locks::LockServers;
use super::shared::Shared;
use crate::account::{self, Accounts, HashingPool, OperatorLog, Tokens};
use crate::audit::Auditor;
use crate::config::Config;
use crate::draw::Draws;
use crate::event::Endpoints;
use crate::export::Exporter;
use crate::http::address::Proxies;
use crate::http::body::BodyLimits;
use crate::http::cors::CorsOrigins;
use crate::http::hosts::Hosts;
use crate::http::rates::{Rate, Rates};
use crate::http::session_cookie::SessionCookie;
use crate::http::{AppState, Web};
use crate::lab::{self, Lab};
use crate::order::Orders;
use crate::payment::Payments;
use crate::purchase::Purchases;
use crate::readiness::Readiness;
use crate::waiting_list::WaitingLists;

pub(super) fn web(
    config: &Config,
    shared: &Shared,
    lock_servers: &LockServers,
    (orders, purchases, payments): (Orders, Purchases, Payments),
    (waiting_lists, draws): (WaitingLists, Draws),
    (addr, proxies): (SocketAddr, Proxies),
) -> Result<Web, String> {
    let tokens = Tokens::new(&config.secret, &config.secret_previous);
    let accounts = accounts(config, shared, tokens.clone());
    Ok(Web::new(AppState {
        identity: super::identity::identity(config, shared, &accounts)?,
        exporter: Exporter::new(shared.ledger.clone()),
        cors: CorsOrigins::parse(&config.http.cors_origins)?,
        locks: purchases.strategies().locks(),
        lab: lab(config, shared, purchases.clone()),
        purchases,
        orders,
        payments,
        waiting_lists,
        draws,
        catalog: shared.catalog.clone(),
        accounts,
        operator_log: OperatorLog::new(shared.ledger.clone()),
        endpoints: Endpoints::new(shared.ledger.clone(), shared.events.is_enabled()),
        auditor: Auditor::new(shared.ledger.clone(), shared.counters.clone()),
        readiness: Arc::new(Readiness::new(
            shared.pool.clone(),
            shared.redis.clone(),
            config.queue.replicas_min,
            lock_servers.probes(),
        )),
        hub: shared.hub.clone(),
        watch: shared.watch.clone(),
        tokens,
        revocations: shared.revocations.clone(),
        rates: Arc::new(rates(config)),
        proxies,
        hosts: Hosts::new(&config.http.hosts, addr),
        job_status: shared.job_status.clone(),
        metrics: shared.metrics.clone(),
        clock: shared.clock.clone(),
        currency: config.currency()?,
        lifecycle: shared.lifecycle.clone(),
        body_limits: BodyLimits {
            bytes_max: config.http.body_bytes_max,
            timeout: Duration::from_millis(config.http.body_timeout_ms),
        },
        traces: shared.traces.clone(),
        session_cookie: SessionCookie { secure: config.http.cookie_secure },
        static_dir: config.http.static_dir.clone(),
        instance: shared.instance.clone(),
    }))
}

fn accounts(config: &Config, shared: &Shared, tokens: Tokens) -> Accounts {
    let settings = &config.session;
    Accounts::new(account::AccountParts {
        ledger: shared.ledger.clone(),
        hashing: HashingPool::new(settings.hashing_max),
        tokens,
        subject_keys: account::subject_keys(&config.secret, &config.secret_previous),
        revocations: shared.revocations.clone(),
        clock: shared.clock.clone(),
        token_life: Duration::from_secs(u64::from(settings.token_hours) * 3_600),
        demo_accounts: config.demo_accounts,
        own_accounts: config.session.own_accounts,
    })
}

fn lab(config: &Config, shared: &Shared, purchases: Purchases) -> Lab {
    Lab::new(lab::LabParts {
        catalog: shared.catalog.clone(),
        purchases,
        metrics: shared.metrics.clone(),
        // An answer may be remembered when it is as old as it may be (`purchase/sold_out.rs`).
        sold_out_age: Duration::from_millis(2 * config.purchase.sold_out_ms),
        clock: shared.clock.clone(),
        tasks: shared.lifecycle.purchases().clone(),
        stopping: shared.lifecycle.stopping(),
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
