//! `dbstat`: how large tables and indices are. Of an environment each has one row; of a file and of memory
//! what SQLite says.

use crate::asked::{number, texts};
use crate::directory::Directory;

const TABLES: &str = "
    CREATE TABLE words (id INTEGER PRIMARY KEY, word TEXT);
    CREATE INDEX by_word ON words (word);
    CREATE TABLE vacant (x);
    INSERT INTO words
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
        SELECT i, printf('word %d of many', i) FROM n;";

const NAMES: &str = "SELECT name FROM dbstat ORDER BY name";

#[test]
fn each_table_and_index_of_an_environment_has_one_row() {
    let directory = Directory::new();
    let connection = directory.ours();
    connection.execute_batch(TABLES).unwrap();
    let all = ["by_word", "sqlite_schema", "vacant", "words"];
    assert_eq!(texts(&connection, NAMES), all);
    // There are no rows of single pages.
    for (which, rows) in
        [("aggregate", 4), ("schema = 'main'", 4), ("NOT aggregate", 0), ("aggregate = 0", 0)]
    {
        assert_eq!(
            number(&connection, &format!("SELECT count(*) FROM dbstat WHERE {which}")),
            rows,
            "{which}"
        );
    }
    assert_eq!(texts(&connection, "SELECT name FROM dbstat WHERE name = 'words'"), ["words"]);
    let of = |column: &str, name: &str| {
        number(&connection, &format!("SELECT {column} FROM dbstat WHERE name = '{name}' AND aggregate"))
    };
    // 5,000 rows of some 20 bytes, and of the index twice as many.
    for name in ["words", "by_word"] {
        assert!((4500..5500).contains(&of("ncell", name)), "{name}: {}", of("ncell", name));
        assert!(of("payload", name) > 5000 * 15 && of("pgsize", name) >= of("payload", name), "{name}");
        assert_eq!(of("unused + payload", name), of("pgsize", name), "{name}");
        assert_eq!(of("pgsize % pageno", name), 0, "pages of one size: {name}");
    }
    assert_eq!((of("ncell", "vacant"), of("pageno", "vacant")), (0, 1));
    assert!(of("pgsize", "words") > of("pgsize", "vacant"));
}

/// It has no size that others would know, and the rest has.
#[test]
fn a_table_that_is_not_committed_has_no_size() {
    let directory = Directory::new();
    let connection = directory.ours();
    connection.execute_batch(TABLES).unwrap();
    connection.execute_batch("BEGIN; CREATE TABLE new (x); INSERT INTO new VALUES (1)").unwrap();
    assert_eq!(texts(&connection, NAMES), ["by_word", "new", "sqlite_schema", "vacant", "words"]);
    assert_eq!(number(&connection, "SELECT pgsize FROM dbstat WHERE name = 'new'"), 0);
    connection.execute_batch("COMMIT").unwrap();
    assert_eq!(number(&connection, "SELECT ncell FROM dbstat WHERE name = 'new'"), 1);
}

#[test]
fn beside_a_file_each_says_its_own() {
    let directory = Directory::new();
    let connection = directory.ours();
    connection.execute_batch(TABLES).unwrap();
    let alone = directory.stock();
    alone.execute_batch(TABLES).unwrap();
    connection.execute("ATTACH ?1 AS other", [alone.path().unwrap()]).unwrap();
    let pages = "SELECT count(*) FROM dbstat WHERE name = 'words'";
    let there = number(&connection, &format!("{pages} AND schema = 'other'"));
    assert_eq!(there, number(&alone, pages));
    assert!(there > 10, "{there} pages");
    assert_eq!(number(&connection, pages), 1);
}
