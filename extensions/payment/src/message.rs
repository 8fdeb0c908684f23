//! Messages of a payment provider: signed as Standard Webhooks says, and fresh.

use serde::Deserialize;
use serde_json::Value;
use time::OffsetDateTime;

use crate::take_error::TakeError;
use shop_domain::payment::{CurrencyCode, PaymentId, ReceivedPayment};
use shop_domain::{Cents, OrderId};

/// How far the provider's clock may be off, and how long a message may be on its way, in seconds.
const TOLERANCE_SECONDS: i64 = 300;
/// The longest id of a message, in characters. Standard Webhooks names no limit; ids of events have at most as many as
/// those of payments.
pub const MESSAGE_ID_LENGTH_MAX: usize = PaymentId::LENGTH_MAX;
/// How much of a name of no order the log repeats, in characters.
const LOGGED_LENGTH_MAX: usize = 64;

/// The headers of a message.
#[derive(Clone, Debug)]
pub struct Headers {
    /// `webhook-id`.
    pub id: String,
    /// `webhook-timestamp`.
    pub timestamp: String,
    /// `webhook-signature`: one or more signatures.
    pub signatures: String,
}

/// What a message of the provider is read with.
#[derive(Clone, Copy)]
pub struct Sender<'a> {
    /// Signs the messages.
    pub secret: &'a str,
    /// The shop's currency, for messages that name none.
    pub shop: &'a CurrencyCode,
}

/// A genuine message.
#[derive(Clone, Debug)]
pub enum Message {
    /// Money came.
    Succeeded(ReceivedPayment),
    /// Money went back.
    Refunded(ReceivedPayment),
    /// Anything else.
    Other,
}

/// What every body says; the other fields of a message that changes nothing are not ours to judge.
#[derive(Deserialize)]
struct Kind {
    r#type: String,
}

/// The body of a message about money. Unknown fields are left alone: a provider may add some. Without a currency the
/// amount is one of the shop's.
#[derive(Deserialize)]
struct Body {
    payment: Option<String>,
    order: Option<String>,
    amount_cents: Option<i64>,
    currency: Option<String>,
    /// A value that is no id says nothing: a provider may have a field of this name that is something else.
    #[serde(default)]
    refund: Value,
}

impl Body {
    /// Refuses what the ledger could not keep whole, before it is asked.
    fn check_lengths(&self, message: &str) -> Result<(), TakeError> {
        let texts = [
            ("webhook-id", Some(message), MESSAGE_ID_LENGTH_MAX),
            ("payment", self.payment.as_deref(), PaymentId::LENGTH_MAX),
            ("currency", self.currency.as_deref(), CurrencyCode::LENGTH_MAX),
        ];
        for (field, text, most) in texts {
            let length = text.unwrap_or_default().chars().count();
            if length > most {
                return Err(TakeError::TooLong { field, length, most });
            }
        }
        Ok(())
    }

    fn received(&self, message: &str, shop: &CurrencyCode) -> Option<ReceivedPayment> {
        let currency = match &self.currency {
            Some(code) => CurrencyCode::parse(code)?,
            None => shop.clone(),
        };
        Some(ReceivedPayment {
            message: message.to_owned(),
            id: PaymentId::parse(self.payment.as_deref()?)?,
            amount: Cents::new(self.amount_cents?)?,
            currency,
            order: order_named(self.order.as_deref()?, self.payment.as_deref()),
            refund: self.refund.as_str().and_then(PaymentId::parse),
        })
    }
}

impl Message {
    /// Checks and reads a message.
    pub fn read(
        sender: Sender<'_>,
        headers: &Headers,
        body: &[u8],
        now: OffsetDateTime,
    ) -> Result<Self, TakeError> {
        let is_plain = headers.id.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_plain || headers.id.is_empty() {
            return Err(TakeError::Forged);
        }
        let sent_at: i64 = headers.timestamp.parse().map_err(|_| TakeError::Forged)?;
        if now.unix_timestamp().abs_diff(sent_at) > TOLERANCE_SECONDS.unsigned_abs() {
            return Err(TakeError::Forged);
        }
        if !webhooks::is_genuine(sender.secret, &headers.id, sent_at, body, &headers.signatures) {
            return Err(TakeError::Forged);
        }
        let unreadable = |_| TakeError::Unreadable;
        let Kind { r#type } = serde_json::from_slice(body).map_err(unreadable)?;
        let kind: fn(ReceivedPayment) -> Self = match r#type.as_str() {
            "payment.succeeded" => Self::Succeeded,
            "refund.succeeded" => Self::Refunded,
            _ => return Ok(Self::Other),
        };
        let body: Body = serde_json::from_slice(body).map_err(unreadable)?;
        body.check_lengths(&headers.id)?;
        body.received(&headers.id, sender.shop).map(kind).ok_or(TakeError::Unreadable)
    }
}

