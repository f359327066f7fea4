//! Texts given to the programs of others, and taken from them: Berkeley DB's and GT.M's. Where these are not
//! installed, nothing is tested, and the tests say so.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::portable::{KINDS, records, text_of, without_sizes};
use crate::support::Scratch;

/// Whether Berkeley DB's programs are there.
fn has_berkeley_db() -> bool {
    let runs = |program| Command::new(program).arg("-V").stdout(Stdio::null()).status().is_ok();
    let has = runs("db5.3_load") && runs("db5.3_dump");
    if !has {
        eprintln!("skipped: there is no db5.3_load (Debian: apt install db5.3-util)");
    }
    has
}

/// Has Berkeley DB make a file of a text.
fn berkeley_db_loads(scratch: &Scratch, text: &str, file: &str) {
    std::fs::write(scratch.path().join("text"), text).expect("written");
    let load = Command::new("db5.3_load").args(["-f", "text", file]).current_dir(scratch.path()).status();
    assert!(load.expect("started").success(), "{file}");
}

/// What Berkeley DB dumps of a file.
fn berkeley_db_dumps(scratch: &Scratch, options: &[&str], file: &str) -> String {
    let mut command = Command::new("db5.3_dump");
    let output = command.args(options).arg(file).current_dir(scratch.path()).output().expect("started");
    assert!(output.status.success(), "{file}");
    String::from_utf8(output.stdout).expect("text")
}

