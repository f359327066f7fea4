//! One region at two addresses; and regions that are not what they should be.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

use sablecat_os::atomic::Ordering;
use sablecat_os::liveness::LockFile;
use sablecat_os::mapping::LARGE_PAGE;

use super::*;

fn small() -> Geometry {
    Geometry {
        block_size: 512,
        page_size: 512,
        frames: 9,
        slots: 4,
        ring_bytes: 65536,
        lock_words: 64,
        pages_max: 4096,
        blocks_max: 4096,
        volumes: 3,
        members: 1,
    }
}

/// A region that others could share, and its file, which is in memory and has no name any more.
pub(crate) fn in_a_file(name: &str, geometry: Geometry) -> (File, Region) {
    let path = Path::new("/dev/shm").join(format!("sablecat-{name}-{}", std::process::id()));
    let lock = path.with_extension("lock");
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    let membership = Membership::new(LockFile::open(&lock, Some(0o600)).unwrap(), 0);
    [&path, &lock].into_iter().for_each(|path| std::fs::remove_file(path).unwrap());
    let region = Region::create_shared(
        (file.try_clone().unwrap(), &path),
        geometry.shared(),
        RegionIdentity::default(),
        membership,
    );
    (file, region.unwrap())
}

#[test]
fn every_part_is_the_same_part_at_both_addresses() {
    let here = Region::shareable(small()).unwrap();
    let there = here.again().unwrap();
    assert_ne!(here.frame_pointer(FrameId(0)), there.frame_pointer(FrameId(0)));
    assert_eq!(there.header().ready.load(Ordering::SeqCst), header::READY);

    here.header().visible.0.store(1, Ordering::SeqCst);
    assert_eq!(there.header().visible(), crate::types::Lsn(1));
    let last = FrameId(8);
    assert!(there.frame(last).change(FrameState::Free, FrameState::Building(3)));
    assert_eq!(here.frame(last).state(), FrameState::Building(3));
    // SAFETY: the frame is building, and nobody else is here.
    unsafe { here.page_mut(last) }.fill(7);
    // SAFETY: as above, and the writing is over.
    assert_eq!(unsafe { there.page(last) }, [7; 512]);
    assert!(there.entry(PageId(4095)).change(EntryWord::new(FrameId::NONE, 0), EntryWord::new(last, 2)));
    assert_eq!(here.entry(PageId(4095)).word(), EntryWord::new(last, 2));
    here.slot(3).set_pin(crate::types::Lsn(5));
    assert_eq!(there.slot(3).pinned(), Some(crate::types::Lsn(5)));
    let last = Work::Structure(STRUCTURE_LATCHES - 1);
    let held = there.role(last).try_take(2).unwrap();
    assert_eq!(here.role(last).look().owner(), 2);
    drop(held);
    assert_eq!(here.role(last).look().owner(), 0);
    there.unsaved(63).store(9, Ordering::SeqCst);
    assert_eq!((here.unsaved(63).load(Ordering::SeqCst), here.capturing(63).load(Ordering::SeqCst)), (9, 0));
}

/// The parts lie one behind the other: writing one to its last byte changes no other.
#[test]
fn no_part_overlaps_the_next() {
    // What describes the frames has large pages of its own in the second.
    for geometry in [small(), Geometry::new(512, 64 << 20, 65536, false).with_volumes(3)] {
        let offsets = geometry.offsets();
        let starts = [
            offsets.log_words,
            offsets.queues,
            offsets.structure,
            offsets.slots,
            offsets.locks,
            offsets.ring,
            offsets.descriptors,
            offsets.references,
            offsets.table,
            offsets.page_bits,
            offsets.block_bits,
            offsets.unsaved,
            offsets.capturing,
            offsets.frames,
            offsets.last_word,
            offsets.end,
        ];
        assert!(starts.is_sorted());
        assert!(offsets.ring + geometry.ring_bytes <= offsets.descriptors);
        assert!(offsets.descriptors + geometry.frames * size_of::<FrameDesc>() <= offsets.references);
        assert!(offsets.references + geometry.frames <= offsets.table);
        assert!(offsets.frames + geometry.frames * geometry.block_size <= offsets.last_word);
        assert_eq!(offsets.last_word + 8, offsets.end, "who cuts anything off cuts off some of it");
    }
}

