//! What most files of the fault matrix need: `use crate::prelude::*;`.

pub use std::collections::HashSet;
pub use std::net::SocketAddr;
pub use std::os::unix::process::ExitStatusExt;
pub use std::path::{Path, PathBuf};
pub use std::process::ExitCode;
pub use std::sync::Arc;
pub use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
pub use std::time::{Duration, Instant};

pub use dev_servers::{MysqlOptions, MysqlServer};
pub use faulty_link::FaultyLink;
pub use futures::future::join_all;
pub use hyper::body::Bytes;
pub use rand::rngs::StdRng;
pub use rand::{RngExt, SeedableRng};
pub use serde_json::{Value, json};
pub use sqlx::mysql::MySqlConnection;
pub use sqlx::{Connection, Executor};
pub use time::OffsetDateTime;
pub use tokio::task::JoinSet;
pub use tokio::time::{sleep, timeout};
pub use web::token::Role;

pub use crate::checker::TrialOutcome;
pub use crate::item::SaleItem;
pub use crate::options::Options;
pub use crate::rows::{FAULT, MOMENT_MS, left_out, proven};
pub use crate::service::{Service, Setup, ask_with};
pub use crate::testbed::{Testbed, until};
pub use crate::trial::{Plan, RUSH, Trial, Wanted, make_item, run_trial};
pub use crate::wire::Link;
pub use crate::workload::Pace;
pub use crate::{Run, Said, TrialResult};
