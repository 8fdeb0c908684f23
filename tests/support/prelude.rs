//! What most tests need: `use crate::support::prelude::*;`.

pub use std::collections::{BTreeMap, BTreeSet};
pub use std::sync::Arc;
pub use std::time::Duration;

pub use dev_servers::{MysqlOptions, MysqlServer};
pub use faulty_link::Trap;
pub use futures::future::join_all;
pub use mysql_connection::Database;
pub use reqwest::Method;
pub use seckill::config::Config;
pub use serde_json::{Value, json};
pub use settings::Secret;
pub use shop_domain::{ItemId, UserId};
pub use shop_metrics::Metrics;
pub use tokio_util::task::TaskTracker;
pub use web::token::Role;

pub use super::event_stream::Events;
pub use super::identity_keys::TestKey;
pub use super::identity_provider::TestIdentityProvider;
pub use super::payment_provider::TestProvider;
pub use super::{
    Answer, BOUND, Client, FaultyLink, Instance, Shop, assert_all_clean, assert_clean, assert_has,
    assert_problem, available, changed, eventually, hold_stock_row, is_breaker_open, is_whole,
    item_body, link_before, link_to, link_to_ledger, order_id, own_mysql, patient,
    patient_transaction, purchase_of, purchase_path, redis_url, serve_routes, unique, until,
    until_in_flight, until_metric, until_running, when, write_batch,
};
pub use crate::process::program::{free_addr, press, program, run, run_says, serve, told};
