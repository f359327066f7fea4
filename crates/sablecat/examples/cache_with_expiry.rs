//! A cache whose entries have deadlines, and which survives a restart.
//!
//! `cargo run -p sablecat --example cache_with_expiry [DIRECTORY]`
//!
//! A second database has the deadlines, ordered by time: what is over stands at its beginning, so removing
//! that costs as much as there is to remove. Commits are at `Durability::Memory`: nothing waits for the disk,
//! and a crash goes back to the last checkpoint, which is whole. So a crash costs entries, and never leaves
//! one without its deadline.

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sablecat::{Database, Durability, Env, Result};

/// How many entries one transaction removes: so none takes long, and a conflict with one entry does not
/// repeat the work for all.
const REMOVED_AT_ONCE: usize = 100;

struct Cache {
    env: Env,
    /// From key to deadline and value.
    entries: Database,
    /// Deadline and key.
    deadlines: Database,
}

impl Cache {
    fn open(directory: PathBuf) -> Result<Cache> {
        let env = Env::builder().cache_size(64 << 20).durability(Durability::Memory).open(directory)?;
        Ok(Cache { entries: env.database("entries")?, deadlines: env.database("deadlines")?, env })
    }

    /// Keeps a value until a time.
    fn put(&self, key: &str, value: &[u8], deadline: SystemTime) -> Result<()> {
        let deadline = milliseconds(deadline).to_be_bytes();
        self.env.write(|txn| {
            let before = txn.replace(&self.entries, key, [&deadline, value].concat())?;
            if let Some((old, _)) = before.as_deref().and_then(<[u8]>::split_first_chunk::<8>) {
                txn.remove(&self.deadlines, [old, key.as_bytes()].concat())?;
            }
            txn.insert(&self.deadlines, [&deadline, key.as_bytes()].concat(), [])
        })
    }

    /// The value of a key, if it is there and not over. What is over is not copied.
    fn get(&self, key: &str, now: SystemTime) -> Result<Option<Vec<u8>>> {
        self.entries.get_with(key, |entry| {
            let (deadline, value) = entry?.split_first_chunk()?;
            (u64::from_be_bytes(*deadline) > milliseconds(now)).then(|| value.to_vec())
        })
    }

    /// Removes what is over; how many entries that were. To be called now and then.
    fn expire(&self, now: SystemTime) -> Result<usize> {
        let end = (milliseconds(now) + 1).to_be_bytes();
        let mut removed = 0;
        loop {
            let count = self.env.write(|txn| {
                let over =
                    txn.range(&self.deadlines, ..end)?.take(REMOVED_AT_ONCE).collect::<Result<Vec<_>>>()?;
                for (deadline, _) in &over {
                    txn.remove(&self.entries, &deadline[end.len()..])?;
                    txn.remove(&self.deadlines, deadline)?;
                }
                Ok(over.len())
            })?;
            removed += count;
            if count < REMOVED_AT_ONCE {
                return Ok(removed);
            }
        }
    }
}

/// A time as a number. Its bytes, the highest first, sort as times do.
fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX - 1)
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let directory = env::args_os()
        .nth(1)
        .map_or_else(|| env::temp_dir().join("sablecat-cache-with-expiry"), PathBuf::from);
    let (now, second) = (SystemTime::now(), Duration::from_secs(1));
    let cache = Cache::open(directory.clone())?;
    for page in 0..250 {
        cache.put(&format!("page {page}"), b"soon over", now + second)?;
    }
    cache.put("page 7", b"renewed", now + 60 * second)?;
    assert_eq!(cache.get("page 8", now)?.as_deref(), Some(&b"soon over"[..]));
    assert_eq!(cache.get("page 8", now + second)?, None, "it is over, although it is still there");

    let removed = cache.expire(now + 2 * second)?;
    println!("{removed} entries were over");
    assert_eq!((removed, cache.entries.len()?, cache.deadlines.len()?), (249, 1, 1));

    // Closing writes a checkpoint: what was only in memory is there the next time.
    let Cache { env, entries, deadlines } = cache;
    drop((entries, deadlines));
    env.close()?;
    let cache = Cache::open(directory)?;
    assert_eq!(cache.get("page 7", now)?.as_deref(), Some(&b"renewed"[..]));
    println!("page 7 is there after a restart");
    cache.expire(now + 60 * second)?;
    assert!(cache.entries.is_empty()? && cache.deadlines.is_empty()?);
    Ok(())
}