#[test]
fn a_role_is_released_once_for_each_holding() {
    let region = Region::private(small()).unwrap();
    let role = region.role(Work::Serial);
    let held = role.try_take(3).unwrap();
    let first = role.look();
    assert_eq!(role.try_take(2).unwrap_err(), first);
    role.end(first);
    let second = role.try_take(3).unwrap();
    assert_ne!(role.look(), first, "the same owner's next holding is another");
    role.end(first);
    drop(held);
    assert_eq!(role.look().owner(), 3, "what was meant for the holding before");
    drop(second);
    assert_eq!(role.look().owner(), 0);
}

/// A thread that ends in the middle of its work.
#[test]
fn a_role_is_given_up_by_who_unwinds() {
    let region = Region::private(small()).unwrap();
    for work in
        [Work::Commit, Work::Checkpoint, Work::Serial, Work::Housekeeping, Work::Reaping, Work::Structure(5)]
    {
        std::thread::scope(|scope| {
            let died = scope.spawn(|| {
                let _held = region.role(work).take(2);
                panic!("in the middle");
            });
            assert!(died.join().is_err());
        });
        drop(region.role(work).try_take(3).unwrap());
    }
}

const OURS: RegionIdentity = RegionIdentity { uuid: [3; 16], boot: [5; 16] };

fn shared() -> Geometry {
    Geometry { frames: 64, ..small() }
}

/// A region's file as its processes left it, and its bytes up to the end of the header.
fn left_behind(name: &str, identity: RegionIdentity) -> (File, Vec<u8>) {
    let path = std::env::temp_dir().join(format!("sablecat-region-{name}-{}", std::process::id()));
    let lock = path.with_extension("lock");
    let open = || File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
    let membership = Membership::new(LockFile::open(&lock, Some(0o600)).unwrap(), 0);
    let region =
        Region::create_shared((open(), Path::new("region")), shared(), identity, membership).unwrap();
    assert!(why_not(&open()).contains("never finished"));
    region.header().set_ready();
    drop(region);
    let file = open();
    std::fs::remove_file(&path).unwrap();
    std::fs::remove_file(&lock).unwrap();
    let mut header = vec![0; size_of::<RegionHeader>()];
    file.read_exact_at(&mut header, 0).unwrap();
    (file, header)
}

fn why_not(file: &File) -> String {
    let refused =
        Region::attach((file.try_clone().unwrap(), Path::new("region")), OURS).expect_err("nobody's region");
    assert_eq!(refused.kind(), crate::error::ErrorKind::Invalid, "{refused}");
    refused.to_string()
}

#[test]
fn a_region_is_attached_to_by_its_own_environment_in_its_own_run_of_the_machine() {
    let (file, _) = left_behind("ours", OURS);
    assert_eq!(*Region::attach((file, Path::new("region")), OURS).unwrap().geometry(), shared());
    for other in [RegionIdentity { uuid: [4; 16], ..OURS }, RegionIdentity { boot: [6; 16], ..OURS }] {
        let (file, _) = left_behind("others", other);
        assert!(why_not(&file).contains("another environment"));
    }
}

#[test]
fn no_bit_of_what_is_fixed_in_the_header_can_be_wrong() {
    let (file, header) = left_behind("bits", OURS);
    for bit in 0..8 * header::FIXED_BYTES {
        let byte = header[bit / 8] ^ 1 << (bit % 8);
        file.write_all_at(&[byte], (bit / 8) as u64).unwrap();
        why_not(&file);
        file.write_all_at(&header[bit / 8..=bit / 8], (bit / 8) as u64).unwrap();
    }
    Region::attach((file, Path::new("region")), OURS).unwrap();
}

/// The header is whole, and all in it is the same but the number of the build.
#[test]
fn a_region_of_another_build_is_refused() {
    let (file, mut header) = left_behind("build", OURS);
    let (build, fixed) = (8..16, 8..header::FIXED_BYTES - 8);
    header[build].iter_mut().for_each(|byte| *byte ^= 1);
    let sum = u64::from(crc32c::crc32c(&header[fixed.clone()]));
    header[fixed.end..fixed.end + 8].copy_from_slice(&sum.to_le_bytes());
    file.write_all_at(&header, 0).unwrap();
    assert!(why_not(&file).contains("another build"));
}

#[test]
fn a_region_cut_short_empty_unfinished_or_of_another_version_is_refused() {
    let (file, header) = left_behind("short", OURS);
    drop(Region::attach((file.try_clone().unwrap(), Path::new("region")), OURS).unwrap());
    let length = file.metadata().unwrap().len();
    for cut in [0, 1, header.len() as u64 - 1, header.len() as u64, length - 1, length + 1] {
        file.set_len(cut).unwrap();
        why_not(&file);
        file.set_len(length).unwrap();
        file.write_all_at(&header, 0).unwrap();
    }
    for ready in [0, header::READY - (1 << 56), header::READY + (1 << 56)] {
        file.write_all_at(&ready.to_le_bytes(), 0).unwrap();
        assert!(why_not(&file).contains("another version"));
    }
    file.set_len(0).unwrap();
    file.set_len(length).unwrap();
    why_not(&file);
}

