//! The superblock: where a generation begins.
//!
//! ```text
//! 0   magic 16: 89 's' 'a' 'b' 'l' 'e' 'c' 'a' 't' 0D 0A 1A 0A 00 00 00
//! 16  format version u32        20  crc32c u32 (of all 4096 bytes, this field zero)
//! 24  block size u32            28  flags u32 (bit 0: closed cleanly)
//! 32  uuid 16
//! 48  generation u64            56  checkpoint LSN u64         64  log position u64
//! 72  map root block u64        80  map height u8              81  codec u8, trailer bytes u16 (codec.rs)
//! 84  page ids below this may be in use u32
//! 88  blocks high water u64     96  next tree u32
//! 100 compressor u8, level u8, zero u16                        104 page count u64
//! 112 time of the checkpoint u64, ms since 1970           120 log floor u64
//! 128 what is kept to go back: journal, epochs (keeping.rs), to 2560; zero otherwise
//! 2560 other volumes, and what is placed in them (placement.rs), to 4096; zero otherwise
//! ```
//!
//! Of the codec the lower four bits are the cipher, bit 4 says that there may be blocks compressed by LZ4,
//! bit 5 by Zstandard, in any volume, bit 6 that in some volumes blocks are not enciphered: once it does, it
//! does for ever, so that a build that cannot read them does not begin to. Compressor and level are what the
//! main volume's pages are written by at present.
//!
//! All little-endian. In version 1 the bytes from 112 on were zero, which is what an environment without a
//! journal has there; in version 2 there were no other volumes; up to version 3 blocks were named without
//! their seals (block.rs), whose bits were zero. Magic, version and checksum keep their places in every later
//! format. The magic is PNG's trick: a transfer that strips the high bit or rewrites line ends is recognised
//! for what it is.
//!
//! There are four *berths*, each for one superblock in two copies that stand far apart. Generation g is
//! written to berth g mod 2, so g - 1 is still in the other. A crash while writing therefore leaves the old
//! generation in the other berth; and neither a bit flip, nor a stretch of bad sectors, nor a write that was
//! lost, torn or done elsewhere takes both copies of the newest, which would send us back to the generation
//! before it, whose blocks may have been reused. If one of the two copies is whole, that generation counts:
//! all it names was flushed before either was written. The other two berths are for the time in which a
//! participant that was stopped may still write to one of the first two (region/berth.rs). In whatever berth
//! it is, the highest generation counts, and of one generation there is one superblock only.
//!
//! Up to version 4 there were two berths, the sectors of a superblock without a journal and other volumes
//! ended in zeros, and up to 3, and at first in 4, the second copy followed right behind the first, in the
//! same write: it is read there too.
//!
//! If no copy in a berth can be read, and none says by its sectors that it never counted, what was there may
//! have been newer than what is in the others. That is *doubt*, and is told: a process that has a log goes on
//! from the older one over the log, and loses nothing, since the blocks have seals and the log is whole or
//! says that it is not; one that has none is refused. Of the last two berths, which may never have been
//! written, both copies must be damaged for that.
//!
//! A superblock that was begun and of which one copy is there counts; and if just that copy cannot be read it
//! is *passed by*, without doubt, since nothing has been built upon it. But from then on its blocks are free,
//! and it must not be found again. So a process that opens the volume to write to it writes the one in force
//! to all berths in which something could not be read, and flushes, before anything else; where there is
//! doubt, as soon as it is decided that the older one is gone on from.

use std::path::Path;

use sablecat_os::disk::{AlignedBuf, File};

use super::bytes::{SUPERBLOCK_BYTES, u32_at, u64_at};
use super::codec::{Codec, PLAIN_MARK};
use super::compression::{self, Compression};
use super::keeping::{self, Journal, RetainedCheckpoint};
use super::map::{MapRoot, height_max};
use super::placement::{ExtraVolume, Placement};
use crate::crypt::{self, Cipher};
use crate::error::{Error, ErrorKind, Result};
use crate::pages::allocation::{RESERVED_BYTES, VolumeBounds, first_within};
use crate::region::GENERATION_MAX;
use crate::types::{BERTHS, Berth, BlockId, Lsn, SealedBlock, VolumeId};
use crate::zeros::are_zeros;

