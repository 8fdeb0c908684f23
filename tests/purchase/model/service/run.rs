//! One plan under way, and what an answer may be.

use super::*;

/// One plan under way.
pub struct Run {
    pub books: Books,
    pub item: i64,
    /// The other item of its group; any other item where it is in none.
    pub twin: i64,
    /// The first buyer's id less one: each plan has buyers of its own.
    pub buyers: i64,
}

impl Run {
    pub fn pick(&self, order: usize) -> Option<usize> {
        order.checked_rem(self.books.orders.len())
    }

    /// Enters what a purchase came to, if the books allow it.
    pub fn bought(&mut self, buy: &Buy, answer: &Answer) -> Tried {
        let id = answer.json["id"].as_str().unwrap_or_default().to_owned();
        let replayed = answer.headers.contains_key("idempotency-replayed");
        match self.books.expected_purchase(buy) {
            ExpectedPurchase::Sells if accepted(answer) => {
                self.books.enter(buy, id, "pending");
                Ok(())
            }
            ExpectedPurchase::Replays(at) if self.books.orders[at].status == "rejected" => {
                expect(answer, &Expected::Refused(vec!["rejected"]))
            }
            ExpectedPurchase::Replays(at) if accepted(answer) && replayed => {
                if self.books.orders[at].id == id { Ok(()) } else { Err(fail("another order")) }
            }
            // The queue takes what the ledger then refuses; it is written down as an order.
            ExpectedPurchase::Refuses(codes)
                if answer.code() == "rejected"
                    && codes.iter().all(|code| {
                        ["limit_reached", "group_limit_reached", "sold_out"].contains(code)
                    }) =>
            {
                let order: Value = serde_json::from_str(&answer.text).unwrap_or_default();
                let id = order["id"].as_str().unwrap_or_default().to_owned();
                self.books.enter(buy, id, "rejected");
                Ok(())
            }
            ExpectedPurchase::Refuses(codes) => expect(answer, &Expected::Refused(codes)),
            expected => Err(fail(format!("{expected:?}, not {}", answer.text))),
        }
    }
}

pub fn accepted(answer: &Answer) -> bool {
    answer.status == 201
}

pub fn expect(answer: &Answer, expected: &Expected) -> Tried {
    let fits = match expected {
        Expected::Order(status) => {
            answer.status == 200 && (status.is_empty() || answer.json["status"] == *status)
        }
        Expected::Refused(codes) => codes.contains(&answer.code()),
    };
    let seen = || fail(format!("{expected:?}, not {} {}", answer.status, answer.text));
    fits.then_some(()).ok_or_else(seen)
}

pub fn fail(why: impl Into<String>) -> TestCaseError {
    TestCaseError::fail(why.into())
}
