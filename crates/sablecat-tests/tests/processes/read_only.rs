//! Reading the last checkpoint of an environment that others write, or that nobody has open, without being
//! allowed to write.

use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use sablecat::{Builder, Database, Durability, Env, ErrorKind, Journal, ReadTxn, TxnOptions};

use sablecat_tests::copy_program;
use sablecat_tests::worker::test_name;

const NOBODY: u32 = 65534;
/// Where a process that a test has started finds the environment.
const PLACE: &str = "SABLECAT_TEST_READ_ONLY";

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path =
            PathBuf::from("/dev/shm").join(format!("sablecat-test-read-only-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("made");
        Directory(path)
    }

    fn env(&self) -> PathBuf {
        self.0.join("env")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn writer() -> Builder {
    Env::builder().background(false).page_size(512).cache_size(1 << 18).durability(Durability::NoSync)
}

fn reader(path: &Path) -> sablecat::Result<Env> {
    backwards(Env::builder()).read_only(true).cache_size(1 << 18).open(path)
}

fn backwards(builder: Builder) -> Builder {
    builder.comparator("backwards", |a, b| a.cmp(b).reverse())
}

fn kind<T>(result: sablecat::Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

/// Everything in a directory: names, lengths, modes, when they were changed, and what they hold.
fn look_of(path: &Path) -> Vec<String> {
    let mut found = vec![format!("{path:?} {:?}", times(path))];
    for entry in fs::read_dir(path).expect("there") {
        let path = entry.expect("read").path();
        if path.is_dir() {
            found.extend(look_of(&path));
        } else {
            found.push(format!("{path:?} {:?} {:?}", times(&path), crc32c(&fs::read(&path).expect("read"))));
        }
    }
    found.sort();
    found
}

fn times(path: &Path) -> (u64, u32, i64, i64, i64, i64) {
    let seen = fs::metadata(path).expect("there");
    (seen.len(), seen.mode(), seen.mtime(), seen.mtime_nsec(), seen.ctime(), seen.ctime_nsec())
}

fn crc32c(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum: u64, &byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)))
}

#[test]
fn a_reader_sees_the_last_checkpoint_and_goes_on_to_the_next() {
    let directory = Directory::new("follows");
    let env = writer().open(directory.env()).expect("created");
    let d = env.database("d").expect("created");
    d.insert("k", "1").expect("inserted");
    let first = env.checkpoint().expect("written").lsn;
    d.insert("k", "2").expect("inserted");

    let seen = reader(&directory.env()).expect("opened");
    let e = seen.database("d").expect("there");
    assert_eq!(e.get("k").expect("read").as_deref(), Some(&b"1"[..]));
    let old = seen.snapshot().expect("begun");
    assert_eq!((old.get(&e, "k").expect("read").as_deref(), old.lsn()), (Some(&b"1"[..]), first));
    assert_eq!(kind(seen.database("new")), Some(ErrorKind::ReadOnly));

    env.database("new").expect("created").insert("n", "3").expect("inserted");
    let second = env.checkpoint().expect("written").lsn;
    assert_eq!(e.get("k").expect("read").as_deref(), Some(&b"2"[..]));
    assert_eq!(
        seen.database("new").expect("there by now").get("n").expect("read").as_deref(),
        Some(&b"3"[..])
    );
    assert_eq!(kind(old.get(&e, "k")), Some(ErrorKind::SnapshotTooOld));
    assert_eq!(old.lsn(), first);
    assert_eq!(seen.snapshot().expect("begun").lsn(), second);
    assert_eq!(seen.stats().expect("looked").checkpoint, second);

    env.remove_database("d").expect("removed");
    env.rename_database("new", "newer").expect("renamed");
    env.checkpoint().expect("written");
    assert_eq!(kind(e.get("k")), Some(ErrorKind::NotFound));
    assert_eq!(seen.databases().expect("listed"), ["newer"]);
    assert!(seen.existing_database("new").expect("looked").is_none());
    assert!(seen.verify(&mut |_| {}).expect("checked").problems.is_empty());
    drop((old, e));
    seen.close().expect("closed");
}

