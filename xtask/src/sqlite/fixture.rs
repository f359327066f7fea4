//! The two programs: SQLite's `testfixture`, as it is and over sablecat.
//!
//! SQLite's tree is configured outside of itself, with what our library has. Cargo builds our library of the
//! same version of SQLite, as an archive of C's; `fixture.mk` compiles the rest. What is there already is not
//! built again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Failure;

/// What SQLite is built with: what our library has.
const FEATURES: &str = "-O2 -DSQLITE_ALLOW_ROWID_IN_VIEW -DSQLITE_ENABLE_API_ARMOR \
     -DSQLITE_ENABLE_COLUMN_METADATA -DSQLITE_ENABLE_DBSTAT_VTAB -DSQLITE_ENABLE_FTS3 \
     -DSQLITE_ENABLE_FTS3_PARENTHESIS -DSQLITE_ENABLE_FTS3_TOKENIZER -DSQLITE_ENABLE_FTS4 \
     -DSQLITE_ENABLE_FTS5 -DSQLITE_ENABLE_MATH_FUNCTIONS -DSQLITE_ENABLE_PREUPDATE_HOOK \
     -DSQLITE_ENABLE_RTREE -DSQLITE_ENABLE_SESSION -DSQLITE_ENABLE_STAT4 -DSQLITE_ENABLE_UNLOCK_NOTIFY \
     -DSQLITE_ENABLE_UPDATE_DELETE_LIMIT -DSQLITE_SOUNDEX -DSQLITE_USE_URI=1";

/// The programs, and where they run.
#[derive(Debug)]
pub(super) struct Fixtures {
    pub(super) stock: PathBuf,
    pub(super) ours: PathBuf,
    pub(super) shim: PathBuf,
    /// Has a directory for each file that runs.
    pub(super) place: PathBuf,
}

impl Fixtures {
    pub(super) fn build(
        repository: &Path,
        source: &Path,
        place: &Path,
        jobs: usize,
    ) -> Result<Fixtures, Failure> {
        let version = fs::read_to_string(source.join("VERSION"))
            .map_err(|error| format!("{} is no tree of SQLite's: VERSION: {error}", source.display()))?;
        let place = place.join(version.trim());
        let build = place.join("build");
        fs::create_dir_all(&build)?;
        if !build.join("Makefile").exists() {
            let mut configure = Command::new(source.join("configure"));
            run(configure.current_dir(&build).env("CFLAGS", FEATURES), &build)?;
        }
        run(Command::new("make").args(["--silent", "sqlite3.c"]).current_dir(&build), &build)?;

        let (archive, dispatched) = archive(repository, &place.join("cargo"), &build)?;
        let (makefile, shim) = (place.join("fixture.mk"), place.join("shim.tcl"));
        fs::write(&makefile, include_str!("fixture.mk"))?;
        fs::write(&shim, include_str!("shim.tcl"))?;
        let mut make = Command::new("make");
        make.arg("--silent")
            .arg(format!("-j{jobs}"))
            .arg("-f")
            .arg(&makefile)
            .arg("fixtures")
            .current_dir(&build);
        make.arg(format!("OURS={}", dispatched.display())).arg(format!("ARCHIVE={}", archive.display()));
        run(&mut make, &build)?;
        Ok(Fixtures {
            stock: build.join("testfixture-stock"),
            ours: build.join("testfixture-ours"),
            shim,
            place: place.join("run"),
        })
    }
}

/// Our library as an archive of C's, and the directory with SQLite's source as it was put together for it.
fn archive(repository: &Path, target: &Path, sqlite: &Path) -> Result<(PathBuf, PathBuf), Failure> {
    let mut cargo = Command::new(option_env!("CARGO").unwrap_or("cargo"));
    cargo.args(["build", "--release", "--package", "sablecat-sqlite3", "--lib", "--message-format=json"]);
    cargo.arg("--target-dir").arg(target).env("SABLECAT_SQLITE_SOURCE", sqlite).current_dir(repository);
    // One part of the program at a time: with it the program is linked in a fifth of the time.
    cargo.env("CARGO_PROFILE_RELEASE_LTO", "off");
    let output = cargo.output().map_err(|error| format!("running cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo build failed:\n{}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let messages = String::from_utf8(output.stdout)?;
    let mut dispatched = None;
    for message in messages.lines().filter(|line| line.contains("\"reason\":\"build-script-executed\"")) {
        let Some((_, after)) = message.split_once("\"out_dir\":\"") else { continue };
        let directory = PathBuf::from(after.split('"').next().unwrap_or_default());
        if directory.join("sqlite3_sablecat.c").exists() {
            dispatched = Some(directory);
        }
    }
    let dispatched = dispatched.ok_or("cargo has not said where sablecat-sql has put sqlite3_sablecat.c")?;
    let archive = target.join("release/libsablecat_sqlite3.a");
    match archive.exists() {
        true => Ok((archive, dispatched)),
        false => Err(format!("cargo has built no {}", archive.display()).into()),
    }
}

/// Runs a program that builds something; what it says goes to a file, to be shown if it fails.
fn run(command: &mut Command, place: &Path) -> Result<(), Failure> {
    let log = place.join("log.txt");
    let out = fs::File::create(&log)?;
    let status = command.stderr(out.try_clone()?).stdout(out).status();
    let status = status.map_err(|error| format!("running {command:?}: {error}"))?;
    if status.success() {
        return Ok(());
    }
    let said = fs::read_to_string(&log).unwrap_or_default();
    let last: Vec<&str> = said.lines().rev().take(10).collect();
    let last: Vec<&str> = last.into_iter().rev().collect();
    let program = command.get_program().display();
    Err(format!("{program} failed; the end of {}:\n{}", log.display(), last.join("\n")).into())
}
