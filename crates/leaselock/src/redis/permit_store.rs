//! The store that `semaphore` and `expiring-semaphore` share.

use std::time::Duration;

use async_trait::async_trait;

use super::Connection;
use super::script::Scripts;
use super::server::Server;
use crate::LockName;
use crate::store::{Grant, LeaseStore, StoreResult, Subscription, Token};

/// The holders of a name and its queue. The scripts of both kinds have the same keys and arguments.
pub(super) struct PermitStore<C> {
    pub(super) server: Server<C>,
    pub(super) permits_max: u32,
    pub(super) scripts: Scripts,
}

impl<C: Connection> PermitStore<C> {
    fn keys(&self, name: &LockName) -> [String; 2] {
        ["holders", "queue"].map(|word| self.server.keys.key(word, name))
    }
}

#[async_trait]
impl<C: Connection> LeaseStore for PermitStore<C> {
    async fn acquire(
        &self,
        name: &LockName,
        token: &Token,
        lease: Duration,
    ) -> StoreResult<Option<Grant>> {
        let permits = self.permits_max.to_string();
        let lease_ms = lease.as_millis().to_string();
        let channel = &*self.server.channel_if_waiting(name, token);
        let attempt = token.attempt().to_string();
        let arguments = [token.as_str(), &permits, &lease_ms, channel, &attempt];
        let granted: bool =
            self.server.run(&self.scripts.acquire, &self.keys(name), &arguments).await?;
        Ok(granted.then_some(Grant::UNFENCED))
    }

    async fn renew(&self, name: &LockName, token: &Token, lease: Duration) -> StoreResult<bool> {
        let [holders, _] = self.keys(name);
        self.server.renew(&self.scripts.renew, &[holders], token, lease).await
    }

    async fn release(&self, name: &LockName, token: &Token) -> StoreResult<bool> {
        let arguments = [token.as_str(), &self.permits_max.to_string()];
        self.server.run(&self.scripts.release, &self.keys(name), &arguments).await
    }

    async fn watch(&self, name: &LockName, token: &Token) -> StoreResult<Option<Subscription>> {
        self.server.watch(name, token).await
    }

    fn listen(&self, name: &LockName, token: &Token) -> Option<Subscription> {
        self.server.listen(name, token)
    }

    fn shared(&self) -> bool {
        true
    }
}
