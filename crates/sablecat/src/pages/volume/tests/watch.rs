//! Whether a process that only reads a volume notices that a newer superblock has been written, at every
//! moment of its being written.

use sablecat_os::disk::How;

use super::*;
use crate::pages::volume::Journal;
use crate::pages::volume::superblock::{COPIES_AT, read_newest};

#[test]
fn a_newer_superblock_is_noticed_once_it_counts_and_not_before() {
    for journal in [None, Some(Journal::new())] {
        let disk = disk(1);
        let store = Store::create(&disk, 512).expect("no faults");
        for stamp in 0..3 {
            store.checkpoint(&Changes::from([(1, Some(stamp)), (2, Some(stamp))])).expect("no faults");
        }
        let now = store.volume.superblock();
        let next = Superblock {
            generation: now.generation + 1,
            checkpoint: Lsn(9),
            journal: journal.clone(),
            ..now.clone()
        };
        let [at, second] = COPIES_AT[Berth::usual(next.generation).index()];
        let whole = next.encode();
        let file = disk.open(path(), How::default()).expect("no faults");
        let mut before = vec![0; whole.len()];
        file.read_at(&mut before, at).expect("no faults");
        let read = || Volume::join(&disk, path(), (false, true), None).expect("a superblock is whole");
        let mut noticed = 0;
        // All of the head, the edges of the copy and of sectors, and some of the rest.
        let cuts = (0..=130)
            .chain((130..whole.len()).step_by(173))
            .chain((1..8).flat_map(|n| [512 * n - 1, 512 * n, 512 * n + 1]));
        for cut in cuts {
            file.write_at(&before, at).expect("no faults");
            file.write_at(&before, second).expect("no faults");
            let earlier = read();
            assert!(earlier.is_newest(now.generation).expect("read"));
            file.write_at(&whole[..cut], at).expect("no faults");
            let counts = read_newest(&*file, path()).expect("a superblock is whole").superblock == next;
            let meanwhile = read();
            assert_eq!(meanwhile.generation(), if counts { next.generation } else { now.generation });
            assert_eq!(earlier.is_newest(now.generation).expect("read"), !counts, "cut at {cut}");
            assert!(meanwhile.is_newest(meanwhile.generation()).expect("read"), "cut at {cut}");
            for at in [at, second] {
                file.write_at(&whole, at).expect("no faults");
            }
            for reader in [earlier, meanwhile] {
                assert!(!reader.is_newest(now.generation).expect("read"), "cut at {cut}");
                reader.follow().expect("read");
                assert!(reader.is_newest(next.generation).expect("read"), "cut at {cut}");
            }
            noticed += u32::from(!counts);
        }
        assert!(noticed > 50, "{noticed}");
    }
}

#[test]
fn a_newer_superblock_is_noticed_in_whatever_berth_it_is() {
    for berth in Berth::all() {
        let disk = disk(4);
        let store = Store::create(&disk, 512).expect("no faults");
        store.checkpoint(&Changes::from([(1, Some(1))])).expect("no faults");
        let now = store.volume.superblock();
        let reader = Volume::join(&disk, path(), (false, true), None).expect("whole");
        store
            .volume
            .write_superblock(&Superblock { generation: now.generation + 1, ..now.clone() }, berth)
            .expect("no faults");
        assert!(!reader.is_newest(now.generation).expect("read"), "{berth:?}");
        reader.follow().expect("read");
        assert!(reader.is_newest(now.generation + 1).expect("read"), "{berth:?}");
        // As a process that was stopped does.
        store
            .volume
            .write_superblock(&Superblock { generation: now.generation + 1, ..now.clone() }, berth)
            .expect("no faults");
        assert!(reader.is_newest(now.generation + 1).expect("read"), "{berth:?}");
    }
}

#[test]
fn a_damaged_copy_of_the_newest_superblock_does_not_make_it_old() {
    let disk = disk(2);
    let store = Store::create(&disk, 512).expect("no faults");
    store.checkpoint(&Changes::from([(1, Some(1))])).expect("no faults");
    let generation = store.volume.generation();
    let file = disk.open(path(), How::default()).expect("no faults");
    let earlier = Volume::join(&disk, path(), (false, true), None).expect("whole");
    file.write_at(&[0xff; 64], COPIES_AT[Berth::usual(generation).index()][0]).expect("no faults");
    let later = Volume::join(&disk, path(), (false, true), None).expect("the other copy is whole");
    assert_eq!(later.complaints().len(), 1);
    for reader in [&earlier, &later] {
        assert!(reader.is_newest(generation).expect("read"));
    }
    store.checkpoint(&Changes::from([(1, Some(2))])).expect("no faults");
    for reader in [&earlier, &later] {
        assert!(!reader.is_newest(generation).expect("read"));
    }
}

#[test]
fn a_file_that_went_back_is_an_error() {
    let disk = disk(3);
    let store = Store::create(&disk, 512).expect("no faults");
    store.checkpoint(&Changes::from([(1, Some(1))])).expect("no faults");
    let before = store.volume.superblock();
    store.checkpoint(&Changes::from([(1, Some(2))])).expect("no faults");
    let reader = Volume::join(&disk, path(), (false, true), None).expect("whole");
    // As if an older copy had been put in its place.
    let file = disk.open(path(), How::default()).expect("no faults");
    let newest = store.volume.generation();
    COPIES_AT[Berth::usual(newest).index()]
        .iter()
        .for_each(|&at| file.write_at(&[0; 4096], at).expect("no faults"));
    assert!(!reader.is_newest(newest).expect("read"));
    assert!(reader.follow().expect_err("older than what was read").is_corruption());
    assert_eq!((reader.generation(), before.generation), (newest, newest - 1));
}
