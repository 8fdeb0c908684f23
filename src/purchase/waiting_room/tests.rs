use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use time::macros::datetime;

use super::*;

const OPENS: OffsetDateTime = datetime!(2026-11-11 11:11 UTC);
/// An answer of the client of npm `altcha` 3.2.2 (`createChallenge`, `solveChallenge`) to a challenge of nine bits
/// of buyer 7 for item 1, good until [`OPENS`], signed with the key of the secret "one secret".
const OFFICIAL: &str = "eyJjaGFsbGVuZ2UiOnsicGFyYW1ldGVycyI6eyJhbGdvcml0aG0iOiJTSEEtMjU2IiwiY29zdCI6MSwiZGF0YSI6eyJiaXRzIjo5LCJidXllciI6IjciLCJpdGVtIjoiMSJ9LCJleHBpcmVzQXQiOjE3OTQzOTU0NjAsImtleUxlbmd0aCI6MzIsImtleVByZWZpeCI6ImYzNzBjOTcyZTZkYzUwYTAyNjNkNzMwZjUwYjAyOTYwIiwibm9uY2UiOiIwNTg1NTg1NGU5NDc1NjZjY2NmYjYxNTM3OTgzYmU3MiIsInNhbHQiOiIzYTM2MGI4OWVlZTMxODJmNDY0NjNmNzE5OWJmNzYxNyJ9LCJzaWduYXR1cmUiOiIyODZmYmQzMTY1M2M3OWVkMzkxNDIyNjc5MWJmN2IzZWYwNzM3YzcwNjg4ZTIwN2FmNGI3MzE0ZTM4NWU4NjdkIn0sInNvbHV0aW9uIjp7ImNvdW50ZXIiOjc3NywiZGVyaXZlZEtleSI6ImYzNzBjOTcyZTZkYzUwYTAyNjNkNzMwZjUwYjAyOTYwNGRkZGM5OGM0YmEwMGViYmQ2NWQzYWFiMWM1NjY4YjIiLCJ0aW1lIjo0OH19";

fn item(id: i64) -> ItemId {
    ItemId::new(id).expect("positive")
}

fn buyer(id: i64) -> UserId {
    UserId::new(id).expect("positive")
}

