//! Checks of Redis: whether it can be reached, what it is, and whether it keeps what it is told.

use crate::config::{Config, Risk};
use gates::LIST;
use gates::redis_store::{Condition, DENIED, MissingRights, RedisClient, Topology, is_denial};
use redis_connection::Address;
use shop_domain::outcome::Dependency;

use super::{Finding, State};

/// The name of the check of the servers behind the address.
pub const SHAPE: &str = "redis.shape";
/// The oldest version whose commands the service uses (XAUTOCLAIM).
const VERSION_MIN: [u32; 2] = [6, 2];
/// Strategies on Redis that need no scripts where the server compares and deletes by itself.
const WITHOUT_SCRIPTS: [&str; 3] =
    ["lock-redis-setnx", "lock-redis-setnx-expire", "lock-redis-getset"];

/// Runs all checks of Redis.
pub async fn check(config: &Config, redis: &RedisClient) -> Vec<Finding> {
    match redis.condition().await {
        Ok(condition) => {
            let mut findings = check_condition(config, &condition);
            if let Ok(missing) = redis.missing_rights().await {
                findings.push(check_rights(&missing, redis.prefix()));
            }
            findings.extend(check_shape(config, redis).await);
            findings
        }
        // The server answers, and a second try would not change its answer.
        Err(error) if is_denial(&error) => {
            vec![Finding {
                check: "redis.reachable",
                state: State::Failed,
                found: DENIED.to_owned(),
                remedy: None,
            }]
        }
        Err(error) => {
            let at = address(config);
            let found = format!("Redis at {at} does not answer: {error}");
            let remedy = "start Redis, or correct the host and the port of REDIS_URL; strategies without Redis sell meanwhile";
            vec![Finding::bad("redis.reachable", State::Waiting, found, remedy)]
        }
    }
}

/// The hosts of the URL, without the password.
fn address(config: &Config) -> String {
    let url = config.redis_url.reveal();
    let hosts = Address::parse(url).ok().map(|address| address.hosts().join(", "));
    match hosts.as_deref() {
        None => "REDIS_URL".to_owned(),
        Some("") => "its socket".to_owned(),
        Some(hosts) => hosts.to_owned(),
    }
}

/// Tells which servers answer at the address, and what a failover may cost.
async fn check_shape(config: &Config, redis: &RedisClient) -> Vec<Finding> {
    let (topology, to_write) = tokio::join!(redis.topology(), redis.replicas_to_write());
    let (Ok(topology), Ok(to_write)) = (topology, to_write) else { return Vec::new() };
    let mut findings = vec![check_writes(&topology, to_write, redis.is_encrypted())];
    findings.extend(check_queue(config.queue.replicas_min, &topology));
    findings
}

fn check_writes(topology: &Topology, to_write: Option<u32>, is_encrypted: bool) -> Finding {
    let encrypted = if is_encrypted { "TLS" } else { "no TLS" };
    let told = to_write.map_or("not told".to_owned(), |replicas| replicas.to_string());
    let found = format!("{topology}, {encrypted}, min-replicas-to-write: {told}");
    if topology.replicas == 0 || to_write != Some(0) {
        return Finding::ok(SHAPE, found);
    }
    let found = format!(
        "Redis ({found}) takes writes without a replica: a primary that is cut off goes on, and what it took is lost when a replica takes over"
    );
    Finding::bad(SHAPE, State::Warning, found, "set min-replicas-to-write to 1")
}

/// Compares the replicas that a queued order waits for with those that there are.
fn check_queue(replicas_min: u32, topology: &Topology) -> Option<Finding> {
    let wanted = usize::try_from(replicas_min).unwrap_or(usize::MAX);
    if wanted == 0 {
        return None;
    }
    let check = "redis.queue_replicas";
    let present = topology.replicas / topology.primaries.max(1);
    if present >= wanted {
        let found = format!("{replicas_min} replicas have an order before it is answered 202");
        return Some(Finding::ok(check, found));
    }
    let found = format!(
        "queue.replicas_min is {replicas_min}, and each primary of Redis has {present} replicas: `redis-stream` refuses every order"
    );
    let remedy = "add replicas, or lower queue.replicas_min";
    Some(Finding::bad(check, State::Warning, found, remedy))
}

fn check_condition(config: &Config, condition: &Condition) -> Vec<Finding> {
    let mut findings =
        vec![Finding::ok("redis.reachable", format!("Redis answers at {}", address(config)))];
    findings.extend(condition.version.as_deref().map(check_version));
    findings.push(if condition.is_cluster {
        let found = "Redis runs in cluster mode, and REDIS_URL names a single server: commands for other slots fail";
        let remedy = "write redis+cluster://host:port,host:port";
        Finding::bad("redis.mode", State::Failed, found, remedy)
    } else if condition.is_replica {
        let found = "Redis is a replica, which takes no writes";
        Finding::bad("redis.mode", State::Waiting, found, "let REDIS_URL name the primary")
    } else if condition.is_loading {
        let found = "Redis is loading its data";
        Finding::bad("redis.mode", State::Waiting, found, "wait until it has finished")
    } else {
        Finding::ok("redis.mode", "Redis takes writes")
    });
    findings.push(match &condition.refuses_scripts {
        None => Finding::ok("redis.scripts", "Redis runs Lua scripts"),
        Some(answer) => without_scripts(answer),
    });
    findings.extend(match &condition.evicts {
        None if condition.version.is_none() => None,
        None => Some(Finding::ok("redis.eviction", "Redis keeps every key when its memory is full")),
        Some(policy) => {
            let found = format!(
                "Redis runs with maxmemory-policy {policy}: when memory is short it deletes locks and counters"
            );
            Some(Finding::risk(config, "redis.eviction", Risk::EvictingRedis, found))
        }
    });
    findings
}

