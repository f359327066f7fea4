//! What there is to go back to: epochs, and the files of the log, old and new.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sablecat_os::calendar::Moment;

use super::{LOG, VOLUME, existing_volume};
use crate::env::config::Config;
use crate::error::{Error, Result};
use crate::log::Segments;
use crate::pages::volume::{self, Journal, Superblock, Volume};
use crate::types::Lsn;

/// A retained checkpoint that recovery can go back to (a restore point).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Epoch {
    /// Its number, which no other epoch of the environment ever has.
    pub number: u64,
    /// It holds exactly the commits at or below this.
    pub lsn: Lsn,
    /// When it was written: no later commit is in it.
    pub time: Moment,
    /// It is the last checkpoint.
    pub current: bool,
}

impl Epoch {
    pub(in crate::env) fn of(superblock: &Superblock, epoch: &volume::RetainedCheckpoint) -> Epoch {
        Epoch {
            number: epoch.generation,
            lsn: epoch.checkpoint,
            time: Moment { ms: epoch.time_ms },
            current: epoch.generation == superblock.generation,
        }
    }
}

/// A file of the log: a segment in use, or one in the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct JournalFile {
    /// Where it is.
    pub path: PathBuf,
    /// The first LSN that is in it.
    pub first: Lsn,
    /// The first LSN of the life (timeline) of the log that the file belongs to: the stretch of log between
    /// two openings of the environment.
    pub life: Lsn,
    /// The LSN at which the life before this one ended (where this timeline branched off). With `first` and
    /// `life` it identifies the file before this one: within a life, the file that ends at `first`; for the
    /// first file of a life, the file that holds this LSN.
    pub continues: Lsn,
    /// Bytes of the file.
    pub bytes: u64,
    /// When it was archived; none: it is in use.
    pub archived: Option<Moment>,
}

/// What an environment can be taken back to. See [`Builder::history`](crate::Builder::history).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct History {
    /// The settings of the journal; none if no journal is kept.
    pub journal: Option<Journal>,
    /// The epochs, the oldest first, the last checkpoint at the end.
    pub epochs: Vec<Epoch>,
    /// The log's files, the oldest first.
    pub files: Vec<JournalFile>,
}

/// The epochs of a superblock, its own checkpoint last.
pub(in crate::env) fn epochs(superblock: &Superblock) -> Vec<volume::RetainedCheckpoint> {
    superblock.epochs.iter().copied().chain([superblock.epoch()]).collect()
}

/// The files of the log of an environment with this superblock.
pub(in crate::env) fn segments(
    directory: &Path,
    config: &Config,
    superblock: &Superblock,
) -> Result<Segments> {
    let (path, encryption) = (directory.join(VOLUME), config.encryption.as_ref());
    let keys = Volume::look_at_keys(&*config.disk, &path, superblock, encryption)?;
    Ok(files_of(directory, config, superblock)?.with_keys(keys))
}

/// The same, of which no record is read.
fn files_of(directory: &Path, config: &Config, superblock: &Superblock) -> Result<Segments> {
    let archive = superblock.journal.as_ref().map(|journal| directory.join(&journal.directory));
    Segments::open(
        Arc::clone(&config.disk),
        directory.join(LOG),
        archive,
        config.log_segment_bytes,
        superblock.uuid,
    )
}

/// Looks at what an environment has kept, and changes nothing. Others may have it open.
pub(crate) fn history(directory: &Path, config: &Config) -> Result<History> {
    let directory = &config.clone().locate(directory)?;
    let path = existing_volume(directory, config)?;
    let superblock = Volume::look(&*config.disk, &path)?;
    let has_log =
        config.disk.exists(&directory.join(LOG)).map_err(|e| Error::io("looking into", directory, e))?;
    let files = if has_log { files_of(directory, config, &superblock)?.files()? } else { Vec::new() };
    let files = files.into_iter().map(|file| JournalFile {
        path: file.path,
        first: file.first,
        life: file.life,
        continues: file.continues,
        bytes: file.bytes,
        archived: file.archived,
    });
    let epochs = epochs(&superblock).iter().map(|epoch| Epoch::of(&superblock, epoch)).collect();
    Ok(History { journal: superblock.journal, epochs, files: files.collect() })
}
