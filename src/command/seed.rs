//! `seckill seed`: a demo sale that is open now.

use std::path::Path;
use std::process::ExitCode;

use crate::catalog::{self, StockedItem};
use crate::config::Config;
use ledger::rows::{self, items};
use mysql_connection::Database;
use shop_domain::{ArbiterMode, Cents, Currency, Item, ItemId, ItemKind, NewItem, SaleWindow};
use time::{Duration, OffsetDateTime};

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
    for (demo, number) in demos().iter().zip(1..) {
        if let Some(new) = demo.item(now, currency) {
            let id = ItemId::new(number).filter(|_| is_empty);
            catalog::create(pool, id, &new, now).await?;
        }
    }
    Ok(true)
}

/// How long a demo sale lasts.
const LASTS: Duration = Duration::days(7);

struct Demo {
    name: &'static str,
    description: &'static str,
    picture: &'static str,
    price_cents: i64,
    stock: i64,
    starts_in: Duration,
    limit: u32,
}

impl Demo {
    fn item(&self, now: OffsetDateTime, currency: Currency) -> Option<NewItem> {
        let starts_at = now + self.starts_in;
        Some(NewItem {
            name: self.name.to_owned(),
            description: self.description.to_owned(),
            image_url: Some(self.picture.to_owned()),
            price: Cents::new(self.price_cents)?,
            currency,
            stock: self.stock,
            window: SaleWindow::new(starts_at, starts_at + LASTS)?,
            per_buyer_limit: self.limit,
            unpaid_max: Item::UNPAID_MAX_DEFAULT,
            hold_seconds: 300,
            strategy: "lock-redis".to_owned(),
            kind: ItemKind::Shop,
            arbiter: ArbiterMode::On,
            waiting_room: false,
            offer_seconds: 300,
            extend_seconds: Item::EXTEND_SECONDS_DEFAULT,
            return_seconds: 0,
            variant: None,
            draw: None,
            limit_group: None,
        })
    }
}

/// The demo sales: one that is open, one that starts later, one with few units.
fn demos() -> [Demo; 3] {
    [
        Demo {
            name: "Aurora desk lamp",
            description: "A lamp that wakes up before you do: forty shades of morning, one dial.",
            picture: "/img/goods/lamp.svg",
            price_cents: 4_900,
            stock: 500,
            starts_in: -Duration::MINUTE,
            limit: 2,
        },
        Demo {
            name: "Tidewater mechanical keyboard",
            description: "Seventy-five keys, gasket mounted, quiet enough for a shared room.",
            picture: "/img/goods/keyboard.svg",
            price_cents: 12_900,
            stock: 100,
            starts_in: Duration::minutes(10),
            limit: 1,
        },
        Demo {
            name: "Kiln No. 4 teapot",
            description: "Thrown by hand, three of them, never made again.",
            picture: "/img/goods/kettle.svg",
            price_cents: 8_800,
            stock: 3,
            starts_in: -Duration::MINUTE,
            limit: 1,
        },
    ]
}
