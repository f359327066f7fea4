//! The words of the line protocol: what may be asked and what is answered.
//!
//! One request is one line of JSON, and so is its answer; the answers come in order. An answer is one of
//! four: the figures of what was done, `error` (the request could not be carried out: nothing was measured),
//! or `skipped` (this build does not have the system, or the system does not have the mode). Failures of
//! single operations inside a run are neither: they are counted in `errors`.

use serde::{Deserialize, Serialize};

use crate::mix::Mix;
use crate::shape::Shape;
use crate::system::{self, Mode};
use crate::watch::Times;
use crate::workload::Keys;

/// A line of input.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub(crate) enum Request {
    /// Opens the store below a directory, which is created.
    Open(Open),
    /// Runs the workload on the open store.
    Run(Run),
    /// Shuts the store down cleanly.
    Close,
}

/// How to open a store.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Open {
    pub(crate) dir: String,
    pub(crate) mode: Mode,
    #[serde(default = "default_cache")]
    pub(crate) cache_bytes: u64,
    #[serde(default = "default_log_buffer")]
    pub(crate) log_buffer: u64,
    /// 0 or absent: what suits the system best.
    #[serde(default)]
    pub(crate) page_size: u32,
    /// The most threads that any run will ask for.
    #[serde(default = "one")]
    pub(crate) threads: u32,
    /// Without the operating system's cache, where the system can do that.
    #[serde(default)]
    pub(crate) direct: bool,
    /// Operations will be put together to transactions, which RocksDB has to be opened for.
    #[serde(default)]
    pub(crate) transactions: bool,
}

/// What to run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    pub(crate) kind: Kind,
    #[serde(default = "sequential", with = "KeysWord")]
    pub(crate) keys: Keys,
    pub(crate) records: u64,
    #[serde(default = "one")]
    pub(crate) threads: u32,
    #[serde(default)]
    pub(crate) seed: u64,
    /// 0 or absent: to the end, however long.
    #[serde(default)]
    pub(crate) seconds_max: f64,
    /// Of the values; absent: 0 to write, one more than the last to update, the last to read.
    #[serde(default)]
    pub(crate) version: Option<u32>,
    /// How often a read or bulk run goes over the records.
    #[serde(default = "one")]
    pub(crate) passes: u32,
    /// Data Store only: reads and writes through a cursor that stays open, in systems that have get and put
    /// calls besides (Berkeley DB and LMDB); others ignore it.
    #[serde(default)]
    pub(crate) cursor: bool,
    /// Whether to scan everything, untimed, before a read, bulk or update run.
    #[serde(default = "yes")]
    pub(crate) warm: bool,
    /// What the records look like.
    #[serde(default = "plain")]
    pub(crate) shape: Shape,
    /// How many keys that follow each other are visited together; the number of records is a multiple of it.
    #[serde(default = "one_of_many")]
    pub(crate) together: u64,
    /// How many records are visited, of those that there are; 0: all.
    #[serde(default)]
    pub(crate) visits: u64,
    /// Of a mix: what is done to which records.
    #[serde(default)]
    pub(crate) mix: Option<Mix>,
    /// Of a mix: whether each operation is timed.
    #[serde(default)]
    pub(crate) timed: bool,
    /// Of a mix: a checkpoint is made so long after the last one; 0: when the mode or the system says.
    #[serde(default)]
    pub(crate) checkpoint_ms: u64,
}

impl Run {
    /// How many records are visited.
    pub(crate) fn visited(&self) -> u64 {
        if self.visits == 0 { self.records } else { self.visits }
    }
}

/// The kinds of run; the numbers are C's.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
#[repr(i32)]
pub(crate) enum Kind {
    /// Fills an empty store in batches, then lets it settle.
    Load = 0,
    /// Inserts into an empty store, one record a commit.
    Write = 1,
    /// Gives records a new value of the same size, one record a commit.
    Update = 2,
    /// Point lookups.
    Read = 3,
    /// Whole scans.
    Bulk = 4,
    /// Takes the records of a queue in their order, one a commit.
    Take = 5,
    /// Removes records, one a commit. A later write of as many puts them back.
    Delete = 6,
    /// Does what the run's mix says.
    Mix = 7,
}

/// [`Keys`], as it is spelt in a request.
#[derive(Deserialize)]
#[serde(remote = "Keys", rename_all = "lowercase")]
enum KeysWord {
    Sequential,
    Random,
}

/// A line of output.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Answer {
    Done(Figures),
    Error { error: String },
    Skipped { skipped: String },
}

/// What was measured.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Figures {
    /// Operations finished; records visited for bulk.
    pub(crate) ops: u64,
    /// From the first thread's start to the last one's end, around the loops only; for open and close, the
    /// call.
    pub(crate) seconds: f64,
    /// Operations that failed or returned a wrong value.
    pub(crate) errors: u64,
    /// Resident now, and at its highest so far.
    pub(crate) rss_mb: f64,
    pub(crate) rss_peak_mb: f64,
    /// Blocks allocated to the files of the store.
    pub(crate) disk_mb: f64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) first_error: String,
    /// How long the operations took, of a run that was to be timed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) times: Option<Times>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) note: String,
}

/// The answer to `list`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct List {
    systems: Vec<Listed>,
}

/// A system in the list: with version and modes when it can be run, with a reason when it cannot.
#[derive(Clone, Debug, Serialize)]
struct Listed {
    system: &'static str,
    available: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    modes: serde_json::Map<String, serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

impl List {
    /// All systems that this program knows of.
    pub(crate) fn of_all() -> List {
        let found = system::all().map(|system| Listed {
            system: system.name,
            available: true,
            version: Some(system.peer.version()),
            modes: Mode::ALL
                .into_iter()
                .filter_map(|mode| Some((mode.name().to_owned(), system.peer.meaning(mode)?.into())))
                .collect(),
            reason: None,
        });
        let skipped = system::SKIPPED.iter().map(|&(system, reason)| Listed {
            system,
            available: false,
            version: None,
            modes: serde_json::Map::new(),
            reason: Some(reason),
        });
        List { systems: found.chain(skipped).collect() }
    }
}

fn default_cache() -> u64 {
    128 << 20
}

fn default_log_buffer() -> u64 {
    8 << 20
}

fn one() -> u32 {
    1
}

fn plain() -> Shape {
    Shape::PLAIN
}

fn one_of_many() -> u64 {
    1
}

fn yes() -> bool {
    true
}

fn sequential() -> Keys {
    Keys::Sequential
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_needs_only_what_has_no_default() {
        let request = serde_json::from_str(r#"{"op":"run","kind":"write","records":5}"#).unwrap();
        let Request::Run(run) = request else { panic!("{request:?} is not a run") };
        assert_eq!(
            (run.kind, run.keys, run.threads, run.passes, run.warm),
            (Kind::Write, Keys::Sequential, 1, 1, true)
        );
        assert!(matches!(serde_json::from_str(r#"{"op":"close"}"#).unwrap(), Request::Close));
        assert!(serde_json::from_str::<Request>(r#"{"op":"run","kind":"write"}"#).is_err());
        assert!(serde_json::from_str::<Request>(r#"{"op":"open","dir":"d","mode":"DS","cash":1}"#).is_err());
    }

    #[test]
    fn answers_of_different_kinds_have_different_members() {
        let done = serde_json::to_value(Answer::Done(Figures::default())).unwrap();
        assert_eq!(done["ops"], 0);
        assert!(done.get("first_error").is_none());
        assert_eq!(serde_json::to_string(&Answer::Error { error: "x".into() }).unwrap(), r#"{"error":"x"}"#);
    }
}
