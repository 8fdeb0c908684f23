//! The plan of a run: its parsed strategies, its limits, and the cells in the order in which they
//! run.

use crate::problems;
use crate::report::{Arbiters, Cell, RunRequest};
use gates::{Breaks, Card, Options};
use shop_domain::ArbiterMode;
use web::problem::Problem;

/// Units of a cell's item.
pub const STOCK_MAX: i64 = 10_000;
/// Buyers of a cell.
pub const BUYERS_MAX: u32 = 10_000;
/// Purchases of a cell.
pub const REQUESTS_MAX: u32 = 100_000;
/// Purchases that run at once.
pub const CONCURRENCY_MAX: u32 = 1_000;
/// Rounds of a run; each runs all cells once.
pub const ROUNDS_MAX: u32 = 5;
/// Units of one purchase.
pub const QUANTITY_MAX: u32 = 10;
/// Longest time for which a cell sends purchases, in seconds.
pub const SECONDS_MAX: u32 = 120;
/// Default of the time for which a cell sends purchases, in seconds.
pub const SECONDS_DEFAULT: u32 = 30;
/// Cells of a run: enough for every strategy, with and without the arbiter, in every round.
pub const CELLS_MAX: usize = 500;

/// A strategy with its options, as the request of a run names it.
#[derive(Clone, Debug)]
pub struct StrategyChoice {
    /// The text of the request: `name` or `name?option=value`.
    pub text: String,
    /// The strategy.
    pub card: &'static Card,
    pub options: Options,
}

impl StrategyChoice {
    /// Reads `name` or `name?option=value&...`.
    ///
    /// # Errors
    /// Names the unknown strategy or option.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let (name, query) = text.split_once('?').unwrap_or((text, ""));
        let card = gates::card(name).ok_or_else(|| {
            problems::UNKNOWN_STRATEGY
                .detail(format!("there is no strategy {name:?}; see /api/strategies"))
        })?;
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let options = Options::read(pairs)
            .map_err(|error| problems::INVALID_OPTIONS.detail(error.to_string()))?;
        if !options.is_default() && !card.takes_options {
            return Err(problems::INVALID_OPTIONS.detail(format!("{name} takes no options")));
        }
        Ok(Self { text: text.to_owned(), card, options })
    }

    /// The number of instances that breaks the gate with these options.
    pub fn breaks_with(&self) -> Breaks {
        self.card.breaks_with_options(&self.options)
    }
}

/// The plan of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The request.
    pub request: RunRequest,
    /// The strategies in it.
    pub chosen: Vec<StrategyChoice>,
}

impl Plan {
    /// The cells, in the order in which they run, with the strategy of each.
    pub fn cells(&self) -> Vec<(Cell, StrategyChoice)> {
        let arbiters: &[ArbiterMode] = match self.request.arbiter {
            Arbiters::Off => &[ArbiterMode::Off],
            Arbiters::On => &[ArbiterMode::On],
            Arbiters::Both => &[ArbiterMode::Off, ArbiterMode::On],
        };
        let mut cells = Vec::new();
        for round in 1..=self.request.rounds {
            let mut once: Vec<_> = self
                .chosen
                .iter()
                .flat_map(|chosen| arbiters.iter().map(move |&arbiter| (chosen, arbiter)))
                .collect();
            // The first cell meets a cold service: no strategy is first in every round.
            if round % 2 == 0 {
                once.reverse();
            }
            for (chosen, arbiter) in once {
                cells.push((self.cell(cells.len(), round, chosen, arbiter), chosen.clone()));
            }
        }
        cells
    }

    fn cell(
        &self,
        index: usize,
        round: u32,
        chosen: &StrategyChoice,
        arbiter: ArbiterMode,
    ) -> Cell {
        Cell {
            index,
            strategy: chosen.text.clone(),
            arbiter: arbiter.as_str(),
            round,
            safe: chosen.breaks_with() == Breaks::Never,
            stock: self.request.stock,
            available: self.request.stock,
            ..Cell::default()
        }
    }
}
