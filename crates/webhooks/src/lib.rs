//! Webhooks, signed as [Standard Webhooks](https://www.standardwebhooks.com) says: HMAC-SHA256 over
//! id, time stamp and body.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use hmac::digest::CtOutput;
use hmac::{Hmac, KeyInit, Mac};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Request, StatusCode};
use outgoing_https::{Connection, HttpsClient, Target};
use sha2::Sha256;
use shop_domain::trace::{SpanKind, TraceContext};
use shop_traces::Traces;
use time::OffsetDateTime;

/// The span that sends a message, for the traces of its receiver.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// What a secret begins with.
const SECRET_PREFIX: &str = "whsec_";
/// Random bytes of a secret.
const SECRET_BYTES: usize = 32;
/// The most signatures of one message. A sender has two while it changes its secret.
pub const SIGNATURES_MAX: usize = 5;
/// The length of a signature, in bytes.
const SIGNATURE_BYTES: usize = 32;
/// The length of a signature in base64, in characters.
const SIGNATURE_LENGTH: usize = 44;
/// The part of an answer's body that is read, so that its connection can be used again.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// The reason why a delivery failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The receiver did not answer, or answered that it cannot work at the moment.
    Away(String),
    /// The receiver refused the message.
    Refused(String),
}

/// A message to one receiver.
#[derive(Clone, Debug)]
pub struct Message {
    /// Its id, which a repetition with the same events has too.
    pub id: String,
    /// JSON.
    pub body: Bytes,
    /// The time of the try.
    pub sent_at: OffsetDateTime,
}

/// Sends webhooks. Clones share everything.
#[derive(Clone)]
pub struct WebhookClient {
    /// Sends the requests.
    pub https: HttpsClient,
    /// Traces of the deliveries.
    pub traces: Traces,
}

impl WebhookClient {
    /// Sends a message and waits for the answer, over `kept` if it is usable.
    ///
    /// # Errors
    /// See [`Failure`]. The receiver may have got the message all the same.
    pub async fn post(
        &self,
        target: &Target,
        secret: &str,
        message: &Message,
        kept: &mut Option<Connection>,
    ) -> Result<(), Failure> {
        let mut span = self.traces.begin("POST webhook", SpanKind::Client, None);
        span.set("server.address", target.host.as_str());
        let request = request(secret, message, span.context());
        let exchange = async {
            let request = request.map_err(Failure::Away)?;
            let answered = self.https.send(target, request, kept, ANSWER_BYTES_MAX).await;
            check_status(answered.map_err(Failure::Away)?)
        };
        let sent = exchange.await;
        if sent.is_err() {
            span.fail();
        }
        sent
    }
}

/// The request with a message, signed with `secret`.
fn request(
    secret: &str,
    message: &Message,
    parent: Option<TraceContext>,
) -> Result<Request<Full<Bytes>>, String> {
    let timestamp = message.sent_at.unix_timestamp();
    let mut request = Request::post("/")
        .header(CONTENT_TYPE, "application/json")
        .header("webhook-id", &message.id)
        .header("webhook-timestamp", timestamp)
        .header("webhook-signature", sign(secret, &message.id, timestamp, &message.body))
        .body(Full::new(message.body.clone()))
        .map_err(|error| format!("no request: {error}"))?;
    let parent = parent.and_then(|parent| HeaderValue::try_from(parent.to_string()).ok());
    request.headers_mut().extend(parent.map(|value| (TRACEPARENT, value)));
    Ok(request)
}

/// Whether an answer accepts the message. A proxy whose receiver is away, and a receiver that is
/// overloaded, say nothing about the message.
fn check_status(status: StatusCode) -> Result<(), Failure> {
    match status.as_u16() {
        200..=299 => Ok(()),
        408 | 425 | 429 | 502..=504 => Err(Failure::Away(format!("answered {status}"))),
        300..=399 => {
            Err(Failure::Refused(format!("answered {status}; redirects are not followed")))
        }
        _ => Err(Failure::Refused(format!("answered {status}"))),
    }
}

/// The pause after a failed try that followed `failures` others: `first`, doubled with each up to `longest`, with a jitter
/// of a quarter.
pub fn pause_after(failures: u32, first: Duration, longest: Duration) -> Duration {
    let pause = first.saturating_mul(2_u32.saturating_pow(failures.min(20))).min(longest);
    pause.mul_f64(0.75 + 0.25 * rand::random::<f64>())
}

