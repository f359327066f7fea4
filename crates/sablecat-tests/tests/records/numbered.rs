//! Records by number, against a model; and files whose lines they are.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use sablecat::{Duplicates, Env, ErrorKind, Isolation, Method, MultiMap, Numbered, TextFile, TxnOptions};
use sablecat_os::disk::{Disk, File, FileId, HostDisk, How};
use sablecat_os::sim::SimDisk;

type Model = BTreeMap<u64, Vec<u8>>;

fn contents(records: &Numbered, env: &Env) -> Model {
    records.iter(env).unwrap().map(Result::unwrap).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn they_are_a_map_of_numbers(
        fixed in any::<bool>(),
        steps in prop::collection::vec((0u8..8, 1u64..40, prop::collection::vec(any::<u8>(), 0..6)), 1..80),
    ) {
        let env = Env::in_memory().unwrap();
        let records = if fixed {
            Numbered::open_fixed(&env, "d", 5, b'.').unwrap()
        } else {
            Numbered::open(&env, "d").unwrap()
        };
        let mut model = Model::new();
        for group in steps.chunks(7) {
            let keeps = group[0].1 % 4 > 0;
            let mut then = model.clone();
            let mut txn = env.begin().unwrap();
            for (what, number, record) in group {
                let mut stored = record.clone();
                if fixed {
                    stored.resize(5, b'.');
                }
                match what {
                    0..=2 => {
                        let last = then.last_key_value().map_or(0, |(&last, _)| last);
                        assert_eq!(records.append(&mut txn, record).unwrap(), last + 1);
                        then.insert(last + 1, stored);
                    }
                    3..=4 => {
                        records.put(&mut txn, *number, record).unwrap();
                        then.insert(*number, stored);
                    }
                    5 => {
                        assert_eq!(records.remove(&mut txn, *number).unwrap(), then.remove(number).is_some())
                    },
                    6 => {
                        let before = txn.savepoint();
                        records.append(&mut txn, record).unwrap();
                        txn.rollback_to(&before).unwrap();
                    }
                    _ => assert_eq!(records.get(&txn, *number).unwrap().as_ref(), then.get(number)),
                }
                assert_eq!(
                    records.last_number(&txn).unwrap(),
                    then.last_key_value().map_or(0, |(&last, _)| last)
                );
            }
            if keeps {
                txn.commit().unwrap();
                model = then;
            }
            prop_assert_eq!(contents(&records, &env), model.clone());
            prop_assert_eq!(records.len(&env).unwrap(), model.len() as u64);
            let (from, to) = (group[0].1, group[0].1 + 9);
            let found: Vec<_> = records.range(&env, from..to).unwrap().rev().map(Result::unwrap).collect();
            let wanted: Vec<_> =
                model.range(from..to).rev().map(|(&n, record)| (n, record.clone())).collect();
            prop_assert_eq!(found, wanted);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever is inserted and removed, the numbers are those of a list's places.
    #[test]
    fn renumbered_they_are_a_list(
        fixed in any::<bool>(),
        steps in prop::collection::vec(
            (0u8..10, any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 0..6)),
            1..120,
        ),
    ) {
        let env = Env::builder().page_size(512).background(false).in_memory().unwrap();
        let records = if fixed {
            Numbered::open_renumbered_fixed(&env, "d", 5, b'.').unwrap()
        } else {
            Numbered::open_renumbered(&env, "d").unwrap()
        };
        prop_assert!(records.renumbers());
        let mut model = Vec::<Vec<u8>>::new();
        for (nth, group) in steps.chunks(9).enumerate() {
            let mut then = model.clone();
            let mut txn = env.begin().unwrap();
            for (what, place, record) in group {
                let mut stored = record.clone();
                if fixed {
                    stored.resize(5, b'.');
                }
                let next = then.len() as u64 + 1;
                // Of a record, or the next.
                let number = place.index(then.len() + 1) as u64 + 1;
                let at = number as usize - 1;
                match what {
                    0..=1 => {
                        assert_eq!(records.append(&mut txn, record).unwrap(), next);
                        then.push(stored);
                    }
                    2..=4 => {
                        records.insert(&mut txn, number, record).unwrap();
                        then.insert(at, stored);
                    }
                    5 => {
                        records.put(&mut txn, number, record).unwrap();
                        if number == next { then.push(stored) } else { then[at] = stored };
                    }
                    6..=7 => {
                        assert_eq!(records.remove(&mut txn, number).unwrap(), number < next);
                        if number < next {
                            then.remove(at);
                        }
                    }
                    8 => {
                        let before = txn.savepoint();
                        records.insert(&mut txn, number, record).unwrap();
                        txn.rollback_to(&before).unwrap();
                    }
                    _ => assert_eq!(records.get(&txn, number).unwrap().as_ref(), then.get(at)),
                }
                assert_eq!(records.last_number(&txn).unwrap(), then.len() as u64);
            }
            let all: Vec<_> = records.iter(&txn).unwrap().map(|record| record.unwrap().1).collect();
            assert_eq!(all, then);
            if nth % 4 > 0 {
                txn.commit().unwrap();
                model = then;
            }
            prop_assert_eq!(contents(&records, &env), (1..).zip(model.clone()).collect());
            let found: Vec<_> = records.range(&env, 3..6).unwrap().rev().map(Result::unwrap).collect();
            let wanted: Vec<_> = (1..).zip(model.clone()).skip(2).take(3).collect();
            prop_assert_eq!(found, wanted.into_iter().rev().collect::<Vec<_>>());
        }
        prop_assert_eq!(env.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
    }
}

#[test]
fn renumbered_records_have_no_gaps_and_say_so() {
    let env = Env::in_memory().unwrap();
    let records = Numbered::open_renumbered(&env, "d").unwrap();
    env.write(|txn| records.append(txn, "one").map(drop)).unwrap();
    for number in [0, 3, u64::MAX] {
        for error in [
            env.write(|txn| records.put(txn, number, "a")).unwrap_err(),
            env.write(|txn| records.insert(txn, number, "a")).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Invalid, "{number}");
        }
        assert_eq!(records.get(&env, number).unwrap(), None);
        assert!(!env.write(|txn| records.remove(txn, number)).unwrap());
    }
    let plain = Numbered::open(&env, "plain").unwrap();
    let error = env.write(|txn| plain.insert(txn, 1, "a")).unwrap_err();
    assert!(error.to_string().contains("whose records keep their numbers"), "{error}");
    assert!(Numbered::open(&env, "d").is_err() && Numbered::open_renumbered(&env, "plain").is_err());
    assert!(Numbered::open_renumbered_fixed(&env, "none", 0, 0).is_err());
    assert_eq!(records.database().method(), Method::Counted);
    // Whatever the environment has for databases of which nothing is said.
    let env = Env::builder().method(Method::Hash).in_memory().unwrap();
    assert_eq!(Numbered::open_renumbered(&env, "d").unwrap().database().method(), Method::Counted);
}

#[test]
fn of_two_who_insert_at_one_place_none_is_lost() {
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
        let env = Env::in_memory().unwrap();
        let records = Numbered::open_renumbered(&env, "d").unwrap();
        env.write(|txn| {
            let mut appender = records.appender(txn)?;
            (0..1000u32).try_for_each(|n| appender.append(txn, n.to_le_bytes()).map(drop))
        })
        .unwrap();
        let begin = || env.begin_with(TxnOptions::new().isolation(isolation)).unwrap();
        let (mut one, mut other) = (begin(), begin());
        records.insert(&mut one, 500, "a").unwrap();
        records.insert(&mut other, 500, "b").unwrap();
        one.commit().unwrap();
        assert_eq!(other.commit().unwrap_err().kind(), ErrorKind::Conflict, "{isolation:?}");
        assert_eq!(records.len(&env).unwrap(), 1001);
        // At different places they are in each other's way if numbers are to be what they were.
        let (mut one, mut other) = (begin(), begin());
        records.insert(&mut one, 10, "c").unwrap();
        records.insert(&mut other, 900, "d").unwrap();
        one.commit().unwrap();
        assert_eq!(other.commit().is_err(), isolation == Isolation::Serializable, "{isolation:?}");
    }
}

