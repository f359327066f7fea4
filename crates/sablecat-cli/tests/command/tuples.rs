//! Keys that are tuples, written and shown as JSON.

use sablecat::Env;
use sablecat::tuple::{Element, Integer, Uuid, pack};
use sablecat::typed::Typed;

use crate::kinds::{all_done, refused, with_all_kinds};
use crate::support::{Scratch, answer};
use serde_json::json;

/// What a program keeps under tuples: the command reads it, and what it sets the program reads.
#[test]
fn keys_of_programs_are_read_and_written_as_tuples() {
    let scratch = Scratch::new("tuples");
    let directory = scratch.path().join("env");
    let env = Env::open(&directory).expect("opened");
    let paid: Typed<(String, u32), String> = Typed::open(&env, "paid").expect("opened");
    env.write(|txn| {
        for (name, number) in [("ada", 9), ("ada", 10), ("adam", 1)] {
            paid.insert(txn, &(name.to_owned(), number), &format!("{name} {number}"))?;
        }
        Ok(())
    })
    .expect("set");
    drop(paid);
    env.close().expect("closed");

    let all = "[\"ada\",9]\tada 9\n[\"ada\",10]\tada 10\n[\"adam\",1]\tadam 1\n";
    assert_eq!(scratch.run("scan env --db paid --tuple"), answer(0, all, ""));
    assert_eq!(scratch.run("get env --db paid --tuple [\"ada\",10]"), answer(0, "ada 10", ""));
    assert_eq!(scratch.run("get env --db paid --tuple [\"ada\",11]"), answer(1, "", ""));
    assert_eq!(
        scratch.run("scan env --db paid --tuple --prefix [\"ada\"] --keys-only"),
        answer(0, "[\"ada\",9]\n[\"ada\",10]\n", "")
    );
    assert_eq!(scratch.run("count env --db paid --tuple --prefix [\"ada\"]"), answer(0, "2\n", ""));
    assert_eq!(scratch.run("count env --db paid --tuple --prefix []"), answer(0, "3\n", ""));
    assert_eq!(
        scratch.run("count env --db paid --tuple --prefix [\"ada\"] --estimate"),
        answer(0, "2\n", "")
    );
    assert_eq!(
        scratch.run("scan env --db paid --tuple --from [\"ada\",10] --to [\"adam\",1] --keys-only").out,
        "[\"ada\",10]\n"
    );
    assert_eq!(
        scratch.json("scan env --db paid --tuple --from [\"adam\"] --json"),
        json!([{"tuple": ["adam", 1], "value": "adam 1"}])
    );
    assert_eq!(
        scratch.json("get env --db paid --tuple [\"ada\",9] --json"),
        json!({"tuple": ["ada", 9], "value": "ada 9", "found": true})
    );

    all_done(
        &scratch,
        &[
            "put env --db paid --tuple [\"eve\",7] seven",
            "put env --db paid --tuple --hex [\"eve\",8] 3800",
            "del env --db paid --tuple [\"adam\",1]",
            "del env --db paid --tuple --prefix [\"ada\"]",
        ],
    );
    assert_eq!(scratch.run("scan env --db paid --hex --tuple --from [\"eve\",8]").out, "[\"eve\",8]\t3800\n");
    let env = Env::open(&directory).expect("opened");
    let paid: Typed<(String, u32), String> = Typed::open(&env, "paid").expect("opened");
    let left: Vec<_> = paid.iter(&env).expect("begun").map(|record| record.expect("read").0).collect();
    assert_eq!(left, [("eve".to_owned(), 7), ("eve".to_owned(), 8)]);
    drop(paid);
    env.close().expect("closed");
}

#[test]
fn every_kind_of_element_has_a_spelling_and_so_has_what_is_no_tuple() {
    let scratch = Scratch::new("tuples-elements");
    let key = "[null,{\"hex\":\"00ff\"},\"a\\u0000\\n\",[1,[]],-9000000000000000000,\
               {\"integer\":\"0x0102030405060708090a0b0c0d0e0f1011\"},{\"float\":1.5},-0.5,1e+300,false,\
               {\"uuid\":\"01010101-0101-0101-0101-010101010101\"}]";
    all_done(&scratch, &[&format!("put env --tuple {key} v"), "put env plain w"]);
    let long: Vec<u8> = (1..=17).collect();
    let elements: Vec<Element> = vec![
        Element::Null,
        vec![0, 255].into(),
        "a\0\n".into(),
        Element::Nested(vec![1.into(), Element::Nested(vec![])]),
        (-9_000_000_000_000_000_000_i64).into(),
        Integer::from_bytes(false, &long).expect("short enough").into(),
        1.5f32.into(),
        (-0.5).into(),
        1e300.into(),
        false.into(),
        Uuid([1; 16]).into(),
    ];
    let digits: String = pack(&elements).iter().map(|byte| format!("{byte:02x}")).collect();
    let keys = format!("{digits}\n706c61696e\n");
    assert_eq!(scratch.run("scan env --hex --keys-only"), answer(0, &keys, ""));
    assert_eq!(
        scratch.run("scan env --tuple"),
        answer(0, &format!("{key}\tv\n{{\"hex\":\"706c61696e\"}}\tw\n"), "")
    );
    assert_eq!(scratch.run("get env --tuple {\"hex\":\"706c61696e\"}"), answer(0, "w", ""));
    assert_eq!(scratch.run("count env --tuple --prefix {\"hex\":\"70\"}"), answer(0, "1\n", ""));
    assert_eq!(
        scratch.json("get env --tuple {\"hex\":\"706c61696e\"} --json"),
        json!({"key": "plain", "value": "w", "found": true})
    );
    assert_eq!(scratch.run("increment env --tuple [\"visits\",2026]"), answer(0, "1\n", ""));
    assert_eq!(scratch.run("sequence env --tuple [\"invoice\"]"), answer(0, "1\n", ""));
    assert_eq!(scratch.run("locks env --tuple --key [\"invoice\"]").code, 0);
    refused(
        &scratch,
        "get env --tuple [\"acct\",nil]",
        "\"[\\\"acct\\\",nil]\" as a tuple: a text, a number, null, false, true, [ or { expected at column 9",
    );
    refused(&scratch, "put new --tuple acct v", "as a tuple: [ expected at column 1, where 'a' is");
    assert!(!scratch.path().join("new").exists());
}

#[test]
fn numbers_and_nodes_are_spelled_as_ever() {
    let scratch = with_all_kinds("tuples-kinds");
    all_done(
        &scratch,
        &[
            "put env --tuple 2 two --db lines",
            "put env --tuple acct(42) gold --db globals",
            "put env --tuple [\"k\"] a --db sorted",
            "put env --tuple [\"k\"] b --db sorted",
        ],
    );
    assert_eq!(scratch.run("scan env --tuple --db lines"), answer(0, "2\ttwo\n", ""));
    assert_eq!(scratch.run("get env --tuple acct(42) --db globals"), answer(0, "gold", ""));
    assert_eq!(scratch.run("scan env --tuple --db sorted"), answer(0, "[\"k\"]\ta\n[\"k\"]\tb\n", ""));
    assert_eq!(
        scratch.json("get env --tuple [\"k\"] --db sorted --json"),
        json!({"tuple": ["k"], "found": true, "values": [{"value": "a"}, {"value": "b"}]})
    );
}
