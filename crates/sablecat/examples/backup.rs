//! A shop goes on selling while a backup is made of it, and the backup is brought up to date three times.
//!
//! `cargo run -p sablecat --example backup [DIRECTORY]`
//!
//! A backup is an environment of its own, which can be opened and verified as any other. It is always of one
//! moment: what is sold and what is left go together in it. After the first copy only what was committed
//! since is read. (`sablecat backup` does the same from outside of the program; a journal,
//! `Builder::journal`, keeps the log for backups that go on after a restart.)

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{env, fs, thread};

use sablecat::{Changes, Database, Durability, Env, Follower};

const CUPS: i64 = 1_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let directory =
        env::args_os().nth(1).map_or_else(|| env::temp_dir().join("sablecat-backup"), PathBuf::from);
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    fs::create_dir_all(&directory)?;
    let shop = Env::builder().durability(Durability::WriteNoSync).open(directory.join("shop"))?;
    let cups = shop.database("cups")?;
    cups.insert("left", CUPS.to_le_bytes())?;

    let is_closed = AtomicBool::new(false);
    thread::scope(|scope| {
        let selling = scope.spawn(|| sell(&cups, &is_closed));
        let backup = back_up(&shop, &directory);
        is_closed.store(true, Ordering::Relaxed);
        selling.join().expect("selling does not panic")?;
        backup
    })
}

fn sell(cups: &Database, is_closed: &AtomicBool) -> sablecat::Result<()> {
    while !is_closed.load(Ordering::Relaxed) {
        cups.env().write(|txn| {
            txn.increment(cups, "left", -1)?;
            txn.increment(cups, "sold", 1)
        })?;
        // Until the next customer.
        thread::sleep(Duration::from_micros(100));
    }
    Ok(())
}

fn back_up(shop: &Env, directory: &Path) -> Result<(), Box<dyn Error>> {
    // It is flushed as a whole, not commit by commit.
    let backup = Env::builder().durability(Durability::NoSync).open(directory.join("backup"))?;
    let follower = Follower::new(&backup, "shop")?;
    // The copy itself, of the moment at which it begins.
    let mut changes = follower.copy(shop, &mut |_| {})?;
    check(&backup)?;
    let mut commits = 0;
    for _ in 0..3 {
        thread::sleep(Duration::from_millis(50));
        commits += bring_up_to_date(&follower, &mut changes, shop)?;
        backup.sync()?;
        check(&backup)?;
    }
    println!("commits since the copy: {commits}");
    let problems = backup.verify(&mut |_| {})?.problems;
    println!("the backup is whole: {}", problems.is_empty());
    Ok(())
}

/// Has the backup be of this moment, and says how many commits that took.
fn bring_up_to_date(follower: &Follower, changes: &mut Changes, shop: &Env) -> sablecat::Result<u64> {
    let (until, mut count) = (shop.lsn(), 0);
    shop.make_durable(until)?;
    while changes.position() < until {
        let Some(commit) = changes.try_next()? else { break };
        count += u64::from(follower.apply(&commit)?);
    }
    Ok(count)
}

fn check(backup: &Env) -> Result<(), Box<dyn Error>> {
    let cups = backup.database("cups")?;
    let number = |key: &str| -> Result<i64, Box<dyn Error>> {
        Ok(match cups.get(key)? {
            Some(bytes) => i64::from_le_bytes(bytes.as_slice().try_into()?),
            None => 0,
        })
    };
    match number("left")? + number("sold")? {
        CUPS => Ok(()),
        other => Err(format!("{other} cups are sold or left in the backup, of {CUPS}").into()),
    }
}
