//! A leaf of many pending records in the order of bytes ([`sorted`](super::sorted)).

use std::cmp::Ordering;
use std::ops::Range;

use sablecat_os::prefetch;

use super::short::FirstBytes;
use super::write_set::Becomes;

/// Records in a leaf, and leaves in a group, at most.
pub(super) const NODES_MAX: usize = 64;
/// So many beginnings of keys are in a line of the processor's cache.
const FIRSTS_IN_LINE: usize = 64 / size_of::<FirstBytes>();
/// Bytes of a value that lies in its leaf, at most.
pub(super) const IN_LEAF_MAX: usize = 1 << 10;

/// Some of the records, in one piece of memory.
#[derive(Debug)]
pub(super) struct SortedLeaf {
    /// What the key of each record begins with,
    pub(super) firsts: [FirstBytes; NODES_MAX],
    /// and where it is.
    pub(super) entries: [RecordPieces; NODES_MAX],
    /// So many of both are used.
    pub(super) len: usize,
    pub(super) bytes: Vec<u8>,
    /// How many of these are nobody's any more.
    pub(super) garbage: usize,
}

/// Where a record of a leaf is.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordPieces {
    pub(super) key: Piece,
    pub(super) value: ValuePlace,
}

/// Bytes of a leaf.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) at: u32,
    pub(super) len: u32,
}

/// Where a value is.
#[derive(Clone, Copy, Debug)]
pub(super) enum ValuePlace {
    Removed,
    Here(Piece),
    /// The number of a value that lies apart.
    Apart(u32),
}

/// Those that begin as a key does, of which `firsts` is sorted. What comes before them has lesser keys, and
/// what comes behind has greater ones.
pub(super) fn alike(firsts: &[FirstBytes], first: FirstBytes) -> Range<usize> {
    let from = firsts.partition_point(|have| *have < first);
    let len = firsts[from..].partition_point(|have| *have == first);
    from..from + len
}

/// The first number in a range that does not come before what is looked for.
pub(super) fn partition(range: Range<usize>, comes_before: impl Fn(usize) -> bool) -> usize {
    let Range { mut start, mut end } = range;
    while start < end {
        let middle = start.midpoint(end);
        match comes_before(middle) {
            true => start = middle + 1,
            false => end = middle,
        }
    }
    start
}

impl Piece {
    pub(super) fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.at as usize..][..self.len as usize]
    }
}

impl SortedLeaf {
    /// An empty one, with room for so many bytes.
    pub(super) fn with_room(bytes: usize) -> Box<SortedLeaf> {
        let nowhere = RecordPieces { key: Piece { at: 0, len: 0 }, value: ValuePlace::Removed };
        Box::new(SortedLeaf {
            firsts: [FirstBytes::default(); NODES_MAX],
            entries: [nowhere; NODES_MAX],
            len: 0,
            bytes: Vec::with_capacity(bytes),
            garbage: 0,
        })
    }

    pub(super) fn firsts(&self) -> &[FirstBytes] {
        &self.firsts[..self.len]
    }

    pub(super) fn entries(&self) -> &[RecordPieces] {
        &self.entries[..self.len]
    }

    pub(super) fn key(&self, record: usize) -> &[u8] {
        self.entries()[record].key.of(&self.bytes)
    }

    /// Where a key is, or belongs.
    pub(super) fn search(&self, key: &[u8], first: FirstBytes) -> Result<usize, usize> {
        // Which of them are looked at depends on each other; all are few.
        self.firsts.chunks(FIRSTS_IN_LINE).for_each(|line| prefetch::read(line.as_ptr().cast()));
        let alike = alike(self.firsts(), first);
        let record = partition(alike.clone(), |record| self.compare_alike(record, key).is_lt());
        if record < alike.end && self.compare_alike(record, key).is_eq() { Ok(record) } else { Err(record) }
    }

    /// Compares a record's key with one that begins so too.
    fn compare_alike(&self, record: usize, key: &[u8]) -> Ordering {
        let have = self.entries()[record].key;
        if have.len as usize <= FirstBytes::BYTES && key.len() <= FirstBytes::BYTES {
            // The longer one goes on with zeros, and nobody has to look.
            return (have.len as usize).cmp(&key.len());
        }
        have.of(&self.bytes).cmp(key)
    }

    pub(super) fn insert(&mut self, record: usize, first: FirstBytes, entry: RecordPieces) {
        self.firsts.copy_within(record..self.len, record + 1);
        self.entries.copy_within(record..self.len, record + 1);
        (self.firsts[record], self.entries[record]) = (first, entry);
        self.len += 1;
    }

    pub(super) fn remove(&mut self, record: usize) -> RecordPieces {
        let entry = self.entries[record];
        self.firsts.copy_within(record + 1..self.len, record);
        self.entries.copy_within(record + 1..self.len, record);
        self.len -= 1;
        entry
    }

    pub(super) fn add(&mut self, bytes: &[u8]) -> Piece {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        // Of so few records, with keys and values of so few bytes, all is within four gigabytes.
        Piece { at: at as u32, len: bytes.len() as u32 }
    }

    /// Whether a key comes behind all that there are.
    pub(super) fn ends_before(&self, key: &[u8], first: FirstBytes) -> bool {
        let Some(last) = self.len.checked_sub(1) else { return true };
        self.firsts[last].cmp(&first).then_with(|| self.compare_alike(last, key)).is_lt()
    }

    /// Adds a record behind all that there are, which are not as many as can be. Its value is not long.
    pub(super) fn push(&mut self, key: &[u8], first: FirstBytes, value: Becomes<'_>) {
        self.bytes.reserve(key.len() + value.map_or(0, <[u8]>::len));
        let key = self.add(key);
        let value = value.map_or(ValuePlace::Removed, |value| ValuePlace::Here(self.add(value)));
        (self.firsts[self.len], self.entries[self.len]) = (first, RecordPieces { key, value });
        self.len += 1;
    }

    /// Takes the bytes of its records together, from where they are.
    fn gather(&mut self, from: &[u8]) {
        let len = |RecordPieces { key, value }: &RecordPieces| match value {
            ValuePlace::Here(value) => (key.len + value.len) as usize,
            _ => key.len as usize,
        };
        let bytes = self.entries().iter().map(len).sum();
        (self.bytes, self.garbage) = (Vec::with_capacity(bytes), 0);
        for record in 0..self.len {
            let RecordPieces { key, value } = self.entries[record];
            let key = self.add(key.of(from));
            let value = match value {
                ValuePlace::Here(value) => ValuePlace::Here(self.add(value.of(from))),
                elsewhere => elsewhere,
            };
            self.entries[record] = RecordPieces { key, value };
        }
    }

    /// Does that if most bytes are nobody's.
    pub(super) fn tidy(&mut self) {
        if self.garbage > IN_LEAF_MAX && self.garbage > self.bytes.len() / 2 {
            let bytes = std::mem::take(&mut self.bytes);
            self.gather(&bytes);
        }
    }

    /// Takes away the second half.
    pub(super) fn divide(&mut self) -> Box<SortedLeaf> {
        let middle = self.len / 2;
        let bytes = std::mem::take(&mut self.bytes);
        let mut right = SortedLeaf::with_room(0);
        right.len = self.len - middle;
        right.firsts[..right.len].copy_from_slice(&self.firsts[middle..self.len]);
        right.entries[..right.len].copy_from_slice(&self.entries[middle..self.len]);
        self.len = middle;
        right.gather(&bytes);
        self.gather(&bytes);
        right
    }
}
