//! One line per bench, so that a regression shows.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::figures::Figures;
use crate::goals::Bound;
use loadtest::circumstances::Circumstances;
use loadtest::failure::CannotJudge;
use loadtest::spread::Spread;

/// How many earlier runs a run is compared with.
const COMPARED_MAX: usize = 5;
/// A ratio is called out when it is worse than this share of the earlier runs' median, and outside of
/// their spread.
const NOTICEABLE: f64 = 0.9;

/// One earlier run.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    started_at: String,
    version: String,
    /// Runs of different machines are not compared.
    machine: String,
    /// Medians by id.
    ratios: BTreeMap<String, f64>,
}

/// Adds a line for this run; says where it differs from the last ones of this machine.
pub fn compare_and_add(
    path: &Path,
    circumstances: &Circumstances,
    figures: &Figures,
) -> Result<Vec<String>, CannotJudge> {
    let machine = format!(
        "{} x {}, {}",
        circumstances.machine.cores, circumstances.machine.processor, circumstances.database
    );
    let text = fs::read_to_string(path).unwrap_or_default();
    let earlier: Vec<Line> = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Line>(line).ok())
        .filter(|line| line.machine == machine)
        .collect();
    let recent = &earlier[earlier.len().saturating_sub(COMPARED_MAX)..];
    let mut compared = Vec::new();
    for ratio in &figures.ratios {
        let before =
            Spread::of(recent.iter().filter_map(|line| line.ratios.get(ratio.goal.id).copied()));
        let now = ratio.reached.median;
        let worse = match ratio.goal.goal {
            Bound::AtLeast(_) => now < before.median * NOTICEABLE && now < before.min,
            Bound::AtMost(_) => now * NOTICEABLE > before.median && now > before.max,
            Bound::None | Bound::Shown => false,
        };
        if before.median > 0.0 && worse {
            compared.push(format!(
                "{} fell behind: {now:.2} after {:.2} ({:.2} to {:.2} in {} earlier runs)",
                ratio.goal.id,
                before.median,
                before.min,
                before.max,
                recent.len()
            ));
        }
    }
    let line = Line {
        started_at: circumstances.machine.started_at.clone(),
        version: circumstances.version.clone(),
        machine,
        ratios: figures
            .ratios
            .iter()
            .map(|ratio| (ratio.goal.id.to_owned(), ratio.reached.median))
            .collect(),
    };
    add(path, &line)?;
    Ok(compared)
}

fn add(path: &Path, line: &Line) -> Result<(), CannotJudge> {
    let failed = |reason: String| CannotJudge(format!("{}: {reason}", path.display()));
    let text = serde_json::to_string(line).map_err(|error| failed(error.to_string()))?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| failed(error.to_string()))?;
    }
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| writeln!(file, "{text}"))
        .map_err(|error| failed(error.to_string()))
}
