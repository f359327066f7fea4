//! As `present_format`, whose fixtures these are too: LSM trees, records that have to do with others, an
//! archived segment of the log, and a volume in the clear beside what is encrypted.

use sablecat::{
    Builder, Database, DatabaseOptions, Env, ErrorKind, Expiring, Index, IndexKeys, IndexOptions, Journal,
    Lifetime, Lsn, Method, Moment, OnRemove, Result, SequenceOptions, Target,
};
use sablecat_os::sim::{SimDisk, Survival};

use crate::old_formats::{self, DIRECTORY};
use crate::present_format::{Files, builder, put_all};

fn assert_sound(env: &Env) {
    let report = env.verify(&mut |_| {}).expect("read");
    assert_eq!((report.problems, report.pages_unreachable), (Vec::new(), 0));
}

/// An LSM tree of several layers, of which some things are in the log alone: it was killed.
const LSM_6: Files = &[
    ("sablecat.db", include_bytes!("../data/lsm-6-main")),
    ("log/0000000000000000.log", include_bytes!("../data/lsm-6-log")),
];
/// The kind of a root with layers, and where a page says its kind.
const LAYERS: (usize, u8) = (20, 7);

fn layered(disk: &SimDisk) -> Builder {
    builder(disk).page_size(512).newest_layer_bytes(0)
}

pub(super) fn make_lsm(disk: &SimDisk) -> Result<SimDisk> {
    let env = layered(disk).open(DIRECTORY)?;
    let readings = env.database_as("readings", Method::Lsm)?;
    for round in 0..3u8 {
        for n in (0..400u32).filter(|n| n % 3 >= u32::from(round)) {
            readings.insert(n.to_be_bytes(), [round; 20])?;
        }
    }
    readings.insert("long", vec![3; 3000])?;
    (0..400u32).step_by(10).try_for_each(|n| readings.remove(n.to_be_bytes()).map(drop))?;
    env.checkpoint()?;
    // What follows is in the log.
    readings.insert(10u32.to_be_bytes(), "again")?;
    readings.remove(11u32.to_be_bytes())?;
    readings.remove_range(300u32.to_be_bytes()..310u32.to_be_bytes())?;
    env.sync()?;
    Ok(disk.crash_as(Survival::Everything, 1))
}

/// What is in it, but for the value of the first record.
fn check_lsm(env: &Env, first: Option<&[u8]>) {
    assert_eq!(env.stats().expect("read").methods, ["LSM tree"]);
    let readings = env.existing_database("readings").expect("read").expect("there");
    let mut records = 1;
    for n in 0..400u32 {
        let value = match n {
            0 => first.map(<[u8]>::to_vec),
            10 => Some(b"again".to_vec()),
            11 | 300..310 => None,
            _ => (n % 10 != 0).then(|| vec![(n % 3) as u8; 20]),
        };
        records += u64::from(value.is_some());
        assert_eq!(readings.get(n.to_be_bytes()).expect("read"), value, "{n}");
    }
    assert_eq!(readings.get("long").expect("read"), Some(vec![3; 3000]));
    assert_eq!(
        (readings.len().expect("read"), readings.range(..).expect("begun").count()),
        (records, records as usize)
    );
    assert_sound(env);
}

#[test]
fn layers_with_filters_and_removals_are_recovered_and_merged_on() {
    let (at, kind) = LAYERS;
    let pages = || LSM_6[0].1[4..].chunks_exact(4 + old_formats::SECTOR);
    assert!(pages().any(|sector| sector[4 + at] == kind), "no root with layers is in the file");
    let disk = put_all(LSM_6);
    let env = layered(&disk).open(DIRECTORY).expect("known");
    assert!(env.recovery().recovered);
    check_lsm(&env, None);
    let readings = env.database("readings").expect("there");
    // Layers of both builds are merged.
    for round in 0..300u32 {
        readings.insert(0u32.to_be_bytes(), round.to_be_bytes()).expect("inserted");
        readings.insert(1u32.to_be_bytes(), [1; 20]).expect("inserted");
    }
    drop(readings);
    env.close().expect("closed");
    check_lsm(&layered(&disk).open(DIRECTORY).expect("known"), Some(&299u32.to_be_bytes()));
}

/// Databases that have to do with others, an archived segment of the log, and what has been written since.
const RELATED_6: Files = &[
    ("sablecat.db", include_bytes!("../data/related-6-main")),
    ("log/0000000000000001.log", include_bytes!("../data/related-6-log")),
    ("journal/20261130T085601Z-0000000000000000.journal", include_bytes!("../data/related-6-archived")),
];
/// When the last of the records that expire does, and the others, which are gone when they are looked at.
const LATE: Moment = Moment { ms: 4_000_000_000_000 };
const EARLY: Moment = Moment { ms: 1 };
/// Records of the first life of the log, of which the archived segment is.
const FIRST: u32 = 40;

/// The databases of [`RELATED_6`].
pub(super) struct Related {
    env: Env,
    people: Database,
    orders: Database,
    by_person: Index,
    lent: Database,
    meta: Database,
    backwards: Database,
    sessions: Expiring,
    scratch: Database,
}

