//! `backup`, `restore` and `load`, killed before any of their system calls, or with one of these failing:
//! what is copied from stays as it is, what is copied to is whole or is known not to be, and the same
//! command, given again, does all of it.
//!
//! So many calls of each are tried as `SABLECAT_TEST_KILLS` says, spread over all of them; a few by default.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::Scratch;
use crate::support::cut::{Ended, calls_of, cut, each_of_some};
use sablecat::{Env, Journal};
use sablecat_os::check::stepped::{Did, Stepped, is_possible};

fn remove(path: &Path) {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{error}"),
        _ => {}
    }
}

fn copy(from: &Path, to: &Path) {
    remove(to);
    fs::create_dir(to).expect("made");
    for entry in fs::read_dir(from).expect("there") {
        let entry = entry.expect("read");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).expect("copied");
        }
    }
}

/// An environment in use, with a database of each kind that is copied in a way of its own.
fn begin(scratch: &Scratch) -> Env {
    let builder = Env::builder().shared(true).journal(Journal::new());
    let env = builder.open(scratch.path().join("env")).expect("created");
    for name in ["one", "two", "three"] {
        let database = env.database(name).expect("created");
        (0..60).try_for_each(|n| database.insert(format!("{n:03}"), vec![b'v'; 100])).expect("inserted");
    }
    env.database("one").expect("there").insert("long", vec![b'l'; 50_000]).expect("inserted");
    env
}

/// What holds of an environment that was copied from, however that ended: it is as it was, and in use.
fn assert_untouched(env: &Env, n: usize, told: &str) {
    let one = env.database("one").expect("there");
    one.insert("beside", n.to_be_bytes()).unwrap_or_else(|error| panic!("{error}, after {told}"));
    env.checkpoint().unwrap_or_else(|error| panic!("{error}, after {told}"));
    let report = env.verify(&mut |_| {}).expect("verified");
    assert_eq!(report.problems, [""; 0], "after {told}");
}

/// Gives `backup` again after it was cut off, and holds the copy against the origin.
fn back_up_again(scratch: &Scratch, env: &Env, n: usize, (ended, told): (Ended, String)) {
    assert_untouched(env, n, &told);
    // A part of a copy is not restored from, and passes for none.
    remove(&scratch.path().join("new"));
    if scratch.path().join("copy").exists() && scratch.run("restore copy new").code == 0 {
        let restored = scratch.dump("new");
        assert!(restored.contains("long") && restored.matches("DATA=END").count() == 3, "{told}: {restored}");
    }
    if let Ended::Failed(code) = ended {
        // 1: what was read to verify it could not be read.
        assert!([0, 1, 2].contains(&code), "{code}, after {told}");
    }
    let again = scratch.run("backup env copy");
    assert_eq!((again.code, again.err.as_str()), (0, ""), "after {told}");
    assert_eq!(scratch.dump("copy"), scratch.dump("env"), "after {told}");
}

#[test]
fn a_backup_that_is_cut_off_is_finished_by_the_next() {
    if !is_possible() {
        return;
    }
    let scratch = Scratch::new("cut-backup");
    let env = begin(&scratch);
    let target = scratch.path().join("copy");
    let calls = calls_of(&scratch, "backup env copy");
    each_of_some(6, calls, |call, fails| {
        remove(&target);
        back_up_again(&scratch, &env, call, cut(&scratch, "backup env copy", call, fails));
    });
}

#[test]
fn a_backup_that_is_cut_off_as_it_is_brought_up_to_date_is_so_by_the_next() {
    if !is_possible() {
        return;
    }
    let scratch = Scratch::new("cut-update");
    let env = begin(&scratch);
    assert_eq!(scratch.run("backup env old").code, 0);
    env.write(|txn| {
        let two = txn.database("two")?;
        txn.remove_range(&two, "010".."050")?;
        let four = txn.database("four")?;
        txn.insert(&four, "new", vec![b'n'; 3000])
    })
    .expect("committed");
    (0..40).try_for_each(|n: u32| env.database("three")?.insert(n.to_be_bytes(), "new")).expect("inserted");
    let (old, target) = (scratch.path().join("old"), scratch.path().join("copy"));
    copy(&old, &target);
    let calls = calls_of(&scratch, "backup env copy");
    each_of_some(6, calls, |call, fails| {
        copy(&old, &target);
        let (ended, told) = cut(&scratch, "backup env copy", call, fails);
        assert_untouched(&env, call, &told);
        let again = scratch.run("backup env copy");
        assert_eq!((again.code, again.err.as_str()), (0, ""), "{ended:?} after {told}");
        assert_eq!(scratch.dump("copy"), scratch.dump("env"), "{ended:?} after {told}");
    });
}