/// The format this build writes.
pub(crate) const FORMAT_VERSION: u32 = 6;
/// The oldest that it reads: older ones differ from the present one in what they cannot say.
const FORMAT_VERSION_MIN: u32 = 1;

const MAGIC: [u8; 16] = *b"\x89sablecat\r\n\x1a\n\0\0\0";
/// Where the two copies in each berth are.
pub(crate) const COPIES_AT: [[u64; 2]; BERTHS] =
    [[0, 126_976], [65_536, 8192], [61_440, 122_880], [4096, 69_632]];
const _: () = assert!(COPIES_AT[0][1] + SUPERBLOCK_BYTES as u64 == RESERVED_BYTES);
const CRC_AT: usize = 20;
const CODEC_AT: usize = 81;
const COMPRESSION_AT: usize = 100;
/// What the codec's byte says beside the cipher.
const MARKS: u8 = compression::MARKS | PLAIN_MARK;
const FLAG_CLEAN: u32 = 1;
const FLAG_JOURNAL: u32 = 2;
const FLAG_VOLUMES: u32 = 4;
/// From this version on the berth of a generation is not known by its number.
const FORMAT_VERSION_BERTHS: u32 = 5;
/// Bytes of a superblock of version 1 that are not zero throughout.
const USED_BYTES_1: usize = 112;

/// What a volume says about itself as of one checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Superblock {
    /// The volume's identity, given at creation.
    pub(crate) uuid: [u8; 16],
    /// How large its blocks are, and how they are made of pages.
    pub(crate) codec: Codec,
    /// Counts checkpoints, from 1.
    pub(crate) generation: u64,
    /// The pages hold exactly the commits at or below this.
    pub(crate) checkpoint: Lsn,
    /// Where reading the log begins.
    pub(crate) log_position: Lsn,
    /// The root of the map; none when no page exists.
    pub(crate) map_root: SealedBlock,
    /// Levels of the map: 0 when empty, 1 when the root is a leaf.
    pub(crate) map_height: u8,
    /// Page ids below this may be in use.
    pub(crate) pages_high: u32,
    /// Blocks of the main volume below this may be in use.
    pub(crate) blocks_high: u64,
    /// The next tree id to give out.
    pub(crate) tree_next: u32,
    /// Pages in use.
    pub(crate) page_count: u64,
    /// True when the environment was closed with nothing in the log after the checkpoint.
    pub(crate) clean: bool,
    /// When the checkpoint was written, in milliseconds since 1970; 0 if that is not known.
    pub(crate) time_ms: u64,
    /// The next life of the log begins here or above: everything below has been used, though the log may go
    /// on from a place before it.
    pub(crate) log_floor: Lsn,
    /// What is kept of the log and of earlier checkpoints; none: nothing.
    pub(crate) journal: Option<Journal>,
    /// Earlier checkpoints that are retained, the oldest first. Their blocks are in use.
    pub(crate) epochs: Vec<RetainedCheckpoint>,
    /// The other volumes, and what is placed in them.
    pub(crate) placement: Placement,
    /// What its sectors end in where an earlier build wrote it, if that is not what they would end in now: so
    /// that it can be written once more without a crash leaving parts of two.
    pub(crate) old_ends: Option<u64>,
}

/// What one copy turned out to be.
#[derive(Debug)]
enum Copy {
    /// With the format version that it was written as.
    Valid(Box<Superblock>, u32),
    Empty,
    /// Not written to its end when the power failed: in part still the one that was there before.
    Torn,
    /// Whole, but of a format that this build does not know. Nothing older may be used in its place.
    Unknown(String),
    Damaged(String),
}

/// What the copies in one berth turned out to be.
#[derive(Clone, Copy, Default)]
struct BerthCopies {
    valid: bool,
    torn: bool,
    damaged: usize,
}

