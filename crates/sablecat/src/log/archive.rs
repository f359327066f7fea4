//! The archive: segments that recovery does not need any more, kept so that the environment can be taken
//! back, or its history looked at.
//!
//! ```text
//! <journal directory>/<when it was archived, UTC>-<number, 16 hex digits>.journal
//! for example         20261121T170405Z-000000000000002a.journal
//! ```
//!
//! Archiving is renaming: the file is the segment, header and all. What its predecessor is the header says:
//! within a life the segment with the number before, and for the first one of a life that which holds the LSN
//! at which the life before ended (`continues`). No LSN and no number is given twice, so the chain is
//! unambiguous ([`super::scan`] follows it).
//!
//! A rename is there as a whole or not at all, so a process that finds a segment where it was archives it
//! again. The last segment of a life is cut to what it holds first: a short life costs what it logged, not a
//! segment.
//!
//! Prewritten files that are archived do not come back as spares, so all segments of an archived log are
//! written twice, once with zeros. The supply turn does that, ahead of the tail and off the commit path, as
//! for a log that is growing.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sablecat_os::calendar::Moment;
use sablecat_os::disk::{Disk, File, How};

use super::name::segment_in_name;
use crate::error::{Error, Result};

/// Where archived segments are.
#[derive(Debug)]
pub(super) struct Archive {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    /// What was there when last looked for: a reader of a long log does not list it once a segment. A segment
    /// that is archived stays so under its name until it is removed.
    seen: Mutex<Vec<Archived>>,
    /// Whether this process has made the directory's name last.
    lasts: AtomicBool,
}

/// An archived segment, as its name has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Archived {
    pub(super) number: u64,
    pub(super) file_name: String,
    /// When it was archived.
    pub(super) time: Moment,
}

impl Archived {
    fn parse(name: &str) -> Option<Archived> {
        let (time, number) = name.strip_suffix(".journal")?.split_once('-')?;
        let number = segment_in_name(number)?;
        // 20261121T170405Z
        let at = |range| time.get(range);
        let spread = format!(
            "{}-{}-{}T{}:{}:{}Z",
            at(0..4)?,
            at(4..6)?,
            at(6..8)?,
            at(9..11)?,
            at(11..13)?,
            at(13..15)?
        );
        let time = Moment::parse(&spread).filter(|moment| moment.compact() == time)?;
        Some(Archived { number, file_name: name.to_owned(), time })
    }
}

impl Archive {
    /// The archive in a directory, which need not exist yet.
    pub(super) fn new(disk: Arc<dyn Disk>, directory: PathBuf) -> Archive {
        Archive { disk, directory, seen: Mutex::default(), lasts: AtomicBool::new(false) }
    }

    /// Makes the directory, if there is none.
    pub(super) fn create(&self) -> Result<()> {
        self.disk
            .create_dir_all(&self.directory)
            .map_err(|e| Error::io("creating the journal directory", &self.directory, e))
    }

    /// Makes the directory's name last. Once for each process that archives: the maker of the directory may
    /// have died before this.
    pub(super) fn make_last(&self) -> Result<()> {
        if self.lasts.load(Ordering::Relaxed) {
            return Ok(());
        }
        let parent = self.directory.parent().unwrap_or(Path::new(""));
        self.disk.sync_dir(parent).map_err(|e| Error::io("flushing directory", parent, e))?;
        // Relaxed: at worst it is done twice.
        self.lasts.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// What is archived, the lowest number first. Other files in the directory are none of ours.
    pub(super) fn list(&self) -> Result<Vec<Archived>> {
        let io = |e| Error::io("listing the journal directory", &self.directory, e);
        if !self.disk.exists(&self.directory).map_err(io)? {
            return Ok(Vec::new());
        }
        let names = self.disk.list(&self.directory).map_err(io)?;
        let mut archived: Vec<_> = names.iter().filter_map(|name| Archived::parse(name)).collect();
        archived.sort_unstable_by_key(|one| one.number);
        Ok(archived)
    }

    pub(super) fn path(&self, archived: &Archived) -> PathBuf {
        self.directory.join(&archived.file_name)
    }

    /// The archived segment of a number.
    pub(super) fn find(&self, number: u64) -> Result<Option<Archived>> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |seen: &[Archived]| {
            seen.binary_search_by_key(&number, |one| one.number).ok().map(|at| seen[at].clone())
        };
        if let Some(found) = known(&seen) {
            return Ok(Some(found));
        }
        *seen = self.list()?;
        Ok(known(&seen))
    }

    pub(super) fn open(&self, archived: &Archived) -> Result<Arc<dyn File>> {
        let path = self.path(archived);
        let how = How { create: false, create_new: false, read_only: true, direct: false, durable: false };
        self.disk.open(&path, how).map_err(|e| Error::io("opening journal", &path, e))
    }

    /// Bytes of an archived file.
    pub(super) fn len(&self, archived: &Archived) -> Result<u64> {
        self.open(archived)?.len().map_err(|e| Error::io("asking the length of", &self.path(archived), e))
    }

    /// Takes a segment's file in, under the present time. Durable with [`Archive::sync`].
    pub(super) fn take_in(&self, from: &Path, number: u64, now: Moment) -> Result<()> {
        let to = self.directory.join(format!("{}-{number:016x}.journal", now.compact()));
        let tried = format!("archiving (as {}; both must be on one file system) log segment", to.display());
        self.disk.rename(from, &to).map_err(|e| Error::io(tried, from, e))
    }

    pub(super) fn remove(&self, archived: &Archived) -> Result<()> {
        let path = self.path(archived);
        self.disk.remove(&path).map_err(|e| Error::io("removing journal", &path, e))
    }

    /// Makes what was taken in and removed durable.
    pub(super) fn sync(&self) -> Result<()> {
        self.disk
            .sync_dir(&self.directory)
            .map_err(|e| Error::io("flushing the journal directory", &self.directory, e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_were_given_are_read() {
        let name = "20261121T170405Z-000000000000002a.journal";
        let archived = Archived::parse(name).expect("one of ours");
        assert_eq!((archived.number, archived.time.compact()), (42, "20261121T170405Z".to_owned()));
        for wrong in [
            "20261121T170405Z-ffffffffffffffff.journal",
            "000000000000002a.journal",
            "20261121T170405Z-2a.journal",
            "20261321T170405Z-000000000000002a.journal",
            "20261121T170405-000000000000002a.journal",
            "20261121T170405Z-000000000000002A.journal",
            "20261121T170405Z-000000000000002a.log",
            "2026112é170405Z-000000000000002a.journal",
        ] {
            assert_eq!(Archived::parse(wrong), None, "{wrong}");
        }
    }
}
