//! Row ids for rows that are inserted without one, so that two transactions that insert into one table do not
//! meet.
//!
//! SQLite gives such a row the number after the last one. A transaction that looks at the last row itself
//! conflicts with all that add one. So the last row is looked at outside the transaction, as it was committed
//! last, and some numbers behind it are *taken*: locked by name until the transaction ends, and read in it,
//! which finds no rows there. A transaction that is to be given a number that another has locked gets one
//! further on. The lock only keeps two from meeting; what makes sure is the read: if another transaction has
//! set a row of such a number by the time of the commit, as by naming it, that is a conflict.
//!
//! Numbers are taken one at first, then in blocks, which grow: a transaction of one row leaves no gap, and
//! one of a million takes some twenty locks. A block begins at a multiple of its size; its lock is a path, of
//! which smaller blocks are under larger ones.
//!
//! A transaction that has removed the row that was last looks itself, as SQLite does, so that it gives that
//! number again. So does one that writes alone. With AUTOINCREMENT numbers are also behind what the table's
//! sequence says ([`sequences`](crate::sequences)).
//!
//! Which row was committed last need not be looked for as long as nothing was committed since a transaction
//! of the same connection that has set it.

use sablecat::Lsn;

/// Blocks of numbers have these lengths, as powers of two, the longest first: each is named under the one
/// before.
const BITS: [u32; 3] = [16, 8, 0];
/// How many single numbers are tried before blocks, and blocks of the shorter kind before longer ones.
const TRIES: u64 = 3;

/// What the names of all numbers begin with.
const NAME: &[u8] = b"sablecat-sql rows";
/// What it begins with, the table, and a number.
const NAME_BYTES: usize = NAME.len() + 2 * WORD_BYTES;
/// So long is a number in a name.
const WORD_BYTES: usize = 10;

/// A number as part of a name, without zero bytes, which names have each twice.
pub(crate) fn word(number: u64) -> [u8; WORD_BYTES] {
    std::array::from_fn(|n| (number >> (7 * (WORD_BYTES - 1 - n))) as u8 | 1 << 7)
}

/// What a transaction knows of the row ids of one table.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// From where to where it has found no rows, when it looked.
    free: Option<(i64, i64)>,
    /// How often it has taken numbers.
    takes: u32,
    /// The greatest number of a row that it has set since it looked,
    set: Option<i64>,
    /// and of one that it has removed.
    removed: Option<i64>,
    /// It has removed all rows, and set none since.
    is_empty: bool,
}

/// What the transaction in progress knows of the row ids of one table, as of each savepoint.
#[derive(Debug, Default)]
pub(crate) struct RowIds {
    /// Each with how many savepoints there were when it became known; the last one counts.
    known: Vec<(usize, Known)>,
    /// Which row was the last one, if any, when a transaction before had been committed.
    committed: Option<(Lsn, Option<i64>)>,
}

/// A block of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The first number of it that is wanted.
    pub(crate) first: i64,
    /// Its length, as a power of two.
    bits: u32,
}

impl RowIds {
    fn known(&self) -> &Known {
        const NOTHING: &Known = &Known { free: None, takes: 0, set: None, removed: None, is_empty: false };
        self.known.last().map_or(NOTHING, |(_, known)| known)
    }

    /// What is known, to be changed where there are so many savepoints.
    fn at(&mut self, savepoints: usize) -> &mut Known {
        if self.known.last().is_none_or(|(of, _)| *of < savepoints) {
            self.known.push((savepoints, *self.known()));
        }
        let last = self.known.len() - 1;
        &mut self.known[last].1
    }

    /// Nothing is known of what the transaction in progress has done.
    pub(crate) fn is_new(&self) -> bool {
        self.known.is_empty()
    }