/// The superblock to go on from, and what was found wrong on the way.
#[derive(Debug)]
pub(crate) struct Newest {
    pub(crate) superblock: Superblock,
    /// Where it is.
    pub(crate) berth: Berth,
    /// Damage that did not prevent reading: one sentence each.
    pub(crate) complaints: Vec<String>,
    /// A berth has nothing that could be read: a newer one may have been there.
    pub(crate) in_doubt: bool,
    /// Other berths of which not both copies could be read: a newer one may be there, in the one copy that
    /// was written of it, and may be read the next time.
    pub(crate) passed_by: Vec<Berth>,
}

impl Superblock {
    /// The superblock of a new, empty volume.
    pub(crate) fn initial(uuid: [u8; 16], codec: Codec) -> Superblock {
        Superblock {
            uuid,
            codec,
            generation: 1,
            checkpoint: Lsn(0),
            log_position: Lsn(0),
            map_root: SealedBlock::NONE,
            map_height: 0,
            pages_high: 1,
            blocks_high: first_within(VolumeId::MAIN, codec.block_size()),
            tree_next: 1,
            page_count: 0,
            clean: true,
            time_ms: 0,
            log_floor: Lsn(0),
            journal: None,
            epochs: Vec::new(),
            placement: Placement::default(),
            old_ends: None,
        }
    }

    /// What may be in use of each volume.
    pub(crate) fn bounds(&self) -> VolumeBounds {
        VolumeBounds::new(
            [self.blocks_high]
                .into_iter()
                .chain(self.placement.volumes.iter().map(|volume| volume.blocks_high)),
        )
    }

    /// Volumes, the main one included.
    pub(crate) fn volume_count(&self) -> usize {
        1 + self.placement.volumes.len()
    }

    /// Whether checkpoints are retained, or are going to be.
    pub(crate) fn retains(&self) -> bool {
        !self.epochs.is_empty() || self.journal.as_ref().is_some_and(|journal| journal.epochs_max > 0)
    }

    /// The checkpoint itself, as it would be retained.
    pub(crate) fn epoch(&self) -> RetainedCheckpoint {
        RetainedCheckpoint {
            generation: self.generation,
            checkpoint: self.checkpoint,
            log_position: self.log_position,
            time_ms: self.time_ms,
            map_root: self.map_root,
            map_height: self.map_height,
            pages_high: self.pages_high,
            tree_next: self.tree_next,
        }
    }

    /// The map of a retained epoch. Its blocks are within this superblock's bounds, since they are in use.
    pub(crate) fn map_of(&self, epoch: &RetainedCheckpoint) -> MapRoot {
        MapRoot {
            root: epoch.map_root,
            height: epoch.map_height,
            generation: epoch.generation,
            pages_high: epoch.pages_high,
            blocks: self.bounds(),
        }
    }

    /// The map this superblock names.
    pub(crate) fn map(&self) -> MapRoot {
        MapRoot {
            root: self.map_root,
            height: self.map_height,
            generation: self.generation,
            pages_high: self.pages_high,
            blocks: self.bounds(),
        }
    }

