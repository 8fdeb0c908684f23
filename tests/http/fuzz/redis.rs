//! A Redis that answers anything: what the gates' commands make of it.

use std::sync::Mutex;

use gates::redis_store::{Counter, CounterAndQueue, Counters, RedisClient};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::dice::{self, Dice};
use crate::support::prelude::*;

/// One answer in this many is damaged. A damaged answer ends the connection, and a new one takes
/// time.
const DAMAGED: usize = 200;

/// What a command is answered: damaged now and then, so that the next one needs a new connection.
type Answer = Arc<Mutex<Vec<u8>>>;

/// Answers each read with the current `answer`, until the test ends.
async fn serve(listener: TcpListener, answer: Answer) {
    loop {
        let Ok((mut client, _)) = listener.accept().await else { return };
        let answer = Arc::clone(&answer);
        tokio::spawn(async move {
            let mut bytes = [0; 4_096];
            while let Ok(1..) = client.read(&mut bytes).await {
                // A connection is greeted properly, or nothing would ever be asked.
                let greeting = bytes.windows(6).any(|word| word.eq_ignore_ascii_case(b"CLIENT"));
                let said = if greeting {
                    b"+OK\r\n+OK\r\n".to_vec()
                } else {
                    answer.lock().expect("no panic while it is held").clone()
                };
                if client.write_all(&said).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// Any value that Redis could answer.
fn value(dice: &mut Dice, depth: usize) -> Vec<u8> {
    const NUMBERS: [i64; 6] = [0, 1, -1, 10, i64::MAX, i64::MIN];
    const TEXTS: [&str; 7] =
        ["7", "-10", "18446744073709551615", "1.5", "", "maxmemory_policy:\r\n", "\u{1f4a1}"];
    match dice.below(if depth == 0 { 4 } else { 6 }) {
        0 => format!(":{}\r\n", NUMBERS[dice.below(NUMBERS.len())]).into_bytes(),
        1 => b"$-1\r\n".to_vec(),
        2 => {
            let text = TEXTS[dice.below(TEXTS.len())];
            format!("${}\r\n{text}\r\n", text.len()).into_bytes()
        }
        3 => b"-ERR no such thing\r\n".to_vec(),
        _ => {
            let count = dice.below(4);
            let mut bytes = format!("*{count}\r\n").into_bytes();
            for _ in 0..count {
                bytes.extend(value(dice, depth - 1));
            }
            bytes
        }
    }
}

#[test]
fn whatever_a_server_answers_nothing_panics() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let answer = Answer::default();
    let (listener, addr) = runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let addr = listener.local_addr().expect("an address");
        (listener, addr)
    });
    runtime.spawn(serve(listener, Arc::clone(&answer)));
    let mut config = Config::defaults();
    config.redis_url = Secret::new(format!("redis://{addr}"));
    config.database_url = Secret::new("mysql://nobody@127.0.0.1:1/nowhere");
    config.redis.command_timeout_ms = 10;
    let (_guard, item) = (runtime.enter(), ItemId::new(1).expect("positive"));
    let redis = RedisClient::new(&config).expect("a URL");
    let pool = mysql_connection::pool(&config).expect("a URL");
    let counters = Counters::new(redis.clone(), pool, Metrics::new());
    let seeds: [&[u8]; 9] = [
        b"*2\r\n$1\r\n7\r\n$2\r\n10\r\n",
        b"*2\r\n$-1\r\n$-1\r\n",
        b"*2\r\n$3\r\n-10\r\n$20\r\n18446744073709551615\r\n",
        b":1\r\n",
        b"$24\r\nmaxmemory_policy:volatile\r\n",
        b"-NOSCRIPT No matching script\r\n",
        b"-OOM command not allowed\r\n:1\r\n",
        b"*1\r\n*1\r\n*1\r\n:9223372036854775807\r\n",
        b"+PONG\r\n",
    ];
    dice::throw("redis", |dice| {
        let said = if dice.below(DAMAGED) == 0 { dice.mutate(&seeds) } else { value(dice, 3) };
        *answer.lock().expect("no panic while it is held") = said;
        runtime.block_on(async {
            let _ = counters.peek(item).await;
            let seen = CounterAndQueue { counter: Counter { available: 1, epoch: 1 }, queued: 0 };
            let _ = counters.repair(item, seen, 2, 1).await;
            counters.give_back(item, 1, 1).await;
            let _ = redis.condition().await;
            let _ = redis.ping().await;
        });
    });
}