/// Between these two there is no place; nothing goes on looking for one.
#[test]
fn a_record_between_keys_of_something_else_is_refused() {
    let env = Env::in_memory().unwrap();
    let records = Numbered::open_renumbered(&env, "d").unwrap();
    for zeros in [0, 3, 4, 9] {
        records.database().insert([&b"k"[..], &vec![0; zeros]].concat(), "something else").unwrap();
    }
    for number in 2..=4 {
        let error = env.write(|txn| records.insert(txn, number, "a")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    env.write(|txn| records.insert(txn, 1, "first").and_then(|()| records.insert(txn, 6, "last"))).unwrap();
    assert_eq!(records.get(&env, 1).unwrap().as_deref(), Some(&b"first"[..]));
    assert_eq!(records.get(&env, 6).unwrap().as_deref(), Some(&b"last"[..]));
}

/// Read committed, each look may see another state: what was found in two of them need not be neighbours, nor
/// stand in this order.
#[test]
fn others_insert_in_front_while_one_looks_for_a_place() {
    let env = Env::in_memory().unwrap();
    let records = Numbered::open_renumbered(&env, "d").unwrap();
    env.write(|txn| (0..4).try_for_each(|_| records.append(txn, "there").map(drop))).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                env.write(|txn| records.insert(txn, 1, "in front")).unwrap();
                env.write(|txn| records.remove(txn, 1)).unwrap();
            }
        });
        let options = TxnOptions::new().isolation(Isolation::ReadCommitted);
        for _ in 0..20_000 {
            env.write_with(options, |txn| records.insert(txn, 2, "second")).unwrap();
            env.write_with(options, |txn| records.remove(txn, 3).map(drop)).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
}

