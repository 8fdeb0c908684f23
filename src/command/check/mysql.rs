//! Checks of the ledger: whether it can be reached, what it is, and whether it keeps its promises.

use crate::config::{Config, Risk};
use ledger::schema::{SchemaState, enforces_constraints, newest_version, schema_state};
use ledger::work::monitor::is_writable;
use ledger::write::SHARED_CONNECTIONS;
use mysql_connection::Database;
use mysql_connection::check::{self as server, Fault};
use mysql_connection::engine::Engine;

use super::{Finding, State, first};

/// The message about a database that accepts a forbidden row.
const CHECKS_IGNORED: &str = "MySQL accepted a row that the CHECK constraints of the ledger forbid, so buyers could exceed their limit";
/// What to do about it.
const USE_CHECKS: &str = "use MySQL >= 8.0.16 or MariaDB >= 10.6 with check_constraint_checks=ON, and tables that were made there";
/// Connections beside the pools: the table of locks, the events, an operator's own.
const CONNECTIONS_BESIDE: u64 = 8;

/// Runs all checks of the ledger; the first that does not pass hides those that need it.
pub async fn check(config: &Config, pool: &Database) -> Vec<Finding> {
    let mut findings = vec![reach(config).await];
    if findings[0].state != State::Ok {
        return findings;
    }
    match ask(config, pool, &mut findings).await {
        Ok(()) => findings,
        Err(error) => {
            findings.push(explain(config, Fault::from(&error)));
            findings
        }
    }
}

async fn ask(config: &Config, pool: &Database, findings: &mut Vec<Finding>) -> ledger::Result<()> {
    findings.push(check_version(&server::version(pool).await?));
    findings.push(check_session(&server::session_differences(pool).await?));
    let state = schema_state(pool).await?;
    findings.push(check_schema(state));
    if !state.is_usable() {
        return Ok(());
    }
    if !is_writable(pool).await? {
        findings.push(Finding::bad(
            "ledger.writable",
            State::Waiting,
            "MySQL is read-only for this account",
            "let DATABASE_URL name the server that takes writes, or end its read-only mode",
        ));
        return Ok(());
    }
    findings.push(Finding::ok("ledger.writable", "MySQL takes writes"));
    let engine = Engine::read(pool).await?;
    let is_unsynced = engine.has_binlog && engine.sync_binlog != 1;
    findings.extend(check_durability(config, engine.flush_at_commit, is_unsynced));
    findings.extend(super::engine::check(config, &engine));
    findings.push(if enforces_constraints(pool).await? {
        Finding::ok("ledger.constraints", "CHECK constraints are enforced")
    } else {
        Finding::bad("ledger.constraints", State::Failed, CHECKS_IGNORED, USE_CHECKS)
    });
    findings.push(check_connections(config, server::connections_max(pool).await?));
    Ok(())
}

/// Why the ledger cannot be reached now, if another try may go well.
pub async fn absence(config: &Config) -> Option<String> {
    first(&[reach(config).await], State::Waiting)
}

/// Connects once. One host that answers is enough; without one, the first of them says why.
async fn reach(config: &Config) -> Finding {
    match server::reach(config.database_url.reveal()).await {
        Ok(Ok(host)) => Finding::ok("ledger.reachable", format!("MySQL answers at {host}")),
        Ok(Err(fault)) => explain(config, fault),
        Err(found) => {
            let remedy = "write mysql://user:password@host:port/database";
            Finding::bad("ledger.reachable", State::Failed, found, remedy)
        }
    }
}

/// The host and the port of the URL, without the password.
fn address(config: &Config) -> String {
    let url = config.database_url.reveal();
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    if let Some((_, socket)) = rest.split_once("socket=") {
        return socket.split('&').next().unwrap_or_default().to_owned();
    }
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_owned()
}

/// Says what a fault of the database means, and what to do about it.
fn explain(config: &Config, fault: Fault) -> Finding {
    let at = address(config);
    let state = if matches!(fault, Fault::Tls(_)) { State::Failed } else { State::Waiting };
    let (found, remedy) = match fault {
        Fault::Refused { number, message } => return explain_number(number, &at, &message),
        Fault::NoServer => (
            format!("no server answers at {at} (DATABASE_URL)"),
            "start MySQL, or correct the host and the port",
        ),
        Fault::NoAddress => (
            format!("the host of DATABASE_URL, {at}, has no address"),
            "correct the name of the host",
        ),
        Fault::Silent => (
            format!("MySQL at {at} does not answer"),
            "check the host and the port of DATABASE_URL, and the firewall between",
        ),
        Fault::Link(error) => (
            format!("the connection to MySQL at {at} failed: {error}"),
            "check that MySQL runs there, and the network between",
        ),
        Fault::Tls(error) => (
            format!("MySQL at {at} and this program do not agree on TLS: {error}"),
            "check ssl-mode in DATABASE_URL, and the certificates",
        ),
        Fault::NoConnection => (
            format!("MySQL at {at} gave no connection in time"),
            "raise max_connections of the server, or mysql.acquire_timeout_ms",
        ),
        Fault::Other(error) => (
            format!("MySQL at {at} answered the checks with an error: {error}"),
            "check that it is a MySQL or MariaDB server",
        ),
    };
    Finding::bad("ledger.reachable", state, found, remedy)
}