#[test]
fn words_that_lead_out_of_the_region_are_found_before_they_are_followed() {
    let wrong: [fn(&Region); 12] = [
        |region| region.header().slots_high.0.store(0, Ordering::SeqCst),
        |region| region.header().slots_high.0.store(5, Ordering::SeqCst),
        |region| region.header().frames_ready.0.store(0, Ordering::SeqCst),
        |region| region.header().frames_ready.0.store(65, Ordering::SeqCst),
        |region| region.header().pages_ready.store(4097, Ordering::SeqCst),
        |region| region.header().blocks[2].0.ready.store(1 << 40, Ordering::SeqCst),
        |region| region.header().page_high.store(4097, Ordering::SeqCst),
        |region| region.header().blocks[1].0.high.store(4097, Ordering::SeqCst),
        |region| std::mem::forget(region.role(Work::Commit).try_take(4).unwrap()),
        |region| std::mem::forget(region.role(Work::Structure(7)).try_take(4).unwrap()),
        |region| assert!(region.slot(1).try_take(1).is_some()),
        |region| assert!(region.slot(3).try_take(u16::MAX).is_some()),
    ];
    for (n, spoil) in wrong.into_iter().enumerate() {
        let (file, _) = left_behind(&format!("bounds-{n}"), OURS);
        spoil(&Region::attach((file.try_clone().unwrap(), Path::new("region")), OURS).unwrap());
        assert!(why_not(&file).contains("impossible"), "{n}");
    }
}

impl Region {
    /// The bytes that there is memory for, as the region's own words say.
    pub(crate) fn certain(&self) -> Vec<Range<usize>> {
        let header = self.header();
        let mut certain = self.places_of_pages(0, header.pages_ready.load(Ordering::SeqCst));
        certain.extend([0..self.offsets.descriptors, self.offsets.last_word..self.offsets.end]);
        for volume in (0..self.geometry.volumes as u8).map(VolumeId) {
            let ready = header.blocks[volume.index()].0.ready.load(Ordering::SeqCst);
            certain.extend(ready::places_of_bits(
                self.block_bits_at(volume),
                self.geometry.blocks_max,
                0,
                ready,
            ));
        }
        let frames = header.frames_ready.0.load(Ordering::SeqCst) as usize;
        certain.push(self.offsets.frames..self.offsets.frames + frames * self.geometry.block_size);
        certain.extend(self.places_of_descriptions(&(0..frames as u64)));
        certain
    }
}

/// A cache may be a quarter of the machine; what describes its frames is a part of that.
#[test]
fn what_describes_frames_takes_memory_as_they_do() {
    let (file, region) = in_a_file("described", Geometry::new(512, 64 << 20, 65536, false));
    let taken = || 512 * file.metadata().unwrap().blocks() as usize;
    let described = LARGE_PAGE / size_of::<FrameDesc>();
    let mut before = taken();
    // One for descriptors, one for references, and the last word.
    assert!(before <= region.offsets.descriptors + 2 * LARGE_PAGE + 4096, "{before} to begin with");
    // Until another large page describes some.
    for step in 1..=20 {
        let frames = region.more_frames().unwrap();
        let crosses = (frames.end as usize).div_ceil(described) > (frames.start as usize).div_ceil(described);
        let large_pages = if crosses && step > 1 { 2 } else { 1 };
        assert_eq!(taken(), before + large_pages * LARGE_PAGE, "{step}: {frames:?}");
        before = taken();
        for frame in frames.map(FrameId) {
            assert_eq!(region.frame(frame).state(), FrameState::Free);
            region.referenced(frame).store(1, Ordering::SeqCst);
        }
        assert_eq!(taken(), before, "{step}: what describes them had memory");
    }
    assert!(region.header().frames_ready.0.load(Ordering::SeqCst) as usize > described, "two large pages");
}

#[test]
fn what_a_dead_transaction_was_called_the_next_in_its_slot_is_not() {
    let region = Region::private(small()).unwrap();
    let slot = region.slot(3);
    let dead = slot.try_take(1).unwrap();
    slot.set_name("of the dead");
    let dead = slot.note_mended(slot.note_dead(dead).unwrap());
    slot.give_back(dead);
    slot.try_take(2).unwrap();
    assert_eq!((slot.member(), slot.name()), (Some(2), None));
}
