//! A cache whose entries have deadlines, and which survives a restart.
//!
//! `cargo run -p sablecat --example cache_with_expiry [DIRECTORY]`
//!
//! What is over is hidden at once, and removed by housekeeping some seconds later, at a cost in proportion to
//! what is over; here it is swept by hand. Commits are at `Durability::Memory`: nothing waits for the disk,
//! and a crash goes back to the last checkpoint, which is whole: it costs entries, and no more. The clock is
//! one that the program sets, so that it need not wait for anything.

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use sablecat::{Durability, Env, Expiring, Lifetime, Moment, Result};

struct Cache {
    env: Env,
    entries: Expiring,
}

impl Cache {
    fn open(directory: PathBuf, clock: &Arc<AtomicU64>) -> Result<Cache> {
        let clock = Arc::clone(clock);
        let env = Env::builder()
            .cache_size(64 << 20)
            .durability(Durability::Memory)
            .clock(move || Moment { ms: clock.load(Ordering::Relaxed) })
            .open(directory)?;
        Ok(Cache { entries: Expiring::open(&env, "entries")?, env })
    }

    /// Keeps a value for so long.
    fn put(&self, key: &str, value: &[u8], time: Duration) -> Result<()> {
        self.env.write(|txn| self.entries.insert(txn, key, value, time))
    }

    /// The value of a key, if it is there and not over; then it is kept for so long from now on.
    fn get_and_keep(&self, key: &str, time: Duration) -> Result<Option<Vec<u8>>> {
        self.env.write(|txn| {
            let found = self.entries.get(txn, key)?;
            if found.is_some() {
                self.entries.touch(txn, key, time)?;
            }
            Ok(found)
        })
    }
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let directory = env::args_os()
        .nth(1)
        .map_or_else(|| env::temp_dir().join("sablecat-cache-with-expiry"), PathBuf::from);
    let clock = Arc::new(AtomicU64::new(Moment::from(SystemTime::now()).ms));
    let second = Duration::from_secs(1);
    let cache = Cache::open(directory.clone(), &clock)?;
    for page in 0..250 {
        cache.put(&format!("page {page}"), b"soon over", second)?;
    }
    assert_eq!(cache.get_and_keep("page 7", 60 * second)?.as_deref(), Some(&b"soon over"[..]));
    assert_eq!(cache.entries.len(&cache.env)?, 250);

    clock.fetch_add(1000, Ordering::Relaxed);
    assert_eq!(cache.get_and_keep("page 8", second)?, None, "it is over, although it is still there");
    assert_eq!((cache.entries.len(&cache.env)?, cache.entries.unswept(&cache.env)?), (1, 249));
    println!("{} entries were over", cache.env.sweep()?);
    assert_eq!(cache.entries.unswept(&cache.env)?, 0);

    // Closing writes a checkpoint: what was only in memory is there the next time.
    let Cache { env, entries } = cache;
    drop(entries);
    env.close()?;
    let cache = Cache::open(directory, &clock)?;
    assert_eq!(cache.entries.remaining(&cache.env, "page 7")?, Some(Lifetime::For(59 * second)));
    println!("page 7 is there after a restart");
    clock.fetch_add(59_000, Ordering::Relaxed);
    assert!(cache.entries.is_empty(&cache.env)?);
    assert_eq!(cache.env.sweep()?, 1);
    Ok(())
}