/// The order that a message names. Money for a name that is no id of an order is money, too: it is taken for
/// [`OrderId::NONE`], so it has to go back.
fn order_named(text: &str, payment: Option<&str>) -> OrderId {
    OrderId::parse(text).unwrap_or_else(|| {
        let order: String = text.chars().take(LOGGED_LENGTH_MAX).collect();
        tracing::warn!(?payment, ?order, "the provider names an order by no id");
        OrderId::NONE
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use shop_domain::Currency;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const BODY: &str = r#"{"type":"payment.succeeded","payment":"p1","order":"01a1fdc7-1152-70d7-b61e-ca6dd3cb93b4","amount_cents":250,"method":"card"}"#;

    fn read(
        signed: &str,
        headers: (&str, i64),
        body: &str,
        now: i64,
    ) -> Result<Message, TakeError> {
        let now = OffsetDateTime::from_unix_timestamp(now).expect("a time");
        let headers = Headers {
            id: headers.0.to_owned(),
            timestamp: headers.1.to_string(),
            signatures: signed.to_owned(),
        };
        let shop = CurrencyCode::from(Currency::USD);
        Message::read(Sender { secret: SECRET, shop: &shop }, &headers, body.as_bytes(), now)
    }

    #[test]
    fn a_genuine_fresh_message_is_read_and_nothing_else() {
        let now = 1_700_000_000;
        let good = webhooks::sign(SECRET, "m1", now, BODY.as_bytes());
        let read_good = read(&good, ("m1", now), BODY, now);
        assert!(
            matches!(read_good, Ok(Message::Succeeded(received)) if received.amount.cents() == 250)
        );
        let two = format!("v1,AAAA {good}");
        assert!(read(&two, ("m1", now), BODY, now + 299).is_ok(), "one of several signatures");
        let other_key = webhooks::sign("whsec_AAAA", "m1", now, BODY.as_bytes());
        let cheaper = BODY.replace("250", "1");
        for (what, result) in [
            ("another key", read(&other_key, ("m1", now), BODY, now)),
            ("another body", read(&good, ("m1", now), &cheaper, now)),
            ("another id", read(&good, ("m2", now), BODY, now)),
            ("another time", read(&good, ("m1", now + 1), BODY, now)),
            ("too old", read(&good, ("m1", now), BODY, now + 301)),
            ("from the future", read(&good, ("m1", now), BODY, now - 301)),
            ("no signature", read("", ("m1", now), BODY, now)),
            ("another scheme", read(&good.replace("v1,", "v0,"), ("m1", now), BODY, now)),
            ("no id", read(&good, ("", now), BODY, now)),
        ] {
            assert_eq!(result.err(), Some(TakeError::Forged), "{what}");
        }
    }

    #[test]
    fn an_amount_below_zero_or_a_missing_order_is_not_read() {
        let now = 1_700_000_000;
        for bad in [
            BODY.replace("250", "-250"),
            BODY.replace("\"order\"", "\"cart\""),
            BODY.replace("p1", ""),
            BODY.replace('}', ""),
            BODY.replace('}', r#","currency":"U$D"}"#),
            BODY.replace('}', r#","currency":978}"#),
        ] {
            let signed = webhooks::sign(SECRET, "m1", now, bad.as_bytes());
            assert_eq!(
                read(&signed, ("m1", now), &bad, now).err(),
                Some(TakeError::Unreadable),
                "{bad}"
            );
        }
    }

    /// Whatever its fields are: providers switch an address off that refuses messages.
    #[test]
    fn a_message_of_another_type_is_left_alone() {
        let now = 1_700_000_000;
        let long = "x".repeat(MESSAGE_ID_LENGTH_MAX + 1);
        let other = BODY.replace("succeeded", "created");
        for (id, body) in [
            ("m1", other.clone()),
            (&*long, other.clone()),
            ("m1", other.replace("p1", &long)),
            ("m1", other.replace('}', &format!(r#","currency":"{long}"}}"#))),
            ("m1", other.replace(r#""p1""#, "{}")),
        ] {
            let signed = webhooks::sign(SECRET, id, now, body.as_bytes());
            let taken = read(&signed, (id, now), &body, now);
            assert!(matches!(taken, Ok(Message::Other)), "{taken:?}: {body}");
        }
    }
}
