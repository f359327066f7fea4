//! Damaged bytes are reported, or were of no consequence; never a panic, never wrong data.

use std::panic::{AssertUnwindSafe, catch_unwind};

use sablecat_os::disk::{File, How};
use sablecat_os::sim::SimDisk;

use sablecat_os::sim::Survival;

use super::*;
use crate::pages::volume::MapFinding;

fn raw(disk: &SimDisk) -> std::sync::Arc<dyn File> {
    disk.open(
        path(),
        How { create: false, create_new: false, read_only: false, direct: false, durable: false },
    )
    .expect("it exists")
}

fn flip(file: &dyn File, bit: u64) {
    let mut byte = [0];
    assert_eq!(file.read_at(&mut byte, bit / 8).expect("no faults"), 1);
    byte[0] ^= 1 << (bit % 8);
    file.write_at(&byte, bit / 8).expect("no faults");
}

/// Reads everything there is, and compares.
fn read_all(disk: &SimDisk, model: &Model) -> Result<()> {
    let volume = Volume::open(disk, path(), false, true)?;
    volume.scan()?;
    let mut buffer = vec![0; volume.block_size()];
    for (&page, &stamp) in model {
        let (first, entries) = volume.lookup_leaf(PageId(page))?;
        let block = entries[(page - first.0) as usize];
        volume.read_block(block.block(), &mut buffer)?;
        compare_block(block, &buffer).map_err(crate::error::Error::corruption)?;
        assert_eq!(
            buffer[4..],
            image(buffer.len(), page, stamp)[4..],
            "page {page}: wrong data without an error"
        );
    }
    Ok(())
}

#[test]
fn a_flipped_bit_anywhere_is_reported_or_harmless() {
    let disk = disk(1);
    let store = Store::create(&disk, 512).expect("no faults");
    let first: Changes = (1..70).map(|page| (page, Some(1))).collect();
    store.checkpoint(&first).expect("no faults");
    let second: Changes = (60..75).map(|page| (page, Some(2))).collect();
    store.checkpoint(&second).expect("no faults");
    let model = after(&after(&Model::new(), &first), &second);
    let in_use = store.volume.scan().expect("no damage").blocks;
    let first_block = 131_072 / 512;
    drop(store);
    let file = raw(&disk);
    let mut harmless = 0;
    let check = |bit: u64, consequence: bool| {
        flip(&*file, bit);
        let outcome = catch_unwind(AssertUnwindSafe(|| read_all(&disk, &model)));
        flip(&*file, bit);
        match outcome.unwrap_or_else(|_| panic!("bit {bit} of byte {}", bit / 8)) {
            Ok(()) => assert!(!consequence, "bit {bit} of byte {} was not noticed", bit / 8),
            Err(error) => {
                assert!(error.is_corruption(), "{error}");
                assert!(consequence, "byte {}: {error}", bit / 8);
            }
        }
    };
    // Either slot, either copy: the other copy is there.
    for bit in (0..8192 * 8).step_by(149).chain(0..112 * 8) {
        check(bit, false);
        check(65536 * 8 + bit, false);
        harmless += 2;
    }
    for block in first_block..file.len().expect("no faults") / 512 {
        for bit in (0..512 * 8).step_by(997) {
            check(block * 512 * 8 + bit, in_use.contains(BlockId(block)));
        }
    }
    assert!(harmless > 0);
}

/// Checkpoints that use blocks again, and then each block as one of the earlier ones left it: as if the disk
/// had lost the last write to it.
#[test]
fn a_block_that_holds_what_it_held_before_is_reported_or_harmless() {
    for volumes in [0, 2] {
        let disk = disk(1);
        let store = Store::create_with(&disk, plain(512), volumes).expect("no faults");
        let (mut model, mut images) = (Model::new(), Vec::new());
        for stamp in 1..8 {
            let changes: Changes =
                (1..130).filter(|page| page % stamp != 1).map(|page| (page as u32, Some(stamp))).collect();
            store.checkpoint(&changes).expect("no faults");
            model = after(&model, &changes);
            images.push(store.volume.files.iter().map(|file| all(file.file())).collect::<Vec<_>>());
        }
        let now = images.pop().expect("some");
        let mut reported = 0;
        for before in images {
            for ((file, before), now) in store.volume.files.iter().zip(before).zip(&now) {
                let reserved = if file.path() == path() { 131_072 } else { 65536 };
                for at in (reserved..before.len())
                    .step_by(512)
                    .filter(|&at| before[at..at + 512] != now[at..at + 512])
                {
                    file.file().write_at(&before[at..at + 512], at as u64).expect("no faults");
                    reported += u32::from(read_all(&disk, &model).is_err());
                    file.file().write_at(&now[at..at + 512], at as u64).expect("no faults");
                }
            }
        }
        assert!(reported > 200, "blocks were used again: {reported}");
    }
}

