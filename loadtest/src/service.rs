//! The service's HTTP contract, as far as a load test needs it beside the purchase.

use std::time::Duration;

use hyper::Uri;
use hyper::header::HeaderValue;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::{Instant, sleep};

use crate::drive::Instance;
use crate::drive::call::Call;
use crate::drive::connection::{Exchange, Reply};
use crate::environment::Environment;
use crate::failure::{CannotJudge, OrCannotJudge};
use crate::options::{DrawOptions, Switch};

/// Friends who are drawn as one, at most.
pub const PARTY_MAX: u8 = 4;
/// An admin request or the service's own audit may take this long.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// A service that the previous load has overwhelmed answers "nothing changed, try again" to an admin,
/// too. The request is repeated for this time, with this pause between two tries.
const RECOVERY_MAX: Duration = Duration::from_secs(60);
const RECOVERY_PAUSE: Duration = Duration::from_millis(500);
/// The lab item's price; nobody pays it.
const LAB_PRICE_CENTS: i64 = 100;
/// How long the orders of a lab item keep their units: longer than a clock may run ahead, so that no
/// hold runs out during a load.
const HOLD_SECONDS: i64 = 80_000;
/// The lab item opened this long ago, so that clocks which differ a little do no harm.
const OPENED_SECONDS_AGO: i64 = 60;
/// The lab item's sale ends long after any test.
const OPEN_HOURS: i64 = 24;

/// The admin's view of one service.
pub struct Admin {
    instances: Vec<Instance>,
    authorization: HeaderValue,
}

/// Resolves the addresses of all instances, given or from the environment.
pub async fn instances(
    given: &[String],
    environment: &Environment,
) -> Result<Vec<Instance>, CannotJudge> {
    let mut urls = given.to_vec();
    if urls.is_empty() {
        let from_environment = environment.get("SECKILL_URL").unwrap_or_default();
        urls = from_environment.split(',').map(str::to_owned).collect();
    }
    let urls: Vec<&str> = urls.iter().map(|url| url.trim()).filter(|url| !url.is_empty()).collect();
    if urls.is_empty() {
        return Err(CannotJudge::new(
            "where is the service? Start one with `make run`, or give --url or SECKILL_URL",
        ));
    }
    let mut instances = Vec::with_capacity(urls.len());
    for url in urls {
        instances.push(resolve(url).await?);
    }
    Ok(instances)
}

/// Resolves one address of the form `http://host:port`.
pub async fn resolve(url: &str) -> Result<Instance, CannotJudge> {
    let unusable = |reason: &str| CannotJudge(format!("--url {url}: {reason}"));
    let parsed: Uri = url.parse().map_err(|_| unusable("not a URL"))?;
    if parsed.scheme_str() != Some("http") {
        return Err(unusable("only http:// is spoken"));
    }
    let authority = parsed.authority().ok_or_else(|| unusable("no host"))?;
    let port = authority.port_u16().unwrap_or(80);
    let host = authority.host().trim_matches(['[', ']']);
    let address = tokio::net::lookup_host((host, port))
        .await
        .map_err(|error| unusable(&error.to_string()))?
        .next()
        .ok_or_else(|| unusable("no address"))?;
    let host = HeaderValue::from_str(authority.as_str()).map_err(|_| unusable("not a host"))?;
    Ok(Instance { url: url.trim_end_matches('/').to_owned(), address, host })
}

/// Path and query of the purchase by one strategy, e.g. `lock-redis?store=redis`.
pub fn purchase_path(strategy: &str, item_id: i64) -> Result<String, CannotJudge> {
    let (name, parameters) = strategy.trim().split_once('?').unwrap_or((strategy.trim(), ""));
    let mut path = format!("/api/seckill/{name}/{item_id}");
    if !parameters.is_empty() {
        path.push('?');
        path.push_str(parameters);
    }
    match path.parse::<Uri>() {
        Ok(_) => Ok(path),
        Err(_) => Err(CannotJudge(format!("--strategy {strategy}: not part of an address"))),
    }
}

impl Admin {
    /// `authorization` is an admin's.
    pub fn new(instances: Vec<Instance>, authorization: HeaderValue) -> Self {
        Self { instances, authorization }
    }

    /// Makes a lab item whose sale is open now, and whose name says what for; returns its id.
    pub async fn create_lab_item(
        &self,
        purpose: &str,
        stock: i64,
        arbiter: Switch,
    ) -> Result<i64, CannotJudge> {
        let now = OffsetDateTime::now_utc();
        let starts_at = now - time::Duration::seconds(OPENED_SECONDS_AGO);
        let ends_at = now + time::Duration::hours(OPEN_HOURS);
        let body = json!({
            "name": format!("load test: {}", shortened(purpose)),
            "price_cents": LAB_PRICE_CENTS,
            "stock": stock,
            "starts_at": rfc3339(starts_at)?,
            "ends_at": rfc3339(ends_at)?,
            "per_buyer_limit": 1,
            "hold_seconds": HOLD_SECONDS,
            "kind": "lab",
            "arbiter": arbiter.as_str(),
        });
        self.create(&body).await
    }

