//! The client of Redis: the connection, the prefix of the keys, and the checks of every server's
//! settings.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use redis::{ErrorKind, InfoDict, RedisError, RedisResult, Value, from_redis_value};
use redis_connection::{
    Address, Certificates, Options, OwnConnection, SharedConnection, Topology, is_command_refused,
    is_denial,
};

use super::DENIED;
use shop_domain::ItemId;

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The options of a client of Redis. A program makes them from its own settings.
#[derive(Clone)]
pub struct RedisOptions {
    /// The URL, with the password; see the crate `redis-connection` for its forms.
    pub url: String,
    /// The beginning of every key.
    pub prefix: String,
    /// How long a command may take, in milliseconds.
    pub command_timeout_ms: u64,
    /// How long a command that was not sent is tried again, in milliseconds.
    pub retry_ms_max: u64,
    /// A PEM file with own authorities; empty: those of the system.
    pub root_file: PathBuf,
    /// A PEM file with the certificate that the client shows; empty: none.
    pub client_file: PathBuf,
    /// A PEM file with the key of the client's certificate.
    pub client_key_file: PathBuf,
}

/// The client of Redis. Clones share everything.
#[derive(Clone)]
pub struct RedisClient {
    shared: SharedConnection,
    address: Arc<Address>,
    prefix: Arc<str>,
}

impl RedisClient {
    /// Reads the URL and the certificates; connects when first used, and again by itself after a
    /// loss.
    ///
    /// # Errors
    /// A sentence when the URL or a certificate cannot be read.
    pub fn new(options: impl Into<RedisOptions>) -> Result<Self, String> {
        let options = options.into();
        if options.url.is_empty() {
            return Err("REDIS_URL is not set: redis://host:port".to_owned());
        }
        let unreadable = |error| format!("REDIS_URL cannot be read: {error}");
        let address = Address::parse(&options.url).map_err(unreadable)?;
        let address = address.with_certificates(&certificates(&options)?).map_err(unreadable)?;
        let shared = SharedConnection::new(&address, limits(&options)).map_err(unreadable)?;
        let prefix = options.prefix.as_str().into();
        Ok(Self { shared, address: Arc::new(address), prefix })
    }

    /// The shared connection.
    pub fn shared(&self) -> SharedConnection {
        self.shared.clone()
    }

    /// The prefix of every key.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The key of a part of an item. All parts have one hash tag, so a script may use several of them.
    pub(super) fn item_key(&self, item: ItemId, part: &str) -> String {
        format!("{}{{item:{item}}}:{part}", self.prefix)
    }

    /// Whether everything that is sent is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.address.is_encrypted()
    }

    /// Watches a key on a connection of the caller's own, to the server of the key.
    ///
    /// # Errors
    /// When that server cannot be reached.
    pub async fn watch(&self, key: &str) -> RedisResult<OwnConnection> {
        self.shared.watch(key).await
    }

    /// Counts the servers.
    ///
    /// # Errors
    /// When no server tells.
    pub async fn topology(&self) -> RedisResult<Topology> {
        self.shared.topology().await
    }

    /// Whether the address names one server, and neither Sentinels nor a cluster.
    pub fn is_single(&self) -> bool {
        self.address.is_single()
    }

    /// The least number of replicas that must be connected for a primary to take writes: the
    /// smallest figure of all primaries, `None` when one does not tell.
    ///
    /// # Errors
    /// When a server does not answer in time.
    pub async fn replicas_to_write(&self) -> RedisResult<Option<u32>> {
        let settings = self.setting_of_each("min-replicas-to-write").await?;
        let numbers = settings.into_iter().map(|text| text?.parse::<u32>().ok());
        Ok(numbers.collect::<Option<Vec<u32>>>().and_then(|all| all.into_iter().min()))
    }

    /// Sends INFO to every primary; it is empty where the account may not use it. Without the parameter of a section,
    /// since servers before version 7 take only one.
    pub(super) async fn info_of_each(&self) -> RedisResult<Vec<InfoDict>> {
        let answers = self.shared.ask_each(&redis::cmd("INFO")).await?;
        let read = |answer: RedisResult<Value>| match answer {
            Err(error) if is_command_refused(&error) => Ok(InfoDict::new("")),
            answer => Ok(from_redis_value(answer?)?),
        };
        answers.into_iter().map(read).collect()
    }

    /// A setting of every primary; `None` where the server does not tell.
    pub(super) async fn setting_of_each(&self, name: &str) -> RedisResult<Vec<Option<String>>> {
        let answers = self.shared.ask_each(redis::cmd("CONFIG").arg("GET").arg(name)).await?;
        let value = |answer: RedisResult<Value>| {
            let pair: Vec<String> = from_redis_value(answer.ok()?).ok()?;
            pair.into_iter().nth(1)
        };
        Ok(answers.into_iter().map(value).collect())
    }

    /// Checks whether Redis accepts the password of the settings. A server that does not answer
    /// passes.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub async fn takes_password(&self) -> Result<(), String> {
        match self.ping().await {
            Err(error) if is_denial(&error) => Err(DENIED.to_owned()),
            _ => Ok(()),
        }
    }

    /// Sends a PING to every primary and waits for their answers.
    ///
    /// # Errors
    /// When one of them does not answer in time.
    pub async fn ping(&self) -> RedisResult<()> {
        let answers = self.shared.ask_each(&redis::cmd("PING")).await?;
        let all = answers.len();
        let mut failed: Vec<RedisError> = answers.into_iter().filter_map(Result::err).collect();
        // A server that refuses the word to this account has answered.
        failed.retain(|error| !is_command_refused(error));
        let count = failed.len();
        match failed.pop() {
            None => Ok(()),
            Some(error) if all == 1 => Err(error),
            Some(error) => {
                let why = format!("{count} of {all} primaries: {error}");
                Err(RedisError::from((ErrorKind::ClusterConnectionNotFound, "no answer", why)))
            }
        }
    }
}

/// Makes a shared connection to another server, which connects when it is first used, and again
/// after a loss.
///
/// # Errors
/// A sentence when the URL cannot be read.
pub fn connect_when_used(
    url: &str,
    options: impl Into<RedisOptions>,
) -> Result<SharedConnection, String> {
    let options = options.into();
    let said = |error: redis_connection::InvalidAddress| error.to_string();
    let address = Address::parse(url).map_err(said)?;
    if !address.is_single() {
        return Err("each must be one independent server".to_owned());
    }
    let address = address.with_certificates(&certificates(&options)?).map_err(said)?;
    SharedConnection::new(&address, limits(&options)).map_err(said)
}

fn limits(options: &RedisOptions) -> Options {
    Options {
        connect_timeout: CONNECT_TIMEOUT,
        command_timeout: Duration::from_millis(options.command_timeout_ms),
        retry_max: Duration::from_millis(options.retry_ms_max),
    }
}

fn certificates(options: &RedisOptions) -> Result<Certificates, String> {
    let read = |path: &Path| {
        let unreadable = |error| format!("{} cannot be read: {error}", path.display());
        std::fs::read(path).map_err(unreadable)
    };
    let set = |path: &Path| !path.as_os_str().is_empty();
    let roots = set(&options.root_file).then(|| read(&options.root_file)).transpose()?;
    let client = match (set(&options.client_file), set(&options.client_key_file)) {
        (true, true) => Some((read(&options.client_file)?, read(&options.client_key_file)?)),
        _ => None,
    };
    Ok(Certificates { roots, client })
}
