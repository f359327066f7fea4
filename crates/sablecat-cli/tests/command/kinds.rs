//! `get`, `put`, `del`, `scan` and `queue` over databases that hold something else than plain records: by
//! numbers, references and values, as their users know them.

use crate::support::{Scratch, answer};
use serde_json::json;

/// An environment with a database of each kind, without records.
pub(crate) fn with_all_kinds(test: &str) -> Scratch {
    let scratch = Scratch::new(test);
    let text = br#"{"database":"sorted","holds":"values","sorted":true}
{"database":"inserted","holds":"values","sorted":false}
{"database":"lines","holds":"numbers"}
{"database":"rows","holds":"numbers","record_bytes":4,"pad":46}
{"database":"steps","holds":"renumbered"}
{"database":"globals","holds":"globals"}
{"database":"jobs","holds":"queue","record_bytes":4,"pad":46}
"#;
    assert_eq!(scratch.run_with("load env", text, &[]), answer(0, "0 records set\n", ""));
    scratch
}

/// Calls that print nothing and succeed.
pub(crate) fn all_done(scratch: &Scratch, calls: &[&str]) {
    for call in calls {
        assert_eq!(scratch.run(call), answer(0, "", ""), "{call}");
    }
}

/// A call that is refused, with what it says.
pub(crate) fn refused(scratch: &Scratch, call: &str, says: &str) {
    let answered = scratch.run(call);
    assert!(answered.code == 2 && answered.err.contains(says), "{call}: {answered:?}");
}

#[test]
fn values_of_a_key_are_added_shown_and_removed() {
    let scratch = with_all_kinds("kinds-values");
    for db in ["sorted", "inserted"] {
        for value in ["b", "a", "b", "c"] {
            all_done(&scratch, &[&format!("put env k {value} --db {db}")]);
        }
        all_done(&scratch, &[&format!("put env ka z --db {db}"), &format!("put env 00 ff --db {db} --hex")]);
    }
    assert_eq!(scratch.run("get env k --db sorted"), answer(0, "a\nb\nc\n", ""));
    assert_eq!(scratch.run("get env k --db inserted"), answer(0, "b\na\nb\nc\n", ""));
    assert_eq!(scratch.run("get env 00 --db sorted --hex"), answer(0, "ff\n", ""));
    assert_eq!(scratch.run("get env absent --db sorted"), answer(1, "", ""));
    assert_eq!(
        scratch.json("get env k --db inserted --json"),
        json!({"key": "k", "found": true,
               "values": [{"value": "b"}, {"value": "a"}, {"value": "b"}, {"value": "c"}]})
    );
    assert_eq!(scratch.run("scan env --db sorted"), answer(0, "\\x00\t\\xff\nk\ta\nk\tb\nk\tc\nka\tz\n", ""));
    assert_eq!(scratch.run("scan env --db inserted --reverse --limit 2"), answer(0, "ka\tz\nk\tc\n", ""));
    assert_eq!(scratch.run("scan env --db inserted --from k --to ka").out, "k\tb\nk\ta\nk\tb\nk\tc\n");
    assert_eq!(scratch.run("scan env --db sorted --prefix ka --keys-only").out, "ka\n");
    assert_eq!(
        scratch.json("scan env --db sorted --from k --limit 1 --json"),
        json!([{"key": "k", "value": "a"}])
    );

    all_done(&scratch, &["del env k b --db sorted", "del env k b --db inserted"]);
    assert_eq!(scratch.run("get env k --db sorted").out, "a\nc\n");
    assert_eq!(scratch.run("get env k --db inserted").out, "a\nb\nc\n", "the first of two");
    assert_eq!(scratch.run("del env k x --db sorted"), answer(1, "", ""));
    all_done(&scratch, &["del env k --db sorted"]);
    assert_eq!(scratch.run("del env k --db sorted"), answer(1, "", ""));
    assert_eq!(scratch.run("scan env --db sorted --from k").out, "ka\tz\n");
    all_done(&scratch, &["put env k v"]);
    refused(&scratch, "del env k v", "main: the database holds plain records; that is only for keys with");
    assert_eq!(scratch.run("get env k").out, "v");
    assert_eq!(scratch.json("verify env --json")["problems"], json!([]));
}

