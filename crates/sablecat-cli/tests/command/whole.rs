//! Databases as wholes, and parts of them: `db`, `count`, `del` of ranges, and `sequence`.

use crate::kinds::{all_done, refused, with_all_kinds};
use crate::support::{Scratch, answer};
use serde_json::json;

/// What `stat` says of a database.
fn of(scratch: &Scratch, name: &str, what: &str) -> String {
    let stat = scratch.json("stat env --json");
    let at = stat["databases"].as_array().and_then(|all| all.iter().position(|one| one == name));
    stat[what][at.expect("it is there")].as_str().expect("a text").to_owned()
}

#[test]
fn databases_of_all_kinds_are_created_renamed_emptied_and_removed() {
    let scratch = Scratch::new("whole-db");
    for (holds, options, told) in [
        ("records", "--method hash --temporary", "plain records"),
        ("values", "", "keys with several values, sorted"),
        ("inserted-values", "", "keys with several values, as inserted"),
        ("queue", "--record-bytes 4 --pad 46", "a queue"),
        ("numbers", "", "numbered records"),
        ("renumbered", "--record-bytes 3", "records of 3 bytes whose numbers close up"),
        ("globals", "", "globals"),
        ("expiring", "--method hash", "records that expire"),
    ] {
        all_done(&scratch, &[&format!("db create env {holds} --holds {holds} {options}")]);
        assert!(of(&scratch, holds, "holds").starts_with(told), "{holds}");
        refused(&scratch, &format!("db create env {holds}"), "there is one of that name");
    }
    assert_eq!(
        (&*of(&scratch, "records", "methods"), &*of(&scratch, "expiring", "methods")),
        ("hash table", "hash table")
    );
    assert_eq!(of(&scratch, "renumbered", "methods"), "counted B+tree");
    assert_eq!(scratch.json("stat env --json")["temporary"], json!(["records"]));
    refused(&scratch, "db create env q --holds queue", "a queue without --record-bytes");
    refused(&scratch, "db create env r --record-bytes 4", "only for queues");
    for holds in ["values", "inserted-values", "queue --record-bytes 1", "numbers", "globals"] {
        let call = format!("db create env new --holds {holds} --method hash");
        refused(&scratch, &call, "in the order of their keys, which a hash table does not keep");
    }
    refused(&scratch, "db create env new --holds renumbered --method btree", "these are in a counted B+tree");

    assert_eq!(scratch.run("queue append env ab --db queue"), answer(0, "1\n", ""));
    assert_eq!(scratch.json("db rename env queue jobs --json"), json!({"renamed": "queue", "to": "jobs"}));
    assert_eq!(scratch.run("scan env --db jobs"), answer(0, "1\tab..\n", ""));
    refused(&scratch, "db rename env queue more", "queue");
    refused(&scratch, "db rename env jobs globals", "globals");
    assert_eq!(scratch.json("db clear env --db jobs --json"), json!({"removed": 1}));
    assert_eq!(scratch.run("queue append env cd --db jobs"), answer(0, "2\n", ""), "numbers go on");
    all_done(&scratch, &["db remove env jobs"]);
    assert_eq!(scratch.run("db remove env jobs"), answer(1, "", ""));
    refused(&scratch, "db clear env --db jobs", "there is no database jobs");
    refused(&scratch, "db rename absent a b", "absent");

    // The index by time is no database of its own.
    all_done(&scratch, &["put env k v --ttl 1h --db expiring"]);
    let index = "expiring by expiry";
    assert!(scratch.json("stat env --json")["indices"][index].is_object());
    let cleared = std::process::Command::new(env!("CARGO_BIN_EXE_sablecat"))
        .args(["db", "clear", "env", "--db", index])
        .current_dir(scratch.path())
        .output()
        .expect("started");
    let said = String::from_utf8_lossy(&cleared.stderr).into_owned();
    assert!(cleared.status.code() == Some(2) && said.contains("it is an index of expiring"), "{said}");
    assert_eq!(scratch.json("verify env --json")["problems"], json!([]));
}

#[test]
fn records_are_counted_in_whole_and_in_part() {
    let scratch = with_all_kinds("whole-count");
    let lines = |n: u32| (0..n).map(|n| format!("{{\"key\":\"k{n:03}\",\"value\":\"v\"}}\n"));
    for method in ["btree", "hash", "counted"] {
        all_done(&scratch, &[&format!("db create env {method} --method {method}")]);
        let text: String = lines(500).collect();
        assert_eq!(scratch.run_with(&format!("load env --db {method}"), text.as_bytes(), &[]).code, 0);
        assert_eq!(scratch.run(&format!("count env --db {method}")), answer(0, "500\n", ""));
    }
    for db in ["btree", "counted"] {
        let count = |part: &str| scratch.run(&format!("count env --db {db} {part}")).out;
        assert_eq!(count("--to k100"), "100\n");
        assert_eq!(count("--from k100 --to k200"), "100\n");
        assert_eq!(count("--prefix k49"), "10\n");
        assert_eq!(count("--from k200 --to k200"), "0\n");
        refused(&scratch, &format!("count env --db {db} --from b --to a"), "--from is after --to");
        assert_eq!(
            scratch.json(&format!("count env --db {db} --from k100 --to k120 --estimate --json")),
            json!({"records": 20, "is_exact": true})
        );
        let estimate: u64 = count("--estimate").trim().parse().expect("a number");
        assert!((100..2500).contains(&estimate), "{estimate}");
    }
    for (key, value) in [("a", "1"), ("a", "2"), ("b", "1")] {
        all_done(&scratch, &[&format!("put env {key} {value} --db sorted")]);
    }
    all_done(&scratch, &["put env 2 x --db lines", "put env 7 y --db lines", "put env a(1) x --db globals"]);
    all_done(&scratch, &["put env a(1,2) x --db globals", "put env b x --db globals"]);
    assert_eq!(scratch.json("count env --db sorted --json"), json!({"records": 3}));
    assert_eq!(scratch.run("count env --db sorted --from a --to b").out, "2\n");
    assert_eq!(scratch.run("count env --db lines --from 3").out, "1\n");
    assert_eq!(scratch.run("count env --db globals --prefix a(1)").out, "2\n");
    assert_eq!(scratch.run("count env --db globals --from b").out, "1\n");
    refused(&scratch, "count env --db sorted --estimate", "only for plain records");
}

