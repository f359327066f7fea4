//! Backups of environments that are in use, and what is restored from them.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::Scratch;
use sablecat::{Durability, Env, Journal};
use serde_json::Value;

#[test]
fn a_backup_is_made_beside_writers_brought_up_to_date_and_restored() {
    let scratch = Scratch::new("backup");
    let builder = Env::builder().shared(true).durability(Durability::NoSync).journal(Journal::new());
    let env = builder.open(scratch.path().join("env")).expect("created");
    let records = env.database("records").expect("created");
    let put = |from: u32, to: u32| {
        (from..to).try_for_each(|n| records.insert(n.wrapping_mul(2_654_435_761).to_be_bytes(), vec![7; 200]))
    };
    put(0, 3000).expect("inserted");
    let stop = AtomicBool::new(false);
    let first = std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 3000.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                put(n, n + 1).expect("inserted");
            }
        });
        let answer = scratch.run("backup env copy --json");
        stop.store(true, Ordering::Relaxed);
        answer
    });
    assert_eq!(first.code, 0, "{}", first.err);
    let first: Value = serde_json::from_str(&first.out).expect("JSON");
    assert!(first["records"].as_u64().is_some_and(|records| records >= 3000), "{first}");
    // The log of what came since is in the journal by then.
    for round in 0..3 {
        put(100_000 + round * 500, 100_500 + round * 500).expect("inserted");
        env.database(&format!("new {round}")).expect("created").insert("a", "b").expect("inserted");
        env.checkpoint().expect("written");
    }
    env.remove_database("new 1").expect("removed");
    let second = scratch.json("backup env copy --json");
    assert_eq!(second["records"], Value::Null);
    assert!(second["commits"].as_u64().is_some_and(|commits| commits >= 1504), "{second}");
    assert_eq!(scratch.dump("copy"), scratch.dump("env"));
    assert_eq!(scratch.json("backup env copy --json")["commits"], 0);

    let answer = scratch.run("restore copy new");
    assert_eq!(answer.code, 0, "{}", answer.err);
    assert_eq!(scratch.dump("new"), scratch.dump("env"));
    // Neither into what there is, nor from what another has open.
    let answer = scratch.run("restore copy new");
    assert!(answer.code == 2 && answer.err.contains("new exists and is not empty"), "{}", answer.err);
    let answer = scratch.run("restore env another");
    assert!(answer.code == 2 && answer.err.contains("not a closed environment"), "{}", answer.err);
}

#[test]
fn a_backup_is_of_one_environment() {
    let scratch = Scratch::new("backup-of-one");
    for name in ["one", "two"] {
        assert_eq!(scratch.run(&format!("put {name} key {name}")).code, 0);
    }
    assert_eq!(scratch.run("backup one copy").code, 0);
    let answer = scratch.run("backup two copy");
    assert!(answer.code == 2 && answer.err.contains("has databases"), "{}", answer.err);
    assert_eq!(scratch.run("get copy key").out, "one");
    assert_eq!(scratch.run("backup nothing other").code, 2);
}

#[test]
fn a_backup_whose_log_is_gone_says_so() {
    let scratch = Scratch::new("backup-log-gone");
    assert_eq!(scratch.run("put env key before").code, 0);
    assert_eq!(scratch.run("backup env copy").code, 0);
    // Without a journal the log ends with each closing.
    assert_eq!(scratch.run("put env key after").code, 0);
    let answer = scratch.run("backup env copy");
    assert!(answer.code == 2 && answer.err.contains("keep a journal"), "{}", answer.err);
    assert_eq!(scratch.run("get copy key").out, "before");
}
