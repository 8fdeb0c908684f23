//! `loadtest`: fires purchases at a running Seckill service and audits what became of them.
//!
//! It shares no code with the service and speaks only HTTP and SQL, so that it can disagree with
//! it. (The market of `articles` and some experiments of `break` work on Redis themselves.) In
//! reading order:
//!
//! 1. [`options`]: the command line. [`environment`]: addresses and secrets.
//! 2. [`plan`]: who asks for what, and when. [`tokens`] and [`service`]: what must exist first.
//! 3. [`drive`]: sends the plan. [`record`]: what every single answer was.
//! 4. [`audit`]: reads the ledger with its own SQL and judges it against the record.
//! 5. [`report`]: says it, as text and as JSON. [`run`] walks through all of this.
//! 6. [`compare`]: many runs beside each other. [`articles`]: the articles' experiments.
//!    [`failures`]: known failures, made to happen. They start services of their own
//!    ([`launcher`]) on the servers of [`testbed`], and read their [`counters`].
//!
//! Exit code: 0 clean, 1 an invariant is broken, 2 could not judge.

pub mod articles;
pub mod canvas;
pub mod circumstances;
pub mod compare;
pub mod counters;
pub mod document;
pub mod drive;
pub mod environment;
pub mod failure;
pub mod failures;
pub mod launcher;
pub mod options;
pub mod plan;
pub mod process;
pub mod program;
pub mod report;
pub mod run;
pub mod service;
pub mod spread;
pub mod testbed;
pub mod tokens;