impl Related {
    fn builder(disk: &SimDisk) -> Builder {
        let words = |_: &[u8], value: &[u8], keys: &mut IndexKeys| {
            value.split(|&byte| byte == b' ').for_each(|word| keys.push(word));
        };
        let nobody = |_: &[u8], _: &[u8], _: &[u8]| b"nobody".to_vec();
        let reversed = |one: &[u8], other: &[u8]| other.cmp(one);
        old_formats::builder(disk)
            .page_size(512)
            .extractor("words", words)
            .nullifier("nobody", nobody)
            .comparator("reversed", reversed)
    }

    fn open(env: Env) -> Result<Related> {
        let [people, orders, lent] = ["people", "orders", "lent"].map(|name| env.database(name));
        let (people, orders, lent) = (people?, orders?, lent?);
        let refers = |on_remove| IndexOptions::new("words").references(&people, on_remove);
        env.index("lent to", &lent, refers(OnRemove::Nullify("nobody".to_owned())))?;
        Ok(Related {
            by_person: env.index("orders by person", &orders, refers(OnRemove::Cascade))?,
            meta: env.database("meta")?,
            backwards: env.database_ordered_by("backwards", "reversed")?,
            sessions: Expiring::open(&env, "sessions")?,
            scratch: env.database_with("scratch", DatabaseOptions::new().temporary(true))?,
            people,
            orders,
            lent,
            env,
        })
    }

    fn put(&self, numbers: std::ops::Range<u32>) -> Result<()> {
        let options = SequenceOptions::new().bounds(100..=999).cache(1);
        let sequence = self.meta.sequence("numbers", options)?;
        for n in numbers {
            let person = format!("person {:02}", n % 8).replace(' ', "-");
            self.people.insert(&person, "")?;
            self.orders.insert(sequence.next()?.to_be_bytes(), &person)?;
            self.lent.insert(n.to_be_bytes(), &person)?;
            self.backwards.insert(n.to_be_bytes(), "")?;
            let until = if n % 2 == 0 { LATE } else { EARLY };
            self.env
                .write(|txn| self.sessions.insert(txn, n.to_be_bytes(), "open", Lifetime::Until(until)))?;
            self.scratch.insert(n.to_be_bytes(), "until it is opened again")?;
        }
        Ok(())
    }

    pub(super) fn make(disk: &SimDisk) -> Result<SimDisk> {
        let related = Related::open(Related::builder(disk).journal(Journal::new()).open(DIRECTORY)?)?;
        related.people.insert("nobody", "")?;
        related.put(0..FIRST)?;
        let Related { env, .. } = &related;
        let env = env.clone();
        drop(related);
        // The segment of this life is archived.
        env.close()?;
        let related = Related::open(Related::builder(disk).open(DIRECTORY)?)?;
        related.put(FIRST..FIRST + 5)?;
        related.env.checkpoint()?;
        related.put(FIRST + 5..FIRST + 10)?;
        related.people.remove("person-03")?;
        related.env.sync()?;
        Ok(disk.crash_as(Survival::Everything, 1))
    }

    /// What is in it after so many records were put.
    fn check(&self, records: u32, is_removed: bool) {
        let is_gone = |n: u32| is_removed && n % 8 == 3;
        let left = (0..records).filter(|&n| !is_gone(n)).count() as u64;
        assert_eq!(self.people.len().expect("read"), if is_removed { 8 } else { 9 });
        assert_eq!(self.orders.len().expect("read"), left, "the others went with whom they were of");
        let found = self.by_person.get_all(&self.env, "person-05").expect("begun").count();
        assert_eq!(found, (0..records).filter(|n| n % 8 == 5).count());
        for n in 0..records {
            let person = if is_gone(n) { "nobody".to_owned() } else { format!("person-{:02}", n % 8) };
            assert_eq!(self.lent.get(n.to_be_bytes()).expect("read"), Some(person.into_bytes()));
            let session = self.sessions.get(&self.env, n.to_be_bytes()).expect("read");
            assert_eq!(session.as_deref(), (n % 2 == 0).then_some(&b"open"[..]));
        }
        let first = self.backwards.first().expect("read").map(|(key, _)| key);
        assert_eq!(first, Some((records - 1).to_be_bytes().to_vec()), "the order is the comparator's");
        assert!(self.scratch.is_temporary() && self.scratch.is_empty().expect("read"));
        assert_eq!(self.by_person.verify(&self.env).expect("read"), [""; 0]);
        assert_eq!(self.sessions.verify(&self.env).expect("read"), [""; 0]);
        assert_sound(&self.env);
    }
}

