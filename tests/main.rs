//! The integration tests: one binary, real servers, a database and a key prefix per test.
//!
//! `SECKILL_MYSQLD` names another database server (see `make test-mysql`).

mod support;

mod backup;
mod batches;
mod browser;
mod commit;
mod dead_letters;
mod dependencies;
mod docs;
mod docs_locks;
mod events;
mod expiry;
mod exports;
mod fences;
mod fuzz;
mod gates;
mod http;
mod identity;
mod item_reads;
mod lab;
mod late;
mod ledger;
mod limit_groups;
mod loads;
mod logs;
mod many_pages;
mod model;
mod operations;
mod operators;
mod overload;
mod pages;
mod payments;
mod process;
mod prose;
mod reconcile;
mod redis_costs;
mod redis_lua;
mod same_key;
mod shards;
mod shared_batches;
mod silence;
mod start_mistakes;
mod starts;
mod stopping;
mod strategies;
mod stream;
mod tidy;
mod tls;
mod traces;
mod trouble;
mod typescript;
mod upgrade;
mod waiting_list;
mod writer;
