//! The two libraries, made of the archive that rustc gives.
//!
//! rustc can make shared objects, but exports from them what is written in Rust alone, and the archive has
//! all that is written in Rust for everybody to see. So the linker puts what is needed of the archive into
//! one object, of which all but SQLite's interface is made invisible; that, by itself or as a shared object,
//! is what programs get.

use std::fmt::Display;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What the shared object is called, by which programs ask for it.
pub(crate) const SHARED: &str = "libsqlite3.so.0";
/// What Rust's library needs of the system's.
pub(crate) const SYSTEM: [&str; 5] = ["-lgcc_s", "-lpthread", "-lm", "-ldl", "-lc"];

/// What the names of SQLite's interface begin with.
const INTERFACE: [&str; 5] =
    ["sqlite3_*", "sqlite3changegroup_*", "sqlite3changeset_*", "sqlite3rebaser_*", "sqlite3session_*"];
/// By these the linker finds all the rest.
const ROOTS: [&str; 2] = ["sqlite3_open", "sablecat_sql_is_c_library"];

/// Why it cannot be done: a sentence.
pub(crate) type Failure = Box<dyn std::error::Error>;

/// What was tried, on what, and what came of it.
pub(crate) fn failed(tried: &str, on: &Path, why: impl Display) -> Failure {
    format!("{tried} {}: {why}", on.display()).into()
}

/// Makes both libraries in a directory.
pub(crate) fn make(archive: &Path, lib: &Path) -> Result<(), Failure> {
    let object = lib.join("libsqlite3.o");
    let mut one = Command::new("cc");
    one.args(["-r", "-nostdlib", "-Wl,--force-group-allocation"]);
    one.args(ROOTS.map(|root| format!("-Wl,--undefined={root}"))).arg(archive).arg("-o").arg(&object);
    run(one)?;

    let mut hide = Command::new("objcopy");
    // What rustc leaves for itself in objects of more than one crate makes other tools take them for LLVM's.
    hide.args(["--wildcard", "--strip-debug", "--remove-section=.llvmbc", "--remove-section=.llvmcmd"]);
    hide.args(INTERFACE.map(|names| format!("--keep-global-symbol={names}"))).arg(&object);
    run(hide)?;

    let whole = lib.join("libsqlite3.a");
    let _ = fs::remove_file(&whole);
    let mut keep = Command::new("ar");
    keep.arg("crs").arg(&whole).arg(&object);
    run(keep)?;

    // Another file: programs that run go on with the one that they have. It stays in memory once it is there,
    // with its threads and what it has to do when these end. It calls itself, whoever else has such names.
    let (shared, new) = (lib.join(SHARED), lib.join("libsqlite3.so.new"));
    let mut link = Command::new("cc");
    link.args(["-shared", &format!("-Wl,-soname,{SHARED}"), "-Wl,-z,nodelete", "-Wl,-Bsymbolic-functions"]);
    link.args(["-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,defs", "-Wl,--gc-sections", "-Wl,--as-needed"]);
    link.arg(&object).args(SYSTEM).arg("-o").arg(&new);
    run(link)?;
    fs::rename(&new, &shared).map_err(|error| failed("replacing", &shared, error))?;
    fs::remove_file(&object).map_err(|error| failed("removing", &object, error))
}

/// Runs one of the C compiler's programs.
fn run(mut command: Command) -> Result<(), Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| {
        format!("running {program}: {error}; a C compiler with GNU's linker, ar and objcopy is needed")
    })?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
}