#[test]
fn what_is_no_record_of_it_is_refused() {
    let env = Env::in_memory().unwrap();
    let fixed = Numbered::open_fixed(&env, "fixed", 3, b' ').unwrap();
    let invalid = |result: sablecat::Result<()>| assert_eq!(result.unwrap_err().kind(), ErrorKind::Invalid);
    invalid(env.write(|txn| fixed.append(txn, "four").map(drop)));
    invalid(env.write(|txn| fixed.put(txn, 1, "four")));
    invalid(env.write(|txn| fixed.put(txn, 0, "a")));
    invalid(Numbered::open_fixed(&env, "none", 0, 0).map(drop));
    assert!(env.existing_database("none").unwrap().is_none());
    invalid(Numbered::open(&env, "fixed").map(drop));
    invalid(Numbered::of(env.database("plain").unwrap()).map(drop));
    env.write(|txn| fixed.put(txn, u64::MAX, "a")).unwrap();
    let error = env.write(|txn| fixed.append(txn, "b").map(drop)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    fixed.database().insert("key", "value").unwrap();
    assert!(fixed.iter(&env).unwrap().any(|record| record.is_err()));
}

/// At any isolation, and as several values of a key do.
#[test]
fn of_two_who_append_at_once_none_is_lost() {
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
        let env = Env::in_memory().unwrap();
        let (records, values) = (
            Numbered::open(&env, "d").unwrap(),
            MultiMap::open(&env, "values", Duplicates::Inserted).unwrap(),
        );
        let begin = || env.begin_with(TxnOptions::new().isolation(isolation)).unwrap();
        let (mut one, mut other) = (begin(), begin());
        assert_eq!(records.append(&mut one, "a").unwrap(), 1);
        assert_eq!(records.append(&mut other, "b").unwrap(), 1);
        one.commit().unwrap();
        assert_eq!(other.commit().unwrap_err().kind(), ErrorKind::Conflict, "{isolation:?}");
        let (mut one, mut other) = (begin(), begin());
        values.insert(&mut one, "key", "a").unwrap();
        values.insert(&mut other, "key", "b").unwrap();
        one.commit().unwrap();
        assert_eq!(other.commit().unwrap_err().kind(), ErrorKind::Conflict, "{isolation:?}");
        assert_eq!((records.len(&env).unwrap(), values.count(&env, "key").unwrap()), (1, 1));
    }
}

fn on(disk: &Arc<SimDisk>) -> Env {
    Env::builder().disk(Arc::clone(disk) as Arc<_>).background(false).cache_size(4 << 20).open("env").unwrap()
}

fn write(disk: &SimDisk, path: &str, text: &[u8]) {
    let file = disk.open(Path::new(path), How { create: true, ..How::default() }).unwrap();
    file.set_len(0).unwrap();
    file.write_at(text, 0).unwrap();
    file.sync().unwrap();
    disk.sync_dir(Path::new("")).unwrap();
}

fn read(disk: &SimDisk, path: &str) -> Vec<u8> {
    let file = disk.open(Path::new(path), How { read_only: true, ..How::default() }).unwrap();
    let mut text = vec![0; file.len().unwrap() as usize];
    assert_eq!(file.read_at(&mut text, 0).unwrap(), text.len());
    text
}

