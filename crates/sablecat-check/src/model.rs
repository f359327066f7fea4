//! The model: what the engine is to answer, by the shortest code that can say it. A map of maps; a
//! transaction is a copy.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;

use crate::answer::Answer;
use crate::records::{Bytes, Records, between, has_prefixes};
use crate::step::{Part, Read, Step};
use crate::walk;

/// An environment.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Model {
    /// Databases by name.
    pub tables: BTreeMap<String, Records>,
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.tables.iter().map(|(name, records)| (name, records.len()))).finish()
    }
}

/// Answers a question about a database.
pub fn read(name: &str, records: &Records, question: &Read) -> Answer {
    let all = || between(name, records, &(Bound::Unbounded, Bound::Unbounded));
    match question {
        Read::Get(key) => Answer::Value(records.get(key).cloned()),
        Read::Contains(key) => Answer::Flag(records.contains_key(key)),
        Read::Length(key) => {
            records.get(key).map_or(Answer::Missing, |value| Answer::Count(value.len() as u64))
        }
        Read::Part(key, offset, len) => Answer::Value(records.get(key).map(|value| {
            let rest = value.get(*offset as usize..).unwrap_or_default();
            rest[..rest.len().min(*len)].to_vec()
        })),
        Read::First => Answer::Records(all().pop_front().into_iter().collect()),
        Read::Last => Answer::Records(all().pop_back().into_iter().collect()),
        Read::Range(bounds, limit, ends) => {
            let mut found = between(name, records, bounds);
            let take =
                |n: usize| if ends >> (n % 64) & 1 == 0 { found.pop_front() } else { found.pop_back() };
            Answer::Records((0..*limit).map_while(take).collect())
        }
        Read::Prefix(_) if !has_prefixes(name) => Answer::Missing,
        Read::Prefix(prefix) => {
            let found = records.iter().filter(|(key, _)| key.starts_with(prefix));
            Answer::Records(found.map(|(key, value)| (key.clone(), value.clone())).collect())
        }
    }
}

impl Model {
    /// Does a step and says what the engine must answer.
    pub fn apply(&mut self, step: &Step) -> Answer {
        match step {
            Step::Read(name, question) => {
                self.tables.get(name).map_or(Answer::Missing, |records| read(name, records, question))
            }
            Step::Visit(name, bounds, limit) => self.tables.get(name).map_or(Answer::Missing, |records| {
                Answer::Records(between(name, records, bounds).into_iter().take(*limit).collect())
            }),
            Step::Len(name) => {
                self.tables.get(name).map_or(Answer::Missing, |records| Answer::Count(records.len() as u64))
            }
            Step::Insert(name, key, value) => self.change(name, |records| {
                records.insert(key.clone(), value.clone());
                Answer::Done
            }),
            Step::Remove(name, key) => {
                self.change(name, |records| Answer::Flag(records.remove(key).is_some()))
            }
            Step::RemoveRange(name, bounds) => self.change(name, |records| {
                let gone = between(name, records, bounds);
                gone.iter().for_each(|(key, _)| _ = records.remove(key));
                Answer::Count(gone.len() as u64)
            }),
            Step::OrInsert(name, key, value) => self.change(name, |records| {
                Answer::Value(Some(records.entry(key.clone()).or_insert(value.clone()).clone()))
            }),
            Step::AndModify(name, key, byte) => self.change(name, |records| {
                records.entry(key.clone()).and_modify(|value| value.push(*byte));
                Answer::Value(records.get(key).cloned())
            }),
            Step::Retain(name, rest, modulus) => self.change(name, |records| {
                records.retain(|key, _| keeps(key, *rest, *modulus));
                Answer::Done
            }),
            Step::Batch(name, batch) => self.change(name, |records| {
                records.extend(batch.iter().cloned());
                Answer::Done
            }),
            Step::Transaction(transaction) => {
                let mut copy = self.clone();
                let answers = copy.parts(&transaction.parts);
                if transaction.commit {
                    *self = copy;
                }
                Answer::Parts(answers)
            }
            Step::Create(name) => {
                self.tables.entry(name.clone()).or_default();
                Answer::Done
            }
            Step::Rename(from, to) => {
                if !self.tables.contains_key(from) {
                    Answer::Missing
                } else if self.tables.contains_key(to) {
                    Answer::Exists
                } else {
                    let records = self.tables.remove(from).unwrap_or_default();
                    self.tables.insert(to.clone(), records);
                    Answer::Done
                }
            }
            Step::Drop(name) => Answer::Flag(self.tables.remove(name).is_some()),
            Step::Databases => Answer::Names(self.tables.keys().cloned().collect()),
            Step::Sync
            | Step::Checkpoint
            | Step::Compact
            | Step::Reopen
            | Step::Hold
            | Step::Look(..)
            | Step::Release => Answer::Done,
        }
    }

