//! Operations of whose system calls one fails; `sablecat-check calls` for all of them.

use crate::command::run;

/// Of those of which there are thousands, some.
#[test]
fn a_system_call_that_fails_in_much_work_loses_nothing_and_is_told() {
    for operation in ["commit-large", "clear-large", "grow"] {
        run("calls", &["--operation", operation, "--every", "499"]);
        run("calls", &["--operation", operation, "--every", "1999", "--on"]);
    }
}

#[test]
fn a_system_call_that_fails_in_little_work_loses_nothing_and_is_told() {
    for operation in ["hand-over", "load", "compact", "supply", "fill", "checkpoint", "succeed", "close"] {
        run("calls", &["--operation", operation, "--every", "37"]);
        run("calls", &["--operation", operation, "--every", "61", "--on"]);
    }
}

#[test]
fn a_system_call_that_fails_in_an_opening_loses_nothing_and_is_told() {
    for operation in ["create", "attach", "recover", "set-aside"] {
        run("calls", &["--operation", operation, "--every", "61"]);
        run("calls", &["--operation", operation, "--every", "97", "--on"]);
    }
}

/// What is left of the dead must not be set aside, or forgotten, because something could not be asked for a
/// moment.
#[test]
fn a_system_call_that_fails_where_all_have_died_loses_nothing() {
    run("calls", &["--operation", "rescue", "--every", "29"]);
    run("calls", &["--operation", "reap", "--every", "29"]);
}