#[test]
fn whatever_would_change_something_is_read_only() {
    let directory = Directory::new("refuses");
    let env = writer().open(directory.env()).expect("created");
    env.database("d").expect("created");
    env.close().expect("closed");
    let before = look_of(&directory.env());

    let seen = reader(&directory.env()).expect("opened");
    let d = seen.database("d").expect("there");
    let refused = [
        kind(d.insert("k", "v")),
        kind(d.insert(vec![7; 2000], vec![7; 100_000])),
        kind(d.remove("k")),
        kind(d.insert_batch([("k", "v")])),
        kind(d.bulk_load([("k", "v")])),
        kind(d.entry("k").or_insert("v")),
        kind(d.retain(|_, _| false)),
        kind(seen.begin()),
        kind(seen.begin_with(TxnOptions::new())),
        kind(seen.write(|_| Ok(()))),
        kind(seen.checkpoint()),
        kind(seen.compact()),
        kind(seen.keep_house()),
        kind(seen.database("new")),
        kind(seen.rename_database("d", "e")),
        kind(seen.remove_database("d")),
    ];
    assert_eq!(refused, [Some(ErrorKind::ReadOnly); 16]);
    seen.sync().expect("there is nothing to flush");
    drop(d);
    seen.close().expect("closed");
    assert_eq!(look_of(&directory.env()), before);

    assert_eq!(
        kind(Env::builder().read_only(true).open_data_store(directory.env())),
        Some(ErrorKind::Invalid)
    );
    assert_eq!(kind(Env::builder().read_only(true).in_memory()), Some(ErrorKind::Invalid));
    assert_eq!(
        kind(Env::builder().read_only(true).open(directory.0.join("none"))),
        Some(ErrorKind::NotFound)
    );
    assert!(!directory.0.join("none").exists());
}

/// Fills an environment with all that there is: an order of its own, long keys, long values, a removed
/// database.
fn fill(env: &Env) {
    let d = env.database("d").expect("created");
    for n in 0..500u32 {
        d.insert(n.to_be_bytes(), [n as u8; 40]).expect("inserted");
    }
    d.insert(vec![b'k'; 5000], "nested").expect("inserted");
    d.insert("long", long(3)).expect("inserted");
    let e = env.database_ordered_by("e", "backwards").expect("created");
    e.insert("a", "1").and_then(|()| e.insert("b", "2")).expect("inserted");
    env.database("gone").expect("created").insert("x", "y").expect("inserted");
    env.remove_database("gone").expect("removed");
}

fn long(byte: u8) -> Vec<u8> {
    (0..200_000u32).map(|n| byte.wrapping_add((n / 512) as u8)).collect()
}

fn check(seen: &Env) {
    let d = seen.database("d").expect("there");
    let snapshot = seen.snapshot().expect("begun");
    assert_eq!(d.len().expect("counted"), 502);
    assert_eq!(snapshot.range(&d, ..).expect("begun").count(), 502);
    assert_eq!(snapshot.range(&d, ..).expect("begun").rev().filter(|record| record.is_ok()).count(), 502);
    assert_eq!(d.get(vec![b'k'; 5000]).expect("read").as_deref(), Some(&b"nested"[..]));
    assert_eq!(d.get("long").expect("read"), Some(long(3)));
    assert_eq!(d.value_len("long").expect("read"), Some(200_000));
    let (mut part, mut shown) = (vec![0; 70_000], 0);
    assert_eq!(snapshot.read_at(&d, "long", 100_000, &mut part).expect("read"), Some(70_000));
    assert_eq!(part, long(3)[100_000..170_000]);
    d.visit(.., |_, value| {
        shown += value.len();
        ControlFlow::Continue(())
    })
    .expect("visited");
    assert_eq!(shown, 500 * 40 + 6 + 200_000);
    let e = seen.database_ordered_by("e", "backwards").expect("there");
    let keys: Vec<_> = e.range(..).expect("begun").map(|record| record.expect("read").0).collect();
    assert_eq!(keys, [b"b", b"a"]);
    let report = seen.verify(&mut |_| {}).expect("checked");
    assert_eq!(
        (report.problems.len(), report.pages_unreachable, report.records),
        (0, 0, 504),
        "{:?}",
        report.problems
    );
}

