//! The superblock's bytes.

use std::time::Duration;

use proptest::prelude::*;

use sablecat_os::disk::{AlignedBuf, File, How};
use sablecat_os::sim::{Fault, Survival};

use super::*;
use crate::error::ErrorKind;
use crate::pages::volume::bytes::SUPERBLOCK_BYTES;
use crate::pages::volume::placement::{ExtraVolume, Place, Placement, Rule};
use crate::pages::volume::superblock::{COPIES_AT, Superblock, read_newest, seal, write};
use crate::pages::volume::{Compression, Journal, RetainedCheckpoint};
use crate::region::{GENERATION_MAX, VOLUMES_MAX};

fn sample() -> Superblock {
    Superblock {
        uuid: UUID,
        codec: plain(4096),
        generation: 0x0102_0304_0506,
        checkpoint: Lsn(0x1122_3344_5566_7788),
        log_position: Lsn(77),
        map_root: SealedBlock(900 | 0x1234 << 40),
        map_height: 2,
        pages_high: 5000,
        blocks_high: 1000,
        tree_next: 17,
        page_count: 800,
        clean: true,
        time_ms: 0x0102_0304_0506,
        log_floor: Lsn(0x1122_0000_0000_0000),
        journal: None,
        epochs: Vec::new(),
        placement: Placement::default(),
        old_ends: None,
    }
}

fn sample_epoch(generation: u64) -> RetainedCheckpoint {
    RetainedCheckpoint {
        generation,
        checkpoint: Lsn(generation * 100),
        log_position: Lsn(generation * 100 - 8),
        time_ms: generation,
        map_root: SealedBlock(700 | 0xfffff << 40),
        map_height: 1,
        pages_high: 400,
        tree_next: 16,
    }
}

/// As many volumes as there can be, and one rule of each kind for the last.
fn placement() -> Placement {
    let volumes = (1..VOLUMES_MAX as u8).map(|n| ExtraVolume {
        name: format!("volume {n}"),
        path: format!("/mnt/disk {n}/environment.db"),
        uuid: [n; 16],
        generation: u64::from(n),
        blocks_high: 16 + u64::from(n),
        compression: Compression::None,
    });
    let places = [
        Place::database("orders"),
        Place::databases_beginning_with("log."),
        Place::keys("orders", b"\x00\xff"),
    ];
    let rules = places.map(|place| Rule { place, volume: VolumeId(15) });
    Placement { volumes: volumes.collect(), rules: rules.to_vec(), ..Placement::default() }
}

/// One that says everything there is to say.
fn keeping() -> Superblock {
    let journal =
        Journal::new().directory("../old").keep_bytes(1 << 30).keep_for(Duration::from_secs(60)).epochs(32);
    let journal = journal.epoch_spacing(Duration::from_secs(300)).keep_epochs_for(Duration::from_secs(3600));
    Superblock {
        journal: Some(journal),
        epochs: (1..=32).map(sample_epoch).collect(),
        placement: placement(),
        ..sample()
    }
}

fn blank() -> std::sync::Arc<dyn File> {
    let how = How { create: true, create_new: false, read_only: false, direct: false, durable: false };
    let file = disk(1).open(path(), how).expect("no faults");
    file.set_len(131_072).expect("no faults");
    file
}

/// Writes a superblock where it usually is.
fn put(file: &dyn File, superblock: &Superblock) -> Result<()> {
    write(file, path(), superblock, Berth::usual(superblock.generation))
}

fn resealed(mut bytes: [u8; SUPERBLOCK_BYTES]) -> [u8; SUPERBLOCK_BYTES] {
    seal(&mut bytes);
    bytes
}

#[test]
fn what_is_encoded_is_decoded() {
    let superblock = sample();
    assert_eq!(Superblock::decode(&superblock.encode()), Ok(superblock));
    assert_eq!(Superblock::decode(&keeping().encode()), Ok(keeping()));
    let initial = Superblock::initial(UUID, plain(65536));
    assert_eq!(Superblock::decode(&initial.encode()), Ok(initial));
}

