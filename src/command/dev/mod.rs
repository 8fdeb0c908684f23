//! `seckill dev`: private servers, a demo sale, and the service, in one process. Ctrl-C stops
//! everything that it started and nothing else.

mod extra_servers;
mod install;
mod private_servers;

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::account::password;
use crate::app::App;
use crate::config::{Config, SECRET_LENGTH_MIN, process_variables};
use crate::http::pages::NO_PAGES;
use gates::redis_store::RedisClient;
use ledger::rows::users;
use mysql_connection::engine::Engine;
use mysql_connection::{Database, hosts};
use settings::Secret;
use shop_domain::{UserId, Username};
use time::OffsetDateTime;
use web::listener::Listener;
use web::token::Role;

use super::check::State;
use super::check::engine::failover_losses;
use super::{ExitResult, seed, serve};
use private_servers::{RedisShape, Replication, Servers, Shape};

/// The demo accounts. They are marked in the database, and only this command lets them sign in.
/// Their numbers are 1 and 2.
const DEMO_ACCOUNTS: [(&str, &str, Role); 2] =
    [("demo", "demo-password", Role::Buyer), ("operator", "operator-password", Role::Admin)];

/// The arguments: the shapes of the private servers.
#[derive(clap::Args)]
pub struct Arguments {
    /// Start a replicated set of database servers instead of one.
    #[arg(long)]
    mysql: Option<Replication>,
    /// The shape of the private Redis; SECKILL_WITH=redis-cluster says the same.
    #[arg(long, value_enum)]
    redis: Option<RedisShape>,
    /// Let the demo accounts sign in from other machines, too. Everybody knows their passwords: only for a demonstration.
    #[arg(long)]
    public_demo_accounts: bool,
}

/// Starts the servers and the service, and serves until a signal.
pub async fn run(file: Option<&Path>, arguments: &Arguments) -> ExitResult {
    // Without the file of an earlier run: its servers have ended.
    let mut config = Config::load(file, process_variables()?)?;
    super::start_logging(&config)?;
    // An address that another program uses, or a folder without pages, is found before servers are started.
    if config.http.addr.path().is_some() {
        return Err(
            "seckill dev serves a browser: give SECKILL_HTTP_ADDR an address of TCP".to_owned()
        );
    }
    drop(Listener::bind(&config.http.addr, config.http.socket_mode)?);
    let pages = super::check::settings::check_static_dir(&config);
    if pages.state == State::Failed {
        return Err(pages.sentence());
    }
    let dir = config.data.dir.clone();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&dir)
        .map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
    let disk = super::check::machine::check_free_space(&dir);
    if disk.state == State::Failed {
        return Err(disk.sentence());
    }
    if config.secret.is_empty() {
        config.secret = Secret::new(secret(&dir.join("secret"))?);
    }
    if config.sections.text("draw", "signing_key") == Some("") {
        // Its format is that of the secret: 64 hexadecimal digits.
        config.sections.set("draw", "signing_key", secret(&dir.join("draw-key"))?);
    }
    let (wanted, redis) =
        extra_servers::wanted(&std::env::var("SECKILL_WITH").unwrap_or_default())?;
    let redis = arguments.redis.or(redis).unwrap_or_default();
    let shape = Shape { mysql: arguments.mysql, redis };
    let mut servers = Box::pin(start_servers(shape, &mut config, &dir)).await?;
    // On servers of its own it is the only build.
    let is_alone = !servers.0.is_empty();
    let extra = extra_servers::start(&wanted, &mut config, &dir, &mut servers);
    Box::pin(extra).await.map_err(|error| error.to_string())?;
    // Their passwords are known to everyone, so they work for this machine alone.
    config.demo_accounts = config.http.addr.is_loopback() || arguments.public_demo_accounts;
    let served = Box::pin(serve_shop(config, shape.mysql, &dir, &servers, is_alone)).await;
    // The servers of these addresses have ended.
    let _ = fs::remove_file(dir.join("env"));
    if !servers.0.is_empty() {
        say("stopping the private servers");
    }
    servers.stop().await;
    served
}