fn explain_number(number: u16, at: &str, message: &str) -> Finding {
    let (state, found, remedy) = match number {
        1045 | 1698 => (
            State::Failed,
            format!("MySQL at {at} refuses the user or the password of DATABASE_URL"),
            "correct them, make the account with CREATE USER, or set its password with ALTER USER",
        ),
        1044 | 1142 | 1143 => (
            State::Failed,
            format!("the account of DATABASE_URL may not use this database: {message}"),
            "give it all privileges on the database with GRANT",
        ),
        1049 => (
            State::Failed,
            format!("MySQL at {at} has no database of the name in DATABASE_URL"),
            "run `seckill migrate`, which makes the database and its tables",
        ),
        1130 => (
            State::Failed,
            format!("MySQL at {at} takes no connections from this machine"),
            "make the account for the host of this machine",
        ),
        1040 | 1203 => (
            State::Waiting,
            format!("MySQL at {at} has no connection left"),
            "raise max_connections of the server, or lower mysql.pool_max",
        ),
        // ER_BINLOG_STMT_MODE_AND_ROW_ENGINE, of each write at READ COMMITTED.
        1665 => (
            State::Failed,
            format!("MySQL at {at} refuses every write: its binary log takes statements only"),
            "set binlog_format of the server to ROW or MIXED",
        ),
        3 | 28 | 1021 | 1030 | 1114 => (
            State::Waiting,
            format!("MySQL at {at} cannot write, probably because its disk is full: {message}"),
            "free some space on the disk of the database",
        ),
        _ => (
            State::Waiting,
            format!("MySQL at {at} answered the checks with error {number}: {message}"),
            "look the number up in the manual of the server",
        ),
    };
    Finding::bad("ledger.reachable", state, found, remedy)
}

fn check_version(version: &str) -> Finding {
    let maria = version.contains("MariaDB");
    let numbers: Vec<u32> = version
        .split(|character: char| !character.is_ascii_digit())
        .map_while(|number| number.parse().ok())
        .take(3)
        .collect();
    let least: &[u32] = if maria { &[10, 6] } else { &[8, 0, 16] };
    let name = if maria { "MariaDB" } else { "MySQL" };
    let check = "ledger.version";
    if numbers.as_slice() >= least {
        return Finding::ok(check, format!("{name}, version {version}"));
    }
    let found = format!("the version of {name}, {version}, is too old");
    Finding::bad(check, State::Failed, found, USE_CHECKS)
}

/// Another value would lose or change what is written, whatever the other checks say.
fn check_session(differences: &[String]) -> Finding {
    let check = "ledger.session";
    if differences.is_empty() {
        return Finding::ok(check, "each session has the settings that the program relies on");
    }
    let found = format!(
        "the program sets each session up, and the server still has {}",
        differences.join(", ")
    );
    let remedy =
        "let DATABASE_URL name the server itself, or a proxy that keeps what a session sets";
    Finding::bad(check, State::Failed, found, remedy)
}

fn check_schema(state: SchemaState) -> Finding {
    let check = "ledger.schema";
    let newest = newest_version();
    let migrate = "run `seckill migrate` with this program";
    match state {
        SchemaState::Current => {
            Finding::ok(check, format!("the schema fits this program (version {newest})"))
        }
        SchemaState::Missing => {
            Finding::bad(check, State::Waiting, "the database has no tables of Seckill", migrate)
        }
        SchemaState::Old { applied } => Finding::bad(
            check,
            State::Waiting,
            format!("the schema has version {applied}, and this program needs {newest}"),
            migrate,
        ),
        SchemaState::TooNew { needed } => Finding::bad(
            check,
            State::Failed,
            format!(
                "the schema needs a program that knows version {needed}; this one knows {newest}"
            ),
            "start a newer build",
        ),
    }
}