#[test]
fn numbered_records_are_set_shown_and_removed_by_their_numbers() {
    let scratch = with_all_kinds("kinds-numbers");
    all_done(
        &scratch,
        &[
            "put env 2 two --db lines",
            "put env 300 three --db lines",
            "put env 10 ten --db lines",
            "put env 1 a --db rows",
            "put env 1 first --db steps",
            "put env 2 second --db steps",
            "put env 3 third --db steps",
            "put env 2 2nd --db steps",
        ],
    );
    assert_eq!(scratch.run("scan env --db lines"), answer(0, "2\ttwo\n10\tten\n300\tthree\n", ""));
    assert_eq!(scratch.run("scan env --db lines --from 3 --to 300"), answer(0, "10\tten\n", ""));
    assert_eq!(scratch.run("scan env --db lines --hex --limit 1"), answer(0, "2\t74776f\n", ""));
    assert_eq!(scratch.run("scan env --db steps --reverse --to 3"), answer(0, "2\t2nd\n1\tfirst\n", ""));
    assert_eq!(
        scratch.json("scan env --db rows --json"),
        json!([{"number": 1, "value": "a..."}]),
        "filled up"
    );
    assert_eq!(scratch.run("get env 300 --db lines"), answer(0, "three", ""));
    assert_eq!(scratch.run("get env 3 --db steps"), answer(0, "third", ""));
    assert_eq!(scratch.run("get env 3 --db lines"), answer(1, "", ""));
    assert_eq!(
        scratch.json("get env 2 --db steps --json"),
        json!({"number": 2, "value": "2nd", "found": true})
    );

    all_done(&scratch, &["del env 2 --db lines", "del env 1 --db steps"]);
    assert_eq!(scratch.run("del env 2 --db lines"), answer(1, "", ""));
    assert_eq!(scratch.run("scan env --db lines --keys-only").out, "10\n300\n", "a gap");
    assert_eq!(scratch.run("scan env --db steps").out, "1\t2nd\n2\tthird\n", "no gap");

    refused(
        &scratch,
        "put env 4 x --db steps",
        "record 4 of the database \"steps\", which has records 1 to 2",
    );
    refused(&scratch, "put env 0 x --db lines", "numbers begin with 1");
    refused(&scratch, "put env 1 long. --db rows", "a record of 5 bytes");
    refused(&scratch, "put env k x --db lines", "\"k\" as the number of a record: the database lines holds");
    refused(&scratch, "scan env --prefix 1 --db lines", "use --from and --to");
    refused(&scratch, "scan env --from 3 --to 2 --db lines", "--from is after --to");
    assert_eq!(scratch.json("verify env --json")["problems"], json!([]));
}

#[test]
fn nodes_of_globals_are_set_shown_and_removed_by_references() {
    let scratch = with_all_kinds("kinds-globals");
    all_done(
        &scratch,
        &[
            "put env acct(42) gold --db globals",
            "put env ^acct(42,\"name\") Ada --db globals",
            "put env acct(42,\"name\",1) A --db globals",
            "put env acct(-1.5) low --db globals",
            "put env acct(\"a\"_$C(10)_$ZCH(255)) odd --db globals",
            "put env b 00ff --db globals --hex",
        ],
    );
    let all = "^acct(-1.5)\tlow\n^acct(42)\tgold\n^acct(42,\"name\")\tAda\n^acct(42,\"name\",1)\tA\n\
               ^acct(\"a\"_$C(10)_$ZCH(255))\todd\n^b\t\\x00\\xff\n";
    assert_eq!(scratch.run("scan env --db globals"), answer(0, all, ""));
    // What is shown names the node.
    for node in all.lines().map(|line| line.split('\t').next().expect("a reference")) {
        assert_eq!(scratch.run(&format!("get env {node} --db globals --json")).code, 0, "{node}");
    }
    assert_eq!(scratch.run("get env acct(42,\"name\") --db globals"), answer(0, "Ada", ""));
    assert_eq!(scratch.run("get env acct(43) --db globals"), answer(1, "", ""));
    assert_eq!(
        scratch.json("get env acct(42) --db globals --json"),
        json!({"node": "^acct(42)", "value": "gold", "found": true})
    );
    assert_eq!(
        scratch.run("scan env --db globals --prefix acct(42,\"name\")").out,
        "^acct(42,\"name\")\tAda\n^acct(42,\"name\",1)\tA\n"
    );
    assert_eq!(
        scratch.json("scan env --db globals --from acct(2) --to acct(42,\"name\") --json"),
        json!([{"node": "^acct(42)", "value": "gold"}])
    );
    assert_eq!(scratch.run("scan env --db globals --reverse --limit 1 --keys-only").out, "^b\n");

    all_done(&scratch, &["del env acct(42) --db globals"]);
    assert_eq!(scratch.run("del env acct(42) --db globals"), answer(1, "", ""));
    assert_eq!(scratch.run("get env acct(42,\"name\") --db globals"), answer(0, "Ada", ""));
    all_done(&scratch, &["del env acct(42) --descendants --db globals"]);
    assert_eq!(scratch.run("del env acct(42) --descendants --db globals"), answer(1, "", ""));
    assert_eq!(scratch.run("scan env --db globals --prefix acct(42)"), answer(0, "", ""));
    assert_eq!(scratch.run("scan env --db globals").out.lines().count(), 3);
    refused(&scratch, "put env acct(1 x --db globals", "as a reference to a node");
    refused(&scratch, "put env 1 x --db globals", "as a reference to a node");
    all_done(&scratch, &["put env k v"]);
    refused(&scratch, "del env k --descendants", "main: the database holds plain records");
}