    /// The 4096 bytes of the module essay.
    pub(crate) fn encode(&self) -> [u8; SUPERBLOCK_BYTES] {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &MAGIC);
        put(16, &FORMAT_VERSION.to_le_bytes());
        put(24, &(self.codec.block_size() as u32).to_le_bytes());
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let has_volumes = self.placement.has_volumes();
        let flags = flag(self.clean, FLAG_CLEAN)
            | flag(self.journal.is_some(), FLAG_JOURNAL)
            | flag(has_volumes, FLAG_VOLUMES);
        put(28, &flags.to_le_bytes());
        put(32, &self.uuid);
        put(48, &self.generation.to_le_bytes());
        put(56, &self.checkpoint.0.to_le_bytes());
        put(64, &self.log_position.0.to_le_bytes());
        put(72, &self.map_root.0.to_le_bytes());
        put(80, &[self.map_height]);
        put(CODEC_AT, &[self.codec.number() | self.placement.marks]);
        put(82, &((self.codec.block_size() - self.codec.page_size()) as u16).to_le_bytes());
        put(84, &self.pages_high.to_le_bytes());
        put(88, &self.blocks_high.to_le_bytes());
        put(96, &self.tree_next.to_le_bytes());
        put(COMPRESSION_AT, &self.placement.compression.parts());
        put(104, &self.page_count.to_le_bytes());
        put(112, &self.time_ms.to_le_bytes());
        put(120, &self.log_floor.0.to_le_bytes());
        keeping::encode(&mut bytes, self.journal.as_ref(), &self.epochs);
        if has_volumes {
            self.placement.encode(&mut bytes);
        }
        keeping::seal_sectors(&mut bytes, self.generation, self.old_ends);
        seal(&mut bytes);
        bytes
    }

    /// Reads an encoded superblock.
    ///
    /// # Errors
    /// A sentence saying what is wrong with the bytes.
    pub(crate) fn decode(bytes: &[u8]) -> std::result::Result<Superblock, String> {
        match decode(bytes) {
            Copy::Valid(superblock, _) => Ok(*superblock),
            Copy::Empty => Err("all zeroes".into()),
            Copy::Torn => Err("parts of two".into()),
            Copy::Unknown(why) | Copy::Damaged(why) => Err(why),
        }
    }

    /// The generation that comes after.
    ///
    /// # Errors
    /// `Exhausted` if there is none.
    pub(crate) fn next_generation(&self) -> Result<u64> {
        if self.generation < GENERATION_MAX {
            return Ok(self.generation + 1);
        }
        Err(Error::exhausted("the volume has used up its generations"))
    }

    /// That there are more generations left than can be used up before the environment is opened again.
    ///
    /// # Errors
    /// `Exhausted` if not.
    pub(crate) fn check_generations_left(&self) -> Result<()> {
        if self.generation <= GENERATION_MAX / 2 {
            return Ok(());
        }
        Err(Error::exhausted(format!(
            "the volume has too few generations left after {}; copy the environment into a new one \
             (`sablecat restore`)",
            self.generation
        )))
    }

    /// The conditions that every valid superblock meets.
    fn check(&self) -> std::result::Result<(), String> {
        let (block_size, page_size) = (self.codec.block_size(), self.codec.page_size());
        let first = first_within(VolumeId::MAIN, block_size);
        if !(1..=GENERATION_MAX).contains(&self.generation) {
            return Err(format!("generation {} is not from 1 to {GENERATION_MAX}", self.generation));
        }
        let highest = BlockId::WITHIN_MAX;
        if self.blocks_high < first || self.blocks_high > highest {
            return Err(format!(
                "block high-water mark {} is not from {first} to {highest}",
                self.blocks_high
            ));
        }
        for (number, ExtraVolume { blocks_high, generation, .. }) in self.placement.numbered() {
            let first = first_within(number, block_size);
            if *blocks_high < first || *blocks_high > highest || *generation > self.generation {
                return Err(format!(
                    "volume {number} of generation {generation}, with blocks below {blocks_high}"
                ));
            }
        }
        if self.map_height > height_max(page_size) {
            return Err(format!("a map of {} levels", self.map_height));
        }
        let root = self.map_root.block();
        if (self.map_height == 0) != (self.map_root == SealedBlock::NONE) {
            return Err(format!("a map of {} levels with its root in block {root}", self.map_height));
        }
        let is_root =
            |named: SealedBlock| named.is_possible() && (first..self.blocks_high).contains(&named.block().0);
        if self.map_height > 0 && !is_root(self.map_root) {
            return Err(format!("map root block {root} is not from {first} to {}", self.blocks_high - 1));
        }
        if self.log_position > self.checkpoint || self.checkpoint >= Lsn::END || self.log_floor >= Lsn::END {
            return Err(format!(
                "a log from {} on, or above {}, for a checkpoint at {}",
                self.log_position, self.log_floor, self.checkpoint
            ));
        }
        if self.page_count > u64::from(self.pages_high) {
            return Err(format!("{} pages with ids below {}", self.page_count, self.pages_high));
        }
        let mut before = None;
        for epoch in &self.epochs {
            let ordered = before.is_none_or(|before: &RetainedCheckpoint| {
                before.generation < epoch.generation && before.checkpoint <= epoch.checkpoint
            });
            if !ordered
                || epoch.generation == 0
                || epoch.generation >= self.generation
                || epoch.checkpoint > self.checkpoint
                || epoch.log_position > epoch.checkpoint
                || epoch.map_height == 0
                || epoch.map_height > height_max(page_size)
                || !is_root(epoch.map_root)
            {
                return Err(format!("the retained epoch of generation {} cannot be", epoch.generation));
            }
            before = Some(epoch);
        }
        Ok(())
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    let sum = crc32c::crc32c(&bytes[..CRC_AT]);
    let sum = crc32c::crc32c_append(sum, &[0; 4]);
    crc32c::crc32c_append(sum, &bytes[CRC_AT + 4..])
}

