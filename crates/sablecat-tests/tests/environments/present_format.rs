//! Files of the present format, which is version 6 of the main volume: what it has that older ones had not.
//! They are read for ever, as those in `old_formats`.
//!
//! `write_the_fixtures` has made them, each by what is here under `make_*`, and was run once.

use std::path::{Path, PathBuf};

use sablecat::{Builder, Duplicates, Env, Journal, Method, MultiMap, Numbered, Place, Queue, Read, Result};
use sablecat_os::disk::{Disk, How};
use sablecat_os::sim::{SimDisk, Survival};

use crate::old_formats::{self, DIRECTORY, SECTOR, put};
use crate::present_uses;

/// The files of an environment, by their names in its directory.
pub(super) type Files = &'static [(&'static str, &'static [u8])];

/// A database of each kind, of which some things are in the log alone: it was killed.
const KINDS_6: Files = &[
    ("sablecat.db", include_bytes!("../data/kinds-6-main")),
    ("log/0000000000000000.log", include_bytes!("../data/kinds-6-log")),
];

/// All of their log is one segment.
pub(super) fn builder(disk: &SimDisk) -> Builder {
    old_formats::builder(disk).log_segment_size(1 << 20)
}

pub(super) fn put_all(files: Files) -> SimDisk {
    let disk = SimDisk::new(1);
    for (name, fixture) in files {
        let directory = Path::new(name).parent().unwrap_or(Path::new(""));
        disk.create_dir_all(&Path::new(DIRECTORY).join(directory)).expect("made");
        put(&disk, name, fixture);
    }
    disk.crash_as(Survival::Everything, 1)
}

/// The databases of [`KINDS_6`].
struct Kinds {
    env: Env,
    tags: MultiMap,
    lines: Numbered,
    letters: Queue,
}

impl Kinds {
    fn open(env: Env) -> Result<Kinds> {
        Ok(Kinds {
            tags: MultiMap::open(&env, "tags", Duplicates::Sorted)?,
            lines: Numbered::open_renumbered(&env, "lines")?,
            letters: Queue::open(&env, "letters", 16)?,
            env,
        })
    }

    fn make(disk: &SimDisk) -> Result<SimDisk> {
        let kinds = Kinds::open(builder(disk).page_size(512).open(DIRECTORY)?)?;
        let Kinds { env, tags, lines, letters } = &kinds;
        let table = env.database_as("table", Method::Hash)?;
        let ranks = env.database_as("ranks", Method::Counted)?;
        let words = env.database("words")?;
        env.write(|txn| {
            for n in 0..300u32 {
                txn.insert(&table, format!("key {n}"), format!("value {n}"))?;
                txn.insert(&ranks, n.to_be_bytes(), [n as u8; 20])?;
                txn.insert(&words, format!("word {n:03}"), format!("number {n}"))?;
                tags.insert(txn, format!("tag {:02}", n % 20), n.to_be_bytes())?;
            }
            (0..40).try_for_each(|n| lines.append(txn, format!("line {n}")).map(drop))?;
            (0..40).try_for_each(|n| letters.append(txn, format!("letter {n}")).map(drop))?;
            txn.insert(&table, "long", vec![7; 3000])
        })?;
        env.checkpoint()?;
        // What follows is in the log: among it a range that goes, and what moves the numbers of lines.
        env.write(|txn| {
            txn.remove_range(&words, "word 100".."word 250")?;
            txn.remove_range(&ranks, 10u32.to_be_bytes()..20u32.to_be_bytes())?;
            txn.remove(&table, "key 5")?;
            txn.insert(&table, "key 6", "changed")?;
            lines.insert(txn, 1, "the first")?;
            letters.consume(txn)?;
            letters.consume(txn).map(drop)
        })?;
        env.sync()?;
        Ok(disk.crash_as(Survival::Everything, 1))
    }

