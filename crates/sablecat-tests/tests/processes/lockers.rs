//! Locks by name: which paths keep others off, across owners, threads and processes.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use proptest::prelude::*;
use sablecat::globals::Globals;
use sablecat::{Env, ErrorKind, Locker};
use sablecat_tests::Place;
use sablecat_tests::worker::test_name;

const NOW: Duration = Duration::ZERO;
/// Longer than any wait that ends by itself.
const PATIENCE: Duration = Duration::from_secs(600);

fn a_path() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0u8..3, 1..4)
}

fn names(path: &[u8]) -> Vec<[u8; 1]> {
    path.iter().map(|name| [*name]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Two paths are in each other's way if one is the beginning of the other.
    #[test]
    fn a_path_keeps_others_off_from_all_under_it_and_above_it(
        as_nodes in any::<bool>(),
        steps in prop::collection::vec((0usize..3, 0u8..5, a_path()), 1..100),
    ) {
        let env = Env::in_memory().expect("created");
        let globals = Globals::open(&env, "globals").expect("created");
        let node = |path: &[u8]| {
            path.iter().fold(globals.global("a").expect("named"), |node, name| node.at(i64::from(*name)))
        };
        let mut lockers: Vec<Locker> = (0..3).map(|_| env.locker().expect("made")).collect();
        let mut held: Vec<Vec<Vec<u8>>> = vec![Vec::new(); 3];
        for (who, what, path) in &steps {
            let locker = &mut lockers[*who];
            match what {
                0..=2 => {
                    let others = held
                        .iter()
                        .enumerate()
                        .filter(|(other, _)| other != who)
                        .flat_map(|(_, paths)| paths);
                    let is_free =
                        others.clone().all(|other| !other.starts_with(path) && !path.starts_with(other));
                    let is_had = match as_nodes {
                        true => node(path).lock_within(locker, NOW),
                        false => locker.lock_within(names(path), NOW),
                    };
                    prop_assert_eq!(is_had.expect("tried"), is_free, "{} {:?} {:?}", who, path, &held);
                    if is_free {
                        held[*who].push(path.clone());
                    }
                }
                3 => {
                    let place = held[*who].iter().position(|other| other == path);
                    let is_unlocked =
                        if as_nodes { node(path).unlock(locker) } else { locker.unlock(names(path)) };
                    prop_assert_eq!(is_unlocked, place.is_some());
                    place.into_iter().for_each(|place| _ = held[*who].remove(place));
                }
                _ if path.len() == 3 => {
                    locker.unlock_all();
                    held[*who].clear();
                }
                _ => {}
            }
            if !as_nodes {
                let count = held[*who].iter().filter(|other| *other == path).count();
                prop_assert_eq!(lockers[*who].count(names(path)) as usize, count);
            }
        }
        drop(lockers);
        let mut last = env.locker().expect("made");
        prop_assert!(
            (0..3).all(|name| last.lock_within([[name]], NOW).expect("tried")),
            "all ended with their owners"
        );
        prop_assert!(globals.global("a").expect("named").lock_within(&mut last, NOW).expect("tried"));
    }
}

#[test]
fn who_waits_has_it_when_it_is_unlocked_or_weakened() {
    let env = Env::in_memory().expect("created");
    for is_weakened in [false, true] {
        let mut holder = env.locker().expect("made");
        holder.lock(["a"]).expect("free");
        if is_weakened {
            holder.lock(["a", "b"]).expect("its own");
        }
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let mut waiter = env.locker().expect("made");
                waiter.lock_within(["a", "c"], PATIENCE)
            });
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiter.is_finished());
            assert!(holder.unlock(["a"]));
            assert!(waiter.join().expect("no panic").expect("waited"));
        });
    }
}

#[test]
fn two_who_wait_for_each_other_are_told_and_one_goes_on() {
    let env = Env::in_memory().expect("created");
    let both = std::sync::Barrier::new(2);
    let ends: Vec<_> = std::thread::scope(|scope| {
        let wait = |first: &'static str, second: &'static str| {
            let (env, both) = (&env, &both);
            scope.spawn(move || {
                let mut locker = env.locker().expect("made");
                locker.lock([first]).expect("free");
                both.wait();
                locker.lock_within([second], PATIENCE).map_err(|error| error.kind())
            })
        };
        [wait("a", "b"), wait("b", "a")].map(|thread| thread.join().expect("no panic")).into()
    });
    assert!(ends.contains(&Ok(true)) && ends.contains(&Err(ErrorKind::Deadlock)), "{ends:?}");
}

#[test]
fn after_a_lock_that_was_not_to_be_had_there_is_what_there_was_before() {
    let env = Env::builder().lock_timeout(Duration::from_millis(1)).in_memory().expect("created");
    let (mut one, mut other) = (env.locker().expect("made"), env.locker().expect("made"));
    one.lock(["a", "b", "c"]).expect("free");
    assert_eq!(other.lock(["a", "b"]).expect_err("in the way").kind(), ErrorKind::Timeout);
    assert_eq!((other.count(["a", "b"]), other.unlock(["a", "b"])), (0, false));
    assert_eq!(one.lock(Vec::<&str>::new()).expect_err("no names").kind(), ErrorKind::Invalid);
    // Nothing of it was kept: what it would have been under is free.
    one.unlock_all();
    assert!(one.lock_within(["a"], NOW).expect("tried"));
    // To make it stronger was in vain, and it still has the weaker one.
    one.unlock_all();
    one.lock(["a", "b"]).expect("free");
    other.lock(["a", "c"]).expect("free");
    assert_eq!(one.lock(["a"]).expect_err("in the way").kind(), ErrorKind::Timeout);
    other.unlock_all();
    assert!(!other.lock_within(["a"], NOW).expect("tried"));
    assert!(other.lock_within(["a", "c"], NOW).expect("tried"));
}

