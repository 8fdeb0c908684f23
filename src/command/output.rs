//! What the commands print. `println!` panics when nothing can be written; here the program ends as other tools do.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process;

use super::progress;

/// The exit code of a shell for a program that SIGPIPE has ended: the signal has the number 13.
const READER_GONE: i32 = 128 + 13;

/// Standard output. The program ends without a word when the reader has closed the pipe, as `head` does.
pub struct Output;

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A bar in the last line of the terminal goes, so that no line is written behind it.
        let _ = progress::remove_bar();
        io::stdout().write(bytes).inspect_err(end_without_reader)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush().inspect_err(end_without_reader)
    }
}

fn end_without_reader(error: &io::Error) {
    if error.kind() == ErrorKind::BrokenPipe {
        process::exit(READER_GONE);
    }
}

/// Prints a line. If it cannot be written, such as on a full disk, the program ends with a sentence and exit 2.
pub fn print_line(line: impl Display) {
    if let Err(error) = writeln!(Output, "{line}") {
        eprintln!("seckill: {}", not_written(&error));
        process::exit(2);
    }
}

/// A number with its noun, such as `1 item` or `2 items`.
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let ending = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

/// The sentence for output that cannot be written.
pub fn not_written(error: &io::Error) -> String {
    format!("the output is not written: {error}")
}
