//! The integration tests: one binary, real servers, a database and a key prefix per test.
//!
//! `SECKILL_MYSQLD` names another database server (see `make test-mysql`).

mod gates;
mod house;
mod http;
mod ledger;
mod process;
mod purchase;
mod shop;
mod support;
