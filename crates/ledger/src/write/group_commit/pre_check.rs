//! The look at a batch's orders before they are written: which are decided already, and which go
//! through together.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use sqlx::MySqlConnection;

use super::batch_orders::{lines_at, orders_of};
use super::statements::{BuyerCount, available, bought_in_groups, bought_so_far};
use crate::rows::order::orders::{self, RequestOf};
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
    let committed = CommittedRows::read(connection, purchases).await?;
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
        let order = &purchases[lines.clone()];
        match committed.verdict(order, &taken) {
            Verdict::Refused(refusal) => {
                answers[lines].fill(Some(Ok(Outcome::Refused(refusal))));
            }
            Verdict::Fits => {
                order.iter().for_each(|purchase| taken.add(purchase));
                chosen.extend(lines);
            }
            Verdict::NotNow => {}
        }
    }
    let available = &committed.available;
    let fits = |(item, units): (&ItemId, &i64)| available.get(item).is_some_and(|of| units <= of);
    assert!(
        taken.of_item.iter().all(fits),
        "the chosen orders take at most the units that are left"
    );
    Ok(chosen)
}

/// What committed rows say of the buyers and the items of a batch.
struct CommittedRows {
    bought: HashMap<(ItemId, UserId), BuyerCount>,
    in_group: HashMap<(LimitGroupId, UserId), i64>,
    /// Units left of each item that exists.
    available: HashMap<ItemId, i64>,
    /// When the units left were asked for.
    asked_at: Instant,
}

impl CommittedRows {
    async fn read(connection: &mut MySqlConnection, purchases: &[Purchase]) -> sqlx::Result<Self> {
        let bought = bought_so_far(connection, purchases).await?;
        let in_group = bought_in_groups(connection, purchases).await?;
        let asked_at = Instant::now();
        let available = available(connection, &items_of(purchases)).await?;
        Ok(Self { bought, in_group, available, asked_at })
    }

    /// Judges an order by its lines. `taken` is what the chosen orders would take.
    fn verdict(&self, lines: &[Purchase], taken: &TakenUnits) -> Verdict {
        // What the lines of this order would take.
        let mut own = TakenUnits::default();
        let mut verdict = Verdict::Fits;
        for purchase in lines {
            let Some(&available) = self.available.get(&purchase.item.id) else {
                return Verdict::NotNow;
            };
            match self.verdict_of_line(purchase, available, &own, taken) {
                refused @ Verdict::Refused(_) => return refused,
                // The next line may be refused for good.
                Verdict::NotNow => verdict = Verdict::NotNow,
                Verdict::Fits => {}
            }
            own.add(purchase);
        }
        verdict
    }

    /// Judges a line of an order whose earlier lines would take `own`.
    fn verdict_of_line(
        &self,
        purchase: &Purchase,
        available: i64,
        own: &TakenUnits,
        taken: &TakenUnits,
    ) -> Verdict {
        let item = purchase.item.id;
        let units = purchase.quantity.signed();
        let limit = purchase.item.per_buyer_limit;
        let counted = self.bought.get(&(item, purchase.buyer)).copied().unwrap_or_default();
        let written = counted.bought;
        let unpaid_max = purchase.item.unpaid_max;
        let is_unpaid =
            is_guarded(purchase) && unpaid_max > 0 && counted.expired >= i64::from(unpaid_max);
        let over_limit = |counted: i64| is_guarded(purchase) && counted + units > i64::from(limit);
        let group = purchase.counted_group();
        let group_limit = group.map_or(0, |group| group.per_buyer_limit);
        let of = |counts: &HashMap<(LimitGroupId, UserId), i64>| {
            let key = group.map(|group| (group.id, purchase.buyer));
            key.and_then(|key| counts.get(&key).copied()).unwrap_or_default()
        };
        let over_group = |counted: i64| group.is_some() && counted + units > i64::from(group_limit);
        let written_in = of(&self.in_group) + of(&own.in_group);
        let refusal = if over_limit(written) {
            Some(Refusal::LimitReached { limit })
        } else if is_unpaid {
            Some(Refusal::UnpaidLimitReached { limit: unpaid_max })
        } else if over_group(written_in) {
            Some(Refusal::GroupLimitReached { limit: group_limit })
        } else if units > available {
            Some(Refusal::SoldOut { asked_at: Some(self.asked_at) })
        } else {
            None
        };
        if let Some(refusal) = refusal {
            let is_line = purchase.line_count.is_some();
            return Verdict::Refused(if is_line { refusal.of_line(item) } else { refusal });
        }
        let chosen_by = taken.by_buyer.get(&(item, purchase.buyer)).copied();
        let chosen_of = taken.of_item.get(&item).copied().unwrap_or_default();
        let is_over = over_limit(written + chosen_by.unwrap_or_default())
            || over_group(written_in + of(&taken.in_group))
            || chosen_of + units > available;
        if is_over { Verdict::NotNow } else { Verdict::Fits }
    }
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
        let orders: Vec<Order> =
            own.iter().filter_map(|one| found.get(&request(one)).cloned()).collect();
        if !orders.is_empty() {
            answers[lines].fill(Some(Ok(replay_lines(own, orders))));
        }
    }
    Ok(())
}

