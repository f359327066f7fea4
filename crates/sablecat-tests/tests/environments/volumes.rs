//! Volumes on the machine's own disk: what is in which file, what is refused, what moves and shrinks.

use std::collections::HashSet;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sablecat::{Builder, Durability, Env, Error, ErrorKind, Journal, Place, Target};

/// A directory for an environment, one elsewhere, and one for a region; removed when dropped.
struct Site {
    base: PathBuf,
}

impl Site {
    fn new(name: &str) -> Site {
        let base = PathBuf::from("/dev/shm").join(format!("sablecat-volumes-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&base);
        ["region", "elsewhere"]
            .iter()
            .for_each(|directory| fs::create_dir_all(base.join(directory)).expect("made"));
        Site { base }
    }

    fn directory(&self) -> PathBuf {
        self.base.join("env")
    }

    fn main(&self) -> PathBuf {
        self.directory().join("sablecat.db")
    }

    fn volume(&self, name: &str) -> PathBuf {
        self.base.join("elsewhere").join(format!("{name}.db"))
    }

    fn builder(&self) -> Builder {
        let builder = Env::builder()
            .background(false)
            .cache_size(1 << 20)
            .log_buffer_size(1 << 20)
            .log_segment_size(1 << 20);
        builder.durability(Durability::NoSync).region_directory(self.base.join("region"))
    }

    /// The builder with a volume that has the database `far`.
    fn far(&self) -> Builder {
        self.builder().volume("one", self.volume("one")).place(Place::database("far"), "one")
    }

    fn open(&self, builder: Builder) -> Env {
        builder.open(self.directory()).expect("opened")
    }

    /// Puts values of 400 bytes, which are kept in leaves and name their key, into a database.
    fn put(&self, builder: Builder, database: &str, keys: Range<u32>) {
        let env = self.open(builder);
        fill(&env, database, keys);
        env.close().expect("closed");
    }

    /// Opens it to be told why not.
    fn refusal(&self, builder: Builder) -> Error {
        builder.open(self.directory()).expect_err("refused")
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.base);
    }
}

fn value(database: &str, key: impl std::fmt::Display) -> Vec<u8> {
    let mut value = format!("<{database} {key}>").into_bytes();
    value.resize(400, b'.');
    value
}

fn fill(env: &Env, database: &str, keys: Range<u32>) {
    let database = env.database(database).expect("made");
    keys.for_each(|key| database.insert(key.to_be_bytes(), value(database.name(), key)).expect("inserted"));
}

fn check(env: &Env, database: &str, keys: Range<u32>) {
    let database = env.existing_database(database).expect("looked up").expect("there");
    assert_eq!(database.len().expect("counted"), u64::from(keys.end - keys.start));
    keys.for_each(|key| {
        assert_eq!(
            database.get(key.to_be_bytes()).expect("read").as_deref(),
            Some(&value(database.name(), key)[..])
        );
    });
}

fn assert_sound(env: &Env) {
    assert_eq!(env.verify(&mut |_| {}).expect("verified").problems, Vec::<String>::new());
}

/// How often bytes are in a file.
fn count(path: &Path, wanted: &[u8]) -> usize {
    fs::read(path).expect("read").windows(wanted.len()).filter(|window| *window == wanted).count()
}

#[test]
fn databases_are_in_the_volume_that_is_named_for_them_or_for_the_longest_beginning() {
    let site = Site::new("names");
    let builder = site.builder().volume("one", site.volume("one")).volume("two", "../elsewhere/two.db");
    let builder = builder
        .place(Place::databases_beginning_with(""), "one")
        .place(Place::databases_beginning_with("log."), "two");
    let env = site.open(builder.place(Place::database("log.main"), "main"));
    for name in ["a", "log.x", "log.main"] {
        fill(&env, name, 0..100);
    }
    let volumes = env.stats().expect("counted").volumes;
    assert_eq!(volumes.iter().map(|volume| volume.name.as_str()).collect::<Vec<_>>(), ["main", "one", "two"]);
    env.close().expect("closed");
    let files = [("log.main", site.main()), ("a", site.volume("one")), ("log.x", site.volume("two"))];
    for (name, home) in &files {
        for (_, file) in &files {
            let there = count(file, format!("<{name} ").as_bytes());
            assert!(
                if file == home { there >= 100 } else { there == 0 },
                "{there} records of {name} in {}",
                file.display()
            );
        }
    }
    // The environment remembers volumes and rules.
    let env = site.open(site.builder());
    files.iter().for_each(|(name, _)| check(&env, name, 0..100));
    fill(&env, "log.later", 0..50);
    assert_sound(&env);
    env.close().expect("closed");
    assert!(count(&site.volume("two"), b"<log.later ") >= 50);
}

#[test]
fn a_rule_counts_from_then_on() {
    let site = Site::new("rules");
    site.put(site.builder(), "d", 0..50);
    let builder =
        site.builder().volume("one", site.volume("one")).place(Place::databases_beginning_with(""), "one");
    let env = site.open(builder);
    fill(&env, "d", 50..100);
    fill(&env, "e", 0..50);
    env.close().expect("closed");
    assert_eq!(count(&site.volume("one"), b"<d "), 0);
    assert!(count(&site.volume("one"), b"<e ") >= 50);
    let env = site.open(site.builder().place(Place::databases_beginning_with(""), "main"));
    fill(&env, "f", 0..50);
    fill(&env, "e", 50..100);
    check(&env, "d", 0..100);
    assert_sound(&env);
    env.close().expect("closed");
    assert_eq!(count(&site.volume("one"), b"<f "), 0);
    assert!(count(&site.volume("one"), b"<e ") >= 100, "it stays where it is");
}

/// A key among those of a prefix, and around them.
fn key(part: &str, n: u32) -> Vec<u8> {
    format!("{part}{:06}", n * 7919 % 100_003).into_bytes()
}

/// How many of 600 records under each of three parts of the keys are in the volume for the middle one,
/// however they get there.
fn records_in_volume(site: &Site, put: impl Fn(&Env, Vec<(Vec<u8>, Vec<u8>)>)) -> [usize; 3] {
    let parts = ["a/", "log/", "z/"];
    let env =
        site.open(site.builder().volume("one", site.volume("one")).place(Place::keys("d", "log/"), "one"));
    let records = (0..600).flat_map(|n| parts.map(|part| (key(part, n), value(part, n))));
    put(&env, records.collect());
    assert_sound(&env);
    env.close().expect("closed");
    let env = site.open(site.builder());
    let database = env.database("d").expect("there");
    for n in 0..600 {
        for part in parts {
            assert_eq!(database.get(key(part, n)).expect("read"), Some(value(part, n)));
        }
    }
    drop(database);
    env.close().expect("closed");
    let there = named(&site.volume("one"));
    parts.map(|part| (0..600).filter(|n| there.contains(format!("{part} {n}").as_bytes())).count())
}

/// What the values in a file name: what stands in them between `<` and `>`.
fn named(path: &Path) -> HashSet<Vec<u8>> {
    let bytes = fs::read(path).expect("read");
    let names = bytes
        .split(|&byte| byte == b'<')
        .filter_map(|rest| rest.iter().take(40).position(|&byte| byte == b'>').map(|end| &rest[..end]));
    names.map(<[u8]>::to_vec).collect()
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

#[test]
fn records_of_a_prefix_are_in_its_volume_but_for_the_leaves_at_its_edges() {
    type Put = fn(&Env, Vec<(Vec<u8>, Vec<u8>)>);
    let ways: [(&str, Put); 3] = [
        ("as they come", |env, records| {
            let database = env.database("d").expect("made");
            records.iter().for_each(|(key, value)| database.insert(key, value).expect("inserted"));
        }),
        ("in order", |env, mut records| {
            records.sort();
            let database = env.database("d").expect("made");
            records.iter().for_each(|(key, value)| database.insert(key, value).expect("inserted"));
        }),
        ("loaded", |env, mut records| {
            records.sort();
            env.database("d").expect("made").bulk_load(records).expect("loaded");
        }),
    ];
    for (way, put) in ways {
        let site = Site::new("prefix");
        let [before, within, after] = records_in_volume(&site, put);
        assert!(within >= 580, "{way}: {within} of 600 records are in the volume");
        assert_eq!((before, after), (0, 0), "{way}: others are in the volume");
    }
}

#[test]
fn a_leaf_that_is_merged_over_the_edge_of_a_prefix_leaves_its_volume() {
    let site = Site::new("merged");
    let env =
        site.open(site.builder().volume("one", site.volume("one")).place(Place::keys("d", "log/"), "one"));
    let database = env.database("d").expect("made");
    let keys = |part: &'static str| (0..200).map(move |n| format!("{part}{n:03}"));
    for key in keys("a/").chain(keys("log/")).chain(keys("z/")) {
        database.insert(&key, value(&key, "")).expect("inserted");
    }
    // The leaves empty from the upper end on, and each takes in the one behind it; so the last of the prefix
    // takes in the one at its edge.
    for key in keys("z/").take(197).chain(keys("log/").skip(30)).collect::<Vec<_>>().into_iter().rev() {
        assert!(database.remove(&key).expect("removed"));
    }
    for key in ["log/new", "z/0new"] {
        database.insert(key, value(key, "")).expect("inserted");
    }
    assert_sound(&env);
    drop(database);
    env.close().expect("closed");
    let there = named(&site.volume("one"));
    assert!(!there.contains(&b"z/0new "[..]), "it is in a leaf that holds some of the prefix");
}

#[test]
fn values_in_pages_of_their_own_and_nested_keys_follow_the_prefix() {
    let site = Site::new("values");
    let builder = site.builder().volume("one", site.volume("one")).place(Place::keys("d", "log/"), "one");
    let env = site.open(builder);
    let database = env.database("d").expect("made");
    let long = |name: &str, len: usize| format!("[{name}]").repeat(len).into_bytes();
    for part in ["a/", "log/"] {
        database.insert(format!("{part}long"), long(&format!("{part}long"), 2000)).expect("inserted");
        database.insert(format!("{part}large"), long(&format!("{part}large"), 40_000)).expect("inserted");
        for n in 0..60 {
            let key = format!("{part}{}{n}", "x".repeat(1200));
            database.insert(key, value(&format!("{part}nested"), n)).expect("inserted");
        }
    }
    assert_sound(&env);
    drop(database);
    env.close().expect("closed");
    let (main, one) = (fs::read(site.main()).expect("read"), fs::read(site.volume("one")).expect("read"));
    for what in ["long", "large"] {
        assert!(
            contains(&one, format!("[log/{what}]").as_bytes())
                && !contains(&one, format!("[a/{what}]").as_bytes()),
            "{what}"
        );
        assert!(
            !contains(&main, format!("[log/{what}]").as_bytes())
                && contains(&main, format!("[a/{what}]").as_bytes()),
            "{what}"
        );
    }
    let nested = named(&site.volume("one"));
    assert!(
        (0..60).all(|n| nested.contains(format!("log/nested {n}").as_bytes())),
        "subtrees are where their stem is"
    );
    let strays = |bytes: &[u8], part: &str| {
        (0..60).filter(|n| contains(bytes, format!("<{part}/nested {n}>").as_bytes())).collect::<Vec<_>>()
    };
    assert_eq!((strays(&one, "a"), strays(&main, "log")), (vec![], vec![]));
}

#[test]
fn a_missing_foreign_swapped_or_older_file_is_refused_and_named() {
    let site = Site::new("refused");
    let builder = || site.far().volume("two", site.volume("two")).place(Place::database("other"), "two");
    let env = site.open(builder());
    fill(&env, "far", 0..100);
    fill(&env, "other", 0..100);
    env.close().expect("closed");
    let (one, two, kept) = (site.volume("one"), site.volume("two"), site.volume("kept"));
    let before = fs::read(site.main()).expect("read");
    let refused = |kind, why: &str| {
        let error = site.refusal(site.builder());
        assert_eq!(error.kind(), kind, "{error}");
        let message = error.to_string();
        assert!(
            message.contains(why)
                && message.contains("\"one\"")
                && message.contains(one.to_str().expect("text")),
            "{message}"
        );
    };
    fs::copy(&one, &kept).expect("copied");
    fs::remove_file(&one).expect("removed");
    refused(ErrorKind::NotFound, "no such file");
    assert!(!one.exists(), "nothing is made in its place");
    fs::copy(&two, &one).expect("copied");
    refused(ErrorKind::Invalid, "another volume of the environment");
    fs::write(&one, b"hello").expect("written");
    refused(ErrorKind::Corruption, "no sablecat volume");
    let stranger = Site::new("stranger");
    stranger.put(stranger.far(), "far", 0..10);
    fs::copy(stranger.volume("one"), &one).expect("copied");
    refused(ErrorKind::Invalid, "another environment");
    assert!(fs::read(site.main()).expect("read") == before, "nothing has changed");
    fs::copy(&kept, &one).expect("copied");
    site.put(site.builder(), "far", 0..101);
    fs::copy(&kept, &one).expect("copied");
    refused(ErrorKind::Invalid, "older state");
}

#[test]
fn a_main_volume_older_than_the_others_is_refused() {
    let site = Site::new("newer");
    site.put(site.far(), "far", 0..100);
    let kept = site.volume("kept");
    fs::copy(site.main(), &kept).expect("copied");
    site.put(site.builder(), "far", 0..200);
    fs::copy(&kept, site.main()).expect("copied");
    let error = site.refusal(site.builder());
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("newer"), "{error}");
}

#[test]
fn a_volume_may_be_moved_while_nobody_has_it_open() {
    let site = Site::new("moved");
    site.put(site.far(), "far", 0..100);
    let there = site.directory().join("here.db");
    fs::rename(site.volume("one"), &there).expect("moved");
    assert_eq!(site.refusal(site.builder()).kind(), ErrorKind::NotFound);
    let env = site.open(site.builder().volume("one", "here.db"));
    check(&env, "far", 0..100);
    env.close().expect("closed");
    let env = site.open(site.builder());
    check(&env, "far", 0..100);
    assert_eq!(env.stats().expect("counted").volumes[1].path, there);
    env.close().expect("closed");
}

#[test]
fn what_is_in_the_way_of_a_new_volume_stays_and_what_cannot_be_is_refused() {
    let site = Site::new("way");
    site.put(site.builder(), "d", 0..10);
    let refused = |builder: Builder, kind| {
        let error = site.refusal(builder);
        assert_eq!(error.kind(), kind, "{error}");
    };
    fs::write(site.volume("one"), b"of the user's").expect("written");
    refused(site.far(), ErrorKind::Exists);
    assert_eq!(fs::read(site.volume("one")).expect("read"), b"of the user's");
    refused(site.builder().volume("one", "nowhere/one.db"), ErrorKind::NotFound);
    refused(site.builder().volume("main", "one.db"), ErrorKind::Invalid);
    refused(site.builder().volume("", "one.db"), ErrorKind::Invalid);
    refused(site.builder().volume("one", "x".repeat(301)), ErrorKind::Invalid);
    refused(site.builder().volume("one", "v.db").volume("two", "v.db"), ErrorKind::Invalid);
    refused(site.builder().volume("one", "sablecat.db"), ErrorKind::Exists);
    refused(site.builder().place(Place::database("d"), "one"), ErrorKind::Invalid);
    refused(site.builder().place(Place::keys("d", ""), "main"), ErrorKind::Invalid);
    refused(
        (0..16).fold(site.builder(), |builder, n| builder.volume(format!("v{n}"), format!("v{n}.db"))),
        ErrorKind::Invalid,
    );
    let long = "long".repeat(12);
    refused(
        (0..10).fold(site.builder(), |builder, n| {
            builder.volume(format!("{n}"), format!("{n}{}", long.repeat(5)))
        }),
        ErrorKind::Invalid,
    );
    assert_eq!(site.far().in_memory().expect_err("no files").kind(), ErrorKind::Invalid);
    // Where another one is that has not been used yet.
    fs::remove_file(site.volume("one")).expect("removed");
    site.open(site.far()).close().expect("closed");
    refused(site.builder().volume("two", site.directory().join("../elsewhere/one.db")), ErrorKind::Exists);
    let env = site.open(site.builder());
    check(&env, "d", 0..10);
    assert_eq!(env.stats().expect("counted").volumes.len(), 2);
}

#[test]
fn a_volume_is_for_those_for_whom_the_environment_is() {
    let site = Site::new("mode");
    site.open(site.builder().file_mode(0o640)).close().expect("closed");
    site.open(site.far()).close().expect("closed");
    assert_eq!(fs::metadata(site.volume("one")).expect("there").permissions().mode() & 0o777, 0o640);
}

#[test]
fn as_many_volumes_as_there_can_be() {
    let site = Site::new("many");
    let builder = (1..=15).fold(site.builder(), |builder, n| {
        let (name, database) = (format!("v{n}"), format!("d{n}"));
        builder.volume(&name, format!("{name}.db")).place(Place::database(database), name)
    });
    let env = site.open(builder);
    (1..=15).for_each(|n| fill(&env, &format!("d{n}"), 0..30));
    env.close().expect("closed");
    let env = site.open(site.builder());
    (1..=15).for_each(|n| check(&env, &format!("d{n}"), 0..30));
    assert_sound(&env);
    env.close().expect("closed");
    (1..=15).for_each(|n| {
        assert!(count(&site.directory().join(format!("v{n}.db")), format!("<d{n} ").as_bytes()) >= 30)
    });
}

#[test]
fn a_removed_database_gives_its_room_back_in_its_volume_and_the_others_keep_theirs() {
    let site = Site::new("shrinks");
    let env = site.open(site.far().place(Place::database("stays"), "one"));
    fill(&env, "near", 0..500);
    for n in 0..20 {
        fill(&env, "far", n * 300..n * 300 + 300);
        fill(&env, "stays", n * 5..n * 5 + 5);
    }
    env.checkpoint().expect("written");
    let sizes =
        || -> Vec<u64> { env.stats().expect("counted").volumes.iter().map(|volume| volume.bytes).collect() };
    let before = sizes();
    assert!(before[1] > 2_000_000, "{before:?}");
    assert!(env.remove_database("far").expect("removed"));
    env.compact().expect("compacted");
    let after = sizes();
    assert!(after[1] < 600_000, "{after:?} after {before:?}");
    check(&env, "near", 0..500);
    check(&env, "stays", 0..100);
    assert_sound(&env);
    env.close().expect("closed");
    // Moving down stays within the volume.
    assert!(count(&site.volume("one"), b"<stays ") >= 100);
    assert_eq!(count(&site.main(), b"<stays "), 0);
}

#[test]
fn damage_in_a_volume_is_told_with_its_file() {
    let site = Site::new("damage");
    site.put(site.far(), "far", 0..100);
    let file = fs::OpenOptions::new().read(true).write(true).open(site.volume("one")).expect("opened");
    let bytes = fs::read(site.volume("one")).expect("read");
    let at = bytes.windows(8).rposition(|window| window == b"<far 50>").expect("there") as u64;
    file.write_all_at(b"!", at).expect("written");
    let env = site.open(site.builder());
    let error = env.database("far").expect("opened").get(50u32.to_be_bytes()).expect_err("damaged");
    assert!(
        error.is_corruption() && error.to_string().contains(site.volume("one").to_str().expect("text")),
        "{error}"
    );
    let problems = env.verify(&mut |_| {}).expect("verified").problems;
    assert!(
        problems.iter().any(|problem| problem.contains(site.volume("one").to_str().expect("text"))),
        "{problems:?}"
    );
    drop(env);
    file.write_all_at(b"<", at).expect("written");
    // What stands there may be any byte: it becomes another.
    let change = |at: u64| {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).expect("read");
        file.write_all_at(&[byte[0] ^ 1], at).expect("written");
        byte
    };
    // A header stands there twice.
    let header = change(40);
    let env = site.open(site.builder());
    check(&env, "far", 0..100);
    let problems = env.verify(&mut |_| {}).expect("verified").problems;
    assert!(problems.len() == 1 && problems[0].contains("header at byte 0"), "{problems:?}");
    drop(env);
    file.write_all_at(&header, 40).expect("written");
    for at in (0..4).flat_map(|berth| [0, 32768].map(|copy| berth * 4096 + copy + 40)) {
        change(at);
    }
    assert_eq!(site.refusal(site.builder()).kind(), ErrorKind::Corruption);
}

