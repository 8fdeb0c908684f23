//! Links that break: to the database, to Redis.

use std::time::Duration;

use tokio::time::sleep;

use super::{FAULT, bit};
use crate::Tried;
use crate::shop::{Plan, Shop, Wanted, sell_through};
use crate::stage::Stage;
use crate::wire::{Link, Wire};

/// How much later everything comes.
const LATE: Duration = Duration::from_millis(200);
/// How long nothing gets through: longer than any time-out of the service, so that it has to leave
/// its connections and find the new way by itself.
const HOLE: Duration = Duration::from_secs(60);
/// The pause between two bytes.
const BYTE: Duration = Duration::from_secs(1);

macro_rules! links {
    ($($mysql:ident, $redis:ident: $link:expr;)*) => {$(
        pub async fn $mysql(stage: &mut Stage, seed: u64) -> Tried {
            to_mysql(stage, seed, $link).await
        }

        pub async fn $redis(stage: &mut Stage, seed: u64) -> Tried {
            to_redis(stage, seed, $link).await
        }
    )*};
}

links! {
    mysql_refused, redis_refused: Link::Refuses;
    mysql_black_hole, redis_black_hole: Link::BlackHole;
    mysql_slow, redis_slow: Link::Late(LATE);
    mysql_dribbles, redis_dribbles: Link::Dribbles(BYTE);
    mysql_resets, redis_resets: Link::Resets;
}

async fn to_mysql(stage: &mut Stage, seed: u64, link: Link) -> Tried {
    let wire = Wire::to(stage.mysql.port()).await?;
    let setup = stage.setup().with("DATABASE_URL", stage.ledger_url_by(wire.port));
    let plan = Plan::new(seed, Wanted::Safe, &setup);
    sell_through(stage, plan, async |_, shop| broken(shop, &wire, link).await).await
}

async fn to_redis(stage: &mut Stage, seed: u64, link: Link) -> Tried {
    let wire = Wire::to(stage.redis.port()).await?;
    let setup = stage.setup().with("REDIS_URL", Stage::redis_url_by(&stage.redis, wire.port));
    let plan = Plan::new(seed, Wanted::Needing("redis"), &setup);
    sell_through(stage, plan, async |_, shop| broken(shop, &wire, link).await).await
}

async fn broken(shop: &mut Shop, wire: &Wire, link: Link) -> crate::Run<String> {
    let before = wire.bites();
    wire.set(link);
    shop.injections += 1;
    sleep(if link == Link::BlackHole { HOLE } else { FAULT }).await;
    wire.set(Link::Works);
    shop.mended();
    let bites = wire.bites() - before;
    bit(bites > 0, format!("{bites} connections or pieces were broken or held back"))
}