#[test]
fn everything_that_can_be_stored_can_be_read() {
    for (name, journal) in [("stored", false), ("stored-journal", true)] {
        let directory = Directory::new(name);
        let builder = backwards(writer());
        let builder = if journal { builder.journal(Journal::new().epochs(3)) } else { builder };
        let env = builder.open(directory.env()).expect("created");
        fill(&env);
        for n in 0..5u8 {
            env.database("d").expect("there").insert("n", [n]).expect("inserted");
            env.checkpoint().expect("written");
        }
        env.database("d").expect("there").remove("n").expect("removed");
        env.checkpoint().expect("written");
        check(&reader(&directory.env()).expect("opened"));
        env.close().expect("closed");
        check(&reader(&directory.env()).expect("opened"));
    }
}

#[test]
fn a_data_store_can_be_read() {
    let directory = Directory::new("store");
    let mut store = writer().open_data_store(directory.env()).expect("created");
    let d = store.database("d").expect("created");
    let seen = reader(&directory.env());
    assert_eq!(kind(seen), None, "creating it has made a checkpoint");
    let mut seen = None;
    for round in 0..20u32 {
        for n in 0..300u32 {
            store.insert(&d, n.to_be_bytes(), round.to_be_bytes()).expect("inserted");
        }
        store.checkpoint().expect("written");
        // In place, and not in any checkpoint.
        store.insert(&d, 7u32.to_be_bytes(), "unsaved").expect("inserted");
        let seen = seen.get_or_insert_with(|| reader(&directory.env()).expect("opened"));
        let e = seen.database("d").expect("there");
        let snapshot = seen.snapshot().expect("begun");
        for record in snapshot.range(&e, ..).expect("begun") {
            assert_eq!(record.expect("read").1, round.to_be_bytes());
        }
    }
    store.close().expect("closed");
}

/// Copies the files of an environment as killed processes would leave them.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("there") {
        let (from, to) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).expect("read");
        if from.is_dir() { copy(&from, &to) } else { fs::copy(&from, &to).map(drop).expect("copied") }
    }
}

#[test]
fn what_a_crash_has_left_is_read_as_of_its_last_checkpoint() {
    let directory = Directory::new("crash");
    let env = backwards(writer()).durability(Durability::Sync).open(directory.env()).expect("created");
    fill(&env);
    env.checkpoint().expect("written");
    env.database("d").expect("there").insert("after", "it").expect("inserted");
    copy(&directory.env(), &directory.0.join("left"));
    let before = look_of(&directory.0.join("left"));
    let seen = reader(&directory.0.join("left")).expect("opened");
    check(&seen);
    assert_eq!(seen.database("d").expect("there").get("after").expect("read"), None);
    seen.close().expect("closed");
    assert_eq!(look_of(&directory.0.join("left")), before);
}

#[test]
fn damage_is_reported_as_damage() {
    let directory = Directory::new("damage");
    let env = backwards(writer()).open(directory.env()).expect("created");
    fill(&env);
    env.close().expect("closed");
    let volume = directory.env().join("sablecat.db");
    let file = fs::File::options().read(true).write(true).open(&volume).expect("there");
    let (mut damaged, mut byte) = (0, [0]);
    for at in (131_072 + 100..file.metadata().expect("there").len()).step_by(512) {
        file.read_exact_at(&mut byte, at).expect("read");
        file.write_all_at(&[byte[0] ^ 4], at).expect("written");
        let read = reader(&directory.env()).and_then(|seen| {
            let d = seen.database("d")?;
            d.get("long")?;
            d.len()
        });
        match read {
            Ok(records) => assert_eq!(records, 502),
            Err(error) => {
                assert!(error.is_corruption(), "{error}");
                damaged += 1;
            }
        }
        file.write_all_at(&byte, at).expect("written");
    }
    assert!(damaged > 400, "{damaged}");
}

#[test]
#[ignore = "what the processes of the next test do"]
fn unprivileged() {
    let Some(path) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    for shared in [false, true] {
        match Env::builder().shared(shared).region_directory(path.join("..")).open(&path) {
            Ok(_) => println!("opened"),
            Err(error) => println!("{:?}: {error}", error.kind()),
        }
    }
    check(&reader(&path).expect("opened"));
    println!("read");
}