    /// Makes an item that is drawn at `closes_at`; returns its id.
    pub async fn create_draw(
        &self,
        options: &DrawOptions,
        closes_at: OffsetDateTime,
    ) -> Result<i64, CannotJudge> {
        let now = OffsetDateTime::now_utc();
        let body = json!({
            "name": "load test of a draw",
            "price_cents": LAB_PRICE_CENTS,
            "stock": options.stock,
            "starts_at": rfc3339(now - time::Duration::seconds(OPENED_SECONDS_AGO))?,
            "ends_at": rfc3339(closes_at + time::Duration::hours(OPEN_HOURS))?,
            "kind": "lab",
            "mode": "draw",
            "draw_closes_at": rfc3339(closes_at)?,
            "draw_party_max": PARTY_MAX,
        });
        self.create(&body).await
    }

    async fn create(&self, item: &Value) -> Result<i64, CannotJudge> {
        let item = self.call("POST", "/api/admin/items", Some(item)).await?;
        item["id"]
            .as_i64()
            .ok_or_else(|| CannotJudge(format!("the new item has no number as its id: {item}")))
    }

    /// The published draw of an item.
    pub async fn draw(&self, item_id: i64) -> Result<Value, CannotJudge> {
        self.call("GET", &format!("/api/items/{item_id}/draw"), None).await
    }

    /// The public view of an item.
    pub async fn item(&self, item_id: i64) -> Result<Value, CannotJudge> {
        self.call("GET", &format!("/api/items/{item_id}"), None).await
    }

    /// The list of strategies.
    pub async fn strategies(&self) -> Result<Value, CannotJudge> {
        self.call("GET", "/api/strategies", None).await
    }

    /// The service's own audit of an item.
    pub async fn audit(&self, item_id: i64) -> Result<Value, CannotJudge> {
        self.call("GET", &format!("/api/admin/items/{item_id}/audit"), None).await
    }

    /// Asks until the service is not too busy to answer.
    async fn call(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, CannotJudge> {
        let end = Instant::now() + RECOVERY_MAX;
        loop {
            match self.call_once(method, path, body).await {
                Err((true, _)) if Instant::now() < end => {
                    sleep(RECOVERY_PAUSE).await;
                    // The service finds out by reading that a server answers again, never by a
                    // change; where nobody else reads, we do.
                    let _ = self.call_once("GET", "/api/items", None).await;
                }
                ended => return ended.map_err(|(_, reason)| CannotJudge(reason)),
            }
        }
    }

    /// Asks the first instance that answers. An error says whether nothing has changed and it may be asked again.
    async fn call_once(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, (bool, String)> {
        let token = Some(&self.authorization);
        let body = body.map(Value::to_string);
        let call = Call { token, body: body.as_deref(), ..Call::new(method, path) };
        let mut failure = "no instance of the service is known".to_owned();
        for instance in &self.instances {
            let what = format!("{method} {path} at {}", instance.url);
            match instance.call(call, ANSWER_MAX).await {
                Exchange::Answered(reply) => return read(&reply, &what),
                _ => failure = format!("{} did not answer {method} {path}", instance.url),
            }
        }
        Err((false, failure))
    }
}

fn read(reply: &Reply, what: &str) -> Result<Value, (bool, String)> {
    if !(200..300).contains(&reply.status) {
        let text = String::from_utf8_lossy(&reply.body);
        let reason = format!("{what} was answered {}: {}", reply.status, text.trim());
        return Err((is_busy(&reply.body), reason));
    }
    serde_json::from_slice(&reply.body).map_err(|error| {
        (false, format!("{what} was answered with something else than JSON: {error}"))
    })
}

/// Whether an answer says that nothing has changed and that the same may be asked again.
fn is_busy(body: &[u8]) -> bool {
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    problem["retryable"] == true && problem["outcome"] == "none"
}

fn rfc3339(moment: OffsetDateTime) -> Result<String, CannotJudge> {
    moment.format(&Rfc3339).or_cannot_judge("the clock cannot be written")
}

/// An item's name has its limit.
fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_nothing_is_asked_again() {
        assert!(is_busy(br#"{"status":503,"retryable":true,"outcome":"none"}"#));
        assert!(!is_busy(br#"{"status":504,"retryable":true,"outcome":"unknown"}"#));
        assert!(!is_busy(br#"{"status":409,"retryable":false,"outcome":"none"}"#));
        assert!(!is_busy(b"<html>"));
    }
}