#[test]
fn transactions_and_locks_by_name_do_not_see_each_other() {
    let env = Env::in_memory().expect("created");
    let globals = Globals::open(&env, "globals").expect("created");
    let node = globals.global("a").expect("named").at(1);
    let mut locker = env.locker().expect("made");
    node.lock(&mut locker).expect("free");
    env.write(|txn| {
        txn.get_for_update(globals.database(), node.key())?;
        node.set(txn, "set")
    })
    .expect("nobody is in its way");
    let far = Env::in_memory().expect("created");
    let error = node.lock(&mut far.locker().expect("made")).expect_err("of another environment");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

const DIRECTORY: &str = "SABLECAT_LOCKERS_DIRECTORY";

fn open(path: &Path) -> Env {
    let region = path.parent().expect("a part").join("region");
    Env::builder().shared(true).background(false).region_directory(region).open(path).expect("opened")
}

#[test]
#[ignore = "started by the test below"]
fn holder() {
    let Some(path) = std::env::var_os(DIRECTORY) else { return };
    let env = open(Path::new(&path));
    let mut locker = env.locker().expect("made");
    locker.lock(["a", "b"]).expect("free");
    env.database("held").expect("created").insert("all", "").expect("said");
    std::thread::sleep(PATIENCE);
}

struct Holder(Child);

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        self.0.wait().expect("waited for");
    }
}

#[test]
fn locks_end_with_the_process_that_is_killed() {
    let place = Place::new("lockers");
    let path = place.env();
    let env = open(&path);
    let held = env.database("held").expect("created");
    let mut command = Command::new(std::env::current_exe().expect("this"));
    command
        .args(["--exact", test_name(holder), "--ignored", "--nocapture"])
        .env(DIRECTORY, &path)
        .stdout(Stdio::null());
    let mut child = Holder(command.spawn().expect("started"));
    env.write_when_within(PATIENCE, |txn| txn.get(&held, "all")).expect("read").expect("it has it");
    let mut locker = env.locker().expect("made");
    assert!(locker.lock_within(["a", "c"], NOW).expect("tried"));
    assert!(!locker.lock_within(["a", "b", "c"], NOW).expect("tried"));
    child.0.kill().expect("killed");
    assert!(locker.lock_within(["a", "b"], PATIENCE).expect("waited"));
    drop((locker, held));
    env.close().expect("closed");
}

/// Locks paths one after the other, and makes a file of each while it has it, until it is killed.
#[test]
#[ignore = "started by the test below"]
fn owner() {
    let Some(path) = std::env::var_os(DIRECTORY) else { return };
    let env = open(Path::new(&path));
    let files = Path::new(&path).parent().expect("a part").join("held");
    let mut locker = env.locker().expect("made");
    let mut seed = u64::from(std::process::id());
    let mut dice = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    loop {
        let path: Vec<String> = (0..1 + dice(3)).map(|_| dice(3).to_string()).collect();
        let locked = match dice(3) {
            0 => locker.lock_within(&path, NOW).expect("tried"),
            _ => match locker.lock(&path) {
                Ok(()) => true,
                // Nothing else is locked.
                Err(error) => panic!("{error}"),
            },
        };
        if !locked {
            continue;
        }
        let file = files.join(path.join("-"));
        // Left by who was killed, or there while another has it, whom this would meet.
        let meets = |other: &str| {
            let (one, other): (Vec<&str>, Vec<&str>) =
                (path.iter().map(|name| &name[..]).collect(), other.split('-').collect());
            one.starts_with(&other) || other.starts_with(&one)
        };
        for there in std::fs::read_dir(&files).expect("there") {
            let there = there.expect("read");
            if !meets(&there.file_name().to_string_lossy()) {
                continue;
            }
            let Ok(pid) = std::fs::read_to_string(there.path()) else { continue };
            let stands = std::fs::read_to_string(format!("/proc/{pid}/stat"))
                .is_ok_and(|stat| !stat.contains(") Z ") && !stat.contains(") X "));
            assert!(pid.is_empty() || !stands, "{pid} has {:?} beside {path:?}", there.file_name());
            let _ = std::fs::remove_file(there.path());
        }
        let new = files.join(format!(".{}", std::process::id()));
        std::fs::write(&new, std::process::id().to_string()).expect("written");
        std::fs::rename(&new, &file).expect("named");
        if dice(50) == 0 {
            std::thread::yield_now();
        }
        std::fs::remove_file(&file).expect("it is there still");
        assert!(locker.unlock(&path));
        if dice(1000) == 0 {
            println!("again");
        }
    }
}

#[test]
fn locks_exclude_beside_processes_that_are_killed() {
    let place = Place::new("excluding");
    let path = place.env();
    std::fs::create_dir_all(place.base.join("held")).expect("made");
    let env = open(&path);
    let start = || {
        let mut command = Command::new(std::env::current_exe().expect("this"));
        command.args(["--exact", test_name(owner), "--ignored", "--nocapture"]).env(DIRECTORY, &path);
        Holder(command.stdout(Stdio::piped()).spawn().expect("started"))
    };
    let mut owners: Vec<_> = (0..4).map(|_| start()).collect();
    for n in 0..40 {
        let owner = &mut owners[n % 4];
        // It works: it says so, or ends.
        let mut lines = BufReader::new(owner.0.stdout.take().expect("piped")).lines();
        let line = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("again")));
        assert!(line.is_some(), "{:?}", owner.0.wait());
        *owner = start();
    }
    drop(owners);
    env.close().expect("closed");
}
