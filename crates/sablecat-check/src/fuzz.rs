//! Fuzzing with seeds: bytes that the engine wrote are mutated, checksums put right more often than not so
//! that what stands behind them is reached, and given to the targets of `sablecat::fuzzing`. These panic if
//! anything is wrong.
//!
//! A target's share of inputs that are believed says whether it gets anywhere: [`tally`] counts them.

use std::sync::OnceLock;

use sablecat::fuzzing::{self, PAGE_SIZE};

use crate::alike::Wrong;
use crate::dice::Dice;

/// Mutated inputs of each seed.
const INPUTS: u32 = 8;

/// Changes some of `bytes` within `range`.
fn mutate(bytes: &mut [u8], range: std::ops::Range<usize>, dice: &mut Dice) {
    for _ in 0..dice.pick(&[1, 1, 1, 2, 3, 8]) {
        let len = range.len();
        let at = range.start + dice.index(len);
        let width = dice.pick(&[1, 2, 4, 8]).min(range.end - at);
        match dice.below(6) {
            0 => bytes[at] ^= 1 << dice.below(8),
            1 => bytes[at] = dice.throw() as u8,
            // Lengths, counts, offsets and numbers, at the edges and just beside what they were.
            2 => {
                let value = dice.pick(&[
                    0,
                    1,
                    2,
                    7,
                    8,
                    24,
                    0x7f,
                    0x80,
                    0xff,
                    0x1ff,
                    0x200,
                    0x7fff,
                    0xffff,
                    u64::from(u32::MAX),
                    u64::MAX,
                ]);
                bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
            }
            3 => {
                let mut value = [0; 8];
                value[..width].copy_from_slice(&bytes[at..at + width]);
                let change = dice.pick(&[1, 8, 64, 512, u64::MAX, 0u64.wrapping_sub(8)]);
                let value = u64::from_le_bytes(value).wrapping_add(change);
                bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
            }
            // Parts of one thing in another.
            4 => {
                let (from, count) = (range.start + dice.index(len), 1 + dice.index(64.min(len)));
                let count = count.min(range.end - at).min(range.end - from);
                bytes.copy_within(from..from + count, at);
            }
            _ => {
                let count = (1 + dice.index(64)).min(range.end - at);
                bytes[at..at + count].fill(dice.pick(&[0, 0xff]));
            }
        }
    }
}

/// Mutations of pages, half of them in the header and the slots.
fn page(dice: &mut Dice) -> bool {
    static PAGES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let pages = PAGES.get_or_init(fuzzing::sample_pages);
    let mut input = pages[dice.index(pages.len())].clone();
    let end = dice.pick(&[64, 200, PAGE_SIZE]);
    mutate(&mut input, 16..end, dice);
    let key = 1 + dice.index(60);
    input.extend((0..key).map(|_| dice.throw() as u8));
    fuzzing::page(&input)
}

/// Mutations of blocks with compressed pages: of what says how, of the bytes behind it, or of both.
fn block(dice: &mut Dice) -> bool {
    static BLOCKS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let blocks = BLOCKS.get_or_init(fuzzing::sample_blocks);
    let mut input = blocks[dice.index(blocks.len())].clone();
    match dice.below(4) {
        0 => mutate(&mut input, 12..24, dice),
        1 => mutate(&mut input, 12..4096, dice),
        // As Zstandard's by LZ4, and the other way round; and nothing but noise.
        2 => {
            input[16] ^= 3;
            let noise = 24 + dice.index(200)..24 + 200 + dice.index(3000);
            if dice.percent(50) {
                input[noise].iter_mut().for_each(|byte| *byte = dice.throw() as u8);
            }
        }
        _ => mutate(&mut input, 24..24 + 400, dice),
    }
    let key = 1 + dice.index(60);
    input.extend((0..key).map(|_| dice.throw() as u8));
    fuzzing::block(&input)
}

