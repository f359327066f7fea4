//! Steps: everything a program may ask of the engine, as data; and their generation from a seed.
//!
//! A step changes the state at one moment or not at all, whatever it is made of: that is what the crash
//! explorer holds the engine to.

use std::ops::Bound;

use sablecat::{Durability, Isolation};

use crate::dice::Dice;
use crate::method;
use crate::records::{Bounds, Bytes, reversed};
use crate::walk::{CURSORS, Move, Walk};

/// A question about one database.
#[derive(Clone, Debug)]
pub enum Read {
    /// `get`
    Get(Bytes),
    /// `contains_key`
    Contains(Bytes),
    /// `read_at` from an offset, so many bytes
    Part(Bytes, u64, usize),
    /// `value_len`
    Length(Bytes),
    /// `first`
    First,
    /// `last`
    Last,
    /// `range`, taking at most so many records, from the end that the next bit says.
    Range(Bounds, usize, u64),
    /// `prefix`
    Prefix(Bytes),
}

/// Part of a transaction.
#[derive(Clone, Debug)]
pub enum Part {
    /// Ask.
    Read(String, Read),
    /// `get_for_update`
    ForUpdate(String, Bytes),
    /// `insert`
    Insert(String, Bytes, Bytes),
    /// `remove`
    Remove(String, Bytes),
    /// `remove_range`
    RemoveRange(String, Bounds),
    /// Cursors in one database.
    Walk(String, Walk),
    /// Opens a database, creating it if need be.
    Create(String),
    /// `rename_database`
    Rename(String, String),
    /// `remove_database`
    Drop(String),
    /// `databases`
    Databases,
    /// `savepoint`
    Savepoint,
    /// `rollback_to` one of the savepoints so far, counted round
    RollBack(usize),
    /// `nested`, succeeding or failing at its end
    Nested(Vec<Part>, bool),
}

/// A transaction.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Its isolation.
    pub isolation: Isolation,
    /// Its rung.
    pub durability: Durability,
    /// What it does.
    pub parts: Vec<Part>,
    /// Whether it commits.
    pub commit: bool,
    /// Whether it runs in a closure that is retried.
    pub closure: bool,
}

/// One thing to do.
#[derive(Clone, Debug)]
pub enum Step {
    /// Ask a database.
    Read(String, Read),
    /// `visit`, so many records at most
    Visit(String, Bounds, usize),
    /// `len` and `is_empty`
    Len(String),
    /// `insert`
    Insert(String, Bytes, Bytes),
    /// `remove`
    Remove(String, Bytes),
    /// `remove_range`
    RemoveRange(String, Bounds),
    /// `entry().or_insert()`
    OrInsert(String, Bytes, Bytes),
    /// `entry().and_modify()`, appending a byte
    AndModify(String, Bytes, u8),
    /// `retain` the records whose first key byte is not this one, modulo the other
    Retain(String, u8, u8),
    /// `insert_batch`
    Batch(String, Vec<(Bytes, Bytes)>),
    /// A transaction.
    Transaction(Transaction),
    /// Opens a database, creating it if need be.
    Create(String),
    /// `rename_database`
    Rename(String, String),
    /// `remove_database`
    Drop(String),
    /// `databases`
    Databases,
    /// `sync`
    Sync,
    /// `checkpoint`
    Checkpoint,
    /// `compact`
    Compact,
    /// Close and open again.
    Reopen,
    /// Take a snapshot and keep it.
    Hold,
    /// Ask the oldest snapshot kept.
    Look(String, Read),
    /// Let the oldest snapshot go.
    Release,
}

/// What steps are to be like.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Names of databases.
    pub names: Vec<&'static str>,
    /// Different keys, about.
    pub keys: u64,
    /// The longest key, but for nested ones.
    pub key_max: usize,
    /// Bytes from which on the engine nests keys; 0: there are no such keys. Databases with a comparator have
    /// none.
    pub stem: usize,
    /// The longest value.
    pub value_max: usize,
    /// Records in a batch at most.
    pub batch_max: u64,
    /// Rungs that transactions choose from.
    pub rungs: Vec<Durability>,
    /// Whether closing and opening again are among the steps.
    pub reopen: bool,
    /// Whether snapshots are kept.
    pub snapshots: bool,
}

/// All rungs.
pub const RUNGS: [Durability; 4] =
    [Durability::Memory, Durability::NoSync, Durability::WriteNoSync, Durability::Sync];

impl Shape {
    /// Few small records: many steps a second.
    pub fn small() -> Shape {
        Shape {
            names: vec!["a", "b", "r"],
            keys: 60,
            key_max: 48,
            stem: 0,
            value_max: 1500,
            batch_max: 30,
            rungs: RUNGS.to_vec(),
            reopen: true,
            snapshots: false,
        }
    }

