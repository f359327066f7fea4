//! Whose a database is, and the environments that connections of this process have open.

use std::collections::HashMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::{env, fs};

use sablecat::{Env, Result};

use crate::failure::Failure;

/// The variable that says whose new databases are, if their URI does not.
const VARIABLE: &str = "SABLECAT_SQLITE_ENGINE";
/// The file by which a directory is known to have an environment in it.
const VOLUME: &str = "sablecat.db";

/// What SQLite says of how a database is to be opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'w> {
    pub(crate) path: &'w Path,
    /// The parameter of the URI, if there is one.
    pub(crate) engine: Option<&'w str>,
    pub(crate) create: bool,
}

/// An environment, as all connections of this process to it have it.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) env: Env,
}

/// The environments that are open, by their directories, and in which process.
#[derive(Debug, Default)]
struct Open {
    process: u32,
    by_path: HashMap<PathBuf, Weak<Shared>>,
}

static OPEN: Mutex<Option<Open>> = Mutex::new(None);

fn open_ones() -> MutexGuard<'static, Option<Open>> {
    // What a panic left is a map all the same.
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether an environment is in a directory.
pub(crate) fn is_there(path: &Path) -> bool {
    path.join(VOLUME).exists()
}

/// Whether a database is ours.
pub(crate) fn is_ours(wanted: Wanted<'_>) -> std::result::Result<bool, Failure> {
    let variable = env::var(VARIABLE).ok();
    let by_name = match wanted.engine.or(variable.as_deref()) {
        None | Some("" | "sqlite") => false,
        Some("sablecat") => true,
        Some(other) => {
            return Err(Failure::cannot_open(format!(
                "opening {} with the engine {other:?}; there are sablecat and sqlite",
                wanted.path.display()
            )));
        }
    };
    let Ok(there) = fs::metadata(wanted.path) else {
        // Programs that only know SQLite want no directories above the database made.
        let is_placed = || wanted.path.parent().is_none_or(|above| above == Path::new("") || above.is_dir());
        return Ok(by_name && wanted.create && (wanted.engine.is_some() || is_placed()));
    };
    if !there.is_dir() {
        return Ok(false);
    }
    let has_one = is_there(wanted.path);
    let is_empty = || fs::read_dir(wanted.path).is_ok_and(|mut entries| entries.next().is_none());
    Ok(has_one && wanted.engine != Some("sqlite") || by_name && wanted.create && is_empty())
}

/// The environment in a directory: the one that is open in this process, or newly opened, and shared with
/// other processes.
pub(crate) fn shared(path: &Path, create: bool) -> Result<Arc<Shared>> {
    let mut open_ones = open_ones();
    // Those of the process that this one was forked from are of no use here.
    let process = std::process::id();
    let open_ones = match &mut *open_ones {
        Some(open) if open.process == process => open,
        other => other.insert(Open { process, ..Open::default() }),
    };
    let open_ones = &mut open_ones.by_path;
    if let Some(open) = fs::canonicalize(path).ok().and_then(|path| open_ones.get(&path)?.upgrade()) {
        return Ok(open);
    }
    let env = Env::builder().shared(true).create(create).open(path)?;
    let open = Arc::new(Shared { env });
    if let Ok(path) = fs::canonicalize(path) {
        open_ones.retain(|_, other| other.strong_count() > 0);
        open_ones.insert(path, Arc::downgrade(&open));
    }
    Ok(open)
}

/// Gives an environment back. The last to give it back closes it, before anybody else may open it again.
pub(crate) fn give_back(shared: Arc<Shared>) {
    let _open_ones = open_ones();
    drop(shared);
}

/// Whether a text ends with the end of a statement: a semicolon outside strings, names, comments and trigger
/// bodies. For a program that reads lines and needs to know whether another one belongs to the statement.
///
/// ```
/// assert!(sablecat_sql::is_complete("SELECT 1; -- all of it\n"));
/// assert!(!sablecat_sql::is_complete("SELECT ';"));
/// ```
pub fn is_complete(sql: &str) -> bool {
    // What is behind a zero nobody would see.
    CString::new(sql).is_ok_and(|sql| {
        // SAFETY: a string that ends; it is only looked at.
        unsafe { libsqlite3_sys::sqlite3_complete(sql.as_ptr()) != 0 }
    })
}

/// The URI with which SQLite opens the environment in a directory, or creates one there.
///
/// ```
/// assert_eq!(sablecat_sql::uri("my data/shop"), "file:my%20data/shop?engine=sablecat");
/// ```
pub fn uri(directory: impl AsRef<Path>) -> String {
    let mut uri = String::from("file:");
    for byte in directory.as_ref().as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => {
                uri.push(char::from(*byte))
            }
            _ => uri.push_str(&format!("%{byte:02x}")),
        }
    }
    uri + "?engine=sablecat"
}

/// The environment in a directory, for databases of keys and values in addition to those of SQL: the one that
/// connections of this process have open, or else opened as they open it. It must exist.
///
/// # Errors
/// As [`Builder::open`](sablecat::Builder::open).
pub fn environment(directory: impl AsRef<Path>) -> Result<Env> {
    let shared = shared(directory.as_ref(), false)?;
    let env = shared.env.clone();
    give_back(shared);
    Ok(env)
}
