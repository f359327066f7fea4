//! Superblocks of which both copies are damaged while the memory of those who wrote them is left.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use sablecat::{Env, ErrorKind};

use sablecat_tests::{Place, get, put, put_in_memory};

/// Where superblocks are: docs/format.md.
const COPIES_AT: [u64; 8] = [0, 4096, 8192, 61_440, 65_536, 69_632, 122_880, 126_976];

fn volume(place: &Place) -> PathBuf {
    place.env().join("sablecat.db")
}

/// Damages all copies of the newest superblock.
fn damage_newest(place: &Place) -> u64 {
    let file = fs::File::options().read(true).write(true).open(volume(place)).expect("there");
    let generation = |at: u64| {
        let mut bytes = [0; 56];
        file.read_exact_at(&mut bytes, at).expect("read");
        if bytes.starts_with(b"\x89sablecat") {
            u64::from_le_bytes(*bytes[48..].first_chunk().expect("eight"))
        } else {
            0
        }
    };
    let newest = COPIES_AT.into_iter().map(generation).max().expect("several");
    let copies: Vec<_> = COPIES_AT.into_iter().filter(|&at| generation(at) == newest).collect();
    assert_eq!(copies.len(), 2, "generation {newest}");
    copies.into_iter().for_each(|at| file.write_all_at(&[0xa5; 40], at + 60).expect("written"));
    newest
}

/// Checkpoints between which so much is logged that the log before the last one is used again, and then a
/// commit that only the memory has.
fn work(place: &Place, rounds: u32) -> Env {
    let env = place.builder().log_segment_size(1 << 16).open(place.env()).expect("created");
    let more = env.database("more").expect("made");
    for round in 0..rounds {
        more.insert_batch((0..400u32).map(|n| (n.to_be_bytes(), [round as u8; 500]))).expect("inserted");
        env.checkpoint().expect("made");
    }
    put(&env, "flushed");
    put_in_memory(&env, "in the region");
    env
}

#[test]
fn a_superblock_that_is_damaged_is_put_back_from_the_memory_of_those_who_wrote_it() {
    let place = Place::new("superblock-lost");
    let env = work(&place, 5);
    for shared in [true, false] {
        let left = place.killed("superblock-lost-left");
        damage_newest(&left);
        let opened = if shared { left.open() } else { left.open_alone() }.expect("recovered");
        assert_eq!(get(&opened).as_deref(), Some(&b"in the region"[..]));
        assert!(!opened.recovery().doubt, "it is not lost");
        assert!(!left.region().with_extension("aside").exists());
        assert_eq!(opened.database("more").and_then(|more| more.len()).expect("read"), 400);
        assert_eq!(opened.verify(&mut |_| {}).expect("verified").problems, Vec::<String>::new());
        opened.close().expect("closed");
    }
    drop(env);
}

/// A volume of an earlier moment, damaged besides, beside the log of this one.
#[test]
fn a_superblock_is_not_put_back_into_a_file_of_another_moment() {
    let place = Place::new("superblock-older");
    let env = work(&place, 1);
    let older = place.killed("superblock-older-copy");
    env.close().expect("closed");
    let env = work(&place, 5);
    let left = place.killed("superblock-older-left");
    fs::copy(volume(&older), volume(&left)).expect("put back");
    damage_newest(&left);
    let before = fs::read(volume(&left)).expect("read");
    let refused = left.open().expect_err("the log does not reach back that far");
    assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
    assert!(left.region().with_extension("aside").exists(), "it is not lost");
    let superblocks = |bytes: &[u8]| COPIES_AT.map(|at| bytes[at as usize..][..4096].to_vec());
    let after = fs::read(volume(&left)).expect("read");
    let generation = |bytes: &Vec<u8>| u64::from_le_bytes(*bytes[48..].first_chunk().expect("eight"));
    let newest = |bytes: &[u8]| superblocks(bytes).iter().map(generation).max();
    assert_eq!(newest(&after), newest(&before), "nothing newer was written");
    drop(env);
}
