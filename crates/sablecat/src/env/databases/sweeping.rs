//! Sweeping: removing records that have expired.
//!
//! Reads do not show them from their time on (api/expiring), so when they are removed is of concern to room
//! alone. What has expired stands at the beginning of the index by time (txn/catalog/lapse.rs), which every
//! process and build that can write to the database keeps. A sweep therefore costs as much as there is to
//! remove, whatever else there is, and any process can do it, also one that never opened the database.
//!
//! *In small transactions*, of [`BATCH`] records at most, at no durability: what a crash undoes of it is
//! swept again. Each record is locked without waiting, so one that somebody has locked is passed over; it is
//! removed if it still is what the index says. Where another transaction has set it meanwhile the sweep is
//! the one that runs again, with fewer records; and where the sweep commits first, that is no change to a
//! transaction for which the record had expired already. So nobody loses to a sweep but one that has a record
//! from before it expired, changes it or depends on it, and commits after the sweep. Housekeeping leaves what
//! expired less than [`GRACE_MS`] ago alone, so that transactions of usual length do not do that.
//!
//! *Housekeeping* looks every so often (`Builder::sweep_interval`), in the process that keeps house, and
//! sweeps so much and no more at a time ([`TURN`]), then goes on with what else is due. Where nothing was
//! committed since it looked last and nothing has expired, a look is a comparison; else it reads the catalog.

use std::ops::Bound;
use std::time::Duration;

use super::{Databases, EnvTxn};
use crate::access::Scan;
use crate::error::{Error, ErrorKind, Result};
use crate::txn::lapse::{BY_EXPIRY, entry_parts, expires, index_key};
use crate::txn::pairs::{BEYOND, with_end};
use crate::txn::{Durability, Isolation, Options};
use crate::types::{Lsn, TreeId};

/// Records that one transaction looks at.
const BATCH: u64 = 64;
/// Records that housekeeping removes at a time.
const TURN: u64 = 1024;
/// What expired less long ago housekeeping leaves alone.
const GRACE_MS: u64 = 5000;
/// So often in a row a sweep that keeps losing to others runs again.
const LOSSES_MAX: u32 = 16;

/// A database whose records expire, and its index by time, by name.
#[derive(Clone, Debug)]
struct ExpiringDatabase {
    primary: String,
    index: String,
}

/// How far a sweep has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SweepProgress {
    /// Records that were removed.
    pub(crate) removed: u64,
    /// All that had expired was looked at.
    is_done: bool,
}

/// What housekeeping knows of what will expire.
#[derive(Debug, Default)]
pub(in crate::env) struct Upcoming {
    /// The state that was looked at last.
    seen: Option<Lsn>,
    /// Nothing in it expires before.
    next: u64,
    /// Which database comes first.
    turn: usize,
}

impl Databases {
    /// Removes what has expired by now, of all databases or of one. How many records that were.
    pub(crate) fn sweep(&self, only: Option<TreeId>) -> Result<u64> {
        self.check_writable()?;
        let until = self.config.clock.now();
        let mut removed = 0;
        for place in self.expiring()? {
            let is_wanted = match only {
                None => true,
                Some(tree) => self.database(&place.primary)?.is_some_and(|named| named.tree_id() == tree),
            };
            if is_wanted {
                match self.sweep_one(&place, until, u64::MAX) {
                    Err(error) if error.is_not_known() => {}
                    swept => removed += swept?.removed,
                }
            }
        }
        Ok(removed)
    }

    /// Removes some of what expired a while ago, if there is any. Whether there is more.
    pub(in crate::env) fn sweep_some(&self, upcoming: &mut Upcoming) -> Result<bool> {
        let newest = self.kernel.pages.newest();
        let until = self.config.clock.now().saturating_sub(GRACE_MS);
        if upcoming.seen == Some(newest) && until < upcoming.next {
            return Ok(false);
        }
        upcoming.seen = None;
        let mut places = self.expiring()?;
        if !places.is_empty() {
            // Each is the first at times, so that one of which much expires does not keep the others waiting.
            let first = upcoming.turn % places.len();
            upcoming.turn = upcoming.turn.wrapping_add(1);
            places.rotate_left(first);
        }
        let (mut left, mut next, mut failed) = (TURN, u64::MAX, Ok(()));
        for place in &places {
            if left == 0 {
                return failed.map(|()| true);
            }
            // What is wrong with one is no reason to leave the others.
            match self
                .sweep_one(place, until, left)
                .and_then(|swept| Ok((swept, self.first_to_expire(place)?)))
            {
                Ok((swept, first)) => {
                    left = left.saturating_sub(swept.removed);
                    next = next.min(first.unwrap_or(u64::MAX));
                    if !swept.is_done {
                        return failed.map(|()| true);
                    }
                }
                Err(error) if error.is_not_known() => {}
                Err(error) => failed = Err(error),
            }
        }
        if failed.is_ok() {
            (upcoming.seen, upcoming.next) = (Some(newest), next);
        }
        failed.map(|()| false)
    }

