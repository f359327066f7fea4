//! What steps answer.

use crate::records::Bytes;

/// What a step answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It is done.
    Done,
    /// There is no such database, or the question does not suit it.
    Missing,
    /// There is a database of that name already.
    Exists,
    /// Yes or no.
    Flag(bool),
    /// A value.
    Value(Option<Bytes>),
    /// Records.
    Records(Vec<(Bytes, Bytes)>),
    /// A number.
    Count(u64),
    /// Names.
    Names(Vec<String>),
    /// The answers of a transaction's parts.
    Parts(Vec<Answer>),
}
