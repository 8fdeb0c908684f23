//! Checks of the settings themselves, which need no server.

use std::net::IpAddr;

use crate::config::{Config, Risk};
use crate::http::pages::NO_PAGES;
use redis_connection::Address;
use web::address::Proxies;
use web::listener::LOCAL_PEER;

use super::{Finding, State};

/// The secrets that are published in this project's files.
const PUBLISHED: [&str; 1] = ["demo-only-demo-only-demo-only-demo-only"];
/// The least number of different characters in a random secret.
const DIFFERENT_MIN: usize = 8;
/// The schemes of a URL of the ledger.
const SCHEMES: [&str; 2] = ["mysql", "mariadb"];

/// Runs all checks of the settings.
pub fn check(config: &Config) -> Vec<Finding> {
    let mut findings = vec![check_secret(config), check_static_dir(config)];
    findings.extend(check_scheme(config));
    findings.extend(check_proxy(config));
    findings.extend(check_traces(config, shop_traces::ARE_BUILT_IN));
    for (check, name, open) in [
        (
            "settings.database_password",
            "DATABASE_URL",
            database_is_open(config.database_url.reveal()),
        ),
        ("settings.redis_password", "REDIS_URL", redis_is_open(config.redis_url.reveal())),
    ] {
        if open {
            let found = format!("{name} has no password, and the server is not on this machine");
            findings.push(Finding::risk(config, check, Risk::EmptyPassword, found));
        }
    }
    findings
}

fn check_secret(config: &Config) -> Finding {
    let check = "settings.secret";
    let secret = config.secret.reveal();
    if secret.is_empty() {
        let remedy = "set it to at least 32 random characters, the same on every instance, such as the output of `openssl rand -hex 32`";
        return Finding::bad(check, State::Failed, "SECKILL_SECRET is not set", remedy);
    }
    // Tokens of the previous one are taken, too.
    let previous = ("SECKILL_SECRET_PREVIOUS", config.secret_previous.reveal());
    for (name, secret) in [("SECKILL_SECRET", secret), previous] {
        if is_known(config, secret) {
            let found = format!("{name} is a published sample or easy to guess");
            return Finding::risk(config, check, Risk::SampleSecret, found);
        }
    }
    Finding::ok(check, "the secret is set")
}

/// Whether others know a secret, or can guess it.
fn is_known(config: &Config, secret: &str) -> bool {
    let mut letters: Vec<char> = secret.chars().collect();
    letters.sort_unstable();
    letters.dedup();
    let is_guessable = (1..DIFFERENT_MIN).contains(&letters.len());
    PUBLISHED.contains(&secret) || (is_guessable && !config.http.addr.is_loopback())
}

fn check_traces(config: &Config, are_built_in: bool) -> Option<Finding> {
    let check = "settings.traces";
    if config.traces.endpoint.is_empty() {
        return None;
    }
    if are_built_in {
        return Some(Finding::ok(check, "traces go to the collector that is set"));
    }
    let remedy = "use the program of the image or of a release, build one with `--features traces`, or leave SECKILL_TRACES_ENDPOINT empty";
    let found = "traces.endpoint is set, but this program was built without traces";
    Some(Finding::bad(check, State::Failed, found, remedy))
}

/// Checks that the folder with the pages has pages, where one is set.
pub fn check_static_dir(config: &Config) -> Finding {
    let check = "settings.static_dir";
    let dir = &config.http.static_dir;
    if dir.as_os_str().is_empty() {
        return Finding::ok(check, "the pages of the shop are inside the program");
    }
    if dir.as_os_str() == NO_PAGES {
        return Finding::ok(check, "no pages are served");
    }
    if dir.join("index.html").is_file() {
        return Finding::ok(check, format!("the pages of the shop are in {}", dir.display()));
    }
    let here = std::env::current_dir().unwrap_or_default();
    let found = format!(
        "the pages of the shop are not in http.static_dir = {} (from {})",
        dir.display(),
        here.display()
    );
    let remedy = "leave SECKILL_HTTP_STATIC_DIR empty for the pages inside the program, or set it to a folder with pages, or to none";
    Finding::bad(check, State::Failed, found, remedy)
}

/// Checks the scheme of the ledger's URL: the driver would ignore a wrong one.
fn check_scheme(config: &Config) -> Option<Finding> {
    let (scheme, _) = config.database_url.reveal().split_once("://")?;
    if SCHEMES.contains(&scheme) {
        return None;
    }
    let found = format!("DATABASE_URL begins with {scheme}://, and the ledger is MySQL or MariaDB");
    let remedy = "write mysql://user:password@host:port/database";
    Some(Finding::bad("settings.database_url", State::Failed, found, remedy))
}

