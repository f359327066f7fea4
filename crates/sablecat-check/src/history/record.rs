//! A history, as threads write it down.

use std::collections::BTreeMap;

/// A key: lists are few.
pub type Key = u32;
/// What is appended: each element once in a history.
pub type Element = u32;

/// What a transaction did or saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It saw this list. A list that is not there is empty.
    Read(Key, Vec<Element>),
    /// It appended an element.
    Append(Key, Element),
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its commit returned.
    Committed,
    /// It was dropped, or its commit failed.
    Aborted,
}

/// One transaction.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Ticks of one clock for all, before it began and after it ended.
    pub span: (u64, u64),
    /// In the order they happened.
    pub events: Vec<Event>,
    /// How it ended.
    pub outcome: Outcome,
}

/// All transactions, and the lists at the end.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// In any order.
    pub transactions: Vec<Transaction>,
    /// What is there after all of them.
    pub last: BTreeMap<Key, Vec<Element>>,
}
