//! Signatures of rounds: from the key of the shop, or from drand over HTTP, which is believed only when it is valid.

use std::sync::Arc;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use outgoing_https::{HttpsClient, Target};
use serde::Deserialize;
use time::OffsetDateTime;

use crate::sql::DrawRound;
use draw_proof::{Beacon, ShopKeys};
use ledger::rows::draws::{beacon_of, micros};
use shop_domain::DrawBeacon;

/// The chain hash of drand's network `quicknet`.
const QUICKNET: &str = "52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971";
/// The longest answer, in bytes.
const ANSWER_BYTES_MAX: usize = 4 << 10;

/// The beacons. Clones share the client.
#[derive(Clone)]
pub struct Beacons {
    client: Arc<HttpsClient>,
    url: Arc<str>,
    of_new_draws: DrawBeacon,
    keys: Arc<ShopKeys>,
}

/// What drand answers.
#[derive(Deserialize)]
struct Round {
    signature: String,
}

impl Beacons {
    /// Beacons of which new draws use the one called `beacon`, `drand` or `local`. Rounds of drand are read at `url`; local
    /// ones are signed with `keys`.
    ///
    /// # Errors
    /// A sentence when the address cannot be used.
    pub fn new(
        client: HttpsClient,
        beacon: &str,
        url: &str,
        keys: Arc<ShopKeys>,
    ) -> Result<Self, String> {
        Target::parse(url).map_err(|why| format!("draw.drand_url cannot be used: {why}"))?;
        let of_new_draws = if beacon == "drand" { DrawBeacon::Drand } else { DrawBeacon::Local };
        let url = url.trim_end_matches('/').into();
        Ok(Self { client: Arc::new(client), url, of_new_draws, keys })
    }

    /// The beacon of draws that are announced now.
    pub(crate) fn of_new_draws(&self) -> DrawBeacon {
        self.of_new_draws
    }

    /// The signature of a draw's round; `None` while its time has not come.
    ///
    /// # Errors
    /// A sentence when drand does not answer, or answers without a valid signature.
    pub(crate) async fn signature(
        &self,
        awaited: &DrawRound,
        now: OffsetDateTime,
    ) -> Result<Option<Vec<u8>>, String> {
        let round = awaited.round;
        if micros(now) < beacon_of(awaited.beacon).time_of(round) {
            return Ok(None);
        }
        match awaited.beacon {
            DrawBeacon::Local => {
                let key =
                    self.keys.find(&awaited.shop_key).ok_or("the key of the draw is missing")?;
                Ok(Some(Beacon::sign_locally(key, &awaited.rules)))
            }
            DrawBeacon::Drand => {
                let signature = self.read(round).await?;
                let is_valid = Beacon::is_signed_by_drand(round, &signature);
                is_valid.then_some(Some(signature)).ok_or("the signature is not drand's".to_owned())
            }
        }
    }

    async fn read(&self, round: u64) -> Result<Vec<u8>, String> {
        let target = Target::parse(&format!("{}/{QUICKNET}/public/{round}", self.url))?;
        let request = Request::new(Full::new(Bytes::new()));
        let (status, body) = self.client.fetch(&target, request, ANSWER_BYTES_MAX).await?;
        if status != StatusCode::OK {
            return Err(format!("{} answered {status}", target.authority));
        }
        let answer: Round =
            serde_json::from_slice(&body).map_err(|error| format!("no round: {error}"))?;
        hex::decode(answer.signature).map_err(|_| "no signature".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use outgoing_https::PrivateNetworks;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    const SIGNATURE: &str = "b713718a38ae728dfd477991af2822e08d2f305e47718cef9f7848ce4050e7be41076862b98fad56e91a6b85b89cd97b";

    /// Beacons with a server that gives this signature for every round.
    async fn beacons(signature: &'static str) -> Beacons {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.read(&mut [0; 2_048]).await;
                let body = format!("{{\"round\":1,\"signature\":\"{signature}\"}}");
                let length = body.len();
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        let networks = PrivateNetworks::parse("127.0.0.1").expect("an address");
        let client = HttpsClient::new(networks, Path::new(""), Duration::from_secs(20));
        let client = client.expect("roots");
        Beacons::new(client, "drand", &url, Arc::default()).expect("an address")
    }

    #[tokio::test]
    async fn a_value_of_drand_is_believed_only_with_its_signature() {
        let now = OffsetDateTime::now_utc();
        let of_round = |round| {
            let beacon = DrawBeacon::Drand;
            DrawRound { beacon, round, rules: [0; 32], shop_key: String::new() }
        };
        let honest = beacons(SIGNATURE).await;
        let signature = honest.signature(&of_round(657_413), now).await.expect("an answer");
        assert_eq!(signature.map(hex::encode).as_deref(), Some(SIGNATURE));
        assert!(honest.signature(&of_round(657_414), now).await.is_err(), "that of another");
        assert!(beacons("").await.signature(&of_round(657_413), now).await.is_err());
        let early = honest.signature(&of_round(u64::MAX / 16), now).await;
        assert_eq!(early, Ok(None), "its time has not come, so nobody is asked");
    }
}
