//! An audit trail of a shop, kept in an environment of its own by a reader of what the shop commits, who may
//! be away for a while.
//!
//! `cargo run -p sablecat --example change_feed [DIRECTORY]`
//!
//! What is known of each commit is its LSN, a place in the log. The trail stores the LSN of the last commit
//! that it has in the same transaction as that commit's lines. So a reader that goes on from there misses
//! nothing and has nothing twice, whatever was killed in between. The shop keeps a journal, since log is not
//! kept otherwise while nobody reads it.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::thread;

use sablecat::{Change, Changes, ChangesOptions, Commit, Database, Env, ErrorKind, Journal, Lsn, Result};

struct Trail {
    env: Env,
    /// LSN and number within the commit, to a line.
    lines: Database,
    /// One record: how far it has come.
    position: Database,
}

impl Trail {
    fn open(directory: &Path) -> Result<Trail> {
        let env = Env::open(directory)?;
        Ok(Trail { lines: env.database("lines")?, position: env.database("position")?, env })
    }

    /// The commits of the shop that the trail does not have yet.
    fn resume(&self, shop: &Env) -> Result<Changes> {
        let Some(position) = self.position.get("shop")? else { return shop.changes(shop.oldest_change()?) };
        let position = Lsn(u64::from_be_bytes(position.try_into().expect("a position has eight bytes")));
        match shop.changes(position) {
            Err(error) if error.kind() == ErrorKind::LogGone => {
                // It was away for longer than the log is kept. A copy would begin anew here, with a snapshot;
                // a trail has a gap, and says so.
                let changes = shop.changes_from_now(ChangesOptions::new())?;
                self.write(changes.position(), &[format!("what came after {position} is not known")])?;
                Ok(changes)
            }
            changes => changes,
        }
    }

    /// Puts a commit into the trail.
    fn follow(&self, commit: &Commit<'_>) -> Result<()> {
        let (mut lines, mut changes) = (Vec::new(), commit.changes());
        while let Some(change) = changes.next()? {
            lines.push(match change {
                Change::Insert { database, key, value } => {
                    format!("{database}: {} is {}", text(key), text(value))
                }
                Change::Remove { database, key } => format!("{database}: {} is gone", text(key)),
                other => format!("{other:?}"),
            });
        }
        self.write(commit.lsn(), &lines)
    }

    /// Lines and position, in one transaction.
    fn write(&self, lsn: Lsn, lines: &[String]) -> Result<()> {
        self.env.write(|txn| {
            for (number, line) in (0u32..).zip(lines) {
                assert!(
                    txn.insert_new(
                        &self.lines,
                        [&lsn.0.to_be_bytes()[..], &number.to_be_bytes()].concat(),
                        line
                    )?,
                    "no commit comes twice"
                );
            }
            txn.insert(&self.position, "shop", lsn.0.to_be_bytes())
        })
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Sells an apple; how many are left.
fn sell(stock: &Database) -> Result<Option<Vec<u8>>> {
    stock.update("apples", |left| {
        left.and_then(|left| text(left).parse::<u32>().ok())
            .map(|left| left.saturating_sub(1).to_string().into_bytes())
    })
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let directory =
        env::args_os().nth(1).map_or_else(|| env::temp_dir().join("sablecat-change-feed"), PathBuf::from);
    std::fs::create_dir_all(&directory)?;
    let shop = Env::builder().journal(Journal::new()).open(directory.join("shop"))?;
    let stock = shop.database("stock")?;
    let before = shop.lsn();
    stock.insert("apples", "10")?;

    // A reader follows, in a thread of its own here, and is stopped at some moment.
    let trail = Trail::open(&directory.join("trail"))?;
    let mut changes = trail.resume(&shop)?;
    let stopper = changes.stopper();
    let follower = thread::spawn(move || {
        while let Some(commit) = changes.next()? {
            trail.follow(&commit)?;
        }
        Ok::<_, sablecat::Error>(trail)
    });
    for _ in 0..5 {
        sell(&stock)?;
    }
    stopper.stop();
    let trail = follower.join().map_err(|_| "the follower panicked")??;

    // Nobody follows.
    for _ in 0..4 {
        sell(&stock)?;
    }
    stock.remove("apples")?;

    // The next reader goes on where the trail ends.
    let mut changes = trail.resume(&shop)?;
    while let Some(commit) = changes.try_next()? {
        trail.follow(&commit)?;
    }

    let lines = trail
        .lines
        .range((before.0 + 1).to_be_bytes()..)?
        .map(|record| Ok(text(&record?.1)))
        .collect::<Result<Vec<_>>>()?;
    lines.iter().for_each(|line| println!("{line}"));
    let sold = (1..=10).rev().map(|left| format!("stock: apples is {left}"));
    assert_eq!(lines, sold.chain(["stock: apples is gone".to_owned()]).collect::<Vec<_>>());
    Ok(())
}