#[test]
fn going_back_takes_all_volumes_back() {
    let site = Site::new("back");
    site.put(site.far().journal(Journal::new().epochs(8)), "far", 0..100);
    let env = site.open(site.builder());
    fill(&env, "near", 0..10);
    fill(&env, "far", 100..200);
    let then = env.stats().expect("counted").log_tail;
    fill(&env, "near", 10..20);
    env.checkpoint().expect("written");
    assert!(env.remove_database("far").expect("removed"));
    fill(&env, "far", 0..300);
    env.checkpoint().expect("written");
    env.close().expect("closed");
    let recovery = site.builder().recovery(site.directory(), Target::Lsn(then)).expect("prepared");
    recovery.apply().expect("taken back");
    let env = site.open(site.builder());
    check(&env, "near", 0..10);
    check(&env, "far", 0..200);
    assert_sound(&env);
    fill(&env, "far", 200..250);
    env.close().expect("closed");
    assert!(count(&site.volume("one"), b"<far 24") >= 10, "and what comes is in the volume as ever");
    let env = site.open(site.builder());
    check(&env, "far", 0..250);
}

#[test]
fn processes_share_volumes_and_none_is_added_under_them() {
    let site = Site::new("shared");
    let first = site.open(site.far().shared(true));
    let second = site.open(site.builder().shared(true));
    fill(&first, "far", 0..50);
    fill(&second, "far", 50..100);
    check(&first, "far", 0..100);
    check(&second, "far", 0..100);
    first.checkpoint().expect("written");
    fill(&second, "far", 100..120);
    second.checkpoint().expect("written by the other");
    fill(&first, "far", 120..130);
    let error = site.refusal(site.builder().shared(true).volume("two", site.volume("two")));
    assert_eq!(error.kind(), ErrorKind::InUse, "{error}");
    assert_eq!(
        site.refusal(site.builder().shared(true).place(Place::database("x"), "one")).kind(),
        ErrorKind::InUse
    );
    assert!(!site.volume("two").exists());
    // What is known may be declared.
    site.open(site.far().shared(true)).close().expect("closed");
    first.close().expect("closed");
    assert_sound(&second);
    second.close().expect("closed");
    let env = site.open(site.builder().volume("two", site.volume("two")));
    check(&env, "far", 0..130);
}