    fn change(&mut self, name: &str, work: impl FnOnce(&mut Records) -> Answer) -> Answer {
        self.tables.get_mut(name).map_or(Answer::Missing, work)
    }

    fn parts(&mut self, parts: &[Part]) -> Vec<Answer> {
        let mut saved: Vec<Model> = Vec::new();
        let mut answers = Vec::new();
        for part in parts {
            answers.push(match part {
                Part::Read(name, question) => self.apply(&Step::Read(name.clone(), question.clone())),
                Part::ForUpdate(name, key) => self.apply(&Step::Read(name.clone(), Read::Get(key.clone()))),
                Part::Insert(name, key, value) => {
                    self.apply(&Step::Insert(name.clone(), key.clone(), value.clone()))
                }
                Part::Remove(name, key) => self.apply(&Step::Remove(name.clone(), key.clone())),
                Part::RemoveRange(name, bounds) => {
                    self.apply(&Step::RemoveRange(name.clone(), bounds.clone()))
                }
                Part::Walk(name, walk) => self.change(name, |records| walk::model(name, records, walk)),
                Part::Create(name) => self.apply(&Step::Create(name.clone())),
                Part::Rename(from, to) => self.apply(&Step::Rename(from.clone(), to.clone())),
                Part::Drop(name) => self.apply(&Step::Drop(name.clone())),
                Part::Databases => self.apply(&Step::Databases),
                Part::Savepoint => {
                    saved.push(self.clone());
                    Answer::Done
                }
                Part::RollBack(n) => {
                    if !saved.is_empty() {
                        let n = n % saved.len();
                        saved.truncate(n + 1);
                        *self = saved[n].clone();
                    }
                    Answer::Done
                }
                Part::Nested(parts, succeeds) => {
                    let before = self.clone();
                    let answers = self.parts(parts);
                    if !succeeds {
                        *self = before;
                    }
                    Answer::Parts(answers)
                }
            });
        }
        answers
    }

    /// How another state differs from this one, in a sentence.
    pub fn difference(&self, other: &Model) -> String {
        let mut found = Vec::new();
        let names: std::collections::BTreeSet<_> = self.tables.keys().chain(other.tables.keys()).collect();
        for name in names {
            match (self.tables.get(name), other.tables.get(name)) {
                (Some(mine), Some(theirs)) => {
                    let keys: std::collections::BTreeSet<_> = mine.keys().chain(theirs.keys()).collect();
                    for key in keys.into_iter().filter(|key| mine.get(*key) != theirs.get(*key)) {
                        let show = |value: Option<&Bytes>| {
                            value.map_or("absent".to_owned(), |value| format!("{} bytes", value.len()))
                        };
                        found.push(format!(
                            "{name}/{key:02x?}: {} against {}",
                            show(mine.get(key)),
                            show(theirs.get(key))
                        ));
                    }
                }
                (mine, _) => found.push(format!(
                    "database {name} is {}",
                    if mine.is_some() { "in the first only" } else { "in the second only" }
                )),
            }
        }
        let more = found.len().saturating_sub(6);
        found.truncate(6);
        format!("{}{}", found.join("; "), if more > 0 { format!("; and {more} more") } else { String::new() })
    }
}

/// Whether `Step::Retain` keeps a key.
pub fn keeps(key: &[u8], rest: u8, modulus: u8) -> bool {
    key.first().copied().unwrap_or(0) % modulus != rest
}
