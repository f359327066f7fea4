//! Files as earlier builds wrote them, and as the present one does: they are read for ever.
//!
//! `tests/data/format-N-*` was made by the last build that wrote version N of the main volume,
//! `tests/data/entries-N-*` by the last that wrote version N of the catalog's entries; version 1 of these is
//! in the former. Records of the log in version 1 are in the logs of the latter, in version 2 in that of
//! `present_format`. A fixture is a file without its empty sectors: their number (u32), then for each that is
//! not empty its place (u32) and its 512 bytes.

use std::path::Path;

use sablecat::{Builder, Durability, Env, Journal, Target};
use sablecat_os::disk::{Disk, How};
use sablecat_os::sim::{SimDisk, Survival};

pub(super) const SECTOR: usize = 512;
pub(super) const DIRECTORY: &str = "env";

/// Puts a fixture onto a disk.
pub(super) fn put(disk: &SimDisk, name: &str, fixture: &[u8]) {
    let file =
        disk.open(&Path::new(DIRECTORY).join(name), How { create: true, ..How::default() }).expect("made");
    let number = |bytes: &[u8]| u64::from(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    file.set_len(number(fixture) * SECTOR as u64).expect("room");
    for sector in fixture[4..].chunks_exact(4 + SECTOR) {
        file.write_at(&sector[4..], number(sector) * SECTOR as u64).expect("room");
    }
}

pub(super) fn builder(disk: &SimDisk) -> Builder {
    let builder = Env::builder()
        .background(false)
        .cache_size(1 << 18)
        .log_buffer_size(1 << 16)
        .log_segment_size(1 << 16);
    builder.durability(Durability::NoSync).disk(std::sync::Arc::new(disk.clone()))
}

/// The format, the main volume, the other one.
type Fixture = (u32, &'static [u8], Option<&'static [u8]>);

/// Two databases, one of them in another volume if there is one, a long value, two epochs where there is a
/// journal; 512-byte pages.
///
/// Version 1: there were no journals. Version 2: there were no other volumes. Version 3: blocks were named
/// without their seals. Version 4: there were two berths for superblocks, and headers of other volumes had
/// their copies side by side. Version 5: of values that lie in leaves now the longer half had pages of their
/// own. Version 6: the present one.
const FIXTURES: [Fixture; 6] = [
    (1, include_bytes!("../data/format-1-main"), None),
    (2, include_bytes!("../data/format-2-main"), None),
    (3, include_bytes!("../data/format-3-main"), Some(include_bytes!("../data/format-3-beside"))),
    (4, include_bytes!("../data/format-4-main"), Some(include_bytes!("../data/format-4-beside"))),
    (5, include_bytes!("../data/format-5-main"), Some(include_bytes!("../data/format-5-beside"))),
    (6, include_bytes!("../data/format-6-main"), Some(include_bytes!("../data/format-6-beside"))),
];

/// Does something with an environment of each old format from this one on.
fn with_each(from: u32, act: impl Fn(&SimDisk)) {
    for (format, main, beside) in FIXTURES.into_iter().filter(|fixture| fixture.0 >= from) {
        println!("format {format}");
        let disk = SimDisk::new(1);
        disk.create_dir_all(Path::new(DIRECTORY)).expect("made");
        put(&disk, "sablecat.db", main);
        beside.into_iter().for_each(|beside| put(&disk, "beside.db", beside));
        act(&disk.crash_as(Survival::Everything, 1));
    }
}

/// What was put into it in rounds 0 to `last`.
fn check(env: &Env, last: u32) {
    let words = env.existing_database("words").expect("read").expect("there");
    let far = env.existing_database("far").expect("read").expect("there");
    assert_eq!((words.len().expect("read"), far.len().expect("read")), (301, 40));
    for n in 0..300u32 {
        let round = (1..=last).rfind(|&round| n >= round && (n - round).is_multiple_of(7)).unwrap_or(0);
        let value = words.get(format!("word {n:03}")).expect("read");
        assert_eq!(value, Some(format!("round {round}, number {n}").into_bytes()));
    }
    for n in 0..40u32 {
        assert_eq!(far.get(n.to_be_bytes()).expect("read"), Some(format!("far {last} {n}").into_bytes()));
    }
    assert_eq!(words.get("long").expect("read"), Some(vec![last as u8; 12_000]));
    assert_eq!(env.verify(&mut |_| {}).expect("read").problems, [""; 0]);
}

#[test]
fn an_environment_of_an_old_format_is_read_and_written_on() {
    with_each(1, |disk| {
        let env = builder(disk).open(DIRECTORY).expect("known");
        check(&env, 3);
        let more = env.database("more").expect("made");
        for n in 0..500u32 {
            more.insert(n.to_be_bytes(), [1; 40]).expect("inserted");
        }
        env.checkpoint().expect("written");
        drop(more);
        env.close().expect("closed");
        let env = builder(disk).open(DIRECTORY).expect("known");
        check(&env, 3);
        env.compact().expect("written");
        check(&env, 3);
        env.close().expect("closed");
    });
}

#[test]
fn an_environment_of_an_old_format_is_taken_back_to_its_epochs() {
    with_each(2, |disk| {
        let epochs = builder(disk).history(DIRECTORY).expect("known").epochs;
        assert_eq!(epochs.len(), 3, "two retained, and the present");
        let recovery = builder(disk).recovery(DIRECTORY, Target::Epoch(epochs[0].number)).expect("known");
        recovery.apply().expect("taken back");
        let env = builder(disk).open(DIRECTORY).expect("known");
        check(&env, 1);
        env.close().expect("closed");
    });
}

/// Who only reads finds it as it is.
#[test]
fn an_environment_of_an_old_format_is_read_without_being_written() {
    with_each(1, |disk| {
        let env = builder(disk).read_only(true).open(DIRECTORY).expect("known");
        check(&env, 3);
        env.close().expect("closed");
        let env = builder(disk).journal(Journal::new().epochs(1)).open(DIRECTORY).expect("known");
        check(&env, 3);
        env.close().expect("closed");
    });
}

/// The main volume, the other one, the log.
type EntriesFixture = [&'static [u8]; 3];

/// With entries of version 2: databases had no notes, and were made together with their names. Killed after a
/// checkpoint, since when databases were made, renamed and removed.
const ENTRIES_2: EntriesFixture = [
    include_bytes!("../data/entries-2-main"),
    include_bytes!("../data/entries-2-beside"),
    include_bytes!("../data/entries-2-log"),
];

/// With entries of version 3 and notes of version 5, which did not say by what method a database's records
/// are arranged. Killed as that of version 2, and while two transactions had made a database each.
const ENTRIES_3: EntriesFixture = [
    include_bytes!("../data/entries-3-main"),
    include_bytes!("../data/entries-3-beside"),
    include_bytes!("../data/entries-3-log"),
];

fn put_entries(fixture: EntriesFixture) -> SimDisk {
    let disk = SimDisk::new(1);
    disk.create_dir_all(&Path::new(DIRECTORY).join("log")).expect("made");
    let names = ["sablecat.db", "beside.db", "log/0000000000000000.log"];
    names.into_iter().zip(fixture).for_each(|(name, bytes)| put(&disk, name, bytes));
    disk
}

#[test]
fn databases_from_before_there_were_notes_are_recovered_and_written_on() {
    databases_are_recovered_and_written_on(ENTRIES_2);
}

#[test]
fn databases_from_before_there_were_methods_are_recovered_and_written_on() {
    databases_are_recovered_and_written_on(ENTRIES_3);
}

fn databases_are_recovered_and_written_on(fixture: EntriesFixture) {
    let disk = put_entries(fixture);
    let names = ["backwards", "far", "later", "later backwards", "new name", "words"];
    let opened = || {
        let env = builder(&disk).comparator("reversed", |a, b| b.cmp(a)).open(DIRECTORY).expect("known");
        assert_eq!(env.databases().expect("read"), names);
        assert_eq!(env.stats().expect("read").methods, ["B+tree"; 6]);
        let get = |name: &str, key: &[u8]| {
            env.existing_database(name).expect("read").expect("there").get(key).expect("read")
        };
        for n in 0..60u32 {
            assert_eq!(
                get("words", format!("word {n:03}").as_bytes()),
                Some(format!("number {n}").into_bytes())
            );
            assert_eq!(get("far", &n.to_be_bytes()), Some(format!("far {n}").into_bytes()));
            assert_eq!(get("backwards", &n.to_be_bytes()), Some(format!("back {n}").into_bytes()));
            assert_eq!(get("later", &n.to_be_bytes()), (n < 20).then(|| format!("later {n}").into_bytes()));
            assert_eq!(
                get("later backwards", &n.to_be_bytes()),
                (n < 20).then(|| format!("later back {n}").into_bytes())
            );
        }
        assert_eq!(get("words", b"long"), Some(vec![7; 3000]));
        assert_eq!(get("new name", b"k"), Some(b"v".to_vec()));
        let first = env
            .existing_database("backwards")
            .expect("read")
            .expect("there")
            .first()
            .expect("read")
            .expect("there");
        assert_eq!(first.0, 59u32.to_be_bytes());
        env.checkpoint().expect("written");
        let report = env.verify(&mut |_| {}).expect("read");
        assert_eq!(
            (report.problems, report.pages_unreachable),
            (Vec::new(), 0),
            "what was made and removed is freed"
        );
        env
    };
    let env = opened();
    assert!(env.recovery().recovered);
    env.rename_database("words", "words again").expect("renamed");
    env.close().expect("closed");
    let env = builder(&disk).comparator("reversed", |a, b| b.cmp(a)).open(DIRECTORY).expect("known");
    env.rename_database("words again", "words").expect("renamed");
    env.database("later").expect("there").insert(b"more", b"more").expect("inserted");
    env.close().expect("closed");
    opened().close().expect("closed");
}

/// The main volume and the log, with notes of version 4, which did not say which process had made them: of a
/// commit larger than the cache, whose list says what it has replaced, since a snapshot sees that; and of one
/// that was killed after a checkpoint had written out a part of what it made.
const ENTRIES_4: [&[u8]; 2] =
    [include_bytes!("../data/entries-4-main"), include_bytes!("../data/entries-4-log")];

#[test]
fn what_lists_of_nobody_name_is_freed() {
    let disk = SimDisk::new(1);
    disk.create_dir_all(&Path::new(DIRECTORY).join("log")).expect("made");
    put(&disk, "sablecat.db", ENTRIES_4[0]);
    put(&disk, "log/0000000000000000.log", ENTRIES_4[1]);
    let open = || builder(&disk).comparator("reversed", |a, b| b.cmp(a)).open(DIRECTORY).expect("known");
    let check = |env: &Env| {
        assert_eq!(env.databases().expect("read"), ["few", "words"]);
        let get = |name: &str, key: &str| {
            env.existing_database(name).expect("read").expect("there").get(key).expect("read")
        };
        for n in 0..640u32 {
            let value =
                if n % 4 == 0 { format!("changed {n}") } else { format!("{:40}", format!("number {n}")) };
            assert_eq!(get("words", &format!("word {n:03}")), Some(value.into_bytes()));
        }
        assert_eq!(get("few", "after").as_deref(), Some(&b"the checkpoint"[..]));
        env.checkpoint().expect("written");
        let report = env.verify(&mut |_| {}).expect("read");
        assert_eq!((report.problems, report.pages_unreachable), (Vec::new(), 0));
        assert!(report.pages < 160, "{} pages: a list leads to what it names", report.pages);
    };
    let env = open();
    assert!(env.recovery().recovered);
    check(&env);
    env.database("words").expect("there").insert("word 000", "changed 0").expect("inserted");
    env.close().expect("closed");
    let env = open();
    check(&env);
    env.close().expect("closed");
}
