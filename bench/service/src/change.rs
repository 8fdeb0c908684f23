//! The change of the indexes of `orders` on a ledger with millions of orders, while an item sells: how long it takes,
//! and how long an order waits meanwhile.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use loadtest::document::{Cell, Color, Document, Table};
use loadtest::environment::Environment;
use loadtest::failure::{CannotJudge, EXIT_BROKEN, EXIT_CLEAN};
use loadtest::files;
use loadtest::plan::Pace;
use loadtest::program::CommandResult;
use loadtest::report::TrafficSummary;
use loadtest::tokens::Mint;

use crate::load::Target;
use crate::measure::{BATCH, Build, CLIENTS, DIRECT};
use crate::older;
use crate::subject::{BUYERS_MAX, Subject};
use crate::tokens::FIRST_BUYER;

/// From the indexes of this build back to those of the build before.
const OF_THE_BUILD_BEFORE: [&str; 2] = [
    "ALTER TABLE orders ADD UNIQUE KEY orders_request (user_id, item_id, request_key), \
     DROP KEY orders_item_request, DROP KEY orders_buyer",
    "UPDATE schema_needs SET known_version_min = 1",
];
/// How long a command may take.
const COMMAND_MAX: Duration = Duration::from_secs(1_800);
/// Orders a second that are written singly beside the batches.
const LONE_PER_SECOND: f64 = 50.0;
/// How long the sale goes on before the change, to compare.
const BEFORE: Duration = Duration::from_secs(10);
/// The longest sale; it ends with the change.
const SECONDS_MAX: f64 = 1_200.0;

/// The size of the ledger, and the sale meanwhile.
#[derive(Debug, Clone, Args)]
pub struct ChangeOptions {
    /// Older orders in the ledger.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(50_000..=50_000_000))]
    older: u32,
    /// Orders a second that are asked for meanwhile, of one item, by mysql-batch.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    rate: u32,
    /// Folder of the report, change.md and change.json.
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
}

