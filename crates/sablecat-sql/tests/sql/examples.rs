//! The programs in `examples/` do what they say.

use std::path::PathBuf;
use std::process::Command;

/// The program of an example, which `cargo test` builds before it runs tests.
fn program(name: &str) -> PathBuf {
    // TARGET/PROFILE/deps/sql-HASH is this one.
    let own = std::env::current_exe().expect("a program");
    own.ancestors().nth(2).expect("in a directory of cargo's").join("examples").join(name)
}

fn run(name: &str, arguments: &[&str]) -> String {
    let program = program(name);
    let output = Command::new(&program).args(arguments).output();
    let output = output.unwrap_or_else(|error| {
        panic!("{}: {error}: run `cargo build -p sablecat-sql --examples` first", program.display())
    });
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text"));
    assert!(output.status.success() && err.is_empty(), "{name}: {}\n{out}{err}", output.status);
    out
}

#[test]
fn many_writers_leave_what_they_have_not_sold() {
    let printed = run("many_writers", &[]);
    let (orders, left) = printed.trim_end().split_once(" orders, ").expect("a count of orders");
    let left: i64 = left.strip_suffix(" things left").expect("and of things").parse().expect("a number");
    assert_eq!((orders, left), ("800", 1000 * 1000 - 800));
}

#[test]
fn each_case_is_timed_beside_sqlite() {
    let printed = run("beside_sqlite", &["500"]);
    assert!(printed.lines().count() > 10 && printed.contains("insert-with-index"), "{printed}");
}