#[test]
fn lines_are_read_and_written_back() {
    let disk = Arc::new(SimDisk::new(1));
    let env = on(&disk);
    let lines = Numbered::open(&env, "lines").unwrap();
    env.write(|txn| lines.append(txn, "of before").map(drop)).unwrap();
    // Longer than what is read at a time.
    let long = vec![b'x'; 200_000];
    write(&disk, "text", &[b"one\n\n", &long[..], b"\nlast"].concat());
    let text = TextFile::open(lines.clone(), "text").unwrap();
    let all: Vec<_> = contents(&lines, &env).into_values().collect();
    assert_eq!(all, [b"one".to_vec(), b"".to_vec(), long.clone(), b"last".to_vec()]);
    env.write(|txn| {
        lines.put(txn, 6, "sixth")?;
        lines.remove(txn, 3).map(drop)
    })
    .unwrap();
    assert_eq!(read(&disk, "text").len(), long.len() + 10, "it is as it was until it is written back");
    text.sync().unwrap();
    assert_eq!(read(&disk, "text"), b"one\n\n\nlast\n\nsixth\n");
    assert_eq!(TextFile::open(lines.clone(), "text").unwrap().path(), Path::new("text"));
    assert_eq!(lines.len(&env).unwrap(), 6);
    env.write(|txn| lines.put(txn, 2, "two\nlines")).unwrap();
    let error = text.sync().unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("record 2"), "{error}");
    assert_eq!(read(&disk, "text"), b"one\n\n\nlast\n\nsixth\n");
    // Of records that there are a file that is not there is no text.
    let error = TextFile::open(lines.clone(), "txet").unwrap_err();
    assert!(error.kind() == ErrorKind::NotFound && error.to_string().contains("txet"), "{error}");
    assert_eq!(lines.len(&env).unwrap(), 6);
    // Another delimiter, and no file yet.
    let words = TextFile::open_with(Numbered::open(&env, "words").unwrap(), "words", b' ').unwrap();
    assert!(words.numbered().is_empty(&env).unwrap());
    env.write(|txn| ["a", "b\n"].iter().try_for_each(|word| words.numbered().append(txn, word).map(drop)))
        .unwrap();
    words.sync().unwrap();
    assert_eq!(read(&disk, "words"), b"a b\n ");
}

#[test]
fn lines_that_are_renumbered_close_up() {
    let disk = Arc::new(SimDisk::new(1));
    let env = on(&disk);
    let lines = Numbered::open_renumbered(&env, "lines").unwrap();
    env.write(|txn| lines.append(txn, "of before").map(drop)).unwrap();
    let many: Vec<u8> = (0..20_000).flat_map(|n: u32| format!("{n}\n").into_bytes()).collect();
    write(&disk, "text", &many);
    let text = TextFile::open(lines.clone(), "text").unwrap();
    assert_eq!(lines.len(&env).unwrap(), 20_000);
    assert_eq!(lines.get(&env, 12_346).unwrap().unwrap(), b"12345");
    write(&disk, "text", b"one\nthree\nfour\n");
    let text = TextFile::open(lines.clone(), text.path()).unwrap();
    env.write(|txn| {
        lines.insert(txn, 2, "two")?;
        lines.remove(txn, 1)?;
        lines.remove(txn, 3).map(drop)
    })
    .unwrap();
    text.sync().unwrap();
    assert_eq!(read(&disk, "text"), b"two\nthree\n");
}

#[test]
fn records_of_one_length_stand_one_behind_the_other() {
    let disk = Arc::new(SimDisk::new(1));
    let env = on(&disk);
    write(&disk, "rows", b"abc\nefgh");
    let rows = Numbered::open_fixed(&env, "rows", 3, b'.').unwrap();
    let text = TextFile::open(rows.clone(), "rows").unwrap();
    let all: Vec<_> = contents(&rows, &env).into_values().collect();
    assert_eq!(all, [b"abc", b"\nef", b"gh."]);
    env.write(|txn| rows.put(txn, 5, "z")).unwrap();
    text.sync().unwrap();
    assert_eq!(read(&disk, "rows"), b"abc\nefgh....z..");
}

