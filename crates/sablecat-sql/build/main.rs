//! Builds SQLite with a b-tree that may be sablecat's.
//!
//! SQLite's source, the amalgamation that `libsqlite3-sys` carries, is looked for where cargo has put that
//! crate (`source.rs`), taken apart at its own marks, and put together again with our dispatcher
//! (`amalgamation.rs`). Nothing of it is kept in this repository.

mod amalgamation;
mod source;

use std::path::{Path, PathBuf};
use std::{env, fs};

/// The versions that all of this was tried with. Between others the functions of `btree.h` may differ.
const TRIED: &[&str] = &["3.54.1", "3.46.1", "3.40.1"];

/// Our dispatcher, in the order in which the compiler is to see it.
const DISPATCHER: &[&str] = &[
    "c/ours.h",
    "c/opening.c",
    "c/transactions.c",
    "c/cursors.c",
    "c/around.c",
    "c/backup.c",
    "c/key_values.c",
];

/// What the library that `libsqlite3-sys` bundles is built with and what systems' libraries are, so that
/// programs find the same. That Rust programs find foreign keys enforced, and others do not, is in
/// `c/opening.c`.
const DEFINES: &[(&str, Option<&str>)] = &[
    ("SQLITE_CORE", None),
    ("SQLITE_ALLOW_ROWID_IN_VIEW", None),
    ("SQLITE_ENABLE_API_ARMOR", None),
    ("SQLITE_ENABLE_COLUMN_METADATA", None),
    ("SQLITE_ENABLE_DBSTAT_VTAB", None),
    ("SQLITE_ENABLE_FTS3", None),
    ("SQLITE_ENABLE_FTS3_PARENTHESIS", None),
    ("SQLITE_ENABLE_FTS4", None),
    ("SQLITE_ENABLE_FTS5", None),
    ("SQLITE_ENABLE_LOAD_EXTENSION", Some("1")),
    ("SQLITE_ENABLE_MATH_FUNCTIONS", None),
    ("SQLITE_ENABLE_PREUPDATE_HOOK", None),
    ("SQLITE_ENABLE_RTREE", None),
    ("SQLITE_ENABLE_SESSION", None),
    ("SQLITE_ENABLE_STAT4", None),
    ("SQLITE_ENABLE_STMTVTAB", None),
    ("SQLITE_ENABLE_UNLOCK_NOTIFY", None),
    ("SQLITE_MAX_VARIABLE_NUMBER", Some("250000")),
    ("SQLITE_SOUNDEX", None),
    ("SQLITE_THREADSAFE", Some("1")),
    ("SQLITE_USE_URI", Some("1")),
    ("HAVE_USLEEP", Some("1")),
    ("HAVE_ISNAN", Some("1")),
];

/// What an amalgamation says that was made for `UPDATE` and `DELETE` with a `LIMIT`, as systems make theirs.
const UDL_PARSER: &str = "#define SQLITE_UDL_CAPABLE_PARSER";

fn main() {
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rerun-if-changed=c");
    println!("cargo:rerun-if-env-changed={}", source::OVERRIDE);
    if let Err(reason) = build() {
        eprintln!("sablecat-sql: {reason}");
        std::process::exit(1);
    }
}

/// Cargo runs this for clippy apart from what it does for a build, and nothing is linked to what comes of it.
fn is_only_linted() -> bool {
    env::var_os("RUSTC_WORKSPACE_WRAPPER")
        .is_some_and(|wrapper| Path::new(&wrapper).ends_with("clippy-driver"))
}

fn build() -> Result<(), String> {
    let file = source::find()?;
    let text = fs::read_to_string(&file).map_err(|error| format!("reading {}: {error}", file.display()))?;
    let version = amalgamation::version(&text)
        .ok_or_else(|| format!("{} does not say its SQLITE_VERSION", file.display()))?;
    if !TRIED.contains(&version) {
        return Err(format!(
            "{} is SQLite {version}; this crate was tried with {}; take a version of libsqlite3-sys that has \
             one of these, or name a directory with its sqlite3.c in {}",
            file.display(),
            TRIED.join(", "),
            source::OVERRIDE
        ));
    }
    let mut dispatcher = String::new();
    for name in DISPATCHER {
        let part = fs::read_to_string(name).map_err(|error| format!("reading {name}: {error}"))?;
        dispatcher.push_str(&part);
    }
    let mut whole = amalgamation::with_dispatcher(&text, &dispatcher)?;
    if cfg!(feature = "mimalloc") {
        whole = amalgamation::with_mimalloc(&whole)?;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo gave no OUT_DIR")?);
    let path = out.join("sqlite3_sablecat.c");
    fs::write(&path, whole).map_err(|error| format!("writing {}: {error}", path.display()))?;
    println!("cargo:rerun-if-changed={}", file.display());
    println!("cargo:rustc-env=SABLECAT_SQLITE_VERSION={version}");
    // For those that depend on it: which version it is, and where its headers are. Mathematical functions are
    // in a library of their own.
    println!("cargo:version={version}");
    println!("cargo:source={}", file.parent().unwrap_or(Path::new(".")).display());
    println!("cargo:rustc-link-lib=m");
    if is_only_linted() {
        return Ok(());
    }

    let mut compiler = cc::Build::new();
    // In every profile: without it statements are several times as slow, and it is compiled once.
    compiler.file(&path).opt_level(2).debug(false).warnings(false);
    for (name, value) in DEFINES {
        compiler.define(name, *value);
    }
    if text.contains(UDL_PARSER) {
        compiler.define("SQLITE_ENABLE_UPDATE_DELETE_LIMIT", None);
    }
    compiler.try_compile("sablecat_sqlite").map_err(|error| format!("compiling SQLite {version}: {error}"))
}
