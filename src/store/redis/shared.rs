//! A connection that many share, made when it is first used and again after every loss.
//!
//! redis-rs has one of that kind, `ConnectionManager`, but it keeps the error of an attempt to
//! connect for ever unless it is one of input or output: a handshake that is cut in the middle of an
//! answer would leave a process without Redis until it is started again. Here an attempt that failed, in whatever way, is followed by the next one.

use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, RedisFuture, RedisResult, Value};

type Connecting = Shared<BoxFuture<'static, RedisResult<MultiplexedConnection>>>;

/// The connection. Clones share it. A command that failed is never sent again by itself: whether
/// it ran is unknown.
#[derive(Clone)]
pub struct SharedConnection {
    client: Client,
    config: AsyncConnectionConfig,
    current: Arc<Mutex<Connecting>>,
}

impl SharedConnection {
    /// A connection that is made when it is first used.
    #[must_use]
    pub fn new(client: Client, config: AsyncConnectionConfig) -> Self {
        let current = Arc::new(Mutex::new(connecting(&client, &config)));
        Self { client, config, current }
    }

    /// Runs one exchange, and leaves the connection to be made anew if it was lost.
    async fn exchange<T>(
        &self,
        send: impl AsyncFnOnce(&mut MultiplexedConnection) -> RedisResult<T>,
    ) -> RedisResult<T> {
        let attempt = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut connection = attempt.clone().await.inspect_err(|_| self.give_up(&attempt))?;
        let answer = send(&mut connection).await;
        answer.inspect_err(|error| {
            if error.is_unrecoverable_error() {
                self.give_up(&attempt);
            }
        })
    }

    /// The next caller makes another attempt; once for all who met the failed one.
    fn give_up(&self, failed: &Connecting) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.ptr_eq(failed) {
            *current = connecting(&self.client, &self.config);
        }
    }
}

fn connecting(client: &Client, config: &AsyncConnectionConfig) -> Connecting {
    let (client, config) = (client.clone(), config.clone());
    async move { client.get_multiplexed_async_connection_with_config(&config).await }
        .boxed()
        .shared()
}

impl ConnectionLike for SharedConnection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        self.exchange(async |connection| connection.send_packed_command(command).await).boxed()
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.exchange(async move |connection| {
            connection.send_packed_commands(pipeline, offset, count).await
        })
        .boxed()
    }

    /// The database of the URL.
    fn get_db(&self) -> i64 {
        self.client.get_connection_info().redis_settings().db()
    }
}