#[test]
fn the_bytes_are_those_of_the_format() {
    let bytes = sample().encode();
    assert_eq!(&bytes[..20], b"\x89sablecat\r\n\x1a\n\0\0\0\x06\0\0\0");
    assert_eq!(bytes[24..32], [0, 16, 0, 0, 1, 0, 0, 0]);
    assert_eq!(bytes[32..48], UUID);
    assert_eq!(bytes[48..64], [6, 5, 4, 3, 2, 1, 0, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
    assert_eq!(
        bytes[64..88],
        [77, 0, 0, 0, 0, 0, 0, 0, 0x84, 3, 0, 0, 0, 0x34, 0x12, 0, 2, 0, 0, 0, 0x88, 0x13, 0, 0]
    );
    assert_eq!(
        bytes[88..112],
        [0xe8, 3, 0, 0, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0, 0x20, 3, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(bytes[112..128], [6, 5, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0x22, 0x11]);
    assert!(
        bytes[128..].chunks(8).enumerate().all(|(n, word)| n % 64 == 47 || word.iter().all(|&b| b == 0)),
        "but for the sectors' ends"
    );
    let bytes = keeping().encode();
    assert_eq!(bytes[28], 7);
    assert_eq!(
        bytes[128..168],
        [&1u64.rotate_right(34), &60_000, &300_000, &3_600_000, &(32 | 6 << 32 | 32 << 48)]
            .map(|n| n.to_le_bytes())
            .concat()
    );
    assert_eq!(&bytes[168..175], b"../old\0");
    let epoch = [1u64, 100, 92, 1, 700 | 0xfffff << 40, 400 | 16 << 32, 1].map(u64::to_le_bytes).concat();
    assert_eq!(bytes[512..568], epoch);
    assert_eq!(bytes[1024..1032], 9u64.to_le_bytes());
    let volumes = [
        &[15u8, 3][..],
        &[1; 16],
        &1u64.to_le_bytes(),
        &17u64.to_le_bytes(),
        b"\x08\0volume 1",
        b"\x1a\0/mnt/disk 1/environment.db",
        &[2; 16],
    ];
    assert!(bytes[2560..3064].starts_with(&volumes.concat()));
    for bytes in [bytes, sample().encode()] {
        let mut without = bytes;
        without[20..24].fill(0);
        without.chunks_mut(512).for_each(|sector| sector[504..].fill(0));
        let end =
            [crc32c::crc32c(&without).to_le_bytes(), (sample().generation as u32).to_le_bytes()].concat();
        assert!(bytes.chunks(512).all(|sector| sector[504..] == end));
    }
}

/// As builds wrote it as version 4: with a journal or other volumes the ends were the generation, or a sum of
/// it all; without, zeros.
fn of_version_4() -> [Superblock; 3] {
    let ends = [(keeping(), keeping().generation), (keeping(), 0x1234_5678), (sample(), 0)];
    ends.map(|(superblock, ends)| Superblock { old_ends: Some(ends), ..superblock })
}

#[test]
fn a_superblock_of_version_4_is_read() {
    for superblock in of_version_4() {
        let mut bytes = superblock.encode();
        bytes[16] = 4;
        assert_eq!(Superblock::decode(&resealed(bytes)), Ok(superblock));
    }
}

/// A crash while it is written once more, as each opening does, leaves one or the other.
#[test]
fn a_superblock_of_version_4_differs_in_one_sector_when_it_is_written_once_more() {
    for superblock in of_version_4() {
        let mut before = superblock.encode();
        before[16] = 4;
        let before = resealed(before);
        let again = Superblock::decode(&before).expect("known").encode();
        assert!(before != again && before[512..] == again[512..]);
    }
}

/// As versions before 4 wrote it: blocks had no seals.
fn unsealed(superblock: Superblock) -> Superblock {
    let without = |named: SealedBlock| SealedBlock::unsealed(named.block());
    let epochs = superblock
        .epochs
        .iter()
        .map(|epoch| RetainedCheckpoint { map_root: without(epoch.map_root), ..*epoch })
        .collect();
    Superblock { map_root: without(superblock.map_root), epochs, ..superblock }
}

#[test]
fn a_superblock_of_version_3_is_read() {
    let mut bytes = unsealed(keeping()).encode();
    bytes[16] = 3;
    assert_eq!(Superblock::decode(&resealed(bytes)), Ok(unsealed(keeping())));
    for sealed in [
        Superblock { map_root: sample().map_root, ..unsealed(keeping()) },
        Superblock { epochs: keeping().epochs, ..unsealed(keeping()) },
    ] {
        let mut bytes = sealed.encode();
        bytes[16] = 3;
        assert!(Superblock::decode(&resealed(bytes)).expect_err("it had none").contains("does not know"));
    }
}

/// As version 2 wrote it: there were no other volumes.
#[test]
fn a_superblock_of_version_2_is_read() {
    let without = Superblock { placement: Placement::default(), ..unsealed(keeping()) };
    let mut bytes = without.encode();
    bytes[16] = 2;
    assert_eq!(Superblock::decode(&resealed(bytes)), Ok(without));
    let mut bytes = unsealed(keeping()).encode();
    bytes[16] = 2;
    assert!(Superblock::decode(&resealed(bytes)).expect_err("it had none").contains("does not know"));
}

/// As version 1 wrote it.
#[test]
fn a_superblock_of_version_1_is_read() {
    let old = Superblock { old_ends: Some(0), ..unsealed(sample()) };
    let mut bytes = old.encode();
    bytes[16] = 1;
    bytes[112..].fill(0);
    let read = Superblock::decode(&resealed(bytes)).expect("known");
    assert_eq!(read, Superblock { time_ms: 0, log_floor: Lsn(0), ..old });
    // It had no journal.
    bytes[28] |= 2;
    assert!(Superblock::decode(&resealed(bytes)).is_err());
}

#[test]
fn no_bit_of_it_may_change() {
    let mut bytes = sample().encode();
    for bit in 0..SUPERBLOCK_BYTES * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Superblock::decode(&bytes).is_err(), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

/// Sizes of blocks and trailers that there are not, and codecs to come.
#[test]
fn how_blocks_are_made_is_known_or_refused() {
    let with = |change: &dyn Fn(&mut [u8; SUPERBLOCK_BYTES])| {
        let mut bytes = sample().encode();
        change(&mut bytes);
        Superblock::decode(&resealed(bytes))
    };
    for size in [0u32, 1000, 256, 131_072, u32::MAX] {
        let why =
            with(&|bytes| bytes[24..28].copy_from_slice(&size.to_le_bytes())).expect_err("no such size");
        assert!(why.contains("page size"), "{why}");
    }
    for trailer in [4u16, 33, 40, 4096] {
        let why = with(&|bytes| bytes[82..84].copy_from_slice(&trailer.to_le_bytes()))
            .expect_err("no such trailer");
        assert!(why.contains("behind a page"), "{why}");
    }
    let trailed = Superblock { codec: Codec::new(4096, 32).expect("possible"), ..sample() };
    assert_eq!(Superblock::decode(&trailed.encode()), Ok(trailed));
    let why = with(&|bytes| bytes[81] = 9).expect_err("no such codec");
    assert!(why.contains("codec 9") && why.contains("newer build"), "{why}");
    let why = with(&|bytes| bytes[102] = 1).expect_err("what nothing uses");
    assert!(why.contains("does not know"), "{why}");
}

/// That there are volumes which are not encrypted is said where others are, and stays beside what they are
/// compressed by.
#[cfg(feature = "encryption")]
#[test]
fn volumes_without_encryption_are_told_to_who_knows_none() {
    use crate::crypt::Cipher;

    let codec = Codec::of_cipher(4096, Some(Cipher::default())).expect("possible");
    let mut superblock = Superblock { codec, ..keeping() };
    superblock.placement.marks = 0x40;
    let bytes = superblock.encode();
    assert_eq!((bytes[81] & 0x40, Superblock::decode(&bytes)), (0x40, Ok(superblock.clone())));
    superblock.codec = Codec::new(4096, 0).expect("possible");
    let why = Superblock::decode(&superblock.encode()).expect_err("no volume is encrypted");
    assert!(why.contains("not encrypted"), "{why}");
}

/// What the volumes are compressed by, and that a build that cannot read it is told.
#[test]
fn compression_is_said_of_each_volume_and_refused_by_who_has_it_not() {
    let mut superblock = keeping();
    for (n, volume) in superblock.placement.volumes.iter_mut().enumerate() {
        volume.compression = [Compression::None, Compression::Lz4, Compression::Zstd { level: 9 }][n % 3];
    }
    superblock.placement.compression = Compression::zstd();
    for marks in [0x10, 0x20, 0x30] {
        superblock.placement.marks = marks;
        let decoded = Superblock::decode(&superblock.encode());
        if marks != 0x30 {
            decoded.expect_err("compressed by what it says there is not");
        } else if cfg!(all(feature = "lz4", feature = "zstd")) {
            assert_eq!(decoded, Ok(superblock.clone()));
        } else {
            let why = decoded.expect_err("it cannot be read");
            let missing = if cfg!(feature = "lz4") { "zstd" } else { "lz4" };
            assert!(why.contains(&format!("feature `{missing}`")), "{why}");
        }
    }
    // It is for ever, also when nothing is compressed any more.
    superblock.placement.compression = Compression::None;
    superblock.placement.volumes.iter_mut().for_each(|volume| volume.compression = Compression::None);
    let decoded = Superblock::decode(&superblock.encode());
    assert_eq!(decoded.is_ok(), cfg!(all(feature = "lz4", feature = "zstd")));
    for parts in [[1, 1], [2, 0], [2, 23], [3, 0]] {
        let mut bytes = Superblock { placement: Placement::default(), ..superblock.clone() }.encode();
        bytes[100..102].copy_from_slice(&parts);
        assert!(Superblock::decode(&resealed(bytes)).expect_err("none").contains("does not know"));
    }
}

#[test]
fn every_absurd_field_is_refused_in_spite_of_its_checksum() {
    type Change = fn(&mut Superblock);
    let absurd: [(&str, Change); 11] = [
        ("retained epoch", |s| s.epochs[3].generation = 2),
        ("retained epoch", |s| s.epochs[3].checkpoint = Lsn(u64::MAX)),
        ("retained epoch", |s| s.epochs[3].map_root = SealedBlock(1000)),
        ("retained epoch", |s| s.epochs[3].map_height = 200),
        ("generation", |s| s.generation = 0),
        ("levels", |s| s.map_height = 200),
        ("levels", |s| s.map_height = 0),
        ("root", |s| s.map_root = SealedBlock(3)),
        ("root", |s| s.map_root = SealedBlock(1000)),
        ("high-water", |s| s.blocks_high = u64::MAX),
        ("pages", |s| s.page_count = 6000),
    ];
    for (word, change) in absurd {
        let mut superblock = keeping();
        change(&mut superblock);
        let why = Superblock::decode(&superblock.encode()).expect_err(word);
        assert!(why.contains(word), "{why}");
    }
}

/// Of two superblocks with a journal, one written over the other, any sectors may be there after a crash.
#[test]
fn what_a_crash_tore_is_not_taken_for_damage() {
    let (old, new) = (
        Superblock { generation: 60, ..keeping() },
        Superblock { generation: 62, epochs: Vec::new(), ..keeping() },
    );
    let plain = Superblock { generation: 62, ..sample() };
    // One that was cut short, and the one that was written when it had been.
    let again = Superblock { pages_high: 5001, ..new.clone() };
    for (old, new) in [(&old, &new), (&old, &plain), (&plain, &old), (&new, &again)] {
        for torn in 1..255u32 {
            let mut bytes = old.encode();
            for sector in (0..8).filter(|sector| torn >> sector & 1 == 1) {
                bytes[sector * 512..][..512].copy_from_slice(&new.encode()[sector * 512..][..512]);
            }
            if bytes == old.encode() || bytes == new.encode() {
                continue;
            }
            let file = blank();
            file.write_at(&bytes, 0).expect("no faults");
            put(&*file, &Superblock { generation: 61, ..keeping() }).expect("no faults");
            let newest = read_newest(&*file, path()).expect("one is whole");
            assert_eq!(
                (newest.superblock.generation, newest.complaints.len()),
                (61, 0),
                "{torn:08b}: {:?}",
                newest.complaints
            );
        }
    }
}

/// A superblock that a crash cut short, over which one of the same generation was written, cut short too:
/// what the second has in common with the first must not complete it, since what the first names is gone.
#[test]
fn a_superblock_cut_short_is_not_completed_by_the_next_one() {
    let old = Superblock { generation: 60, ..keeping() }.encode();
    let first = Superblock { generation: 62, epochs: Vec::new(), ..keeping() };
    let second = Superblock { map_root: SealedBlock(901 | 0x4321 << 40), ..first.clone() }.encode();
    let first = first.encode();
    let over = |bytes: &mut [u8; SUPERBLOCK_BYTES], new: &[u8; SUPERBLOCK_BYTES], sectors: u32| {
        for sector in (0..8).filter(|sector| sectors >> sector & 1 == 1) {
            bytes[sector * 512..][..512].copy_from_slice(&new[sector * 512..][..512]);
        }
    };
    for (of_first, of_second) in (0..255).flat_map(|first| (1..256).map(move |second| (first, second))) {
        let mut bytes = old;
        over(&mut bytes, &first, of_first);
        over(&mut bytes, &second, of_second);
        let is_whole = Superblock::decode(&bytes).is_ok();
        assert_eq!(is_whole, of_second == 255, "sectors {of_first:08b}, then {of_second:08b}");
    }
}

#[test]
fn generations_end_where_what_tells_of_them_in_memory_does() {
    let last = Superblock { generation: GENERATION_MAX, ..Superblock::initial(UUID, plain(65536)) };
    assert_eq!(Superblock::decode(&last.encode()), Ok(last.clone()));
    assert_eq!(last.next_generation().unwrap_err().kind(), ErrorKind::Exhausted);
    let with = |generation| Superblock { generation, ..last.clone() };
    assert_eq!(
        with(GENERATION_MAX / 2 + 1).check_generations_left().unwrap_err().kind(),
        ErrorKind::Exhausted
    );
    with(GENERATION_MAX / 2).check_generations_left().unwrap();
    for generation in [GENERATION_MAX + 1, 1 << 62, u64::MAX] {
        let beyond = Superblock { generation, ..last.clone() };
        let why = Superblock::decode(&beyond.encode()).unwrap_err().to_string();
        assert!(why.contains("generation"), "{why}");
    }
}

#[test]
fn places_in_the_log_that_cannot_be_are_refused() {
    let with = |log_position, checkpoint, log_floor| {
        let superblock = Superblock {
            log_position: Lsn(log_position),
            checkpoint: Lsn(checkpoint),
            log_floor: Lsn(log_floor),
            ..keeping()
        };
        Superblock::decode(&superblock.encode())
    };
    let checkpoint = keeping().checkpoint.0;
    with(checkpoint, checkpoint, checkpoint).unwrap();
    with(checkpoint, Lsn::END.0 - 1, Lsn::END.0 - 1).unwrap();
    for (log_position, checkpoint, log_floor) in [
        (checkpoint + 1, checkpoint, 0),
        (u64::MAX, checkpoint, 0),
        (0, Lsn::END.0, 0),
        (0, checkpoint, Lsn::END.0),
        (u64::MAX, u64::MAX, u64::MAX),
    ] {
        let why = with(log_position, checkpoint, log_floor).unwrap_err();
        assert!(why.contains("a log from"), "{why}");
    }
}

#[test]
fn superblocks_whose_sectors_end_in_their_generation_are_read() {
    let superblock = keeping();
    let mut bytes = superblock.encode();
    for sector in bytes.chunks_exact_mut(512) {
        sector[504..].copy_from_slice(&superblock.generation.to_le_bytes());
    }
    seal(&mut bytes);
    assert_eq!(
        Superblock::decode(&bytes),
        Ok(Superblock { old_ends: Some(superblock.generation), ..superblock })
    );
}

#[test]
fn the_newest_valid_one_is_chosen() {
    let file = blank();
    for generation in 1..6 {
        let superblock = Superblock { generation, ..sample() };
        put(&*file, &superblock).expect("no faults");
        let newest = read_newest(&*file, path()).expect("valid");
        assert_eq!(newest.superblock, superblock);
        assert!(newest.complaints.is_empty());
    }
}

/// A process that was stopped may write an old one late, where it was told to.
#[test]
fn the_newest_is_chosen_in_whatever_berth_it_is() {
    for berth in Berth::all() {
        let file = blank();
        for generation in 1..6 {
            put(&*file, &Superblock { generation, ..sample() }).expect("no faults");
        }
        let newest = Superblock { generation: 6, ..sample() };
        write(&*file, path(), &newest, berth).expect("no faults");
        for late in Berth::all().filter(|&late| late != berth) {
            write(&*file, path(), &Superblock { generation: 4, ..sample() }, late).expect("no faults");
            let found = read_newest(&*file, path()).expect("valid");
            assert_eq!(
                (&found.superblock, found.berth, found.in_doubt),
                (&newest, berth, false),
                "{late:?} after {berth:?}"
            );
        }
    }
}

/// Of those that may never have been written one damaged copy says nothing: the other would be there.
#[test]
fn a_berth_is_in_doubt_when_nothing_in_it_can_be_read() {
    for berth in Berth::all() {
        let file = blank();
        for generation in 1..6 {
            put(&*file, &Superblock { generation, ..sample() }).expect("no faults");
        }
        let doubts = COPIES_AT[berth.index()].map(|at| {
            file.write_at(&[0x55; SUPERBLOCK_BYTES], at).expect("no faults");
            read_newest(&*file, path()).expect("another is whole").in_doubt
        });
        assert_eq!(doubts, [false, true], "{berth:?}");
    }
}

/// A superblock of which a power failure left one copy, which cannot be read the first time.
#[test]
fn a_superblock_that_was_passed_by_is_not_found_the_next_time() {
    for (berth, copy) in Berth::all().flat_map(|berth| [(berth, 0), (berth, 1)]) {
        let disk = disk(1);
        let store = Store::create(&disk, 512).expect("no faults");
        for stamp in 1..5 {
            store.checkpoint_keeping(&Changes::from([(1, Some(stamp))])).expect("no faults");
        }
        let before = store.volume.superblock();
        drop(store);
        if berth == Berth::usual(before.generation) {
            continue;
        }
        let mut begun = AlignedBuf::new(SUPERBLOCK_BYTES);
        begun.copy_from_slice(&Superblock { generation: before.generation + 1, ..before.clone() }.encode());
        let file = disk.open(path(), How::default()).expect("there");
        file.write_at(&begun, COPIES_AT[berth.index()][copy]).and_then(|()| file.sync()).expect("no faults");
        // The opening of the file, and the reads before that one.
        disk.fail_at(
            disk.calls() + 1 + (2 * berth.index() + copy) as u64 + 1,
            Fault::Error(std::io::ErrorKind::Other),
        );
        let volume = Volume::open(&disk, path(), false, false).expect("another is whole");
        assert_eq!(
            (volume.superblock(), volume.is_in_doubt(), volume.complaints().len()),
            (before.clone(), false, 1),
            "{berth:?}"
        );
        for survival in Survival::ALL {
            let left = disk.crash_as(survival, 1);
            assert_eq!(
                Volume::look(&left, path()).expect("whole").generation,
                before.generation,
                "{berth:?}, copy {copy}, {survival:?}"
            );
        }
        volume.check_generation().expect("it is the newest");
    }
}

#[test]
fn errors_name_what_is_wrong() {
    let refusal = |fill: &dyn Fn(&mut [u8])| {
        let file = blank();
        let mut bytes = sample().encode().to_vec();
        fill(&mut bytes);
        file.write_at(&bytes, 0).expect("no faults");
        read_newest(&*file, path()).expect_err("refused")
    };
    let empty = refusal(&|bytes| bytes.fill(0));
    assert!(empty.is_corruption() && empty.to_string().contains("not a sablecat volume"), "{empty}");
    let text = refusal(&|bytes| bytes.copy_within(10.., 9));
    assert!(text.to_string().contains("text mode"), "{text}");
    let stripped = refusal(&|bytes| bytes[0] &= 0x7f);
    assert!(stripped.to_string().contains("7-bit"), "{stripped}");
    let foreign = refusal(&|bytes| bytes[..16].copy_from_slice(b"SQLite format 3\0"));
    assert!(foreign.to_string().contains("does not begin as"), "{foreign}");
    let damaged = refusal(&|bytes| bytes[60] ^= 1);
    assert!(damaged.is_corruption() && damaged.to_string().contains("checksum"), "{damaged}");
}

#[test]
fn a_later_format_is_refused_although_an_older_generation_is_readable() {
    let file = blank();
    put(&*file, &Superblock { generation: 7, ..sample() }).expect("no faults");
    // Another version, an unknown flag, a field where there was none.
    for later in [16, 28, 2000] {
        let mut bytes = Superblock { generation: 8, ..sample() }.encode();
        bytes[later] |= 8;
        file.write_at(&resealed(bytes), 0).expect("no faults");
        let error = read_newest(&*file, path()).expect_err("unknown");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
}

#[test]
fn parts_of_two_volumes_are_not_one() {
    let file = blank();
    put(&*file, &Superblock { generation: 7, ..sample() }).expect("no faults");
    put(&*file, &Superblock { generation: 8, uuid: [9; 16], ..sample() }).expect("no faults");
    assert!(read_newest(&*file, path()).expect_err("two").to_string().contains("two different volumes"));
}

proptest! {
    #[test]
    fn any_bytes_are_survived(
        at in 0usize..SUPERBLOCK_BYTES,
        patch in prop::collection::vec(any::<u8>(), 1..64),
        length in 0usize..=SUPERBLOCK_BYTES,
    ) {
        let mut bytes = keeping().encode();
        let end = SUPERBLOCK_BYTES.min(at + patch.len());
        bytes[at..end].copy_from_slice(&patch[..end - at]);
        let _ = Superblock::decode(&bytes[..length]);
        let _ = Superblock::decode(&resealed(bytes));
    }
}
