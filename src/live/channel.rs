//! Order events between instances, over one Redis channel.
//!
//! A message has a line for each change: `order owner`, or `item:id owner` for a place in a waiting list. The sender receives its own messages too; a
//! second event for a change is harmless, since a stream reads the order again.

use std::fmt::Write;
use std::time::Duration;

use futures::StreamExt;
use redis::{AsyncCommands, RedisResult};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{BuyerChange, Hub, What};
use gates::redis_store::RedisClient;
use shop_domain::{ItemId, OrderId, UserId};

/// Events that go out in one message.
const BATCH_MAX: usize = 256;
/// How long the events after a message are gathered for the next one: a message costs both ends more
/// than its events. A browser shows them that much later.
const GATHER: Duration = Duration::from_millis(10);
/// About the length of an event's line, in bytes.
const LINE_LENGTH: usize = 56;
/// Begins the line of a place; an instance that does not know places ignores it.
const PLACE: &str = "item:";
/// How long to wait before a lost connection is tried again.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);
/// How long subscribing, or the answer to a ping, may take.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// How long the connection may be silent before a ping is sent.
const QUIET_MAX: Duration = Duration::from_secs(5);

fn channel(redis: &RedisClient) -> String {
    format!("{}orders", redis.prefix())
}

/// Sends the events of the outbox to other instances until the outbox is closed or `stop` fires.
/// Events that cannot be sent are dropped.
pub async fn send(
    redis: RedisClient,
    mut outbox: mpsc::Receiver<BuyerChange>,
    stop: CancellationToken,
) {
    let channel = channel(&redis);
    let mut batch = Vec::with_capacity(BATCH_MAX);
    loop {
        let received = tokio::select! {
            received = outbox.recv_many(&mut batch, BATCH_MAX) => received,
            () = stop.cancelled() => 0,
        };
        if received == 0 {
            return;
        }
        let mut message = String::with_capacity(received * LINE_LENGTH);
        for changed in batch.drain(..) {
            // Writing to a String does not fail.
            let _ = match changed.what {
                What::Order(order) => writeln!(message, "{order} {}", changed.owner),
                What::Place(item) => writeln!(message, "{PLACE}{item} {}", changed.owner),
            };
        }
        let published = redis.shared().publish::<_, _, ()>(&channel, message).await;
        if let Err(error) = published {
            tracing::debug!(%error, "order events not sent to other instances");
        }
        if received < BATCH_MAX {
            tokio::time::sleep(GATHER).await;
        }
    }
}

/// Publishes the events of other instances in the hub until `stop` fires; reconnects by itself.
pub async fn receive(redis: RedisClient, hub: Hub, stop: CancellationToken) {
    loop {
        let listened = tokio::select! {
            listened = listen(&redis, &hub) => listened,
            () = stop.cancelled() => return,
        };
        if let Err(error) = listened {
            tracing::debug!(%error, "order events of other instances not received");
        }
        tokio::select! {
            () = tokio::time::sleep(RECONNECT_PAUSE) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Reads one connection until it ends. On a silent connection pings find out whether it is alive.
async fn listen(redis: &RedisClient, hub: &Hub) -> RedisResult<()> {
    let connect = async {
        // Any primary: a cluster passes messages on to all of its nodes.
        let mut subscription = redis.shared().any_primary().await?.subscribe().await?;
        subscription.subscribe(channel(redis)).await?;
        RedisResult::Ok(subscription.split())
    };
    let (mut sink, mut messages) = within(ANSWER_MAX, connect).await?;
    loop {
        match timeout(QUIET_MAX, messages.next()).await {
            Ok(Some(message)) if hub.has_watchers() => {
                let message: String = message.get_payload()?;
                message.lines().filter_map(parse).for_each(|changed| hub.publish_here(changed));
            }
            Ok(Some(_)) => {}
            Ok(None) => return Ok(()),
            Err(_) => within(ANSWER_MAX, sink.ping::<redis::Value>()).await.map(drop)?,
        }
    }
}

async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = RedisResult<T>>,
) -> RedisResult<T> {
    let too_late = |_| std::io::Error::from(std::io::ErrorKind::TimedOut);
    timeout(limit, answer).await.map_err(too_late)?
}

fn parse(message: &str) -> Option<BuyerChange> {
    let (what, owner) = message.split_once(' ')?;
    let what = match what.strip_prefix(PLACE) {
        Some(item) => What::Place(ItemId::parse(item)?),
        None => What::Order(OrderId::parse(what)?),
    };
    Some(BuyerChange { what, owner: UserId::parse(owner)? })
}
