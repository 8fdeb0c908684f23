//! The one strict form of texts: lines of words, each line ended by one line feed.

use std::io::{BufRead, Read};

/// The longest line that a text can have is shorter, so no text makes a reader hold more.
const LINE_BYTES_MAX: u64 = 256;
/// The largest number that every reader knows exactly: 2^53 - 1.
const NUMBER_MAX: u64 = 9_007_199_254_740_991;

/// Reads a text line by line.
pub(crate) struct Lines<R> {
    text: R,
    line: String,
    number: u64,
    /// The lines since the last call of [`Lines::take`].
    part: String,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(text: R) -> Self {
        Self { text, line: String::new(), number: 0, part: String::new() }
    }

    /// Goes to the next line; `false` at the end of the text.
    pub(crate) fn advance(&mut self) -> Result<bool, String> {
        self.number += 1;
        self.line.clear();
        let mut limited = self.text.by_ref().take(LINE_BYTES_MAX);
        limited.read_line(&mut self.line).map_err(|error| self.fault(error))?;
        if self.line.is_empty() {
            return Ok(false);
        }
        if self.line.pop() != Some('\n') {
            return Err(self.fault("it has no end, or is too long"));
        }
        Ok(true)
    }

    /// The present line, without its end.
    pub(crate) fn line(&self) -> &str {
        &self.line
    }

    /// Goes to the next line, which must be this one.
    pub(crate) fn fixed(&mut self, line: &str) -> Result<(), String> {
        if self.advance()? && self.line == line {
            self.keep();
            return Ok(());
        }
        Err(self.fault(format!("it must be: {line}")))
    }

    /// Goes to the next line, which must be `name` and a value.
    pub(crate) fn value(&mut self, name: &str) -> Result<String, String> {
        let is_there = self.advance()?;
        let rest = self.line.strip_prefix(name).filter(|_| is_there);
        let value = rest.and_then(|rest| rest.strip_prefix(' ')).map(str::to_owned);
        let value = value.ok_or_else(|| self.fault(format!("it must be: {name} and a value")))?;
        self.keep();
        Ok(value)
    }

    /// As [`Lines::value`], with a number.
    pub(crate) fn number(&mut self, name: &str) -> Result<u64, String> {
        let value = self.value(name)?;
        number(&value).ok_or_else(|| self.fault(format!("no number: {value}")))
    }

    /// As [`Lines::value`], with bytes.
    pub(crate) fn bytes<const LENGTH: usize>(
        &mut self,
        name: &str,
    ) -> Result<[u8; LENGTH], String> {
        let value = self.value(name)?;
        bytes(&value).ok_or_else(|| self.fault(format!("it must have {} digits", 2 * LENGTH)))
    }

    /// The lines since the last call, each with its end.
    pub(crate) fn take(&mut self) -> String {
        std::mem::take(&mut self.part)
    }

    /// Refuses a further line.
    pub(crate) fn end(&mut self) -> Result<(), String> {
        if self.advance()? {
            return Err(self.fault("it is one too many"));
        }
        Ok(())
    }

    /// Whether no line follows.
    pub(crate) fn is_over(&mut self) -> Result<bool, String> {
        let rest = self.text.fill_buf().map_err(|error| error.to_string())?;
        Ok(rest.is_empty())
    }

    /// A sentence about the present line.
    pub(crate) fn fault(&self, what: impl std::fmt::Display) -> String {
        format!("line {}: {what}", self.number)
    }

    fn keep(&mut self) {
        self.part += &self.line;
        self.part.push('\n');
    }
}

/// A decimal number without sign or leading zeros.
pub(crate) fn number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let has_zeros = text.len() > 1 && text.starts_with('0');
    let number = text.parse().ok().filter(|_| is_plain && !has_zeros)?;
    (number <= NUMBER_MAX).then_some(number)
}

/// The bytes of digits `0-9a-f`.
pub(crate) fn bytes<const LENGTH: usize>(text: &str) -> Option<[u8; LENGTH]> {
    let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
    let mut bytes = [0; LENGTH];
    hex::decode_to_slice(text, &mut bytes).ok().filter(|()| is_lower)?;
    Some(bytes)
}