fn check_durability(config: &Config, flush_at_commit: i64, is_unsynced: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut risk = |found: String| {
        findings.push(Finding::risk(config, "ledger.durability", Risk::VolatileDatabase, found));
    };
    if flush_at_commit != 1 {
        risk(format!(
            "MySQL runs with innodb_flush_log_at_trx_commit={flush_at_commit}: orders that were answered 201 are lost when the machine stops"
        ));
    }
    if is_unsynced {
        risk("MySQL writes a binary log with sync_binlog other than 1: after a power cut its replicas may have other orders than the database".to_owned());
    }
    if findings.is_empty() {
        findings
            .push(Finding::ok("ledger.durability", "a COMMIT is on the disk before its answer"));
    }
    findings
}

fn check_connections(config: &Config, max: u64) -> Finding {
    let mysql = &config.mysql;
    let shared = mysql.shared_queues * SHARED_CONNECTIONS;
    let pools = u64::from(mysql.pool_max + mysql.batch_connections_max + shared);
    let wanted = pools + CONNECTIONS_BESIDE;
    let check = "ledger.connections";
    let found = format!("MySQL takes {max} connections, and one instance may open {wanted}");
    if max >= wanted {
        return Finding::ok(check, found);
    }
    let remedy = "raise max_connections of the server, or lower mysql.pool_max";
    Finding::bad(check, State::Warning, found, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_lose_data_are_refused_unless_the_risk_is_accepted() {
        let mut config = Config::defaults();
        let found = |config: &Config, flush_at_commit, binlog_unsynced| {
            let found = check_durability(config, flush_at_commit, binlog_unsynced);
            first(&found, State::Failed)
        };
        assert_eq!(found(&config, 1, false), None);
        for (flush, unsynced) in [(2, false), (0, false), (1, true)] {
            let sentence = found(&config, flush, unsynced).expect("refused");
            assert!(sentence.contains("SECKILL_ACCEPT_RISKS=volatile-database"), "{sentence}");
        }
        config.accept_risks = "volatile-database,evicting-redis".to_owned();
        assert_eq!(found(&config, 0, true), None);
    }

    #[test]
    fn each_error_number_has_its_sentence_and_its_remedy() {
        for (number, state, words) in [
            (1045, State::Failed, "the password of DATABASE_URL"),
            (1044, State::Failed, "may not use this database"),
            (1049, State::Failed, "seckill migrate"),
            (1130, State::Failed, "from this machine"),
            (1040, State::Waiting, "max_connections"),
            (1021, State::Waiting, "disk is full"),
            (1114, State::Waiting, "disk is full"),
            (1665, State::Failed, "binlog_format"),
            (4711, State::Waiting, "4711"),
        ] {
            let finding = explain_number(number, "db:3306", "why");
            assert_eq!(finding.state, state, "{number}");
            assert!(finding.sentence().contains(words), "{number}: {}", finding.sentence());
        }
    }

    #[test]
    fn versions_without_the_checks_or_skip_locked_are_too_old() {
        for (version, state) in [
            ("10.11.18-MariaDB-0+deb12u1", State::Ok),
            ("11.4.2-MariaDB", State::Ok),
            ("10.5.9-MariaDB", State::Failed),
            ("8.0.16", State::Ok),
            ("8.4.3", State::Ok),
            ("9.1.0-commercial", State::Ok),
            ("8.0.15", State::Failed),
            ("5.7.44-log", State::Failed),
        ] {
            assert_eq!(check_version(version).state, state, "{version}");
        }
    }

    #[test]
    fn the_address_of_a_url_has_no_password() {
        for (url, expected) in [
            ("mysql://user:se:cret@db.example:3306/seckill", "db.example:3306"),
            ("mysql://db.example/seckill", "db.example"),
            ("mysql://root:x@localhost/seckill?socket=/run/mysqld.sock", "/run/mysqld.sock"),
        ] {
            let database_url = settings::Secret::new(url);
            let config = Config { database_url, ..Config::defaults() };
            assert_eq!(address(&config), expected);
        }
    }

    #[test]
    fn a_server_that_keeps_its_own_settings_or_has_too_few_connections_is_named() {
        assert_eq!(check_session(&[]).state, State::Ok);
        let kept = check_session(&["sql_mode=ANSI_QUOTES".to_owned()]);
        assert_eq!(kept.state, State::Failed);
        assert!(kept.sentence().contains("still has sql_mode=ANSI_QUOTES"), "{kept:?}");
        let mut config = Config::defaults();
        assert_eq!(check_connections(&config, 200).state, State::Ok);
        let few = check_connections(&config, 5);
        assert_eq!(few.state, State::Warning);
        assert!(few.sentence().contains("max_connections"), "{few:?}");
        config.mysql.shared_queues = 40;
        assert_eq!(check_connections(&config, 200).state, State::Warning, "five for each queue");
    }
}