/// Checks that the proxy on a unix socket is trusted: otherwise all buyers have one address.
fn check_proxy(config: &Config) -> Option<Finding> {
    config.http.addr.path()?;
    let trusts = |proxies: Proxies| proxies.contain(LOCAL_PEER);
    if Proxies::parse(&config.http.trusted_proxies).is_ok_and(trusts) {
        return None;
    }
    let found = "http.addr is a unix socket, and http.trusted_proxies does not name 127.0.0.1: all buyers have the address of the proxy";
    let remedy = "add 127.0.0.1 to SECKILL_HTTP_TRUSTED_PROXIES";
    Some(Finding::bad("settings.trusted_proxies", State::Warning, found, remedy))
}

/// Returns whether the database of a URL is on another machine and has no password. A URL that cannot be
/// read is refused elsewhere.
fn database_is_open(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let password = user.split_once(':').map_or("", |(_, password)| password);
    let is_elsewhere = host.split(',').any(|host| !is_here(host_of(host)));
    password.is_empty() && !query.contains("socket=") && is_elsewhere
}

fn redis_is_open(url: &str) -> bool {
    let Ok(address) = Address::parse(url) else { return false };
    !address.has_password() && !address.hosts().into_iter().all(is_here)
}

fn host_of(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

fn is_here(host: &str) -> bool {
    host.is_empty()
        || host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::super::first;
    use super::*;

    #[test]
    fn a_program_without_traces_refuses_the_setting() {
        let mut config = Config::defaults();
        assert!(check_traces(&config, false).is_none());
        config.traces.endpoint = "http://collector:4318/v1/traces".to_owned();
        let state = |are_built_in| check_traces(&config, are_built_in).map(|one| one.state);
        assert_eq!((state(false), state(true)), (Some(State::Failed), Some(State::Ok)));
    }

    #[test]
    fn a_proxy_on_a_unix_socket_has_to_be_trusted() {
        let mut config = Config::defaults();
        let warned = |config: &Config| check_proxy(config).map(|one| one.state);
        assert_eq!(warned(&config), None, "it listens on TCP");
        config.http.addr = "unix:/run/http.sock".parse().expect("an address");
        config.http.trusted_proxies = "10.0.0.0/8".to_owned();
        assert_eq!(warned(&config), Some(State::Warning));
        config.http.trusted_proxies = "10.0.0.0/8, 127.0.0.1".to_owned();
        assert_eq!(warned(&config), None);
    }

    #[test]
    fn a_server_elsewhere_needs_a_password() {
        for (url, open) in [
            ("mysql://root@db.example/seckill", true),
            ("mysql://root:@10.0.0.1:3306/seckill", true),
            ("mysql://db.example/seckill", true),
            ("mysql://root:secret@db.example/seckill", false),
            ("mysql://root@localhost,10.0.0.1/seckill", true),
            ("mysql://root:secret@localhost,10.0.0.1/seckill", false),
            ("mysql://root@localhost,[::1]:3307/seckill", false),
            ("mysql://root@localhost/seckill", false),
            ("mysql://root@[::1]:3306/seckill", false),
            ("mysql://root@127.0.0.1:3306/seckill", false),
            ("mysql://root@localhost/seckill?socket=/run/mysqld.sock", false),
        ] {
            assert_eq!(database_is_open(url), open, "{url}");
        }
        for (url, open) in [
            ("redis://cache.example:6379", true),
            ("redis://:secret@cache.example:6379", false),
            ("redis://127.0.0.1:6379", false),
            ("redis+unix:///run/redis.sock", false),
        ] {
            assert_eq!(redis_is_open(url), open, "{url}");
        }
    }

    #[test]
    fn a_sample_secret_is_refused() {
        let mut config = Config::defaults();
        let checked_secret = |config: &Config, secret: &str| {
            let secret = settings::Secret::new(secret);
            let finding = check_secret(&Config { secret, ..config.clone() });
            first(&[finding], State::Failed)
        };
        assert!(checked_secret(&config, PUBLISHED[0]).is_some());
        let random = "7f1c02a9be44d3568e0b17c2fa9d6635";
        assert_eq!(checked_secret(&config, random), None);
        assert_eq!(
            checked_secret(&config, &"x".repeat(40)),
            None,
            "a loopback address is reachable from this machine only"
        );
        config.http.addr = "0.0.0.0:8080".parse().expect("an address");
        assert!(checked_secret(&config, &"x".repeat(40)).is_some());
        assert_eq!(checked_secret(&config, random), None);
        config.secret_previous = settings::Secret::new(PUBLISHED[0]);
        let previous = checked_secret(&config, random).expect("its tokens are taken");
        assert!(previous.starts_with("SECKILL_SECRET_PREVIOUS"), "{previous}");
        config.accept_risks = "sample-secret".to_owned();
        assert_eq!(checked_secret(&config, PUBLISHED[0]), None);
    }
}
