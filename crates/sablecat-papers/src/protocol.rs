//! The line protocol between the process that compares systems and the processes that run them.
//!
//! A process serves one system, so that its resident memory is that system's. It reads one request per line
//! of standard input, as JSON, and writes one answer per line, in order. `sablecat-peers` in bench/peers
//! speaks the same words for other stores; what only sablecat understands ([`Open::keep_log`],
//! [`Open::direct`], [`Open::image`], [`Request::Sync`], [`Request::Fill`], [`Request::Spot`]) is left out of
//! the line when it is not asked for.
//!
//! ```text
//! {"op":"open","dir":"/data/x","mode":"DS","cache_bytes":134217728,"log_buffer":8388608,"threads":1}
//! {"op":"run","kind":"write","keys":"random","records":1000000,"threads":1,"seed":1,...}
//! {"ops":1000000,"seconds":0.31,"errors":0,"rss_mb":141.2,"rss_peak_mb":141.2,"disk_mb":0.1}
//! {"op":"close"}
//! ```
//!
//! An answer is one of three: the figures of what was done, `error` (it could not be carried out: nothing was
//! measured), or `skipped` (the system has nothing like it). Failures of single operations inside a run are
//! neither: they are counted in [`Figures::errors`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::mix::Mix;
use crate::shape::Shape;
use crate::times::Times;
use crate::workload::Keys;

/// What of a store's promises is bought, from none to durable commits. The reports use the same words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// Data Store: no log, no transactions.
    #[serde(rename = "DS")]
    Ds,
    /// Transactions; used for reads.
    #[serde(rename = "TDS")]
    Tds,
    /// Transactions, with a log in memory only.
    Memory,
    /// A commit stays in the process.
    NoSync,
    /// A commit is with the operating system.
    WriteNoSync,
    /// A commit is durable when it returns.
    Sync,
    /// Commits stay in the process, and are made durable every 50 ms by a thread of its own; every 4 s there
    /// is a checkpoint.
    Background,
    /// Threads may work side by side, each operation is all or nothing, and nothing is logged.
    Unlogged,
}

impl Mode {
    /// As requests and reports spell it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Ds => "DS",
            Mode::Tds => "TDS",
            Mode::Memory => "Memory",
            Mode::NoSync => "NoSync",
            Mode::WriteNoSync => "WriteNoSync",
            Mode::Sync => "Sync",
            Mode::Background => "Background",
            Mode::Unlogged => "Unlogged",
        }
    }
}

/// The kinds of run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Fills an empty store in batches, then lets it settle.
    Load,
    /// Inserts into an empty store, one record a commit.
    Write,
    /// Gives records a new value of the same size, one record a commit.
    Update,
    /// Point lookups.
    Read,
    /// Whole scans.
    Bulk,
    /// Takes the records of a queue in their order, one a commit.
    Take,
    /// Removes records, one a commit. A later write of as many puts them back.
    Delete,
    /// Does what the run's mix says.
    Mix,
}

impl Kind {
    /// As requests and reports spell it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Load => "load",
            Kind::Write => "write",
            Kind::Update => "update",
            Kind::Read => "read",
            Kind::Bulk => "bulk",
            Kind::Take => "take",
            Kind::Delete => "delete",
            Kind::Mix => "mix",
        }
    }
}

/// A line of input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Request {
    /// Opens the store below a directory, which is created.
    Open(Open),
    /// Runs the workload on the open store.
    Run(Run),
    /// Shuts the store down cleanly.
    Close,
    /// Makes everything committed so far durable. If the process is killed afterwards, it leaves a log to
    /// replay.
    Sync,
    /// Makes a checkpoint, and waits for it.
    Checkpoint,
    /// Stores about so many bytes of 500-byte records.
    Fill {
        /// How many bytes of keys and values.
        bytes: u64,
    },
    /// Looks up some of the records that a `Fill` of the same size has stored.
    Spot {
        /// As in the `Fill`.
        bytes: u64,
    },
}

/// How to open a store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// Where; each store has a directory of its own.
    pub dir: String,
    /// With which promises.
    pub mode: Mode,
    /// The buffer pool.
    pub cache_bytes: u64,
    /// The log buffer.
    pub log_buffer: u64,
    /// 0: what suits the system best.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub page_size: u32,
    /// The most threads that any run will ask for.
    pub threads: u32,
    /// Make no checkpoint, so that the log holds everything.
    #[serde(default, skip_serializing_if = "is_false")]
    pub keep_log: bool,
    /// Bypass the operating system's cache.
    #[serde(default, skip_serializing_if = "is_false")]
    pub direct: bool,
    /// Operations will be put together to transactions, which a system may have to be opened for.
    #[serde(default, skip_serializing_if = "is_false")]
    pub transactions: bool,
    /// Where the image is of an environment that is held in `dir`, in memory. Empty: it is no such.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image: String,
}

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// What is done to the records.
    pub kind: Kind,
    /// In which order.
    #[serde(with = "KeysWord")]
    pub keys: Keys,
    /// How many records the store holds, or is to hold.
    pub records: u64,
    /// Among how many threads they are shared out.
    pub threads: u32,
    /// Of the random orders.
    pub seed: u64,
    /// The run ends early after so long; 0: never.
    pub seconds_max: f64,
    /// Of the values. Absent: 0 to write, one more than the last to update, the last to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// How often a read or bulk run goes over the records.
    pub passes: u32,
    /// Data Store only: through a cursor that stays open, in systems that have get and put calls besides.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cursor: bool,
    /// Whether to scan everything, untimed, before a read, bulk or update run.
    pub warm: bool,
    /// What the records look like.
    #[serde(default = "plain", skip_serializing_if = "Shape::is_plain")]
    pub shape: Shape,
    /// How many keys that follow each other are visited together; the number of records is a multiple of it.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub together: u64,
    /// How many records are visited, of those that there are; 0: all.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub visits: u64,
    /// Of a mix: what is done to which records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix: Option<Mix>,
    /// Of a mix: whether each operation is timed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub timed: bool,
    /// Of a mix: a checkpoint is made so long after the last one; 0: when the mode or the system says.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub checkpoint_ms: u64,
}

