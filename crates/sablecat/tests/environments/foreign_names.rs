//! Files among those of the log whose names say numbers that no segment can have.

use std::fs;

use sablecat::ErrorKind;

use crate::support::{Place, get, put};

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

/// There is none after the last number.
#[test]
fn a_log_that_has_used_up_its_numbers_says_so() {
    let place = Place::new("last-number");
    let env = place.open().expect("made");
    put(&env, "kept");
    let left = place.killed("last-number-left");
    fs::write(left.env().join("log").join("00003fffffffffff.spare"), b"").expect("written");
    assert_eq!(left.open_alone().unwrap_err().kind(), ErrorKind::Exhausted);
}
