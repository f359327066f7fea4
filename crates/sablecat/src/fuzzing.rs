//! Entrances for fuzzers: bytes from disk, driven through exactly the code that they reach. Feature
//! `fuzzing`; not part of the interface.
//!
//! Each target takes any bytes and says whether the engine believed them; it panics if anything does that
//! must not. What is believed has to uphold the invariants: pages stay sound under every change, an
//! environment that opens verifies or says what is wrong. Checksums guard nearly every byte, so for each
//! target there is a function that puts them right again after a mutation.
//!
//! | target | input | drives |
//! |---|---|---|
//! | [`page`] | a page, then a key | the check of pages, and everything that is done to one or two of them |
//! | [`block`] | a block with a compressed page, then a key | making it whole, then as with a page |
//! | [`segment`] | a log segment file | the scan, records, operations, chains, replay |
//! | [`volume`] | a volume file | superblocks, map blocks, pages; opening, verifying, reading everything |

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use sablecat_os::disk::{Disk, How};
use sablecat_os::sim::{SimDisk, Survival};

use crate::access;
use crate::pages::volume::seal_block;
use crate::types::BlockId;
use crate::zeros::are_zeros;
use crate::{Compression, Durability, Env, Journal, Method, Place, Result};

/// Bytes of a page in the samples.
pub const PAGE_SIZE: usize = 512;
/// Bytes of a block in those with compressed pages.
pub const BLOCK_SIZE: usize = 8192;
/// Epochs of the sample that has some.
pub const SAMPLE_EPOCHS: usize = 3;
const SEGMENT_BYTES: u64 = 65536;
const DIRECTORY: &str = "/env";
const VOLUME: &str = "/env/sablecat.db";
const SEGMENT: &str = "/env/log/0000000000000000.log";
/// Where in a superblock the flags are, and the one that says that there is a journal.
const FLAGS_AT: usize = 28;
const FLAG_JOURNAL: u8 = 2;
/// Bytes before the blocks of a volume.
const RESERVED_BYTES: usize = 131_072;
/// Bytes before the records of a segment.
const SEGMENT_HEADER_BYTES: usize = 4096;
/// Bytes of a volume or segment that are looked at; what is longer is cut.
const FILE_BYTES_MAX: usize = 1 << 20;

/// A page, as long as a power of two allows, and after it a key: if the page passes the check, everything is
/// done to it.
pub fn page(input: &[u8]) -> bool {
    let Some(power) = input.len().min(65536).checked_ilog2().filter(|&power| power >= 9) else {
        return false;
    };
    let (page, key) = input.split_at(1 << power);
    let believed = access::check_page(page).is_ok();
    if believed {
        access::exercise(page, key);
    }
    believed
}

/// A block of a power of two of bytes, from 8192 on, that says that its page is compressed: its checksum is
/// put right, and if it is believed what comes of it goes the way of [`page`].
pub fn block(input: &[u8]) -> bool {
    let Some(power) = input.len().min(65536).checked_ilog2().filter(|&power| power >= 13) else {
        return false;
    };
    let (block, key) = input.split_at(1 << power);
    let mut block = block.to_vec();
    let Some(page) = crate::pages::volume::open_compressed(&mut block) else { return false };
    let believed = access::check_page(page).is_ok();
    if believed {
        access::exercise(page, key);
    }
    believed
}

/// Blocks with compressed pages, by each compressor that is built in.
pub fn sample_blocks() -> Vec<Vec<u8>> {
    let kinds = [Compression::Lz4, Compression::zstd(), Compression::Zstd { level: 9 }];
    let blocks = kinds.into_iter().flat_map(|how| {
        let disk = SimDisk::new(1);
        let make = || -> Result<Vec<u8>> {
            let builder = Env::builder().disk(Arc::new(disk.clone())).background(false).page_size(BLOCK_SIZE);
            let env = builder.compression(how).open(DIRECTORY)?;
            let (first, hashed) = (env.database("first")?, env.database_as("hashed", Method::Hash)?);
            for n in 0..1000u32 {
                first.insert(format!("key {:05}", n * 7919 % 10007), [n as u8; 30])?;
                hashed.insert(n.to_le_bytes(), vec![n as u8; n as usize % 100])?;
            }
            first.insert("long", vec![7; 20_000])?;
            drop((first, hashed));
            env.close()?;
            let file = disk.open(Path::new(VOLUME), How::default()).map_err(unread)?;
            let mut bytes = vec![0; file.len().map_err(unread)? as usize];
            file.read_at(&mut bytes, 0).map_err(unread)?;
            Ok(bytes)
        };
        let volume = make().unwrap_or_default();
        let blocks = volume.get(RESERVED_BYTES..).unwrap_or_default().chunks_exact(BLOCK_SIZE);
        blocks.filter(|block| block[8..12] == *b"spak").map(<[u8]>::to_vec).collect::<Vec<_>>()
    });
    blocks.collect()
}