#[test]
fn a_queue_is_appended_to_shown_and_consumed_and_not_put_to() {
    let scratch = with_all_kinds("kinds-queue");
    refused(&scratch, "put env 1 x --db jobs", "jobs: the database holds a queue, records of 4 bytes");
    refused(&scratch, "put env 1 x --db jobs", "sablecat queue append");
    assert_eq!(scratch.run("queue append env wash --db jobs"), answer(0, "1\n", ""));
    assert_eq!(scratch.run_with("queue append env --db jobs", b"dry", &[]), answer(0, "2\n", ""));
    assert_eq!(scratch.json("queue append env ff00 --hex --db jobs --json"), json!({"number": 3}));
    refused(&scratch, "queue append env press --db jobs", "a record of 5 bytes");
    assert_eq!(scratch.run("count env --db jobs"), answer(0, "3\n", ""));
    assert_eq!(scratch.run("scan env --db jobs"), answer(0, "1\twash\n2\tdry.\n3\t\\xff\\x00..\n", ""));
    assert_eq!(scratch.run("scan env --db jobs --from 2 --to 3"), answer(0, "2\tdry.\n", ""));
    assert_eq!(scratch.run("get env 2 --db jobs"), answer(0, "dry.", ""));
    assert_eq!(scratch.run("queue peek env --db jobs"), answer(0, "wash", ""));
    assert_eq!(scratch.run("queue consume env --db jobs"), answer(0, "wash", ""));
    assert_eq!(scratch.run("get env 1 --db jobs"), answer(1, "", ""), "its number stays, it does not");
    // Out of turn.
    all_done(&scratch, &["del env 2 --db jobs"]);
    assert_eq!(scratch.run("del env 2 --db jobs"), answer(1, "", ""));
    assert_eq!(
        scratch.json("queue consume env --db jobs --json"),
        json!({"number": 3, "value_hex": "ff002e2e", "found": true})
    );
    for what in ["consume", "peek"] {
        assert_eq!(scratch.run(&format!("queue {what} env --db jobs")), answer(1, "", ""), "{what}");
    }
    assert_eq!(scratch.json("count env --db jobs --json"), json!({"records": 0}));

    // A queue is created only if its length is said.
    refused(&scratch, "queue append env a --db more", "there is no database more");
    assert_eq!(scratch.run("queue append new a --db more --record-bytes 2"), answer(0, "1\n", ""));
    assert_eq!(scratch.run("queue append new bb --db more --record-bytes 9"), answer(0, "2\n", ""));
    assert_eq!(scratch.run("scan new --db more --hex"), answer(0, "1\t6100\n2\t6262\n", ""));
    all_done(&scratch, &["put env k v"]);
    refused(&scratch, "queue consume env", "\"main\" holds plain records, and was asked for as a queue");
    assert_eq!(scratch.json("verify env --json")["problems"], json!([]));
}

/// It is removed only when it has been printed.
#[test]
fn a_record_that_cannot_be_printed_is_not_consumed() {
    let scratch = with_all_kinds("kinds-unprinted");
    assert_eq!(scratch.run("queue append env wash --db jobs").code, 0);
    let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let status = std::process::Command::new(env!("CARGO_BIN_EXE_sablecat"))
        .args(["queue", "consume", "env", "--db", "jobs"])
        .current_dir(scratch.path())
        .stdout(full)
        .status();
    assert_eq!(status.expect("started").code(), Some(2));
    assert_eq!(scratch.run("queue consume env --db jobs"), answer(0, "wash", ""));
}

/// Also of one that is empty, whose next number is above those consumed.
#[test]
fn statistics_say_which_numbers_a_queue_has() {
    let scratch = with_all_kinds("kinds-queue-numbers");
    let numbers = || scratch.json("stat env --json")["queues"].clone();
    assert_eq!(numbers(), json!({"jobs": {"first": null, "next": 1}}));
    for _ in 0..3 {
        assert_eq!(scratch.run("queue append env job --db jobs").code, 0);
    }
    assert_eq!(scratch.run("queue consume env --db jobs").code, 0);
    assert_eq!(numbers(), json!({"jobs": {"first": 2, "next": 4}}));
    let shown = scratch.run("stat env").out;
    assert!(shown.contains("padded with 0x2e; first 2, next 4)"), "{shown}");
    for _ in 0..2 {
        assert_eq!(scratch.run("queue consume env --db jobs").code, 0);
    }
    assert_eq!(numbers(), json!({"jobs": {"first": null, "next": 4}}));
    let shown = scratch.run("stat env").out;
    assert!(shown.contains("padded with 0x2e; next 4)"), "{shown}");
    assert_eq!(scratch.json("stat env lines --json")["queues"], json!({}));
}