fn request(purchase: &Purchase) -> RequestOf {
    (purchase.buyer, purchase.item.id, purchase.key.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::tests::{item, purchase};
    use shop_domain::{Item, LimitGroup};

    /// Rows of two items, of each of which five units are left.
    fn rows() -> CommittedRows {
        let available = HashMap::from([1, 2].map(|id| (item(id).id, 5)));
        let bought = HashMap::new();
        let in_group = HashMap::new();
        CommittedRows { bought, in_group, available, asked_at: Instant::now() }
    }

    /// What is said of an order beside the chosen ones: "fits", "not now", or why it is refused.
    fn said(rows: &CommittedRows, order: &[Purchase], chosen: &[Purchase]) -> &'static str {
        let mut taken = TakenUnits::default();
        chosen.iter().for_each(|one| taken.add(one));
        match rows.verdict(order, &taken) {
            Verdict::Fits => "fits",
            Verdict::NotNow => "not now",
            Verdict::Refused(refusal) => refusal.code(),
        }
    }

    #[test]
    fn committed_rows_refuse() {
        let sold = Item { unpaid_max: 2, ..item(1) };
        for (bought, expired, units, expected) in [
            (0, 0, 2, "fits"),
            (1, 1, 1, "fits"),
            (1, 0, 2, "limit_reached"),
            (0, 2, 1, "unpaid_limit_reached"),
        ] {
            let order = purchase(&sold, 1, units);
            let mut rows = rows();
            rows.bought.insert((sold.id, order.buyer), BuyerCount { bought, expired });
            assert_eq!(said(&rows, &[order], &[]), expected, "{bought}, {expired}, {units}");
        }
        let many = Item { per_buyer_limit: 9, ..item(1) };
        assert_eq!(said(&rows(), &[purchase(&many, 1, 5)], &[]), "fits");
        assert_eq!(said(&rows(), &[purchase(&many, 1, 6)], &[]), "sold_out");
        assert_eq!(said(&rows(), &[purchase(&item(3), 1, 1)], &[]), "not now", "no such item");
    }

    #[test]
    fn orders_that_are_chosen_make_others_wait() {
        let sold = item(1);
        let one = |buyer, units| purchase(&sold, buyer, units);
        let of_two = [one(1, 2), one(2, 2)];
        assert_eq!(said(&rows(), &[one(3, 1)], &of_two), "fits");
        assert_eq!(said(&rows(), &[one(3, 2)], &of_two), "not now", "of the stock");
        assert_eq!(said(&rows(), &[one(1, 1)], &[one(1, 1)]), "fits");
        assert_eq!(said(&rows(), &[one(1, 2)], &[one(1, 1)]), "not now", "of the limit");
    }

    #[test]
    fn a_group_counts_the_units_of_all_its_items() {
        let id = LimitGroupId::new(1).expect("positive");
        let limit_group = Some(LimitGroup { id, name: "group".to_owned(), per_buyer_limit: 3 });
        let [first, second] =
            [1, 2].map(|id| Item { limit_group: limit_group.clone(), ..item(id) });
        let cart = |units| [purchase(&first, 1, 2), purchase(&second, 1, units)];
        assert_eq!(said(&rows(), &cart(1), &[]), "fits");
        assert_eq!(said(&rows(), &cart(2), &[]), "group_limit_reached", "of the order alone");
        let chosen = [purchase(&first, 1, 2)];
        assert_eq!(said(&rows(), &[purchase(&second, 1, 1)], &chosen), "fits");
        assert_eq!(said(&rows(), &[purchase(&second, 1, 2)], &chosen), "not now");
        let mut rows = rows();
        rows.in_group.insert((id, chosen[0].buyer), 3);
        assert_eq!(said(&rows, &[purchase(&second, 1, 1)], &[]), "group_limit_reached");
    }
}
