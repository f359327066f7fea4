//! SQL from the command line, on an environment that other commands look at as well.

use crate::support::Scratch;

#[test]
fn a_script_makes_tables_and_queries_print_them() {
    let scratch = Scratch::new("sql");
    let script = "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, height REAL, photo BLOB);
        INSERT INTO people VALUES (1, 'Ada', 1.65, x'00ff'), (2, 'Grace', NULL, NULL);
        SELECT name, height FROM people ORDER BY id; -- a comment at the end";
    let answer = scratch.run_with("sql shop", script.as_bytes(), &[]);
    assert_eq!((answer.code, answer.out.as_str(), answer.err.as_str()), (0, "Ada|1.65\nGrace|\n", ""));

    let query = "SELECT id, photo FROM people ORDER BY id DESC";
    let answer = scratch.run_with("sql shop --json", query.as_bytes(), &[]);
    assert_eq!(answer.out, "[{\"id\":2,\"photo\":null},\n{\"id\":1,\"photo\":\"00ff\"}]\n");

    assert_eq!(scratch.run("verify shop").code, 0);
    assert_eq!(scratch.run("sql shop -c PRAGMA/**/integrity_check").out, "ok\n");
}

#[test]
fn a_statement_that_fails_ends_the_script_and_undoes_its_transaction() {
    let scratch = Scratch::new("sql-fails");
    let script = "CREATE TABLE t (a UNIQUE); INSERT INTO t VALUES (1);
        BEGIN; INSERT INTO t VALUES (2); INSERT INTO t VALUES (1); COMMIT;";
    let answer = scratch.run_with("sql shop", script.as_bytes(), &[]);
    assert_eq!((answer.code, answer.out.as_str()), (2, ""));
    assert!(answer.err.contains("UNIQUE constraint failed: t.a"), "{}", answer.err);
    assert_eq!(scratch.run("sql shop -c SELECT/**/a/**/FROM/**/t").out, "1\n");
}
