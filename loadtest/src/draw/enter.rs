//! Buyers who enter a draw at the same time, alone and with friends, some of whom take the entry back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::header::HeaderValue;
use rand::RngExt;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::drive::Instance;
use crate::drive::call::Call;
use crate::drive::connection::{Connection, Exchange};
use crate::failure::{CannotJudge, OrCannotJudge};
use crate::service::PARTY_MAX;

/// One request may take this long; then it is sent again, which has no further effect.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How often a request is sent again, and the pause between two times.
const TRIES_MAX: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);

/// Percentage of the groups that are friends, and not one buyer alone.
const FRIENDS_PERCENT: u32 = 20;
/// Percentage of the buyers who take the entry back.
const WITHDRAW_PERCENT: u32 = 5;

/// What a buyer was told.
#[derive(Clone, Debug, Deserialize)]
pub struct BuyerEntry {
    pub entry: String,
    /// The key of the friends.
    pub party: Option<String>,
    /// The promise that the shop has signed.
    pub promise: String,
    #[serde(skip)]
    pub withdrew: bool,
}

/// A buyer who is about to enter.
struct Entrant {
    token: HeaderValue,
    withdraws: bool,
}

/// The entrants of a draw, in groups of friends, and the service.
struct Entrants {
    groups: Vec<Vec<Entrant>>,
    next: AtomicUsize,
    instances: Vec<Instance>,
    path: String,
}

/// Lets all buyers enter; returns what each was told.
pub async fn all(
    connections: u32,
    instances: &[Instance],
    item: i64,
    tokens: Vec<HeaderValue>,
) -> Result<Vec<BuyerEntry>, CannotJudge> {
    let entrants = Arc::new(Entrants {
        groups: groups(tokens),
        next: AtomicUsize::new(0),
        instances: instances.to_vec(),
        path: format!("/api/items/{item}/entry"),
    });
    let mut callers = JoinSet::new();
    for caller in 0..connections as usize {
        callers.spawn(call(Arc::clone(&entrants), caller));
    }
    let mut told = Vec::new();
    while let Some(caller) = callers.join_next().await {
        told.extend(caller.or_cannot_judge("a caller has ended")??);
    }
    Ok(told)
}

/// Draws lots who enters with whom, and who takes the entry back.
fn groups(tokens: Vec<HeaderValue>) -> Vec<Vec<Entrant>> {
    let mut random = rand::rng();
    let mut groups: Vec<Vec<Entrant>> = Vec::new();
    let mut room = 0;
    for token in tokens {
        if room == 0 {
            let with_friends = random.random_range(0..100) < FRIENDS_PERCENT;
            room = if with_friends { random.random_range(2..=PARTY_MAX) } else { 1 };
            groups.push(Vec::new());
        }
        room -= 1;
        let withdraws = random.random_range(0..100) < WITHDRAW_PERCENT;
        if let Some(group) = groups.last_mut() {
            group.push(Entrant { token, withdraws });
        }
    }
    groups
}

/// One connection, over which group after group enters.
async fn call(entrants: Arc<Entrants>, caller: usize) -> Result<Vec<BuyerEntry>, CannotJudge> {
    let instance = &entrants.instances[caller % entrants.instances.len()];
    let mut connection = None;
    let mut told = Vec::new();
    loop {
        let next = entrants.next.fetch_add(1, Ordering::Relaxed);
        let Some(group) = entrants.groups.get(next) else { return Ok(told) };
        let mut key: Option<String> = None;
        let first = told.len();
        for entrant in group {
            let body = match &key {
                Some(key) => json!({ "party": key }),
                None if group.len() > 1 => json!({ "party": "new" }),
                None => json!({}),
            };
            let body = body.to_string();
            let call = Call {
                token: Some(&entrant.token),
                body: Some(&body),
                ..Call::new("POST", &entrants.path)
            };
            let entered = repeat(instance, &mut connection, call).await?;
            let entry = BuyerEntry::deserialize(&entered);
            let entry = entry.or_cannot_judge(format_args!("no entry: {entered}"))?;
            key.clone_from(&entry.party);
            told.push(entry);
        }
        for (entrant, told) in group.iter().zip(&mut told[first..]) {
            if entrant.withdraws {
                let token = Some(&entrant.token);
                let call = Call { token, ..Call::new("DELETE", &entrants.path) };
                repeat(instance, &mut connection, call).await?;
                told.withdrew = true;
            }
        }
    }
}

/// Sends a request until it is answered with success. Entering and withdrawing may be repeated.
async fn repeat(
    instance: &Instance,
    connection: &mut Option<Connection>,
    call: Call<'_>,
) -> Result<Value, CannotJudge> {
    let mut failure = String::new();
    for _ in 0..TRIES_MAX {
        match instance.call_over(connection, call, ANSWER_MAX).await {
            Exchange::Answered(reply) if reply.status < 300 => {
                return Ok(serde_json::from_slice(&reply.body).unwrap_or_default());
            }
            Exchange::Answered(reply) => {
                failure = format!("{}: {}", reply.status, String::from_utf8_lossy(&reply.body));
                if (400..500).contains(&reply.status) && reply.status != 429 {
                    break;
                }
            }
            other => failure = format!("{other:?}"),
        }
        sleep(PAUSE).await;
    }
    Err(CannotJudge(format!(
        "an entry was not answered: {failure} (is --enter-seconds too short?)"
    )))
}
