//! What is stored, and how.
//!
//! | database | key | value |
//! |---|---|---|
//! | `numbers` | a number, 8 bytes, most significant first | its steps, 4 bytes |
//! | `work` | `next` | the first integer that nobody has claimed, 8 bytes |
//! | `work` | a worker's number, 4 bytes | its [`Account`], 48 bytes |
//!
//! Values are least significant byte first.

use std::path::Path;

use sablecat::{Database, Env};

use super::variant::Variant;

/// The key of the first unclaimed integer.
pub(super) const NEXT: &[u8] = b"next";

/// The environment of one run.
pub(super) struct Store {
    pub(super) env: Env,
    pub(super) numbers: Database,
    pub(super) work: Database,
}

impl Store {
    /// Opens the environment beside processes that have it open, or creates it.
    pub(super) fn open(dir: &Path, cache_bytes: u64, variant: &Variant) -> Result<Store, String> {
        let builder = (variant.configure)(Env::builder().shared(true).cache_size(cache_bytes));
        let env = builder.open(dir).map_err(say)?;
        let numbers = env.database("numbers").map_err(say)?;
        let work = env.database("work").map_err(say)?;
        Ok(Store { env, numbers, work })
    }

    /// Leaves it; the last one to do so writes a checkpoint.
    pub(super) fn close(self) -> Result<(), String> {
        let Store { env, numbers, work } = self;
        drop((numbers, work));
        env.close().map_err(say)
    }

    /// A worker's account, empty for one that has none yet.
    pub(super) fn account(&self, worker: u32) -> Result<Account, String> {
        let bytes = self.work.get(worker.to_le_bytes()).map_err(say)?;
        let Some(bytes) = bytes else { return Ok(Account::default()) };
        Account::decode(&bytes)
            .ok_or_else(|| format!("the account of worker {worker} has {} bytes", bytes.len()))
    }

    /// A number's steps, if they are known.
    pub(super) fn steps(&self, number: u64) -> Result<Option<u32>, String> {
        self.numbers.get_with(number.to_be_bytes(), |value| value.and_then(steps)).map_err(say)
    }
}

/// For people.
pub(super) fn say(error: sablecat::Error) -> String {
    error.to_string()
}

/// What a worker has done and what it is at, stored by some of the commits that store the steps: a worker
/// that carries on after a kill has it as of the last of these. The results are always whole; the counts lack
/// what was done after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Account {
    /// The next integer of the claimed block.
    pub(super) at: u64,
    /// The end (exclusive) of the claimed block; equal to `at` when it is done.
    pub(super) end: u64,
    /// Numbers looked up.
    pub(super) reads: u64,
    /// Steps stored.
    pub(super) updates: u64,
    /// The most steps of any number.
    pub(super) longest: u64,
    /// The highest number met.
    pub(super) highest: u64,
}

impl Account {
    pub(super) fn encode(&self) -> [u8; 48] {
        let fields = [self.at, self.end, self.reads, self.updates, self.longest, self.highest];
        let mut bytes = [0; 48];
        bytes
            .chunks_exact_mut(8)
            .zip(fields)
            .for_each(|(chunk, field)| chunk.copy_from_slice(&field.to_le_bytes()));
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Account> {
        let fields: Vec<u64> = bytes.chunks_exact(8).filter_map(integer).collect();
        let &[at, end, reads, updates, longest, highest] = &fields[..] else { return None };
        Some(Account { at, end, reads, updates, longest, highest })
    }

    /// Both workers' results together; what they are at is of no interest then.
    pub(super) fn merge(self, other: Account) -> Account {
        Account {
            at: 0,
            end: 0,
            reads: self.reads + other.reads,
            updates: self.updates + other.updates,
            longest: self.longest.max(other.longest),
            highest: self.highest.max(other.highest),
        }
    }
}

/// Eight bytes as an integer.
pub(super) fn integer(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}

/// A value of `numbers`.
pub(super) fn steps(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_le_bytes)
}