fn unread(error: std::io::Error) -> crate::Error {
    crate::Error::io("reading", Path::new(VOLUME), error)
}

/// The file of the only log segment of an environment that was not closed.
pub fn segment(input: &[u8]) -> bool {
    open_with(&sample(Sample::Open), SEGMENT, input)
}

/// The volume of an environment that was closed.
pub fn volume(input: &[u8]) -> bool {
    let has_journal = input.get(FLAGS_AT).is_some_and(|flags| flags & FLAG_JOURNAL != 0);
    open_with(&sample(if has_journal { Sample::Journal } else { Sample::Closed }), VOLUME, input)
}

/// Puts another file into an environment, opens it and reads everything.
fn open_with(disk: &SimDisk, path: &str, input: &[u8]) -> bool {
    let write = |bytes: &[u8]| -> std::io::Result<()> {
        let file = disk.open(Path::new(path), How::default())?;
        file.set_len(0)?;
        file.write_at(bytes, 0)
    };
    write(&input[..input.len().min(FILE_BYTES_MAX)]).expect("the simulated disk has room");
    // What there is to go back to, and the last checkpoint, are read without the rest.
    let _ = builder(disk).history(DIRECTORY);
    let _ = builder(disk)
        .read_only(true)
        .open(DIRECTORY)
        .and_then(|env| env.verify(&mut |_| {}).and(read_all(&env)));
    let Ok(env) = builder(disk).open(DIRECTORY) else { return false };
    let verified = env.verify(&mut |_| {});
    let read = read_all(&env);
    if verified.is_ok_and(|report| report.problems.is_empty() && report.not_known.is_empty()) {
        read.expect("what verifies can be read");
        return true;
    }
    false
}

fn read_all(env: &Env) -> Result<()> {
    for name in env.databases()? {
        let Some(database) = env.existing_database(&name)? else { continue };
        database.visit(.., |_, _| ControlFlow::Continue(()))?;
        for record in database.range(..)?.rev() {
            record?;
        }
    }
    Ok(())
}

fn builder(disk: &SimDisk) -> crate::Builder {
    Env::builder()
        .disk(Arc::new(disk.clone()))
        .page_size(PAGE_SIZE)
        .cache_size(0)
        .log_buffer_size(SEGMENT_BYTES as usize)
        .log_segment_size(SEGMENT_BYTES)
        .background(false)
        .durability(Durability::WriteNoSync)
        .hash_seed(*b"the same in each")
}

/// Which of the small environments there are.
#[derive(Clone, Copy)]
enum Sample {
    /// Not closed.
    Open,
    /// Closed.
    Closed,
    /// Closed, with a journal and retained epochs.
    Journal,
}

/// A small environment with some of everything: trees of three levels, long values, hash tables, a chunked
/// commit in the log.
fn sample(which: Sample) -> SimDisk {
    static SAMPLES: OnceLock<[SimDisk; 3]> = OnceLock::new();
    let make = |which| make_sample(which).expect("an empty disk takes a small environment");
    let samples = SAMPLES.get_or_init(|| [Sample::Open, Sample::Closed, Sample::Journal].map(make));
    samples[which as usize].crash_as(Survival::Everything, 1)
}

fn make_sample(which: Sample) -> Result<SimDisk> {
    let disk = SimDisk::new(1);
    let builder = match which {
        Sample::Open | Sample::Closed => builder(&disk),
        Sample::Journal => builder(&disk).journal(Journal::new().epochs(SAMPLE_EPOCHS as u32)),
    };
    let env = builder.volume("one", "one.db").place(Place::database("third"), "one").open(DIRECTORY)?;
    env.database("third")?.insert("in another", "volume")?;
    let (first, second) = (env.database("first")?, env.database("second")?);
    for n in 0..if matches!(which, Sample::Open) { 120u32 } else { 1200 } {
        first.insert(format!("key {:05}", n * 7919 % 10007), [n as u8; 30])?;
    }
    for n in 0..40u8 {
        second.insert([n], vec![n; usize::from(n) * 50])?;
        second.remove([n / 3])?;
    }
    first.remove_range("key 01000".."key 01500")?;
    let hashed = env.database_as("hashed", Method::Hash)?;
    for n in 0..60u8 {
        hashed.insert([n, n], vec![n; usize::from(n % 20) * 12])?;
        hashed.remove([n / 3, n / 3])?;
    }
    hashed.insert([b'h'; 200], "of a long key")?;
    drop(hashed);
    // More than half the log's buffer goes in chunks.
    env.write(|txn| (0..12u8).try_for_each(|n| txn.insert(&second, [7, n], vec![n; 2500])))?;
    match which {
        Sample::Open => {
            env.sync()?;
            return Ok(disk.crash_as(Survival::Everything, 1));
        }
        Sample::Closed => {}
        Sample::Journal => {
            for n in 0..=SAMPLE_EPOCHS {
                first.insert(format!("key {n:05}"), [n as u8; 30])?;
                env.checkpoint()?;
            }
        }
    }
    drop((first, second));
    env.close()?;
    Ok(disk)
}