#[test]
fn what_is_restored_is_there_when_it_is_whole() {
    if !is_possible() {
        return;
    }
    let scratch = Scratch::new("cut-restore");
    begin(&scratch).close().expect("closed");
    assert_eq!(scratch.run("backup env copy").code, 0);
    let whole = scratch.dump("copy");
    let (new, unfinished) = (scratch.path().join("new"), scratch.path().join("new.unfinished"));
    let calls = calls_of(&scratch, "restore copy new");
    let (mut made, mut not_made) = (0, 0);
    each_of_some(6, calls, |call, fails| {
        remove(&new);
        let (ended, told) = cut(&scratch, "restore copy new", call, fails);
        if let Ended::Failed(code) = ended {
            // 1: what was read to verify it could not be read.
            assert!([1, 2].contains(&code) || code == 0 && new.exists(), "{code}, after {told}");
        }
        if new.exists() {
            made += 1;
        } else {
            not_made += 1;
            let again = scratch.run("restore copy new");
            assert_eq!((again.code, again.err.as_str()), (0, ""), "after {told}");
            assert!(!unfinished.exists(), "after {told}");
        }
        assert_eq!(scratch.dump("new"), whole, "after {told}");
        assert_eq!(scratch.dump("copy"), whole, "after {told}");
    });
    assert!(not_made > 0, "{made} of {calls}");
}

#[test]
fn what_is_loaded_where_nothing_was_is_there_when_it_is_whole() {
    if !is_possible() {
        return;
    }
    let scratch = Scratch::new("cut-load");
    let text: String = (0..300).map(|n| format!("{{\"key\":\"{n:03}\",\"value\":\"v\"}}\n")).collect();
    fs::write(scratch.path().join("text"), text).expect("written");
    assert_eq!(scratch.run("load whole text").code, 0);
    let whole = scratch.dump("whole");
    let (new, unfinished) = (scratch.path().join("new"), scratch.path().join("new.unfinished"));
    let calls = calls_of(&scratch, "load new text");
    let mut not_made = 0;
    each_of_some(6, calls, |call, fails| {
        remove(&new);
        let (_, told) = cut(&scratch, "load new text", call, fails);
        if !new.exists() {
            not_made += 1;
            let again = scratch.run("load new text");
            assert_eq!((again.code, again.err.as_str()), (0, ""), "after {told}");
            assert!(!unfinished.exists(), "after {told}");
        }
        assert_eq!(scratch.dump("new"), whole, "after {told}");
    });
    assert!(not_made > 0, "of {calls}");
}

#[test]
fn two_do_not_restore_to_one_place() {
    if !is_possible() {
        return;
    }
    let scratch = Scratch::new("cut-two");
    begin(&scratch).close().expect("closed");
    assert_eq!(scratch.run("backup env copy").code, 0);
    copy(&scratch.path().join("copy"), &scratch.path().join("other"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_sablecat"));
    command.args(["restore", "copy", "new"]).current_dir(scratch.path()).stdout(Stdio::null());
    let mut first = Stepped::start_unasked(&mut command).expect("it may be traced");
    while !scratch.path().join("new.unfinished/made").exists() {
        first.run_to_failing_call().expect("traced").expect("a call");
    }
    let second = scratch.run("restore other new");
    assert!(second.code == 2 && second.err.contains("another process works in"), "{}", second.err);
    assert_eq!(first.run().expect("traced"), Did::End(0));
    assert_eq!(scratch.dump("new"), scratch.dump("copy"));
}
