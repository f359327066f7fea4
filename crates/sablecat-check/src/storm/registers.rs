//! Records that all workers read and write at once, by single operations and transactions, so that their
//! answers can be held against each other (order.rs).
//!
//! A value says which write of its record it is, and of which call. Most records are everybody's: a worker
//! that writes one has read it in the same step. Some are a worker's own, which it writes and removes without
//! looking. And some are databases, removed and created anew by each write. Before a call can have happened
//! it is said what it will write, and afterwards what it saw: between the two it is in doubt.

use std::collections::{HashMap, HashSet};

use sablecat::{Database, Durability, Env, Isolation, Txn, TxnOptions};

use crate::dice::Dice;
use crate::method;
use crate::order::{Call, Key, Read, Write};

/// Records that are everybody's.
const SHARED: Key = 24;
/// Records that are databases: how many, and from which number on.
const SHELVES: Key = 2;
const FIRST_SHELF: Key = 100;
/// Records of each worker's own.
const OWN: Key = 3;
const FIRST_OWN: Key = 1000;
/// The record in a database that is one.
const SHELVED: &str = "shelved";
/// Values are padded, so that leaves split and merge.
const PADDING_MAX: usize = 400;

/// A write, and the call that made it.
type Seen = (u64, u64);

fn encode((number, by): Seen, dice: &mut Dice) -> Vec<u8> {
    let mut value = [number.to_le_bytes(), by.to_le_bytes()].concat();
    value.resize(16 + dice.index(PADDING_MAX), 7);
    value
}

fn decode(value: &[u8]) -> Seen {
    let word =
        |at: usize| value.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes);
    (word(0), word(8))
}

fn is_shelf(key: Key) -> bool {
    (FIRST_SHELF..FIRST_SHELF + SHELVES).contains(&key)
}

fn shelf_name(shelf: Key) -> String {
    format!("shelf {shelf}")
}

/// Makes them, all as they are before anybody's call.
pub(super) fn fill(env: &Env) -> sablecat::Result<()> {
    let (registers, mut dice) = (env.database("registers")?, Dice::new(0));
    (0..SHARED).try_for_each(|key| registers.insert(key.to_be_bytes(), encode((0, 0), &mut dice)))?;
    (FIRST_SHELF..FIRST_SHELF + SHELVES)
        .try_for_each(|shelf| env.database(&shelf_name(shelf))?.insert(SHELVED, encode((0, 0), &mut dice)))
}

/// All of them at one moment: those that are not databases, and then those that are.
pub(super) fn look(env: &Env) -> sablecat::Result<Vec<Read>> {
    let registers = env.database("registers")?;
    let mut txn = env.begin_with(TxnOptions::new().isolation(Isolation::Snapshot))?;
    let mut reads = Vec::new();
    for record in txn.range(&registers, ..)? {
        let (key, value) = record?;
        reads.push(Read {
            key: key.as_slice().try_into().map_or(Key::MAX, Key::from_be_bytes),
            seen: Some(decode(&value)),
        });
    }
    for shelf in FIRST_SHELF..FIRST_SHELF + SHELVES {
        reads.push(read_shelf(&mut txn, shelf)?);
    }
    Ok(reads)
}

fn read_shelf(txn: &mut Txn<'_>, shelf: Key) -> sablecat::Result<Read> {
    let seen = match txn.existing_database(&shelf_name(shelf))? {
        Some(database) => txn.get(&database, SHELVED)?.map(|value| decode(&value)),
        None => None,
    };
    Ok(Read { key: shelf, seen })
}

/// What is done at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Get,
    Contains,
    Range,
    Modify,
    Insert,
    Remove,
    Look,
    Transact(Isolation),
}

/// A worker's calls.
pub(super) struct Registers<'a> {
    pub(super) env: &'a Env,
    pub(super) worker: u64,
    pub(super) dice: Dice,
    /// Hears of a call before it can have happened, and again when what it saw is known.
    pub(super) say: &'a dyn Fn(&Call),
    pub(super) now: fn() -> u64,
}