    fn check(&self) -> Result<()> {
        let Kinds { env, tags, lines, letters } = self;
        // Of the letters, lines, ranks, the table, tags and words.
        let [tree, counted] = ["B+tree", "counted B+tree"];
        assert_eq!(env.stats()?.methods, [tree, counted, counted, "hash table", tree, tree]);
        let (table, ranks, words) = (env.database("table")?, env.database("ranks")?, env.database("words")?);
        for n in 0..300u32 {
            let value = match n {
                5 => None,
                6 => Some(b"changed".to_vec()),
                _ => Some(format!("value {n}").into_bytes()),
            };
            assert_eq!(table.get(format!("key {n}"))?, value);
            let is_there = !(10..20).contains(&n);
            assert_eq!(ranks.get(n.to_be_bytes())?, is_there.then(|| vec![n as u8; 20]));
            let is_there = !(100..250).contains(&n);
            let word = words.get(format!("word {n:03}"))?;
            assert_eq!(word, is_there.then(|| format!("number {n}").into_bytes()));
        }
        assert_eq!((table.get("long")?, table.len()?), (Some(vec![7; 3000]), 300));
        assert_eq!((ranks.len()?, env.rank(&ranks, 100u32.to_be_bytes())?), (290, 90));
        for n in 0..20u32 {
            let values: Vec<_> = tags.values(env, format!("tag {n:02}"))?.collect::<Result<_>>()?;
            let wanted: Vec<_> = (0..15).map(|m| (20 * m + n).to_be_bytes().to_vec()).collect();
            assert_eq!(values, wanted);
        }
        assert_eq!((lines.len(env)?, lines.get(env, 1)?.as_deref()), (41, Some(&b"the first"[..])));
        assert_eq!(lines.get(env, 41)?.as_deref(), Some(&b"line 39"[..]));
        assert_eq!(letters.len(env)?, 38);
        assert_eq!(letters.peek(env)?.map(|(number, _)| number), Some(3));
        let report = env.verify(&mut |_| {})?;
        assert_eq!((report.problems, report.pages_unreachable), (Vec::new(), 0));
        Ok(())
    }
}

#[test]
fn databases_of_every_kind_are_recovered_and_written_on() {
    let disk = put_all(KINDS_6);
    let kinds = Kinds::open(builder(&disk).open(DIRECTORY).expect("known")).expect("there");
    assert!(kinds.env.recovery().recovered);
    kinds.check().expect("read");
    kinds.env.checkpoint().expect("written");
    kinds.letters.append_one("one more").expect("appended");
    kinds.env.write(|txn| kinds.letters.remove(txn, 41)).expect("removed");
    let env = kinds.env.clone();
    drop(kinds);
    env.close().expect("closed");
    let again = Kinds::open(builder(&disk).open(DIRECTORY).expect("known")).expect("there");
    again.check().expect("read");
}

mod sealed {
    use sablecat::{Compression, EncryptionKey};

    use super::*;

    /// Encrypted, compressed, and killed.
    const SEALED_6: Files = &[
        ("sablecat.db", include_bytes!("../data/sealed-6-main")),
        ("log/0000000000000000.log", include_bytes!("../data/sealed-6-log")),
    ];

    fn sealed(disk: &SimDisk, key: u8) -> Builder {
        builder(disk).encryption_key(EncryptionKey::from_bytes(&[key; 32]))
    }

    pub(super) fn make(disk: &SimDisk) -> Result<SimDisk> {
        let env = sealed(disk, 6).page_size(8192).compression(Compression::Lz4).open(DIRECTORY)?;
        let words = env.database("words")?;
        words.insert_batch((0..500u32).map(|n| (format!("word {n:03}"), format!("number {n} {n} {n}"))))?;
        env.checkpoint()?;
        env.rotate_key()?;
        words.insert_batch((0..500u32).step_by(7).map(|n| (format!("word {n:03}"), "changed")))?;
        env.sync()?;
        Ok(disk.crash_as(Survival::Everything, 1))
    }

    fn check(env: &Env) -> Result<()> {
        let words = env.database("words")?;
        assert_eq!(words.len()?, 500);
        for n in 0..500u32 {
            let wanted = if n % 7 == 0 { "changed".to_owned() } else { format!("number {n} {n} {n}") };
            assert_eq!(words.get(format!("word {n:03}"))?, Some(wanted.into_bytes()));
        }
        assert_eq!(env.verify(&mut |_| {})?.problems, [""; 0]);
        Ok(())
    }