impl Run {
    /// How many records are visited.
    pub fn visited(&self) -> u64 {
        if self.visits == 0 { self.records } else { self.visits }
    }
}

/// [`Keys`], as it is spelt in a line.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Keys", rename_all = "lowercase")]
enum KeysWord {
    Sequential,
    Random,
}

/// A line of output.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Answer<T = Figures> {
    /// It was done.
    Done(T),
    /// It could not be carried out.
    Error {
        /// Why.
        error: String,
    },
    /// The system has nothing like it.
    Skipped {
        /// Why.
        skipped: String,
    },
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Operations finished; records visited for bulk.
    pub ops: u64,
    /// From the first thread's start to the last one's end, around the loops only; for other requests, the
    /// call.
    pub seconds: f64,
    /// Operations that failed or returned a wrong value.
    pub errors: u64,
    /// Resident now.
    pub rss_mb: f64,
    /// Resident at its highest so far.
    pub rss_peak_mb: f64,
    /// Blocks allocated to the files of the store.
    pub disk_mb: f64,
    /// Commits that opening replayed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replayed: u64,
    /// The first failure's text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub first_error: String,
    /// How long the operations took, of a run that was to be timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<Times>,
    /// Something to tell about the run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// The answer of `sablecat-peers list`.
#[derive(Clone, Debug, Deserialize)]
pub struct List {
    /// Every system that the program knows of.
    pub systems: Vec<Listed>,
}

/// A system in the list.
#[derive(Clone, Debug, Deserialize)]
pub struct Listed {
    /// Its name.
    pub system: String,
    /// Whether it can be run.
    pub available: bool,
    /// Its version, when it can.
    #[serde(default)]
    pub version: Option<String>,
    /// What each mode means in it, when it can.
    #[serde(default)]
    pub modes: BTreeMap<String, String>,
    /// Why not, when it cannot.
    #[serde(default)]
    pub reason: Option<String>,
}

fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

fn is_one(number: &u64) -> bool {
    *number == 1
}

fn one() -> u64 {
    1
}

fn plain() -> Shape {
    Shape::PLAIN
}

fn is_false(flag: &bool) -> bool {
    !flag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_for_peers_hold_only_the_shared_words() {
        let open = Request::Open(Open {
            dir: "d".into(),
            mode: Mode::WriteNoSync,
            cache_bytes: 5,
            log_buffer: 6,
            page_size: 0,
            threads: 2,
            keep_log: false,
            direct: false,
            transactions: false,
            image: String::new(),
        });
        assert_eq!(
            serde_json::to_string(&open).unwrap(),
            r#"{"op":"open","dir":"d","mode":"WriteNoSync","cache_bytes":5,"log_buffer":6,"threads":2}"#
        );
        let run = Request::Run(Run {
            kind: Kind::Bulk,
            keys: Keys::Random,
            records: 7,
            threads: 1,
            seed: 3,
            seconds_max: 0.5,
            version: None,
            passes: 4,
            cursor: false,
            warm: true,
            shape: Shape::PLAIN,
            together: 1,
            visits: 0,
            mix: None,
            timed: false,
            checkpoint_ms: 0,
        });
        let line = serde_json::to_string(&run).unwrap();
        assert_eq!(
            line,
            concat!(
                r#"{"op":"run","kind":"bulk","keys":"random","records":7,"threads":1,"seed":3,"#,
                r#""seconds_max":0.5,"passes":4,"warm":true}"#
            )
        );
        assert_eq!(serde_json::from_str::<Request>(&line).unwrap(), run);
        let Request::Run(run) = run else { unreachable!() };
        let (shape, kind) = (Shape::new(20, 100, 400, true), Kind::Delete);
        let other = Request::Run(Run { kind, shape, together: 10, visits: 20, warm: false, ..run });
        let line = serde_json::to_string(&other).unwrap();
        let end = concat!(
            r#""warm":false,"shape":{"key_bytes":20,"value_bytes_min":100,"value_bytes_max":400,"#,
            r#""scattered":1},"together":10,"visits":20}"#
        );
        assert!(line.ends_with(end), "{line}");
        assert_eq!(serde_json::from_str::<Request>(&line).unwrap(), other);
        assert_eq!(serde_json::to_string(&Request::Close).unwrap(), r#"{"op":"close"}"#);
    }

    #[test]
    fn answers_are_told_apart_by_their_members() {
        let done =
            r#"{"ops":3,"seconds":0.5,"errors":0,"rss_mb":1.0,"rss_peak_mb":2.0,"disk_mb":0.0,"note":"n"}"#;
        assert!(matches!(
            serde_json::from_str::<Answer>(done).unwrap(),
            Answer::Done(Figures { ops: 3, .. })
        ));
        assert!(matches!(serde_json::from_str::<Answer>(r#"{"error":"e"}"#).unwrap(), Answer::Error { .. }));
        assert!(matches!(
            serde_json::from_str::<Answer>(r#"{"skipped":"s"}"#).unwrap(),
            Answer::Skipped { .. }
        ));
        assert!(serde_json::from_str::<Answer>(r#"{"ops":3}"#).is_err());
    }
}
