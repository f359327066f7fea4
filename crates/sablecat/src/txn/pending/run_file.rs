//! The file that a large write set's runs are in: one, of however many trees there are runs.
//!
//! A process has few files open at once, and others need some. So each run gets an *extent* of the one file:
//! as many bytes as it may come to have, of which it gives back what it did not need when it is finished, and
//! the rest when it is dropped. Extents that were given back are used again, the first that is large enough.
//! So the file is about as long as the runs that there were at once.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sablecat_os::disk::File;

use super::runs::SpillSettings;
use crate::crypt::{RunKey, RunKeys};
use crate::error::{Error, Result};

/// A file without a name.
#[derive(Debug)]
pub(in crate::txn) struct RunFile {
    file: Arc<dyn File>,
    /// Where it is, for errors.
    directory: PathBuf,
    keys: Option<RunKeys>,
    space: Mutex<Space>,
    /// By which the runs' filters know keys.
    hashing: RandomState,
    /// Bytes of memory that the filters have, and may have.
    memory: AtomicUsize,
    memory_max: usize,
}

/// What of a file is in no extent.
#[derive(Debug, Default)]
struct Space {
    /// Up to where there are extents.
    end: u64,
    /// Below that: where stretches begin, and how long they are. No two meet.
    free: BTreeMap<u64, u64>,
}

impl Space {
    /// Where an extent of so many bytes is to be.
    fn take(&mut self, bytes: u64) -> u64 {
        let found = self.free.iter().find(|(_, free)| **free >= bytes).map(|(&begin, &free)| (begin, free));
        let Some((begin, free)) = found else {
            self.end += bytes;
            return self.end - bytes;
        };
        self.free.remove(&begin);
        if free > bytes {
            self.free.insert(begin + bytes, free - bytes);
        }
        begin
    }

    fn give_back(&mut self, mut begin: u64, mut bytes: u64) {
        if bytes == 0 {
            return;
        }
        if let Some(behind) = self.free.remove(&(begin + bytes)) {
            bytes += behind;
        }
        if let Some((&before, &free)) = self.free.range(..begin).next_back()
            && before + free == begin
        {
            self.free.remove(&before);
            (begin, bytes) = (before, free + bytes);
        }
        if begin + bytes == self.end {
            self.end = begin;
        } else {
            self.free.insert(begin, bytes);
        }
    }
}

impl RunFile {
    pub(in crate::txn) fn make(place: &SpillSettings) -> Result<Arc<RunFile>> {
        let file = place.make_file()?;
        let keys = place.cipher.and_then(RunKeys::random);
        Ok(Arc::new(RunFile {
            file,
            directory: place.directory.clone(),
            keys,
            space: Mutex::default(),
            hashing: RandomState::new(),
            memory: AtomicUsize::new(0),
            memory_max: place.bytes_max,
        }))
    }

    /// Takes so many bytes of the memory that filters have: as much as the records in memory, and for a
    /// moment what the caller is about to give back. False if there is not so much.
    pub(super) fn take_memory(&self, bytes: usize, returning: usize) -> bool {
        let most = self.memory_max + returning;
        self.memory.fetch_add(bytes, Relaxed) + bytes <= most || {
            self.give_memory_back(bytes);
            false
        }
    }

    pub(super) fn give_memory_back(&self, bytes: usize) {
        self.memory.fetch_sub(bytes, Relaxed);
    }

    /// What a new run is enciphered with, if it is to be.
    pub(super) fn new_key(&self) -> Option<RunKey> {
        self.keys.as_ref().map(RunKeys::next)
    }

    fn space(&self) -> MutexGuard<'_, Space> {
        // Nothing that is done with it leaves it half done.
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of the file, given back when dropped.
#[derive(Debug)]
pub(in crate::txn) struct FileExtent {
    of: Arc<RunFile>,
    begin: u64,
    bytes: u64,
}

impl FileExtent {
    /// So many bytes of a file.
    pub(in crate::txn) fn take(of: &Arc<RunFile>, bytes: u64) -> FileExtent {
        let begin = of.space().take(bytes);
        FileExtent { of: Arc::clone(of), begin, bytes }
    }

    /// How many bytes it has.
    pub(in crate::txn) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives back all but the first bytes.
    pub(in crate::txn) fn cut(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.bytes, "more was written than there was to write");
        self.of.space().give_back(self.begin + bytes, self.bytes.saturating_sub(bytes));
        self.bytes = bytes;
    }

    pub(in crate::txn) fn write(&self, bytes: &[u8], at: u64) -> Result<()> {
        debug_assert!(at + bytes.len() as u64 <= self.bytes, "a write behind the extent");
        let written = self.of.file.write_at(bytes, self.begin + at);
        written.map_err(|e| Error::io("setting aside a part of a large transaction in", self.directory(), e))
    }

    /// Reads so many bytes, or as many as there are.
    pub(in crate::txn) fn read(&self, into: &mut [u8], at: u64) -> Result<usize> {
        let read = self.of.file.read_at(into, self.begin + at);
        read.map_err(|e| {
            Error::io("reading a part of a large transaction that was set aside in", self.directory(), e)
        })
    }

    /// The hash of a key, which is the same for all extents of the file.
    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        self.of.hashing.hash_one(key)
    }

    /// Where its file is.
    pub(in crate::txn) fn directory(&self) -> &Path {
        &self.of.directory
    }
}

impl Drop for FileExtent {
    fn drop(&mut self) {
        self.of.space().give_back(self.begin, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn stretches_lie_apart_and_what_is_given_back_is_used_again(
            steps in
                proptest::collection::vec((any::<bool>(), 0u64..50, any::<prop::sample::Index>()), 1..200),
        ) {
            let (mut space, mut taken) = (Space::default(), Vec::<(u64, u64)>::new());
            for (takes, bytes, which) in steps {
                if takes || taken.is_empty() {
                    let begin = space.take(bytes);
                    for &(other, len) in &taken {
                        prop_assert!(
                            begin + bytes <= other || other + len <= begin || bytes == 0 || len == 0
                        );
                    }
                    taken.push((begin, bytes));
                } else {
                    let (begin, len) = taken.swap_remove(which.index(taken.len()));
                    // Its end first, as of a run that came to have fewer.
                    let kept = bytes.min(len);
                    space.give_back(begin + kept, len - kept);
                    space.give_back(begin, kept);
                }
                let (used, free): (u64, u64) =
                    (taken.iter().map(|(_, len)| len).sum(), space.free.values().sum());
                prop_assert_eq!(used + free, space.end, "{:?} beside {:?}", space, taken);
            }
            taken.into_iter().for_each(|(begin, len)| space.give_back(begin, len));
            prop_assert_eq!((space.end, space.free.len()), (0, 0));
        }
    }
}
