//! Commands that fail because of what they were given leave nothing behind.

use std::fs;

use crate::kinds::all_done;
use crate::support::Scratch;

#[test]
fn what_cannot_be_makes_no_environment() {
    let scratch = Scratch::new("left-behind");
    let (long_name, long_key) = ("n".repeat(49), "k".repeat(65537));
    all_done(&scratch, &["put env k v"]);
    for call in [
        "put new k v --insert",
        "put new k v --page-size 1000",
        "put new k v --place main=none",
        "put new k v --compression none=lz4",
        "put new k v --compression lz4 --page-size 4096",
        "put new k v --unencrypted-volume none",
        &format!("put new {} v --method lsm --page-size 512", &long_key[..300]),
        "put new k v --key-file none",
        "put new k v --at 4294967295",
        "put new k v --if-value w",
        "put new k 0g --hex",
        "put new 0g 00 --hex",
        "put new k v --tuple",
        &format!("put new k v --db {long_name}"),
        &format!("put new {long_key} v"),
        "increment new k many",
        &format!("increment new {long_key}"),
        "db create new d --holds values --method hash",
        "db create new d --holds queue",
        "db create new d --holds queue --record-bytes 0",
        "db create new d --record-bytes 4",
        &format!("db create new {long_name}"),
        "queue append new abc --record-bytes 0 --db q",
        "queue append new abc --record-bytes 2 --db q",
        "queue append new abc --db q",
        "sequence new k --least 5 --greatest 1",
        "sequence new k --start 0",
        &format!("sequence new {long_key}"),
        "backup env new --to-compression lz4",
        "backup env new --to-key-file none",
        "restore env new --to-compression lz4",
        "volume hold new none/memory --volume a=b",
    ] {
        let refused = scratch.run(call);
        let shown: String = call.chars().take(80).collect();
        assert!(refused.code == 2 && refused.err.starts_with("sablecat: "), "{shown}: {refused:?}");
        let left: Vec<_> = fs::read_dir(scratch.path()).expect("there").collect();
        assert_eq!(left.len(), 1, "{shown}: {left:?}");
    }
    let zwr = b"sablecat EXTRACT\n23-NOV-2026  15:39:48 ZWR\n^a=1\n";
    let refused = scratch.run_with("load new --no-overwrite --volume v=v", zwr, &[]);
    assert!(refused.code == 2 && refused.err.contains("leave out --no-overwrite"), "{refused:?}");
    assert!(!scratch.path().join("new").exists());
    // Nor a database in one that is there.
    for call in ["sequence env k --least 5 --greatest 1 --db new", "put env k v --insert --db new"] {
        assert_eq!(scratch.run(call).code, 2, "{call}");
    }
    assert_eq!(scratch.json("stat env --json")["databases"], serde_json::json!(["main"]));
}

/// Nor is anything taken for wrong because it would not fit into memory, or is only in files.
#[test]
fn what_can_be_is_made_as_it_was_asked_for() {
    let scratch = Scratch::new("left-behind-not");
    all_done(
        &scratch,
        &[
            "put one k v --place main=v --volume v=v.db --compression v=lz4 --page-size 32768",
            "put two k v --temporary --method hash",
            "db create three d --holds renumbered --record-bytes 4",
            "put four k v --ttl 1h --if-absent",
        ],
    );
    assert_eq!(scratch.run("get one k").out, "v");
    assert!(scratch.path().join("one/v.db").exists());
    assert_eq!(scratch.json("stat two --json")["temporary"], serde_json::json!(["main"]));
    assert_eq!(scratch.json("get four k --json")["value"], "v");
    // How long keys can be depends on the pages that there are, or are to be.
    let key = "k".repeat(1000);
    for (env, options) in [("five", "--page-size 65536"), ("five", ""), ("six", "--compression lz4")] {
        let options = format!("{options} --method lsm --db d{}", options.len());
        all_done(&scratch, &[&format!("put {env} {key} v {options}")]);
    }
    // Longer than all that is tried in memory.
    let long = vec![b'x'; 20 << 20];
    for (env, options) in [("seven", ""), ("eight", "--method hash"), ("nine", "--ttl 1h")] {
        let put = scratch.run_with(&format!("put {env} k {options}"), &long, &[]);
        assert_eq!(put, crate::support::answer(0, "", ""), "{env}");
        assert_eq!(scratch.json(&format!("get {env} k --len 0 --json"))["value_bytes"], 20 << 20);
    }
}
