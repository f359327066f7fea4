//! Encrypted environments: nothing of a record is in the clear in any file, nothing opens without the key,
//! and keys can be changed while the environment is used.

use std::fs;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sablecat::{
    Builder, Cipher, DataStore, Database, Durability, EncryptionKey, Env, ErrorKind, Journal, Place, Target,
};
use sablecat_os::sim::{Fault, SimDisk, Survival};

/// What names, keys and values begin with, and no file of an encrypted environment has anywhere.
const MARKER: &[u8] = b"plain-as-day";
const CIPHERS: [Cipher; 2] = [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = PathBuf::from("/dev/shm").join(format!("sablecat-sealed-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        ["env", "region"].iter().for_each(|one| fs::create_dir_all(path.join(one)).expect("made"));
        Directory(path)
    }

    fn env(&self) -> PathBuf {
        self.0.join("env")
    }

    fn shared(&self, key: &EncryptionKey) -> Builder {
        Env::builder()
            .encryption_key(key.clone())
            .shared(true)
            .region_directory(self.0.join("region"))
            .background(false)
            .cache_size(1 << 20)
            .durability(Durability::NoSync)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn key(n: u8) -> EncryptionKey {
    EncryptionKey::from_bytes(&[n; 32])
}

fn marked(n: u32) -> Vec<u8> {
    [MARKER, &n.to_be_bytes()].concat()
}

fn put(database: &Database, numbers: std::ops::Range<u32>) {
    for n in numbers {
        database.insert(marked(n), marked(!n)).expect("inserted");
    }
}

fn assert_has(env: &Env, numbers: std::ops::Range<u32>) {
    let database = env.existing_database("plain-as-day records").expect("read").expect("there");
    for n in numbers {
        assert_eq!(database.get(marked(n)).expect("read"), Some(marked(!n)), "{n}");
    }
}

fn assert_sound(env: &Env) {
    env.checkpoint().expect("written");
    let report = env.verify(&mut |_| {}).expect("verified");
    assert_eq!(report.problems, Vec::<String>::new());
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("listed") {
        let path = entry.expect("listed").path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// The files in a directory that have the marker in them.
fn in_the_clear(directory: &Path) -> Vec<String> {
    let mut all = Vec::new();
    files(directory, &mut all);
    let has_marker = |path: &PathBuf| {
        let bytes = fs::read(path).expect("read");
        bytes.windows(MARKER.len()).any(|window| window == MARKER)
    };
    all.retain(has_marker);
    let name = |path: PathBuf| path.strip_prefix(directory).expect("in it").display().to_string();
    all.into_iter().map(name).collect()
}

/// Whether the file that a large transaction of this process in a directory has put records aside in, which
/// has no name any more, has the marker in it; none if there is no such file.
fn spilled_in_the_clear(directory: &Path) -> Option<bool> {
    for entry in fs::read_dir("/proc/self/fd").expect("listed") {
        let path = entry.expect("listed").path();
        let Ok(name) = fs::read_link(&path) else { continue };
        let name = name.display().to_string();
        if name.starts_with(&directory.display().to_string()) && name.contains("sablecat.spill") {
            let mut bytes = Vec::new();
            fs::File::open(&path).expect("opened").read_to_end(&mut bytes).expect("read");
            assert!(bytes.len() > 100_000, "it has been written to");
            return Some(bytes.windows(MARKER.len()).any(|window| window == MARKER));
        }
    }
    None
}

/// Everything that writes files, with a key or without: which of them have records in the clear.
fn use_all(directory: &Path, encryption: Option<(EncryptionKey, Cipher)>) -> (Vec<String>, bool) {
    let builder = || {
        let builder = Env::builder()
            .background(false)
            .cache_size(1 << 20)
            .log_segment_size(1 << 16)
            .log_buffer_size(1 << 16)
            .durability(Durability::WriteNoSync)
            .journal(Journal::new().epochs(2))
            .volume("other", "other.db")
            .place(Place::database("other"), "other");
        match &encryption {
            Some((key, cipher)) => builder.encryption(key.clone(), *cipher),
            None => builder,
        }
    };
    let env = builder().open(directory).expect("created");
    let records = env.database("plain-as-day records").expect("created");
    let other = env.database("other").expect("created");
    put(&records, 0..2000);
    put(&other, 0..500);
    records.insert("long", MARKER.repeat(20_000)).expect("a long value");
    records.insert(MARKER.repeat(200), "of a long key").expect("inserted");
    env.checkpoint().expect("written");
    put(&records, 2000..2500);
    let mut txn = env.begin().expect("begun");
    for n in 10_000..40_000 {
        txn.insert(&records, marked(n), marked(!n)).expect("inserted");
    }
    let spilled = spilled_in_the_clear(directory).expect("put aside");
    assert_eq!(txn.get(&records, marked(12_345)).expect("read"), Some(marked(!12_345)));
    txn.commit().expect("committed");
    put(&records, 2500..3000);
    env.sync().expect("synced");
    let mut clear = in_the_clear(directory);

    // As after a crash: the files as they are.
    let copy = directory.with_extension("copy");
    let mut all = Vec::new();
    files(directory, &mut all);
    for file in all {
        let to = copy.join(file.strip_prefix(directory).expect("in it"));
        fs::create_dir_all(to.parent().expect("one")).expect("made");
        fs::copy(&file, to).expect("copied");
    }
    let copied = builder().volume("other", copy.join("other.db")).open(&copy).expect("recovered");
    assert!(!copied.recovery().closed);
    assert_has(&copied, 0..3000);
    assert_has(&copied, 39_000..40_000);
    assert_sound(&copied);
    copied.close().expect("closed");
    clear.extend(in_the_clear(&copy));
    drop((records, other));
    env.close().expect("closed");
    clear.extend(in_the_clear(directory));
    clear.sort();
    clear.dedup();
    let _ = fs::remove_dir_all(copy);
    (clear, spilled)
}

#[test]
fn no_record_is_in_the_clear_in_any_file() {
    for cipher in CIPHERS {
        let directory = Directory::new(&format!("clear-{}", cipher.name()));
        assert_eq!(use_all(&directory.env(), Some((key(1), cipher))), (vec![], false), "{}", cipher.name());
    }
    // That it is looked for where it would be.
    let directory = Directory::new("clear");
    let (clear, spilled) = use_all(&directory.env(), None);
    assert!(spilled);
    for part in ["sablecat.db", "other.db", ".log", ".journal"] {
        assert!(clear.iter().any(|name| name.contains(part)), "{part}: {clear:?}");
    }
}

/// In the clear is what was placed in it, and nothing else, nothing of that in the log either; keys are
/// changed, and it is compressed, as if it were not there.
#[test]
fn a_volume_without_encryption_has_what_was_placed_there_and_nothing_else_is_in_the_clear() {
    for cipher in CIPHERS {
        let directory = Directory::new(&format!("plain-{}", cipher.name()));
        let builder = |unencrypted: &[&str]| {
            let builder = Env::builder()
                .background(false)
                .page_size(16384)
                .cache_size(4 << 20)
                .durability(Durability::WriteNoSync)
                .encryption(key(1), cipher)
                .volume("sealed", "sealed.db")
                .volume("plain", "plain.db")
                .place(Place::database("seals"), "sealed")
                .place(Place::database("plains"), "plain");
            unencrypted.iter().fold(builder, |builder, volume| builder.volume_unencrypted(*volume))
        };
        let open = |unencrypted: &[&str]| builder(unencrypted).open(directory.env());
        let env = open(&["plain"]).expect("created");
        let [records, seals, plains] =
            ["plain-as-day records", "seals", "plains"].map(|name| env.database(name).expect("created"));
        put(&records, 0..1500);
        put(&seals, 0..1500);
        env.checkpoint().expect("written");
        assert_eq!(in_the_clear(&directory.env()), Vec::<String>::new());
        plains.insert("long", MARKER.repeat(20_000)).expect("inserted");
        put(&plains, 0..1500);
        env.checkpoint().expect("written");
        assert_eq!(in_the_clear(&directory.env()), ["plain.db"]);
        put(&records, 1500..4000);
        env.checkpoint().expect("written");
        assert_eq!(in_the_clear(&directory.env()), ["plain.db"]);
        let encrypted = |env: &Env| {
            let volumes = env.stats().expect("read").volumes;
            volumes.into_iter().map(|volume| (volume.name, volume.encrypted)).collect::<Vec<_>>()
        };
        let each = [("main", true), ("sealed", true), ("plain", false)].map(|(name, is)| (name.into(), is));
        assert_eq!(encrypted(&env), each);

        env.rotate_key().expect("rotated");
        let report = env.encipher_anew().expect("written");
        assert!(report.older == 0 && report.pages > 10, "{report:?}");
        assert_eq!(env.encipher_anew().expect("looked").pages, 0);
        env.change_encryption_key(&key(2)).expect("changed");
        env.change_encryption_key(&key(1)).expect("changed");
        assert_sound(&env);
        drop((records, seals, plains));
        env.close().expect("closed");

        // It stays as it was made, whether that is said again or not.
        for said in [&["plain"][..], &[]] {
            let env = open(said).expect("opened");
            assert_eq!(encrypted(&env), each);
            assert_has(&env, 0..4000);
            put(&env.database("plains").expect("there"), 0..1500);
            assert_sound(&env);
            env.close().expect("closed");
        }
        let read = builder(&[]).read_only(true).open(directory.env()).expect("opened");
        assert_has(&read, 0..4000);
        for (volume, why) in [("sealed", "made with it"), ("main", "always"), ("none", "declare it first")] {
            let error = open(&[volume]).expect_err("it cannot be");
            assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains(why), "{error}");
        }
        assert_eq!(in_the_clear(&directory.env()), ["plain.db"]);
        // Without the key it is not opened, although it could be read.
        let error = Env::builder().open(directory.env()).expect_err("no key");
        assert_eq!(error.kind(), ErrorKind::EncryptionKey);
    }
    let directory = Directory::new("plain-in-plain");
    let env = Env::builder().volume("v", "v.db").volume_unencrypted("v").open(directory.env());
    let volumes = env.expect("nothing is encrypted").stats().expect("read").volumes;
    assert!(volumes.iter().all(|volume| !volume.encrypted));
}

#[test]
fn only_its_own_key_opens_an_environment() {
    let directory = Directory::new("keys");
    let path = directory.env();
    let plain = || Env::builder().background(false).journal(Journal::new());
    let builder = |n| plain().encryption_key(key(n));
    let env = builder(1).open(&path).expect("created");
    put(&env.database("plain-as-day records").expect("created"), 0..100);
    env.close().expect("closed");
    let before = fs::read(path.join("sablecat.db")).expect("read");
    for refused in [
        plain().open(&path).map(drop),
        builder(2).open(&path).map(drop),
        plain().read_only(true).open(&path).map(drop),
        builder(2).read_only(true).open(&path).map(drop),
        directory.shared(&key(2)).open(&path).map(drop),
        builder(2).recovery(&path, Target::Lsn(sablecat::Lsn(0))).map(drop),
        Env::builder().open_data_store(&path).map(drop),
    ] {
        let error = refused.expect_err("not its key");
        assert_eq!(error.kind(), ErrorKind::EncryptionKey, "{error}");
        assert!(error.to_string().contains("sablecat.db") && !error.to_string().contains("0202"), "{error}");
        assert!(!error.is_corruption() && !error.is_retryable());
    }
    assert!(fs::read(path.join("sablecat.db")).expect("read") == before, "nothing was written");
    assert_has(&builder(1).open(&path).expect("opened"), 0..100);
    assert_has(&builder(1).read_only(true).open(&path).expect("opened"), 0..100);

    let other = Directory::new("no-key");
    Env::open(other.env()).expect("created").close().expect("closed");
    let error = Env::builder().encryption_key(key(1)).open(other.env()).expect_err("it has none");
    assert_eq!(error.kind(), ErrorKind::EncryptionKey, "{error}");
    let env = Env::open(other.env()).expect("opened");
    assert_eq!(env.rotate_key().expect_err("it has none").kind(), ErrorKind::EncryptionKey);
    assert_eq!(env.stats().expect("read").encryption, None);
    let error = Env::builder().encryption_key(key(1)).in_memory().expect_err("nothing is written");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn a_data_store_is_encrypted_too() {
    let directory = Directory::new("data-store");
    let builder = || Env::builder().encryption_key(key(1));
    let mut store: DataStore = builder().open_data_store(directory.env()).expect("created");
    let records = store.database("plain-as-day records").expect("created");
    for n in 0..500 {
        store.insert(&records, marked(n), marked(!n)).expect("inserted");
    }
    store.close().expect("closed");
    assert_eq!(in_the_clear(&directory.env()), Vec::<String>::new());
    assert_has(&builder().open(directory.env()).expect("opened"), 0..500);
}

#[test]
fn keys_are_changed_beside_readers_and_writers() {
    let directory = Directory::new("rotation");
    let env = directory.shared(&key(1)).open(directory.env()).expect("created");
    let other = directory.shared(&key(1)).open(directory.env()).expect("joined");
    let records = env.database("plain-as-day records").expect("created");
    put(&records, 0..20_000);
    assert_eq!(env.encipher_anew().expect("looked").older, 0);
    // Nobody writes to it again.
    put(&env.database("still").expect("created"), 0..3000);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = AtTheEnd(&stop);
        for env in [&env, &other] {
            scope.spawn(|| {
                let records = env.database("plain-as-day records").expect("there");
                let mut n = 0;
                while !stop.load(Ordering::Relaxed) {
                    n = (n + 7) % 20_000;
                    assert_eq!(records.get(marked(n)).expect("read"), Some(marked(!n)));
                    put(&records, n..n + 1);
                }
            });
        }
        for number in 2..5 {
            assert_eq!(env.rotate_key().expect("rotated"), number);
            let report = other.encipher_anew().expect("written");
            assert_eq!(report.older, 0, "{report:?}");
            assert!(report.pages > 0);
        }
    });
    for env in [&env, &other] {
        let encryption = env.stats().expect("read").encryption.expect("it is");
        assert_eq!((encryption.key, encryption.keys), (4, 4));
        assert_has(env, 0..20_000);
    }
    assert_sound(&env);
    // Who does not know the new key goes on with what it has, and learns it when it is told.
    env.change_encryption_key(&key(2)).expect("changed");
    assert_has(&other, 0..20_000);
    assert_eq!(other.rotate_key().expect_err("not told").kind(), ErrorKind::EncryptionKey);
    let error = other.change_encryption_key(&key(3)).expect_err("that is another");
    assert_eq!(error.kind(), ErrorKind::EncryptionKey);
    env.rotate_key().expect("rotated");
    put(&records, 0..20_000);
    env.checkpoint().expect("written");
    let seen = other.existing_database("plain-as-day records").expect("read").expect("there");
    // What was written is in memory, or is not read.
    let read = (0..20_000).find_map(|n| seen.get(marked(n)).err());
    assert!(read.is_none_or(|error| error.kind() == ErrorKind::EncryptionKey));
    other.change_encryption_key(&key(2)).expect("told");
    assert_has(&other, 0..20_000);
    other.rotate_key().expect("rotated");
    drop((records, seen));
    env.close().expect("closed");
    other.close().expect("closed");
    let error = directory.shared(&key(1)).open(directory.env()).expect_err("it is another");
    assert_eq!(error.kind(), ErrorKind::EncryptionKey);
    let env = directory.shared(&key(2)).open(directory.env()).expect("opened");
    assert_eq!(env.stats().expect("read").encryption.expect("it is").key, 6);
    assert_has(&env, 0..20_000);
    assert_sound(&env);
}

/// A process that has written nothing since another added a key.
#[test]
fn who_enciphers_anew_does_so_with_the_newest_key_whoever_added_it() {
    let directory = Directory::new("told");
    let env = directory.shared(&key(1)).open(directory.env()).expect("created");
    let other = directory.shared(&key(1)).open(directory.env()).expect("joined");
    put(&env.database("plain-as-day records").expect("created"), 0..3000);
    env.checkpoint().expect("written");
    env.rotate_key().expect("rotated");
    assert_eq!(other.stats().expect("read").encryption.expect("it is").key, 2);
    env.rotate_key().expect("rotated");
    let report = other.encipher_anew().expect("written");
    assert!(report.pages > 20 && report.older == 0, "{report:?}");
    // All of it is, and there is nothing left to be done.
    assert_eq!(env.encipher_anew().expect("looked").pages, 0);

    env.change_encryption_key(&key(2)).expect("changed");
    env.rotate_key().expect("rotated");
    assert_eq!(other.encipher_anew().expect_err("not told").kind(), ErrorKind::EncryptionKey);
    other.change_encryption_key(&key(2)).expect("told");
    let report = other.encipher_anew().expect("written");
    assert!(report.pages > 20 && report.older == 0, "{report:?}");
    assert_sound(&env);
    [env, other].into_iter().for_each(|env| env.close().expect("closed"));
}

/// Killed, or without power, at any call to the disk while keys are changed.
#[test]
fn a_change_of_keys_that_is_cut_short_loses_nothing() {
    const RECORDS: u32 = 400;
    let on = |disk: &SimDisk, by: &EncryptionKey| {
        Env::builder()
            .disk(Arc::new(disk.clone()))
            .background(false)
            .page_size(1024)
            .cache_size(0)
            .log_segment_size(1 << 16)
            .log_buffer_size(1 << 16)
            .durability(Durability::Sync)
            .encryption_key(by.clone())
            .open("/env")
    };
    let change = |env: &Env| -> sablecat::Result<()> {
        env.rotate_key()?;
        put_or(env, RECORDS..RECORDS + 20)?;
        env.encipher_anew()?;
        env.change_encryption_key(&key(2))?;
        env.rotate_key()?;
        put_or(env, RECORDS + 20..RECORDS + 40)?;
        env.encipher_anew().map(drop)
    };
    let whole = SimDisk::new(1);
    let env = on(&whole, &key(1)).expect("created");
    put(&env.database("plain-as-day records").expect("created"), 0..RECORDS);
    env.checkpoint().expect("written");
    env.close().expect("closed");
    let calls = {
        let disk = whole.crash_as(Survival::Everything, 1);
        let env = on(&disk, &key(1)).expect("opened");
        let before = disk.calls();
        change(&env).expect("changed");
        disk.calls() - before
    };
    assert!(calls > 20, "{calls}");
    for cut in 0..60 {
        let disk = whole.crash_as(Survival::Everything, cut);
        let env = on(&disk, &key(1)).expect("opened");
        disk.crash_at(disk.calls() + 1 + cut * calls / 60);
        let result = change(&env);
        drop(env);
        let survival = if cut % 2 == 0 { Survival::Nothing } else { Survival::Everything };
        let left = disk.crash_as(survival, cut);
        let env = match on(&left, &key(1)) {
            Err(error) if error.kind() == ErrorKind::EncryptionKey => on(&left, &key(2)),
            opened => opened,
        };
        let env = env.unwrap_or_else(|error| panic!("cut at {cut} ({result:?}): {error}"));
        assert_has(&env, 0..RECORDS);
        env.encipher_anew().expect("written");
        assert_sound(&env);
    }
}

/// The process is killed, or a flush fails, and what it wrote is read, though it is not durable.
#[test]
fn a_key_that_has_opened_an_environment_opens_it_after_the_next_power_failure() {
    let on = |disk: &SimDisk, by: u8| {
        let builder = Env::builder().disk(Arc::new(disk.clone())).background(false).page_size(1024);
        builder.encryption_key(key(by)).open("/env")
    };
    let whole = SimDisk::new(1);
    let env = on(&whole, 1).expect("created");
    put(&env.database("plain-as-day records").expect("created"), 0..20);
    env.close().expect("closed");
    let mut opened_by = [0; 3];
    for (killed, fails) in (0..20).flat_map(|killed| [(killed, false), (killed, true)]) {
        for seed in 0..8 {
            let disk = whole.crash_as(Survival::Everything, seed);
            let env = on(&disk, 1).expect("opened");
            if fails {
                disk.fail_at(disk.calls() + killed, Fault::SyncFails);
            } else {
                disk.crash_at(disk.calls() + killed);
            }
            let _ = env.change_encryption_key(&key(2));
            drop(env);
            disk.clear_faults();
            let (by, env) = match on(&disk, 1) {
                Err(error) if error.kind() == ErrorKind::EncryptionKey => (2, on(&disk, 2).expect("opened")),
                opened => (1, opened.expect("opened")),
            };
            opened_by[by as usize] += 1;
            let left = disk.crash_as(Survival::Nothing, seed);
            drop(env);
            let env = on(&left, by).unwrap_or_else(|e| panic!("killed at {killed}, fails {fails}: {e}"));
            assert_has(&env, 0..20);
        }
    }
    assert!(opened_by[1] > 10 && opened_by[2] > 10, "{opened_by:?}");
}

/// Says so when it is dropped, in a panic too.
struct AtTheEnd<'a>(&'a AtomicBool);

impl Drop for AtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn put_or(env: &Env, numbers: std::ops::Range<u32>) -> sablecat::Result<()> {
    let database = env.database("plain-as-day records")?;
    numbers.into_iter().try_for_each(|n| database.insert(marked(n), marked(!n)).map(drop))
}

/// Blocks of one environment in another that has the same keys, and of one place in another.
#[test]
fn what_is_not_its_own_is_damage() {
    let directory = Directory::new("swapped");
    let builder = || Env::builder().background(false).encryption_key(key(1));
    let env = builder().open(directory.env()).expect("created");
    put(&env.database("plain-as-day records").expect("created"), 0..5000);
    env.close().expect("closed");
    let path = directory.env().join("sablecat.db");
    let whole = fs::read(&path).expect("read");
    let blocks = (whole.len() - 131_072) / 4096;
    let mut refused = 0;
    for n in 0..blocks {
        let mut bytes = whole.clone();
        let (at, other) = (131_072 + n * 4096, 131_072 + (n + 1) % blocks * 4096);
        bytes.copy_within(other..other + 4096, at);
        fs::write(&path, &bytes).expect("written");
        let seen = builder().read_only(true).open(directory.env()).and_then(|env| {
            let records = env.existing_database("plain-as-day records")?;
            let Some(records) = records else { return Ok(()) };
            for record in records.range(..)? {
                let (key, value) = record?;
                assert_eq!(value[MARKER.len()], !key[MARKER.len()]);
            }
            Ok(())
        });
        if let Err(error) = seen {
            assert!(error.is_corruption(), "{error}");
            refused += 1;
        }
    }
    assert!(refused > blocks / 2, "{refused} of {blocks}");
    fs::write(&path, &whole).expect("written");
    // One copy of the keys is enough, and none is not.
    let file = fs::OpenOptions::new().write(true).open(&path).expect("opened");
    for at in [16_384, 81_920, 24_576] {
        file.write_all_at(&[0xa5; 4096], at).expect("written");
        assert_has(&builder().read_only(true).open(directory.env()).expect("opened"), 0..10);
    }
    // Who opens it to write puts the others back.
    let env = builder().open(directory.env()).expect("opened");
    assert!(env.verify(&mut |_| {}).expect("verified").problems.iter().any(|one| one.contains("key block")));
    env.close().expect("closed");
    file.write_all_at(&[0xa5; 4096], 90_112).expect("written");
    let env = builder().open(directory.env()).expect("opened");
    assert_has(&env, 0..10);
    env.close().expect("closed");
    for at in [16_384, 81_920, 24_576, 90_112] {
        file.write_all_at(&[0xa5; 4096], at).expect("written");
    }
    let error = builder().open(directory.env()).expect_err("no keys");
    assert!(error.is_corruption() && error.to_string().contains("keys"), "{error}");
}