/// Starts this program once more, for an ignored test, as nobody; none if that is not permitted.
fn as_nobody(directory: &Directory, test: &str) -> Option<String> {
    let program = directory.0.join("program");
    copy_program(&program);
    let mut command = Command::new(&program);
    command
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(PLACE, directory.env())
        .uid(NOBODY)
        .gid(NOBODY);
    let out = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .and_then(Child::wait_with_output)
        .ok()?;
    Some(String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr))
}

#[test]
fn who_may_not_write_is_told_so_and_may_read() {
    let directory = Directory::new("user");
    let env = backwards(writer())
        .shared(true)
        .region_directory(&directory.0)
        .file_mode(0o644)
        .open(directory.env())
        .expect("created");
    fill(&env);
    env.checkpoint().expect("written");
    let say_in_use = |said: &str| {
        assert_eq!(said.matches("ReadOnly: ").count(), 2, "{said}");
        assert_eq!(said.matches("opened read-only").count(), 2, "{said}");
        assert!(said.contains("sablecat.lock") && said.contains("\nread\n"), "{said}");
    };
    let Some(said) = as_nobody(&directory, test_name(unprivileged)) else {
        eprintln!("not tested: being another user takes privileges");
        return;
    };
    say_in_use(&said);
    env.close().expect("closed");

    for path in ["env/log", "env/sablecat.db", "env/sablecat.lock", "env"] {
        let path = directory.0.join(path);
        let mode = if path.is_dir() { 0o555 } else { 0o444 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
    }
    let before = look_of(&directory.env());
    say_in_use(&as_nobody(&directory, test_name(unprivileged)).expect("as before"));
    assert_eq!(look_of(&directory.env()), before);

    // Nobody's files are not read either.
    fs::set_permissions(directory.env().join("sablecat.db"), fs::Permissions::from_mode(0o600)).expect("set");
    let said = as_nobody(&directory, test_name(unprivileged)).expect("as before");
    assert!(said.contains("Io: ") && !said.contains("ReadOnly") && !said.contains("\nread\n"), "{said}");
}

#[test]
fn an_environment_on_a_file_system_that_is_read_only_can_be_read() {
    let directory = Directory::new("mounted");
    let env = backwards(writer()).open(directory.env()).expect("created");
    fill(&env);
    env.close().expect("closed");
    // In a mount namespace that ends with the process.
    let script = "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" && exec \"$2\" --exact \
                  unprivileged --ignored --nocapture";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(directory.env())
        .arg(std::env::current_exe().expect("a program"));
    let Ok(out) = command.env(PLACE, directory.env()).output() else {
        eprintln!("not tested: there is no unshare");
        return;
    };
    let (said, why) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    if !said.contains("running 1 test") {
        eprintln!("not tested: no namespace of mounts of its own: {why}");
        return;
    }
    assert!(said.contains("ReadOnly: ") && said.contains("\nread\n"), "{said}{why}");
}

/// Accounts of the test with a busy writer, each twice; what they have together; and other records, which
/// come and go.
const ACCOUNTS: u32 = 400;
const TOTAL: u64 = ACCOUNTS as u64 * 1000;
const FILLER: u32 = 1500;

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

/// A generator of numbers that are all alike for a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(bound)) as u32
    }
}

/// Databases of the test: accounts, the same once more, and the rest.
struct Books {
    left: Database,
    right: Database,
    rest: Database,
}

impl Books {
    fn of(env: &Env) -> sablecat::Result<Books> {
        Ok(Books { left: env.database("left")?, right: env.database("right")?, rest: env.database("rest")? })
    }

    /// Something that changes records in pairs, or makes the file grow or shrink.
    fn change(&self, env: &Env, numbers: &mut Numbers) -> sablecat::Result<()> {
        let (from, to, sum) =
            (numbers.below(ACCOUNTS), numbers.below(ACCOUNTS), u64::from(numbers.below(50)));
        env.write(|txn| {
            for book in [&self.left, &self.right] {
                let mut add = |account: u32, sum: u64| {
                    let has = number(&txn.get(book, account.to_be_bytes())?.expect("an account"));
                    txn.insert(book, account.to_be_bytes(), has.wrapping_add(sum).to_le_bytes())
                };
                add(from, sum.wrapping_neg())?;
                add(to, sum)?;
            }
            // A value past the cache, and a record that says how it must be.
            if numbers.below(10) == 0 {
                let (byte, len) = (numbers.below(256) as u8, numbers.below(60_000));
                txn.insert(&self.rest, "value", vec![byte; len as usize])?;
                txn.insert(&self.rest, "value is", u64::from(len << 8 | u32::from(byte)).to_le_bytes())?;
            }
            Ok(())
        })?;
        match numbers.below(40) {
            0 => (0..FILLER).try_for_each(|n| self.rest.remove(n.to_be_bytes()).map(drop)),
            1 => self.rest.insert_batch((0..FILLER).map(|n| (n.to_be_bytes(), [n as u8; 64]))),
            2 => env.compact().map(drop),
            _ => Ok(()),
        }
    }

