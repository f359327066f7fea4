//! `load` of texts that were cut off anywhere, and in which bits are wrong.

use crate::support::Scratch;

/// A text, and after which of its bytes it is whole by the rules of its format, with how many records.
struct Text {
    what: &'static str,
    text: String,
    /// The format to dump it in again.
    dumped_as: &'static str,
    whole: Vec<(usize, u64)>,
}

/// The ends of the lines from one on, each of which is the end of a whole text with a record more.
fn lines_from(text: &str, first: usize) -> Vec<(usize, u64)> {
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    ends[first..].iter().zip(0..).map(|(&end, records)| (end, records)).collect()
}

fn texts() -> Vec<Text> {
    // Two databases, of which the first is whole by itself, as if the second had never been there.
    let berkeley = |format: &str, records: [&str; 2]| {
        let section = |name: &str, kind: &str, records: &str| {
            format!("VERSION=3\nformat={format}\ndatabase={name}\n{kind}HEADER=END\n{records}DATA=END\n")
        };
        let first = section("a", "type=btree\n", records[0]);
        let second = section("b", "type=recno\nre_len=2\nkeys=1\n", records[1]);
        let whole = vec![(first.len(), 2), (first.len() + second.len(), 3)];
        (first + &second, whole)
    };
    let (digits, whole_digits) = berkeley("bytevalue", [" 6b\n 00ff\n 6c\n \n", " 33\n 6162\n"]);
    let (print, whole_print) = berkeley("print", [" k\n a\\\\b\\00\n l\n \n", " 3\n ab\n"]);
    let records = "{\"database\":\"a\",\"key\":\"k\",\"value\":\"v\"}\n\
                   {\"database\":\"a\",\"key_hex\":\"ff\",\"value\":\"\"}\n";
    // Of lines of one's own each may be the last; with the first line of a dump there must be its last.
    let json = format!(
        "{{\"sablecat\":\"dump\",\"version\":1}}\n{{\"database\":\"a\"}}\n\
         {records}{{\"end\":true,\"records\":2}}\n"
    );
    let own = format!("{{\"database\":\"a\"}}\n{records}");
    // The format has no end: after the two lines of its head, it is whole after each line.
    let zwr = "sablecat EXTRACT\n28-NOV-2026  18:00:00 ZWR\n^a=\"1\"\n^a(-1.5,\"x\"\"y\")=\"v\"_$C(10)\n"
        .to_owned();
    let (whole_json, whole_own, whole_zwr) =
        (vec![(json.len(), 2)], lines_from(&own, 0), lines_from(&zwr, 1));
    vec![
        Text { what: "digits", text: digits, dumped_as: "db", whole: whole_digits },
        Text { what: "print", text: print, dumped_as: "db-print", whole: whole_print },
        Text { what: "json", text: json, dumped_as: "json", whole: whole_json },
        Text { what: "lines", text: own, dumped_as: "json", whole: whole_own },
        Text { what: "zwr", text: zwr, dumped_as: "zwr", whole: whole_zwr },
    ]
}

/// Those lines of a text that say something about records: not the head of a ZWR text, with its time.
fn told<'t>(text: &'t str, of: &str) -> Vec<&'t str> {
    let belongs = |line: &&str| of.lines().any(|own| own == *line) && !line.ends_with(" ZWR");
    text.lines().filter(belongs).collect()
}

/// Loads where nothing is, and says whether it could. If not, it has said where the text is wrong, and
/// nothing is there.
fn loads(scratch: &Scratch, text: &[u8], shown: &str) -> bool {
    let loaded = scratch.run_with("load env --db zwr", text, &[]);
    let there: Vec<_> = std::fs::read_dir(scratch.path()).expect("there").collect();
    if loaded.code == 0 {
        return true;
    }
    assert_eq!((loaded.code, &*loaded.out, there.len()), (2, "", 0), "{shown}: {}", loaded.err);
    let says_where = loaded.err.contains("line ") || text.is_empty() && loaded.err.contains("empty");
    assert!(says_where && loaded.err.lines().count() == 1, "{shown}: {}", loaded.err);
    false
}

/// Each text by a thread of its own: they mostly wait for the disk.
fn of_each_text(check: impl Fn(&Text) + Sync) {
    std::thread::scope(|scope| {
        for text in texts() {
            let check = &check;
            scope.spawn(move || check(&text));
        }
    });
}

#[test]
fn a_text_that_was_cut_off_anywhere_is_loaded_where_it_is_whole_and_else_leaves_nothing() {
    of_each_text(|Text { what, text, dumped_as, whole }| {
        for cut in 0..=text.len() {
            let (scratch, shown) = (Scratch::new("cut-text"), format!("{what} cut at {cut}"));
            let records = whole.iter().find(|(end, _)| *end == cut).map(|(_, records)| *records);
            assert_eq!(loads(&scratch, &text.as_bytes()[..cut], &shown), records.is_some(), "{shown}");
            let Some(records) = records else { continue };
            let db = if *what == "zwr" { "--db zwr" } else { "" };
            let dumped = scratch.run(&format!("dump env {db} --format {dumped_as}"));
            assert_eq!((dumped.code, &*dumped.err), (0, ""), "{shown}");
            assert_eq!(told(&dumped.out, text), told(&text[..cut], text), "{shown}");
            let again = scratch.run_with("load again --db zwr", dumped.out.as_bytes(), &[]);
            assert_eq!(again.out, format!("{records} records set\n"), "{shown}: {}", again.err);
        }
    });
}

/// It is what another text says, or none.
#[test]
fn a_text_with_a_wrong_bit_is_loaded_whole_or_leaves_nothing() {
    of_each_text(|Text { what, text, .. }| {
        for at in (0..text.len()).step_by(2) {
            let mut wrong = text.clone().into_bytes();
            wrong[at] ^= 1 << (at / 2 % 8);
            let (scratch, shown) = (Scratch::new("wrong-text"), format!("{what} with a wrong bit at {at}"));
            if loads(&scratch, &wrong, &shown) {
                let databases = scratch.json("stat env --json")["databases"].clone();
                assert!(databases.as_array().is_some_and(|names| !names.is_empty()), "{shown}: {databases}");
            }
        }
    });
}

/// Beside what is there already; the same of texts of every format.
#[test]
fn a_text_that_was_cut_off_leaves_an_environment_as_it_was() {
    let scratch = Scratch::new("cut-beside");
    assert_eq!(scratch.run("put env before there --db a").code, 0);
    let before = scratch.run("dump env").out;
    for Text { what, text, whole, .. } in texts() {
        for cut in (1..text.len()).rev().step_by(7) {
            if whole.iter().any(|(end, _)| *end == cut) {
                continue;
            }
            let loaded = scratch.run_with("load env --db zwr", &text.as_bytes()[..cut], &[]);
            assert!(loaded.code == 2 && loaded.err.contains("line "), "{what} {cut}: {}", loaded.err);
        }
        assert_eq!(scratch.run("dump env").out, before, "{what}");
    }
}
