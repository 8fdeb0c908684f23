//! Compare-and-delete and compare-and-set of one key: by the server's own commands where it has them,
//! else by scripts.
//!
//! The servers are asked which command they have when a key is first compared. A server that refuses the command
//! later, such as an older one after a failover, did not run it: the script follows at once, and from then on always.

use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use ::redis::{Cmd, RedisResult, Value, cmd, from_redis_value};
use ::redis_connection::{Script, is_command_refused, is_unknown_script};

use super::Connection;
use crate::threads::locked;

static DELETE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("value_release.lua")));
static EXPIRE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("value_renew.lua")));
static SET: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("counter_compare_and_set.lua")));

/// The commands of servers that compare by themselves.
#[derive(Clone, Copy)]
enum Native {
    /// `DELIFEQ key value`: Valkey 9.0.
    DelIfEq,
    /// `DELEX key IFEQ value`: Redis 8.4.
    DelEx,
}

/// Comparisons of a key's whole value, on the servers behind one connection.
#[derive(Default)]
pub(crate) struct Compare {
    /// What the servers answered, if they were asked: `Some(None)` if they have none of the commands, or refused one.
    native: Mutex<Option<Option<Native>>>,
}

impl Compare {
    /// Deletes the key if it has this value; returns whether it had.
    pub(crate) async fn delete(
        &self,
        redis: &impl Connection,
        key: &str,
        value: &str,
    ) -> RedisResult<bool> {
        let native = self.native(redis).await?.map(|native| match native {
            Native::DelIfEq => words(&["DELIFEQ", key, value]),
            Native::DelEx => words(&["DELEX", key, "IFEQ", value]),
        });
        self.run(redis, native, &DELETE, key, &[value]).await
    }

    /// Starts the expiry of the key anew if it has this value; returns whether it had. Never creates the key.
    pub(crate) async fn expire(
        &self,
        redis: &impl Connection,
        key: &str,
        value: &str,
        lease: Duration,
    ) -> RedisResult<bool> {
        let native = self.native(redis).await?.map(|_| set_expiry(key, value, lease));
        self.run(redis, native, &EXPIRE, key, &[value, &lease_ms(lease)]).await
    }

    /// Starts the expiries of several keys anew, in one round trip: key, value and lease of each. `None` stands for one
    /// that failed.
    pub(crate) async fn expire_each(
        &self,
        redis: &impl Connection,
        keys: &[(String, &str, Duration)],
    ) -> RedisResult<Vec<Option<bool>>> {
        let is_native = self.native(redis).await?.is_some();
        let mut pipeline = ::redis::pipe();
        for (key, value, lease) in keys {
            pipeline.add_command(if is_native {
                set_expiry(key, value, *lease)
            } else {
                EXPIRE.by_digest(&[key], &[*value, &lease_ms(*lease)])
            });
        }
        let answers = redis.clone().req_packed_commands(&pipeline, 0, keys.len()).await?;
        let mut renewed = Vec::with_capacity(keys.len());
        for (answer, (key, value, lease)) in answers.into_iter().zip(keys) {
            renewed.push(match answer.extract_error() {
                Ok(answer) => from_redis_value(answer).ok(),
                Err(error) if is_unknown_script(&error) => {
                    self.expire(redis, key, value, *lease).await.ok()
                }
                Err(error) if is_native && is_command_refused(&error) => {
                    self.keep_to_scripts();
                    self.expire(redis, key, value, *lease).await.ok()
                }
                Err(_) => None,
            });
        }
        Ok(renewed)
    }

    /// Sets a number if it is `expected`; an absent one is 0. Returns whether it was.
    pub(crate) async fn set(
        &self,
        redis: &impl Connection,
        key: &str,
        expected: i64,
        new: i64,
    ) -> RedisResult<bool> {
        let [expected_text, new] = [expected, new].map(|number| number.to_string());
        // `IFEQ 0` would refuse an absent number.
        let native = if expected == 0 { None } else { self.native(redis).await? };
        let native = native.map(|_| words(&["SET", key, &new, "IFEQ", &expected_text]));
        self.run(redis, native, &SET, key, &[&expected_text, &new]).await
    }

