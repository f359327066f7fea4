//! Operations of whose system calls one fails; `sablecat-check calls` for all of them.

mod command;

use command::run;

/// Others each time, of all operations.
#[test]
fn a_system_call_that_fails_loses_nothing_and_is_told() {
    run("calls", &["--every", "997"]);
    run("calls", &["--every", "1999", "--on"]);
}

/// What is left of the dead must not be set aside, or forgotten, because something could not be asked for a
/// moment.
#[test]
fn a_system_call_that_fails_where_all_have_died_loses_nothing() {
    run("calls", &["--operation", "rescue", "--every", "29"]);
    run("calls", &["--operation", "reap", "--every", "29"]);
}