/// Mutations of a segment: of its records mostly, of its header seldom, or of anything.
fn segment(dice: &mut Dice) -> bool {
    static SEGMENT: OnceLock<Vec<u8>> = OnceLock::new();
    let mut input = SEGMENT.get_or_init(fuzzing::sample_segment).clone();
    let records = fuzzing::records(&input);
    match dice.below(10) {
        0 => mutate(&mut input, 0..64, dice),
        1 => {
            let len = input.len();
            mutate(&mut input, 0..len, dice);
        }
        _ => {
            let record = records[dice.index(records.len())].clone();
            let end = dice.pick(&[24, 40, usize::MAX]).min(record.len());
            mutate(&mut input, record.start..record.start + end, dice);
        }
    }
    if dice.percent(5) {
        input.truncate(dice.index(input.len()));
    }
    if dice.percent(80) {
        fuzzing::seal_segment(&mut input, &records);
    }
    fuzzing::segment(&input)
}

/// Mutations of a volume: of a superblock, of a block of the map, of any block.
fn file(dice: &mut Dice) -> bool {
    static VOLUMES: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    let volumes = VOLUMES.get_or_init(|| [fuzzing::sample_volume(), fuzzing::sample_volume_with_epochs()]);
    let has_epochs = dice.percent(50);
    let mut input = volumes[usize::from(has_epochs)].clone();
    let blocks: Vec<usize> = (131_072..input.len())
        .step_by(PAGE_SIZE)
        .filter(|&at| input[at..at + PAGE_SIZE].iter().any(|&b| b != 0))
        .collect();
    let of_map: Vec<usize> = blocks.iter().copied().filter(|at| input[at + 4..at + 8] == *b"smap").collect();
    match dice.below(4) {
        0 => {
            // Both copies, so that the change counts.
            let (slot, second) = dice.pick(&[(0, 131_072 - 4096), (65536, 8192)]);
            // Settings, epochs, and anything beside them; or the list of volumes.
            let epochs = 512 + 56 * fuzzing::SAMPLE_EPOCHS;
            let (from, end) = if has_epochs {
                dice.pick(&[(24, 120), (128, 200), (512, epochs), (512, epochs), (24, 4096)])
            } else {
                dice.pick(&[(24, 120), (2560, 2640)])
            };
            mutate(&mut input, slot + from..slot + end, dice);
            input.copy_within(slot..slot + 4096, second);
        }
        kind => {
            let block = if kind == 1 { dice.pick(&of_map) } else { dice.pick(&blocks) };
            let end = dice.pick(&[64, 200, PAGE_SIZE]);
            mutate(&mut input, block + 4..block + end, dice);
        }
    }
    if dice.percent(5) {
        input.truncate(dice.index(input.len()));
    }
    if dice.percent(85) {
        fuzzing::seal_superblocks(&mut input);
        fuzzing::seal_blocks(&mut input);
    }
    fuzzing::volume(&input)
}

/// Runs some inputs of a seed.
fn inputs(seed: u64, target: fn(&mut Dice) -> bool) -> u32 {
    let mut dice = Dice::new(seed);
    (0..INPUTS).map(|_| u32::from(target(&mut dice))).sum()
}

/// Mutated pages, and blocks with compressed ones.
///
/// # Errors
/// None: what is wrong panics.
pub fn pages(seed: u64) -> Result<(), Wrong> {
    inputs(seed, page);
    inputs(seed, block);
    Ok(())
}

/// Mutated log segments.
///
/// # Errors
/// None: what is wrong panics.
pub fn log(seed: u64) -> Result<(), Wrong> {
    inputs(seed, segment);
    Ok(())
}

/// Mutated volumes.
///
/// # Errors
/// None: what is wrong panics.
pub fn volume(seed: u64) -> Result<(), Wrong> {
    inputs(seed, file);
    Ok(())
}

/// How many of the inputs of `seeds` each target believes, of how many: pages, segments, volumes, blocks with
/// compressed pages.
pub fn tally(seeds: std::ops::Range<u64>) -> ([u32; 4], u32) {
    let count = |target| seeds.clone().map(|seed| inputs(seed, target)).sum();
    ([count(page), count(segment), count(file), count(block)], INPUTS * (seeds.end - seeds.start) as u32)
}