/// Puts the checksum of a superblock into it.
pub(crate) fn seal(bytes: &mut [u8]) {
    let sum = checksum(bytes);
    bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&sum.to_le_bytes());
}

/// What `bytes` are; any bytes of any length.
fn decode(bytes: &[u8]) -> Copy {
    if are_zeros(bytes) {
        return Copy::Empty;
    }
    let Some(bytes) = bytes.first_chunk::<SUPERBLOCK_BYTES>() else {
        return Copy::Damaged(format!("only {} bytes of it are there", bytes.len()));
    };
    let (found, expected) = (u32_at(bytes, CRC_AT), checksum(bytes));
    // What a crash leaves begins as one of the two, or was never written.
    let begins = bytes[..16] == MAGIC || bytes[..16] == [0; 16];
    if found != expected && begins && keeping::is_torn(bytes) {
        return Copy::Torn;
    }
    if bytes[..16] != MAGIC {
        return Copy::Damaged(wrong_magic(bytes).into());
    }
    if found != expected {
        return Copy::Damaged(format!("its checksum is {found:08x}, its content gives {expected:08x}"));
    }
    let version = u32_at(bytes, 16);
    if !(FORMAT_VERSION_MIN..=FORMAT_VERSION).contains(&version) {
        return Copy::Unknown(format!(
            "the volume has format version {version}; this build reads versions {FORMAT_VERSION_MIN} to \
             {FORMAT_VERSION}"
        ));
    }
    let unknown = || {
        Copy::Unknown(
            "the volume uses parts of the format that this build does not know; use a newer build".into(),
        )
    };
    let flags = u32_at(bytes, 28);
    let later_part = match version {
        1 => flags & FLAG_JOURNAL != 0 || !are_zeros(&bytes[USED_BYTES_1..]),
        2 => flags & FLAG_VOLUMES != 0,
        _ => false,
    };
    if later_part {
        return unknown();
    }
    let (journal, epochs) = match (flags & FLAG_JOURNAL != 0).then(|| keeping::decode(bytes)) {
        None => (None, Vec::new()),
        Some(Ok((journal, epochs))) => (Some(journal), epochs),
        Some(Err(why)) => return Copy::Damaged(why),
    };
    let marks = bytes[CODEC_AT] & MARKS;
    let Some(compression) = Compression::of_parts([bytes[COMPRESSION_AT], bytes[COMPRESSION_AT + 1]]) else {
        return unknown();
    };
    let placement = match (flags & FLAG_VOLUMES != 0).then(|| Placement::decode(bytes, marks)) {
        None => Placement { compression, marks, ..Placement::default() },
        Some(Ok(placement)) => Placement { compression, ..placement },
        Some(Err(why)) => return Copy::Damaged(why),
    };
    if compression.mark() & !marks != 0 {
        return unknown();
    }
    if let Some(name) = compression::missing(marks) {
        return Copy::Unknown(format!(
            "blocks of the volume may be compressed by {name}, which this build does not have; use a build \
             with the feature `{name}`"
        ));
    }
    // Checked before the sizes: a codec may have others.
    let cipher = match bytes[CODEC_AT] & !MARKS {
        0 if marks & PLAIN_MARK != 0 => {
            return Copy::Damaged("volumes that are not encrypted, as if others were".into());
        }
        0 => None,
        number => match Cipher::of_number(number) {
            None => {
                return Copy::Unknown(format!(
                    "the volume's blocks are made by codec {number}, which this build does not know; use a \
                     newer build"
                ));
            }
            Some(cipher) if !crypt::IS_BUILT_IN => {
                return Copy::Unknown(format!(
                    "the volume is encrypted ({}), and this build has no encryption; use a build with the \
                     feature `encryption`",
                    cipher.name()
                ));
            }
            cipher => cipher,
        },
    };
    let trailer_bytes = usize::from(u16::from_le_bytes([bytes[82], bytes[83]]));
    let block_size = u32_at(bytes, 24) as usize;
    let codec = match cipher {
        None => Codec::new(block_size, trailer_bytes),
        cipher => Codec::of_cipher(block_size, cipher),
    };
    let codec = match codec {
        Ok(codec) => codec,
        Err(why) => return Copy::Damaged(why),
    };
    let mut superblock = Superblock {
        uuid: std::array::from_fn(|n| bytes[32 + n]),
        codec,
        generation: u64_at(bytes, 48),
        checkpoint: Lsn(u64_at(bytes, 56)),
        log_position: Lsn(u64_at(bytes, 64)),
        map_root: SealedBlock(u64_at(bytes, 72)),
        map_height: bytes[80],
        pages_high: u32_at(bytes, 84),
        blocks_high: u64_at(bytes, 88),
        tree_next: u32_at(bytes, 96),
        page_count: u64_at(bytes, 104),
        clean: flags & FLAG_CLEAN != 0,
        time_ms: u64_at(bytes, 112),
        log_floor: Lsn(u64_at(bytes, 120)),
        journal,
        epochs,
        placement,
        old_ends: None,
    };
    if let Err(why) = superblock.check() {
        return Copy::Damaged(why);
    }
    let sealed = |named: SealedBlock| named.seal() != 0;
    if version < 4
        && (sealed(superblock.map_root) || superblock.epochs.iter().any(|epoch| sealed(epoch.map_root)))
    {
        return unknown();
    }
    // Whatever else is in the bytes would not be in those of this superblock.
    let mut again = superblock.encode();
    if again[SUPERBLOCK_BYTES - 8..] != bytes[SUPERBLOCK_BYTES - 8..] {
        superblock.old_ends = Some(u64_at(bytes, SUPERBLOCK_BYTES - 8));
        again = superblock.encode();
    }
    again[16..24].copy_from_slice(&bytes[16..24]);
    if again == *bytes { Copy::Valid(Box::new(superblock), version) } else { unknown() }
}

