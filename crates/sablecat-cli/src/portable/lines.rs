//! Lines that are read, and told by their numbers.

use std::io::BufRead;

use crate::Failure;

/// The lines of a text.
pub(crate) struct Lines<R> {
    text: R,
    line: Vec<u8>,
    number: u64,
    /// Whether the line is to be read once more.
    again: bool,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(text: R) -> Lines<R> {
        Lines { text, line: Vec::new(), number: 0, again: false }
    }

    /// Goes to the next line; false at the end. A line that does not end was cut short: an error.
    pub(crate) fn advance(&mut self) -> Result<bool, Failure> {
        if std::mem::take(&mut self.again) {
            return Ok(true);
        }
        self.line.clear();
        self.number += 1;
        let read = self.text.read_until(b'\n', &mut self.line);
        if read.map_err(|error| format!("reading line {}: {error}", self.number))? == 0 {
            return Ok(false);
        }
        if self.line.pop() != Some(b'\n') {
            return Err(self.wrong("it does not end: the input was cut short"));
        }
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        Ok(true)
    }

    /// Has the line be the next one again.
    pub(crate) fn back(&mut self) {
        self.again = true;
    }

    pub(crate) fn line(&self) -> &[u8] {
        &self.line
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// An error that names the line.
    #[cold]
    pub(crate) fn wrong(&self, why: impl std::fmt::Display) -> Failure {
        format!("line {}: {why}", self.number).into()
    }

    /// The text, with the line before it, if that is to be read once more.
    pub(crate) fn into_text(self) -> impl BufRead {
        let mut line = self.line;
        line.push(b'\n');
        let before = if self.again { line } else { Vec::new() };
        std::io::Read::chain(std::io::Cursor::new(before), self.text)
    }
}
