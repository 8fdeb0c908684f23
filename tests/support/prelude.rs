//! What most tests need: `use crate::support::prelude::*;`.

pub use std::collections::{BTreeMap, BTreeSet, HashSet};
pub use std::net::SocketAddr;
pub use std::path::{Path, PathBuf};
pub use std::sync::Arc;
pub use std::sync::atomic::{AtomicBool, Ordering};
pub use std::time::Duration;

pub use dev_servers::{MysqlOptions, MysqlServer};
pub use faulty_link::{Fault, Trap};
pub use futures::future::join_all;
pub use ledger::breaker::Breakers;
pub use ledger::rows::outbox::Outbox;
pub use mysql_connection::Database;
pub use reqwest::{Method, RequestBuilder};
pub use seckill::config::Config;
pub use serde_json::{Value, json};
pub use settings::Secret;
pub use shop_domain::{Clock, ItemId, Outcome, Purchase, UserId};
pub use shop_metrics::Metrics;
pub use time::OffsetDateTime;
pub use time::format_description::well_known::Rfc3339;
pub use tokio::task::JoinSet;
pub use tokio_util::task::TaskTracker;
pub use web::token::Role;

pub use super::crowd::RECOVERY_MAX;
pub use super::event_stream::{Event, Events};
pub use super::identity_keys::TestKey;
pub use super::identity_provider::TestIdentityProvider;
pub use super::payment_provider::TestProvider;
pub use super::{
    Answer, BOUND, Client, FaultyLink, Instance, Shop, TestFolder, assert_all_clean, assert_clean,
    assert_has, assert_problem, available, changed, eventually, hold_stock_row, in_a_minute,
    is_breaker_open, is_whole, item_body, link_before, link_to, link_to_ledger, order_id,
    own_mysql, patient, patient_transaction, purchase_of, purchase_path, redis_url, serve_routes,
    unique, until, until_in_flight, until_metric, until_running, when, write_batch,
};
pub use crate::process::program::{free_addr, press, program, run, run_says, serve, told};
