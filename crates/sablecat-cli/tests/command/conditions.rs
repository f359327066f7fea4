//! Records that are changed only if they are as expected, and numbers that are added to.

use crate::kinds::{all_done, refused, with_all_kinds};
use crate::support::{Scratch, answer};
use serde_json::json;

#[test]
fn a_value_is_set_or_removed_only_if_it_is_as_expected() {
    let scratch = Scratch::new("conditions");
    assert_eq!(scratch.run("put env leader ada --if-absent"), answer(0, "", ""));
    assert_eq!(scratch.run("put env leader bob --if-absent"), answer(1, "", ""));
    assert_eq!(scratch.run("put env leader bob --if-value eve"), answer(1, "", ""));
    assert_eq!(scratch.run("put env other bob --if-value eve"), answer(1, "", ""));
    assert_eq!(scratch.run("scan env"), answer(0, "leader\tada\n", ""));
    assert_eq!(
        scratch.json("put env leader grace --if-value ada --json"),
        json!({"key": "leader", "set": true, "value_bytes": 5})
    );
    let unchanged = scratch.run("put env leader bob --if-value ada --json");
    assert_eq!(unchanged.code, 1);
    let said: serde_json::Value = serde_json::from_str(&unchanged.out).expect("JSON");
    assert_eq!(said, json!({"key": "leader", "set": false}));
    all_done(&scratch, &["put env --hex 6c6561646572 00ff --if-value 6772616365"]);
    assert_eq!(scratch.run("get env --hex 6c6561646572"), answer(0, "00ff\n", ""));
    assert_eq!(scratch.run("del env leader --if-value x"), answer(1, "", ""));
    assert_eq!(scratch.run("del env absent --if-value x"), answer(1, "", ""));
    all_done(&scratch, &["del env --hex 6c6561646572 --if-value 00ff"]);
    assert_eq!(scratch.run("count env"), answer(0, "0\n", ""));
    refused(&scratch, "put env --hex 00 00 --if-value x", "\"x\" is not pairs of hexadecimal digits");
    refused(&scratch, "put env k v --if-value a --if-absent", "cannot be used with");
    refused(&scratch, "del env --prefix k --if-value a", "cannot be used with");
    // Nothing is made to find that it is not as expected.
    refused(&scratch, "put new k v --if-value a", "there is no environment in");
    refused(&scratch, "put env k v --if-value a --db new", "there is no database new in env, only main");
    assert!(!scratch.path().join("new").exists());
}

#[test]
fn what_has_one_value_is_set_on_conditions_whatever_it_is() {
    let scratch = with_all_kinds("conditions-kinds");
    for (key, db) in [("acct(42)", "globals"), ("1", "lines"), ("1", "steps")] {
        let put = |what: &str| scratch.run(&format!("put env {key} {what} --db {db}")).code;
        assert_eq!([put("a --if-absent"), put("b --if-absent")], [0, 1], "{db}");
        assert_eq!([put("b --if-value a"), put("c --if-value a")], [0, 1], "{db}");
        assert_eq!(scratch.run(&format!("get env {key} --db {db}")).out, "b");
        assert_eq!(scratch.run(&format!("del env {key} --if-value a --db {db}")).code, 1, "{db}");
        assert_eq!(scratch.run(&format!("del env {key} --if-value b --db {db}")).code, 0, "{db}");
    }
    // What has expired is not there.
    all_done(&scratch, &["put env s ada --if-absent --ttl 0 --db sessions"]);
    all_done(&scratch, &["put env s bob --if-absent --ttl 1h --db sessions"]);
    assert_eq!(scratch.run("put env s eve --if-absent --db sessions").code, 1);
    all_done(&scratch, &["put env s eve --if-value bob --db sessions"]);
    assert_eq!(scratch.run("get env s --db sessions").out, "eve");
    refused(&scratch, "put env k v --if-absent --db sorted", "--if-value or --if-absent is only for records");
    refused(&scratch, "del env k --if-value v --db sorted", "that is only for records that have one value");
    refused(&scratch, "put env 1 v --if-absent --db jobs", "sablecat queue append");
    // Whatever is there: it is not that the record is another.
    refused(&scratch, "put env 1 v --if-value another --db jobs", "sablecat queue append");
}

#[test]
fn numbers_are_added_to_and_the_sum_is_printed() {
    let scratch = with_all_kinds("increment");
    assert_eq!(scratch.run("increment new visits"), answer(0, "1\n", ""), "it is made");
    assert_eq!(scratch.run("increment new visits 41"), answer(0, "42\n", ""));
    assert_eq!(scratch.run("increment new visits -50"), answer(0, "-8\n", ""));
    assert_eq!(scratch.run("get new --hex 766973697473"), answer(0, "f8ffffffffffffff\n", ""));
    assert_eq!(scratch.json("increment new visits 9 --json"), json!({"key": "visits", "sum": 1}));
    refused(&scratch, "increment new visits 9223372036854775807", "incrementing 1 by 9223372036854775807");
    refused(&scratch, "increment new visits 1.5", "to plain records an integer of 64 bits is added");
    all_done(&scratch, &["put new text five"]);
    refused(&scratch, "increment new text", "that is not the eight bytes of a number");

    for (by, sum) in [("", "1"), ("1.5", "2.5"), ("-3", "-.5"), ("-- -.25", "-.75"), ("2E3", "1999.25")] {
        let shown = scratch.run(&format!("increment env --db globals acct(42) {by}"));
        assert_eq!(shown, answer(0, &format!("{sum}\n"), ""), "{by}");
    }
    all_done(&scratch, &["put env acct(7) 3.apples --db globals"]);
    assert_eq!(
        scratch.json("increment env acct(7) --db globals --json"),
        json!({"node": "^acct(7)", "sum": "4"})
    );
    refused(&scratch, "increment env acct(7) many --db globals", "\"many\" as what is added: numbers are");
    refused(&scratch, "increment env acct(7) 1E47 --db globals", "below 1E47");
    for (key, db) in [("1", "lines"), ("1", "jobs"), ("k", "sorted")] {
        let says = format!("incrementing a record of {db}: the database holds ");
        refused(&scratch, &format!("increment env {key} --db {db}"), &says);
    }
}
