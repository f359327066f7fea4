//! Whether who only reads a volume notices that a newer superblock has been written, at every moment of its being written.

use sablecat_os::disk::How;

use super::*;
use crate::pages::volume::Journal;
use crate::pages::volume::superblock::read_newest;

#[test]
fn a_newer_superblock_is_noticed_once_it_counts_and_not_before() {
    for journal in [None, Some(Journal::new())] {
        let disk = disk(1);
        let store = Store::create(&disk, 512).expect("no faults");
        for stamp in 0..3 {
            store.checkpoint(&Changes::from([(1, Some(stamp)), (2, Some(stamp))])).expect("no faults");
        }
        let now = store.volume.superblock();
        let next = Superblock { generation: now.generation + 1, checkpoint: Lsn(9), journal: journal.clone(), ..now.clone() };
        let both = next.encode().repeat(2);
        let slot = next.generation % 2 * 65536;
        let file = disk.open(path(), How::default()).expect("no faults");
        let mut before = vec![0; both.len()];
        file.read_at(&mut before, slot).expect("no faults");
        let read = || Volume::join(&disk, path(), false, true).expect("a superblock is whole");
        let mut noticed = 0;
        // All of the head, the edges of both copies and of sectors, and some of the rest.
        let cuts = (0..=130).chain((130..both.len()).step_by(373)).chain((1..16).flat_map(|n| [512 * n - 1, 512 * n, 512 * n + 1]));
        for cut in cuts {
            file.write_at(&before, slot).expect("no faults");
            let earlier = read();
            assert!(earlier.is_newest(now.generation).expect("read"));
            file.write_at(&both[..cut], slot).expect("no faults");
            let counts = read_newest(&*file, path()).expect("a superblock is whole").superblock == next;
            let meanwhile = read();
            assert_eq!(meanwhile.generation(), if counts { next.generation } else { now.generation });
            assert_eq!(earlier.is_newest(now.generation).expect("read"), !counts, "cut at {cut}");
            assert!(meanwhile.is_newest(meanwhile.generation()).expect("read"), "cut at {cut}");
            file.write_at(&both, slot).expect("no faults");
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
fn a_damaged_copy_of_the_newest_superblock_does_not_make_it_old() {
    let disk = disk(2);
    let store = Store::create(&disk, 512).expect("no faults");
    store.checkpoint(&Changes::from([(1, Some(1))])).expect("no faults");
    let generation = store.volume.generation();
    let file = disk.open(path(), How::default()).expect("no faults");
    let earlier = Volume::join(&disk, path(), false, true).expect("whole");
    file.write_at(&[0xff; 64], generation % 2 * 65536).expect("no faults");
    let later = Volume::join(&disk, path(), false, true).expect("the other copy is whole");
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
    let reader = Volume::join(&disk, path(), false, true).expect("whole");
    // As if an older copy had been put in its place.
    let file = disk.open(path(), How::default()).expect("no faults");
    let newest = store.volume.generation();
    let second = if newest.is_multiple_of(2) { 131_072 - 4096 } else { 8192 };
    [newest % 2 * 65536, second].iter().for_each(|&at| file.write_at(&[0; 4096], at).expect("no faults"));
    assert!(!reader.is_newest(newest).expect("read"));
    assert!(reader.follow().expect_err("older than what was read").is_corruption());
    assert_eq!((reader.generation(), before.generation), (newest, newest - 1));
}