    /// Sends the native command; runs the script if there is none, or if the server refuses it.
    async fn run(
        &self,
        redis: &impl Connection,
        native: Option<Cmd>,
        script: &Script,
        key: &str,
        arguments: &[&str],
    ) -> RedisResult<bool> {
        let mut redis = redis.clone();
        if let Some(command) = native {
            match command.query_async(&mut redis).await {
                Err(error) if is_command_refused(&error) => self.keep_to_scripts(),
                answer => return answer,
            }
        }
        script.run(&mut redis, &[key], arguments).await
    }

    /// The command that the servers have; asks them if they were not asked yet.
    async fn native(&self, redis: &impl Connection) -> RedisResult<Option<Native>> {
        let known = *locked(&self.native);
        match known {
            Some(native) => Ok(native),
            None => self.ask(redis).await,
        }
    }

    async fn ask(&self, redis: &impl Connection) -> RedisResult<Option<Native>> {
        let question = words(&["COMMAND", "INFO", "DELIFEQ", "DELEX"]);
        let answer: RedisResult<Value> = question.query_async(&mut redis.clone()).await;
        let native = match answer {
            // Unknown ones are nil.
            Ok(Value::Array(known)) => match known.iter().position(|one| *one != Value::Nil) {
                Some(0) => Some(Native::DelIfEq),
                Some(_) => Some(Native::DelEx),
                None => None,
            },
            Ok(_) => None,
            // It answers, and says nothing about its commands.
            Err(error) if error.code().is_some() => None,
            Err(error) => return Err(error),
        };
        // A refusal that another task met meanwhile stays.
        Ok(*locked(&self.native).get_or_insert(native))
    }

    fn keep_to_scripts(&self) {
        *locked(&self.native) = Some(None);
    }
}

/// `SET` with the value that the key has: only its expiry changes.
fn set_expiry(key: &str, value: &str, lease: Duration) -> Cmd {
    words(&["SET", key, value, "IFEQ", value, "PX", &lease_ms(lease)])
}

fn words(words: &[&str]) -> Cmd {
    let mut command = cmd(words[0]);
    command.arg(&words[1..]);
    command
}

