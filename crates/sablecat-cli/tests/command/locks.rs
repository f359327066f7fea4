//! `locks` and `processes`, beside a process that holds something: this one.

#![allow(clippy::unwrap_used, reason = "an error is a failed test")]

use crate::support::{Scratch, answer};
use sablecat::Env;
use serde_json::{Value, json};

#[test]
fn who_has_a_record_and_who_waits_for_it_is_shown() {
    let scratch = Scratch::new("locks");
    let env = Env::builder().shared(true).background(false).open(scratch.path().join("env")).unwrap();
    let db = env.database("main").unwrap();
    db.insert("k", "v").unwrap();
    // So that the database's number can be told from its name.
    env.checkpoint().unwrap();
    assert_eq!(scratch.run("locks env"), answer(0, "no record is locked, and no process has a role\n", ""));

    let mut holder = env.begin().unwrap();
    holder.set_name("invoices\u{1b}[2J");
    holder.get_for_update(&db, "k").unwrap();
    holder.get_for_update(&db, "other").unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| env.begin().and_then(|mut txn| txn.get_for_update(&db, "k")));
        while env.locks().iter().all(|lock| lock.waits_for.is_none()) {
            std::thread::yield_now();
        }
        let all = scratch.json("locks env --json");
        assert_eq!(all["locks"].as_array().unwrap().len(), 3, "{all}");
        let shown = scratch.json("locks env --json --key k");
        let [has, waits] = &shown["locks"].as_array().unwrap()[..] else { panic!("{shown}") };
        assert_eq!(has["record"], json!(format!("{:011x}", db.lock_number("k").unwrap())));
        assert_eq!((&has["mode"], &has["waits_for"]), (&json!("exclusive"), &Value::Null));
        assert_eq!(
            (&waits["mode"], &waits["waits_for"]),
            (&json!("waits for it exclusively"), &json!([has["slot"]]))
        );
        assert_eq!([&has["pid"], &waits["pid"]], [&json!(std::process::id()); 2]);
        assert_eq!([&has["name"], &waits["name"]], [&json!("invoices\u{1b}[2J"), &Value::Null]);
        for command in ["locks env", "processes env"] {
            let shown = scratch.run(command).out;
            assert!(shown.contains("invoices\\x1b[2J"), "nothing that a terminal would obey: {shown}");
        }
        assert_eq!(scratch.run("locks env").out.lines().filter(|line| line.contains("exclusive")).count(), 3);

        let processes = scratch.json("processes env --json");
        let participants = processes["processes"][0]["participants"].as_array().unwrap();
        let of = |slot: &Value| participants.iter().find(|one| one["slot"] == *slot).unwrap();
        assert_eq!(of(&has["slot"])["record_locks"], json!(2));
        assert_eq!(of(&waits["slot"])["waits_for_lock"], json!(true));
        assert_eq!(of(&has["slot"])["name"], has["name"]);
        drop(holder);
        waiter.join().unwrap().unwrap();
    });
    assert_eq!(env.locks(), []);
}
