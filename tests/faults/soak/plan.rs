//! The plan of one trial of the soak: everything that follows from its seed, and how to make it smaller.

use std::fmt;
use std::str::FromStr;

use rand::seq::{IndexedRandom, SliceRandom};

use super::kinds::Kind;
use crate::prelude::*;

/// Faults of one trial.
const AT_ONCE: usize = 2;
/// Strategies that sell in one trial.
const STRATEGIES: usize = 4;
/// Numbers of clients of each item.
const CLIENTS: &[usize] = &[2, 6, 12];
/// The latest begin of a fault, in milliseconds after each item has been sold five times.
const BEGIN_MS_MAX: u64 = 500;
/// How long a fault lasts, in milliseconds.
const LENGTH_MS: std::ops::RangeInclusive<u64> = 200..=1_500;
/// A fault that is shorter is not shortened.
const LENGTH_MS_MIN: u64 = 100;

/// A fault with its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedFault {
    pub kind: Kind,
    pub begin_ms: u64,
    pub length_ms: u64,
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoakPlan {
    pub seed: u64,
    pub faults: Vec<TimedFault>,
    pub strategies: Vec<&'static str>,
    pub clients: usize,
}

impl SoakPlan {
    /// The plan of a seed: two faults of different parts of the system.
    pub fn new(seed: u64, safe: &[&'static str]) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let mut kinds = Kind::of_plans();
        kinds.shuffle(&mut random);
        let mut faults: Vec<TimedFault> = Vec::new();
        for kind in kinds {
            let is_free = faults.iter().all(|fault| fault.kind.part() != kind.part());
            if is_free && faults.len() < AT_ONCE {
                let begin_ms = random.random_range(0..=BEGIN_MS_MAX);
                let length_ms = random.random_range(LENGTH_MS);
                faults.push(TimedFault { kind, begin_ms, length_ms });
            }
        }
        let mut strategies = safe.to_vec();
        strategies.shuffle(&mut random);
        strategies.truncate(STRATEGIES);
        let clients = CLIENTS.choose(&mut random).copied().unwrap_or(1);
        Self { seed, faults, strategies, clients }
    }

    /// Plans that are a step smaller: without a fault, with half of the strategies, with half of the clients,
    /// with a fault of half the length.
    pub fn smaller(&self) -> Vec<Self> {
        let mut smaller = Vec::new();
        for left_out in 0..self.faults.len() {
            let mut one = self.clone();
            one.faults.remove(left_out);
            smaller.push(one);
        }
        let half = self.strategies.len() / 2;
        if half > 0 {
            let (first, second) = self.strategies.split_at(half);
            smaller.push(Self { strategies: first.to_vec(), ..self.clone() });
            smaller.push(Self { strategies: second.to_vec(), ..self.clone() });
        }
        if self.clients > 1 {
            smaller.push(Self { clients: self.clients / 2, ..self.clone() });
        }
        for shorter in 0..self.faults.len() {
            let mut one = self.clone();
            let fault = &mut one.faults[shorter];
            fault.length_ms /= 2;
            if fault.length_ms >= LENGTH_MS_MIN {
                smaller.push(one);
            }
        }
        smaller
    }

    /// Reads a plan: a seed, or the text of a plan that was made smaller.
    ///
    /// # Errors
    /// A sentence when it is neither.
    pub fn read(text: &str, safe: &[&'static str]) -> Result<Self, String> {
        let mut parts = text.split('/');
        let seed = parts.next().unwrap_or_default();
        let seed = seed.parse().map_err(|_| format!("{seed:?} is not a seed"))?;
        let mut plan = Self::new(seed, safe);
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let words = value.split(',').filter(|word| !word.is_empty());
            match name {
                "faults" => plan.faults = words.map(str::parse).collect::<Result<_, _>>()?,
                "strategies" => {
                    let known = |word| safe.iter().copied().find(|name| *name == word);
                    let found: Option<Vec<_>> = words.map(known).collect();
                    plan.strategies = found.ok_or_else(|| format!("{value:?}: unknown"))?;
                }
                "clients" => {
                    plan.clients = value.parse().map_err(|_| format!("{value:?}: no count"))?;
                }
                _ => return Err(format!("{part:?} is not a part of a plan")),
            }
        }
        Ok(plan)
    }
}

impl fmt::Display for SoakPlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: Vec<String> = self.faults.iter().map(ToString::to_string).collect();
        write!(
            formatter,
            "{}/faults={}/strategies={}/clients={}",
            self.seed,
            faults.join(","),
            self.strategies.join(","),
            self.clients
        )
    }
}

impl fmt::Display for TimedFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}@{}+{}", self.kind.name(), self.begin_ms, self.length_ms)
    }
}

impl FromStr for TimedFault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (name, times) = text.split_once('@')?;
            let (begin, length) = times.split_once('+')?;
            let kind = Kind::named(name)?;
            Some(Self { kind, begin_ms: begin.parse().ok()?, length_ms: length.parse().ok()? })
        };
        read().ok_or_else(|| format!("{text:?} is not a fault, such as mysql-killed@100+800"))
    }
}
