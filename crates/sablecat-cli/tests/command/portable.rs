//! Databases as text: what Berkeley DB's programs wrote is read, what is written comes back, and what is odd
//! is refused with its line.

use crate::support::Scratch;

/// What `db5.3_dump` wrote, without and with `-p`, of a B+tree with an empty key, zero bytes and backslashes.
const DIGITS: &str = include_str!("../data/db_dump.txt");
const PRINT: &str = include_str!("../data/db_dump_print.txt");
/// And with `-p` of a file with two databases, one of them hashed.
const SEVERAL: &str = include_str!("../data/db_dump_several.txt");

/// The records as `scan --json` shows them.
pub(crate) fn records(scratch: &Scratch, database: &str) -> serde_json::Value {
    let answer = scratch.run(&format!("scan env --json --db {database}"));
    assert_eq!(answer.code, 0, "{}", answer.err);
    serde_json::from_str(&answer.out).expect("JSON")
}

/// Without the sizes of pages, which are Berkeley DB's alone.
pub(crate) fn without_sizes(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with("db_pagesize")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn what_berkeley_db_dumped_is_loaded_and_dumped_alike() {
    for (text, format) in [(DIGITS, "db"), (PRINT, "db-print")] {
        let scratch = Scratch::new(&format!("berkeley-{format}"));
        let answer = scratch.run_with("load env", text.as_bytes(), &[]);
        assert_eq!((answer.code, &*answer.out, &*answer.err), (0, "4 records set\n", ""));
        assert_eq!(
            records(&scratch, "main"),
            serde_json::json!([
                { "key": "", "value": "empty key" },
                { "key": "a", "value": "first\0\n\\ x" },
                { "key": "b", "value": "second" },
                { "key_hex": "ff80206b", "value": "v" },
            ])
        );
        let answer = scratch.run(&format!("dump env --db main --format {format}"));
        assert_eq!((answer.code, answer.out), (0, without_sizes(text)));
    }
}

#[test]
fn several_databases_come_and_go_together() {
    let scratch = Scratch::new("several");
    assert_eq!(scratch.run_with("load env", SEVERAL.as_bytes(), &[]).code, 0);
    assert_eq!(records(&scratch, "one"), serde_json::json!([{ "key": "k", "value": "v1" }]));
    assert_eq!(records(&scratch, "two"), serde_json::json!([{ "key": "k2", "value": "v2" }]));
    let printed = scratch.run("dump env --format db-print").out;
    assert_eq!(printed, without_sizes(SEVERAL));
    for format in ["db", "db-print", "json"] {
        let (dumped, again) = (scratch.run(&format!("dump env --format {format}")).out, Scratch::new(format));
        // As db_load, also by the name's other name.
        let dumped = if format == "db" { dumped.replace("database=", "subdatabase=") } else { dumped };
        assert_eq!(again.run_with("load env", dumped.as_bytes(), &[]).code, 0, "{format}");
        assert_eq!(again.run("dump env --format db-print").out, printed, "{format}");
    }
}

#[test]
fn json_keeps_every_byte_and_empty_databases() {
    let scratch = Scratch::new("json");
    assert_eq!(scratch.run_with("load env", DIGITS.as_bytes(), &[]).code, 0);
    assert_eq!(scratch.run_with("load env", b"{\"database\":\"empty\"}\n", &[]).code, 0);
    let dumped = scratch.run("dump env --json").out;
    assert!(dumped.ends_with("{\"end\":true,\"records\":4}\n"), "{dumped}");
    let again = Scratch::new("json-again");
    assert_eq!(
        again.run_with("load env --json", dumped.as_bytes(), &[]).out,
        "{\n  \"kept\": 0,\n  \"records\": 4\n}\n"
    );
    assert_eq!(again.run("dump env --json").out, dumped);
    // Lines of one's own need neither the first nor the last.
    let own = b"{\"key\":\"a\",\"value\":\"changed\"}\n{\"key_hex\":\"00\",\"value\":\"\"}\n";
    assert_eq!(again.run_with("load env --db other", own, &[]).code, 0);
    let shown = serde_json::json!([{ "key": "\0", "value": "" }, { "key": "a", "value": "changed" }]);
    assert_eq!(records(&again, "other"), shown);
}

#[test]
fn records_that_are_there_are_set_anew_or_left_alone() {
    let scratch = Scratch::new("overwrite");
    assert_eq!(scratch.run("put env a mine").code, 0);
    let answer = scratch.run_with("load env --no-overwrite", PRINT.as_bytes(), &[]);
    assert_eq!(
        (answer.code, &*answer.out),
        (1, "3 records set\n1 existed already, and were left as they are\n")
    );
    assert_eq!(scratch.run("get env a").out, "mine");
    assert_eq!(scratch.run_with("load env", PRINT.as_bytes(), &[]).code, 0);
    assert_eq!(scratch.run("get env a").out, "first\0\n\\ x");
}

/// Values of one key have no hash table here.
#[test]
fn a_hash_table_of_several_values_is_loaded_as_a_btree_and_that_is_said() {
    let text = |kind: &str, more: &str| {
        format!(
            "VERSION=3\nformat=print\ntype={kind}\nduplicates=1\n{more}HEADER=END\n k\n b\n k\n a\nDATA=END\n"
        )
    };
    for (more, values) in [("", "b\na\n"), ("dupsort=1\n", "a\nb\n")] {
        let scratch = Scratch::new("hash-duplicates");
        let loaded = scratch.run_with("load env", text("hash", more).as_bytes(), &[]);
        assert_eq!((loaded.code, &*loaded.out), (0, "2 records set\n"));
        assert!(loaded.err.contains(": a hash table whose keys have several values"), "{}", loaded.err);
        assert_eq!(scratch.run("get env k").out, values);
        assert!(scratch.run("dump env").out.contains("type=btree\nduplicates=1\n"));
        let loaded = scratch.run_with("load env", text("btree", more).as_bytes(), &[]);
        assert_eq!((loaded.code, &*loaded.err), (0, ""));
    }
}

#[test]
fn globals_go_through_zwr() {
    let scratch = Scratch::new("zwr");
    let text = b"GT.M MUPIP EXTRACT\n23-NOV-2026  15:39:48 ZWR\n^a(1,\"x\")=\"one\"\n^b=\"tab\"_$C(9)\n";
    let answer = scratch.run_with("load env --db g", text, &[]);
    assert_eq!((answer.code, &*answer.out), (0, "2 records set\n"));
    let dumped = scratch.run("dump env --db g --format zwr").out;
    let nodes: Vec<&str> = dumped.lines().skip(2).collect();
    assert_eq!(nodes, ["^a(1,\"x\")=\"one\"", "^b=\"tab\"_$C(9)"]);
    for (format, says) in [("db", true), ("db-print", true), ("json", false), ("zwr", false)] {
        let said = scratch.run(&format!("dump env --db g --format {format}")).err;
        assert_eq!(
            said.contains("g holds globals, which this format does not say"),
            says,
            "{format}: {said}"
        );
    }
    assert_eq!(scratch.run("put env k v").code, 0);
    assert_eq!(scratch.run("dump env --format zwr").code, 2, "two databases");
    assert_eq!(scratch.run("dump env --db main --format zwr").code, 2, "no globals");
}

#[test]
fn odd_or_truncated_text_loads_nothing_and_names_its_line() {
    let head = "VERSION=3\nformat=print\ntype=btree\nHEADER=END\n";
    let cases = [
        ("", "empty"),
        ("what is this\n", "line 1"),
        ("VERSION=3\n", "line 2"),
        ("VERSION=4\n", "line 1"),
        ("VERSION=3\nVERSION=3\n", "line 2"),
        ("VERSION=3\nformat=odd\n", "line 2"),
        ("VERSION=3\nformat=print\ntype=recno\nHEADER=END\n", "line 5"),
        ("VERSION=3\nformat=print\ntype=heap\nHEADER=END\n", "line 3"),
        (
            "VERSION=3\nformat=print\ntype=recno\nrenumber=1\nkeys=1\nHEADER=END\n 1\n a\n 3\n b\nDATA=END\n",
            "line 10: record 3 where the next is 2",
        ),
        ("VERSION=3\nformat=print\ntype=queue\nHEADER=END\nDATA=END\n", "line 4"),
        ("VERSION=3\nformat=print\ntype=queue\nre_len=0\nHEADER=END\nDATA=END\n", "line 4"),
        ("VERSION=3\nformat=print\ntype=queue\nre_len=3\nre_pad=0x120\nHEADER=END\nDATA=END\n", "line 5"),
        ("VERSION=3\nformat=print\ntype=queue\nre_len=3\nHEADER=END\n four\nDATA=END\n", "line 6"),
        ("VERSION=3\nformat=print\ntype=recno\nkeys=1\nHEADER=END\n 2\n b\n 2\n c\nDATA=END\n", "line 8"),
        ("VERSION=3\nformat=print\ntype=recno\nkeys=1\nHEADER=END\n 0\n b\nDATA=END\n", "line 6"),
        ("VERSION=3\nformat=print\ntype=recno\nkeys=1\nHEADER=END\n 1\nDATA=END\n", "line 7"),
        ("VERSION=3\nformat=print\ntype=btree\nduplicates=1\nHEADER=END\n k\n v\n k\nDATA=END\n", "line 9"),
        (
            "VERSION=3\nformat=print\ndatabase=main\ntype=queue\nre_len=3\nHEADER=END\nDATA=END\n",
            "holds plain",
        ),
        ("{\"database\":\"d\",\"holds\":\"queue\"}\n", "line 1"),
        ("{\"database\":\"d\",\"holds\":\"values\"}\n", "line 1"),
        ("{\"database\":\"d\",\"holds\":\"numbers\",\"record_bytes\":0}\n", "line 1"),
        (
            "{\"database\":\"d\",\"holds\":\"numbers\"}\n\
             {\"database\":\"d\",\"key\":\"k\",\"value\":\"v\"}\n",
            "line 2",
        ),
        (
            "{\"database\":\"d\",\"holds\":\"globals\"}\n\
             {\"database\":\"d\",\"key\":\"k\",\"value\":\"v\"}\n",
            "line 2: the key k is none of a node",
        ),
        ("{\"number\":1,\"value\":\"v\"}\n", "line 1"),
        ("{\"number\":0,\"value\":\"v\"}\n", "line 1"),
        ("VERSION=3\nformat=print\nHEADER=END\n", "line 3"),
        ("VERSION=3\ntype=btree\nHEADER=END\n", "line 3"),
        ("VERSION=3\nodd=1\n", "line 2"),
        (&format!("{head} k\n v\n"), "line 7"),
        (&format!("{head} k\n v"), "line 6"),
        (&format!("{head} k\nDATA=END\n"), "line 6"),
        (&format!("{head} k\nv\nDATA=END\n"), "line 6"),
        (&format!("{head} k\\0\n v\nDATA=END\n"), "line 5"),
        (&format!("{head} k\\zz\n v\nDATA=END\n"), "line 5"),
        (&format!("{head} k\n v\n k\n w\nDATA=END\n"), "line 7"),
        (&format!("{head} k\n v\nDATA=END\nmore\n"), "line 8"),
        ("VERSION=3\nformat=bytevalue\ntype=hash\nHEADER=END\n 6\n 6b\nDATA=END\n", "line 5"),
        ("{\"key\":\"k\"}\n", "line 1"),
        ("{\"key\":\"k\",\"value\":\"v\"}\nno\n", "line 2"),
        ("{\"key\":\"k\",\"value\":1}\n", "line 1"),
        ("{\"key\":\"k\",\"value\":\"v\",\"more\":1}\n", "line 1"),
        ("{\"database\":\"d\",\"method\":\"tree\"}\n", "line 1"),
        ("{\"key_hex\":\"0\",\"value\":\"v\"}\n", "line 1"),
        ("{\"sablecat\":\"dump\",\"version\":1}\n{\"key\":\"k\",\"value\":\"v\"}\n", "line 3"),
        ("{\"sablecat\":\"dump\",\"version\":2}\n", "line 1"),
        (
            "{\"sablecat\":\"dump\",\"version\":1}\n{\"key\":\"k\",\"value\":\"v\"}\n\
             {\"end\":true,\"records\":2}\n",
            "line 3",
        ),
        ("x EXTRACT\ny ZWR\n^a=\"1\"\n^a(\n", "line 4"),
    ];
    let scratch = Scratch::new("odd");
    assert_eq!(scratch.run("put env here before").code, 0);
    let before = scratch.run("dump env").out;
    for (text, place) in cases {
        let answer = scratch.run_with("load env --db new", text.as_bytes(), &[]);
        assert_eq!(answer.code, 2, "{text:?}: {}", answer.out);
        assert!(answer.err.contains(place), "{text:?}: {}", answer.err);
        assert_eq!(scratch.run("dump env").out, before, "{text:?}");
    }
    // Names that are no text would all become one.
    for name in [&b"\xff"[..], b"\\ff", b"\\", b"a\\zz"] {
        let head: &[u8] = b"VERSION=3\nformat=print\ndatabase=";
        let text = [head, name, b"\ntype=btree\nHEADER=END\nDATA=END\n"].concat();
        let answer = scratch.run_with("load env", &text, &[]);
        assert!(answer.code == 2 && answer.err.contains("line 3"), "{}", answer.err);
        assert_eq!(scratch.run("dump env").out, before);
    }
}

/// What `db5.3_dump` wrote of a queue and of numbered records, with `-k`, and of keys with several values.
pub(crate) const KINDS: [(&str, &str, &str); 7] = [
    (
        "jobs",
        "queue",
        "type=queue\nre_len=8\nre_pad=0x2e\nkeys=1\n\
         HEADER=END\n 33\n 6162632e2e2e2e2e\n 37\n 6465666768696a6b\nDATA=END\n",
    ),
    ("lines", "recno", "type=recno\nkeys=1\nHEADER=END\n 32\n 6f6e65\n 3130\n \nDATA=END\n"),
    ("rows", "recno", "type=recno\nre_len=4\nkeys=1\nHEADER=END\n 31\n 61202020\nDATA=END\n"),
    (
        "sorted",
        "btree",
        "type=btree\nduplicates=1\ndupsort=1\nHEADER=END\n 61\n 31\n 61\n 32\n 62\n 31\nDATA=END\n",
    ),
    ("poem", "recno", "type=recno\nrenumber=1\nkeys=1\nHEADER=END\n 31\n 61\n 32\n \n 33\n 62\nDATA=END\n"),
    ("ranked", "btree", "type=btree\nrecnum=1\nHEADER=END\n 61\n 31\nDATA=END\n"),
    ("inserted", "btree", "type=btree\nduplicates=1\nHEADER=END\n 61\n 32\n 61\n 31\n 61\n 32\nDATA=END\n"),
];

pub(crate) fn text_of(of: &str) -> String {
    format!("VERSION=3\nformat=bytevalue\n{of}")
}

#[test]
fn queues_numbered_records_and_several_values_come_and_go() {
    let scratch = Scratch::new("kinds");
    for (name, _, of) in KINDS {
        let answer = scratch.run_with(&format!("load env --db {name}"), text_of(of).as_bytes(), &[]);
        assert_eq!((answer.code, &*answer.err), (0, ""), "{name}");
        assert_eq!(scratch.run(&format!("dump env --db {name}")).out, text_of(of), "{name}");
    }
    let shown = scratch.run("stat env").out;
    for what in
        ["a queue, records of 8 bytes, padded with 0x2e", "numbered records of 4 bytes", "values, sorted"]
    {
        assert!(shown.contains(what), "{shown}");
    }
    assert_eq!(
        scratch.json("stat env jobs --json")["holds"][0],
        "a queue, records of 8 bytes, padded with 0x2e"
    );
    let all = scratch.run("dump env --format db-print").out;
    for format in ["db", "db-print", "json"] {
        let (dumped, again) = (
            scratch.run(&format!("dump env --format {format}")).out,
            Scratch::new(&format!("kinds-{format}")),
        );
        let answer = again.run_with("load env", dumped.as_bytes(), &[]);
        assert_eq!((answer.code, &*answer.err), (0, ""), "{format}");
        assert_eq!(again.run("dump env --format db-print").out, all, "{format}");
        // Anew: numbers and sorted values are there, the others come once more.
        if format == "db" {
            let answer = again.run_with("load env --no-overwrite", dumped.as_bytes(), &[]);
            assert_eq!(answer.code, 2, "{}", answer.out);
            assert_eq!(again.run_with("load env", dumped.as_bytes(), &[]).code, 0);
            assert_eq!(again.run("dump env --db inserted").out.lines().count(), 5 + 12 + 1);
            for name in ["jobs", "lines", "rows", "sorted", "poem", "ranked"] {
                let text = |scratch: &Scratch| scratch.run(&format!("dump env --db {name}")).out;
                assert_eq!(text(&again), text(&scratch));
            }
        }
    }
    // Without numbers they come after what is there; shorter ones are filled up.
    let more = "VERSION=3\nformat=print\ntype=queue\nre_len=8\nre_pad=.\nHEADER=END\n last\nDATA=END\n";
    assert_eq!(scratch.run_with("load env --db jobs", more.as_bytes(), &[]).code, 0);
    assert!(scratch.run("dump env --db jobs --format db-print").out.ends_with(" 8\n last....\nDATA=END\n"));
    let more = "VERSION=3\nformat=print\ntype=recno\nrenumber=1\nHEADER=END\n last\n but one\nDATA=END\n";
    assert_eq!(scratch.run_with("load env --db poem", more.as_bytes(), &[]).code, 0);
    let poem = scratch.run("dump env --db poem --format db-print").out;
    assert!(poem.ends_with(" 3\n b\n 4\n last\n 5\n but one\nDATA=END\n"), "{poem}");
    let answer = scratch.run_with("load env --db lines --no-overwrite", text_of(KINDS[1].2).as_bytes(), &[]);
    assert_eq!(
        (answer.code, &*answer.out),
        (1, "0 records set\n2 existed already, and were left as they are\n")
    );
}
