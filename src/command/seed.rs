//! `seckill seed`: a demo sale that is open now.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use crate::catalog::{self, StockedItem};
use crate::config::Config;
use crate::http::item_form::read_item;
use ledger::rows::{self, items};
use mysql_connection::Database;
use serde::Deserialize;
use shop_domain::{Currency, ItemId, NewItem};
use time::{Duration, OffsetDateTime};
use web::problem::{Problem, rfc3339};

use super::ExitResult;
use super::output::print_line;

/// Makes the demo sales unless a sale of the shop is open now.
pub async fn run(file: Option<&Path>) -> ExitResult {
    let config = super::settings(file)?;
    super::start_logging(&config)?;
    let made = super::progress::while_waiting("making the demo sales", seed(&config)).await?;
    print_line(if made { "made the demo sales" } else { "a sale is open already" });
    Ok(ExitCode::SUCCESS)
}

/// Makes the demo sales; `false` when a sale of the shop is open now.
pub async fn seed(config: &Config) -> Result<bool, String> {
    let pool = mysql_connection::pool(config)?;
    let seeded = make_sales(&pool, config.currency()?).await;
    pool.close().await;
    seeded.map_err(|error| format!("the demo sales could not be made: {error}"))
}

async fn make_sales(pool: &Database, currency: Currency) -> ledger::Result<bool> {
    let now = OffsetDateTime::now_utc();
    let listed = items::list_shop(pool, now).await?;
    let open = |stocked: &StockedItem| {
        let left = stocked.item.window.ends_at() - now;
        stocked.available > 0 && stocked.item.window.starts_at() <= now && left > Duration::HOUR
    };
    if listed.iter().any(open) {
        return Ok(false);
    }
    // The pages name the first demo sale by number 1. Later ones get numbers like all items.
    let is_empty = rows::audit::item_ids(pool).await?.is_empty();
    let demos: Demos = toml::from_str(DEMOS).expect("the demo sales are TOML");
    for (demo, number) in demos.sale.iter().zip(1..) {
        if let Ok(new) = demo.item(now, currency) {
            let id = ItemId::new(number).filter(|_| is_empty);
            catalog::create(pool, id, &new, now).await?;
        }
    }
    Ok(true)
}

const DEMOS: &str = include_str!("demo_sales.toml");
/// How long a demo sale lasts.
const LASTS: Duration = Duration::days(7);

/// The demo sales: one that is open, one that starts later, one with few units.
#[derive(Deserialize)]
struct Demos {
    sale: Vec<Demo>,
}

#[derive(Deserialize)]
struct Demo {
    starts_in_minutes: i64,
    /// Fields of `POST /api/admin/items`.
    fields: BTreeMap<String, String>,
}

impl Demo {
    fn item(&self, now: OffsetDateTime, currency: Currency) -> Result<NewItem, Problem> {
        let starts_at = now + Duration::minutes(self.starts_in_minutes);
        let field = |name: &str| match name {
            "starts_at" => Some(rfc3339(starts_at)),
            "ends_at" => Some(rfc3339(starts_at + LASTS)),
            _ => self.fields.get(name).cloned(),
        };
        read_item(&field, currency)
    }
}
