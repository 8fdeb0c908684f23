//! The progress of a command that has many steps: a bar on a terminal, a plain line for each step
//! elsewhere. Both go to standard error, so that the report on standard output stays its own.

use std::io::Write;
use std::sync::LazyLock;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// How often the time in the bar moves.
const TICK: Duration = Duration::from_millis(500);

/// All bars: a step may have a bar of its own below that of its command.
static BARS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// A bar of `total` steps below the others, which goes away when it is dropped. It is hidden where standard error is no
/// terminal.
#[must_use]
pub fn bar(total: usize, template: &str) -> ProgressBar {
    let bar = BARS.add(ProgressBar::new(total as u64));
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// The steps of a command. The bar goes away when this is dropped.
pub struct Steps {
    what: &'static str,
    bar: ProgressBar,
}

impl Steps {
    /// Begins a command of `total` steps.
    #[must_use]
    pub fn new(what: &'static str, total: usize) -> Self {
        let bar = bar(total, "{prefix} {bar:30} {pos}/{len} {elapsed} {wide_msg}");
        bar.set_prefix(what);
        bar.enable_steady_tick(TICK);
        Self { what, bar }
    }

    /// Adds steps that turned out to be needed.
    pub fn add(&mut self, steps: usize) {
        self.bar.inc_length(steps as u64);
    }

    /// Says which step begins.
    pub fn begin(&self, step: &str) {
        self.show(self.bar.position() + 1, &format!("begins {step}"));
    }

    /// Says what came out of a step.
    pub fn end(&mut self, result: &str) {
        self.bar.inc(1);
        self.show(self.bar.position(), result);
    }

    /// Ends a step whose result is printed to standard output, above the bar.
    pub fn end_with_line(&mut self, line: &str) {
        // A reader that has gone does not end the command, which also writes files.
        BARS.suspend(|| {
            let _ = writeln!(std::io::stdout(), "{line}");
        });
        self.bar.inc(1);
    }

    fn show(&self, number: u64, text: &str) {
        self.bar.set_message(text.to_owned());
        if self.bar.is_hidden() {
            eprintln!("{}", self.line(number, text));
        }
    }

    fn line(&self, number: u64, text: &str) -> String {
        format!("{}: {number} of {}: {text}", self.what, self.bar.length().unwrap_or_default())
    }
}
