//! Buyers who misbehave: the same order over and over, slow clients, clients that leave.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::prelude::*;

/// How often one order is sent at once.
const COPIES: usize = 50;
/// Clients that send a byte now and then.
const DRIBBLERS: usize = 200;
/// A head must be there within this.
const HEAD_MAX_MS: u64 = 700;
/// A buyer whose orders are not the workload's.
const STRANGERS: i64 = 7_000_000;
/// Purchases whose clients leave.
const LEAVERS: i64 = 60;

/// One key fifty times at once, and one buyer with fifty keys, on two instances.
pub async fn duplicates(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let plan = Plan::new(seed, Wanted::Safe, &testbed.setup());
    let strategies = plan.strategies.clone();
    run_trial(testbed, plan, async |testbed, trial| {
        let mut told = Vec::new();
        for (number, strategy) in strategies.iter().enumerate() {
            let item = make_item(testbed, &trial.services[0], &json!({ "stock": 9 })).await?;
            let path = format!("/api/seckill/{strategy}/{item}");
            let buyer = STRANGERS + i64::try_from(number).unwrap_or_default() * 2;
            for (buyer, one_key) in [(buyer, true), (buyer + 1, false)] {
                let token = testbed.token(buyer, Role::Buyer);
                let copies = (0..COPIES).map(|copy| {
                    let key = if one_key { "one".to_owned() } else { format!("key-{copy}") };
                    let service = &trial.services[copy % 2];
                    press(service, &path, token.clone(), key)
                });
                let answers = join_all(copies).await;
                trial.injections += 1;
                let ids: HashSet<_> = answers.iter().filter_map(|(_, id)| id.clone()).collect();
                // Fifty keys may all be told to try again, but not two be sold.
                let right = if one_key { ids.len() == 1 } else { ids.len() <= 1 };
                if !right {
                    return Err(format!("{strategy}: {} orders of {COPIES} copies", ids.len()));
                }
                told.extend(answers.into_iter().map(|(status, _)| status));
            }
        }
        told.sort_unstable();
        let mut counts: Vec<(u16, usize)> = Vec::new();
        for status in told {
            match counts.last_mut() {
                Some((last, count)) if *last == status => *count += 1,
                _ => counts.push((status, 1)),
            }
        }
        proven(counts.len() > 1, format!("one order each; answers {counts:?}"))
    })
    .await
}

/// Status and order of one press; again while another one with its key is at work.
async fn press(service: &Service, path: &str, token: String, key: String) -> (u16, Option<String>) {
    for _ in 0..100 {
        let headers = [("idempotency-key", key.as_str())];
        let asked = ask_with(service.addr, "POST", path, Some(&token), (&headers, Bytes::new()));
        let Ok(reply) = asked.await else { continue };
        let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        if body["code"] == "request_in_progress" {
            sleep(Duration::from_millis(20)).await;
            continue;
        }
        return (reply.status, body["id"].as_str().map(str::to_owned));
    }
    (0, None)
}

/// Clients that send their head a byte at a time keep nobody else out.
pub async fn slow(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let setup = testbed.setup().with("SECKILL_HTTP_HEAD_TIMEOUT_MS", HEAD_MAX_MS.to_string());
    let plan = Plan::new(seed, Wanted::Safe, &setup);
    run_trial(testbed, plan, async |_, trial| {
        let addresses: Vec<_> = trial.services.iter().map(|service| service.addr).collect();
        let then = trial.sold();
        let dribblers = (0..DRIBBLERS).map(|number| dribble(addresses[number % 2]));
        let closed = join_all(dribblers).await.into_iter().filter(|closed| *closed).count();
        let sold = trial.sold() - then;
        let proof =
            format!("{closed} of {DRIBBLERS} were closed by the service; {sold} sold meanwhile");
        proven(closed == DRIBBLERS, proof)
    })
    .await
}

/// Whether the service closed the connection.
async fn dribble(addr: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(addr).await else { return false };
    for byte in
        b"GET /api/items HTTP/1.1\r\nhost: localhost\r\nx-slow: yes".iter().cycle().take(400)
    {
        if stream.write_all(std::slice::from_ref(byte)).await.is_err() {
            return true;
        }
        let mut answer = [0; 64];
        let read = timeout(Duration::from_millis(100), stream.read(&mut answer)).await;
        // What else comes is a last word before the end.
        if let Ok(Ok(0) | Err(_)) = read {
            return true;
        }
    }
    false
}

/// Clients that go away right after their request: the order is whole or not there.
pub async fn leaving(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let plan = Plan::new(seed, Wanted::Safe, &testbed.setup());
    let strategies = plan.strategies.clone();
    run_trial(testbed, plan, async |testbed, trial| {
        let mut sold = 0;
        for strategy in strategies {
            let body = json!({ "stock": LEAVERS });
            let item = make_item(testbed, &trial.services[0], &body).await?;
            let path = format!("/api/seckill/{strategy}/{item}");
            let buyers: Vec<i64> = (STRANGERS..STRANGERS + LEAVERS / 6).collect();
            for buyer in &buyers {
                let token = testbed.token(*buyer, Role::Buyer);
                let head = format!(
                    "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
                     idempotency-key: gone\r\ncontent-length: 0\r\n\r\n"
                );
                let mut stream = TcpStream::connect(trial.services[0].addr).await;
                if let Ok(stream) = &mut stream {
                    let _ = stream.write_all(head.as_bytes()).await;
                }
            }
            trial.injections += 1;
            // Each comes back with the same key, and has exactly one order.
            let back = buyers.iter().map(|buyer| {
                let token = testbed.token(*buyer, Role::Buyer);
                press(&trial.services[1], &path, token, "gone".to_owned())
            });
            let answers = join_all(back).await;
            let got = answers.iter().filter(|(_, id)| id.is_some()).count();
            sold += got;
            let again = buyers.iter().zip(&answers).map(|(buyer, (_, first))| {
                let token = testbed.token(*buyer, Role::Buyer);
                let press = press(&trial.services[0], &path, token, "gone".to_owned());
                async move { first.is_none() || press.await.1 == *first }
            });
            if join_all(again).await.contains(&false) {
                return Err(format!("{strategy}: a retry gave another order"));
            }
        }
        proven(sold > 0, format!("{sold} came back and had their one order"))
    })
    .await
}
