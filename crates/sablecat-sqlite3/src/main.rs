//! `sablecat-sqlite3 DIRECTORY`: makes SQLite's C library over sablecat, and puts it there.
//!
//! ```text
//! lib/libsqlite3.so.0      for the dynamic linker
//! lib/libsqlite3.so        a link to it, for the C compiler
//! lib/libsqlite3.a
//! lib/pkgconfig/sqlite3.pc
//! include/sqlite3.h, include/sqlite3ext.h
//! ```
//!
//! The archive that cargo has built lies beside this program. Exit codes: 0, all is there; 2, it could not be
//! done, and standard error says why.

mod parts;

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use parts::{Failure, failed};

const USAGE: &str = "usage: cargo run --release -p sablecat-sqlite3 -- DIRECTORY";
/// Where the source of SQLite is that all of this was built of, and its headers.
const SOURCE: &str = env!("SQLITE_SOURCE");

fn main() -> ExitCode {
    let mut words = env::args_os().skip(1);
    let (Some(directory), None) = (words.next(), words.next()) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match install(Path::new(&directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("sablecat-sqlite3: {failure}");
            ExitCode::from(2)
        }
    }
}

fn install(directory: &Path) -> Result<(), Failure> {
    let (lib, include) = (directory.join("lib"), directory.join("include"));
    for directory in [&include, &lib.join("pkgconfig")] {
        fs::create_dir_all(directory).map_err(|error| failed("creating", directory, error))?;
    }
    parts::make(&archive()?, &lib)?;

    let link = lib.join("libsqlite3.so");
    if link.symlink_metadata().is_ok() {
        fs::remove_file(&link).map_err(|error| failed("replacing", &link, error))?;
    }
    symlink(parts::SHARED, &link).map_err(|error| failed("linking", &link, error))?;
    for header in ["sqlite3.h", "sqlite3ext.h"] {
        let from = Path::new(SOURCE).join(header);
        fs::copy(&from, include.join(header)).map_err(|error| failed("copying", &from, error))?;
    }
    let description = lib.join("pkgconfig/sqlite3.pc");
    fs::write(&description, said()).map_err(|error| failed("writing", &description, error))
}

/// The archive that was built with this program: beside it, where cargo puts what it is asked for, or where
/// it puts the rest, under names with numbers. It is the newest: what is older is of another build.
fn archive() -> Result<PathBuf, Failure> {
    let own = env::current_exe().map_err(|error| format!("finding this program: {error}"))?;
    let beside = own.parent().unwrap_or(Path::new("/"));
    let mut newest = None;
    for directory in [beside, &beside.join("deps")] {
        let Ok(entries) = fs::read_dir(directory) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("libsablecat_sqlite3") && name.ends_with(".a") {
                let modified = entry.metadata().and_then(|about| about.modified()).ok();
                newest = newest.max(Some((modified, entry.path())));
            }
        }
    }
    let (_, path) = newest.ok_or_else(|| {
        format!("looking for libsablecat_sqlite3.a in {}: there is none; {USAGE}", beside.display())
    })?;
    Ok(path)
}

/// What pkg-config is to say, wherever all of it is moved.
fn said() -> String {
    format!(
        "prefix=${{pcfiledir}}/../..\n\
         exec_prefix=${{prefix}}\n\
         libdir=${{prefix}}/lib\n\
         includedir=${{prefix}}/include\n\
         \n\
         Name: SQLite\n\
         Description: SQL database engine, with sablecat's transactions\n\
         Version: {}\n\
         Libs: -L${{libdir}} -lsqlite3\n\
         Libs.private: {}\n\
         Cflags: -I${{includedir}}\n",
        env!("SQLITE_VERSION"),
        parts::SYSTEM.join(" "),
    )
}
