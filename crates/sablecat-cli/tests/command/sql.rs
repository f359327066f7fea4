//! SQL from the command line, on an environment that other commands look at as well.

use std::process::{Command, Stdio};

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

/// Of everything a database may have.
const OF_ALL_KINDS: &str =
    "CREATE TABLE people (id INTEGER PRIMARY KEY AUTOINCREMENT, \"full name\" TEXT, photo BLOB,
    height REAL, tall AS (height > 1.7));
CREATE INDEX people_by_name ON people (\"full name\");
CREATE TABLE seen (at TEXT PRIMARY KEY, what) WITHOUT ROWID;
CREATE VIEW tall AS SELECT * FROM people WHERE tall;
CREATE TRIGGER note AFTER DELETE ON people BEGIN INSERT INTO seen VALUES (old.id, 'gone; '); END;
CREATE VIRTUAL TABLE notes USING fts5 (body);
INSERT INTO people VALUES (7, 'it''s |Ada', x'0061', 1.8), (8, NULL, NULL, 1e300);
INSERT INTO seen VALUES ('a', ''), ('b', 9007199254740993);
INSERT INTO notes VALUES ('a cat of sable'), ('a dog');
";

#[test]
fn a_dump_makes_the_same_database_anew_here_and_in_a_file_of_sqlites() {
    let scratch = Scratch::new("sql-dump");
    assert_eq!(scratch.run_with("sql shop", OF_ALL_KINDS.as_bytes(), &[]).code, 0);
    let dump = scratch.run_with("sql shop", b".dump", &[]);
    assert_eq!((dump.code, dump.err.as_str()), (0, ""));
    std::fs::write(scratch.path().join("stock.db"), "").expect("a file is SQLite's");
    let ask = "SELECT * FROM people; SELECT * FROM seen; SELECT * FROM tall;
        INSERT INTO people (height) VALUES (1); SELECT max(id) FROM people;
        SELECT body FROM notes WHERE notes MATCH 'sable';
        DELETE FROM people WHERE id = 7; SELECT count(*) FROM seen; PRAGMA integrity_check;";
    let expected = scratch.run_with("sql shop", ask.as_bytes(), &[]).out;
    assert!(expected.ends_with("\n9\na cat of sable\n3\nok\n"), "{expected}");
    for other in ["again", "stock.db"] {
        let loaded = scratch.run_with(&format!("sql {other}"), dump.out.as_bytes(), &[]);
        assert_eq!((loaded.code, loaded.err.as_str()), (0, ""), "{}", dump.out);
        let again = scratch.run_with(&format!("sql {other}"), b".dump", &[]);
        assert_eq!(again.out, dump.out);
        assert_eq!(scratch.run_with(&format!("sql {other}"), ask.as_bytes(), &[]).out, expected);
    }
}

#[test]
fn a_dump_has_text_with_zeros_and_the_nodes_of_globals() {
    let scratch = Scratch::new("sql-dump-nodes");
    let zwr = |nodes: &str| format!("GT.M MUPIP EXTRACT\n27-NOV-2026  10:00:00 ZWR\n{nodes}");
    for (env, nodes) in
        [("one", "^acct(42)=\"gold\"\n^acct(42,\"name\")=\"Ada\"\n^acct(1.5)=\"x\"\n"), ("two", "")]
    {
        let loaded = scratch.run_with(&format!("load {env} --db g --format zwr"), zwr(nodes).as_bytes(), &[]);
        assert_eq!(loaded.code, 0, "{}", loaded.err);
    }
    let make = "CREATE TABLE t (x); INSERT INTO t VALUES ('a' || char(0) || 'b'), ('c');
        CREATE VIRTUAL TABLE acct USING sablecat('g', subscripts=2, value=text);
        INSERT INTO acct VALUES ('acct', 7, 'a' || char(0), 'zero')";
    assert_eq!(scratch.run_with("sql one", make.as_bytes(), &[]).err, "");
    let dump = scratch.run_with("sql one", b".dump", &[]).out;
    assert_eq!(scratch.run_with("sql two", dump.as_bytes(), &[]).err, "", "{dump}");
    let ask = b"SELECT hex(x) FROM t; SELECT global, s1, hex(s2), value FROM acct;";
    let shown = ["one", "two"].map(|env| scratch.run_with(&format!("sql {env}"), ask, &[]).out);
    assert_eq!(shown[0], "610062\n63\nacct|1.5||x\nacct|7|6100|zero\nacct|42||gold\nacct|42|6E616D65|Ada\n");
    assert_eq!(shown[1], shown[0]);
}

#[test]
fn commands_of_the_shell_are_part_of_a_script() {
    let scratch = Scratch::new("sql-dots");
    assert_eq!(scratch.run_with("sql shop", OF_ALL_KINDS.as_bytes(), &[]).code, 0);
    let script = ".tables\n.indexes people\n.schema seen\n.headers on\n.mode csv\n.nullvalue -\n\
                  SELECT id,\n  height,\n  \"full name\" FROM people;\n.mode line\n\
                  SELECT 1 AS a, ';' AS long;\n.mode list\n.sep ' & '\n.once answer.txt\nSELECT 1, 2;\n\
                  SELECT 3;\n.mode table\nSELECT 10 AS n, 'x' AS of_it;\n.changes on\nDELETE FROM seen;\n\
                  .quit\nSELECT 'never';";
    let answer = scratch.run_with("sql shop", script.as_bytes(), &[]);
    let expected = "notes\nnotes_config\nnotes_content\nnotes_data\nnotes_docsize\nnotes_idx\npeople\nseen\n\
                    tall\npeople_by_name\nCREATE TABLE seen (at TEXT PRIMARY KEY, what) WITHOUT ROWID;\n\
                    id,height,full name\r\n7,1.8,it's |Ada\r\n8,1e300,-\r\n   a = 1\nlong = ;\n3\n3\n\
                    n   of_it\n──  ─────\n10  x\n2 rows changed\n";
    assert_eq!((answer.code, answer.err.as_str(), answer.out.as_str()), (0, "", expected));
    let once = std::fs::read_to_string(scratch.path().join("answer.txt")).expect("the next answer");
    assert_eq!(once, "1 & 2\n1 & 2\n");
    let refused = [
        (".mode tree", "the modes are list, csv, json, table, line"),
        (".d", "no command begins with .d, or several do"),
        (".headers maybe", "neither on nor off"),
        (".read no-such-file", "reading no-such-file: No such file"),
        ("SELECT 1;\n\nSELECT *\nFROM nowhere;", "line 3: no such table: nowhere"),
    ];
    for (line, why) in refused {
        let answer = scratch.run_with("sql shop", line.as_bytes(), &[]);
        assert!(answer.code == 2 && answer.err.contains(why), "{line}: {}", answer.err);
    }
}

#[test]
fn a_file_of_values_is_inserted_whole_or_not_at_all() {
    let scratch = Scratch::new("sql-import");
    std::fs::write(scratch.path().join("a.csv"), "name,of\n\"a, b\",1\n\"c\nd\",2\n").expect("a file");
    std::fs::write(scratch.path().join("b.tsv"), "x\t3\ny\t4\ttoo much\n").expect("a file");
    let import =
        b".import a.csv things\n.import --skip 1 a.csv things\nSELECT count(*), max(name) FROM things;";
    let answer = scratch.run_with("sql shop", import, &[]);
    assert_eq!((answer.err.as_str(), answer.out.as_str()), ("", "4|c\nd\n"));
    let answer = scratch.run_with("sql shop", b".import --separator \\t b.tsv things", &[]);
    assert_eq!(answer.code, 2);
    assert!(
        answer.err.contains("line 2 of b.tsv has 3 values, and the table things 2 columns"),
        "{}",
        answer.err
    );
    assert_eq!(scratch.run("sql shop -c SELECT/**/count(*)/**/FROM/**/things").out, "4\n");
}

#[test]
fn nothing_comes_after_the_end_and_a_reader_of_a_dump_may_leave() {
    let scratch = Scratch::new("sql-ends");
    assert_eq!(scratch.run("sql shop -c SELECT/**/1 -c .quit -c SELECT/**/2").out, "1\n");
    std::fs::write(scratch.path().join("a.sql"), "SELECT 3;\n.quit\nSELECT 4;\n").expect("a file");
    assert_eq!(scratch.run_with("sql shop", b".read a.sql\nSELECT 5;", &[]).out, "3\n");

    let many =
        "CREATE TABLE t (a); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)
        INSERT INTO t SELECT printf('%50d', i) FROM n;";
    assert_eq!(scratch.run_with("sql shop", many.as_bytes(), &[]).code, 0);
    std::fs::write(scratch.path().join("dump.sql"), ".dump\n").expect("a file");
    for command in [".dump", ".read dump.sql", "SELECT 1;\nSELECT * FROM t;", ".mode csv\nSELECT * FROM t;"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sablecat"))
            .args(["sql", "shop", "-c", command])
            .current_dir(scratch.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("its end");
        assert_eq!((output.status.code(), &output.stderr[..]), (Some(0), &b""[..]), "{command}");
    }
}
