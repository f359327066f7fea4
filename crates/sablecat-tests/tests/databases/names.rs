//! Names that databases exchange, and crashes afterwards.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::sync::Arc;

use sablecat::{Env, Result, Txn};
use sablecat_os::sim::{SimDisk, Survival};

fn open(disk: &Arc<SimDisk>) -> Env {
    Env::builder()
        .disk(Arc::clone(disk) as Arc<_>)
        .background(false)
        .log_segment_size(1 << 16)
        .open("env")
        .unwrap()
}

#[test]
fn databases_that_exchange_their_names_keep_their_records_in_a_crash() {
    type Change = fn(&mut Txn<'_>) -> Result<()>;
    let changes: [(Change, [Option<&str>; 3]); 4] = [
        // Two change places.
        (
            |txn| {
                [("a", "x"), ("b", "a"), ("x", "b")]
                    .into_iter()
                    .try_for_each(|(from, to)| txn.rename_database(from, to))
            },
            [Some("b"), Some("a"), Some("c")],
        ),
        // All move on.
        (
            |txn| {
                [("c", "x"), ("b", "c"), ("a", "b"), ("x", "a")]
                    .into_iter()
                    .try_for_each(|(from, to)| txn.rename_database(from, to))
            },
            [Some("c"), Some("a"), Some("b")],
        ),
        // One takes the place of another, and leaves its own to a new one.
        (
            |txn| {
                txn.remove_database("b")?;
                txn.rename_database("a", "b")?;
                txn.database("a").map(drop)
            },
            [None, Some("a"), Some("c")],
        ),
        (
            |txn| {
                txn.remove_database("b")?;
                txn.rename_database("c", "b")?;
                txn.database("c").map(drop)
            },
            [Some("a"), Some("c"), None],
        ),
    ];
    for (change, contents) in changes {
        let disk = Arc::new(SimDisk::new(10));
        let env = open(&disk);
        for name in ["a", "b", "c"] {
            env.database(name).unwrap().insert("from", name).unwrap();
        }
        env.checkpoint().unwrap();
        env.write(change).unwrap();
        env.sync().unwrap();
        for env in [open(&Arc::new(disk.crash_as(Survival::Nothing, 1))), env] {
            let found = ["a", "b", "c"]
                .map(|name| env.existing_database(name).unwrap().unwrap().get("from").unwrap());
            assert_eq!(found, contents.map(|from| from.map(|name| name.as_bytes().to_vec())));
            assert_eq!(env.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
        }
    }
}