fn all(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; file.len().expect("no faults") as usize];
    file.read_at(&mut bytes, 0).expect("no faults");
    bytes
}

#[test]
fn both_copies_of_the_newest_superblock_damaged_is_told() {
    let disk = disk(1);
    let store = Store::create(&disk, 512).expect("no faults");
    store.checkpoint_keeping(&Changes::from([(1, Some(1))])).expect("no faults");
    store.checkpoint_keeping(&Changes::from([(1, Some(2))])).expect("no faults");
    drop(store);
    let file = raw(&disk);
    // Generation 3 is in slot 1.
    flip(&*file, (65536 + 50) * 8);
    flip(&*file, (8192 + 50) * 8);
    let store = Store::open(&disk).expect("the generation before");
    assert_eq!(store.volume.superblock().generation, 2);
    assert_eq!(store.volume.complaints().len(), 2, "{:?}", store.volume.complaints());
    assert!(store.volume.is_in_doubt());
    store.assert_is(&Model::from([(1, 1)]));
    let told = |volume: &Volume| volume.is_in_doubt();
    // Until somebody has decided, a process that looks, or opens it in vain, leaves what tells of it; nor is
    // anything built upon it.
    let mut volume = Volume::open(&disk, path(), false, false).expect("the generation before");
    assert!(told(&volume));
    assert!(volume.add(&disk, false, &declared(1)).expect_err("in doubt").is_corruption());
    volume.end_passed_by().expect("no faults");
    assert!(!told(&Volume::open(&disk.crash_as(Survival::Nothing, 1), path(), false, true).expect("whole")));
}

/// One write of 52 KiB, anywhere among the superblocks: garbage, zeros, or nothing where a superblock should
/// have been written.
#[test]
fn no_single_write_takes_both_copies_of_the_newest_superblock() {
    let disk = disk(1);
    let store = Store::create(&disk, 512).expect("no faults");
    for stamp in 1..4 {
        store.checkpoint_keeping(&Changes::from([(1, Some(stamp))])).expect("no faults");
    }
    let generation = store.volume.superblock().generation;
    drop(store);
    let file = raw(&disk);
    let good = all(&*file);
    for bytes in [vec![0xa5; 53248], vec![0; 53248], vec![0xa5; 512]] {
        for at in (0..131_072 - bytes.len()).step_by(512) {
            file.write_at(&bytes, at as u64).expect("no faults");
            let volume = Volume::open(&disk, path(), false, true).expect("a copy is left");
            assert_eq!(
                (volume.superblock().generation, volume.is_in_doubt()),
                (generation, false),
                "{} bytes at {at}",
                bytes.len()
            );
            file.write_at(&good[at..at + bytes.len()], at as u64).expect("no faults");
        }
    }
}

/// The disk loses one of the writes of a checkpoint's superblock, whichever.
#[test]
fn a_lost_write_of_a_superblock_sends_nobody_back() {
    use sablecat_os::sim::Fault;
    let mut met = 0;
    for call in 1.. {
        let disk = disk(1);
        let store = Store::create(&disk, 512).expect("no faults");
        store.checkpoint_keeping(&Changes::from([(1, Some(1))])).expect("no faults");
        let before = disk.calls();
        disk.fail_at(before + call, Fault::LostWrite);
        store.checkpoint_keeping(&Changes::from([(1, Some(2))])).expect("nobody is told");
        if disk.calls() < before + call {
            break;
        }
        let generation = store.volume.superblock().generation;
        drop(store);
        disk.clear_faults();
        let volume = Volume::open(&disk, path(), false, true).expect("a copy is there");
        assert_eq!(volume.superblock().generation, generation, "call {call}");
        met += u32::from(disk.has_lied_about(path()).expect("it is there"));
    }
    assert!(met > 3, "{met} writes were lost");
}

#[test]
fn map_blocks_reused_by_a_lost_generation_are_recognised() {
    let disk = disk(1);
    let store = Store::create(&disk, 512).expect("no faults");
    for stamp in 1..6 {
        store.checkpoint(&(1..100).map(|page| (page, Some(stamp))).collect()).expect("no faults");
    }
    let old = store.volume.superblock();
    for stamp in 6..9 {
        store.checkpoint(&(1..100).map(|page| (page, Some(stamp))).collect()).expect("no faults");
    }
    store.volume.adopt(old, Berth::usual(0));
    let error = store.volume.scan().expect_err("its blocks hold something else by now");
    assert!(error.is_corruption(), "{error}");
}