/// Starts a private database and a private Redis, unless both addresses are configured.
async fn start_servers(shape: Shape, config: &mut Config, dir: &Path) -> Result<Servers, String> {
    match (config.database_url.is_empty(), config.redis_url.is_empty()) {
        (false, _) if shape.mysql.is_some() => {
            Err("--mysql starts database servers, and DATABASE_URL names others: leave one out"
                .to_owned())
        }
        (false, false) => {
            say("using DATABASE_URL and REDIS_URL; no server is started");
            Ok(Servers::default())
        }
        (true, true) => {
            install::install_servers().await?;
            say("starting a private database and a private Redis");
            let started = super::progress::while_waiting(
                "starting the servers",
                Servers::start(shape, config, dir),
            );
            let servers = Box::pin(started).await.map_err(|error| error.to_string())?;
            let versions: Vec<String> =
                servers.0.iter().map(|server| short(server.version())).collect();
            say(&versions.join(", "));
            Ok(servers)
        }
        _ => Err("set both DATABASE_URL and REDIS_URL, or neither".to_owned()),
    }
}

async fn serve_shop(
    config: Config,
    shape: Option<Replication>,
    dir: &Path,
    servers: &Servers,
    is_alone: bool,
) -> ExitResult {
    RedisClient::new(&config)?.takes_password().await?;
    super::migrate::migrate(&config, is_alone).await?;
    let pool = mysql_connection::pool(&config)?;
    if config.demo_accounts {
        make_demo_accounts(&pool).await?;
    }
    pool.close().await;
    if shape.is_some() {
        for line in engine_lines(&config).await? {
            say(&line);
        }
    }
    if seed::seed(&config).await? {
        say("made the demo sales");
    }
    let app = App::build(config.clone()).await?;
    let addr = app.addr().ok_or("there is no address of TCP")?;
    let url = format!("http://{addr}");
    write_env(&dir.join("env"), &url, &config)?;
    greet(&url, &config);
    let lifecycle = app.lifecycle();
    let error = tokio::select! {
        ended = serve::until_stopped(app) => return ended,
        error = servers.ended() => error,
    };
    lifecycle.stop();
    Err(error.to_string())
}

/// What the replicated ledger is, and what its failover may lose.
async fn engine_lines(config: &Config) -> Result<Vec<String>, String> {
    let pool = mysql_connection::pool(config)?;
    let engine = Engine::read(&pool).await;
    pool.close().await;
    let engine = engine.map_err(|error| format!("the ledger does not say what it is: {error}"))?;
    let losses = failover_losses(&engine).into_iter().map(|loss| format!("note: {loss}"));
    let hosts = format!(
        "ledger hosts: {}",
        hosts::read(config.database_url.reveal())?
            .iter()
            .map(hosts::name)
            .collect::<Vec<_>>()
            .join(", ")
    );
    Ok([hosts, format!("ledger: {engine}")].into_iter().chain(losses).collect())
}

async fn make_demo_accounts(pool: &Database) -> Result<(), String> {
    for ((name, password, role), number) in DEMO_ACCOUNTS.into_iter().zip(1..) {
        let id = UserId::new(number).ok_or("a demo account has no number")?;
        let hash = password::hash(password).ok_or("a password could not be hashed")?;
        let username = Username::parse(name).ok_or("a demo account has no acceptable name")?;
        let account = users::NewAccount {
            username: &username,
            password_hash: &hash,
            role: role.as_str(),
            demo: true,
        };
        users::create_demo(pool, id, &account, OffsetDateTime::now_utc())
            .await
            .map_err(|error| format!("the demo accounts could not be made: {error}"))?;
    }
    Ok(())
}

