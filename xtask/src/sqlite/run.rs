//! One test file in one of the programs, in a process and a directory of its own.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use super::Failure;
use super::fixture::Fixtures;
use super::outcome::Outcome;

/// By this new databases are sablecat's.
const VARIABLE: &str = "SABLECAT_SQLITE_ENGINE";
/// In the file's directory: the cases as the shim has them, and all that was printed.
const CASES: &str = "cases.txt";
const OUTPUT: &str = "output.txt";
const ENDED: &str = "ended.txt";

/// What came of it on SQLite as it is: as it was found before, if the program is still the same.
pub(super) fn stock(fixtures: &Fixtures, file: &Path, name: &str, seconds: u32) -> Result<Outcome, Failure> {
    let place = fixtures.place.join("stock").join(name);
    let newer = |path: &Path, than: &Path| -> io::Result<bool> {
        Ok(fs::metadata(path)?.modified()? > fs::metadata(than)?.modified()?)
    };
    if newer(&place.join(ENDED), &fixtures.stock).unwrap_or(false) {
        return outcome(&place, &fs::read_to_string(place.join(ENDED))?);
    }
    run(&fixtures.stock, fixtures, file, &place, "sqlite", seconds)
}

/// What came of it over sablecat.
pub(super) fn ours(fixtures: &Fixtures, file: &Path, name: &str, seconds: u32) -> Result<Outcome, Failure> {
    let place = fixtures.place.join("ours").join(name);
    run(&fixtures.ours, fixtures, file, &place, "sablecat", seconds)
}

fn run(
    program: &Path,
    fixtures: &Fixtures,
    file: &Path,
    place: &Path,
    engine: &str,
    seconds: u32,
) -> Result<Outcome, Failure> {
    if place.exists() {
        fs::remove_dir_all(place)?;
    }
    fs::create_dir_all(place)?;
    let out = File::create(place.join(OUTPUT))?;
    // `timeout` ends what the program has started as well.
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", &seconds.to_string()]).arg(program).arg(&fixtures.shim);
    command.arg(place.join(CASES)).arg(file).current_dir(place).env(VARIABLE, engine);
    let status = command.stdin(File::open("/dev/null")?).stderr(out.try_clone()?).stdout(out).status();
    let status = status.map_err(|error| format!("running {command:?}: {error}"))?;
    let ended = match (status.code(), status.signal()) {
        (Some(0 | 1), _) => String::new(),
        // `timeout` ends as the program did, by a signal too.
        (Some(124 | 137), _) | (None, Some(9)) => format!("stopped after {seconds} seconds"),
        (Some(code), _) if code > 128 => format!("killed by signal {}", code - 128),
        (Some(code), _) => format!("exit code {code}"),
        (None, signal) => format!("killed by signal {}", signal.unwrap_or_default()),
    };
    fs::write(place.join(ENDED), &ended)?;
    let outcome = outcome(place, &ended);
    clean(place)?;
    outcome
}

fn outcome(place: &Path, ended: &str) -> Result<Outcome, Failure> {
    let text = |name: &str| -> io::Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(place.join(name))?).into_owned())
    };
    Ok(Outcome::read(&text(CASES).unwrap_or_default(), &text(OUTPUT)?, ended))
}

/// Removes the databases, and the memory of those that were killed with them open.
fn clean(place: &Path) -> io::Result<()> {
    for entry in fs::read_dir(place)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            forget(&entry.path())?;
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

fn forget(directory: &Path) -> io::Result<()> {
    if directory.join("sablecat.db").exists() {
        let about = fs::metadata(directory)?;
        // As it is in use, as it is made, and as it was set aside. Nearly always none is there.
        for end in ["", ".new", ".aside"] {
            let memory = format!("/dev/shm/sablecat-{:x}-{:x}{end}", about.dev(), about.ino());
            let _ = fs::remove_file(memory);
        }
    }
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            forget(&entry.path())?;
        }
    }
    Ok(())
}
