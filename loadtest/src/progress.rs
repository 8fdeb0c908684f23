//! The progress of a command that has many steps: a bar on a terminal, a plain line for each step
//! elsewhere. Both go to standard error, so that the report on standard output stays its own.

use std::io::{IsTerminal, Write};
use std::sync::LazyLock;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// How often the time in the bar moves.
const TICK: Duration = Duration::from_millis(500);

/// All bars: a step may have a bar of its own below that of its command.
static BARS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// A bar below the others that goes away when it is dropped.
pub struct Bar(ProgressBar);

impl Bar {
    /// A bar of `total` steps; `None` where standard error is no terminal.
    #[must_use]
    pub fn new(total: usize, template: &str) -> Option<Self> {
        if !std::io::stderr().is_terminal() {
            return None;
        }
        let bar = BARS.add(ProgressBar::new(total as u64));
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Some(Self(bar))
    }

    /// Shows how many steps are done.
    pub fn show(&self, done: u64, message: String) {
        self.0.set_message(message);
        self.0.set_position(done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
        BARS.remove(&self.0);
    }
}

/// The steps of a command. The bar goes away when this is dropped.
pub struct Steps {
    what: &'static str,
    total: usize,
    done: usize,
    /// `None` where standard error is no terminal.
    bar: Option<Bar>,
}

impl Steps {
    /// Begins a command of `total` steps.
    #[must_use]
    pub fn new(what: &'static str, total: usize) -> Self {
        let bar = Bar::new(total, "{prefix} {bar:30} {pos}/{len} {elapsed} {wide_msg}");
        if let Some(Bar(bar)) = &bar {
            bar.set_prefix(what);
            bar.enable_steady_tick(TICK);
        }
        Self { what, total, done: 0, bar }
    }

    /// Adds steps that turned out to be needed.
    pub fn add(&mut self, steps: usize) {
        self.total += steps;
        if let Some(Bar(bar)) = &self.bar {
            bar.set_length(self.total as u64);
        }
    }

    /// Says which step begins.
    pub fn begin(&self, step: &str) {
        match &self.bar {
            Some(Bar(bar)) => bar.set_message(step.to_owned()),
            None => eprintln!("{}", self.line("begins ", step)),
        }
    }

    /// Says what came out of a step.
    pub fn end(&mut self, result: &str) {
        self.done += 1;
        match &self.bar {
            Some(bar) => bar.show(self.done as u64, result.to_owned()),
            None => eprintln!("{}", self.line("", result)),
        }
    }

    /// Ends a step whose result is printed to standard output, above the bar.
    pub fn end_with_line(&mut self, line: &str) {
        self.done += 1;
        // A reader that has gone does not end the command, which also writes files.
        let print = || {
            let _ = writeln!(std::io::stdout(), "{line}");
        };
        match &self.bar {
            Some(Bar(bar)) => {
                BARS.suspend(print);
                bar.set_position(self.done as u64);
            }
            None => print(),
        }
    }

    fn line(&self, word: &str, text: &str) -> String {
        let number = if word.is_empty() { self.done } else { self.done + 1 };
        format!("{}: {number} of {}: {word}{text}", self.what, self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_lines_say_how_much_is_done() {
        let mut steps = Steps { what: "compare", total: 2, done: 0, bar: None };
        assert_eq!(steps.line("begins ", "S0"), "compare: 1 of 2: begins S0");
        steps.end("fine");
        steps.add(1);
        assert_eq!(steps.line("", "fine"), "compare: 1 of 3: fine");
    }
}
