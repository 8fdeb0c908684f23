//! Finds out what the account of `REDIS_URL` may not do: tries each command on a key that no command can change, and
//! that expires by itself.

use futures::future::join_all;
use redis::{Cmd, RedisError, RedisResult};

use super::RedisClient;

/// Commands that only read something about the server: without one of them the service sells, but knows less.
const THAT_TELL: [&str; 4] = ["INFO", "ROLE", "CONFIG GET maxmemory", "PING"];

/// Makes `KEY` a text for a moment.
const FIRST: &str = "SET KEY x PX 10000";
/// Commands that let `KEY` expire in any case, and remove it.
const LAST: [&str; 3] = ["PEXPIRE KEY 10000", "UNLINK KEY", "DEL KEY"];

/// Commands that would create `KEY` without an expiry if [`FIRST`] had not created it: they are tried only when `FIRST`
/// was allowed.
const THAT_CREATE: [&str; 8] = [
    "INCR KEY",
    "DECR KEY",
    "HSET KEY f v",
    "HSETNX KEY f v",
    "HINCRBY KEY f 1",
    "SADD KEY m",
    "ZADD KEY 1 m",
    "XADD KEY * f v",
];

/// The other commands, of the program and of its scripts. A command for another type than a text fails, after the check
/// of rights, and the others leave the key as it is.
const THAT_SELL: [&str; 37] = [
    "GET KEY",
    "EXISTS KEY",
    "PTTL KEY",
    "RENAME KEY KEY",
    "HGET KEY f",
    "HDEL KEY f",
    "HEXISTS KEY f",
    "HGETALL KEY",
    "HLEN KEY",
    "HMGET KEY f",
    "HSCAN KEY 0",
    "SCARD KEY",
    "SISMEMBER KEY m",
    "SREM KEY m",
    "ZCARD KEY",
    "ZCOUNT KEY 0 1",
    "ZRANGE KEY 0 1",
    "ZRANGEBYSCORE KEY 0 1",
    "ZREM KEY m",
    "ZREMRANGEBYSCORE KEY 0 1",
    "ZSCORE KEY m",
    "XACK KEY g 0-1",
    "XDEL KEY 0-1",
    "XLEN KEY",
    "XRANGE KEY - + COUNT 1",
    "XPENDING KEY g",
    "XGROUP CREATE KEY g 0",
    "XREADGROUP GROUP g c COUNT 1 STREAMS KEY >",
    "XAUTOCLAIM KEY g c 0 0",
    "EVAL return 0",
    "EVALSHA 0000000000000000000000000000000000000000 0",
    "PUBLISH KEY m",
    "PUBSUB NUMSUB KEY",
    "SCAN 0 COUNT 1",
    "TIME",
    "UNWATCH",
    "WAIT 0 1",
];

/// Commands that would change the shared connection, so they are tried on another one. The last one ends the transaction.
const OF_TRANSACTIONS: [&str; 3] = ["WATCH KEY", "MULTI", "EXEC"];

/// Commands by which a cluster is found.
const OF_CLUSTERS: [&str; 2] = ["CLUSTER NODES", "CLUSTER SLOTS"];

/// What the account may not do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingRights {
    /// Commands that only read something about the server, in capitals.
    pub telling: Vec<&'static str>,
    /// Commands without which strategies cannot sell, in capitals.
    pub selling: Vec<&'static str>,
    /// Whether it may not use keys with our prefix.
    pub keys: bool,
    /// Whether it may not use channels with the prefix of our keys.
    pub channels: bool,
}

impl MissingRights {
    /// Whether the account may do all that strategies need.
    pub fn lets_sell(&self) -> bool {
        self.selling.is_empty() && !self.keys && !self.channels
    }

    /// Notes the answer to one command.
    fn note(&mut self, name: &'static str, tells: bool, answer: Option<RedisError>) {
        let Some(error) = answer else { return };
        let detail = error.detail().unwrap_or_default().to_ascii_lowercase();
        // EXEC is answered with EXECABORT and the reason.
        if error.code() != Some("NOPERM") && !detail.contains("noperm") {
            return;
        }
        if detail.contains("to run the") {
            let list = if tells { &mut self.telling } else { &mut self.selling };
            if !list.contains(&name) {
                list.push(name);
            }
        } else if detail.contains("channel") {
            self.channels = true;
        } else {
            self.keys = true;
        }
    }
}

