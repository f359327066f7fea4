//! The driving end of the line protocol: the systems that are compared, each run in a process of its own.
//!
//! Sablecat itself is one of them: the running program starts itself again with a hidden subcommand. The
//! others are served by `sablecat-peers`, a program of its own workspace, which is looked for in this order:
//!
//! 1. where the environment variable `SABLECAT_PEERS` says;
//! 2. next to the running program;
//! 3. in `bench/peers/target/release` of the checkout that the running program or the current directory is
//!    in.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Took;
use crate::process::Process;
use crate::protocol::{Figures, List, Mode, Request};

/// The name that our own rows have.
pub const OURS: &str = "sablecat";

/// The same in an environment that other processes could share.
pub const SHARED: &str = "sablecat-shared";

/// Our hash tables.
pub(crate) const HASH: &str = "sablecat-hash";
pub(crate) const HASH_SHARED: &str = "sablecat-hash-shared";

/// Our LSM trees.
pub(crate) const LSM: &str = "sablecat-lsm";

/// Our queues.
pub(crate) const QUEUE: &str = "sablecat-queue";
pub(crate) const QUEUE_SHARED: &str = "sablecat-queue-shared";

/// Our keys with several values.
pub(crate) const DUPS: &str = "sablecat-dups";
pub(crate) const DUPS_SHARED: &str = "sablecat-dups-shared";

/// All of ours.
pub(crate) const ALL_OURS: [&str; 9] =
    [OURS, SHARED, HASH, HASH_SHARED, LSM, QUEUE, QUEUE_SHARED, DUPS, DUPS_SHARED];

/// Whether a system is ours.
pub(crate) fn is_ours(system: &str) -> bool {
    ALL_OURS.contains(&system)
}

/// What a system is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeps {
    /// It keeps records, and finds them by their keys.
    Records,
    /// The same, in a hash table of ours, beside what is ours of the kind above.
    OwnTable,
    /// The same, in an LSM tree of ours.
    OwnLayers,
    /// It is a queue: it can be written to, and its records be taken.
    Queue,
    /// It keeps many values for each key, sorted.
    Duplicates,
}

/// What a system is asked to do.
pub(crate) fn keeps(system: &str) -> Keeps {
    match system {
        HASH | HASH_SHARED => Keeps::OwnTable,
        LSM => Keeps::OwnLayers,
        QUEUE_SHARED => Keeps::Queue,
        DUPS_SHARED => Keeps::Duplicates,
        _ if system.ends_with("-queue") => Keeps::Queue,
        _ if system.ends_with("-dups") => Keeps::Duplicates,
        _ => Keeps::Records,
    }
}

/// How long `sablecat-peers` may take to list its systems.
const LISTING: Duration = Duration::from_secs(120);

/// The disk's rows.
pub(crate) const DEVICE: &str = "device";

/// Peers worth comparing in a hurry: one of each library.
const QUICK: [&str; 8] = ["bdb", "lmdb", "leveldb", "rocksdb", "wiredtiger", "sqlite", "redb", "fjall"];

/// Whether a system promises as much as a mode asks, and so counts among the peers to be measured against.
pub(crate) fn keeps_promise(system: &str, mode: Mode) -> bool {
    // Through its map nothing orders the writes, so a crash of the machine may leave a file that cannot be
    // used.
    !(system == "lmdb-writemap" && mode == Mode::WriteNoSync)
}

/// The systems that have their files mapped.
pub(crate) const MAPS_FILES: [&str; 2] = ["lmdb", "leveldb"];

/// Whether a system has its files mapped: then its cache is the operating system's, however large a cache it
/// is given.
pub(crate) fn maps_files(system: &str) -> bool {
    MAPS_FILES.iter().any(|library| system.starts_with(library))
}

/// Whether a system can look a record up and change it in one transaction.
pub(crate) fn has_transactions(system: &str) -> bool {
    !["leveldb", "tkrzw"].iter().any(|library| system.starts_with(library))
}

/// Something that can be started to serve one system.
pub(crate) trait Contestant {
    /// As its rows are labelled.
    fn name(&self) -> &str;

    /// Whether it has anything of its own to show in a mode.
    fn takes_part(&self, mode: Mode) -> bool;

