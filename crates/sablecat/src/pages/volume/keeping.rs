//! What is kept so that the environment can go back: the settings of the journal, and the epochs. Part of the
//! superblock.
//!
//! ```text
//! 128 journal bytes kept u64 (0: all)       136 journal kept for u64, ms (0: for ever)
//! 144 epochs at least so far apart u64, ms  152 epochs kept for u64, ms (0: for ever)
//! 160 epochs kept u32                       164 length of the directory u16    166 number of epochs u16
//! 168 directory, UTF-8, zeros to 504
//! 512 * (1 + n / 8) + 56 * (n mod 8): epoch n
//!    0  generation u64   8 checkpoint LSN u64    16 log position u64   24 time u64, ms since 1970
//!    32 map root u64     40 page ids below u32   44 next tree u32      48 map height u8, zero 7
//! 512 * n + 504: seal of sector n, the generation of the superblock u64; also where there are other volumes
//!                (placement.rs)
//! ```
//!
//! All zero without a journal and other volumes, and then what counts lies in one sector, which disks write
//! as a whole. With one a crash may leave a superblock of which some sectors are new and some old. Their
//! seals differ, so that this is not taken for damage.
//!
//! The settings are the environment's, not a process's: a process that opens it keeps the journal on.
//!
//! An *epoch* is a checkpoint that is retained: its blocks are not reused, and the log from its position on
//! is kept, in segments or in the journal. So recovery can go back to it, and from there forward to any later
//! commit.

use std::time::Duration;

use super::bytes::{SUPERBLOCK_BYTES, u64_at};
use crate::types::{Lsn, SealedBlock};

/// Epochs that fit.
const EPOCHS_MAX: usize = 32;
const SETTINGS_AT: usize = 128;
const DIRECTORY_AT: usize = 168;
/// The longest directory.
const DIRECTORY_BYTES_MAX: usize = 300;
const EPOCH_BYTES: usize = 56;
const SECTOR: usize = 512;
const SEAL_AT: usize = 504;
const EPOCHS_A_SECTOR: usize = 8;
const _: () = assert!(
    EPOCHS_A_SECTOR * EPOCH_BYTES <= SEAL_AT && EPOCHS_MAX / EPOCHS_A_SECTOR < SUPERBLOCK_BYTES / SECTOR
);
const EPOCHS_DEFAULT: u32 = 8;

/// The settings of a journal, a log archive with which an environment can be taken back to an earlier state:
/// old log segments, in a directory, and epochs (restore points). See
/// [`Builder::journal`](crate::Builder::journal).
///
/// ```
/// use std::time::Duration;
///
/// let journal = sablecat::Journal::new()
///     .keep_for(Duration::from_secs(7 * 24 * 3600))
///     .epochs(24)
///     .epoch_spacing(Duration::from_secs(3600));
/// # let _ = journal;
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[must_use]
pub struct Journal {
    /// Where old segments go.
    pub directory: String,
    /// Bytes of old segments that are kept; 0: all.
    pub bytes_max: u64,
    /// How long old segments are kept, in milliseconds; 0: forever.
    pub age_max_ms: u64,
    /// Epochs that are retained.
    pub epochs_max: u32,
    /// The least time between two of them, in milliseconds.
    pub epoch_spacing_ms: u64,
    /// How long epochs are retained, in milliseconds; 0: until there are too many.
    pub epoch_age_max_ms: u64,
}

impl Default for Journal {
    fn default() -> Journal {
        Journal::new()
    }
}

impl Journal {
    /// All of the log is kept, in the directory `journal` of the environment, and the last 8 checkpoints are
    /// retained.
    pub fn new() -> Journal {
        Journal {
            directory: "journal".to_owned(),
            bytes_max: 0,
            age_max_ms: 0,
            epochs_max: EPOCHS_DEFAULT,
            epoch_spacing_ms: 0,
            epoch_age_max_ms: 0,
        }
    }

    /// Where old log segments go: relative to the environment's directory, and on the same file system, since
    /// they are renamed. UTF-8, up to 300 bytes. If this changes the directory of a journal, the files that
    /// it has stay in the old one; move them by hand. Default: `journal`.
    pub fn directory(mut self, directory: impl Into<String>) -> Self {
        self.directory = directory.into();
        self
    }

    /// About how many bytes of old segments are kept; more if an epoch needs them to roll forward. Default:
    /// all.
    pub fn keep_bytes(mut self, bytes: u64) -> Self {
        self.bytes_max = bytes.max(1);
        self
    }

    /// How long old segments are kept; longer if an epoch needs them to roll forward. Default: forever.
    pub fn keep_for(mut self, time: Duration) -> Self {
        self.age_max_ms = milliseconds(time).max(1);
        self
    }

    /// How many checkpoints before the last one are retained, up to 32. Each keeps the blocks that later ones
    /// replaced. Default: 8.
    pub fn epochs(mut self, count: u32) -> Self {
        self.epochs_max = count;
        self
    }

    /// The least time between two epochs: checkpoints that follow sooner are not retained. Default: none, so
    /// every checkpoint is retained.
    pub fn epoch_spacing(mut self, time: Duration) -> Self {
        self.epoch_spacing_ms = milliseconds(time);
        self
    }

    /// How long an epoch is retained. Default: until there are too many.
    pub fn keep_epochs_for(mut self, time: Duration) -> Self {
        self.epoch_age_max_ms = milliseconds(time).max(1);
        self
    }

