//! What must come out, found by a plain loop in memory, and whether it has.

use std::ops::ControlFlow;

use super::input::Line;
use super::store::{Account, NEXT, Store, integer, say, steps};
use super::work::successor;

/// Up to this integer every stored record is checked; beyond, only the table, since the records would take longer than the run.
const RECORDS_CHECKED_TO: u64 = 2_000_000;

/// The functional table of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// Steps of the longest sequence.
    pub(super) longest: u64,
    /// The highest number in any sequence.
    pub(super) highest: u64,
}

impl Table {
    /// Finds the table without the database.
    pub(super) fn of(line: &Line) -> Result<Table, String> {
        let mut table = Table { longest: 0, highest: 0 };
        for start in line.range() {
            let (steps, highest) = sequence(start).ok_or_else(|| format!("the sequence of {start} goes beyond 64 bits"))?;
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

/// All workers' accounts together.
pub(super) fn total(store: &Store, line: &Line) -> Result<Account, String> {
    (0..line.workers).try_fold(Account::default(), |sum, worker| Ok(sum.merge(store.account(worker)?)))
}

/// What is wrong with the results and the records of a finished line.
pub(super) fn problems(store: &Store, line: &Line, total: &Account) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    let (expected, found) = (Table::of(line)?, Table { longest: total.longest, highest: total.highest });
    if found != expected {
        problems.push(format!("{found:?} instead of {expected:?}"));
    }
    let next = store.work.get_with(NEXT, |value| value.and_then(integer)).map_err(say)?;
    if next != Some(line.finish + 1) {
        problems.push(format!("not all integers were claimed: {next:?}"));
    }
    for worker in 0..line.workers {
        let Account { at, end, .. } = store.account(worker)?;
        if at != end {
            problems.push(format!("nobody finished the block of worker {worker}: it is at {at}, and the block ends before {end}"));
        }
    }
    if line.finish <= RECORDS_CHECKED_TO {
        problems.append(&mut problems_of_records(store, line, total)?);
    }
    Ok(problems)
}

fn problems_of_records(store: &Store, line: &Line, total: &Account) -> Result<Vec<String>, String> {
    let (mut records, mut of_range, mut wrong) = (0, 0, Vec::new());
    let each = |key: &[u8], value: &[u8]| {
        records += 1;
        let number = key.try_into().ok().map(u64::from_be_bytes);
        of_range += u64::from(number.is_some_and(|number| line.range().contains(&number)));
        let right = number.and_then(sequence).map(|(count, _)| count);
        if right.is_none() || right != steps(value).map(u64::from) {
            wrong.push(format!("{number:?} has {right:?} steps, and not {:?} as is stored", steps(value)));
        }
        if wrong.len() < 10 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    store.numbers.visit::<&[u8]>(.., each).map_err(say)?;
    // The steps of 1 are known without being stored.
    let in_line = line.count() - u64::from(line.start == 1);
    if of_range != in_line {
        wrong.push(format!("{of_range} integers of {in_line} are stored"));
    }
    // Two workers that met the same number have both stored it; one alone stores each number once, however often it is killed.
    if total.updates < records || (line.workers == 1 && total.updates != records) {
        wrong.push(format!("{} updates were counted, and {records} records are there", total.updates));
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_loop_agrees_with_the_paper() {
        let line = Line { start: 1, finish: 1_000_000, workers: 1, block: 1 };
        assert_eq!(Table::of(&line), Ok(Table { longest: 524, highest: 56_991_483_520 }));
        assert_eq!((sequence(1), sequence(6)), (Some((0, 1)), Some((8, 16))));
    }
}