    /// Whether it operates through a cursor that stays open.
    fn by_cursor(&self) -> bool;

    /// Times the cache of the others that it needs to hold the same records.
    fn cache_scale(&self) -> u64;

    /// The page size that suits it when the cache is too small; 0: its usual one.
    fn page_size_out_of_cache(&self) -> u32;

    /// Whether its pages can have the size that a paper gives them.
    fn has_pages(&self) -> bool;

    /// Whether it can be kept from using the operating system's cache, and has one of its own instead.
    fn has_direct_io(&self) -> bool;

    /// A new process.
    fn start(&self) -> Result<Box<dyn Served>, Refusal>;
}

/// A process that serves a system. Dropping it ends the process, however it stands.
pub(crate) trait Served {
    /// Its number in the system.
    fn id(&self) -> u32;

    /// One request, one answer.
    fn ask(&mut self, request: &Request) -> Result<Figures, Refusal>;
}

/// Why there are no figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The system has nothing like it.
    Skipped(String),
    /// It could not be carried out.
    Failed(String),
    /// What was to be measured on is wrong, which is a problem whoever made it.
    Wrong(String),
}

/// Figures of what had to succeed as a whole.
pub(crate) fn flawless(figures: Figures, what: &str) -> Result<Figures, Refusal> {
    if figures.errors == 0 {
        return Ok(figures);
    }
    Err(Refusal::Wrong(format!("{what}: {} errors, first: {}", figures.errors, figures.first_error)))
}

impl Refusal {
    /// The sentence alone.
    pub(crate) fn why(self) -> String {
        match self {
            Refusal::Skipped(why) | Refusal::Failed(why) | Refusal::Wrong(why) => why,
        }
    }

    /// The same, said to have come at this stage.
    pub(crate) fn after(self, stage: &str) -> Refusal {
        match self {
            Refusal::Skipped(why) => Refusal::Skipped(format!("{stage}: {why}")),
            Refusal::Failed(why) => Refusal::Failed(format!("{stage}: {why}")),
            Refusal::Wrong(why) => Refusal::Wrong(format!("{stage}: {why}")),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Skipped(why) => write!(f, "skipped: {why}"),
            Refusal::Failed(why) => write!(f, "failed: {why}"),
            Refusal::Wrong(why) => write!(f, "wrong: {why}"),
        }
    }
}

/// A system that a program serves.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    name: String,
    command: Vec<OsString>,
    by_cursor: bool,
    /// How long its processes may take over anything; none: as long as the requests say.
    limit: Option<Duration>,
}

impl Program {
    /// One of our own; `serve` is the command line that serves the system named after it.
    pub(crate) fn own(name: &str, serve: &[OsString]) -> Program {
        let command = serve.iter().cloned().chain([name.into()]).collect();
        Program { name: name.to_owned(), command, by_cursor: false, limit: None }
    }

    fn peer(program: &Path, system: &str) -> Program {
        let command = vec![program.into(), "serve".into(), "--system".into(), system.into()];
        Program { name: system.to_owned(), command, by_cursor: false, limit: None }
    }

    /// The same, whose processes are killed after so long without an answer.
    #[cfg(test)]
    pub(crate) fn within(self, limit: Duration) -> Program {
        Program { limit: Some(limit), ..self }
    }
}

impl Contestant for Program {
    fn name(&self) -> &str {
        &self.name
    }

    fn takes_part(&self, mode: Mode) -> bool {
        match self.name.as_str() {
            DEVICE => mode == Mode::Sync,
            // A data store is one handle's.
            SHARED | HASH_SHARED => mode != Mode::Ds,
            // And merges no layers.
            LSM => mode != Mode::Ds,
            // Elsewhere it is configured as plain lmdb is.
            "lmdb-writemap" => matches!(mode, Mode::WriteNoSync | Mode::Sync),
            _ => !self.by_cursor || mode == Mode::Ds,
        }
    }

    fn by_cursor(&self) -> bool {
        self.by_cursor
    }

    fn cache_scale(&self) -> u64 {
        // It keeps a record in about 150 bytes of memory, whatever its pages are on disk.
        if self.name == "wiredtiger" { 4 } else { 1 }
    }

