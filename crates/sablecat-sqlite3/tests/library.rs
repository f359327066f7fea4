//! The library as programs get it that know SQLite alone: installed, linked, loaded, exported.

#![allow(clippy::unwrap_used, reason = "a test that cannot run its programs has failed")]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Where the library is: installed once.
fn installed() -> &'static Path {
    static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sqlite3");
        let _ = fs::remove_dir_all(&prefix);
        said(Command::new(env!("CARGO_BIN_EXE_sablecat-sqlite3")).arg(&prefix), 0);
        prefix
    })
}

/// A directory for a test, removed with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("sablecat-sqlite3-{}-{test}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Compiles one of the programs here, against the library.
    fn compile(&self, program: &str, more: &[&OsStr]) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(program);
        let to = self.at(program.trim_end_matches(".c"));
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Wextra", "-Werror", "-I"]).arg(installed().join("include")).arg(source);
        said(cc.args(more).arg("-o").arg(&to), 0);
        to
    }

    /// The same, with what says where the shared object is.
    fn compile_shared(&self, program: &str) -> PathBuf {
        let lib = installed().join("lib");
        self.compile(program, &["-L".as_ref(), lib.as_os_str(), "-lsqlite3".as_ref()])
    }

    /// Runs a program here with the shared object, and the engine for new databases.
    fn run<'a>(&self, program: &Path, arguments: impl IntoIterator<Item = &'a str>, engine: &str) -> String {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.0).env("SABLECAT_SQLITE_ENGINE", engine);
        said(command.env("LD_LIBRARY_PATH", installed().join("lib")), 0)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a program wrote; it must have ended with this code.
fn said(command: &mut Command, code: i32) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert_eq!(status.code(), Some(code), "{command:?}: {status}\n{out}{err}");
    out.into_owned()
}

/// Symbols of a file that others may use.
fn symbols(options: &[&str], file: &str) -> Vec<String> {
    let listed = said(Command::new("nm").args(options).arg("--defined-only").arg(installed().join(file)), 0);
    listed.lines().filter_map(|line| line.split(' ').nth(2).map(str::to_owned)).collect()
}

/// How functions of the header begin that are for other systems, or there with settings that none has.
const ELSEWHERE: &[&str] = &[
    "sqlite3_activate_cerod",
    "sqlite3_carray_",
    "sqlite3_mutex_held",
    "sqlite3_mutex_notheld",
    "sqlite3_normalized_sql",
    "sqlite3_snapshot_",
    "sqlite3_stmt_scanstatus",
    "sqlite3_win32_",
];