fn greet(url: &str, config: &Config) {
    // On all addresses it is open at this one, too, which every browser knows.
    let url = url.replace("//0.0.0.0:", "//127.0.0.1:");
    let mut text = format!("\n  Seckill is open:  {url}\n");
    if cfg!(feature = "book") && config.http.static_dir.as_os_str() != NO_PAGES {
        text += &format!("  documentation:    {url}/book/\n");
    }
    if config.demo_accounts {
        for (name, password, role) in DEMO_ACCOUNTS {
            text += &format!("  demo account:     {name} / {password}  ({})\n", role.as_str());
        }
    }
    // An archive has no load test to compile.
    if Path::new("scripts/loadtest").exists() {
        text += "  a load test:      make loadtest   (in a second terminal)\n";
    }
    print_if_read(&format!("{text}  stop:             Ctrl-C\n"));
}

/// The version of a server from its own text, without path and build options.
fn short(version: &str) -> String {
    let words = version.split_whitespace().filter(|word| !word.starts_with('/'));
    words
        .take_while(|word| *word != "for" && !word.starts_with("sha="))
        .collect::<Vec<_>>()
        .join(" ")
}

fn say(line: &str) {
    print_if_read(&format!("seckill: {line}"));
}

/// Prints a line. A reader that has gone does not end the shop, which stops its servers in order.
fn print_if_read(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Reads the secret of this data directory; makes one if there is none, or if `serve` would refuse
/// it.
fn secret(path: &Path) -> Result<String, String> {
    let failed =
        |error: std::io::Error| format!("cannot keep a secret in {}: {error}", path.display());
    match fs::read_to_string(path) {
        Ok(secret) if secret.trim().len() >= SECRET_LENGTH_MIN => {
            return Ok(secret.trim().to_owned());
        }
        Ok(_) => say(&format!(
            "{} has fewer than {SECRET_LENGTH_MIN} characters; a new secret is made, and everybody signs in again",
            path.display()
        )),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let secret = hex::encode(rand::random::<[u8; 32]>());
    write_private(path, &secret).map_err(failed)?;
    Ok(secret)
}

/// Writes the settings for a second terminal, one `KEY=value` a line.
fn write_env(path: &Path, url: &str, config: &Config) -> Result<(), String> {
    let mut text = format!(
        "SECKILL_URL={url}\nDATABASE_URL={}\nREDIS_URL={}\nSECKILL_SECRET={}\n",
        config.database_url.reveal(),
        config.redis_url.reveal(),
        config.secret.reveal()
    );
    for (key, file) in [
        ("SECKILL_REDIS_ROOT_FILE", &config.redis.root_file),
        ("SECKILL_REDIS_CLIENT_FILE", &config.redis.client_file),
        ("SECKILL_REDIS_CLIENT_KEY_FILE", &config.redis.client_key_file),
    ] {
        if !file.as_os_str().is_empty() {
            text.push_str(&format!("{key}={}\n", file.display()));
        }
    }
    if let Some(key) = config.sections.text("draw", "signing_key") {
        text.push_str(&format!("SECKILL_DRAW_SIGNING_KEY={key}\n"));
    }
    for (key, value) in extra_servers::addresses(config) {
        if !value.is_empty() {
            text.push_str(&format!("{key}={value}\n"));
        }
    }
    write_private(path, &text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Writes a file that only its owner can read, in one step.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let fresh = path.with_extension("new");
    let _ = fs::remove_file(&fresh);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_is_too_short_is_replaced_and_a_good_one_is_kept() {
        let dir = std::env::temp_dir().join(format!("seckill-secret-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder");
        let path = dir.join("secret");
        let first = secret(&path).expect("made");
        assert_eq!(first.len(), 64);
        assert_eq!(secret(&path), Ok(first.clone()), "it is kept");
        for short in ["", "\n", "0123456789", &"x".repeat(SECRET_LENGTH_MIN - 1)] {
            fs::write(&path, short).expect("written");
            let made = secret(&path).expect("made");
            assert_eq!(made.len(), 64, "{short:?} was taken");
            assert_eq!(fs::read_to_string(&path).expect("kept"), made);
        }
        let _ = fs::remove_dir_all(&dir);
    }
}