/// The file that [`segment`] or [`volume`] mutates.
fn sample_file(which: Sample, path: &str) -> Vec<u8> {
    let disk = sample(which);
    let read = || -> std::io::Result<Vec<u8>> {
        let file = disk.open(Path::new(path), How::default())?;
        let mut bytes = vec![0; file.len()? as usize];
        file.read_at(&mut bytes, 0)?;
        Ok(bytes)
    };
    read().expect("the sample has this file")
}

/// A segment, as the engine wrote it.
pub fn sample_segment() -> Vec<u8> {
    sample_file(Sample::Open, SEGMENT)
}

/// A volume, as the engine wrote it.
pub fn sample_volume() -> Vec<u8> {
    sample_file(Sample::Closed, VOLUME)
}

/// One with a journal and [`SAMPLE_EPOCHS`] retained epochs.
pub fn sample_volume_with_epochs() -> Vec<u8> {
    sample_file(Sample::Journal, VOLUME)
}

/// Pages, as the engine wrote them.
pub fn sample_pages() -> Vec<Vec<u8>> {
    let volume = sample_volume();
    let pages =
        volume[RESERVED_BYTES..].chunks_exact(PAGE_SIZE).filter(|page| access::check_page(page).is_ok());
    pages.map(<[u8]>::to_vec).collect()
}

/// Where the records of a segment begin and end.
pub fn records(segment: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut at = SEGMENT_HEADER_BYTES;
    while let Some(len) =
        segment.get(at..at + 4).map(|len| u32::from_le_bytes([len[0], len[1], len[2], len[3]]) as usize)
        && len >= 24
        && at + len <= segment.len()
    {
        found.push(at..at + len);
        at += len;
    }
    found
}

/// Puts right the checksums of a segment's header and of these records, each as long as it now says, or as it
/// is.
pub fn seal_segment(segment: &mut [u8], records: &[std::ops::Range<usize>]) {
    if let Some(header) = segment.get_mut(..SEGMENT_HEADER_BYTES) {
        header[12..16].fill(0);
        let sum = crc32c::crc32c(header);
        header[12..16].copy_from_slice(&sum.to_le_bytes());
    }
    for record in records {
        let Some(claimed) = segment.get(record.start..record.start + 4) else { continue };
        let len = u32::from_le_bytes([claimed[0], claimed[1], claimed[2], claimed[3]]) as usize;
        let end =
            if len >= 24 && record.start + len <= segment.len() { record.start + len } else { record.end };
        if let Some(record) = segment.get_mut(record.start..end) {
            crate::log::seal_record(record);
        }
    }
}

/// Takes the seal out of a word that names a block: with it no block would be believed but the one it was
/// made of.
fn unseal(word: &mut [u8]) {
    if let Ok(bytes) = <[u8; 8]>::try_from(&*word) {
        word.copy_from_slice(&(u64::from_le_bytes(bytes) & !(0xfffff << 40)).to_le_bytes());
    }
}

/// Puts right the checksums of a volume's superblocks, and has them name the map's root without a seal.
pub fn seal_superblocks(volume: &mut [u8]) {
    for at in [0, 4096, 8192, 65536, 65536 + 4096, 131_072 - 4096] {
        if let Some(copy) = volume.get_mut(at..at + 4096)
            && !are_zeros(copy)
        {
            unseal(&mut copy[72..80]);
            crate::pages::volume::seal_superblock(copy);
        }
    }
}

/// Puts right the checksums of a volume's blocks, and has those of the map name others without seals.
pub fn seal_blocks(volume: &mut [u8]) {
    for (n, block) in volume.chunks_exact_mut(PAGE_SIZE).enumerate().skip(RESERVED_BYTES / PAGE_SIZE) {
        if block[4..8] == *b"smap" {
            block[64..].chunks_exact_mut(8).for_each(unseal);
        }
        seal_block(BlockId(n as u64), block);
    }
}