#[test]
fn a_damaged_map_block_is_walked_around() {
    let disk = disk(1);
    let store = Store::create(&disk, 512).expect("no faults");
    store.checkpoint(&(1..200).map(|page| (page, Some(1))).collect()).expect("no faults");
    let (_, entries) = store.volume.lookup_leaf(PageId(60)).expect("no damage");
    assert_ne!(entries[0], SealedBlock::NONE);
    let mut maps = Vec::new();
    store
        .volume
        .walk(0..u64::MAX, &mut |found| {
            if let MapFinding::Map(block) = found {
                maps.push(block);
            }
            Ok(())
        })
        .expect("no damage");
    // The root comes first, then the leaves over pages 0.., 56.., 112.., 168...
    assert_eq!(maps.len(), 5);
    flip(&*raw(&disk), maps[2].0 * 512 * 8 + 100);
    let (mut pages, mut damaged) = (0, Vec::new());
    store
        .volume
        .walk(0..u64::MAX, &mut |found| {
            match found {
                MapFinding::Page(..) => pages += 1,
                MapFinding::Map(_) => {}
                MapFinding::Damaged(block, error) => {
                    assert!(error.to_string().contains("db/sablecat.db"), "{error}");
                    damaged.push(block);
                }
            }
            Ok(())
        })
        .expect("the visitor goes on");
    assert_eq!((pages, damaged), (199 - 56, vec![maps[2]]));
    assert!(store.volume.lookup_leaf(PageId(60)).expect_err("damaged").is_corruption());
    store.volume.lookup_leaf(PageId(50)).expect("another leaf");
}

#[test]
fn map_blocks_with_good_checksums_and_absurd_content_are_refused() {
    use crate::pages::volume::codec;
    let disk = disk(1);
    let store = Store::create(&disk, 512).expect("no faults");
    store.checkpoint(&(1..200).map(|page| (page, Some(1))).collect()).expect("no faults");
    // Named without a seal, which no other bytes than those would have.
    let superblock = store.volume.superblock();
    let root = superblock.map_root.block();
    let berth = Berth::usual(superblock.generation);
    store
        .volume
        .write_superblock(&Superblock { map_root: SealedBlock::unsealed(root), ..superblock }, berth)
        .expect("no faults");
    let mut good = vec![0; 512];
    store.volume.read_block(root, &mut good).expect("no damage");
    let file = raw(&disk);
    for at in 4..512 {
        for value in [0, 1, 7, 0x7f, 0x80, 0xff] {
            let mut bytes = good.clone();
            bytes[at] = value;
            codec::seal(root, &mut bytes);
            file.write_at(&bytes, root.0 * 512).expect("no faults");
            store.volume.adopt(store.volume.superblock(), berth);
            let found = catch_unwind(AssertUnwindSafe(|| {
                let volume = Volume::open(&disk, path(), false, true).expect("the superblock is good");
                let _ = volume.lookup_leaf(PageId(1));
                let _ = volume.lookup_leaf(PageId(190));
                volume.scan().map(|_| ())
            }))
            .unwrap_or_else(|_| panic!("byte {at} as {value}"));
            // An earlier generation may have written any block.
            let generation = u64::from_le_bytes(std::array::from_fn(|n| bytes[16 + n]));
            let possible =
                bytes[4..] == good[4..] || ((16..24).contains(&at) && (1..=2).contains(&generation));
            assert_eq!(found.is_ok(), possible, "byte {at} as {value}");
        }
    }
}

#[test]
fn a_file_cut_short_is_reported() {
    let disk = disk(1);
    let store = Store::create(&disk, 4096).expect("no faults");
    store.checkpoint(&(1..50).map(|page| (page, Some(1))).collect()).expect("no faults");
    drop(store);
    let file = raw(&disk);
    for length in [0, 1, 100, 4095, 4096, 65536, 70000, 131_072, 131_073, 140_000, 200_000] {
        let copy = disk.crash(1);
        raw(&copy).set_len(length).expect("no faults");
        let error = read_all(&copy, &(1..50).map(|page| (page, 1)).collect()).expect_err("cut");
        assert!(error.is_corruption(), "{length}: {error}");
    }
    assert!(file.len().expect("no faults") > 200_000);
}