    fn page_size_out_of_cache(&self) -> u32 {
        // The others' are small anyway.
        if self.name.starts_with("bdb") { 4096 } else { 0 }
    }

    fn has_pages(&self) -> bool {
        // Runs that are sorted have blocks, of which a lookup reads one: those stay as small as their
        // libraries make them. LMDB's pages are the machine's, redb's 4 KiB.
        !["lmdb", "leveldb", "rocksdb", "tkrzw", "redb", "fjall"]
            .iter()
            .any(|library| self.name.starts_with(library))
    }

    fn has_direct_io(&self) -> bool {
        // Debian's Berkeley DB is built without.
        is_ours(&self.name) || ["rocksdb", "wiredtiger"].contains(&self.name.as_str())
    }

    fn start(&self) -> Result<Box<dyn Served>, Refusal> {
        Ok(Box::new(Process::start(&self.command, self.limit)?))
    }
}

/// The peers that take part, and lines about those that cannot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peers {
    pub(crate) programs: Vec<Program>,
    pub(crate) notes: Vec<String>,
    /// Those that can be run.
    pub(crate) systems: Vec<Took>,
}

impl Peers {
    /// Those that were asked for by name, or the usual ones.
    ///
    /// # Errors
    /// When a name is asked for that no system has, or any and there is no program that serves them.
    pub(crate) fn find(wanted: Option<&[String]>, quick: bool) -> Result<Peers, String> {
        if wanted.is_some_and(|names| names.is_empty()) {
            return Ok(Peers::default());
        }
        match (listed(), wanted) {
            (Ok((program, list)), _) => choose(&program, &list, wanted, quick),
            (Err(why), None) => {
                Ok(Peers { notes: vec![format!("Peers are skipped: {why}")], ..Peers::default() })
            }
            (Err(why), Some(names)) => Err(format!("no comparison with {}: {why}", names.join(", "))),
        }
    }

    /// The names of all that there are, whether or not they can be run.
    ///
    /// # Errors
    /// Why they are not known.
    pub(crate) fn names() -> Result<Vec<String>, String> {
        let (_, list) = listed()?;
        Ok(known(&list).map(str::to_owned).collect())
    }
}

/// The program that serves peers, and what it lists.
fn listed() -> Result<(PathBuf, List), String> {
    let program = locate().ok_or(
        "sablecat-peers is not built. To compare with them, install the packages that \
         bench/peers/README.md names and run: cargo build --release --manifest-path bench/peers/Cargo.toml",
    )?;
    let list = list(&program).map_err(|error| format!("{} list: {error}", program.display()))?;
    Ok((program, list))
}

/// The peers of a list.
fn known(list: &List) -> impl Iterator<Item = &str> {
    list.systems.iter().map(|listed| listed.system.as_str()).filter(|name| *name != DEVICE)
}

fn choose(program: &Path, list: &List, wanted: Option<&[String]>, quick: bool) -> Result<Peers, String> {
    let known: Vec<&str> = known(list).collect();
    let names: Vec<&str> = match wanted {
        Some(names) => names.iter().map(String::as_str).collect(),
        None if quick => known.iter().copied().filter(|name| QUICK.contains(name)).collect(),
        None => known.clone(),
    };
    let mut peers = Peers::default();
    for name in names {
        let listed = list.systems.iter().find(|listed| listed.system == name && name != DEVICE);
        let listed = listed.ok_or_else(|| format!("there is no peer {name}, only {}", known.join(", ")))?;
        if listed.available {
            let peer = Program::peer(program, name);
            // These two have calls for single records and cursors, and either may be the faster one.
            if !quick && matches!(name, "bdb" | "lmdb") {
                peers.programs.push(Program {
                    name: format!("{name}-cursor"),
                    by_cursor: true,
                    ..peer.clone()
                });
            }
            peers.programs.push(peer);
            let version = listed.version.as_deref().unwrap_or("version unknown");
            peers.notes.push(format!("{name}: {version}"));
            let (system, version) = (name.to_owned(), version.to_owned());
            peers.systems.push(Took { system, version, modes: listed.modes.clone() });
        } else {
            peers.notes.push(format!(
                "{name}: skipped: {}",
                listed.reason.as_deref().unwrap_or("it does not say why")
            ));
        }
    }
    Ok(peers)
}

