//! The strategies as small programs, and the reader as scheduler.
//!
//! Each strategy has a program in JSON beside its code (`crates/gates/src/NAME.json`): the steps of one
//! purchase, in the words of the articles. A [`Machine`] runs two or three buyers, one step at a time, in the
//! order that a *schedule* says. [`search`] tries every schedule and finds the shortest that sells more units
//! than there are. The page `static/play.html` interprets the same programs in JavaScript; a test compares
//! both on random schedules.
//!
//! # Modules, in reading order
//! 1. [`program`]: the steps, as data.
//! 2. [`expression`]: the conditions and assignments in them.
//! 3. [`machine`]: buyers, variables and one step.
//! 4. [`search`](mod@search): every schedule, breadth first.

pub mod expression;
pub mod machine;
pub mod program;
pub mod search;

pub use machine::{Action, Machine, Settings, State};
pub use program::{Program, ProgramError};
pub use search::search;