#[test]
fn databases_that_have_to_do_with_others_are_recovered_and_written_on() {
    let disk = put_all(RELATED_6);
    let related = Related::open(Related::builder(&disk).open(DIRECTORY).expect("known")).expect("there");
    assert!(related.env.recovery().recovered);
    related.check(FIRST + 10, true);
    let refused = related.orders.insert("another", "a-stranger").expect_err("no such person");
    assert_eq!(refused.kind(), ErrorKind::Reference);
    let sequence = related.meta.sequence("numbers", SequenceOptions::new()).expect("there");
    assert_eq!(sequence.next().expect("left"), 100 + i64::from(FIRST) + 10);
    assert_eq!(sequence.bounds().expect("read"), 100..=999);
    related.scratch.insert("more", "").expect("inserted");
    let env = related.env.clone();
    drop((related, sequence));
    env.close().expect("closed");
    let again = Related::open(Related::builder(&disk).open(DIRECTORY).expect("known")).expect("there");
    again.check(FIRST + 10, true);
}

#[test]
fn an_archived_segment_leads_back_to_what_it_has() {
    let disk = put_all(RELATED_6);
    let history = Related::builder(&disk).history(DIRECTORY).expect("known");
    let archived: Vec<_> = history.files.iter().filter(|file| file.archived.is_some()).collect();
    assert_eq!((archived.len(), history.files.len()), (1, 2));
    let middle = Lsn(archived[0].first.0 + archived[0].bytes / 2);
    let recovery = Related::builder(&disk).recovery(DIRECTORY, Target::Lsn(middle));
    recovery.expect("known").apply().expect("taken back");
    let env = Related::builder(&disk).open(DIRECTORY).expect("known");
    let lent = env.existing_database("lent").expect("read").expect("there").len().expect("read");
    assert!(lent > 0 && lent < u64::from(FIRST), "{lent} records");
    assert_sound(&env);
}

pub(super) mod plain {
    use sablecat::{Compression, EncryptionKey, Place};

    use super::*;

    /// Encrypted but for one volume, compressed by Zstandard, and killed.
    const PLAIN_6: Files = &[
        ("sablecat.db", include_bytes!("../data/plain-6-main")),
        ("plain.db", include_bytes!("../data/plain-6-plain")),
        ("log/0000000000000000.log", include_bytes!("../data/plain-6-log")),
    ];

    /// Where a superblock says how pages become blocks: by AES, Zstandard, and some not enciphered.
    const CODEC: (usize, u8) = (81, 1 | 1 << 5 | 1 << 6);

    fn encrypted(disk: &SimDisk) -> Builder {
        builder(disk).encryption_key(EncryptionKey::from_bytes(&[6; 32]))
    }

    pub(in super::super) fn make(disk: &SimDisk) -> Result<SimDisk> {
        let env = encrypted(disk)
            .page_size(8192)
            .compression(Compression::zstd())
            .volume("plain", "plain.db")
            .volume_unencrypted("plain")
            .place(Place::database("open"), "plain")
            .open(DIRECTORY)?;
        let (open, words) = (env.database("open")?, env.database("words")?);
        let records = |step| (0..500u32).step_by(step);
        open.insert_batch(records(1).map(|n| (n.to_be_bytes(), "in the clear")))?;
        words.insert_batch(records(1).map(|n| (n.to_be_bytes(), format!("word {n} {n} {n}"))))?;
        env.checkpoint()?;
        open.insert_batch(records(7).map(|n| (n.to_be_bytes(), "changed")))?;
        words.insert_batch(records(7).map(|n| (n.to_be_bytes(), "changed")))?;
        env.sync()?;
        Ok(disk.crash_as(Survival::Everything, 1))
    }

    fn check(env: &Env) {
        let volumes = env.stats().expect("read").volumes;
        let volumes: Vec<_> = volumes.iter().map(|volume| (&volume.name[..], volume.encrypted)).collect();
        assert_eq!(volumes, [("main", true), ("plain", false)]);
        let [open, words] =
            ["open", "words"].map(|name| env.existing_database(name).expect("read").expect("there"));
        assert_eq!((open.len().expect("read"), words.len().expect("read")), (500, 500));
        for n in 0..500u32 {
            let (clear, word) = match n % 7 {
                0 => ("changed", "changed".to_owned()),
                _ => ("in the clear", format!("word {n} {n} {n}")),
            };
            assert_eq!(open.get(n.to_be_bytes()).expect("read"), Some(clear.into()));
            assert_eq!(words.get(n.to_be_bytes()).expect("read"), Some(word.into_bytes()));
        }
        assert_sound(env);
    }

    #[test]
    fn a_volume_in_the_clear_beside_an_encrypted_one_is_recovered_and_written_on() {
        let has =
            |at: usize, text: &str| PLAIN_6[at].1.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(has(1, "in the clear") && !has(0, "word 7"), "what is in the clear is the one volume alone");
        assert_eq!(PLAIN_6[0].1[8 + CODEC.0], CODEC.1);
        let disk = put_all(PLAIN_6);
        let refused = builder(&disk).open(DIRECTORY).expect_err("no key");
        assert_eq!(refused.kind(), ErrorKind::EncryptionKey);
        let env = encrypted(&disk).open(DIRECTORY).expect("known");
        assert!(env.recovery().recovered);
        check(&env);
        env.checkpoint().expect("written");
        env.close().expect("closed");
        check(&encrypted(&disk).open(DIRECTORY).expect("known"));
    }
}