#[test]
fn ranges_are_removed_from_databases_of_every_kind() {
    let scratch = with_all_kinds("whole-del");
    let scan = |db: &str| scratch.run(&format!("scan env --db {db} --keys-only")).out.replace('\n', " ");
    all_done(&scratch, &["db create env exp --holds expiring"]);
    for key in ["a", "b", "ba", "c"] {
        for db in ["main", "sorted", "exp"] {
            all_done(&scratch, &[&format!("put env {key} v --db {db}")]);
        }
        all_done(
            &scratch,
            &[&format!("put env b {key} --db inserted"), &format!("put env {key}(1) v --db globals")],
        );
    }
    all_done(&scratch, &["put env a(1,2) v --db globals", "put env a(2) v --db globals"]);
    for db in ["main", "sorted", "exp"] {
        all_done(&scratch, &[&format!("del env --db {db} --prefix b")]);
        assert_eq!(scan(db), "a c ");
        assert_eq!(scratch.run(&format!("del env --db {db} --prefix b")), answer(1, "", ""));
        assert_eq!(scratch.json(&format!("del env --db {db} --from b --json")), json!({"removed": 1}));
        assert_eq!(scan(db), "a ");
    }
    assert_eq!(scratch.json("del env --db inserted --to c --json"), json!({"removed": 4}), "each value");
    all_done(&scratch, &["del env --db globals --prefix a(1)"]);
    assert_eq!(scan("globals"), "^a(2) ^b(1) ^ba(1) ^c(1) ");
    all_done(&scratch, &["del env --db globals --from b --to c"]);
    assert_eq!(scan("globals"), "^a(2) ^c(1) ");

    for n in 1..=6 {
        all_done(
            &scratch,
            &[&format!("put env {n} r{n} --db lines"), &format!("put env {n} r{n} --db steps")],
        );
        assert_eq!(scratch.run(&format!("queue append env r{n} --db jobs")).code, 0);
    }
    for db in ["lines", "steps", "jobs"] {
        assert_eq!(scratch.json(&format!("del env --db {db} --from 2 --to 5 --json")), json!({"removed": 3}));
    }
    assert_eq!(scan("lines"), "1 5 6 ");
    assert_eq!(scratch.run("scan env --db steps").out, "1\tr1\n2\tr5\n3\tr6\n", "they close up");
    assert_eq!(scan("jobs"), "1 5 6 ");
    // And make room.
    all_done(&scratch, &["put env 2 new --db steps --insert", "put env 5 last --db steps --insert"]);
    assert_eq!(scratch.run("scan env --db steps").out, "1\tr1\n2\tnew\n3\tr5\n4\tr6\n5\tlast\n");
    refused(
        &scratch,
        "put env 2 new --db lines --insert",
        "the database lines holds numbered records; --insert",
    );
    for call in ["del env", "del env a --from b", "del env a --prefix b"] {
        assert_eq!(scratch.run(call).code, 2, "{call}");
    }
    assert_eq!(scratch.json("verify env --json")["problems"], json!([]));
}

#[test]
fn nobody_gets_the_same_numbers_of_a_sequence() {
    let scratch = Scratch::new("whole-sequence");
    assert_eq!(scratch.run("sequence env orders"), answer(0, "1\n", ""));
    assert_eq!(scratch.run("sequence env orders --numbers 3"), answer(0, "2\n3\n4\n", ""));
    assert_eq!(scratch.json("sequence env orders --numbers 2 --json"), json!({"first": 5, "last": 6}));
    assert_eq!(scratch.run("sequence env orders --start 100"), answer(0, "7\n", ""), "it is as it was made");
    let down = "sequence env down --least -1 --greatest 1 --descending";
    assert_eq!(scratch.run(&format!("{down} --numbers 2")), answer(0, "1\n0\n", ""));
    assert_eq!(scratch.run(&format!("{down} --numbers 9")), answer(0, "-1\n", ""), "no more are left");
    refused(&scratch, down, "down");
    let round = "sequence env round --greatest 2 --wraps";
    assert_eq!([1, 2, 1].map(|_| scratch.run(round).out).concat(), "1\n2\n1\n");
    assert_eq!(scratch.run("sequence env orders --numbers 0").code, 2);
    refused(&scratch, "sequence env x --least 5 --greatest 1", "no numbers in that range");
    all_done(&scratch, &["put env text t", "db create env sorted --holds values"]);
    refused(&scratch, "sequence env text", "text");
    refused(&scratch, "sequence env x --db sorted", "sorted: the database holds");
}