    /// The databases whose records expire.
    fn expiring(&self) -> Result<Vec<ExpiringDatabase>> {
        let indices = self.database_kinds()?.indices;
        let by_expiry = indices.into_iter().filter(|(_, info)| info.extractor == BY_EXPIRY);
        Ok(by_expiry.map(|(index, info)| ExpiringDatabase { primary: info.primary, index }).collect())
    }

    /// When the first record of a database expires.
    fn first_to_expire(&self, place: &ExpiringDatabase) -> Result<Option<u64>> {
        self.read(|txn| {
            let Some(index) = txn.database(&place.index)? else { return Ok(None) };
            let mut scan = Scan::new(Bound::Unbounded, Bound::Unbounded);
            let first = txn.records.next_found(txn.tree(&index)?, &mut scan, true)?;
            Ok(first.and_then(|(entry, _)| Some(entry_parts(&entry)?.0)))
        })
    }

    /// Removes what a database has that expired up to a time, or so much of it.
    fn sweep_one(&self, place: &ExpiringDatabase, until: u64, most: u64) -> Result<SweepProgress> {
        let mut swept = SweepProgress::default();
        let (mut passed, mut batch, mut losses) = (None, BATCH, 0);
        // So many at a time have room in the cache.
        let mut batch_max = BATCH;
        while swept.removed < most && !swept.is_done {
            match self.sweep_batch(place, until, &mut passed, batch.min(most - swept.removed)) {
                Ok(step) => {
                    swept = SweepProgress { removed: swept.removed + step.removed, is_done: step.is_done };
                    (batch, losses) = (batch_max, 0);
                }
                // It was removed meanwhile.
                Err(error) if error.kind() == ErrorKind::NotFound => swept.is_done = true,
                Err(error) if error.is_retryable() && losses < LOSSES_MAX => {
                    losses += 1;
                    batch = (batch / 2).max(1);
                }
                Err(error) if error.kind() == ErrorKind::CacheFull && batch > 1 => {
                    batch_max = batch / 2;
                    batch = batch_max;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(swept)
    }

    /// Looks at some entries after the last that was passed, and removes the records that they are of.
    fn sweep_batch(
        &self,
        ExpiringDatabase { primary, index }: &ExpiringDatabase,
        until: u64,
        passed: &mut Option<Vec<u8>>,
        most: u64,
    ) -> Result<SweepProgress> {
        let mut txn = EnvTxn::begin(
            self,
            Options {
                isolation: Isolation::Snapshot,
                durability: Durability::Memory,
                read_only: false,
                patience: Duration::ZERO,
            },
        )?;
        // The transaction that has the gate loses nothing by this; and housekeeping may have been called from
        // within that transaction.
        txn.records.pass_gate();
        txn.records.set_time(until);
        let all_done = Ok(SweepProgress { removed: 0, is_done: true });
        let (Some(index), Some(primary)) = (txn.database(index)?, txn.database(primary)?) else {
            return all_done;
        };
        let is_its_own =
            index.index().is_some_and(|info| info.extractor == BY_EXPIRY && info.primary == primary.name);
        if !is_its_own {
            return all_done;
        }
        let tree = txn.tree_to_write(&primary)?;
        let from = passed.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let mut scan = Scan::new(from, Bound::Excluded(with_end(&index_key(until), BEYOND)));
        let mut swept = SweepProgress::default();
        let mut last = None;
        for _ in 0..most {
            let Some((entry, _)) = txn.records.next_found(txn.tree(&index)?, &mut scan, true)? else {
                swept.is_done = true;
                break;
            };
            let (expired, key) = entry_parts(&entry).ok_or_else(|| bad_entry(&index.name, &entry))?;
            if txn.records.try_lock(&tree, key)? {
                let mut head = [0; 8];
                let found = txn.records.read_at(&tree, key, 0, &mut head)?;
                if found == Some(head.len()) && expires(&head) == Some(expired) {
                    txn.records.set(&tree, key, None)?;
                    swept.removed += 1;
                }
            }
            last = Some(entry);
        }
        if swept.removed > 0 {
            txn.commit(Durability::Memory)?;
        }
        if last.is_some() {
            *passed = last;
        }
        Ok(swept)
    }
}

#[cold]
fn bad_entry(index: &str, entry: &[u8]) -> Error {
    Error::corruption(format!(
        "the index by time {index:?} has an entry {} without a time; create the database again (sablecat \
         dump, load)",
        entry.escape_ascii()
    ))
}