/// Names the commands, keys and channels that an account of Redis lacks, in the words of ACL SETUSER.
fn check_rights(missing: &MissingRights, prefix: &str) -> Finding {
    let check = "redis.rights";
    let lacks = missing.telling.iter().chain(&missing.selling);
    let commands: Vec<String> =
        lacks.map(|command| format!("+{}", command.to_ascii_lowercase())).collect();
    let keys = missing.keys.then(|| format!("~{prefix}*"));
    let channels = missing.channels.then(|| format!("&{prefix}*"));
    let rules: Vec<String> = commands.into_iter().chain(keys).chain(channels).collect();
    if rules.is_empty() {
        return Finding::ok(check, "the account of REDIS_URL may do all that the service does");
    }
    let found = format!("the account of REDIS_URL lacks the rights {}", rules.join(" "));
    if missing.lets_sell() {
        let found = format!("{found}: Redis does not tell all of its version, policy and replicas");
        let remedy = "give it the rights with ACL SETUSER, or check these settings yourself";
        return Finding::bad(check, State::Warning, found, remedy);
    }
    let found = format!("{found}: strategies that need them cannot sell");
    let remedy = "give it the rights with ACL SETUSER; strategies without Redis sell meanwhile";
    Finding::bad(check, State::Waiting, found, remedy)
}

/// Valkey has Lua as a module from 9.1 on, which may be absent.
fn without_scripts(answer: &str) -> Finding {
    let cards = LIST.iter().map(|entry| entry.card);
    let scripted = cards.filter(|card| {
        card.needs.contains(&Dependency::Redis) && !WITHOUT_SCRIPTS.contains(&card.name)
    });
    let names: Vec<&str> = scripted.map(|card| card.name).collect();
    let found = format!(
        "Redis runs no Lua scripts ({answer}), so these strategies cannot sell, and their locks cannot be taken: {}",
        names.join(", ")
    );
    let remedy = "load the module lua into Valkey, or use a build with Lua; an account of Redis needs the right +@scripting; strategies without Redis sell meanwhile";
    Finding::bad("redis.scripts", State::Waiting, found, remedy)
}

fn check_version(version: &str) -> Finding {
    let numbers: Vec<u32> = version.split('.').map_while(|number| number.parse().ok()).collect();
    let check = "redis.version";
    if numbers.as_slice() >= &VERSION_MIN[..] {
        return Finding::ok(check, format!("Redis, version {version}"));
    }
    let [major, minor] = VERSION_MIN;
    let found = format!("the version of Redis, {version}, is too old for `redis-stream`");
    Finding::bad(check, State::Warning, found, format!("use Redis >= {major}.{minor}, or Valkey"))
}

#[cfg(test)]
mod tests {
    use super::super::first;
    use super::*;

    #[test]
    fn a_redis_that_loses_keys_or_is_a_cluster_is_refused() {
        let mut config = Config::defaults();
        let usual = Condition {
            version: Some("7.0.15".to_owned()),
            is_cluster: false,
            is_replica: false,
            is_loading: false,
            evicts: None,
            refuses_scripts: None,
        };
        let found = |config: &Config, condition: &Condition| {
            first(&check_condition(config, condition), State::Failed)
        };
        assert_eq!(found(&config, &usual), None);
        let cluster = Condition { is_cluster: true, ..usual.clone() };
        assert!(found(&config, &cluster).is_some_and(|found| found.contains("cluster mode")));
        let refuses_scripts = Some("ERR Could not find scripting engine 'lua'".to_owned());
        let silent = Condition { refuses_scripts, ..usual.clone() };
        let waits = first(&check_condition(&config, &silent), State::Waiting).expect("waited for");
        for words in ["scripting engine 'lua'", "redis-lua", "lock-redis,", "+@scripting"] {
            assert!(waits.contains(words), "{waits}");
        }
        assert!(!waits.contains("setnx"), "{waits}");
        assert!(WITHOUT_SCRIPTS.iter().all(|name| gates::card(name).is_some()));
        let evicts = Condition { evicts: Some("allkeys-lru".to_owned()), ..usual };
        let sentence = found(&config, &evicts).expect("refused");
        assert!(sentence.contains("SECKILL_ACCEPT_RISKS=evicting-redis"), "{sentence}");
        config.accept_risks = "evicting-redis".to_owned();
        assert_eq!(found(&config, &evicts), None);
        let topology = Topology { shape: "cluster", primaries: 3, replicas: 3 };
        assert_eq!(check_writes(&topology, Some(0), false).state, State::Warning);
        assert_eq!(check_writes(&topology, Some(1), false).state, State::Ok);
        assert_eq!(check_queue(0, &topology).map(|found| found.state), None);
        assert_eq!(check_queue(1, &topology).map(|found| found.state), Some(State::Ok));
        assert_eq!(check_queue(2, &topology).map(|found| found.state), Some(State::Warning));
        assert_eq!(check_version("6.0.16").state, State::Warning);
        assert_eq!(check_version("6.2.0").state, State::Ok);
    }
}
