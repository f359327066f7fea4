//! The memory that processes share: left behind, damaged or somebody else's, too small, inherited by fork, or
//! full of processes.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sablecat::{Env, ErrorKind, Isolation, SequenceOptions, TxnOptions};
use sablecat_os::check::sparse;
use sablecat_os::liveness::LockFile;

use sablecat_tests::worker::test_name;
use sablecat_tests::{Place, copy_program, flushed_then_not, get, put};

/// How often something is tried that is in the way of nobody for long.
const TRIES: u64 = 300;

#[test]
fn the_region_of_killed_processes_is_attached_to_and_removed_by_the_last_to_close() {
    let place = Place::new("warm");
    let left = {
        let _env = flushed_then_not(&place);
        place.killed("warm-left")
    };
    assert_eq!(left.regions(), [left.region()]);
    for _ in 0..2 {
        let env = left.open().expect("attached");
        assert_eq!(get(&env).as_deref(), Some(&b"in the region"[..]));
        assert_eq!(env.processes().len(), 1, "the dead have been struck out");
        env.close().expect("closed");
        assert_eq!(left.regions(), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_region_that_is_not_right_is_set_aside_and_the_files_are_recovered() {
    let place = Place::new("spoilt");
    let env = flushed_then_not(&place);
    let other = Place::new("spoilt-other");
    let _others = flushed_then_not(&other);
    type Spoil = fn(&Place, &Place);
    let ways: [(&str, Spoil); 6] = [
        ("version", |left, _| left.spoil(7, |byte| byte ^ 1)),
        ("header", |left, _| left.spoil(16, |byte| byte ^ 1)),
        ("variable", |left, _| {
            drop(
                fs::File::options()
                    .write(true)
                    .open(left.region())
                    .and_then(|f| f.write_all_at(&[0xff; 5 * 4096], 4096)),
            )
        }),
        ("zeros", |left, _| {
            let length = fs::metadata(left.region()).expect("there").len();
            fs::File::create(left.region()).and_then(|file| file.set_len(length)).expect("emptied");
        }),
        ("cut", |left, _| {
            fs::File::options()
                .write(true)
                .open(left.region())
                .and_then(|file| file.set_len(1 << 20))
                .expect("cut")
        }),
        ("foreign", |left, other| {
            fs::remove_file(left.region()).expect("there");
            sparse::copy(&other.region(), &left.region()).expect("copied");
        }),
    ];
    for (name, spoil) in ways {
        let left = place.killed(&format!("spoilt-{name}"));
        spoil(&left, &other);
        let env = left.open().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(get(&env).as_deref(), Some(&b"flushed"[..]), "{name}");
        let aside = left.region().with_extension("aside");
        assert_eq!(left.regions(), [left.region(), aside.clone()], "{name}");
        env.close().expect("closed");
        assert_eq!(left.regions(), [aside], "{name}");
    }
    drop(env);
}

#[test]
fn a_region_that_is_in_use_is_never_set_aside() {
    let place = Place::new("live");
    let env = flushed_then_not(&place);
    place.spoil(16, |byte| byte ^ 1);
    let refused = place.open().expect_err("damaged, and in use");
    assert_eq!(refused.kind(), ErrorKind::InUse, "{refused}");
    assert_eq!(place.regions(), [place.region()]);
    place.spoil(16, |byte| byte ^ 1);
    assert_eq!(get(&place.open().expect("attached")).as_deref(), Some(&b"in the region"[..]));
    drop(env);
}

/// The permission bits of everything that an environment consists of, by name.
fn modes(place: &Place) -> Vec<(String, u32)> {
    let env = place.base.join("env");
    let mut paths: Vec<_> =
        ["sablecat.db", "sablecat.lock", "log"].iter().map(|name| env.join(name)).collect();
    paths.extend(fs::read_dir(env.join("log")).expect("there").map(|file| file.expect("read").path()));
    paths.push(place.region());
    let mode = |path: &PathBuf| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    paths
        .iter()
        .map(|path| (path.file_name().expect("named").to_string_lossy().into_owned(), mode(path)))
        .collect()
}

#[test]
fn everything_has_the_permission_bits_asked_for_or_those_of_the_volume() {
    let expect = |place: &Place, file: u32, directory: u32| {
        let modes = modes(place);
        assert!(modes.len() > 4, "{modes:?}");
        for (name, mode) in modes {
            assert_eq!(mode, if name == "log" { directory } else { file }, "{name}: {mode:o}");
        }
    };
    for (file, directory) in [(0o600, 0o700), (0o660, 0o770), (0o640, 0o750), (0o666, 0o777)] {
        let place = Place::new(&format!("mode-{file:o}"));
        let env = place.builder().file_mode(file).open(place.base.join("env")).expect("created");
        put(&env, "v");
        expect(&place, file, directory);
        env.close().expect("closed");
        // Whoever comes later need not say it again; what the volume has is what counts.
        let env = place.builder().file_mode(0o600).open(place.base.join("env")).expect("opened");
        put(&env, "w");
        expect(&place, file, directory);
    }
    let place = Place::new("mode-mask");
    let env = place.open().expect("created");
    put(&env, "v");
    let left_by_mask = fs::File::create(place.base.join("file"))
        .and_then(|file| file.metadata())
        .expect("made")
        .permissions()
        .mode()
        & 0o777;
    assert!(
        modes(&place).iter().filter(|(name, _)| name != "log").all(|(_, mode)| *mode == left_by_mask),
        "{:?}",
        modes(&place)
    );
    for nonsense in [0o777, 0o060, 0o1666] {
        assert_eq!(
            place.builder().file_mode(nonsense).open(place.base.join("env")).expect_err("nonsense").kind(),
            ErrorKind::Invalid
        );
    }
}

const VISITED: &str = "SABLECAT_TEST_VISITED";

#[test]
#[ignore = "what the process of the next test does"]
fn visitor() {
    let Some(base) = std::env::var_os(VISITED) else { return };
    let place = std::mem::ManuallyDrop::new(Place { base: base.into() });
    let seen = place.open().and_then(|env| {
        let seen = env.database("d")?.get("k")?;
        env.database("d")?.insert("k", "a visitor's")?;
        env.close().map(|()| seen)
    });
    println!("seen: {:?}", seen.map_err(|error| error.kind()));
}

#[test]
fn another_user_may_do_what_the_permission_bits_say() {
    const NOBODY: u32 = 65534;
    let place = Place::new("user");
    // A copy that anybody can start, wherever this program is.
    let program = place.base.join("visitor");
    copy_program(&program);
    let visit = || {
        let mut command = Command::new(&program);
        command
            .args(["--exact", test_name(visitor), "--ignored", "--nocapture"])
            .env(VISITED, &place.base)
            .uid(NOBODY)
            .gid(NOBODY);
        command.output().map(|out| String::from_utf8_lossy(&out.stdout).into_owned())
    };
    for directory in ["env", "region"] {
        fs::set_permissions(place.base.join(directory), fs::Permissions::from_mode(0o777))
            .expect("opened to all");
    }
    let private = place.builder().file_mode(0o600).open(place.base.join("env")).expect("created");
    put(&private, "mine");
    let Ok(said) = visit() else {
        eprintln!("not tested: being another user takes privileges");
        return;
    };
    assert!(said.contains("seen: Err(Io)"), "{said}");
    assert_eq!(get(&private).as_deref(), Some(&b"mine"[..]));
    private.close().expect("closed");

    fs::remove_dir_all(place.base.join("env")).expect("removed");
    fs::create_dir(place.base.join("env")).expect("made");
    fs::set_permissions(place.base.join("env"), fs::Permissions::from_mode(0o777)).expect("opened to all");
    let open_to_all = place.builder().file_mode(0o666).open(place.base.join("env")).expect("created");
    put(&open_to_all, "ours");
    let said = visit().expect("as before");
    assert!(said.contains("seen: Ok(Some("), "{said}");
    assert_eq!(get(&open_to_all).as_deref(), Some(&b"a visitor's"[..]));
}

#[test]
#[ignore = "what the process of the next test does, until it is killed"]
fn is_stopped_while_it_enters() {
    let Some(base) = std::env::var_os(VISITED) else { return };
    let place = std::mem::ManuallyDrop::new(Place { base: base.into() });
    let _env = place.open().expect("attached");
    // Byte 0 is the entrance.
    let entrance = LockFile::open(&place.base.join("env/sablecat.lock"), None).expect("opened");
    assert!(entrance.try_lock(0).expect("asked"));
    println!("\nentering");
    loop {
        std::thread::park();
    }
}

#[test]
#[ignore = "what another user does in the next test"]
fn looker() {
    let Some(base) = std::env::var_os(VISITED) else { return };
    let place = std::mem::ManuallyDrop::new(Place { base: base.into() });
    println!("attached: {:?}", place.open().map(drop).map_err(|error| error.kind()));
    let seen = place.builder().activity(place.base.join("env")).expect("looked");
    println!("{} processes, {} locks", seen.processes.len(), seen.locks.len());
}

/// A copy of this program that anybody can start, about to do what an ignored test does.
fn program(place: &Place, test: &str) -> Command {
    let program = place.base.join(test);
    copy_program(&program);
    let mut command = Command::new(program);
    command.args(["--exact", test, "--ignored", "--nocapture"]).env(VISITED, &place.base);
    command
}

/// A process that does not outlive this.
struct Mortal(std::process::Child);

impl Mortal {
    fn kill(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).expect("killed");
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The pages of a region that are not zero, with their places.
fn bytes(region: &Path) -> Vec<(u64, Vec<u8>)> {
    const PAGE: usize = 4096;
    let file = fs::File::open(region).expect("there");
    let mut found = Vec::new();
    for extent in sparse::extents(&file).expect("asked") {
        let mut bytes = vec![0; (extent.end - extent.start) as usize];
        file.read_exact_at(&mut bytes, extent.start).expect("read");
        let pages = bytes.chunks(PAGE).enumerate().filter(|(_, page)| page.iter().any(|&byte| byte != 0));
        found.extend(pages.map(|(n, page)| (extent.start + (n * PAGE) as u64, page.to_vec())));
    }
    found
}

#[test]
fn a_look_from_outside_waits_for_nobody_and_changes_nothing() {
    let place = Place::new("look");
    let directory = place.base.join("env");
    let look = || place.builder().activity(&directory);
    assert_eq!(look().expect_err("there is nothing").kind(), ErrorKind::NotFound);
    let env = place.builder().file_mode(0o644).open(&directory).expect("created");
    put(&env, "v");
    let d = env.database("d").expect("there");
    let mut txn = env.begin().expect("begun");
    txn.get_for_update(&d, "k").expect("locked");

    let stopped = program(&place, test_name(is_stopped_while_it_enters))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("started");
    let (stopped_id, mut stopped) = (stopped.id(), Mortal(stopped));
    let said = std::io::BufReader::new(stopped.0.stdout.take().expect("piped"));
    assert!(std::io::BufRead::lines(said).any(|line| line.is_ok_and(|line| line == "entering")));
    let signal =
        |name: &str| Command::new("kill").args([name, &stopped_id.to_string()]).status().expect("sent");
    assert!(signal("-STOP").success());

    let before = bytes(&place.region());
    let seen = look().expect("looked");
    let mut pids: Vec<_> =
        seen.processes.iter().map(|process| (process.pid, process.alive, process.asking)).collect();
    pids.sort_unstable();
    let mut expected = [(std::process::id(), true, false), (stopped_id, true, false)];
    expected.sort_unstable();
    assert_eq!(pids, expected);
    assert_eq!(seen.locks, env.locks());
    assert_eq!(seen.locks.len(), 1);
    match program(&place, test_name(looker)).uid(65534).gid(65534).output() {
        Err(_) => eprintln!("not tested: being another user takes privileges"),
        Ok(out) => {
            let said = String::from_utf8_lossy(&out.stdout);
            assert!(
                said.contains("attached: Err(ReadOnly)") && said.contains("2 processes, 1 locks"),
                "{said}"
            );
        }
    }
    assert!(bytes(&place.region()) == before, "the region was changed");

    stopped.kill();
    let dead = look()
        .expect("looked")
        .processes
        .into_iter()
        .find(|process| process.pid == stopped_id)
        .expect("not reaped");
    assert!(!dead.alive);
    drop(txn);
    drop(d);
    env.close().expect("closed");
    assert_eq!(look().expect("looked").processes, []);

    let alone = Env::builder().open(&directory).expect("opened");
    assert_eq!(look().expect_err("one has it for himself").kind(), ErrorKind::InUse);
    drop(alone);
}

/// Whatever stands in the words that are looked at, a look ends, within bounds.
#[test]
fn a_look_believes_nothing_that_stands_in_the_region() {
    let place = Place::new("look-damaged");
    let env = flushed_then_not(&place);
    let d = env.database("d").expect("there");
    let mut txn = env.begin().expect("begun");
    txn.get_for_update(&d, "k").expect("locked");
    let left = place.killed("look-damaged-left");
    let file = fs::File::options().read(true).write(true).open(left.region()).expect("there");
    let mut looked = 0;
    // What is not zero of the header, the members, the slots and the lock table: the first words, and some of
    // the rest.
    let pages = bytes(&left.region()).into_iter().take_while(|(start, _)| *start < 1 << 22);
    let words: Vec<(u64, [u8; 8])> = pages
        .flat_map(|(start, page)| (start..).step_by(8).zip(page.as_chunks().0.to_vec()).collect::<Vec<_>>())
        .filter(|(_, word)| *word != [0; 8])
        .collect();
    let (first, rest) = words.split_at(100);
    for (at, word) in first.iter().chain(rest.iter().step_by(1 + rest.len() / 200)) {
        for value in [[0xff; 8], [0xff, 0xff, 0, 0, 0, 0, 0, 0]] {
            file.write_all_at(&value, *at).expect("written");
            looked += u32::from(left.builder().activity(left.base.join("env")).is_ok());
        }
        file.write_all_at(word, *at).expect("written");
    }
    // The words of locks are few, and their owners are what leads elsewhere.
    let record = env.locks()[0].record.to_le_bytes();
    let of_locks: Vec<_> = words
        .iter()
        .filter(|(_, word)| u64::from_le_bytes(*word) >> 20 == u64::from_le_bytes(record))
        .collect();
    assert!(!of_locks.is_empty());
    for (at, word) in of_locks {
        let owner = u64::from_le_bytes(*word) | 0xffff;
        file.write_all_at(&owner.to_le_bytes(), *at).expect("written");
        let seen = left.builder().activity(left.base.join("env")).expect("it may be a lock");
        assert!(seen.locks.iter().any(|lock| (lock.slot, lock.pid) == (u16::MAX, 0)));
        file.write_all_at(word, *at).expect("written");
    }
    assert!(looked > 100, "{looked}");
}

/// A small file system in memory where the region of an environment is to lie.
struct Mounted {
    at: PathBuf,
}

impl Mounted {
    /// None where that is not permitted.
    fn new(place: &Place, size: &str) -> Option<Mounted> {
        let at = place.base.join("region");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"])
            .arg(&at)
            .output();
        if mounted.is_ok_and(|out| out.status.success()) {
            return Some(Mounted { at });
        }
        eprintln!("not tested: mounting takes privileges");
        None
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // What another test starts at this moment has files of this process, some from here, until it
        // executes: then it is tried again.
        let is_unmounted = (0..TRIES).any(|n| {
            std::thread::sleep(Duration::from_millis(n));
            let unmounted = Command::new("umount").arg(&self.at).status();
            unmounted.is_ok_and(|status| status.success())
        });
        assert!(std::thread::panicking() || is_unmounted);
    }
}

#[test]
fn a_region_that_cannot_be_had_is_full_and_leaves_nothing() {
    let place = Place::new("tiny");
    let Some(_mounted) = Mounted::new(&place, "128k") else { return };
    let error = place.open().expect_err("there is no room");
    assert_eq!(error.kind(), ErrorKind::MemoryFull);
    assert!(error.to_string().contains(&place.region().display().to_string()), "which file system? {error}");
    assert_eq!(place.regions(), Vec::<PathBuf>::new());
}

#[test]
#[ignore = "what the process of the next test does"]
fn works_while_memory_runs_out() {
    let Some(base) = std::env::var_os(VISITED) else { return };
    let place = std::mem::ManuallyDrop::new(Place { base: base.into() });
    let env = place.open().expect("opened");
    put(&env, "v");
    let ballast = place.base.join("region/ballast");
    let mut file = fs::File::create(&ballast).expect("made");
    let full =
        (0..).find_map(|_| std::io::Write::write_all(&mut file, &[7; 4096]).err()).expect("it has a bound");
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    let d = env.database("d").expect("opened");
    let refused = (0..100_000u32).find_map(|n| d.insert(n.to_be_bytes(), [7; 1000]).err());
    assert!(refused.as_ref().is_none_or(sablecat::Error::is_full), "{refused:?}");
    if let Err(error) = env.checkpoint() {
        assert!(error.is_full(), "{error}");
    }
    drop(file);
    fs::remove_file(&ballast).expect("removed");
    d.insert("k", "w").expect("there is room again");
    assert_eq!(get(&env).as_deref(), Some(&b"w"[..]));
    drop(d);
    env.close().expect("closed");
    println!("all done");
}

#[test]
fn a_region_directory_that_others_fill_up_kills_nobody() {
    let place = Place::new("filled");
    let Some(_mounted) = Mounted::new(&place, "16m") else { return };
    let out = program(&place, test_name(works_while_memory_runs_out)).output().expect("started");
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(said.contains("all done"), "{:?}: {said} {}", out.status, String::from_utf8_lossy(&out.stderr));
}

/// The cache grows as long as there is memory, and the tables with the files.
#[test]
fn a_cache_that_fills_the_region_directory_leaves_room_for_more_pages() {
    let place = Place::new("tables");
    let Some(_mounted) = Mounted::new(&place, "24m") else { return };
    let env =
        place.builder().page_size(512).cache_size(64 << 20).open(place.base.join("env")).expect("opened");
    let d = env.database("d").expect("opened");
    let wanted = 80_000u32;
    for n in 0..wanted {
        d.insert(n.to_be_bytes(), [7; 300]).unwrap_or_else(|error| panic!("{n}: {error}"));
        if n % 10_000 == 0 {
            env.checkpoint().expect("written");
        }
    }
    assert_eq!(d.len().expect("counted"), u64::from(wanted));
    drop(d);
    env.close().expect("closed");
}

#[test]
fn a_region_directory_that_fills_up_makes_for_a_smaller_cache() {
    let place = Place::new("small");
    let Some(_mounted) = Mounted::new(&place, "12m") else { return };
    let worked = place.builder().cache_size(64 << 20).open(place.base.join("env")).and_then(|env| {
        let d = env.database("d")?;
        (0..8000u32).try_for_each(|n| d.insert(n.to_be_bytes(), [7; 2000]).map(drop))?;
        let all = env.snapshot()?.range(&d, ..)?.try_fold(0, |n, record| record.map(|_| n + 1))?;
        drop(d);
        env.close().map(|()| all)
    });
    match worked {
        Ok(all) => assert_eq!(all, 8000),
        Err(error) => assert!(error.is_full(), "{error}"),
    }
}

#[test]
fn a_forked_child_must_open_the_environment_again_and_harms_nobody() {
    let place = Place::new("fork");
    let env = place.open().expect("created");
    put(&env, "parent's");
    let (mut inherited, builder, directory) = (Some(env.clone()), place.builder(), place.base.join("env"));
    let in_child = move || {
        let inherited = inherited.take().expect("asked once");
        let refused = inherited.database("d").and_then(|d| d.get("k")).expect_err("the parent's handle");
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        drop(inherited);
        let own =
            builder.clone().open(&directory).map_err(|error| std::io::Error::other(error.to_string()))?;
        assert_eq!(get(&own).as_deref(), Some(&b"parent's"[..]));
        put(&own, "child's");
        drop(own);
        Ok(())
    };
    let mut command = Command::new("true");
    // SAFETY: of the other threads, none holds a lock that the closure takes but the allocator's, which the C
    // library sees to at fork.
    unsafe { command.pre_exec(in_child) };
    // A closure that panics or fails makes this an error.
    assert!(command.status().expect("the child did it all").success());
    assert_eq!(get(&env).as_deref(), Some(&b"child's"[..]));
    put(&env, "parent's again");
    assert_eq!(env.processes().len(), 1);
    drop(command);
    env.close().expect("closed");
    assert_eq!(get(&place.open().expect("opened")).as_deref(), Some(&b"parent's again"[..]));
}

/// The child has copies of what its parent has begun, which it uses and drops.
#[test]
fn what_was_begun_before_a_fork_is_refused_in_the_child_and_stays_the_parents() {
    for is_shared in [true, false] {
        let place = Place::new("begun");
        let env = place.builder().shared(is_shared).open(place.env()).expect("created");
        let db = env.database("d").expect("created");
        db.insert("k", "before").expect("set");
        let options = TxnOptions::new().isolation(Isolation::Snapshot);
        let mut txn = env.begin_with(options).expect("begun");
        assert_eq!(txn.get_for_update(&db, "k").expect("locked").as_deref(), Some(&b"before"[..]));
        txn.insert(&db, "parent's", "").expect("set");
        let snapshot = env.snapshot().expect("begun");
        let mut locker = env.locker().expect("made");
        locker.lock(["a"]).expect("free");
        let numbers = db.sequence("numbers", SequenceOptions::new().cache(10)).expect("made");
        let first = numbers.next().expect("taken");

        let begun = [
            std::ptr::from_ref(&txn) as usize,
            std::ptr::from_ref(&snapshot) as usize,
            std::ptr::from_ref(&locker) as usize,
            std::ptr::from_ref(&numbers) as usize,
        ];
        let of_child = db.clone();
        let in_child = move || {
            // SAFETY: these are the child's copies, which nobody else in it uses.
            let (mut txn, snapshot, mut locker, numbers) = unsafe {
                (
                    std::ptr::read(begun[0] as *const sablecat::Txn<'static>),
                    std::ptr::read(begun[1] as *const sablecat::ReadTxn),
                    std::ptr::read(begun[2] as *const sablecat::Locker),
                    std::ptr::read(begun[3] as *const sablecat::Sequence),
                )
            };
            let is_refused = |error: sablecat::Error| assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            is_refused(txn.get(&of_child, "k").expect_err("the parent's transaction"));
            is_refused(txn.get_for_update(&of_child, "other").expect_err("the parent's transaction"));
            is_refused(snapshot.get(&of_child, "k").expect_err("the parent's snapshot"));
            is_refused(locker.lock(["b"]).expect_err("the parent's locks"));
            is_refused(numbers.next().expect_err("the parent's numbers"));
            locker.unlock(["a"]);
            is_refused(txn.commit().expect_err("the parent's transaction"));
            drop((snapshot, locker, numbers));
            Ok(())
        };
        let mut command = Command::new("true");
        // SAFETY: as above.
        unsafe { command.pre_exec(in_child) };
        assert!(command.status().expect("the child did it all").success());

        let mut other = env.locker().expect("made");
        assert!(!other.lock_within(["a"], Duration::ZERO).expect("tried"), "it is the parent's still");
        let mut second = env.begin_with(options).expect("begun");
        assert!(!second.try_lock(&db, "k").expect("tried"), "it is the parent's still");
        second.abort();
        for n in 0..4000u32 {
            db.insert(n.to_be_bytes(), [7; 300]).expect("set");
        }
        env.checkpoint().expect("made");
        assert_eq!(snapshot.get(&db, "k").expect("its state is kept").as_deref(), Some(&b"before"[..]));
        assert_eq!(snapshot.get(&db, 1u32.to_be_bytes()).expect("read"), None);
        assert_eq!(numbers.next().expect("taken"), first + 1);
        txn.commit().expect("it had the record locked");
        assert!(db.contains_key("parent's").expect("read"));
        drop((command, snapshot, locker, other, numbers, db));
        env.close().expect("closed");
    }
}

/// The file that a part of a transaction is in is the parent's as well: what the child sets goes nowhere.
#[test]
fn what_a_child_does_with_a_large_transaction_of_its_parents_does_not_harm_that() {
    for is_shared in [true, false] {
        let place = Place::new("spilled-fork");
        let env = place.builder().shared(is_shared).open(place.env()).expect("created");
        let db = env.database("d").expect("created");
        let value = |n: u32| [n as u8; 400];
        let mut txn = env.begin().expect("begun");
        (0..1000u32).for_each(|n| txn.insert(&db, n.to_be_bytes(), value(n)).expect("set"));
        let (mut born, birth) = std::io::pipe().expect("made");
        let (end, ending) = std::io::pipe().expect("made");
        let (begun, of_child) = (std::ptr::from_ref(&txn) as usize, db.clone());
        let in_child = move || {
            std::io::Write::write_all(&mut &birth, &[1])?;
            std::io::Read::read(&mut &end, &mut [0])?;
            // SAFETY: this is the child's copy, which nobody else in it uses.
            let mut txn = unsafe { std::ptr::read(begun as *const sablecat::Txn<'static>) };
            let is_refused = |error: sablecat::Error| error.kind() == ErrorKind::Invalid;
            let set = |n: u32| txn.insert(&of_child, n.to_be_bytes(), [0xcc; 400]);
            let refused = (1000..3000).map(set).filter(|set| set.is_err()).count();
            let is_read_refused = txn.get(&of_child, 7u32.to_be_bytes()).is_err_and(is_refused);
            drop(txn);
            match (refused, is_read_refused) {
                (2000, true) => Ok(()),
                // Of an error that is none of the system's the parent is told nothing.
                _ => Err(std::io::Error::from_raw_os_error(if refused < 2000 { 1 } else { 2 })),
            }
        };
        let mut command = Command::new("true");
        // SAFETY: as above.
        unsafe { command.pre_exec(in_child) };
        let child = std::thread::spawn(move || command.status());
        std::io::Read::read_exact(&mut born, &mut [0]).expect("it lives");
        (1000..2000u32).for_each(|n| txn.insert(&db, n.to_be_bytes(), value(n)).expect("set"));
        std::io::Write::write_all(&mut &ending, &[1]).expect("let go on");
        let child = child.join().expect("waited for");
        for n in 0..2000u32 {
            let found = txn.get(&db, n.to_be_bytes()).expect("it is the parent's");
            assert_eq!(found.as_deref(), Some(&value(n)[..]), "{n}");
        }
        txn.commit().expect("the parent's");
        assert_eq!(db.len().expect("read"), 2000);
        assert!(child.expect("refused in the child").success());
        drop(db);
        env.close().expect("closed");
    }
}

/// A child lives on between fork and the program that it is to become; its parent closes the environment that
/// it had for itself.
#[test]
fn an_environment_does_not_stay_locked_because_a_child_of_its_process_lives() {
    let place = Place::new("child");
    let env = place.open_alone().expect("created");
    put(&env, "parent's");
    let (mut born, birth) = std::io::pipe().expect("made");
    let (end, ending) = std::io::pipe().expect("made");
    let mut command = Command::new("true");
    let in_child = move || {
        std::io::Write::write_all(&mut &birth, &[1])?;
        std::io::Read::read(&mut &end, &mut [0]).map(drop)
    };
    // SAFETY: nothing but system calls.
    unsafe { command.pre_exec(in_child) };
    let child = std::thread::spawn(move || command.status());
    std::io::Read::read_exact(&mut born, &mut [0]).expect("it lives");
    env.close().expect("closed");
    let again = place.open_alone();
    std::io::Write::write_all(&mut &ending, &[1]).expect("let go on");
    assert!(child.join().expect("waited for").expect("started").success());
    assert_eq!(get(&again.expect("nobody has it open")).as_deref(), Some(&b"parent's"[..]));
}

#[test]
fn two_hundred_attachments_at_once() {
    let place = Place::new("many");
    let all: Vec<_> = (0..200).map(|_| place.open().expect("attached")).collect();
    for (n, env) in all.iter().enumerate() {
        put(env, &n.to_string());
    }
    assert_eq!(all[0].processes().len(), 200);
    assert!(all.iter().all(|env| get(env).as_deref() == Some(&b"199"[..])));
    drop(all);
    assert_eq!(place.regions(), Vec::<PathBuf>::new());
}