fn ticket(tickets: &Tickets, ends_at: OffsetDateTime) -> String {
    match tickets.admitted(item(1), buyer(1), micros(ends_at) / 1_000) {
        QueueStatus::Admitted { ticket, expires_at } => {
            assert_eq!(expires_at, ends_at);
            ticket
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_ones_own_ticket_for_this_very_item_is_read() {
    let tickets = Tickets::new(&["one secret"]);
    let end = OPENS + time::Duration::MINUTE;
    let good = ticket(&tickets, end);
    let ends_ms = micros(end) / 1_000;
    let shown = ShownTicket { item: item(1), buyer: buyer(1), ends_ms };
    let read = |ticket: Option<&str>, id, item| tickets.read(ticket, item, buyer(id));
    assert_eq!(read(Some(&good), 1, item(1)), Ok(shown));
    assert_eq!(read(None, 1, item(1)), Err(Refusal::TicketRequired));
    assert_eq!(read(Some(&good), 2, item(1)), Err(Refusal::TicketInvalid));
    assert_eq!(read(Some(&good), 1, item(2)), Err(Refusal::TicketInvalid));
    let place = tickets.position((item(1), buyer(1)), 5, 0, OPENS);
    assert_eq!(read(Some(&place), 1, item(1)), Err(Refusal::TicketNotYetValid));
    for at in 0..good.len() {
        let mut bytes = good.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let forged = String::from_utf8(bytes).expect("ascii");
        assert_eq!(read(Some(&forged), 1, item(1)), Err(Refusal::TicketInvalid), "at {at}");
    }
    // The secret was changed, and then changed again.
    let changed = Tickets::new(&["another secret", "one secret"]);
    assert_eq!(changed.read(Some(&good), item(1), buyer(1)), Ok(shown));
    let changed = Tickets::new(&["a third secret", "another secret"]);
    let refused = changed.read(Some(&good), item(1), buyer(1));
    assert_eq!(refused, Err(Refusal::TicketInvalid));
}

#[test]
fn a_queue_token_is_valid_for_its_buyer_and_its_item_alone() {
    let tickets = Tickets::new(&["one secret"]);
    let place = tickets.position((item(1), buyer(1)), 5, 3, OPENS);
    let read = |text: &str, id, of, now| {
        tickets.place(text, item(of), buyer(id), now).map(|token| token.map(|token| token.number))
    };
    let refused = Err(Denied::Refused(Refusal::TicketInvalid));
    assert_eq!(read(&place, 1, 1, OPENS), Ok(Some(5)));
    assert_eq!(read(&place, 2, 1, OPENS), refused, "another buyer");
    assert_eq!(read(&place, 1, 2, OPENS), refused, "another item");
    assert_eq!(read(&ticket(&tickets, OPENS), 1, 1, OPENS), refused, "a ticket");
    assert_eq!(read(&place, 1, 1, OPENS + time::Duration::DAY), Ok(None), "too old");
}

fn proofs(secrets: &[&str]) -> Proofs {
    Proofs::new(&Tickets::new(secrets))
}

/// Solves a challenge as ALTCHA's clients do, with the fields of its JSON alone.
fn solve(challenge: &Value) -> Value {
    let text = |name: &str| challenge["parameters"][name].as_str().expect("a text");
    let bytes = |name: &str| hex::decode(text(name)).expect("hexadecimal digits");
    let (salt, nonce, prefix) = (bytes("salt"), bytes("nonce"), bytes("keyPrefix"));
    let derive = |counter: &u32| {
        Sha256::digest([&salt[..], &nonce[..], &counter.to_be_bytes()[..]].concat())
    };
    let counter = (0..).find(|counter| derive(counter).starts_with(&prefix)).expect("a solution");
    json!({ "counter": counter, "derivedKey": hex::encode(derive(&counter)), "time": 1.5 })
}

fn payload(challenge: &Value, solution: &Value) -> String {
    BASE64.encode(json!({ "challenge": challenge, "solution": solution }).to_string())
}

#[test]
fn the_official_client_is_understood() {
    let read = |secrets: &[&str], id, of| {
        let proof = proofs(secrets).read(OFFICIAL, (item(of), buyer(id)));
        proof.map(|proof| (proof.bits, proof.expires_ms))
    };
    let good = Some((9, OPENS.unix_timestamp() * 1_000));
    assert_eq!(read(&["one secret"], 7, 1), good);
    assert_eq!(read(&["another", "one secret"], 7, 1), good, "signed with the secret before");
    assert_eq!(read(&["another"], 7, 1), None, "a forged challenge");
    assert_eq!(read(&["one secret"], 8, 1), None, "another buyer");
    assert_eq!(read(&["one secret"], 7, 2), None, "another item");
}

#[test]
fn a_challenge_takes_its_work_and_nothing_less() {
    let (proofs, of) = (proofs(&["one secret"]), (item(1), buyer(7)));
    for bits in [1, 4, 8] {
        let challenge = proofs.challenge(of, bits, OPENS);
        let challenge = serde_json::to_value(challenge).expect("JSON");
        let solution = solve(&challenge);
        let tries = solution["counter"].as_u64().expect("a number");
        let about = 1_u64 << bits;
        assert!((about / 2..=about * 3 / 2).contains(&tries), "{tries} tries for {bits} bits");
        let read = |payload: &str| proofs.read(payload, of);
        let good = read(&payload(&challenge, &solution)).expect("a proof");
        assert_eq!(Value::from(good.id), challenge["signature"]);
        let end = OPENS.unix_timestamp() + proof::CHALLENGE_SECONDS;
        assert_eq!((good.bits, good.expires_ms), (bits, end * 1_000));
        // A key that is the counter's own, and does not begin as asked.
        let mut lazy = challenge.clone();
        lazy["parameters"]["keyPrefix"] = json!("");
        let unsolved = solve(&lazy);
        assert_eq!(read(&payload(&challenge, &unsolved)), None, "no work");
        assert_eq!(read(&payload(&lazy, &unsolved)), None, "an easier challenge");
        let mut harder = challenge.clone();
        harder["parameters"]["data"]["bits"] = json!(bits + 1);
        assert_eq!(read(&payload(&harder, &solution)), None, "as if it were a harder one");
    }
    for text in ["", "e30=", "not base64", &"A".repeat(PAYLOAD_LENGTH_MAX + 4)] {
        assert_eq!(proofs.read(text, of), None, "{text:.20}");
    }
}

#[test]
fn exits_are_counted_for_the_item_that_they_are_of() {
    let sold_out = Refusal::SoldOut { asked_at: None };
    let of = |outcome| reason_of_exit(item(1), &outcome);
    assert_eq!(of(Outcome::Refused(sold_out.clone())), Some("refused"));
    assert_eq!(of(Outcome::Refused(sold_out.clone().of_line(item(1)))), Some("refused"));
    assert_eq!(of(Outcome::Refused(sold_out.of_line(item(2)))), None);
    assert_eq!(of(Outcome::Refused(Refusal::QuantityOverLimit { limit: 1 })), None);
    assert_eq!(of(Outcome::Unavailable(Unavailable::Overloaded)), None);
}