/// db5.3_load takes the first character of `re_pad=0x2e` for the byte, and writes `0x30` again.
fn without_pad(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with("re_pad")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn berkeley_db_reads_queues_numbered_records_and_several_values_and_dumps_them_alike() {
    if !has_berkeley_db() {
        return;
    }
    let scratch = Scratch::new("kinds-both-ways");
    for (name, kind, of) in KINDS {
        assert_eq!(scratch.run_with(&format!("load env --db {name}"), text_of(of).as_bytes(), &[]).code, 0);
        let dumped = scratch.run(&format!("dump env --db {name}")).out;
        let file = format!("{name}.db");
        berkeley_db_loads(&scratch, &dumped, &file);
        for option in ["", "-p"] {
            let options = [if kind == "btree" { "" } else { "-k" }, option];
            let options: Vec<&str> = options.into_iter().filter(|one| !one.is_empty()).collect();
            let back = without_sizes(&berkeley_db_dumps(&scratch, &options, &file));
            if option.is_empty() {
                assert_eq!(without_pad(&back), without_pad(&dumped), "{name}");
            }
            let again = Scratch::new(&format!("kinds-back{option}"));
            let answer = again.run_with(&format!("load env --db {name}"), back.as_bytes(), &[]);
            assert_eq!((answer.code, &*answer.err), (0, ""), "{name} {option}");
            assert_eq!(
                without_pad(&again.run(&format!("dump env --db {name}")).out),
                without_pad(&dumped),
                "{name}"
            );
        }
    }
}

/// By digits and as text, of a B+tree and of a hash table, whose order is by hashes and each program's own.
#[test]
fn berkeley_db_reads_what_is_dumped_and_dumps_what_is_read() {
    if !has_berkeley_db() {
        return;
    }
    let scratch = Scratch::new("both-ways");
    for method in ["btree", "hash"] {
        let text: String = (0u32..300)
            .map(|n| n.wrapping_mul(0x9e37_79b9).to_be_bytes().map(|byte| format!("{byte:02x}")).concat())
            .map(|key| format!(" {key}\n {key}5c0a00\n"))
            .collect();
        let text = text_of(&format!("type={method}\nHEADER=END\n{text}DATA=END\n"));
        assert_eq!(scratch.run_with(&format!("load env --db {method}"), text.as_bytes(), &[]).code, 0);
        let sorted = |database: &str| {
            let mut records = records(&scratch, database).as_array().expect("records").clone();
            records.sort_by_key(ToString::to_string);
            records
        };
        for (format, options) in [("db", &[][..]), ("db-print", &["-p"])] {
            let dumped = scratch.run(&format!("dump env --db {method} --format {format}")).out;
            let file = format!("{method}-{format}");
            berkeley_db_loads(&scratch, &dumped, &format!("{file}.db"));
            let back = berkeley_db_dumps(&scratch, options, &format!("{file}.db"));
            assert!(back.contains(&format!("type={method}\n")), "{back}");
            if method == "btree" {
                assert_eq!(without_sizes(&back), dumped, "{format}");
            }
            let answer = scratch.run_with(&format!("load env --db {file}"), back.as_bytes(), &[]);
            assert_eq!((answer.code, &*answer.out), (0, "300 records set\n"));
            assert_eq!(sorted(&file), sorted(method));
        }
    }
}

/// Each is there as what it was. Berkeley DB takes numbers of records from digits alone.
#[test]
fn berkeley_db_reads_several_databases_and_dumps_them_alike() {
    if !has_berkeley_db() {
        return;
    }
    let text = br#"{"database":"btree"}
{"database":"btree","key":"a\\b","value":"\u0000\n"}
{"database":"counted","method":"counted"}
{"database":"counted","key":"k","value":"v"}
{"database":"empty"}
{"database":"hash","method":"hash"}
{"database":"hash","key":"h1","value":"v1"}
{"database":"hash","key":"h2","value":"v2"}
{"database":"hash","key":"h3","value":"v3"}
{"database":"inserted","holds":"values","sorted":false}
{"database":"inserted","key":"k","value":"w"}
{"database":"inserted","key":"k","value":"v"}
{"database":"sorted","holds":"values","sorted":true}
{"database":"sorted","key":"k","value":"v"}
{"database":"sorted","key":"k","value":"w"}
"#;
    let numbers = br#"{"database":"lines","holds":"numbers"}
{"database":"lines","number":2,"value":"two"}
{"database":"lines","number":10,"value":"ten"}
{"database":"steps","holds":"renumbered"}
{"database":"steps","number":1,"value":"first"}
"#;
    let scratch = Scratch::new("several-both-ways");
    assert_eq!(scratch.run_with("load env", text, &[]).code, 0);
    let lines = |directory: &str| {
        let dumped = scratch.run(&format!("dump {directory} --json")).out;
        let mut lines: Vec<String> = dumped.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    for (format, option) in [("db-print", "-p"), ("db", "-k")] {
        if format == "db" {
            assert_eq!(scratch.run_with("load env", numbers, &[]).code, 0);
        }
        let file = format!("{format}.db");
        berkeley_db_loads(&scratch, &scratch.run(&format!("dump env --format {format}")).out, &file);
        let back = berkeley_db_dumps(&scratch, &[option], &file);
        let answer = scratch.run_with(&format!("load {format}"), back.as_bytes(), &[]);
        assert_eq!((answer.code, &*answer.err), (0, ""), "{format}");
        assert_eq!(lines(format), lines("env"), "{format}");
    }
}

/// Whatever characters names have: what is no letter of ASCII's stands there by its digits, in both forms.
#[test]
fn berkeley_db_has_databases_under_the_same_names() {
    let scratch = Scratch::new("names-both-ways");
    let names = ["Grüße", "a\\b", "back\\\\\\c3", "two\nlines", "日本"];
    for (n, name) in names.iter().enumerate() {
        let text = serde_json::json!({ "database": name, "key": "k", "value": n.to_string() });
        assert_eq!(scratch.run_with("load env", format!("{text}\n").as_bytes(), &[]).code, 0, "{name:?}");
    }
    let all = scratch.run("dump env --json").out;
    for (format, option) in [("db-print", "-p"), ("db", "-k")] {
        let dumped = scratch.run(&format!("dump env --format {format}")).out;
        assert!(dumped.is_ascii() && dumped.contains("database=Gr\\c3\\bc\\c3\\9fe\n"), "{dumped}");
        let again = Scratch::new(&format!("names-{format}"));
        assert_eq!(again.run_with("load env", dumped.as_bytes(), &[]).code, 0);
        assert_eq!(again.run("dump env --json").out, all, "{format}");
        if has_berkeley_db() {
            let file = format!("{format}.db");
            berkeley_db_loads(&scratch, &dumped, &file);
            let back = berkeley_db_dumps(&scratch, &[option], &file);
            let answer = scratch.run_with(&format!("load {format}"), back.as_bytes(), &[]);
            assert_eq!((answer.code, &*answer.err), (0, ""), "{format}");
            assert_eq!(scratch.run(&format!("dump {format} --json")).out, all, "{format}");
        }
    }
}

/// What is in a directory.
fn below(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Where GT.M is: where the environment variable `gtm_dist` says, or where Debian puts it.
fn gtm() -> Option<PathBuf> {
    let debian =
        below(Path::new("/usr/lib")).into_iter().flat_map(|libraries| below(&libraries.join("fis-gtm")));
    let found = std::env::var_os("gtm_dist")
        .map(PathBuf::from)
        .into_iter()
        .chain(debian)
        .find(|dist| dist.join("mupip").is_file());
    if found.is_none() {
        eprintln!(
            "skipped: there is no GT.M (Debian: apt install fis-gtm; elsewhere: let gtm_dist name its \
             directory)"
        );
    }
    found
}

/// A global directory of one region, which takes keys and values as long as they are here.
const LAYOUT: &str = "change -segment DEFAULT -file=g.dat\n\
    change -region DEFAULT -record_size=4000 -key_size=1000 -null_subscripts=always -stdnull\nexit\n";

/// Runs one of its programs in a directory, with nothing of the environment but these variables: bytes are
/// characters, unless they say something else.
fn run_gtm(dist: &Path, scratch: &Scratch, arguments: &[&str], variables: &[(&str, &str)]) {
    let shown = dist.display();
    let mut child = Command::new(dist.join(arguments[0]))
        .args(&arguments[1..])
        .current_dir(scratch.path())
        .env_clear()
        .env("gtm_dist", dist)
        .env("gtmgbldir", "g.gld")
        .env("gtmroutines", format!(". {shown}/libgtmutil.so {shown}"))
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    // Only the one that makes the global directory reads it.
    let _ = std::io::Write::write_all(&mut child.stdin.take().expect("piped"), LAYOUT.as_bytes());
    let output = child.wait_with_output().expect("ended");
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&text));
}

/// Nodes of every sort, as ZWR has them: numbers of any size, texts with quotes, of control characters and of
/// bytes above 127, that are almost numbers, and the empty one; values of nothing, and of each of the bytes;
/// characters of Unicode; nodes with a value and children; many subscripts.
fn zwr() -> Vec<u8> {
    let mut text = b"sablecat EXTRACT\n28-NOV-2026  18:00:00 ZWR\n".to_vec();
    let mut line = |reference: &str, value: &str| text.extend(format!("{reference}={value}\n").bytes());
    line("^%b", "\"\"");
    line("^B(1)", "\"2\"");
    line("^a", "\"root\"");
    line("^a(\"Grüße\")", "\"日本語\"_$C(194,133)");
    let numbers = ["-123456789012345678", "-1.5", "-1", "-.001", "0", ".0000001", ".5", "1", "10", "100000"];
    for number in numbers.into_iter().chain(["1234567890.12345678", "100000000000000000000000000000"]) {
        line(&format!("^a({number})"), &format!("\"{number}\""));
        line(&format!("^a({number},-2.75,\"x\")"), "\"\"");
    }
    for text in [
        "\"\"",
        "\" \"",
        "\"-0\"",
        "\"01\"",
        "\"1.0\"",
        "\"1E5\"",
        "\"say \"\"hi\"\"\"",
        "\"\"\"\"",
        "\"a,b)=c\"",
    ] {
        line(&format!("^a({text})"), text);
    }
    let subscripts: Vec<String> =
        (1..=30).map(|n| if n % 2 == 0 { n.to_string() } else { format!("\"s{n}\"") }).collect();
    line(&format!("^many({})", subscripts.join(",")), "\"deep\"");
    for byte in 0..=255u8 {
        line(
            &format!("^bytes(\"a\"_$C({byte})_\"z\",$C({byte},{byte}))"),
            &format!("$C({byte})_\"v\"_$C({byte},7)"),
        );
    }
    text
}

/// The nodes of a database, as ZWR.
fn dump_zwr(scratch: &Scratch, directory: &str) -> Vec<u8> {
    let dumped = Command::new(env!("CARGO_BIN_EXE_sablecat"))
        .args(["dump", directory, "--db", "g", "--format", "zwr"])
        .current_dir(scratch.path())
        .output()
        .expect("started");
    assert!(dumped.status.success());
    dumped.stdout
}

/// Loads nodes of every sort, dumps them, and has GT.M load what was dumped. What that was.
fn given_to_gtm(gtm: &Path, scratch: &Scratch) -> Vec<u8> {
    load_zwr(scratch, "env", &zwr());
    let dumped = dump_zwr(scratch, "env");
    std::fs::write(scratch.path().join("dumped.zwr"), &dumped).expect("written");
    run_gtm(gtm, scratch, &["mumps", "-run", "GDE"], &[]);
    run_gtm(gtm, scratch, &["mupip", "create"], &[]);
    run_gtm(gtm, scratch, &["mupip", "load", "-format=zwr", "dumped.zwr"], &[]);
    dumped
}

fn load_zwr(scratch: &Scratch, directory: &str, text: &[u8]) {
    let nodes = lines(text).len() - 1;
    let loaded = scratch.run_with(&format!("load {directory} --db g"), text, &[]);
    assert_eq!((loaded.code, loaded.out), (0, format!("{nodes} records set\n")), "{}", loaded.err);
}

/// The lines of nodes. The two before them have the program's name and the time.
fn lines(text: &[u8]) -> Vec<String> {
    text.split(|&byte| byte == b'\n').skip(2).map(|line| line.escape_ascii().to_string()).collect()
}

#[test]
fn gtm_loads_globals_that_are_dumped_and_extracts_them_alike() {
    let Some(gtm) = gtm() else { return };
    let scratch = Scratch::new("gtm");
    let dumped = given_to_gtm(&gtm, &scratch);
    run_gtm(&gtm, &scratch, &["mupip", "extract", "-format=zwr", "extracted.zwr"], &[]);
    let extracted = std::fs::read(scratch.path().join("extracted.zwr")).expect("it was written");
    assert_eq!(lines(&extracted).len(), lines(&zwr()).len());
    assert_eq!(lines(&extracted), lines(&dumped));
    load_zwr(&scratch, "again", &extracted);
    assert_eq!(lines(&dump_zwr(&scratch, "again")), lines(&dumped));
}

/// The number of the ICU library that GT.M takes characters of Unicode from.
fn icu() -> Option<u32> {
    let of = |path: PathBuf| path.to_str()?.rsplit_once("/libicuio.so.")?.1.parse().ok();
    let found = below(Path::new("/usr/lib")).iter().flat_map(|libraries| below(libraries)).find_map(of);
    if found.is_none() {
        eprintln!("skipped: there is no ICU library in /usr/lib, which GT.M needs for UTF-8");
    }
    found
}

/// GT.M writes the same bytes in another way then, some as characters, some as bytes by their numbers.
#[test]
fn what_gtm_extracts_in_utf_8_is_loaded_as_the_same_bytes() {
    let Some((gtm, icu)) = gtm().and_then(|gtm| Some((gtm, icu()?))) else { return };
    let scratch = Scratch::new("gtm-utf-8");
    let dumped = given_to_gtm(&gtm, &scratch);
    let icu = format!("{icu}.1");
    let utf_8 = [("gtm_chset", "UTF-8"), ("LC_ALL", "C.UTF-8"), ("gtm_icu_version", &icu)];
    run_gtm(&gtm, &scratch, &["mupip", "extract", "-format=zwr", "extracted.zwr"], &utf_8);
    let extracted = std::fs::read(scratch.path().join("extracted.zwr")).expect("it was written");
    assert!(extracted.starts_with(b"GT.M MUPIP EXTRACT UTF-8\n"));
    assert_ne!(lines(&extracted), lines(&dumped), "it is written in another way");
    load_zwr(&scratch, "again", &extracted);
    assert_eq!(lines(&dump_zwr(&scratch, "again")), lines(&dumped));
}
