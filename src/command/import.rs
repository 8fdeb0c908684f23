//! `seckill import`: sales from a table in CSV.

use std::path::{Display, Path, PathBuf};
use std::process::ExitCode;

use time::OffsetDateTime;

use super::output::{counted, print_line};
use super::{ExitResult, parse_user};
use crate::account::Actor;
use crate::catalog::{Catalog, CreateError};
use crate::config::Config;
use crate::http::item_form::read_item;
use files::{Encoding, FaultBody, read_table};
use gates::redis_store::{Counters, RedisClient};
use ledger::catalog::KeyedRequest;
use ledger::rows::outbox::Outbox;
use ledger::waiting_list::WaitingLine;
use shop_domain::{Clock, Currency, LedgerError, RequestKey, UserId};
use shop_metrics::Metrics;
use web::body::CSV_BYTES_MAX;

/// The arguments: which table, and whether it is only checked.
#[derive(clap::Args)]
pub struct Arguments {
    /// A table with a line of column names: name, price_cents, stock, starts_at, ends_at, and more.
    file: PathBuf,
    /// Check the table alone, and create nothing. Products and groups are looked up before the creation.
    #[arg(long)]
    dry_run: bool,
    /// The charset of the table, such as gbk or windows-1252; UTF-8 and marked UTF-16 need none.
    #[arg(long, value_name = "NAME", value_parser = parse_charset)]
    charset: Option<Charset>,
    /// The key of this import: with the same key and table, another run creates nothing.
    #[arg(long, value_name = "KEY", value_parser = parse_key)]
    key: Option<RequestKey>,
    /// The operator, for the operators' log.
    #[arg(long, value_name = "USER", value_parser = parse_user, required_unless_present = "dry_run")]
    operator: Option<UserId>,
}

/// Prints the faults of the table by line, or creates its sales. Exit 1 when there are faults.
pub async fn run(settings: Option<&Path>, arguments: &Arguments) -> ExitResult {
    let path = arguments.file.display();
    let table = std::fs::read(&arguments.file).map_err(|error| format!("{path}: {error}"))?;
    if table.len() > CSV_BYTES_MAX {
        return Err(format!("{path} has more than {CSV_BYTES_MAX} bytes"));
    }
    // A check needs no settings. If there are some, it reads amounts in the shop's currency.
    let config = match super::settings(settings) {
        Err(_) if arguments.dry_run && settings.is_none() => None,
        read => Some(read?),
    };
    let currency = config.as_ref().map_or(Ok(Currency::USD), Config::currency)?;
    let bytes = table;
    let charset = arguments.charset.map(|Charset(charset)| charset);
    let mut table = read_table(&bytes, charset, currency, read_item);
    let operator = arguments.operator.filter(|_| !arguments.dry_run);
    let (Some(user), Some(config)) = (operator, config) else {
        if !table.faults.is_empty() {
            return refused(&path, &table.faults);
        }
        let sales = counted(table.sales.len(), "sale");
        print_line(format_args!("{sales}, no faults; nothing was created"));
        return Ok(ExitCode::SUCCESS);
    };
    super::operator::check(&config, user).await?;
    let metrics = Metrics::new();
    let redis = RedisClient::new(&config)?;
    let ledger = super::ledger(&config)?;
    let counters = Counters::new(redis, ledger.pool.clone(), metrics.clone());
    let clock = Clock::default();
    let events = Outbox::new(config.events.enabled);
    let line = WaitingLine::new(clock.clone(), events, metrics, config.waiting_list.line_max);
    let catalog = Catalog::new(ledger, counters, clock, line);
    let checked = table.check_names(&catalog).await;
    checked
        .map_err(|problem| format!("the ledger could not be read: {}", problem.detail_text()))?;
    if !table.faults.is_empty() {
        return refused(&path, &table.faults);
    }
    let actor = Actor { user, address: None, now: OffsetDateTime::now_utc() };
    let key = arguments.key.as_ref();
    let charset = charset.map(Encoding::name);
    let request = key.map(|key| KeyedRequest { user, key, body: &bytes, charset });
    let created = catalog.create_all(&table.sales, &actor, request).await;
    let created = created.map_err(not_created)?;
    for stocked in &created.items {
        print_line(format_args!("{}\t{}", stocked.item.id, stocked.item.name));
    }
    let before = if created.is_repeated { " before" } else { "" };
    print_line(format_args!("{} created{before}", counted(created.items.len(), "sale")));
    Ok(ExitCode::SUCCESS)
}

fn not_created(error: CreateError) -> String {
    match error {
        CreateError::Ledger(LedgerError::OutcomeUnknown) => {
            format!("the sales may be created: {error}; with the same --key, another run tells")
        }
        _ => format!("the sales are not created: {error}"),
    }
}

/// A charset that a table may have.
#[derive(Clone, Copy)]
struct Charset(&'static Encoding);

fn parse_charset(name: &str) -> Result<Charset, String> {
    let known = files::charset_named(name).map(Charset);
    known.ok_or_else(|| "there is no such charset; known are utf-8, utf-16le, gbk, big5, shift_jis, windows-1252 and more".to_owned())
}

fn parse_key(text: &str) -> Result<RequestKey, String> {
    let key = RequestKey::parse(text);
    key.ok_or_else(|| "a key has 1 to 64 printable ASCII characters without spaces".to_owned())
}

fn refused(path: &Display<'_>, faults: &[FaultBody]) -> ExitResult {
    for fault in faults {
        let column = fault.column.as_deref().map(|name| format!(" {name}:")).unwrap_or_default();
        let cell = fault.cell.as_deref().map(|cell| format!(" {cell}")).unwrap_or_default();
        let read = fault.read.as_deref().map(|read| format!(" ({read:?})")).unwrap_or_default();
        print_line(format_args!("{path}:{}:{column}{cell}{read} {}", fault.line, fault.detail));
    }
    print_line(format_args!("{}; nothing was created", counted(faults.len(), "fault")));
    Ok(ExitCode::from(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sales_whose_commit_was_lost_may_be_created() {
        let told = |error| not_created(CreateError::Ledger(error));
        assert!(told(LedgerError::OutcomeUnknown).contains("may be created"));
        assert!(told(LedgerError::ReadOnly).contains("are not created"));
    }
}
