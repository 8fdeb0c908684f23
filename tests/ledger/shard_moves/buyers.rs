//! Buyers who write to two ledgers as the service does: every change names the epoch of its route.

use std::time::Duration;

use ledger::Database;
use sqlx::{MySql, Transaction};
use uuid::Uuid;

/// Tries of one change while the item is paused.
const TRIES_MAX: u32 = 6_000;

/// A change of an order after its purchase.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Pay,
    Cancel,
    Expire,
}

/// The ledgers that they know.
#[derive(Clone)]
pub struct Buyers {
    pub pools: [Database; 2],
}

/// The result of one try under one route.
enum Tried<T> {
    Done(T),
    Moved,
}

/// Where the home ledger says that an item lives.
pub async fn route(home: &Database, item: i64) -> (u16, u64) {
    let found = sqlx::query_as("SELECT shard, epoch FROM item_homes WHERE item_id = ?")
        .bind(item)
        .fetch_optional(home)
        .await;
    found.expect("the homes are read").unwrap_or((0, 1))
}

impl Buyers {
    /// Buys one unit; `None` when it is sold out.
    pub async fn buy(&self, item: i64, buyer: i64) -> Option<String> {
        for _ in 0..TRIES_MAX {
            let route = route(&self.pools[0], item).await;
            match self.buy_by(route, item, buyer).await {
                Ok(Tried::Done(sold)) => return sold,
                Ok(Tried::Moved) | Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
        panic!("item {item} was paused for too long");
    }

    /// Tries to buy by this route alone.
    pub async fn try_buy(&self, route: (u16, u64), item: i64, buyer: i64) -> Option<String> {
        match self.buy_by(route, item, buyer).await {
            Ok(Tried::Done(sold)) => sold,
            Ok(Tried::Moved) | Err(_) => None,
        }
    }

    async fn buy_by(
        &self,
        (shard, epoch): (u16, u64),
        item: i64,
        buyer: i64,
    ) -> sqlx::Result<Tried<Option<String>>> {
        let mut transaction = self.pools[usize::from(shard)].begin().await?;
        let order = Uuid::now_v7().to_string();
        sqlx::query(
            "INSERT INTO orders (id, item_id, user_id, quantity, amount_cents, status, strategy, \
             request_key, created_at, expires_at) VALUES (?, ?, ?, 1, 250, 'pending', 'mysql-atomic', \
             ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 1 HOUR)",
        )
        .bind(&order)
        .bind(item)
        .bind(buyer)
        .bind(&order)
        .execute(&mut *transaction)
        .await?;
        sqlx::query(
            "INSERT INTO buyer_limits (item_id, user_id, bought, allowed) VALUES (?, ?, 1, 2) \
             ON DUPLICATE KEY UPDATE bought = bought + 1",
        )
        .bind(item)
        .bind(buyer)
        .execute(&mut *transaction)
        .await?;
        move_stock(&mut transaction, (item, &order), "sold", -1).await?;
        let taken = sqlx::query(
            "UPDATE stock SET available = available - 1, version = version + 1 \
             WHERE item_id = ? AND available >= 1 AND home_epoch = ?",
        )
        .bind(item)
        .bind(epoch)
        .execute(&mut *transaction)
        .await?;
        if taken.rows_affected() == 1 {
            transaction.commit().await?;
            return Ok(Tried::Done(Some(order)));
        }
        let left: Option<(u64, i64)> =
            sqlx::query_as("SELECT home_epoch, available FROM stock WHERE item_id = ?")
                .bind(item)
                .fetch_optional(&mut *transaction)
                .await?;
        transaction.rollback().await?;
        Ok(match left {
            Some((now, 0)) if now == epoch => Tried::Done(None),
            _ => Tried::Moved,
        })
    }

    /// Makes a step of the oldest pending order, and answers the order with its new status.
    pub async fn step_any(&self, item: i64, step: Step) -> Option<(String, &'static str)> {
        for _ in 0..TRIES_MAX {
            let route = route(&self.pools[0], item).await;
            match self.step_by(route, item, step).await {
                Ok(Tried::Done(made)) => return made,
                Ok(Tried::Moved) | Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
        panic!("item {item} was paused for too long");
    }

    async fn step_by(
        &self,
        (shard, epoch): (u16, u64),
        item: i64,
        step: Step,
    ) -> sqlx::Result<Tried<Option<(String, &'static str)>>> {
        let mut transaction = self.pools[usize::from(shard)].begin().await?;
        let order: Option<(String, i64)> = sqlx::query_as(
            "SELECT id, user_id FROM orders WHERE item_id = ? AND status = 'pending' \
             ORDER BY id LIMIT 1 FOR UPDATE",
        )
        .bind(item)
        .fetch_optional(&mut *transaction)
        .await?;
        let Some((order, buyer)) = order else {
            transaction.rollback().await?;
            let now = route(&self.pools[0], item).await;
            return Ok(if now == (shard, epoch) { Tried::Done(None) } else { Tried::Moved });
        };
        let status = match step {
            Step::Pay => "paid",
            Step::Cancel => "cancelled",
            Step::Expire => "expired",
        };
        sqlx::query("UPDATE orders SET status = ? WHERE id = ?")
            .bind(status)
            .bind(&order)
            .execute(&mut *transaction)
            .await?;
        let fenced = if status == "paid" {
            // Nothing of the stock changes: the row is read with a lock instead.
            let here = sqlx::query(
                "SELECT 1 FROM stock WHERE item_id = ? AND home_epoch = ? LOCK IN SHARE MODE",
            );
            here.bind(item).bind(epoch).fetch_optional(&mut *transaction).await?.is_some()
        } else {
            sqlx::query(
                "UPDATE buyer_limits SET bought = bought - 1 WHERE item_id = ? AND user_id = ?",
            )
            .bind(item)
            .bind(buyer)
            .execute(&mut *transaction)
            .await?;
            move_stock(&mut transaction, (item, &order), status, 1).await?;
            let returned = sqlx::query(
                "UPDATE stock SET available = available + 1, version = version + 1 \
                 WHERE item_id = ? AND home_epoch = ?",
            );
            let returned = returned.bind(item).bind(epoch).execute(&mut *transaction).await?;
            returned.rows_affected() == 1
        };
        if !fenced {
            transaction.rollback().await?;
            return Ok(Tried::Moved);
        }
        transaction.commit().await?;
        Ok(Tried::Done(Some((order, status))))
    }
}

async fn move_stock(
    transaction: &mut Transaction<'_, MySql>,
    (item, order): (i64, &str),
    reason: &str,
    delta: i64,
) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO stock_movements (item_id, order_id, reason, delta, created_at) \
         VALUES (?, ?, ?, ?, UTC_TIMESTAMP(6))",
    )
    .bind(item)
    .bind(order)
    .bind(reason)
    .bind(delta)
    .execute(&mut **transaction)
    .await?;
    Ok(())
}
