//! `seckill export`: sales, orders or movements of stock as a file.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use time::OffsetDateTime;

use super::output::{Output, not_written};
use super::{ExitResult, parse_item};
use files::export::{Exporter, Form, Format, Selection, Table};
use shop_domain::ItemId;

/// The arguments: the rows to export, and the file to write.
#[derive(clap::Args)]
pub struct Arguments {
    /// sales, orders or movements.
    #[arg(value_parser = parse_table)]
    table: Table,
    /// csv or jsonl.
    #[arg(long, default_value = "csv", value_parser = parse_format)]
    format: Format,
    /// Begin CSV with a byte order mark, by which Excel knows UTF-8.
    #[arg(long)]
    bom: bool,
    /// One item; all of them if it is left out.
    #[arg(long, value_parser = parse_item)]
    item: Option<ItemId>,
    /// Rows of this time and later, such as 2026-11-22T10:00:00Z; sales by their start.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    from: Option<OffsetDateTime>,
    /// Rows before this time.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    until: Option<OffsetDateTime>,
    /// The file to write; standard output if it is left out.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes an export. Exit 2 with a sentence when it is not complete.
pub async fn run(file: Option<&Path>, arguments: &Arguments) -> ExitResult {
    let config = super::settings(file)?;
    let exporter = Exporter::new(super::ledger(&config)?);
    let Arguments { table, format, bom, item, from, until, output } = arguments;
    let selection = Selection { item: *item, from: *from, until: *until };
    let started = exporter.start(*table, Form { format: *format, has_mark: *bom }, selection).await;
    let mut pages = started.map_err(|error| format!("nothing was exported: {error}"))?;
    // Only now: the file of an earlier export is not emptied for nothing.
    let mut output: Box<dyn Write> = match output {
        Some(path) => Box::new(
            std::fs::File::create(path).map_err(|error| format!("{}: {error}", path.display()))?,
        ),
        None => Box::new(Output),
    };
    while let Some(page) = pages.recv().await {
        let page = page.map_err(|error| format!("the export is not complete: {error}"))?;
        output.write_all(&page).map_err(|error| not_written(&error))?;
    }
    output.flush().map_err(|error| not_written(&error))?;
    Ok(ExitCode::SUCCESS)
}

fn parse_table(text: &str) -> Result<Table, String> {
    Table::parse(text).ok_or_else(|| "the tables are sales, orders and movements".to_owned())
}

fn parse_format(text: &str) -> Result<Format, String> {
    Format::parse(text).ok_or_else(|| "the formats are csv and jsonl".to_owned())
}

fn parse_time(text: &str) -> Result<OffsetDateTime, String> {
    web::instant(text).map_err(|_| "a time has the form 2026-11-22T10:00:00Z".to_owned())
}
