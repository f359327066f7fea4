//! Records in order that have not expired.

use std::fmt;

use super::Expiring;
use crate::api::{Env, Range, Read, Record};
use crate::error::Result;
use crate::txn::lapse::HEAD_BYTES;

/// The records of some keys, of one time: see [`Expiring::range`].
pub struct Unexpired<S: Read<Of = Env>> {
    range: Range<S>,
    of: Expiring,
    now: u64,
}

impl<S: Read<Of = Env>> fmt::Debug for Unexpired<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.range.fmt(f)
    }
}

impl<S: Read<Of = Env>> Unexpired<S> {
    pub(super) fn new(range: Range<S>, of: Expiring, now: u64) -> Unexpired<S> {
        Unexpired { range, of, now }
    }

    /// A record as it is shown, if it is.
    fn shown(&self, record: Result<Record>) -> Option<Result<Record>> {
        record
            .and_then(|(key, mut stored)| {
                let is_live = self.of.live(Some(&stored), self.now)?.is_some();
                Ok(is_live.then(|| {
                    stored.drain(..HEAD_BYTES);
                    (key, stored)
                }))
            })
            .transpose()
    }
}

impl<S: Read<Of = Env>> Iterator for Unexpired<S> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let record = self.range.next()?;
            if let Some(shown) = self.shown(record) {
                return Some(shown);
            }
        }
    }
}

impl<S: Read<Of = Env>> DoubleEndedIterator for Unexpired<S> {
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            let record = self.range.next_back()?;
            if let Some(shown) = self.shown(record) {
                return Some(shown);
            }
        }
    }
}
