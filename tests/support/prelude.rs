//! What most tests need: `use crate::support::prelude::*;`.

pub use futures::future::join_all;
pub use reqwest::Method;
pub use seckill::config::Config;
pub use serde_json::{Value, json};
pub use settings::Secret;
pub use web::token::Role;

pub use super::{
    Answer, BOUND, Client, FaultyLink, Instance, Shop, assert_all_clean, assert_clean, assert_has,
    assert_problem, available, changed, eventually, hold_stock_row, is_breaker_open, is_whole,
    item_body, link_to, link_to_ledger, order_id, own_mysql, patient, patient_transaction,
    purchase_of, purchase_path, redis_url, unique, until, until_in_flight, until_metric,
    until_running, when, write_batch,
};
