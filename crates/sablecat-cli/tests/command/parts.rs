//! Parts of values, read by `get` and changed by `put`.

use crate::kinds::{all_done, refused, with_all_kinds};
use crate::support::{Scratch, answer};
use serde_json::json;

#[test]
fn a_part_of_a_value_is_shown_alone() {
    let scratch = Scratch::new("parts-shown");
    all_done(&scratch, &["put env film nosferatu", "put env empty"]);
    for (options, part) in [
        ("--at 0", "nosferatu"),
        ("--at 3", "feratu"),
        ("--at 3 --len 2", "fe"),
        ("--len 3", "nos"),
        ("--len 0", ""),
        ("--at 9", ""),
        ("--at 18446744073709551615 --len 18446744073709551615", ""),
        ("--at 8 --len 18446744073709551615", "u"),
    ] {
        assert_eq!(scratch.run(&format!("get env film {options}")), answer(0, part, ""), "{options}");
    }
    assert_eq!(scratch.run("get env absent --at 1"), answer(1, "", ""));
    assert_eq!(
        scratch.json("get env film --at 3 --len 2 --json"),
        json!({"key": "film", "value": "fe", "value_bytes": 9, "found": true})
    );
    assert_eq!(scratch.run("get env 66696c6d --at 7 --hex"), answer(0, "7475\n", ""));
    let long: String = (0..300_000).map(|n| format!("{n:07}\n")).collect();
    assert_eq!(scratch.run_with("put env long", long.as_bytes(), &[]), answer(0, "", ""));
    let part = scratch.run("get env long --at 8001 --len 1999999");
    assert!(part.code == 0 && part.out == long[8001..2_008_000], "{}", part.out.len());
}

#[test]
fn a_part_of_a_value_is_replaced_and_the_rest_stays() {
    let scratch = Scratch::new("parts-replaced");
    all_done(&scratch, &["put env film nosferatu"]);
    for (change, value) in [
        ("put env film NOS --at 0", "NOSferatu"),
        ("put env film U. --at 8", "NOSferatU."),
        ("put env --at 3 --len 0 -- film --", "NOS--feratU."),
        ("put env --hex 66696c6d 2b --at 3 --len 2", "NOS+feratU."),
        ("put env film end --at 4 --len 99", "NOS+end"),
    ] {
        assert_eq!(scratch.run(change), answer(0, "", ""), "{change}");
        assert_eq!(scratch.run("get env film").out, value, "{change}");
    }
    // A gap is zeros, and so is what is before a part of nothing.
    assert_eq!(
        scratch.json("put env film ! --at 9 --json"),
        json!({"key": "film", "set": true, "value_bytes": 10})
    );
    assert_eq!(scratch.run("get env film").out, "NOS+end\0\0!");
    all_done(&scratch, &["put env new x --at 2"]);
    assert_eq!(scratch.run("get env new").out, "\0\0x");
    let input = scratch.run_with("put env new --at 1 --len 1", b"a\nb", &[]);
    assert_eq!((input, scratch.run("get env new").out.as_str()), (answer(0, "", ""), "\0a\nbx"));
    refused(&scratch, "put env film x --at 4294967295", "a value of 4294967296 bytes");
    refused(&scratch, "put env film x --at 18446744073709551615", "values can have 4294967295 at most");
    refused(&scratch, "put env film x --len 1", "--at <OFFSET>");
    refused(&scratch, "put env film x --at 1 --ttl 1", "cannot be used with");
}

#[test]
fn what_has_no_parts_says_so() {
    let scratch = with_all_kinds("parts-kinds");
    all_done(
        &scratch,
        &[
            "put env acct(42,\"name\") Grace --db globals",
            "put env acct(42,\"name\") ct --at 3 --db globals",
            "put env 1 line --db lines",
            "put env 1 step --db steps",
            "put env k v --db sorted",
            "put env session ada --ttl 1h --db sessions",
        ],
    );
    assert_eq!(scratch.run("get env acct(42,\"name\") --db globals"), answer(0, "Gract", ""));
    assert_eq!(scratch.run("get env acct(42,\"name\") --at 1 --len 3 --db globals"), answer(0, "rac", ""));
    assert_eq!(scratch.run("get env session --at 1 --db sessions"), answer(0, "da", ""));
    refused(&scratch, "put env session x --at 1 --db sessions", "--at is only for plain records and nodes");
    for (db, key, holds) in [
        ("lines", "1", "numbered records"),
        ("steps", "1", "records whose numbers close up"),
        ("jobs", "1", "a queue"),
        ("sorted", "k", "keys with several values"),
    ] {
        let says = format!("a part of a value of {db}: the database holds {holds}");
        refused(&scratch, &format!("get env {key} --at 1 --db {db}"), &says);
        let says = format!("the database {db} holds {holds}");
        refused(&scratch, &format!("put env {key} x --at 1 --db {db}"), &says);
    }
}
