//! The progress of a command that takes longer than two seconds: a bar on a terminal, a plain line now
//! and then elsewhere. It goes to standard error, so that the output of the command stays its own.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Work that ends sooner shows no progress.
const QUIET: Duration = Duration::from_secs(2);
/// The pause between two plain lines.
const LINE_PAUSE: Duration = Duration::from_secs(5);
/// The pause between two drawings of the bar.
const BAR_PAUSE: Duration = Duration::from_millis(100);
/// The pause between two looks at the work of others.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// The width of the bar, in characters.
const BAR_WIDTH: usize = 30;

/// Whether a bar stands in the last line of the terminal. Changed under the lock of standard error.
static IS_DRAWN: AtomicBool = AtomicBool::new(false);

/// Standard error for the lines of the log: a line removes the bar, which is drawn again below it.
pub struct LogOutput;

impl Write for LogOutput {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        // Held for both, so that no bar is drawn between them.
        let mut out = std::io::stderr().lock();
        remove_bar()?;
        out.write(line)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}

/// Removes the bar, if one stands there, for a line in its place.
pub fn remove_bar() -> std::io::Result<()> {
    let mut out = std::io::stderr().lock();
    if IS_DRAWN.swap(false, Ordering::Relaxed) {
        out.write_all(b"\r\x1b[K")?;
    }
    Ok(())
}

/// The progress of some work in steps.
pub struct Progress {
    what: &'static str,
    total: usize,
    began: Instant,
    shown: Option<Instant>,
    is_terminal: bool,
}

impl Progress {
    /// Begins work of `total` steps. With 0, their number is not known.
    pub fn new(what: &'static str, total: usize) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self { what, total, began: Instant::now(), shown: None, is_terminal }
    }

    /// Shows that `done` steps are done, if it is time to.
    pub fn show(&mut self, done: usize) {
        let pause = if self.is_terminal { BAR_PAUSE } else { LINE_PAUSE };
        let is_due = self.shown.is_none_or(|shown| shown.elapsed() >= pause);
        if self.began.elapsed() >= QUIET && is_due {
            self.shown = Some(Instant::now());
            draw(self.is_terminal, &self.line(done, self.began.elapsed()));
        }
    }

    /// Waits for the work, and shows again and again how many steps of it are `done`.
    pub async fn follow<T>(
        mut self,
        mut work: impl Future<Output = T> + Unpin,
        done: impl AsyncFn() -> usize,
    ) -> T {
        loop {
            match tokio::time::timeout(LOOK_PAUSE, &mut work).await {
                Ok(ended) => return ended,
                Err(_) => self.show(done().await),
            }
        }
    }

    fn line(&self, done: usize, elapsed: Duration) -> String {
        let what = self.what;
        let total = self.total;
        let seconds = elapsed.as_secs();
        if total == 0 {
            return format!("seckill: {what}, {seconds} s");
        }
        if !self.is_terminal {
            return format!("seckill: {what}: {done} of {total} after {seconds} s");
        }
        let full = (done * BAR_WIDTH).checked_div(total).unwrap_or(0).min(BAR_WIDTH);
        let bar = format!("{}{}", "#".repeat(full), "-".repeat(BAR_WIDTH - full));
        format!("seckill: {what} [{bar}] {done} of {total}, {seconds} s")
    }
}

impl Drop for Progress {
    /// Removes the bar; after plain lines, says that it was the last of them.
    fn drop(&mut self) {
        if self.shown.is_some() {
            let seconds = self.began.elapsed().as_secs();
            let last = format!("seckill: {}: ended after {seconds} s", self.what);
            draw(self.is_terminal, if self.is_terminal { "" } else { last.as_str() });
        }
    }
}

/// Waits for work whose steps nobody can count, and shows how long it has taken.
pub async fn while_waiting<T>(what: &'static str, work: impl Future<Output = T>) -> T {
    Progress::new(what, 0).follow(Box::pin(work), async || 0).await
}

/// Writes over the line on a terminal, and a line of its own elsewhere. A terminal that has gone must not
/// end the work.
fn draw(is_terminal: bool, line: &str) {
    let mut out = std::io::stderr().lock();
    IS_DRAWN.store(is_terminal && !line.is_empty(), Ordering::Relaxed);
    let _ = if is_terminal {
        write!(out, "\r{line}\x1b[K").and_then(|()| out.flush())
    } else {
        writeln!(out, "{line}")
    };
}
