//! The load test: sends purchases to a running Seckill service and audits what became of them.
//!
//! It shares no code with the service and speaks only HTTP and SQL, so that it can disagree with the
//! service. (S0 of [`articles`] and some experiments of `break` also use Redis.) In reading order:
//!
//! 1. [`options`]: the command line. [`environment`]: addresses and secrets of the running shop.
//! 2. [`plan`]: which buyer asks for what, and when. [`tokens`] and [`service`]: the tokens and the
//!    item that must exist first.
//! 3. [`drive`]: sends the plan and records every answer. The crate `ledger_audit` judges the
//!    ledger against that record.
//! 4. [`run`]: one load from the first token to the verdict. [`report`]: its report. [`carts`]: orders of several
//!    items. [`kills`]: the service is killed meanwhile. [`draw`]: a load on a sale that is drawn.
//! 5. [`compare`]: all strategies side by side. [`articles`]: the experiments of the five articles.
//!    [`failures`]: known failures, made to happen. They start instances of their own
//!    ([`launcher`]) on the servers of the [`testbed`], and read their [`counters`]. A few do without
//!    the service, with a [`plain_lock`]. The bench and tests put [`haproxy`] before instances.
//! 6. [`document`]: the one model of reports, and [`files`], which writes them. [`circumstances`]
//!    and [`spread`] stand in all of them; the benches (`bench/`) use them too.
//!
//! Exit code: 0 nothing is broken, 1 an invariant is broken, 2 nothing could be judged.

pub mod articles;
pub mod canvas;
pub mod carts;
pub mod circumstances;
pub mod compare;
pub mod counters;
pub mod document;
pub mod draw;
pub mod drive;
pub mod environment;
pub mod failure;
pub mod failures;
pub mod files;
pub mod haproxy;
pub mod kills;
pub mod launcher;
pub mod options;
pub mod plain_lock;
pub mod plan;
pub mod process;
pub mod program;
pub mod progress;
pub mod report;
pub mod run;
pub mod servers;
pub mod service;
pub mod spread;
pub mod testbed;
pub mod tokens;