    /// What about the settings cannot be.
    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        if self.directory.is_empty() || self.directory.len() > DIRECTORY_BYTES_MAX {
            return Err(format!(
                "a journal directory with a name of {} bytes; it must have 1 to {DIRECTORY_BYTES_MAX}",
                self.directory.len()
            ));
        }
        if self.epochs_max as usize > EPOCHS_MAX {
            return Err(format!("{} retained epochs; there can be {EPOCHS_MAX} at most", self.epochs_max));
        }
        Ok(())
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A retained checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RetainedCheckpoint {
    pub(crate) generation: u64,
    pub(crate) checkpoint: Lsn,
    pub(crate) log_position: Lsn,
    pub(crate) time_ms: u64,
    pub(crate) map_root: SealedBlock,
    pub(crate) map_height: u8,
    pub(crate) pages_high: u32,
    pub(crate) tree_next: u32,
}

impl RetainedCheckpoint {
    fn encode(&self, bytes: &mut [u8]) {
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &self.generation.to_le_bytes());
        put(8, &self.checkpoint.0.to_le_bytes());
        put(16, &self.log_position.0.to_le_bytes());
        put(24, &self.time_ms.to_le_bytes());
        put(32, &self.map_root.0.to_le_bytes());
        put(40, &self.pages_high.to_le_bytes());
        put(44, &self.tree_next.to_le_bytes());
        put(48, &[self.map_height]);
    }

    fn decode(bytes: &[u8]) -> RetainedCheckpoint {
        RetainedCheckpoint {
            generation: u64_at(bytes, 0),
            checkpoint: Lsn(u64_at(bytes, 8)),
            log_position: Lsn(u64_at(bytes, 16)),
            time_ms: u64_at(bytes, 24),
            map_root: SealedBlock(u64_at(bytes, 32)),
            pages_high: u64_at(bytes, 40) as u32,
            tree_next: (u64_at(bytes, 40) >> 32) as u32,
            map_height: bytes[48],
        }
    }
}

/// Where in a superblock the n-th epoch is.
fn epoch_at(n: usize) -> usize {
    SECTOR * (1 + n / EPOCHS_A_SECTOR) + EPOCH_BYTES * (n % EPOCHS_A_SECTOR)
}

/// Seals the sectors of the superblock of a generation, whose bytes are complete but for its checksum: with
/// the generation's lower half and a sum of all of them, unless they are to end in something else. So sectors
/// of two superblocks of one generation, both cut short, are not taken for one.
pub(super) fn seal_sectors(bytes: &mut [u8; SUPERBLOCK_BYTES], generation: u64, ends: Option<u64>) {
    let seal = ends.unwrap_or(generation << 32 | u64::from(crc32c::crc32c(bytes)));
    for sector in bytes.chunks_exact_mut(SECTOR) {
        sector[SEAL_AT..].copy_from_slice(&seal.to_le_bytes());
    }
}

/// Writes it all into the bytes of a superblock, which are zero there.
pub(super) fn encode(
    bytes: &mut [u8; SUPERBLOCK_BYTES],
    journal: Option<&Journal>,
    epochs: &[RetainedCheckpoint],
) {
    let Some(journal) = journal else {
        assert!(epochs.is_empty(), "without a journal nothing is retained");
        return;
    };
    assert!(
        journal.check().is_ok() && epochs.len() <= EPOCHS_MAX,
        "settings are checked when they are given"
    );
    for (n, epoch) in epochs.iter().enumerate() {
        epoch.encode(&mut bytes[epoch_at(n)..][..EPOCH_BYTES]);
    }
    let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
    put(SETTINGS_AT, &journal.bytes_max.to_le_bytes());
    put(SETTINGS_AT + 8, &journal.age_max_ms.to_le_bytes());
    put(SETTINGS_AT + 16, &journal.epoch_spacing_ms.to_le_bytes());
    put(SETTINGS_AT + 24, &journal.epoch_age_max_ms.to_le_bytes());
    put(SETTINGS_AT + 32, &journal.epochs_max.to_le_bytes());
    put(SETTINGS_AT + 36, &(journal.directory.len() as u16).to_le_bytes());
    put(SETTINGS_AT + 38, &(epochs.len() as u16).to_le_bytes());
    put(DIRECTORY_AT, journal.directory.as_bytes());
}

/// Whether the sectors of a superblock are of different ones.
pub(super) fn is_torn(bytes: &[u8; SUPERBLOCK_BYTES]) -> bool {
    bytes.chunks_exact(SECTOR).any(|sector| sector[SEAL_AT..] != bytes[SEAL_AT..SECTOR])
}

/// Reads what [`encode`] wrote for a superblock with a journal.
///
/// # Errors
/// What cannot be.
pub(super) fn decode(
    bytes: &[u8; SUPERBLOCK_BYTES],
) -> std::result::Result<(Journal, Vec<RetainedCheckpoint>), String> {
    let lengths = u64_at(bytes, SETTINGS_AT + 32);
    let (name, count) = (usize::from((lengths >> 32) as u16), usize::from((lengths >> 48) as u16));
    if name > DIRECTORY_BYTES_MAX || count > EPOCHS_MAX {
        return Err(format!("a journal directory of {name} bytes and {count} retained epochs"));
    }
    let directory = String::from_utf8(bytes[DIRECTORY_AT..DIRECTORY_AT + name].to_vec())
        .map_err(|_| "a journal directory that is no text")?;
    let journal = Journal {
        directory,
        bytes_max: u64_at(bytes, SETTINGS_AT),
        age_max_ms: u64_at(bytes, SETTINGS_AT + 8),
        epochs_max: lengths as u32,
        epoch_spacing_ms: u64_at(bytes, SETTINGS_AT + 16),
        epoch_age_max_ms: u64_at(bytes, SETTINGS_AT + 24),
    };
    journal.check()?;
    let epochs =
        (0..count).map(|n| RetainedCheckpoint::decode(&bytes[epoch_at(n)..][..EPOCH_BYTES])).collect();
    Ok((journal, epochs))
}