impl Registers<'_> {
    /// One call, of any kind. If it fails it did not happen, or is in doubt.
    pub(super) fn call(&mut self) -> (Call, sablecat::Result<()>) {
        let begun = (self.now)();
        let mut call = Call {
            id: begun << 8 | self.worker,
            begun,
            returned: None,
            snapshot: false,
            reads: Vec::new(),
            writes: Vec::new(),
        };
        let act = match self.dice.below(100) {
            0..20 => Act::Get,
            20..25 => Act::Contains,
            25..35 => Act::Range,
            35..50 => Act::Modify,
            50..58 => Act::Insert,
            58..62 => Act::Remove,
            62..70 => Act::Look,
            70..85 => Act::Transact(Isolation::Serializable),
            _ => Act::Transact(Isolation::Snapshot),
        };
        let done = self.act(act, &mut call);
        call.returned = done.is_ok().then(self.now);
        (call, done)
    }

    fn own(&mut self) -> Key {
        FIRST_OWN + self.worker as Key * OWN + self.dice.below(u64::from(OWN)) as Key
    }

    /// Somebody's, or everybody's.
    fn any(&mut self) -> Key {
        if self.dice.percent(20) {
            return FIRST_OWN + self.dice.below(u64::from(4 * OWN)) as Key;
        }
        self.dice.below(u64::from(SHARED)) as Key
    }

    fn act(&mut self, act: Act, call: &mut Call) -> sablecat::Result<()> {
        let registers = self.env.database("registers")?;
        match act {
            Act::Get => {
                let key = self.any();
                let seen = registers.get(key.to_be_bytes())?.map(|value| decode(&value));
                call.reads.push(Read { key, seen });
            }
            Act::Contains => {
                let key = self.any();
                if !registers.contains_key(key.to_be_bytes())? {
                    call.reads.push(Read { key, seen: None });
                }
            }
            Act::Range => {
                let from = self.dice.below(u64::from(SHARED)) as Key;
                let to = (from + 1 + self.dice.below(8) as Key).min(SHARED);
                call.reads = self.range(
                    registers.range(method::around(&from.to_be_bytes(), &to.to_be_bytes()))?,
                    from,
                    to,
                )?;
            }
            Act::Modify => {
                let (key, id) = (self.dice.below(u64::from(SHARED)) as Key, call.id);
                (self.say)(call);
                let (mut before, dice) = (None, &mut self.dice);
                let modify = |value: &mut Vec<u8>| {
                    let (number, by) = decode(value);
                    before = Some((number, by));
                    *value = encode((number + 1, id), dice);
                };
                registers.entry(key.to_be_bytes()).and_modify(modify).apply()?;
                call.reads.push(Read { key, seen: before });
                call.writes.extend(before.map(|(number, _)| Write {
                    key,
                    number: number + 1,
                    removed: false,
                }));
            }
            Act::Insert | Act::Remove => {
                let (key, number) = (self.own(), call.begun);
                call.writes.push(Write { key, number, removed: act == Act::Remove });
                (self.say)(call);
                if act == Act::Insert {
                    let value = encode((number, call.id), &mut self.dice);
                    registers.insert(key.to_be_bytes(), value)?;
                } else if !registers.remove(key.to_be_bytes())? {
                    call.writes.clear();
                    call.reads.push(Read { key, seen: None });
                }
            }
            Act::Look => {
                let snapshot = self.env.snapshot()?;
                for _ in 0..3 {
                    let key = self.any();
                    let seen = snapshot.get(&registers, key.to_be_bytes())?.map(|value| decode(&value));
                    call.reads.push(Read { key, seen });
                }
            }
            Act::Transact(isolation) => self.transact(&registers, isolation, call)?,
        }
        Ok(())
    }

    /// What a range from one of everybody's to another has; those that are missing too.
    fn range(
        &mut self,
        range: sablecat::Range<impl sablecat::Read>,
        from: Key,
        to: Key,
    ) -> sablecat::Result<Vec<Read>> {
        let records: Vec<_> = if self.dice.percent(50) {
            range.collect::<Result<_, _>>()?
        } else {
            range.rev().collect::<Result<_, _>>()?
        };
        let seen = |key: Key| {
            records.iter().find(|(found, _)| **found == key.to_be_bytes()).map(|(_, value)| decode(value))
        };
        Ok((from..to).map(|key| Read { key, seen: seen(key) }).collect())
    }

    fn transact(
        &mut self,
        registers: &Database,
        isolation: Isolation,
        call: &mut Call,
    ) -> sablecat::Result<()> {
        let rung = self.dice.pick(&[
            Durability::NoSync,
            Durability::NoSync,
            Durability::NoSync,
            Durability::WriteNoSync,
        ]);
        call.snapshot = isolation == Isolation::Snapshot;
        let mut txn = self.env.begin_with(TxnOptions::new().isolation(isolation).durability(rung))?;
        let mut keys: Vec<Key> = (0..1 + self.dice.below(4)).map(|_| self.any()).collect();
        if self.dice.percent(8) {
            keys.push(FIRST_SHELF + self.dice.below(u64::from(SHELVES)) as Key);
        }
        keys.sort_unstable();
        keys.dedup();
        for &key in &keys {
            let read = if is_shelf(key) {
                read_shelf(&mut txn, key)?
            } else {
                Read { key, seen: txn.get(registers, key.to_be_bytes())?.map(|value| decode(&value)) }
            };
            call.reads.push(read);
        }
        if self.dice.percent(15) {
            let from = self.dice.below(u64::from(SHARED)) as Key;
            let to = (from + 1 + self.dice.below(6) as Key).min(SHARED);
            let range = txn.range(registers, method::around(&from.to_be_bytes(), &to.to_be_bytes()))?;
            call.reads.extend(self.range(range, from, to)?);
        }
        for &key in keys.iter().filter(|key| **key < FIRST_OWN) {
            let before = call.reads.iter().find(|read| read.key == key).and_then(|read| read.seen);
            let Some((number, _)) = before.filter(|_| self.dice.percent(40)) else { continue };
            let value = encode((number + 1, call.id), &mut self.dice);
            if is_shelf(key) {
                txn.remove_database(&shelf_name(key))?;
                let shelf = txn.database(&shelf_name(key))?;
                txn.insert(&shelf, SHELVED, value)?;
            } else {
                txn.insert(registers, key.to_be_bytes(), value)?;
            }
            call.writes.push(Write { key, number: number + 1, removed: false });
        }
        if call.writes.is_empty() && self.dice.percent(50) {
            // What a transaction saw that changed nothing and was given up is true as well.
            txn.abort();
            return Ok(());
        }
        if !call.writes.is_empty() {
            (self.say)(call);
        }
        txn.commit().map(drop)
    }
}