/// Whatever call of writing it back the power fails at: the file has the old lines or the new ones.
#[test]
fn a_file_is_written_back_whole_or_not_at_all() {
    let (mut old, mut new) = (0, 0);
    for (call, seed) in (0..20).flat_map(|call| (0..8).map(move |seed| (call, seed))) {
        let disk = Arc::new(SimDisk::new(seed));
        let env = on(&disk);
        write(&disk, "text", b"old\n");
        let lines = Numbered::open(&env, "lines").unwrap();
        let text = TextFile::open(lines.clone(), "text").unwrap();
        env.write(|txn| lines.put(txn, 1, "new")).unwrap();
        disk.crash_at(disk.calls() + call);
        let is_written = text.sync().is_ok();
        match &read(&disk.crash(seed), "text")[..] {
            b"old\n" if !is_written => old += 1,
            b"new\n" => new += 1,
            found => panic!("at call {call}, seed {seed}: {}", found.escape_ascii()),
        }
    }
    assert!(old > 8 && new > 8, "{old} and {new}");
}

/// Who keeps a file elsewhere, and has it found by a link, goes on to do so.
#[test]
fn a_link_stays_and_the_file_it_leads_to_is_written() {
    let place = sablecat_tests::Place::new("text-links");
    let at = |name: &str| place.base.join(name);
    let names = |directory: &str| {
        let entries = std::fs::read_dir(at(directory)).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    std::fs::create_dir_all(at("links")).unwrap();
    std::fs::create_dir_all(at("there/deep")).unwrap();
    std::fs::write(at("there/text"), "one\ntwo\n").unwrap();
    std::fs::set_permissions(at("there/text"), std::fs::Permissions::from_mode(0o640)).unwrap();
    for (link, to) in [
        ("links/relative", PathBuf::from("../there/text")),
        ("links/absolute", at("links/relative")),
        ("links/dangling", PathBuf::from("../there/deep/new")),
        ("links/nowhere", PathBuf::from("../none/new")),
        ("links/circle", PathBuf::from("circle")),
    ] {
        std::os::unix::fs::symlink(to, at(link)).unwrap();
    }
    let env = Env::in_memory().unwrap();
    let lines = Numbered::open(&env, "lines").unwrap();
    let text = TextFile::open(lines.clone(), at("links/absolute")).unwrap();
    assert_eq!(lines.len(&env).unwrap(), 2);
    env.write(|txn| lines.put(txn, 1, "uno")).unwrap();
    text.sync().unwrap();
    assert_eq!(std::fs::read_to_string(at("there/text")).unwrap(), "uno\ntwo\n");
    let mode = std::fs::metadata(at("there/text")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);

    env.write(|txn| txn.clear(lines.database())).unwrap();
    let text = TextFile::open(lines.clone(), at("links/dangling")).unwrap();
    env.write(|txn| lines.put(txn, 1, "new")).unwrap();
    text.sync().unwrap();
    assert_eq!(std::fs::read_to_string(at("there/deep/new")).unwrap(), "new\n");

    let text = TextFile::unread(lines.clone(), at("links/nowhere"), b'\n');
    assert_eq!(text.sync().unwrap_err().kind(), ErrorKind::Io);
    std::fs::remove_file(at("links/nowhere")).unwrap();
    std::os::unix::fs::symlink("circle", at("links/nowhere")).unwrap();
    let error = text.sync().unwrap_err();
    assert!(error.to_string().contains("links/nowhere") && error.to_string().contains("circle"), "{error}");

    assert_eq!(names("links"), ["absolute", "circle", "dangling", "nowhere", "relative"]);
    for name in names("links") {
        assert!(at("links").join(name).is_symlink());
    }
    assert_eq!(
        (names("there"), names("there/deep")),
        (vec!["deep".into(), "text".into()], vec!["new".into()])
    );
}

/// It would be gone: devices too, for who may write where they are.
#[test]
fn what_is_no_file_is_not_replaced_by_one() {
    let place = sablecat_tests::Place::new("text-no-file");
    let socket = place.base.join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    std::os::unix::fs::symlink("socket", place.base.join("link")).unwrap();
    let lines = Numbered::open(&Env::in_memory().unwrap(), "lines").unwrap();
    for name in ["socket", "link", "env", ".."] {
        let error = TextFile::unread(lines.clone(), place.base.join(name), b'\n').sync().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{name}");
        assert!(error.to_string().contains("it is not a regular file"), "{error}");
    }
    std::os::unix::net::UnixStream::connect(&socket).unwrap();
    let left = std::fs::read_dir(&place.base).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!left.into_iter().any(|name| name.to_string_lossy().ends_with(".new")));
}