    /// Enough for trees of several levels.
    pub fn large() -> Shape {
        Shape {
            keys: 3000,
            value_max: 20_000,
            batch_max: 400,
            snapshots: true,
            names: vec!["a", "b", "c", "r", "rx"],
            ..Shape::small()
        }
    }

    /// A key for a database. Most are made from few numbers, so that steps meet; the same number has the same
    /// key.
    pub fn key(&self, name: &str, dice: &mut Dice) -> Bytes {
        if dice.percent(1) {
            return Bytes::new();
        }
        let n = dice.below(self.keys);
        if self.stem > 0 && method::nests() && n % 8 == 7 && !reversed(name) {
            return self.nested_key(n / 8);
        }
        let mut key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[..4].to_vec();
        let len = match n % 8 {
            0..4 => 8,
            4 => 1 + (n as usize / 8) % 4,
            5 => self.key_max,
            6 => {
                key.splice(0..0, *b"common prefix ");
                22
            }
            _ => 5 + (n as usize / 8) % 20,
        };
        key.resize(len.min(method::key_bytes_max(self.key_max)), (n % 251) as u8);
        key
    }

    /// One of a family of keys that share stems, with a length about a multiple of a stem's.
    fn nested_key(&self, n: u64) -> Bytes {
        let stems = [1, 1, 1, 2, 2, 3, 9][n as usize % 7];
        let len = (stems * self.stem).saturating_add_signed([0, -1, 1, 7][n as usize % 4]);
        let mut key = vec![b'a' + (n / 5 % 3) as u8 * 12; len];
        // Some differ in their last byte, some in a byte of their last stem.
        let at = len - 1 - [0, 3, self.stem / 2][n as usize / 28 % 3].min(len - 1);
        key[at] = key[at].wrapping_add((n / 28) as u8);
        key
    }

    /// A value.
    pub fn value(&self, dice: &mut Dice) -> Bytes {
        let len = match dice.below(100) {
            0..5 => 0,
            5..60 => dice.index(40),
            60..92 => dice.index(200),
            _ => dice.index(self.value_max),
        };
        let seed = dice.throw();
        (0..len as u64).map(|n| (seed.wrapping_add(n * 7) >> (n % 5)) as u8).collect()
    }

    fn bound(&self, name: &str, dice: &mut Dice) -> Bound<Bytes> {
        match dice.below(4) {
            0 => Bound::Unbounded,
            1 => Bound::Excluded(self.key(name, dice)),
            _ => Bound::Included(self.key(name, dice)),
        }
    }

    /// A range to be removed: of few keys, most of the time.
    fn removed(&self, name: &str, dice: &mut Dice) -> Bounds {
        if dice.percent(25) {
            return (self.bound(name, dice), self.bound(name, dice));
        }
        let one = self.key(name, dice);
        let mut other = one.clone();
        if !other.is_empty() {
            let most = if dice.percent(30) { other.len() } else { 2 };
            let at = dice.index(other.len().min(most));
            other[at] = other[at].saturating_add(dice.below(40) as u8);
        }
        let (lower, upper) = if reversed(name) { (other, one) } else { (one, other) };
        let upper = if dice.percent(50) { Bound::Included(upper) } else { Bound::Excluded(upper) };
        (if dice.percent(80) { Bound::Included(lower) } else { Bound::Excluded(lower) }, upper)
    }

    fn limit(dice: &mut Dice) -> usize {
        if dice.percent(20) { usize::MAX } else { dice.index(20) }
    }

    fn read(&self, name: &str, dice: &mut Dice) -> Read {
        match dice.below(10) {
            0..3 => Read::Get(self.key(name, dice)),
            3 => Read::Contains(self.key(name, dice)),
            4 if dice.percent(30) => Read::Length(self.key(name, dice)),
            4 => Read::Part(
                self.key(name, dice),
                dice.below(self.value_max as u64 + 500),
                dice.index(self.value_max),
            ),
            5 => Read::First,
            6 => Read::Last,
            7 | 8 => Read::Range(
                (self.bound(name, dice), self.bound(name, dice)),
                Self::limit(dice),
                dice.pick(&[0, !0, 0x5555_5555_5555_5555, 0x1c3a_96f0_e217_55b3]),
            ),
            _ => {
                let key = self.key(name, dice);
                let most = if dice.percent(20) { key.len() } else { 3 };
                Read::Prefix(key[..dice.index(key.len() + 1).min(most)].to_vec())
            }
        }
    }

    /// A name for a database that has the order of this one, unless chance picks one for another order.
    fn other_name(&self, name: &str, dice: &mut Dice) -> Option<String> {
        let to = dice.pick(&self.names);
        (reversed(to) == reversed(name)).then(|| to.to_owned())
    }

