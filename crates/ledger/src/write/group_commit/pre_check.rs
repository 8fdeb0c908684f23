//! The look at a batch's orders before they are written: which are decided already, and which go
//! through together.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use sqlx::MySqlConnection;

use super::batch_orders::{lines_at, orders_of};
use super::statements::{available, bought_in_groups, bought_so_far};
use crate::rows::order::orders;
use crate::write::{Answer, is_guarded, replay_lines};
use shop_domain::{ItemId, LimitGroupId, Order, Outcome, Purchase, Refusal, UserId};

/// Finds the orders that should go through together, and answers those that are decided already.
///
/// A refusal follows from committed rows alone. An order that would fit without the chosen ones
/// stays undecided: they may still fail, and then it is chosen next. So does an order of an item
/// that does not exist.
pub(super) async fn choose(
    connection: &mut MySqlConnection,
    purchases: &[Purchase],
    candidates: &[usize],
    answers: &mut [Option<Answer>],
) -> sqlx::Result<Vec<usize>> {
    answer_finished(connection, purchases, answers).await?;
    let bought = bought_so_far(connection, purchases).await?;
    let grouped = bought_in_groups(connection, purchases).await?;
    let asked_at = Some(Instant::now());
    let available = available(connection, &items_of(purchases)).await?;
    // What the chosen ones would take, of each stock and of each buyer's limit.
    let mut taken = TakenUnits::default();
    let mut chosen = Vec::with_capacity(candidates.len());
    let mut next = 0;
    for &first in candidates {
        if first < next {
            continue;
        }
        let lines = lines_at(purchases, first);
        next = lines.end;
        if answers[first].is_some() {
            continue;
        }
        // What the lines of this order would take.
        let mut own = TakenUnits::default();
        let mut verdict = Verdict::Fits;
        for purchase in &purchases[lines.clone()] {
            let Some(&available) = available.get(&purchase.item.id) else {
                verdict = Verdict::NotNow;
                break;
            };
            let item = purchase.item.id;
            let units = purchase.quantity.signed();
            let limit = purchase.item.per_buyer_limit;
            let counted = bought.get(&(item, purchase.buyer)).copied().unwrap_or_default();
            let written = counted.bought;
            let unpaid_max = purchase.item.unpaid_max;
            let is_unpaid =
                is_guarded(purchase) && unpaid_max > 0 && counted.expired >= i64::from(unpaid_max);
            let over_limit =
                |counted: i64| is_guarded(purchase) && counted + units > i64::from(limit);
            let group = purchase.counted_group().map(|group| ((group.id, purchase.buyer), group));
            let of = |counts: &HashMap<_, i64>| {
                group.and_then(|(key, _)| counts.get(&key).copied()).unwrap_or_default()
            };
            let over_group = |counted: i64| {
                let limit = group.map(|(_, group)| i64::from(group.per_buyer_limit));
                limit.is_some_and(|limit| counted + units > limit)
            };
            let written_in = of(&grouped) + of(&own.in_group);
            let refusal = if over_limit(written) {
                Some(Refusal::LimitReached { limit })
            } else if is_unpaid {
                Some(Refusal::UnpaidLimitReached { limit: unpaid_max })
            } else if over_group(written_in) {
                let limit = group.map_or(0, |(_, group)| group.per_buyer_limit);
                Some(Refusal::GroupLimitReached { limit })
            } else if units > available {
                Some(Refusal::SoldOut { asked_at })
            } else {
                None
            };
            if let Some(refusal) = refusal {
                let is_line = purchase.line_count.is_some();
                verdict = Verdict::Refused(if is_line { refusal.of_line(item) } else { refusal });
                break;
            }
            let chosen_by = taken.by_buyer.get(&(item, purchase.buyer)).copied();
            let chosen_of = taken.of_item.get(&item).copied().unwrap_or_default();
            if over_limit(written + chosen_by.unwrap_or_default())
                || over_group(written_in + of(&taken.in_group))
                || chosen_of + units > available
            {
                // The next line may be refused for good.
                verdict = Verdict::NotNow;
            }
            own.add(purchase);
        }
        match verdict {
            Verdict::Refused(refusal) => {
                answers[lines].fill(Some(Ok(Outcome::Refused(refusal))));
            }
            Verdict::Fits => {
                purchases[lines.clone()].iter().for_each(|purchase| taken.add(purchase));
                chosen.extend(lines);
            }
            Verdict::NotNow => {}
        }
    }
    let fits = |(item, units): (&ItemId, &i64)| available.get(item).is_some_and(|of| units <= of);
    assert!(
        taken.of_item.iter().all(fits),
        "the chosen orders take at most the units that are left"
    );
    Ok(chosen)
}

/// What committed rows and the orders before it say of an order.
enum Verdict {
    Fits,
    /// Does not fit now, but may when the chosen ones have failed.
    NotNow,
    Refused(Refusal),
}

/// The units of some orders.
#[derive(Default)]
struct TakenUnits {
    of_item: HashMap<ItemId, i64>,
    by_buyer: HashMap<(ItemId, UserId), i64>,
    in_group: HashMap<(LimitGroupId, UserId), i64>,
}

impl TakenUnits {
    fn add(&mut self, purchase: &Purchase) {
        let item = purchase.item.id;
        let buyer = purchase.buyer;
        let units = purchase.quantity.signed();
        *self.of_item.entry(item).or_default() += units;
        *self.by_buyer.entry((item, buyer)).or_default() += units;
        if let Some(group) = purchase.counted_group() {
            *self.in_group.entry((group.id, buyer)).or_default() += units;
        }
    }
}

/// The items of some purchases, in the order of their ids.
pub(super) fn items_of<'a>(purchases: impl IntoIterator<Item = &'a Purchase>) -> Vec<ItemId> {
    let items: BTreeSet<ItemId> = purchases.into_iter().map(|one| one.item.id).collect();
    items.into_iter().collect()
}

/// Answers the keys that are orders already. Keys that were made here cannot be.
async fn answer_finished(
    connection: &mut MySqlConnection,
    purchases: &[Purchase],
    answers: &mut [Option<Answer>],
) -> sqlx::Result<()> {
    let asked: Vec<_> = purchases.iter().filter(|p| p.key.is_from_caller()).map(request).collect();
    let found = orders::find_by_keys(connection, &asked).await?;
    if found.is_empty() {
        return Ok(());
    }
    for lines in orders_of(purchases) {
        if answers[lines.start].is_some() {
            continue;
        }
        let own = &purchases[lines.clone()];
        let key = |one: &Purchase| (one.buyer, one.item.id, one.key.as_str().to_owned());
        let orders: Vec<Order> =
            own.iter().filter_map(|one| found.get(&key(one)).cloned()).collect();
        if !orders.is_empty() {
            answers[lines].fill(Some(Ok(replay_lines(own, orders))));
        }
    }
    Ok(())
}

fn request(purchase: &Purchase) -> (UserId, ItemId, &str) {
    (purchase.buyer, purchase.item.id, purchase.key.as_str())
}