    /// Reads a state, in part or whole, and finds that it is one.
    fn check(&self, seen: &mut ReadTxn, numbers: &mut Numbers) -> sablecat::Result<()> {
        for _ in 0..20 {
            let account = numbers.below(ACCOUNTS).to_be_bytes();
            assert_eq!(
                seen.get(&self.left, account)?,
                seen.get(&self.right, account)?,
                "account {account:?}"
            );
        }
        let rule = seen.get(&self.rest, "value is")?.map_or(0, |rule| number(&rule));
        let value = seen.get(&self.rest, "value")?.unwrap_or_default();
        assert_eq!(value.len() as u64, rule >> 8, "a value");
        assert!(value.iter().all(|&byte| byte == rule as u8), "a value of {} bytes", value.len());
        if numbers.below(4) == 0 {
            let sum = |book| {
                seen.range(book, ..)?.try_fold((0, 0u64), |(count, sum), record| {
                    record.map(|(_, value)| (count + 1, sum.wrapping_add(number(&value))))
                })
            };
            assert_eq!(sum(&self.left)?, (ACCOUNTS, TOTAL));
            assert_eq!(sum(&self.right)?, (ACCOUNTS, TOTAL));
            // They come together, and go from the first on.
            let rest = seen
                .range(&self.rest, [0].as_slice()..[1].as_slice())?
                .collect::<sablecat::Result<Vec<_>>>()?;
            let first = FILLER - rest.len() as u32;
            assert!(
                (first..)
                    .zip(&rest)
                    .all(|(n, (key, value))| *key == n.to_be_bytes() && *value == [n as u8; 64]),
                "from {first}"
            );
        }
        Ok(())
    }
}

#[test]
#[ignore = "what the processes of the next test do"]
fn onlooker() {
    let Some(path) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    let env = Env::builder().read_only(true).cache_size(1 << 18).open(&path).expect("opened");
    // Threads that go on to new checkpoints under each other.
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let env = &env;
            scope.spawn(move || look_on(env, Numbers(u64::from(std::process::id() + thread))));
        }
    });
}

/// Reads until enough has happened, whatever that takes.
fn look_on(env: &Env, mut numbers: Numbers) {
    let (mut whole, mut too_old, mut states) = (0, 0, std::collections::HashSet::new());
    while whole < 300 || too_old < 30 || states.len() < 50 {
        let read = Books::of(env).and_then(|books| {
            let mut seen = env.snapshot()?;
            states.insert(seen.lsn());
            books.check(&mut seen, &mut numbers)?;
            let single = numbers.below(ACCOUNTS).to_be_bytes();
            books.left.get(single)?.expect("an account");
            Ok(())
        });
        match read {
            Ok(()) => whole += 1,
            Err(error) if error.kind() == ErrorKind::SnapshotTooOld => too_old += 1,
            Err(error) => panic!("{:?}: {error}", error.kind()),
        }
    }
    println!("{whole} states read, {too_old} too old, {} seen", states.len());
}

/// Opens the environment of the busy writer.
fn open_busy(path: &Path, journal: bool) -> (Env, Books) {
    let builder = writer().cache_size(4 << 20);
    let builder =
        if journal { builder.journal(Journal::new().epochs(2).keep_bytes(1 << 20)) } else { builder };
    let env = builder.open(path).expect("opened");
    let books = Books::of(&env).expect("created");
    (env, books)
}

fn write_busily(env: &Env, books: &Books, numbers: &mut Numbers) {
    for _ in 0..5 {
        books.change(env, numbers).expect("changed");
    }
    env.checkpoint().expect("written");
}

