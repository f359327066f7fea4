//! Databases with damaged pages are the affair of who reads them.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::sync::Arc;

use sablecat::{Env, ErrorKind, Method};
use sablecat_os::disk::{Disk, How};
use sablecat_os::sim::SimDisk;

/// Damages what a file on a disk says somewhere.
fn damage(disk: &SimDisk, path: &str, what: &[u8]) {
    let file = disk.open(path.as_ref(), How::default()).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    let at = bytes.windows(what.len()).position(|found| found == what).expect("it says so");
    file.write_at(b"?", at as u64).unwrap();
    file.sync().unwrap();
}

/// That it cannot be read is the reason to remove it.
#[test]
fn a_removed_database_that_is_damaged_keeps_nobody_out() {
    for method in [Method::Btree, Method::Hash] {
        let disk = SimDisk::new(1);
        let open = || {
            let builder = Env::builder().disk(Arc::new(disk.clone())).page_size(512).background(false);
            builder.open("/env").unwrap()
        };
        let env = open();
        env.database("sound").unwrap().insert("k", "v").unwrap();
        let damaged = env.database_as("damaged", method).unwrap();
        damaged.insert_batch((0..500u32).map(|n| (n.to_be_bytes(), format!("value {n}")))).unwrap();
        drop(damaged);
        env.close().unwrap();
        damage(&disk, "/env/sablecat.db", b"value 250");
        let env = open();
        let damaged = env.existing_database("damaged").unwrap().unwrap();
        let error = damaged.get(250u32.to_be_bytes()).expect_err("damaged");
        assert_eq!(error.kind(), ErrorKind::Corruption);
        drop(damaged);
        assert!(env.remove_database("damaged").unwrap());
        env.close().unwrap();
        // Nor does anything else that is to be freed stay because of it.
        for _ in 0..2 {
            let env = open();
            assert_eq!(env.databases().unwrap(), ["sound"]);
            assert_eq!(env.database("sound").unwrap().get("k").unwrap().unwrap(), b"v");
            env.write(|txn| txn.database("another").map(drop)).unwrap();
            assert!(env.remove_database("another").unwrap());
            env.compact().unwrap();
            let problems = env.verify(&mut |_| {}).unwrap().problems;
            assert!(problems.iter().all(|why| why.contains("is damaged")), "{problems:?}");
            env.close().unwrap();
        }
    }
}
