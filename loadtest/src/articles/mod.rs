//! `loadtest articles`: the experiments of the five articles that this project starts from, our
//! figures beside theirs.
//!
//! Absolute figures come from other machines and cannot be compared; what can be is the order of the rows of a table
//! ([`experiments`]). S0 is a [`market`] on plain Redis; the others go through the service.

mod experiments;
mod market;

use std::path::Path;

use serde::Serialize;

use crate::circumstances::Circumstances;
use crate::document::{Document, Table};
use crate::drive::Instance;
use crate::failure::{CannotJudge, EXIT_BROKEN, EXIT_CLEAN};
use crate::files;
use crate::options::{ArticlesOptions, check_only, is_wanted};
use crate::program::CommandResult;
use crate::progress::Steps;
use crate::testbed::Testbed;

/// The experiment of one article, as a table with remarks.
#[derive(Debug, Serialize)]
struct ArticleTable {
    pub name: &'static str,
    pub title: &'static str,
    /// What was done, there and here.
    pub setting: String,
    pub head: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
    /// What to know about the figures.
    pub remarks: Vec<String>,
    /// What should hold and did not.
    pub broken: Vec<String>,
}

/// The options of a run, and the servers and instances that its experiments use.
struct Setup<'a> {
    pub options: &'a ArticlesOptions,
    pub testbed: &'a Testbed,
    pub instances: Vec<Instance>,
}

/// In the order of the articles.
const NAMES: [&str; 5] = ["S0", "S1", "S2", "S3", "S4"];

#[derive(Serialize)]
struct Report<'a> {
    circumstances: &'a Circumstances,
    tables: &'a [ArticleTable],
}

/// Runs the experiments and writes the report.
pub async fn run(options: &ArticlesOptions) -> CommandResult {
    check_only(&options.only, &NAMES)?;
    let testbed = Testbed::find(&options.testbed)?;
    let circumstances = testbed.circumstances().await?;
    let (services, instances) = testbed.pair("articles").await?;
    let setup = Setup { options, testbed: &testbed, instances };
    let mut tables = Vec::new();
    let mut report = String::new();
    let mut failure = None;
    let wanted = || NAMES.into_iter().filter(|name| is_wanted(&options.only, name));
    let mut steps = Steps::new("articles", wanted().count());
    for name in wanted() {
        steps.begin(name);
        let table = match name {
            "S0" => experiments::marketplace(&setup).await,
            "S1" => experiments::three_tasks(&setup).await,
            "S2" => experiments::waiting(&setup).await,
            "S3" => experiments::one_each(&setup).await,
            _ => experiments::every_way(&setup).await,
        };
        match table {
            Ok(table) => {
                steps.end(name);
                tables.push(table);
            }
            Err(error) => {
                failure = Some(CannotJudge(format!("{name}: {}", error.0)));
                break;
            }
        }
        // Some of them take minutes; those that are done stay if a later one cannot be judged.
        report = write(&testbed.out, &circumstances, &tables)?;
    }
    drop(steps);
    for service in services {
        service.stop().await;
    }
    if let Some(failure) = failure {
        return Err(failure);
    }
    let broken = tables.iter().any(|table| !table.broken.is_empty());
    Ok((report, if broken { EXIT_BROKEN } else { EXIT_CLEAN }))
}

/// Writes the tables that are done so far, and returns the text for the terminal.
fn write(
    out: &Path,
    circumstances: &Circumstances,
    tables: &[ArticleTable],
) -> Result<String, CannotJudge> {
    let document = document(tables, circumstances);
    files::write_report(out, "articles", &Report { circumstances, tables }, &document)?;
    Ok(document.for_terminal())
}

fn document(tables: &[ArticleTable], circumstances: &Circumstances) -> Document {
    let mut document = Document::new("The experiments of the articles, our figures beside theirs");
    document.facts(circumstances.rows());
    for article in tables {
        document.heading(format!("{}: {}", article.name, article.title));
        document.paragraph(&article.setting);
        document.table(article.table());
        let broken = article.broken.iter().map(|broken| format!("**BROKEN**: {broken}"));
        document.list(article.remarks.iter().cloned().chain(broken));
    }
    document
}

impl ArticleTable {
    fn table(&self) -> Table {
        let mut table = Table::new(self.head.clone());
        self.rows.iter().for_each(|row| table.row(row));
        table
    }
}