/// What was measured.
#[derive(Debug, Serialize)]
struct Measured {
    older: u32,
    migrate_seconds: f64,
    contract_seconds: f64,
    audit_seconds: f64,
    /// By strategy: the sale before the change, and during it.
    sales: Vec<(&'static str, TrafficSummary, TrafficSummary)>,
    broken: Vec<String>,
}

/// Measures, writes the report and gives its text; broken when an audit found a fault.
pub async fn execute(options: &ChangeOptions, environment: &Environment) -> CommandResult {
    let program = Mint::new(None, environment).into_program();
    let logs = options.out.join("logs");
    let mut subject = Subject::start((Build::New, "change"), program, environment, &logs).await?;
    let measured = measure(&mut subject, options).await;
    subject.finish().await;
    let measured = measured?;
    let document = document(&measured);
    files::write_report(&options.out, "change", &measured, &document)?;
    let exit_code = if measured.broken.is_empty() { EXIT_CLEAN } else { EXIT_BROKEN };
    Ok((document.text(Color::of_terminal()), exit_code))
}

async fn measure(subject: &mut Subject, options: &ChangeOptions) -> Result<Measured, CannotJudge> {
    older::fill(subject, (0, options.older), BUYERS_MAX).await?;
    eprintln!("back to the indexes of the build before ...");
    for statement in OF_THE_BUILD_BEFORE {
        subject.execute(statement).await?;
    }
    eprintln!("selling ...");
    let (before, _) = sell(subject, options, Some(BEFORE)).await?;
    eprintln!("changing the indexes ...");
    let (during, [migrate, contract]) = sell(subject, options, None).await?;
    let audit = subject.command(&["audit"], COMMAND_MAX).await?;
    let mut broken = Vec::new();
    let mut sales = Vec::new();
    for ((strategy, before), (_, during)) in before.into_iter().zip(during) {
        broken.extend(before.1.into_iter().chain(during.1));
        sales.push((strategy, before.0, during.0));
    }
    Ok(Measured {
        older: options.older,
        migrate_seconds: migrate.as_secs_f64(),
        contract_seconds: contract.as_secs_f64(),
        audit_seconds: audit.as_secs_f64(),
        sales,
        broken,
    })
}

type Sales = Vec<(&'static str, (TrafficSummary, Vec<String>))>;

/// Sells one item by each of two strategies for `span`, or during the change; says how long its two commands took.
async fn sell(
    subject: &mut Subject,
    options: &ChangeOptions,
    span: Option<Duration>,
) -> Result<(Sales, [Duration; 2]), CannotJudge> {
    let seconds = span.map_or(SECONDS_MAX, |span| span.as_secs_f64());
    let mut running = Vec::new();
    for (strategy, rate) in [(BATCH, f64::from(options.rate)), (DIRECT, LONE_PER_SECOND)] {
        let seconds = seconds.min(f64::from(BUYERS_MAX) / rate);
        let buyers = ((rate * seconds * 1.1) as u32).clamp(1, BUYERS_MAX);
        let stock = i64::from(buyers);
        let (instances, item) = (subject.instances.clone(), [subject.item(stock).await?]);
        let target = Target {
            strategy,
            pace: Pace::Open { rate_per_second: rate, seconds },
            span: Duration::from_secs_f64(seconds),
            ..Target::closed(
                &instances,
                (&item, stock),
                CLIENTS,
                (FIRST_BUYER, buyers),
                Duration::from_secs_f64(seconds),
            )
        };
        running.push((strategy, subject.generator.start(&target).await?));
    }
    let done = match span {
        Some(span) => {
            tokio::time::sleep(span).await;
            Ok([span, span])
        }
        None => change(subject).await,
    };
    let mut sales = Vec::new();
    for (strategy, background) in running {
        sales.push((strategy, subject.generator.stop(background).await?));
    }
    Ok((sales, done?))
}

/// What an operator runs: the new indexes, then without those of the build before.
async fn change(subject: &Subject) -> Result<[Duration; 2], CannotJudge> {
    let migrate = subject.command(&["migrate"], COMMAND_MAX).await?;
    eprintln!("the new indexes took {:.1} s", migrate.as_secs_f64());
    Ok([migrate, subject.command(&["migrate", "--contract"], COMMAND_MAX).await?])
}

fn document(measured: &Measured) -> Document {
    let mut document = Document::new("The change of a large ledger".to_owned());
    document.paragraph(format!(
        "{} older orders. `seckill migrate` took {:.1} s, `seckill migrate --contract` {:.2} s, and the audit of all items \
         afterwards {:.1} s.",
        measured.older, measured.migrate_seconds, measured.contract_seconds, measured.audit_seconds
    ));
    let ms = |us: u64| format!("{:.0}", us as f64 / 1e3);
    let columns =
        ["strategy", "when", "orders/s", "p50, ms", "p99, ms", "longest, ms", "not accepted"];
    let mut table = Table::new(columns);
    for (strategy, before, during) in &measured.sales {
        for (when, sale) in [("before", before), ("during the change", during)] {
            let (accepted, latency) = (&sale.accepted, &sale.accepted.from_plan);
            table.row([
                Cell::from((*strategy).to_owned()),
                Cell::from(when),
                Cell::from(format!("{:.0}", accepted.per_second)),
                Cell::from(ms(latency.p50_us)),
                Cell::from(ms(latency.p99_us)),
                Cell::from(ms(latency.max_us)),
                Cell::from((sale.refused.purchases + sale.other.purchases).to_string()),
            ]);
        }
    }
    document.table(table);
    document.list(measured.broken.iter().map(|what| format!("void: {what}")));
    let sentence = "every order was audited: nothing oversold, nothing lost, nothing doubled";
    document.conclusion(sentence, measured.broken.is_empty());
    document
}