#[test]
#[ignore = "what a process of the next test does until it is killed"]
fn busy_writer() {
    let Some(path) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    let (env, books) = open_busy(&path, false);
    let mut numbers = Numbers(u64::from(std::process::id()));
    loop {
        write_busily(&env, &books, &mut numbers);
        println!("written");
    }
}

fn start(test: &str, path: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("a program"));
    command.args(["--exact", test, "--ignored", "--nocapture"]).env(PLACE, path);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started")
}

/// Has readers read in an environment while `write` writes, for as long as they do.
fn read_beside(path: &Path, mut write: impl FnMut()) {
    let mut readers = [start(test_name(onlooker), path), start(test_name(onlooker), path)];
    while readers.iter_mut().any(|reader| reader.try_wait().expect("asked").is_none()) {
        write();
    }
    for reader in readers {
        let out = reader.wait_with_output().expect("ended");
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
        assert_eq!(said.matches(" states read").count(), 2, "{said}");
    }
}

/// An environment with the accounts in it and a checkpoint.
fn with_accounts(name: &str, journal: bool) -> (Directory, Env, Books) {
    let directory = Directory::new(name);
    let (env, books) = open_busy(&directory.env(), journal);
    for book in [&books.left, &books.right] {
        book.insert_batch((0..ACCOUNTS).map(|n| (n.to_be_bytes(), 1000u64.to_le_bytes()))).expect("inserted");
    }
    env.checkpoint().expect("written");
    (directory, env, books)
}

#[test]
fn readers_see_whole_checkpoints_while_a_writer_writes_them_as_fast_as_it_can() {
    for (name, journal) in [("busy", false), ("busy-journal", true)] {
        let (directory, env, books) = with_accounts(name, journal);
        let mut numbers = Numbers(1);
        read_beside(&directory.env(), || write_busily(&env, &books, &mut numbers));
    }
}

#[test]
fn readers_see_whole_checkpoints_while_one_writer_after_the_other_is_killed() {
    let (directory, env, books) = with_accounts("killed", false);
    drop((env, books));
    let mut numbers = Numbers(2);
    read_beside(&directory.env(), || {
        let mut writer = start(test_name(busy_writer), &directory.env());
        let said = BufReader::new(writer.stdout.take().expect("piped"))
            .lines()
            .filter(|line| line.as_deref().is_ok_and(|line| line == "written"));
        let after = numbers.below(40) as usize;
        assert_eq!(said.take(after).count(), after, "it ended by itself");
        writer.kill().and_then(|()| writer.wait()).expect("killed");
    });
}

#[test]
#[ignore = "prints figures"]
fn measure() {
    const RECORDS: u32 = 200_000;
    let directory = Directory::new("measure");
    let place = directory.env();
    let env = Env::builder().open(&place).expect("created");
    let db = env.database("d").expect("created");
    db.bulk_load((0..RECORDS).map(|n| (n.to_be_bytes(), [n as u8; 100]))).expect("loaded");
    drop(db);
    env.close().expect("closed");
    let time = |what: &str, builder: Builder| {
        let env = builder.open(&place).expect("opened");
        let db = env.database("d").expect("there");
        let mut numbers = Numbers(3);
        db.len().expect("counted");
        let per = |count: u32, mut work: Box<dyn FnMut() + '_>| {
            let begun = std::time::Instant::now();
            (0..count).for_each(|_| work());
            begun.elapsed().as_nanos() / u128::from(count)
        };
        let single =
            per(RECORDS, Box::new(|| drop(db.get(numbers.below(RECORDS).to_be_bytes()).expect("read"))));
        let snapshot = env.snapshot().expect("begun");
        let held = per(
            RECORDS,
            Box::new(|| drop(snapshot.get(&db, numbers.below(RECORDS).to_be_bytes()).expect("read"))),
        );
        println!("{what}: {single} ns a get, {held} ns a get in a transaction");
    };
    for (cache, bytes) in [("all in the cache", 64 << 20), ("nearly nothing in the cache", 1 << 20)] {
        time(&format!("{cache}, opened to write"), Env::builder().cache_size(bytes));
        time(&format!("{cache}, read only"), Env::builder().cache_size(bytes).read_only(true));
    }
}
