//! A private Vitess whose items are in two shards.

use dev_servers::{DATABASE, VitessServer};
use ledger::{rows, schema};
use seckill::config::Config;
use settings::Secret;

/// Makes the tables beside those of the items, on the server behind.
pub async fn make_tables(vitess: &mut VitessServer) {
    let mut config = Config::defaults();
    config.database_url = Secret::new(vitess.server_url(DATABASE));
    let pool = rows::pool(&config).expect("the URL is fine");
    schema::migrate(&config, &pool).await.expect("the schema is made");
    pool.close().await;
    // The tablets read the tables when they start.
    vitess.gate().kill().await;
    vitess.gate().restart().await.expect("vtgate starts again");
}