#[test]
fn its_symbols_are_those_of_the_header_and_no_others() {
    let header = fs::read_to_string(installed().join("include/sqlite3.h")).unwrap();
    let exported = symbols(&["--dynamic"], "lib/libsqlite3.so.0");
    assert_eq!(exported, symbols(&["--extern-only"], "lib/libsqlite3.a"));
    for name in &exported {
        assert!(header.contains(name.as_str()) || name.starts_with("sqlite3_os_"), "{name} is not SQLite's");
    }
    let declared = header.split("SQLITE_API ").skip(1).filter_map(|rest| {
        let declaration = rest.split(['(', ';', '[']).next()?;
        Some(declaration.rsplit([' ', '*', '\n']).next()?.to_owned())
    });
    let missing: Vec<String> = declared
        // Other words of its comments are behind that as well.
        .filter(|name| name.starts_with("sqlite3") && !exported.contains(name))
        .filter(|name| !ELSEWHERE.iter().any(|group| name.starts_with(group)))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_program_in_c_has_databases_of_both_kinds() {
    let scratch = Scratch::new("both");
    let client = scratch.compile_shared("client.c");
    let make = "CREATE TABLE t(a INTEGER PRIMARY KEY, b UNIQUE); INSERT INTO t VALUES(1,'one'),(2,'two')";
    let query = "SELECT * FROM t ORDER BY b DESC; PRAGMA integrity_check; PRAGMA foreign_keys";
    let rows = "2|two\n1|one\nok\n0\n";

    // Nothing says whose they are: they are SQLite's, and stay so whoever says what.
    assert_eq!(scratch.run(&client, ["plain", make, query], ""), rows);
    assert!(fs::read(scratch.at("plain")).unwrap().starts_with(b"SQLite format 3\0"));
    assert_eq!(scratch.run(&client, ["plain", query], "sablecat"), rows);
    assert_eq!(scratch.run(&client, ["file:plain?engine=sablecat", query], "sablecat"), rows);
    // The variable says so, or the URI; later neither needs to.
    assert_eq!(scratch.run(&client, ["shop", make, query], "sablecat"), rows);
    assert_eq!(scratch.run(&client, ["file:stall?engine=sablecat", make, query], ""), rows);
    for name in ["shop", "stall"] {
        assert!(scratch.at(name).join("sablecat.db").is_file());
        assert_eq!(scratch.run(&client, [name, query], ""), rows);
    }
    let both = [
        "shop",
        "ATTACH 'plain' AS f",
        "INSERT INTO f.t SELECT a + 10, b || '!' FROM main.t",
        "SELECT count(*) FROM f.t",
    ];
    assert_eq!(scratch.run(&client, both, ""), "4\n");
    // Keys and values beside the tables.
    let table = "CREATE VIRTUAL TABLE kv USING sablecat(words)";
    assert_eq!(
        scratch.run(&client, ["shop", table], ""),
        "error 1: there is no database \"words\" in the environment\n"
    );
    assert!(scratch.run(&client, ["plain", table], "").contains("main is no environment of sablecat"));
}

#[test]
fn what_cannot_be_opened_is_said() {
    let scratch = Scratch::new("refused");
    let client = scratch.compile_shared("client.c");
    assert_eq!(
        scratch.run(&client, ["no/such/place"], "sablecat"),
        "error 14: unable to open database file\n"
    );
    assert!(!scratch.at("no").exists());
    let said = scratch.run(&client, ["x"], "other");
    assert!(said.contains("there are sablecat and sqlite"), "{said}");
}

#[test]
fn the_archive_does_as_well() {
    let scratch = Scratch::new("static");
    let archive = installed().join("lib/libsqlite3.a");
    let description = fs::read_to_string(installed().join("lib/pkgconfig/sqlite3.pc")).unwrap();
    let private = description.lines().find_map(|line| line.strip_prefix("Libs.private: ")).unwrap();
    let mut more = vec![archive.as_os_str()];
    more.extend(private.split(' ').map(OsStr::new));
    let client = scratch.compile("client.c", &more);
    let script = ["shop", "CREATE TABLE t(a); INSERT INTO t VALUES(sqrt(16))", "SELECT * FROM t"];
    assert_eq!(scratch.run(&client, script, "sablecat"), "4.0\n");
}

#[test]
fn extensions_are_loaded_and_changes_recorded() {
    let scratch = Scratch::new("extensions");
    scratch.compile("extension.c", &["-shared".as_ref(), "-fPIC".as_ref()]);
    let client = scratch.compile_shared("client.c");
    let script = [
        "shop",
        "CREATE TABLE t(a); INSERT INTO t VALUES(21)",
        "SELECT load_extension('./extension', 'sqlite3_extension_init')",
        "SELECT twice(a) FROM t",
    ];
    assert_eq!(scratch.run(&client, script, "sablecat"), "\n42\n");

    let session = scratch.compile_shared("session.c");
    assert_eq!(scratch.run(&session, ["one", "file:two?engine=sqlite"], "sablecat"), "");
    for name in ["one", "two"] {
        assert_eq!(scratch.run(&client, [name, "SELECT * FROM t"], ""), "1|z\n3|c\n4|d\n");
    }
}

#[test]
fn it_is_loaded_and_unloaded_and_may_fork() {
    let scratch = Scratch::new("loaded");
    let library = installed().join("lib/libsqlite3.so.0");
    let loaded = scratch.compile("loaded.c", &["-ldl".as_ref()]);
    assert_eq!(scratch.run(&loaded, [library.to_str().unwrap(), "shop"], "sablecat"), "");
    let client = scratch.compile_shared("client.c");
    assert_eq!(scratch.run(&client, ["shop", "SELECT count(*) FROM t"], ""), "3\n");

    let forked = scratch.compile_shared("forked.c");
    assert_eq!(scratch.run(&forked, ["family"], "sablecat"), "");
    assert_eq!(scratch.run(&client, ["family", "SELECT group_concat(a) FROM t"], ""), "1,3,4\n");
}

#[test]
fn what_was_serialized_is_in_memory_for_who_gets_it() {
    let scratch = Scratch::new("serialized");
    let serialized = scratch.compile_shared("serialized.c");
    for (name, engine) in [("shop", "sablecat"), ("plain", "sqlite")] {
        assert_eq!(scratch.run(&serialized, [name], engine), "1,3\n1,2,1,3\n", "{engine}");
        assert_eq!(scratch.at(name).is_dir(), engine == "sablecat");
    }
    let client = scratch.compile_shared("client.c");
    assert_eq!(scratch.run(&client, ["shop", "SELECT group_concat(a) FROM t"], ""), "1,2,1,2\n");
    // SQLite opens a database that it calls x, which is not there.
    assert!(!scratch.at("x").exists());
}