    /// The transaction is over, or begins anew.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
    }

    /// The transaction was committed, as the only one since it began.
    pub(crate) fn commit_alone(&mut self, at: Lsn) {
        let Known { free, set, removed, is_empty, .. } = *self.known();
        self.committed = match (free, set) {
            _ if is_empty => Some((at, None)),
            // There was no row behind those numbers, or in them.
            (Some((from, _)), Some(set)) if set >= from && removed < Some(set) => Some((at, Some(set))),
            _ => None,
        };
    }

    /// The last row that is committed, if any, when the newest commit is this one; none if that is not known.
    pub(crate) fn last_committed(&self, newest: Lsn) -> Option<Option<i64>> {
        self.committed.filter(|(at, _)| *at == newest).map(|(_, last)| last)
    }

    /// What was done with more than so many savepoints stands, and is undone with that many.
    pub(crate) fn release(&mut self, savepoints: usize) {
        let known = *self.known();
        if self.known.last().is_some_and(|(of, _)| *of > savepoints) {
            self.roll_back(savepoints);
            *self.at(savepoints) = known;
        }
    }

    /// What was done with more than so many savepoints is undone.
    pub(crate) fn roll_back(&mut self, savepoints: usize) {
        self.known.retain(|(of, _)| *of <= savepoints);
    }

    /// The number for the next row, if some were taken.
    pub(crate) fn next(&self) -> Option<i64> {
        let Known { free, set, .. } = *self.known();
        let (from, to) = free?;
        let next = match set {
            Some(set) if set >= from => set.checked_add(1)?,
            _ => from,
        };
        (next <= to).then_some(next)
    }

    /// Whether it is known of a number that there was no row of it.
    pub(crate) fn is_free(&self, rowid: i64) -> bool {
        self.known().free.is_some_and(|(from, to)| (from..=to).contains(&rowid))
    }

    /// The number after the last row, given the number of the one that was committed last. None if it may be
    /// gone: then the transaction is to look itself. As for that, none if no number is greater.
    pub(crate) fn after(&self, committed: Option<i64>) -> Option<Option<i64>> {
        let Known { set, removed, .. } = *self.known();
        let last = committed.max(set);
        if removed.is_some() && removed >= last {
            return None;
        }
        Some(last.map_or(Some(1), |last| last.checked_add(1)))
    }

    /// The blocks to try to lock, for numbers from one on.
    pub(crate) fn blocks(&self, from: i64) -> impl Iterator<Item = Block> + use<> {
        let takes = self.known().takes;
        let [longest, long, single] = BITS;
        let singles = if takes == 0 { TRIES } else { 0 };
        let at_first = if takes > 1 { 1 } else { 0 };
        let block = move |bits: u32| move |step: u64| Block::at(from, bits, step);
        (0..singles)
            .filter_map(block(single))
            .chain((0..at_first).filter_map(block(longest)))
            .chain((0..TRIES).filter_map(block(long)))
            .chain((0..i64::BITS - longest).map(|power| 1 << power).filter_map(block(longest)))
    }

    /// Some numbers were found without rows.
    pub(crate) fn take(&mut self, savepoints: usize, free: (i64, i64)) {
        let known = self.at(savepoints);
        (known.free, known.takes) = (Some(free), known.takes + 1);
    }

    /// The transaction has looked itself for the last row, and there is nothing behind that.
    pub(crate) fn looked(&mut self, savepoints: usize, last: Option<i64>) {
        let known = self.at(savepoints);
        let from = last.map_or(Some(1), |last| last.checked_add(1));
        *known = Known { free: from.map(|from| (from, i64::MAX)), set: None, ..*known };
    }

    /// A row was set.
    pub(crate) fn set(&mut self, savepoints: usize, rowid: i64) {
        let Known { set, is_empty, .. } = *self.known();
        if set < Some(rowid) || is_empty {
            let known = self.at(savepoints);
            (known.set, known.is_empty) = (set.max(Some(rowid)), false);
        }
    }

    /// None of the table's rows is left: all were [removed](RowIds::removed).
    pub(crate) fn cleared(&mut self, savepoints: usize) {
        self.at(savepoints).is_empty = true;
    }

    /// A row was removed.
    pub(crate) fn removed(&mut self, savepoints: usize, rowid: i64) {
        let before = *self.known();
        let known = self.at(savepoints);
        known.removed = before.removed.max(Some(rowid));
        // What was the last one may not be: it is to be looked for.
        if before.free.is_some_and(|(from, _)| Some(rowid) >= before.set.max(from.checked_sub(1))) {
            known.free = None;
        }
    }
}

impl Block {
    /// The block with a number in it, or one so many behind that; none if there are no more.
    fn at(from: i64, bits: u32, step: u64) -> Option<Block> {
        if step == 0 {
            return Some(Block { first: from, bits });
        }
        let begin = (Self::place(from) >> bits).checked_add(step)?;
        let first = begin.checked_mul(1 << bits)?;
        Some(Block { first: (first ^ 1 << 63) as i64, bits })
    }

    /// Numbers in their order, from zero.
    fn place(rowid: i64) -> u64 {
        rowid as u64 ^ 1 << 63
    }

    /// The last number of it.
    pub(crate) fn last(self) -> i64 {
        (Self::place(self.first) | ((1 << self.bits) - 1)) as i64 ^ i64::MIN
    }

