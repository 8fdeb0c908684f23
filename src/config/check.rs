//! Relations between settings that must hold before anything starts.

use mysql_connection::limits::ANSWER_MAX;
use settings::{check, rules};
use shop_domain::Currency;
use toml::Table;
use tracing_subscriber::filter::Targets;
use web::address::Proxies;
use web::cross_site::CorsOrigins;

use super::{Config, Risk};

/// The shortest secret that is accepted, in bytes.
pub const SECRET_LENGTH_MIN: usize = 32;
/// The longest life of a token, in hours.
const TOKEN_HOURS_MAX: u32 = 720;
/// The numbers that may be 0. `defaults.toml` says of each what that means.
const MAY_BE_ZERO: [&str; 12] = [
    "http.runtimes",
    "identity.clock_skew_seconds",
    "limits.address_per_second",
    "limits.user_per_second",
    "live.streams_kept_percent",
    "mysql.shared_queues",
    "purchase.item_age_ms_max",
    "purchase.sold_out_ms",
    "queue.replicas_min",
    "redis.retry_ms_max",
    // A share, which a file may write as a whole number.
    "traces.sample_ratio",
    "waiting_room.proof_bits_max",
];

/// Refuses a 0 in the settings of the core and of all extensions, where it has no meaning: a period of 0 is a loop
/// without a pause, a batch of 0 does nothing, and of 0 permits nobody gets one.
pub(super) fn check_numbers(settings: &Table) -> Result<(), String> {
    for (section, keys) in settings {
        for (key, value) in keys.as_table().into_iter().flatten() {
            let name = format!("{section}.{key}");
            let least = if MAY_BE_ZERO.contains(&name.as_str()) { 0 } else { 1 };
            if value.as_integer().is_some_and(|number| number < least) {
                return Err(format!("{name} must be at least {least}"));
            }
        }
    }
    Ok(())
}

impl Config {
    /// The currency of items that name none.
    ///
    /// # Errors
    /// A sentence when it is none.
    pub fn currency(&self) -> Result<Currency, String> {
        let code = &self.payment.currency;
        Currency::parse(code).ok_or_else(|| format!("payment.currency is not a currency: {code:?}"))
    }

    /// What is logged.
    ///
    /// # Errors
    /// A sentence when it cannot be read.
    pub fn log_levels(&self) -> Result<Targets, String> {
        self.log.filter.parse().map_err(|error| format!("log.filter cannot be read: {error}"))
    }

    /// Refuses texts that the service cannot read at its start.
    pub(super) fn check_texts(&self) -> Result<(), String> {
        self.log_levels()?;
        Proxies::parse(&self.http.trusted_proxies)?;
        CorsOrigins::parse(&self.http.cors_origins)?;
        Ok(())
    }

