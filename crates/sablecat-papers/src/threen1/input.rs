//! The input: a run a line, `start finish workers blocksize`.

use std::ops::RangeInclusive;

/// The most workers of a line.
pub const WORKERS_MAX: u32 = 64;
const DISK_BYTES_PER_INTEGER: u64 = 300;
/// For logs, and the least that some file systems are made with.
const DISK_BYTES_MIN: u64 = 512 << 20;
/// As in the paper, to as far as takes half a minute.
const INPUT: &str = "1 100000 8 5000\n1 1000000 8 50000\n";
const INPUT_QUICK: &str = "1 20000 8 1000\n";

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The first integer, at least 1.
    pub start: u64,
    /// The last integer.
    pub finish: u64,
    /// Worker processes.
    pub workers: u32,
    /// How many integers a worker claims at a time.
    pub block: u64,
}

impl Line {
    /// Reads an input, or the suite's own. Empty lines and what follows a `#` count for nothing.
    ///
    /// # Errors
    /// A sentence with the number of the line, when one is not four numbers that make sense, or when there is
    /// none.
    pub fn read_all(input: Option<&str>, quick: bool) -> Result<Vec<Line>, String> {
        let input = input.unwrap_or(if quick { INPUT_QUICK } else { INPUT });
        let mut lines = Vec::new();
        for (at, text) in input.lines().enumerate() {
            let text = text.split('#').next().unwrap_or_default().trim();
            if !text.is_empty() {
                lines.push(
                    Line::read(text).map_err(|error| format!("line {} of the input: {error}", at + 1))?,
                );
            }
        }
        if lines.is_empty() { Err("there is no line in the input".to_owned()) } else { Ok(lines) }
    }

    fn read(text: &str) -> Result<Line, String> {
        let number = |word: &str| word.parse::<u64>().map_err(|_| format!("{word:?} is not a number"));
        let numbers = text.split_whitespace().map(number).collect::<Result<Vec<_>, _>>()?;
        let &[start, finish, workers, block] = &numbers[..] else {
            return Err(format!(
                "{} numbers instead of four: start, finish, workers, blocksize",
                numbers.len()
            ));
        };
        if start == 0 || finish < start || finish == u64::MAX {
            return Err(format!("{start} to {finish} is no range of positive integers"));
        }
        if block == 0 {
            return Err("a block has at least one integer".to_owned());
        }
        let workers = u32::try_from(workers).ok().filter(|workers| (1..=WORKERS_MAX).contains(workers));
        let workers = workers.ok_or(format!("there must be 1 to {WORKERS_MAX} workers"))?;
        Ok(Line { start, finish, workers, block })
    }

    /// The integers.
    pub(crate) fn range(&self) -> RangeInclusive<u64> {
        self.start..=self.finish
    }

    /// How many integers.
    pub(crate) fn count(&self) -> u64 {
        self.finish - self.start + 1
    }

    /// About how many bytes of disk a run takes in the system that takes most, with room to spare. A journal
    /// with before-images was seen to take 180 bytes an integer, with a database of 50, where the line begins
    /// at 1.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.count().saturating_mul(DISK_BYTES_PER_INTEGER).saturating_add(DISK_BYTES_MIN)
    }

    /// The end (exclusive) of the block that begins at `from`.
    pub(crate) fn block_end(&self, from: u64) -> u64 {
        from.saturating_add(self.block).min(self.finish + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_four_numbers() {
        let lines = Line::read_all(Some("# a remark\n1 100 8 10\n\n  5 7 1 100 # another\n"), false);
        let expected = [
            Line { start: 1, finish: 100, workers: 8, block: 10 },
            Line { start: 5, finish: 7, workers: 1, block: 100 },
        ];
        assert_eq!(lines.as_deref(), Ok(&expected[..]));
        assert_eq!(expected[1].block_end(5), 8);
        assert_eq!(expected[0].block_end(11), 21);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_its_line() {
        for (text, error) in [
            (
                "1 2 3 4\n1 2 3",
                "line 2 of the input: 3 numbers instead of four: start, finish, workers, blocksize",
            ),
            ("1 2 three 4", "line 1 of the input: \"three\" is not a number"),
            ("0 2 1 1", "line 1 of the input: 0 to 2 is no range of positive integers"),
            ("3 2 1 1", "line 1 of the input: 3 to 2 is no range of positive integers"),
            ("1 2 0 1", "line 1 of the input: there must be 1 to 64 workers"),
            ("1 2 65 1", "line 1 of the input: there must be 1 to 64 workers"),
            ("1 2 1 0", "line 1 of the input: a block has at least one integer"),
            ("# nothing", "there is no line in the input"),
        ] {
            assert_eq!(Line::read_all(Some(text), false), Err(error.to_owned()), "{text}");
        }
    }

    #[test]
    fn the_suites_own_input_is_in_order() {
        assert_eq!(Line::read_all(None, false).map(|lines| lines.len()), Ok(2));
        assert_eq!(Line::read_all(None, true).map(|lines| lines.len()), Ok(1));
    }
}