fn wrong_magic(bytes: &[u8]) -> &'static str {
    if bytes[..9] == *b"\x09sablecat" {
        "the high bit of its bytes was stripped; the file came through a 7-bit transfer"
    } else if bytes[..9] == MAGIC[..9] {
        "its line ends were changed; the file came through a transfer in text mode"
    } else {
        "it does not begin as a sablecat volume does"
    }
}

/// Finds the superblock of the newest complete generation.
///
/// # Errors
/// Corruption when no copy is valid, with what is wrong with each, or when two disagree about the volume's
/// identity; invalid when the volume is of another format version.
pub(crate) fn read_newest(file: &dyn File, path: &Path) -> Result<Newest> {
    let mut newest: Option<(Superblock, Berth)> = None;
    let mut complaints = Vec::new();
    let mut buffer = AlignedBuf::new(SUPERBLOCK_BYTES);
    let (mut useless, mut looked, mut unread) = (0, 0, None);
    let mut berths = [BerthCopies::default(); BERTHS];
    for (berth, at) in Berth::all().flat_map(|berth| COPIES_AT[berth.index()].map(|at| (berth, at))) {
        looked += 1;
        let length = match file.read_at(&mut buffer, at) {
            Ok(length) => length,
            Err(error) => {
                berths[berth.index()].damaged += 1;
                complaints.push(format!("superblock at byte {at}: it cannot be read: {error}"));
                unread = Some(error);
                continue;
            }
        };
        match decode(&buffer[..length.min(SUPERBLOCK_BYTES)]) {
            Copy::Valid(found, version) => {
                // Where it would be written to again.
                let berth =
                    if version < FORMAT_VERSION_BERTHS { Berth::usual(found.generation) } else { berth };
                berths[berth.index()].valid = true;
                if let Some((other, _)) = &newest
                    && (other.uuid != found.uuid || other.codec != found.codec)
                {
                    return Err(Error::corruption(format!(
                        "{}: its superblocks are of two different volumes; parts of two files were put \
                         together",
                        path.display()
                    )));
                }
                if newest.as_ref().is_none_or(|(other, _)| other.generation < found.generation) {
                    newest = Some((*found, berth));
                }
            }
            Copy::Empty => useless += 1,
            // It never counted.
            Copy::Torn => {
                useless += 1;
                berths[berth.index()].torn = true;
            }
            Copy::Unknown(why) => return Err(Error::invalid(format!("{}: {why}", path.display()))),
            Copy::Damaged(why) => {
                complaints.push(format!("superblock at byte {at}: {why}"));
                berths[berth.index()].damaged += 1;
            }
        }
    }
    // The usual berths have both been written since the second generation.
    let is_written = newest.as_ref().is_some_and(|(newest, _)| newest.generation > 1);
    let in_doubt = Berth::all().zip(&berths).any(|(berth, seen)| {
        let is_lost =
            if berth.is_usual() { seen.damaged > 0 || is_written && !seen.torn } else { seen.damaged == 2 };
        !seen.valid && is_lost
    });
    match (newest, unread) {
        // What cannot be read now may be there the next time.
        (_, Some(error)) if in_doubt => Err(Error::io("reading the superblock of", path, error)),
        (Some((superblock, berth)), _) => {
            let is_passed_by = |&(other, seen): &(Berth, &BerthCopies)| other != berth && seen.damaged > 0;
            let passed_by = Berth::all().zip(&berths).filter(is_passed_by).map(|(berth, _)| berth).collect();
            Ok(Newest { superblock, berth, complaints, in_doubt, passed_by })
        }
        (None, _) if useless == looked => Err(Error::corruption(format!(
            "{} is not a sablecat volume: it has no superblock",
            path.display()
        ))),
        (None, _) => Err(Error::corruption(format!(
            "{}: no superblock is valid: {}",
            path.display(),
            complaints.join("; ")
        ))),
    }
}