    /// Its name, of a table.
    pub(crate) fn path(self, root: u32) -> impl Iterator<Item = [u8; NAME_BYTES]> {
        let place = Self::place(self.first);
        BITS.into_iter().take_while(move |bits| *bits >= self.bits).map(move |bits| {
            let mut name = [0; NAME_BYTES];
            name[..NAME.len()].copy_from_slice(NAME);
            name[NAME.len()..].copy_from_slice([word(root.into()), word(place >> bits)].as_flattened());
            name
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_last_row_whoever_has_set_or_removed_it() {
        let mut ids = RowIds::default();
        assert_eq!((ids.next(), ids.after(None), ids.after(Some(-5))), (None, Some(Some(1)), Some(Some(-4))));
        assert_eq!(ids.after(Some(i64::MAX)), Some(None));
        ids.take(0, (8, 9));
        for rowid in [8, 9] {
            assert_eq!(ids.next(), Some(rowid));
            ids.set(0, rowid);
        }
        assert_eq!(
            (ids.next(), ids.after(Some(7)), ids.after(Some(20))),
            (None, Some(Some(10)), Some(Some(21)))
        );
        // A row that was not the last one goes, and then one that was.
        ids.take(0, (10, 300));
        ids.removed(0, 3);
        assert_eq!(ids.next(), Some(10));
        ids.removed(0, 9);
        assert_eq!((ids.next(), ids.after(Some(7))), (None, None));
        ids.looked(0, Some(8));
        assert_eq!((ids.next(), ids.is_free(i64::MAX), ids.is_free(8)), (Some(9), true, false));
        ids.removed(0, 8);
        assert_eq!(ids.next(), None);
    }

    #[test]
    fn the_last_row_is_known_after_a_commit_that_was_alone_and_set_or_removed_it_until_the_next() {
        let committed = |work: &dyn Fn(&mut RowIds)| {
            let mut ids = RowIds::default();
            work(&mut ids);
            ids.commit_alone(Lsn(5));
            ids.forget();
            assert!(ids.is_new() && ids.last_committed(Lsn(6)).is_none());
            ids.last_committed(Lsn(5))
        };
        let insert = |ids: &mut RowIds| {
            ids.take(0, (8, 300));
            ids.set(0, 8);
            ids.set(0, 9);
        };
        assert_eq!(committed(&insert), Some(Some(9)));
        assert_eq!(committed(&|ids| ids.take(0, (8, 300))), None, "numbers may have been taken further on");
        assert_eq!(committed(&|ids| ids.set(0, 8)), None, "there may be rows behind one that was named");
        let clear = |ids: &mut RowIds, savepoints| {
            ids.removed(savepoints, i64::MAX);
            ids.cleared(savepoints);
        };
        let removed = |row| {
            move |ids: &mut RowIds| {
                insert(ids);
                ids.removed(0, row);
            }
        };
        assert_eq!((committed(&removed(3)), committed(&removed(9))), (Some(Some(9)), None));
        assert_eq!(committed(&|ids| clear(ids, 0)), Some(None));
        assert_eq!(committed(&|ids| ids.removed(0, i64::MAX)), None);
        let set_again = |ids: &mut RowIds| {
            clear(ids, 0);
            ids.set(0, -3);
        };
        assert_eq!(committed(&set_again), None);
        let rolled_back = |ids: &mut RowIds| {
            insert(ids);
            clear(ids, 2);
            ids.roll_back(1);
        };
        assert_eq!(committed(&rolled_back), Some(Some(9)));
    }

    #[test]
    fn savepoints_have_what_was_known_when_they_were_taken() {
        let mut ids = RowIds::default();
        ids.take(0, (1, 100));
        ids.set(0, 1);
        ids.set(1, 2);
        ids.set(3, 3);
        ids.release(2);
        ids.set(2, 4);
        assert_eq!(ids.next(), Some(5));
        ids.roll_back(1);
        assert_eq!(ids.next(), Some(3));
        ids.release(0);
        ids.roll_back(0);
        assert_eq!(ids.next(), Some(3), "what was released stands");
        ids.forget();
        assert_eq!(ids.next(), None);
    }

    #[test]
    fn blocks_begin_where_they_are_asked_for_and_then_at_multiples_of_their_size() {
        let mut ids = RowIds::default();
        let blocks: Vec<Block> = ids.blocks(1000).take(8).collect();
        let firsts: Vec<i64> = blocks.iter().map(|block| block.first).collect();
        assert_eq!(firsts, [1000, 1001, 1002, 1000, 1024, 1280, 65_536, 131_072]);
        assert_eq!((blocks[1].last(), blocks[3].last(), blocks[6].last()), (1001, 1023, 131_071));
        // Paths of what is in a block begin with its own.
        let path = |block: Block, root| block.path(root).collect::<Vec<_>>();
        let within = path(Block { first: 1001, bits: 0 }, 7);
        assert!(within.len() == 3 && within.starts_with(&path(blocks[3], 7)));
        assert_ne!(within[0], path(Block { first: 1001, bits: 0 }, 8)[0]);
        ids.take(0, (1, 1));
        ids.take(0, (2, 2));
        assert_eq!(ids.blocks(1000).next(), Some(Block { first: 1000, bits: 16 }));
        let last = ids.blocks(i64::MAX - 1).map(|block| (block.first, block.last()));
        assert_eq!(last.collect::<Vec<_>>(), [(i64::MAX - 1, i64::MAX); 2]);
        assert_eq!(Block { first: -1, bits: 8 }.last(), -1);
        assert_eq!(Block { first: i64::MIN, bits: 8 }.last(), i64::MIN + 255);
    }
}
