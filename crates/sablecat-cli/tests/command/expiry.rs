//! Records that expire, as the commands set, show, dump, load and sweep them.

use crate::support::{Scratch, answer};
use serde_json::json;

#[test]
fn what_has_expired_is_not_shown_and_is_removed_by_compacting() {
    let scratch = Scratch::new("expiry");
    assert_eq!(scratch.run("put env gone v --ttl 0"), answer(0, "", ""));
    assert_eq!(scratch.run("put env stays w --ttl 100d"), answer(0, "", ""));
    assert_eq!(scratch.run("put env forever x"), answer(0, "", ""));
    assert_eq!(scratch.run("get env gone"), answer(1, "", ""));
    assert_eq!(scratch.run("get env stays"), answer(0, "w", ""));
    assert_eq!(scratch.run("scan env"), answer(0, "forever\tx\nstays\tw\n", ""));
    assert_eq!(scratch.run("scan env --reverse --from g"), answer(0, "stays\tw\n", ""));
    assert_eq!(scratch.run("scan env --prefix go"), answer(0, "", ""));
    let shown = scratch.json("get env stays --json");
    assert!(shown["expires"].as_u64().expect("a time") > 1_700_000_000_000, "{shown}");
    assert_eq!(
        scratch.json("get env forever --json"),
        json!({"key": "forever", "value": "x", "found": true})
    );
    assert_eq!(scratch.run("del env gone"), answer(1, "", ""));

    let stat = scratch.json("stat env --json");
    assert_eq!(stat["databases"], json!(["main", "main by expiry"]));
    assert_eq!(stat["holds"], json!(["records that expire", "plain records"]));
    assert_eq!(stat["unswept"], json!({"main": 1}));
    let table = scratch.run("stat env").out;
    assert!(table.contains("main (records that expire; 1 to be swept)"), "{table}");
    assert_eq!(scratch.json("compact env --json")["records_swept"], json!(1));
    assert_eq!(scratch.json("stat env --json")["unswept"], json!({"main": 0}));

    assert_eq!(scratch.run("del env forever"), answer(0, "", ""));
    // Set anew without a time it is there for good.
    assert_eq!(scratch.run("put env stays y"), answer(0, "", ""));
    assert_eq!(scratch.json("get env stays --json"), json!({"key": "stays", "value": "y", "found": true}));
    assert_eq!(scratch.run("put env k v --db hashed --method hash --ttl 1h"), answer(0, "", ""));
    assert_eq!(scratch.run("get env k --db hashed"), answer(0, "v", ""));
    assert_eq!(scratch.run("put env k v --db plain"), answer(0, "", ""));
    let refused = scratch.run("put env k v --db plain --ttl 5");
    assert_eq!(refused.code, 2);
    assert!(
        refused.err.contains("the database plain holds plain records; --ttl is only for"),
        "{}",
        refused.err
    );
    // Nor is it counted where it goes with others.
    for arguments in ["del env --from a --db brief", "del env --prefix g --db brief"] {
        assert_eq!(scratch.run("put env gone v --db brief --ttl 0"), answer(0, "", ""));
        assert_eq!(scratch.run(arguments), answer(1, "", ""));
    }
    assert_eq!(scratch.run("put env gone v --db brief --ttl 0"), answer(0, "", ""));
    assert_eq!(scratch.run("put env stays v --db brief"), answer(0, "", ""));
    assert_eq!(scratch.json("db clear env --db brief --json"), json!({"removed": 1}));
    assert_eq!(scratch.json("stat env --json")["unswept"]["brief"], json!(0));
    let wrong = scratch.run("put env k v --ttl soon");
    assert!(wrong.code == 2 && wrong.err.contains("a number of seconds"), "{}", wrong.err);
}

#[test]
fn dumps_keep_times_as_json_and_say_that_others_do_not() {
    let scratch = Scratch::new("expiry-dump");
    let text = br#"{"database":"a","holds":"expiring"}
{"database":"a","key":"gone","value":"v","expires":1}
{"database":"a","key":"late","value":"w","expires":9000000000000}
{"database":"a","key":"never","value":"x"}
{"database":"b","method":"hash","holds":"expiring"}
{"database":"b","key":"k","value":"y","expires":9000000000001}
"#;
    let loaded = scratch.run_with("load env", text, &[]);
    assert_eq!((loaded.code, &*loaded.err), (0, ""));
    let dumped = scratch.run("dump env --json");
    assert_eq!((dumped.code, &*dumped.err), (0, ""));
    let lines: Vec<serde_json::Value> =
        dumped.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(
        lines,
        [
            json!({"sablecat": "dump", "version": 1}),
            json!({"database": "a", "holds": "expiring"}),
            json!({"database": "a", "key": "late", "value": "w", "expires": 9_000_000_000_000u64}),
            json!({"database": "a", "key": "never", "value": "x"}),
            json!({"database": "b", "method": "hash", "holds": "expiring"}),
            json!({"database": "b", "key": "k", "value": "y", "expires": 9_000_000_000_001u64}),
            json!({"end": true, "records": 3}),
        ]
    );
    let again = Scratch::new("expiry-again");
    assert_eq!(again.run_with("load env", dumped.out.as_bytes(), &[]).code, 0);
    assert_eq!(again.run("dump env --json").out, dumped.out);
    // What expired is no record that is there already.
    let more = br#"{"database":"a","holds":"expiring"}
{"database":"a","key":"gone","value":"new"}
{"database":"a","key":"late","value":"new"}
"#;
    let kept = scratch.run_with("load env --no-overwrite --json", more, &[]);
    assert_eq!((kept.code, kept.out.contains("\"kept\": 1")), (1, true), "{}", kept.out);
    assert_eq!(scratch.run("scan env --db a"), answer(0, "gone\tnew\nlate\tw\nnever\tx\n", ""));

    let berkeley = scratch.run("dump env --format db-print --db a");
    assert_eq!(berkeley.code, 0);
    assert!(
        berkeley.err.contains("the records of a expire, which this format does not say"),
        "{}",
        berkeley.err
    );
    assert!(berkeley.out.contains("type=btree\nHEADER=END\n gone\n new\n late\n w\n"), "{}", berkeley.out);

    for wrong in [
        r#"{"database":"a","holds":"expiring","expires":5}"#,
        r#"{"database":"p","key":"k","value":"v","expires":5}"#,
        r#"{"database":"a","key":"k","value":"v","expires":0}"#,
        r#"{"database":"a","number":1,"value":"v","expires":5}"#,
    ] {
        let refused = scratch.run_with("load env", wrong.as_bytes(), &[]);
        assert_eq!(refused.code, 2, "{wrong}");
    }
}
