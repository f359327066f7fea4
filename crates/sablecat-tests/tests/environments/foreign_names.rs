//! Files among those of the log whose names say numbers that no segment can have.

use std::fs;
use std::process::Command;

use sablecat::ErrorKind;

use sablecat_tests::{Place, get, put};

#[test]
fn names_beyond_all_lsns_are_no_segments() {
    let place = Place::new("foreign-names");
    let env = place.open().expect("made");
    put(&env, "kept");
    for number in ["ffffffffffffffff", "7fffffffffffffff", "0000400000000000"] {
        for kind in ["log", "spare", "new", "copy"] {
            let left = place.killed("foreign-names-left");
            fs::write(left.env().join("log").join(format!("{number}.{kind}")), b"").expect("written");
            for _ in 0..2 {
                let env = left.open_alone().unwrap_or_else(|error| panic!("beside {number}.{kind}: {error}"));
                assert_eq!(get(&env).as_deref(), Some(&b"kept"[..]), "beside {number}.{kind}");
                put(&env, "kept");
                env.close().unwrap_or_else(|error| panic!("beside {number}.{kind}: {error}"));
            }
        }
    }
}

/// Before anything is committed that nobody could read again.
#[test]
fn a_log_that_has_too_few_numbers_left_says_so() {
    let place = Place::new("last-number");
    let env = place.open().expect("made");
    put(&env, "kept");
    for number in ["00003fffffffffff", "00003ffffffffffe", "0000200000000000"] {
        let left = place.killed("last-number-left");
        let foreign = left.env().join("log").join(format!("{number}.spare"));
        fs::write(&foreign, b"").expect("written");
        let error = left.open_alone().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exhausted);
        assert!(error.to_string().contains(&*foreign.to_string_lossy()), "{error}");
        fs::remove_file(&foreign).expect("removed");
        assert_eq!(get(&left.open_alone().expect("opened")).as_deref(), Some(&b"kept"[..]));
    }
}

/// Who opened a FIFO would wait for somebody to open its other end.
#[test]
fn a_fifo_for_a_segment_is_an_error() {
    let place = Place::new("fifo");
    let env = place.open().expect("made");
    put(&env, "kept");
    for name in ["0000000000000000.log", "00000000000000ff.log", "00000000000000ff.spare"] {
        let left = place.killed("fifo-left");
        let fifo = left.env().join("log").join(name);
        let _ = fs::remove_file(&fifo);
        let made = Command::new("mkfifo").arg(&fifo).status().expect("run");
        assert!(made.success(), "mkfifo {}", fifo.display());
        match left.open_alone() {
            // A spare one that is of no use is removed.
            Ok(env) => assert_eq!(get(&env).as_deref(), Some(&b"kept"[..])),
            Err(error) => assert!(error.to_string().contains(name), "{error}"),
        }
    }
}