/// Whether a superblock is in a file, in one copy at least, and no newer one.
///
/// # Errors
/// Those of the file.
pub(crate) fn is_newest(file: &dyn File, path: &Path, superblock: &Superblock) -> Result<bool> {
    match read_newest(file, path) {
        Ok(newest) => Ok(newest.superblock == *superblock),
        Err(error) if error.kind() == ErrorKind::Io => Err(error),
        // There is none, or one of another format.
        Err(_) => Ok(false),
    }
}

/// Writes both copies of a superblock to a berth, each by itself. It counts once a flush has followed.
///
/// # Errors
/// Those of the file. What was in the berth may be lost then; the others are untouched. Corruption, with
/// nothing written, if it would not be valid: it was built upon one that is not what it says.
pub(crate) fn write(file: &dyn File, path: &Path, superblock: &Superblock, berth: Berth) -> Result<()> {
    let encoded = superblock.encode();
    if !matches!(decode(&encoded), Copy::Valid(..)) {
        return Err(Error::corruption(format!(
            "{}: what follows from its superblock could not be read back, so it is not written; restore the \
             environment from a backup",
            path.display()
        )));
    }
    let mut buffer = AlignedBuf::new(SUPERBLOCK_BYTES);
    buffer.copy_from_slice(&encoded);
    COPIES_AT[berth.index()].into_iter().try_for_each(|at| {
        // A call for each: what goes wrong with one write goes wrong with one copy.
        file.write_at(&buffer, at).map_err(|e| Error::io("writing the superblock of", path, e))
    })
}