/// A file that somebody's link leads to would be emptied, and become the text.
#[test]
fn a_link_with_the_name_of_the_new_file_is_not_written_through() {
    let place = sablecat_tests::Place::new("text-new-link");
    let at = |name: &str| place.base.join(name);
    std::fs::write(at("text"), "old\n").unwrap();
    std::fs::write(at("other"), "other\n").unwrap();
    std::os::unix::fs::symlink("other", at("text.new")).unwrap();
    let lines = Numbered::open(&Env::in_memory().unwrap(), "lines").unwrap();
    let error = TextFile::unread(lines, at("text"), b'\n').sync().unwrap_err();
    assert!(error.to_string().contains("text.new: it is a symbolic link"), "{error}");
    assert_eq!(std::fs::read_to_string(at("text")).unwrap(), "old\n");
    assert_eq!(std::fs::read_to_string(at("other")).unwrap(), "other\n");
    assert!(at("text.new").is_symlink());
}

/// A part of it would keep the room on a full disk, and show what is in it.
#[test]
fn a_file_that_cannot_be_written_back_leaves_nothing_beside_the_old_one() {
    let disk = Arc::new(SimDisk::new(1));
    let env = on(&disk);
    write(&disk, "text", b"old\n");
    let lines = Numbered::open(&env, "lines").unwrap();
    let text = TextFile::open(lines.clone(), "text").unwrap();
    env.write(|txn| (0..100).try_for_each(|_| lines.append(txn, vec![b'x'; 10_000]).map(drop))).unwrap();
    let refused = |kind| {
        assert_eq!(text.sync().unwrap_err().kind(), kind);
        assert!(!disk.exists(Path::new("text.new")).unwrap(), "{kind:?}");
        assert_eq!(read(&disk, "text"), b"old\n");
    };
    disk.fill_up();
    refused(ErrorKind::DiskFull);
    disk.set_capacity(u64::MAX);
    env.write(|txn| lines.append(txn, "two\nlines").map(drop)).unwrap();
    refused(ErrorKind::Invalid);
    env.write(|txn| lines.remove(txn, 102)).unwrap();
    text.sync().unwrap();
    assert_eq!(read(&disk, "text").len(), 4 + 100 * 10_001);
}

/// The machine's disk, on which something happens once right after a file was opened that is to be written.
struct AfterOpening(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl fmt::Debug for AfterOpening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AfterOpening").finish_non_exhaustive()
    }
}

impl Disk for AfterOpening {
    fn open(&self, path: &Path, how: How) -> io::Result<Arc<dyn File>> {
        let file = HostDisk.open(path, how)?;
        if how.create
            && let Some(happens) = self.0.lock().unwrap().take()
        {
            happens();
        }
        Ok(file)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        HostDisk.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        HostDisk.list(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        HostDisk.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        HostDisk.rename_new(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        HostDisk.remove(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        HostDisk.exists(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        HostDisk.sync_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        HostDisk.free_bytes(dir)
    }

    fn id(&self, path: &Path) -> io::Result<Option<FileId>> {
        HostDisk.id(path)
    }
}

/// Who opened the file that is to become the text, before another finished and gave it that name, would write
/// to the text itself.
#[test]
fn of_two_who_write_a_file_back_none_writes_to_what_the_other_has_written() {
    let place = sablecat_tests::Place::new("two-texts");
    let path = place.base.join("text");
    let text_of = |env: &Env, line: &str| {
        let lines = Numbered::open(env, "lines").unwrap();
        let text = TextFile::open(lines.clone(), &path).unwrap();
        env.write(|txn| (0..1000).try_for_each(|_| lines.append(txn, line).map(drop))).unwrap();
        text
    };
    let one = text_of(&Env::in_memory().unwrap(), "one");
    let written = Arc::new(Mutex::new(None));
    let (seen, at) = (Arc::clone(&written), path.clone());
    let happens = move || {
        one.sync().unwrap();
        *seen.lock().unwrap() = Some(std::fs::File::open(at).unwrap());
    };
    let disk = AfterOpening(Mutex::new(Some(Box::new(happens))));
    let other = text_of(&Env::builder().disk(Arc::new(disk)).in_memory().unwrap(), "other");
    other.sync().unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "other\n".repeat(1000));
    let mut found = String::new();
    written.lock().unwrap().take().expect("it happened").read_to_string(&mut found).unwrap();
    assert!(found == "one\n".repeat(1000), "who reads the text has {} bytes of it", found.len());
}