    /// Refuses settings that are out of range or contradict each other.
    pub(super) fn check(&self) -> Result<(), String> {
        let rules = rules! {
            self.lifecycle.drain_ms >= self.purchase.deadline_ms =>
                "lifecycle.drain_ms must not be shorter than purchase.deadline_ms, or a stop cuts running purchases off";
            self.mysql.acquire_timeout_ms < self.purchase.deadline_ms =>
                "mysql.acquire_timeout_ms must be shorter than purchase.deadline_ms, or a full pool looks like an unknown outcome";
            self.gate_wait() + self.transaction_margin() <= self.purchase_deadline() =>
                "purchase.deadline_ms must be at least 4/3 of mysql.lock_wait_timeout_seconds and half a second together, or a locked row looks like an unknown outcome";
            u64::from(self.mysql.lock_wait_timeout_seconds) < ANSWER_MAX.as_secs() =>
                "mysql.lock_wait_timeout_seconds must be at most 5: after 6 seconds a statement is given up, and its session would keep its locks until the wait ends";
            self.redis.command_timeout_ms < self.purchase.deadline_ms =>
                "redis.command_timeout_ms must be shorter than purchase.deadline_ms, or a slow Redis looks like an unknown outcome";
            self.redis.retry_ms_max + self.redis.command_timeout_ms < self.purchase.deadline_ms =>
                "redis.retry_ms_max and redis.command_timeout_ms together must be shorter than purchase.deadline_ms, or a failover of Redis looks like an unknown outcome";
            self.redis.client_file.as_os_str().is_empty() == self.redis.client_key_file.as_os_str().is_empty() =>
                "redis.client_file and redis.client_key_file must be set together";
            self.lock.lease_ms >= 3 * self.redis.command_timeout_ms =>
                "lock.lease_ms must be at least three times redis.command_timeout_ms, or one slow renewal loses the lock";
            self.purchase.item_age_ms_max + self.purchase.sold_out_ms <= 1_000 =>
                "purchase.item_age_ms_max and purchase.sold_out_ms together must not be above 1000, or a restock is not seen within a second";
            self.queue.claim_idle_ms > self.queue.poll_ms =>
                "queue.claim_idle_ms must be longer than queue.poll_ms";
            self.queue.replicas_wait_ms_max
                + self.redis.retry_ms_max
                + self.redis.command_timeout_ms
                < self.purchase.deadline_ms =>
                "queue.replicas_wait_ms_max, redis.retry_ms_max and redis.command_timeout_ms together must be shorter than purchase.deadline_ms";
            self.queue.replicas_min <= 16 =>
                "queue.replicas_min must be at most 16";
            self.purchase.item_in_flight_percent <= 100 =>
                "purchase.item_in_flight_percent must be at most 100";
            self.mysql.pool_max >= 2 =>
                "mysql.pool_max must be at least 2: jobs need a connection beside the purchases";
            self.mysql.shared_queues <= 64 =>
                "mysql.shared_queues must be at most 64: each has five connections";
            self.http.body_bytes_max >= 1_024 =>
                "http.body_bytes_max must be at least 1024, or an item cannot be created";
            self.live.streams_kept_percent <= 100 =>
                "live.streams_kept_percent must be at most 100";
            self.waiting_room.per_second <= 1_000_000 && self.waiting_room.line_max <= 1_000_000 =>
                "waiting_room.per_second and line_max must be at most 1000000";
            self.waiting_room.silent_seconds >= 6 =>
                "waiting_room.silent_seconds must be at least 6, because buyers ask every five seconds";
            self.waiting_list.line_max <= 1_000_000
                && (10..=60_000).contains(&self.waiting_list.sweep_ms) =>
                "waiting_list.line_max must be at most 1000000, and sweep_ms 10 to 60000";
            self.waiting_room.proof_bits_max <= 24 =>
                "waiting_room.proof_bits_max must be at most 24, or buyers compute for minutes";
            self.currency().is_ok() =>
                "payment.currency must be a currency of ISO 4217 by its three capital letters, such as USD";
            self.session.token_hours <= TOKEN_HOURS_MAX =>
                "session.token_hours must be at most 720: a user who signs out everywhere is listed for 31 days";
            matches!(self.log.format.as_str(), "text" | "json") =>
                "log.format must be text or json";
            ["", "http://", "https://"].iter().any(|scheme| {
                let endpoint = &self.traces.endpoint;
                endpoint.starts_with(scheme) && scheme.is_empty() == endpoint.is_empty()
                }) =>
                "traces.endpoint must begin with http:// or https://";
            (0.0..=1.0).contains(&self.traces.sample_ratio) =>
                "traces.sample_ratio must be 0 to 1";
            self.traces.queue_max <= 1_000_000
                && self.traces.batch_max <= 10_000
                && self.traces.period_ms <= 60_000
                && self.traces.timeout_ms <= 60_000 =>
                "traces.queue_max must be at most 1000000, batch_max 10000, period_ms and timeout_ms 60000";
            [&self.secret, &self.secret_previous]
                .iter()
                .all(|secret| secret.is_empty() || secret.reveal().len() >= SECRET_LENGTH_MIN) =>
                "secret and secret_previous must have at least 32 characters";
            self.accepted_risks().all(|name| Risk::parse(name).is_some()) =>
                "accept_risks takes sample-secret, empty-password, volatile-database, lossy-failover and evicting-redis, separated by commas";
            !self.redis.prefix.contains(['{', '}']) =>
                "redis.prefix must not contain braces: they choose the cluster's slot";
        };
        check(rules)
    }
}