fn lease_ms(lease: Duration) -> String {
    lease.as_millis().to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use ::redis::aio::ConnectionLike;
    use ::redis::{Pipeline, RedisFuture, parse_redis_value};

    use super::*;

    const UNKNOWN: &str = "-ERR unknown command 'DELIFEQ', with args beginning with: 'k' 'me'\r\n";
    const HAS_DELIFEQ: &str = "*2\r\n*1\r\n$7\r\ndelifeq\r\n*-1\r\n";
    const HAS_DELEX: &str = "*2\r\n*-1\r\n*1\r\n$5\r\ndelex\r\n";
    const HAS_NONE: &str = "*2\r\n*-1\r\n*-1\r\n";
    const LEASE: Duration = Duration::from_secs(4);

    /// A server that gives the listed answers and keeps what it was sent.
    #[derive(Clone, Default)]
    struct Listed {
        answers: Arc<Mutex<VecDeque<&'static str>>>,
        sent: Arc<Mutex<Vec<String>>>,
    }

    impl Listed {
        fn of(answers: &[&'static str]) -> Self {
            let answers = Arc::new(Mutex::new(answers.iter().copied().collect()));
            Self { answers, sent: Arc::default() }
        }

        /// What it was sent, without the digests and the codes of scripts. All answers were used.
        fn sent(&self) -> Vec<String> {
            assert_eq!(self.answers.lock().expect("answers").len(), 0, "answers are left");
            self.sent.lock().expect("sent").clone()
        }

        fn exchange(&self, command: &Cmd) -> RedisResult<Value> {
            let mut words: Vec<_> = command
                .args_iter()
                .map(|argument| match argument {
                    ::redis::Arg::Simple(word) => String::from_utf8_lossy(word).into_owned(),
                    _ => String::new(),
                })
                .collect();
            if words[0].starts_with("EVAL") {
                words.drain(1..3);
            }
            self.sent.lock().expect("sent").push(words.join(" "));
            let answer = self.answers.lock().expect("answers").pop_front().expect("an answer");
            Ok(parse_redis_value(answer.as_bytes()).expect("RESP"))
        }
    }

    impl ConnectionLike for Listed {
        fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
            Box::pin(async move { self.exchange(command)?.extract_error() })
        }

        fn req_packed_commands<'a>(
            &'a mut self,
            pipeline: &'a Pipeline,
            _offset: usize,
            _count: usize,
        ) -> RedisFuture<'a, Vec<Value>> {
            Box::pin(
                async move { pipeline.cmd_iter().map(|command| self.exchange(command)).collect() },
            )
        }

        fn get_db(&self) -> i64 {
            0
        }
    }

    #[tokio::test]
    async fn each_server_gets_the_words_that_it_knows() {
        let cases = [
            (HAS_DELIFEQ, "DELIFEQ k me", "SET k me IFEQ me PX 4000", "SET k 8 IFEQ 7"),
            (HAS_DELEX, "DELEX k IFEQ me", "SET k me IFEQ me PX 4000", "SET k 8 IFEQ 7"),
            (HAS_NONE, "EVALSHA k me", "EVALSHA k me 4000", "EVALSHA k 7 8"),
        ];
        for (has, delete, expire, set) in cases {
            let done = if has == HAS_NONE { ":1\r\n" } else { "+OK\r\n" };
            let redis = Listed::of(&[has, ":1\r\n", done, done, ":0\r\n", "$-1\r\n"]);
            let compare = Compare::default();
            assert!(compare.delete(&redis, "k", "me").await.expect("deleted"));
            assert!(compare.expire(&redis, "k", "me", LEASE).await.expect("renewed"));
            assert!(compare.set(&redis, "k", 7, 8).await.expect("set"));
            assert!(!compare.delete(&redis, "k", "me").await.expect("not deleted"));
            assert!(!compare.expire(&redis, "k", "me", LEASE).await.expect("not renewed"));
            let info = "COMMAND INFO DELIFEQ DELEX";
            assert_eq!(redis.sent(), [info, delete, expire, set, delete, expire]);
        }
    }

    #[tokio::test]
    async fn a_command_that_a_server_refuses_is_not_done_and_the_script_follows_for_good() {
        for refusal in
            [UNKNOWN, "-NOPERM User default has no permissions to run the 'delifeq' command\r\n"]
        {
            // The value is another one, says the script.
            let redis = Listed::of(&[HAS_DELIFEQ, refusal, ":0\r\n", ":1\r\n"]);
            let compare = Compare::default();
            assert!(!compare.delete(&redis, "k", "me").await.expect("not deleted"));
            assert!(compare.delete(&redis, "k", "me").await.expect("deleted"));
            let script = "EVALSHA k me";
            assert_eq!(redis.sent()[1..], ["DELIFEQ k me", script, script]);
        }
        // A server that runs no scripts either has deleted nothing.
        let redis = Listed::of(&[HAS_DELIFEQ, UNKNOWN, "-ERR unknown command 'EVALSHA'\r\n"]);
        assert!(Compare::default().delete(&redis, "k", "me").await.is_err());
    }

    #[tokio::test]
    async fn renewals_that_a_server_refuses_are_made_by_scripts() {
        let syntax = "-ERR syntax error\r\n";
        let redis = Listed::of(&[HAS_DELIFEQ, "+OK\r\n", "$-1\r\n", syntax, ":1\r\n", ":1\r\n"]);
        let compare = Compare::default();
        let keys = ["a", "b", "c"].map(|key| (key.to_owned(), "me", LEASE));
        let renewed = compare.expire_each(&redis, &keys).await.expect("answers");
        assert_eq!(renewed, [Some(true), Some(false), Some(true)]);
        let renewed = compare.expire_each(&redis, &keys[..1]).await.expect("answers");
        assert_eq!(renewed, [Some(true)]);
        assert_eq!(redis.sent()[4..], ["EVALSHA c me 4000", "EVALSHA a me 4000"]);
    }

    #[tokio::test]
    async fn an_absent_number_is_compared_by_the_script() {
        let redis = Listed::of(&[":1\r\n"]);
        assert!(Compare::default().set(&redis, "k", 0, 5).await.expect("set"));
        assert_eq!(redis.sent(), ["EVALSHA k 0 5"]);
    }
}
