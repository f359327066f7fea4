//! Temporary databases, as the commands make, show, dump, load, log and back them up.

use crate::support::{Scratch, answer};
use serde_json::json;

#[test]
fn what_is_set_in_one_is_gone_when_the_environment_is_opened_again() {
    let scratch = Scratch::new("temporary");
    assert_eq!(scratch.run("put env k v --db sessions --temporary --method hash"), answer(0, "", ""));
    assert_eq!(scratch.run("put env k v --db leases --temporary --ttl 1h"), answer(0, "", ""));
    // A command that only looks sees the last checkpoint, until a process opens the environment to write.
    assert_eq!(scratch.run("get env k --db leases"), answer(0, "v", ""));
    assert_eq!(scratch.run("put env k v"), answer(0, "", ""));
    assert_eq!(scratch.run("get env k"), answer(0, "v", ""));
    assert_eq!(scratch.run("get env k --db sessions"), answer(1, "", ""));
    assert_eq!(scratch.run("get env k --db leases"), answer(1, "", ""));
    let stat = scratch.json("stat env --json");
    assert_eq!(stat["temporary"], json!(["leases", "leases by expiry", "sessions"]));
    assert_eq!(stat["sizes"]["sessions"]["records"], json!(0));
    let table = scratch.run("stat env").out;
    assert!(table.contains("sessions (temporary; hash table)"), "{table}");
    assert!(table.contains("leases (temporary; records that expire)"), "{table}");
    assert_eq!(scratch.run("verify env").code, 0);
}

#[test]
fn dumps_say_it_as_json_and_that_others_do_not() {
    let scratch = Scratch::new("temporary-dump");
    let text = br#"{"database":"sessions","method":"hash","temporary":true}
{"database":"sessions","key":"k","value":"v"}
{"database":"leases","holds":"expiring","temporary":true}
{"database":"main"}
{"database":"main","key":"k","value":"v"}
"#;
    assert_eq!(scratch.run_with("load env", text, &[]), answer(0, "2 records set\n", ""));
    // A command that only looks sees what the last checkpoint had, which is that of closing.
    let dump = scratch.run("dump env --json");
    assert!(
        dump.out.contains(r#"{"database":"leases","holds":"expiring","temporary":true}"#),
        "{}",
        dump.out
    );
    assert!(dump.out.contains(r#"{"database":"main"}"#), "{}", dump.out);
    assert!(dump.out.contains(r#"{"database":"sessions","method":"hash","temporary":true}"#), "{}", dump.out);
    assert_eq!(scratch.run_with("load copy", dump.out.as_bytes(), &[]).code, 0);
    assert_eq!(
        scratch.json("stat copy --json")["temporary"],
        json!(["leases", "leases by expiry", "sessions"])
    );
    let other = scratch.run("dump env --db sessions");
    assert!(other.err.contains("sessions is temporary, which this format does not say"), "{}", other.err);
    let wrong = scratch.run_with("load env", b"{\"database\":\"x\",\"temporary\":1}\n", &[]);
    assert!(wrong.code == 2 && wrong.err.contains("true or false"), "{}", wrong.err);
}

#[test]
fn backups_have_it_empty() {
    let scratch = Scratch::new("temporary-backup");
    assert_eq!(scratch.run("put env k v --db sessions --temporary").code, 0);
    assert_eq!(scratch.run("put env k v").code, 0);
    assert_eq!(scratch.run("put env other SECRET --db sessions").code, 0);
    assert_eq!(scratch.run("backup env copy").code, 0);
    assert_eq!(scratch.run("restore copy back").code, 0);
    for place in ["copy", "back"] {
        assert_eq!(scratch.json(&format!("stat {place} --json"))["temporary"], json!(["sessions"]));
        let scan = scratch.run(&format!("scan {place} --db sessions"));
        assert_eq!((scan.code, &scan.out[..]), (0, ""));
        assert_eq!(scratch.run(&format!("scan {place}")).out, "k\tv\n");
    }
}