    fn parts(&self, dice: &mut Dice, deep: bool) -> Vec<Part> {
        let count = 1 + if dice.percent(10) { dice.index(80) } else { dice.index(8) };
        (0..count)
            .map(|_| {
                let table = dice.pick(&self.names);
                let name = table.to_owned();
                match dice.below(26) {
                    0..5 => Part::Read(name, self.read(table, dice)),
                    5 => Part::ForUpdate(name, self.key(table, dice)),
                    6..12 => Part::Insert(name, self.key(table, dice), self.value(dice)),
                    12..16 => Part::Remove(name, self.key(table, dice)),
                    16 => Part::Savepoint,
                    17 => Part::RollBack(dice.index(8)),
                    18 if deep => Part::Nested(self.parts(dice, dice.clone().percent(30)), dice.percent(50)),
                    20 => Part::Create(name),
                    21 => match dice.below(4) {
                        0 => Part::Drop(name),
                        1 => Part::Databases,
                        _ => {
                            self.other_name(&name, dice).map_or(Part::Databases, |to| Part::Rename(name, to))
                        }
                    },
                    22 | 23 => Part::Walk(name, self.walk(table, dice)),
                    24 => Part::RemoveRange(name, self.removed(table, dice)),
                    _ => Part::Insert(name, self.key(table, dice), self.value(dice)),
                }
            })
            .collect()
    }

    /// A walk in a database.
    pub fn walk(&self, name: &str, dice: &mut Dice) -> Walk {
        let count = 1 + dice.index(30);
        let one = |dice: &mut Dice| match dice.below(34) {
            0 => Move::First,
            1 => Move::Last,
            2..8 => Move::Next,
            8..14 => Move::Prev,
            14 | 15 => Move::Seek(self.key(name, dice)),
            16 => Move::AtOrAfter(self.key(name, dice)),
            17 => Move::AtOrBefore(self.key(name, dice)),
            18..21 => Move::Look,
            21 => Move::Put(self.value(dice)),
            22 => Move::Insert(self.key(name, dice), self.value(dice)),
            23..26 => Move::Remove,
            26 => Move::Clone,
            27 | 28 => Move::InsertBeside(self.key(name, dice), self.value(dice)),
            29 => Move::InsertNew(self.key(name, dice), self.value(dice)),
            30..33 => Move::Compare,
            _ => Move::RemoveBeside(self.key(name, dice)),
        };
        (0..count).map(|_| (dice.index(CURSORS), one(dice))).collect()
    }

    /// A transaction.
    pub fn transaction(&self, dice: &mut Dice) -> Transaction {
        Transaction {
            isolation: dice.pick(&[Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable]),
            durability: dice.pick(&self.rungs),
            parts: self.parts(dice, true),
            commit: dice.percent(85),
            closure: dice.percent(30),
        }
    }

    /// A step.
    pub fn step(&self, dice: &mut Dice) -> Step {
        let table = dice.pick(&self.names);
        let name = table.to_owned();
        match dice.below(100) {
            0..12 => Step::Read(name, self.read(table, dice)),
            12..15 => {
                Step::Visit(name, (self.bound(table, dice), self.bound(table, dice)), Self::limit(dice))
            }
            15..17 => Step::Len(name),
            17..36 => Step::Insert(name, self.key(table, dice), self.value(dice)),
            36..46 => Step::Remove(name, self.key(table, dice)),
            46..49 => Step::OrInsert(name, self.key(table, dice), self.value(dice)),
            49..52 => Step::AndModify(name, self.key(table, dice), dice.throw() as u8),
            52..54 => {
                let modulus = 2 + dice.below(6) as u8;
                Step::Retain(name, dice.below(modulus.into()) as u8, modulus)
            }
            54..58 => Step::Batch(
                name,
                (0..dice.below(self.batch_max)).map(|_| (self.key(table, dice), self.value(dice))).collect(),
            ),
            58..76 => Step::Transaction(self.transaction(dice)),
            76..83 => Step::Create(name),
            83 => self.other_name(&name, dice).map_or(Step::Databases, |to| Step::Rename(name, to)),
            84 => Step::Drop(name),
            85 if dice.percent(70) => Step::RemoveRange(name, self.removed(table, dice)),
            85 => Step::Databases,
            86..88 => Step::Sync,
            88..90 => Step::Checkpoint,
            90 => Step::Compact,
            91 if self.reopen => Step::Reopen,
            92..94 if self.snapshots => Step::Hold,
            94..98 if self.snapshots => Step::Look(name, self.read(table, dice)),
            98 if self.snapshots => Step::Release,
            _ => Step::Insert(name, self.key(table, dice), self.value(dice)),
        }
    }

    /// Steps that begin with the creation of all databases, most of the time.
    pub fn steps(&self, dice: &mut Dice, count: usize) -> Vec<Step> {
        let create = self.names.iter().map(|name| Step::Create((*name).to_owned()));
        let mut steps: Vec<Step> = create.filter(|_| dice.percent(80)).collect();
        steps.extend((0..count).map(|_| self.step(dice)));
        steps
    }
}