/// Whether a call that failed may have happened: databases are made and removed in more than one step.
pub(super) fn may_have_happened(call: &Call) -> bool {
    call.writes.iter().any(|write| is_shelf(write.key))
}

/// What is there is what the log had up to one moment: of no call only a part, and of no call without those
/// whose writes it saw. `found` is what is there.
///
/// # Errors
/// What is torn.
pub(super) fn check_cut(calls: &[Call], found: &[Read]) -> Result<(), String> {
    let there = |key: Key| {
        found.iter().find(|read| read.key == key).and_then(|read| read.seen).map(|(number, _)| number)
    };
    let is_shared = |key: Key| key < FIRST_OWN;
    let seen: HashSet<u64> = calls
        .iter()
        .flat_map(|call| &call.reads)
        .chain(found)
        .filter_map(|read| read.seen.map(|(_, by)| by))
        .collect();
    // One in doubt of which nobody saw anything may not have happened: then what it was to write others have
    // written.
    let happened = || calls.iter().filter(|call| call.returned.is_some() || seen.contains(&call.id));
    let mut kept = HashMap::new();
    for call in happened() {
        let mut writes = call
            .writes
            .iter()
            .filter(|write| is_shared(write.key))
            .map(|write| there(write.key).is_some_and(|number| write.number <= number));
        let Some(first) = writes.next() else { continue };
        if writes.any(|other| other != first) {
            return Err(format!("of a call a part is there: {call:?}, and there is {found:?}"));
        }
        kept.insert(call.id, first);
    }
    for call in happened().filter(|call| kept.get(&call.id) == Some(&true)) {
        for (_, by) in call.reads.iter().filter_map(|read| read.seen) {
            if kept.get(&by) == Some(&false) {
                return Err(format!(
                    "{call:?} is there, and call {by}, of which it saw something, is not: there is {found:?}"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_torn_if_a_call_is_there_in_part_or_without_what_it_saw() {
        let call = |id: u64, reads: &[(Key, u64, u64)], writes: &[(Key, u64)]| Call {
            id,
            begun: 0,
            returned: Some(1),
            snapshot: false,
            reads: reads.iter().map(|&(key, number, by)| Read { key, seen: Some((number, by)) }).collect(),
            writes: writes.iter().map(|&(key, number)| Write { key, number, removed: false }).collect(),
        };
        let calls = [call(1, &[(1, 0, 0)], &[(1, 1), (2, 1)]), call(2, &[(1, 1, 1)], &[(3, 1)])];
        let found = |numbers: [u64; 3]| {
            (1..).zip(numbers).map(|(key, number)| Read { key, seen: Some((number, 0)) }).collect::<Vec<_>>()
        };
        for whole in [[0, 0, 0], [1, 1, 0], [1, 1, 1]] {
            check_cut(&calls, &found(whole)).unwrap();
        }
        for torn in [[1, 0, 0], [0, 1, 0], [0, 0, 1]] {
            check_cut(&calls, &found(torn)).unwrap_err();
        }
        // It was in doubt, and another did what it was to do.
        let doubtful = Call { returned: None, ..call(3, &[(1, 0, 0)], &[(1, 1), (4, 1)]) };
        check_cut(&[calls.to_vec(), vec![doubtful]].concat(), &found([1, 1, 1])).unwrap();
    }
}
