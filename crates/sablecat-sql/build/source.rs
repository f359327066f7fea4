//! Where SQLite's source is: in the crate `libsqlite3-sys`, wherever cargo has put that.
//!
//! A crate cannot ask cargo for the directory of another. What works, in this order: a directory that the
//! user names; a neighbour, as of crates from a registry and of vendored ones; where cargo has unpacked what
//! comes from registries, by the version in the workspace's `Cargo.lock`; what `cargo metadata` says, without
//! the network, where all that any feature may need is there.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Names a directory with another `sqlite3.c`.
pub(crate) const OVERRIDE: &str = "SABLECAT_SQLITE_SOURCE";

const CRATE: &str = "libsqlite3-sys";
/// Where that crate has it.
const WITHIN: &str = "sqlite3/sqlite3.c";

/// The file of the amalgamation.
pub(crate) fn find() -> Result<PathBuf, String> {
    if let Some(directory) = env::var_os(OVERRIDE) {
        let file = Path::new(&directory).join("sqlite3.c");
        return match file.is_file() {
            true => Ok(file),
            false => Err(format!("{OVERRIDE} names {}, which has no sqlite3.c", directory.display())),
        };
    }
    let own = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or("cargo gave no CARGO_MANIFEST_DIR")?);
    if let Some(file) = own.parent().and_then(neighbour) {
        return Ok(file);
    }
    if let Some(file) = unpacked(&own) {
        return Ok(file);
    }
    let said = by_metadata(&own)?;
    match said.is_file() {
        true => Ok(said),
        false => Err(format!("{CRATE} has no {WITHIN}; name a directory with sqlite3.c in {OVERRIDE}")),
    }
}

/// The newest copy of the crate in a directory of crates.
fn neighbour(crates: &Path) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(crates)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.strip_prefix(CRATE).is_some_and(|rest| rest.is_empty() || rest.starts_with("-0."))
        })
        .map(|path| path.join(WITHIN))
        .filter(|file| file.is_file())
        .collect();
    found.sort();
    found.pop()
}

/// The copy that cargo has unpacked for this workspace.
fn unpacked(own: &Path) -> Option<PathBuf> {
    let lock = own.ancestors().map(|directory| directory.join("Cargo.lock")).find(|lock| lock.is_file())?;
    let lock = fs::read_to_string(lock).ok()?;
    let entry = lock.split("[[package]]").find(|entry| entry.contains(&format!("name = \"{CRATE}\"")))?;
    let version =
        entry.lines().find_map(|line| line.strip_prefix("version = ")).map(|v| v.trim_matches('"'))?;
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")))?;
    fs::read_dir(home.join("registry/src"))
        .ok()?
        .filter_map(|registry| Some(registry.ok()?.path().join(format!("{CRATE}-{version}")).join(WITHIN)))
        .find(|file| file.is_file())
}

fn by_metadata(own: &Path) -> Result<PathBuf, String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // Of other systems' crates, which need not have been fetched, nothing is asked.
    let target = env::var("TARGET").map_err(|_| "cargo gave no TARGET")?;
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--offline", "--filter-platform", &target])
        .arg("--manifest-path")
        .arg(own.join("Cargo.toml"))
        .output()
        .map_err(|error| format!("asking cargo where {CRATE} is: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "asking cargo where {CRATE} is: {}; name a directory with sqlite3.c in {OVERRIDE}",
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    let said: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("what cargo said of its packages: {error}"))?;
    said["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|package| package["name"] == CRATE)
        .and_then(|package| Path::new(package["manifest_path"].as_str()?).parent())
        .map(|directory| directory.join(WITHIN))
        .ok_or_else(|| format!("cargo knows of no {CRATE}; name a directory with sqlite3.c in {OVERRIDE}"))
}
