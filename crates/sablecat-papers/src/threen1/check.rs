//! What must come out, found by a plain loop in memory, and whether it has.

use super::input::Line;
use super::store::Account;
use super::work::successor;

/// Up to this integer every stored record is checked; beyond, only the table, since the records would take
/// longer than the run.
const RECORDS_CHECKED_TO: u64 = 2_000_000;
/// So many wrong records are enough.
const WRONG_MAX: usize = 10;

/// The functional table of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// Steps of the longest sequence.
    pub(super) longest: u64,
    /// The highest number in any sequence.
    pub(super) highest: u64,
}

impl Table {
    /// Finds the table without a database.
    ///
    /// # Errors
    /// A sentence, when a number is beyond 64 bits.
    pub(super) fn of(line: &Line) -> Result<Table, String> {
        let mut table = Table { longest: 0, highest: 0 };
        for start in line.range() {
            let (steps, highest) =
                sequence(start).ok_or_else(|| format!("the sequence of {start} goes beyond 64 bits"))?;
            table = Table { longest: table.longest.max(steps), highest: table.highest.max(highest) };
        }
        Ok(table)
    }
}

/// Steps from a number to 1, and the highest number on the way; none if that is beyond 64 bits.
fn sequence(start: u64) -> Option<(u64, u64)> {
    let (mut number, mut count, mut highest) = (start, 0, start);
    while number != 1 {
        number = successor(number)?;
        count += 1;
        highest = highest.max(number);
    }
    Some((count, highest))
}

/// What the workers of a line have left behind.
#[derive(Debug)]
pub(super) struct Results {
    /// All workers' accounts together.
    pub(super) total: Account,
    /// The first integer that nobody has claimed.
    pub(super) next: Option<u64>,
    /// How many records there are, if they were looked at.
    pub(super) records: Option<u64>,
    /// What was found wrong with the records.
    pub(super) problems: Vec<String>,
}

impl Results {
    /// Everything that is wrong with them, after so many kills.
    pub(super) fn problems(&self, line: &Line, expected: &Table, kills: u64) -> Vec<String> {
        let mut problems = self.problems.clone();
        let found = Table { longest: self.total.longest, highest: self.total.highest };
        if found != *expected {
            problems.push(format!("{found:?} instead of {expected:?}"));
        }
        if self.next.is_none_or(|next| next <= line.finish) {
            problems.push(format!("not all integers were claimed: {:?}", self.next));
        }
        let updates = self.total.updates;
        // Two workers that met the same number have both stored it; one alone stores each number once. A
        // worker that was killed has counted too few.
        if let (Some(records), 0) = (self.records, kills)
            && (updates < records || (line.workers == 1 && updates != records))
        {
            problems.push(format!("{updates} updates were counted, and {records} records are there"));
        }
        problems
    }
}

/// Checks the records of a line, one after the other.
#[derive(Debug)]
pub(super) struct Records<'a> {
    line: &'a Line,
    count: u64,
    of_range: u64,
    wrong: Vec<String>,
}

impl Records<'_> {
    /// None if the line has too many.
    pub(super) fn of(line: &Line) -> Option<Records<'_>> {
        (line.finish <= RECORDS_CHECKED_TO).then_some(Records {
            line,
            count: 0,
            of_range: 0,
            wrong: Vec::new(),
        })
    }

    /// The next record, as far as it could be read. Says whether it makes sense to go on.
    pub(super) fn see(&mut self, number: Option<u64>, steps: Option<u64>) -> bool {
        self.count += 1;
        self.of_range += u64::from(number.is_some_and(|number| self.line.range().contains(&number)));
        // There is no sequence from 0.
        let right = number.filter(|&number| number > 0).and_then(sequence).map(|(count, _)| count);
        if right.is_none() || right != steps {
            self.wrong.push(format!("{number:?} has {right:?} steps, and not {steps:?} as is stored"));
        }
        self.wrong.len() < WRONG_MAX
    }

    /// How many there were, and what is wrong with them.
    pub(super) fn end(self) -> (u64, Vec<String>) {
        let Records { line, count, of_range, mut wrong } = self;
        // The steps of 1 are known without being stored.
        let in_line = line.count() - u64::from(line.start == 1);
        if of_range != in_line {
            wrong.push(format!("{of_range} integers of {in_line} are stored"));
        }
        (count, wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Line = Line { start: 1, finish: 4, workers: 1, block: 1 };

    #[test]
    fn the_plain_loop_agrees_with_the_paper() {
        let line = Line { start: 1, finish: 1_000_000, workers: 1, block: 1 };
        assert_eq!(Table::of(&line), Ok(Table { longest: 524, highest: 56_991_483_520 }));
        assert_eq!((sequence(1), sequence(6)), (Some((0, 1)), Some((8, 16))));
    }

    /// The problems of these records.
    fn problems(records: &[(u64, u64)]) -> Vec<String> {
        let mut checked = Records::of(&LINE).unwrap();
        for &(number, steps) in records {
            checked.see(Some(number), Some(steps));
        }
        let (count, problems) = checked.end();
        assert_eq!(count, records.len() as u64);
        problems
    }

    #[test]
    fn every_record_counts() {
        let right = [(2, 1), (3, 7), (4, 2), (5, 5), (8, 3), (10, 6), (16, 4)];
        assert_eq!(problems(&right), [""; 0]);
        assert_eq!(problems(&right[1..]), ["2 integers of 3 are stored"]);
        assert_eq!(
            problems(&[(2, 1), (3, 8), (4, 2)]),
            ["Some(3) has Some(7) steps, and not Some(8) as is stored"]
        );
        assert_eq!(problems(&[(0, 1), (2, 1), (3, 7), (4, 2)]).len(), 1, "0 is no number of a sequence");
    }

    #[test]
    fn results_are_the_table_and_all_integers() {
        let expected = Table { longest: 7, highest: 16 };
        let results = |longest, next| {
            let total = Account { longest, highest: 16, ..Account::default() };
            Results { total, next, records: None, problems: Vec::new() }.problems(&LINE, &expected, 0).len()
        };
        assert_eq!(
            [results(7, Some(5)), results(8, Some(5)), results(7, Some(4)), results(8, None)],
            [0, 1, 1, 2]
        );
    }

    #[test]
    fn updates_are_counted_unless_somebody_was_killed() {
        let expected = Table { longest: 7, highest: 16 };
        let problems = |workers, updates, kills| {
            let total = Account { longest: 7, highest: 16, updates, ..Account::default() };
            let line = Line { workers, ..LINE };
            Results { total, next: Some(5), records: Some(7), problems: Vec::new() }
                .problems(&line, &expected, kills)
                .len()
        };
        assert_eq!(
            [problems(1, 7, 0), problems(1, 8, 0), problems(1, 6, 0), problems(1, 6, 1)],
            [0, 1, 1, 0]
        );
        assert_eq!([problems(2, 7, 0), problems(2, 8, 0), problems(2, 6, 0)], [0, 0, 1]);
    }
}