/// Makes a new secret.
pub fn new_secret() -> String {
    format!("{SECRET_PREFIX}{}", BASE64.encode(rand::random::<[u8; SECRET_BYTES]>()))
}

/// The value of `webhook-signature`.
pub fn sign(secret: &str, id: &str, timestamp: i64, body: &[u8]) -> String {
    format!("v1,{}", BASE64.encode(mac(secret, id, timestamp, body).finalize().into_bytes()))
}

/// Whether one of `signatures`, such as `v1,g0hM9... v1,KtSyZ...`, is that of the message. Hashes the
/// message once, however many there are, and not at all if there are more than [`SIGNATURES_MAX`] or
/// none has the right form. Compares in constant time.
pub fn is_genuine(secret: &str, id: &str, timestamp: i64, body: &[u8], signatures: &str) -> bool {
    if signatures.split(' ').count() > SIGNATURES_MAX {
        return false;
    }
    let candidates: Vec<_> = signatures.split(' ').filter_map(signature_bytes).collect();
    if candidates.is_empty() {
        return false;
    }
    let right = mac(secret, id, timestamp, body).finalize();
    candidates.into_iter().any(|candidate| right == CtOutput::new(candidate.into()))
}

fn signature_bytes(text: &str) -> Option<[u8; SIGNATURE_BYTES]> {
    let text = text.strip_prefix("v1,").filter(|text| text.len() == SIGNATURE_LENGTH)?;
    BASE64.decode(text).ok()?.try_into().ok()
}

/// The bytes of a secret; `None` if it is not one.
pub fn secret_bytes(secret: &str) -> Option<Vec<u8>> {
    BASE64.decode(secret.strip_prefix(SECRET_PREFIX)?).ok()
}

fn mac(secret: &str, id: &str, timestamp: i64, body: &[u8]) -> Hmac<Sha256> {
    let key = secret_bytes(secret).unwrap_or_default();
    let mac = Hmac::<Sha256>::new_from_slice(&key).expect("any key has a length that HMAC takes");
    mac.chain_update(format!("{id}.{timestamp}.")).chain_update(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_that_of_the_standard() {
        // The example of the Standard Webhooks libraries.
        let signature = sign(
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn at_most_five_signatures_of_the_right_length_are_compared() {
        let is_genuine = |signatures: &str| is_genuine("whsec_AAAA", "m1", 7, b"{}", signatures);
        let good = sign("whsec_AAAA", "m1", 7, b"{}");
        let other = sign("whsec_BBBB", "m1", 7, b"{}");
        assert!(is_genuine(&format!("{other} {other} {other} {other} {good}")));
        assert!(!is_genuine(&format!("{other} {other} {other} {other} {other} {good}")));
        assert!(!is_genuine(&format!("{}{good}", "v1, ".repeat(8_000))), "however short they are");
        assert!(is_genuine(&format!("v1,AAAA v1a,{} {good}", "A".repeat(8_000))));
        assert!(!is_genuine(&format!("{good}AAAA")) && !is_genuine(""));
    }

    #[test]
    fn a_refusal_differs_from_an_absence() {
        let check_status = |status| check_status(StatusCode::from_u16(status).expect("a status"));
        for fine in [200, 202, 204] {
            assert_eq!(check_status(fine), Ok(()));
        }
        for away in [408, 429, 502, 503, 504] {
            assert!(matches!(check_status(away), Err(Failure::Away(_))), "{away}");
        }
        for refused in [301, 400, 401, 404, 410, 422, 500] {
            assert!(matches!(check_status(refused), Err(Failure::Refused(_))), "{refused}");
        }
    }

    #[test]
    fn pauses_grow_to_their_limit() {
        let longest = Duration::from_secs(60);
        for (failures, seconds) in [(0, 1), (1, 2), (5, 32), (6, 60), (4_000_000, 60)] {
            let pause = pause_after(failures, Duration::from_secs(1), longest).as_secs_f64();
            assert!((0.75 * f64::from(seconds)..=f64::from(seconds)).contains(&pause), "{pause}");
        }
    }
}