fn list(program: &Path) -> Result<List, String> {
    let listing = Process::start(&[program.into(), "list".into()], Some(LISTING));
    let printed = listing.map_err(|refusal| refusal.why()).and_then(Process::all)?;
    serde_json::from_slice(&printed).map_err(|error| error.to_string())
}

fn locate() -> Option<PathBuf> {
    if let Some(path) = env::var_os("SABLECAT_PEERS") {
        // Even when there is nothing: its absence is then reported under this name.
        return Some(path.into());
    }
    let exe = env::current_exe().ok();
    let beside = exe.iter().filter_map(|exe| Some(exe.parent()?.join("sablecat-peers")));
    let in_checkout = exe.clone().into_iter().chain(env::current_dir().ok()).flat_map(|path| {
        let ancestors: Vec<PathBuf> =
            path.ancestors().map(|dir| dir.join("bench/peers/target/release/sablecat-peers")).collect();
        ancestors
    });
    beside.chain(in_checkout).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed() -> List {
        serde_json::from_str(
            r#"{"systems":[
                {"system":"bdb","available":true,"version":"5.3","modes":{"DS":"..."}},
                {"system":"lmdb-writemap","available":true,"version":"0.9"},
                {"system":"sqlite","available":false,"reason":"no header"},
                {"system":"device","available":true,"version":"4096"}]}"#,
        )
        .unwrap()
    }

    fn names(wanted: Option<&[String]>, quick: bool) -> Vec<String> {
        let peers = choose(Path::new("p"), &listed(), wanted, quick).unwrap();
        peers.programs.into_iter().map(|program| program.name).collect()
    }

    #[test]
    fn all_available_peers_take_part_unless_some_are_named() {
        assert_eq!(names(None, false), ["bdb-cursor", "bdb", "lmdb-writemap"]);
        assert_eq!(names(None, true), ["bdb"]);
        assert_eq!(names(Some(&["lmdb-writemap".to_owned()]), true), ["lmdb-writemap"]);
        let notes = choose(Path::new("p"), &listed(), None, false).unwrap().notes;
        assert_eq!(notes, ["bdb: 5.3", "lmdb-writemap: 0.9", "sqlite: skipped: no header"]);
        for unknown in ["oracle", "device"] {
            let error = choose(Path::new("p"), &listed(), Some(&[unknown.to_owned()]), false).unwrap_err();
            assert_eq!(error, format!("there is no peer {unknown}, only bdb, lmdb-writemap, sqlite"));
        }
    }

    #[test]
    fn a_variant_only_takes_part_where_it_differs() {
        let program = |name: &str, by_cursor| Program { by_cursor, ..Program::own(name, &[]) };
        assert!(program("bdb", false).takes_part(Mode::Tds));
        assert!(!program("bdb-cursor", true).takes_part(Mode::Tds));
        assert!(program("bdb-cursor", true).takes_part(Mode::Ds));
        assert!(!program("lmdb-writemap", false).takes_part(Mode::Ds));
        assert!(!program("device", false).takes_part(Mode::NoSync));
        assert!(program(SHARED, false).takes_part(Mode::Tds) && !program(SHARED, false).takes_part(Mode::Ds));
    }

    #[test]
    fn a_process_that_dies_or_babbles_has_failed() {
        let ask = |command: &[&str]| {
            let command = command.iter().map(OsString::from).collect();
            let program = Program { command, ..Program::own("x", &[]) };
            program.start().and_then(|mut served| served.ask(&Request::Close)).unwrap_err()
        };
        assert!(matches!(ask(&["/nonexistent"]), Refusal::Failed(why) if why.contains("cannot start")));
        assert!(matches!(ask(&["false"]), Refusal::Failed(why) if why.contains("exit status: 1")));
        assert!(matches!(ask(&["cat"]), Refusal::Failed(why) if why.contains("cannot be read")));
        let skipping = ask(&["sh", "-c", r#"read line; echo '{"skipped":"s"}'"#]);
        assert_eq!(skipping, Refusal::Skipped("s".to_owned()));
    }
}