    #[test]
    fn what_is_encrypted_and_compressed_is_recovered_and_written_on() {
        let disk = put_all(SEALED_6);
        let refused = sealed(&disk, 5).open(DIRECTORY).expect_err("another key");
        assert_eq!(refused.kind(), sablecat::ErrorKind::EncryptionKey);
        let env = sealed(&disk, 6).open(DIRECTORY).expect("known");
        assert!(env.recovery().recovered);
        check(&env).expect("read");
        env.checkpoint().expect("written");
        env.close().expect("closed");
        check(&sealed(&disk, 6).open(DIRECTORY).expect("known")).expect("read");
    }
}

/// As the fixtures of the versions before: see `old_formats`.
fn make_plain(disk: &SimDisk) -> Result<SimDisk> {
    let env = old_formats::builder(disk)
        .page_size(512)
        .journal(Journal::new().epochs(2))
        .volume("beside", "beside.db")
        .place(Place::database("far"), "beside")
        .open(DIRECTORY)?;
    let (words, far) = (env.database("words")?, env.database("far")?);
    for round in 0..4u32 {
        env.write(|txn| {
            let changed = |n: &u32| round == 0 || *n >= round && (n - round).is_multiple_of(7);
            for n in (0..300).filter(changed) {
                txn.insert(&words, format!("word {n:03}"), format!("round {round}, number {n}"))?;
            }
            for n in 0..40u32 {
                txn.insert(&far, n.to_be_bytes(), format!("far {round} {n}"))?;
            }
            txn.insert(&words, "long", vec![round as u8; 12_000])
        })?;
        env.checkpoint()?;
    }
    drop((words, far));
    env.close()?;
    Ok(disk.clone())
}

/// A file without its empty sectors: the only one of a directory, where that is named.
fn packed(disk: &SimDisk, name: &str) -> Vec<u8> {
    let only = |directory: &str| {
        let names = disk.list(&Path::new(DIRECTORY).join(directory)).expect("there");
        assert_eq!(names.len(), 1, "{names:?}");
        println!("{directory}{}", names[0]);
        format!("{directory}{}", names[0])
    };
    let name = &if name.ends_with('/') { only(name) } else { name.to_owned() };
    let file = disk.open(&Path::new(DIRECTORY).join(name), How::default()).expect("there");
    let mut bytes = vec![0; file.len().expect("read") as usize];
    file.read_at(&mut bytes, 0).expect("read");
    bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
    let mut packed = ((bytes.len() / SECTOR) as u32).to_le_bytes().to_vec();
    for (n, sector) in bytes.chunks_exact(SECTOR).enumerate() {
        if sector.iter().any(|byte| *byte != 0) {
            packed.extend((n as u32).to_le_bytes());
            packed.extend(sector);
        }
    }
    packed
}

/// Writes the fixtures to a directory that the variable `SABLECAT_FIXTURES` names.
#[test]
#[ignore = "it has been run: fixtures are made once for each format"]
fn write_the_fixtures() {
    let into = PathBuf::from(std::env::var_os("SABLECAT_FIXTURES").expect("a directory"));
    type Make = fn(&SimDisk) -> Result<SimDisk>;
    type Parts = &'static [(&'static str, &'static str)];
    let all: &[(&str, Make, Parts)] = &[
        ("format-6", make_plain, &[("main", "sablecat.db"), ("beside", "beside.db")]),
        ("kinds-6", Kinds::make, &[("main", "sablecat.db"), ("log", "log/0000000000000000.log")]),
        ("sealed-6", sealed::make, &[("main", "sablecat.db"), ("log", "log/0000000000000000.log")]),
        ("lsm-6", present_uses::make_lsm, &[("main", "sablecat.db"), ("log", "log/")]),
        (
            "related-6",
            present_uses::Related::make,
            &[("main", "sablecat.db"), ("log", "log/"), ("archived", "journal/")],
        ),
        (
            "plain-6",
            present_uses::plain::make,
            &[("main", "sablecat.db"), ("plain", "plain.db"), ("log", "log/")],
        ),
    ];
    for (name, make, files) in all {
        let disk = SimDisk::new(1);
        disk.create_dir_all(Path::new(DIRECTORY)).expect("made");
        let made = make(&disk).expect("made");
        for (part, file) in *files {
            std::fs::write(into.join(format!("{name}-{part}")), packed(&made, file)).expect("written");
        }
    }
}
