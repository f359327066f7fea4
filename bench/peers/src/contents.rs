//! What the records in a directory are, kept beside the store so that a later process can go on from there.
//!
//! A read or a scan is only worth timing when it is known what it must find. This is that knowledge: how many
//! records there are and which version their values have. It is changed before and after every run that
//! writes, so a process that dies in the middle leaves a directory that is known to be unknown.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::shape::ANY_VERSION;
use crate::system::Mode;

/// The state of the records below a directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Contents {
    pub(crate) system: String,
    pub(crate) mode: Mode,
    /// How many records were asked for; 0 for an empty store.
    pub(crate) records: u64,
    /// The version that was written last.
    pub(crate) version: u32,
    pub(crate) state: State,
    /// How many of the records were removed.
    pub(crate) removed: u64,
    /// How many a mix has inserted.
    pub(crate) added: u64,
}

/// How much of what was asked for is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// All records, all of one version.
    Whole,
    /// All records, of more than one version: an update was of some, or stopped early.
    Mixed,
    /// An unknown part of the records: a write stopped early.
    Part,
}

const FILE: &str = "peer.json";

impl Contents {
    /// The version to expect where none is asked for.
    pub(crate) fn expected(&self) -> u32 {
        if self.state == State::Mixed { ANY_VERSION } else { self.version }
    }

    /// Those of a directory: what was noted there, or empty.
    pub(crate) fn read(dir: &Path, system: &str, mode: Mode) -> Result<Contents, String> {
        let text = match fs::read_to_string(dir.join(FILE)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let system = system.to_owned();
                return Ok(Contents {
                    system,
                    mode,
                    records: 0,
                    version: 0,
                    state: State::Whole,
                    removed: 0,
                    added: 0,
                });
            }
            Err(error) => return Err(format!("{}: {error}", dir.join(FILE).display())),
        };
        let contents: Contents =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", dir.join(FILE).display()))?;
        if contents.system != system || contents.mode != mode {
            let (theirs, their_mode) = (&contents.system, contents.mode.name());
            return Err(format!("{} holds a store of {theirs} in mode {their_mode}", dir.display()));
        }
        Ok(contents)
    }

    /// Notes them in the directory.
    pub(crate) fn write(&self, dir: &Path) -> Result<(), String> {
        let text = serde_json::to_string(self).map_err(|error| error.to_string())?;
        fs::write(dir.join(FILE), text).map_err(|error| format!("{}: {error}", dir.join(FILE).display()))
    }
}
