//! The sums of an item's orders and movements: of the rows that are here, and of those that have left.

use std::collections::BTreeMap;

use sqlx::{MySqlConnection, MySqlExecutor};

use crate::rows::link::{LONG_READ_MAX, within};
use crate::rows::statement::Read;
use shop_domain::ItemId;
use shop_domain::columns::Text;

/// Orders by status, and movements by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Number, units and cents.
    pub orders: BTreeMap<String, [i64; 3]>,
    /// Number and units.
    pub movements: BTreeMap<String, [i64; 2]>,
}

/// The rows that are here.
const LIVE: [&str; 2] = [
    "SELECT status, COUNT(*), CAST(SUM(quantity) AS SIGNED), CAST(SUM(amount_cents) AS SIGNED) \
     FROM orders WHERE item_id = ? GROUP BY status",
    "SELECT reason, COUNT(*), CAST(SUM(delta) AS SIGNED) FROM stock_movements \
     WHERE item_id = ? GROUP BY reason",
];
/// The rows that have left.
const ARCHIVED: [&str; 2] = [
    "SELECT status, CAST(SUM(orders) AS SIGNED), CAST(SUM(quantity) AS SIGNED), \
     CAST(SUM(amount_cents) AS SIGNED) FROM archived_orders WHERE item_id = ? GROUP BY status",
    "SELECT reason, movements, delta FROM archived_movements WHERE item_id = ?",
];
/// What the file has, in the order of [`Sums::totals`].
const EXPORTED: &str = "SELECT orders, quantity, amount_cents, movements, delta FROM archives \
     WHERE item_id = ? AND file <> ''";

impl Sums {
    /// Adds up the rows of an item that are in the ledger.
    pub async fn of_rows(connection: &mut MySqlConnection, item: ItemId) -> sqlx::Result<Self> {
        Self::read(connection, item, LIVE).await
    }

    /// Reads the sums of the rows of an item that have left the ledger.
    pub async fn archived(connection: &mut MySqlConnection, item: ItemId) -> sqlx::Result<Self> {
        Self::read(connection, item, ARCHIVED).await
    }

    async fn read(
        connection: &mut MySqlConnection,
        item: ItemId,
        [orders, movements]: [&str; 2],
    ) -> sqlx::Result<Self> {
        let read = async {
            let orders: Vec<(Text, i64, i64, i64)> =
                sqlx::query_as(orders).bind(item.get()).fetch_all(&mut *connection).await?;
            let movements: Vec<(Text, i64, i64)> =
                sqlx::query_as(movements).bind(item.get()).fetch_all(connection).await?;
            Ok((orders, movements))
        };
        let (orders, movements) = within(LONG_READ_MAX, read).await?;
        let orders = orders.into_iter().map(|(Text(status), a, b, c)| (status, [a, b, c]));
        let movements = movements.into_iter().map(|(Text(reason), a, b)| (reason, [a, b]));
        Ok(Self { orders: orders.collect(), movements: movements.collect() })
    }

    /// Adds an order.
    pub fn add_order(&mut self, status: &str, sum: [i64; 3]) {
        add(&mut self.orders, status, sum);
    }

    /// Adds a movement.
    pub fn add_movement(&mut self, reason: &str, sum: [i64; 2]) {
        add(&mut self.movements, reason, sum);
    }

    /// Number, units and cents of orders; number and units of movements.
    #[must_use]
    pub fn totals(&self) -> [i64; 5] {
        let mut totals = [0; 5];
        for (index, total) in totals.iter_mut().enumerate() {
            *total = match index.checked_sub(3) {
                None => self.orders.values().map(|sum| sum[index]).sum(),
                Some(index) => self.movements.values().map(|sum| sum[index]).sum(),
            };
        }
        totals
    }

    /// Units of orders of one status.
    #[must_use]
    pub fn units(&self, status: &str) -> i64 {
        self.orders.get(status).map_or(0, |sum| sum[1])
    }

    fn moved(&self, reason: &str) -> i64 {
        self.movements.get(reason).map_or(0, |sum| sum[1])
    }

    /// Counts what does not add up in the sums of rows that have left: units that were sold, cancelled or
    /// expired have their movements, and with the rows that are `here` they make what the file has.
    pub(crate) async fn faults(
        &self,
        connection: &mut MySqlConnection,
        item: ItemId,
        here: &Self,
    ) -> sqlx::Result<i64> {
        let ended = self.units("cancelled") + self.units("expired");
        let mut faults = [
            self.moved("sold") + self.units("paid") + ended,
            self.moved("cancelled") - self.units("cancelled"),
            self.moved("expired") + self.moved("late_payment") - self.units("expired"),
        ]
        .into_iter()
        .filter(|difference| *difference != 0)
        .count();
        match exported(connection, item).await? {
            Some(exported) => {
                let pairs = self.totals().into_iter().zip(here.totals()).zip(exported);
                faults += pairs.filter(|((left, here), all)| left + here != *all).count();
            }
            None => faults += usize::from(*self != Self::default()),
        }
        Ok(i64::try_from(faults).unwrap_or(i64::MAX))
    }
}

async fn exported(from: impl MySqlExecutor<'_>, item: ItemId) -> sqlx::Result<Option<[i64; 5]>> {
    let found: Option<(i64, i64, i64, i64, i64)> =
        sqlx::query_as(EXPORTED).bind(item.get()).first(from).await?;
    Ok(found.map(|(a, b, c, d, e)| [a, b, c, d, e]))
}

fn add<const N: usize>(sums: &mut BTreeMap<String, [i64; N]>, key: &str, more: [i64; N]) {
    if !sums.contains_key(key) {
        sums.insert(key.to_owned(), [0; N]);
    }
    let sum = sums.get_mut(key).into_iter().flatten();
    sum.zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(more));
}