#[test]
fn a_data_store_has_volumes_as_well() {
    let site = Site::new("store");
    let mut store = site.far().open_data_store(site.directory()).expect("created");
    let table = store.database("far").expect("made");
    (0..100u32).for_each(|key| store.insert(&table, key.to_be_bytes(), value("far", key)).expect("inserted"));
    store.close().expect("closed");
    assert!(count(&site.volume("one"), b"<far ") >= 100);
    let env = site.open(site.builder());
    check(&env, "far", 0..100);
}

#[test]
fn who_only_reads_reads_all_volumes_and_finds_those_that_were_moved() {
    let site = Site::new("reading");
    site.put(site.far(), "far", 0..100);
    let read_only = || site.builder().read_only(true);
    let (reader, writer) = (site.open(read_only()), site.open(site.builder()));
    check(&reader, "far", 0..100);
    fill(&writer, "far", 100..200);
    writer.checkpoint().expect("written");
    check(&reader, "far", 0..200);
    assert_sound(&reader);
    assert_eq!(site.refusal(read_only().volume("two", site.volume("two"))).kind(), ErrorKind::Invalid);
    drop(writer);
    site.put(site.builder().volume("two", site.volume("two")), "far", 200..201);
    let error = reader.databases().expect_err("there are others now");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    drop(reader);
    fs::rename(site.volume("one"), site.volume("moved")).expect("moved");
    check(&site.open(read_only().volume("one", site.volume("moved"))), "far", 0..201);
}