impl RedisClient {
    /// Tries each command on every primary, and says which are refused to this account. Without `SET` some are not tried.
    ///
    /// # Errors
    /// When no primary is known.
    pub async fn missing_rights(&self) -> RedisResult<MissingRights> {
        let mut missing = MissingRights::default();
        self.try_all(&mut missing, &[FIRST], false).await?;
        if missing.lets_sell() {
            self.try_all(&mut missing, &THAT_CREATE, false).await?;
        }
        self.try_all(&mut missing, &THAT_TELL, true).await?;
        self.try_all(&mut missing, &THAT_SELL, false).await?;
        self.try_alone(&mut missing).await?;
        if self.shared().shape() == "cluster" {
            self.try_all(&mut missing, &OF_CLUSTERS, false).await?;
        }
        for last in LAST {
            self.try_all(&mut missing, &[last], false).await?;
        }
        Ok(missing)
    }

    async fn try_all(
        &self,
        missing: &mut MissingRights,
        lines: &[&'static str],
        tells: bool,
    ) -> RedisResult<()> {
        let key = format!("{}doctor", self.prefix());
        let shared = self.shared();
        let tries = lines.iter().map(|line| {
            let shared = shared.clone();
            let command = command(line, &key);
            async move { shared.ask_each(&command).await }
        });
        for (line, answers) in lines.iter().zip(join_all(tries).await) {
            // Other errors say nothing about rights: that the key is no hash, or is on another primary.
            let refused = |error: &RedisError| error.code() == Some("NOPERM");
            let refusal = answers?.into_iter().filter_map(Result::err).find(refused);
            missing.note(name_of(line), tells, refusal);
        }
        Ok(())
    }

    /// Tries the commands that a caller needs a connection alone for.
    async fn try_alone(&self, missing: &mut MissingRights) -> RedisResult<()> {
        let key = format!("{}doctor", self.prefix());
        for primary in self.shared().primaries().await? {
            // A primary that is away says nothing of rights.
            let Ok(mut own) = primary.own().await else { continue };
            for line in OF_TRANSACTIONS {
                let answer = command(line, &key).exec_async(&mut own).await;
                missing.note(name_of(line), false, answer.err());
            }
            let subscribe = async { primary.subscribe().await?.subscribe(&*key).await };
            missing.note("SUBSCRIBE", false, subscribe.await.err());
        }
        Ok(())
    }
}

/// The name of a line's command.
fn name_of(line: &'static str) -> &'static str {
    line.split(' ').next().unwrap_or(line)
}

/// The command of a line, with the real key.
fn command(line: &str, key: &str) -> Cmd {
    let mut words = line.split(' ').map(|word| if word == "KEY" { key } else { word });
    let mut command = redis::cmd(words.next().unwrap_or_default());
    for word in words {
        command.arg(word);
    }
    command
}

#[cfg(test)]
mod tests {
    use redis::parse_redis_value;

    use super::*;

    fn noted(line: &str) -> MissingRights {
        let value = parse_redis_value(format!("-{line}\r\n").as_bytes()).expect("an error");
        let mut missing = MissingRights::default();
        missing.note("HSET", false, value.extract_error().err());
        missing
    }

    /// The sentences of Redis 6 and 7.
    #[test]
    fn a_command_a_key_and_a_channel_are_told_apart() {
        for line in [
            "NOPERM User shop has no permissions to run the 'hset' command",
            "NOPERM this user has no permissions to run the 'hset' command or its subcommand",
        ] {
            assert_eq!(noted(line).selling, ["HSET"], "{line}");
        }
        for line in [
            "NOPERM No permissions to access a key",
            "NOPERM this user has no permissions to access one of the keys used as arguments",
        ] {
            assert!(noted(line).keys && noted(line).selling.is_empty(), "{line}");
        }
        for line in [
            "NOPERM No permissions to access a channel",
            "NOPERM this user has no permissions to access one of the channels used as arguments",
        ] {
            assert!(noted(line).channels && !noted(line).keys, "{line}");
        }
        assert_eq!(noted("WRONGTYPE Operation against a key"), MissingRights::default());
    }
}
