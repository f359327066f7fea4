//! Files that are cut short while they are in use: that of the shared memory, and the newest segment of the
//! log. Nobody is killed by it, everybody is told, and nothing that was said to be kept is lost.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sablecat::{Database, Durability, Env, Error, ErrorKind, TxnOptions};

use sablecat_os::check::sparse;

use sablecat_tests::Place;
use sablecat_tests::dice::Dice;
use sablecat_tests::worker::{DIRECTORY, Worker, test_name};

const PROCESSES: u64 = 2;
const THREADS: u64 = 2;
/// Each thread's keys begin with its number.
const KEYS: u64 = 400;

fn builder(place: &Place) -> sablecat::Builder {
    place.builder().background(true).log_segment_size(1 << 20).durability(Durability::WriteNoSync)
}

fn key(thread: u64, n: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&thread.to_be_bytes());
    key[8..].copy_from_slice(&n.to_be_bytes());
    key
}

/// A value that says which round of its thread has set it.
fn value(round: u64) -> Vec<u8> {
    let mut value = round.to_le_bytes().to_vec();
    value.resize(8 + (round % 7 * 100) as usize, round as u8);
    value
}

fn round_of(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().expect("eight"))
}

/// One of the errors that say what has happened, or that another has said so.
fn assert_told(error: &Error) {
    let text = error.to_string();
    let told = ["made shorter", "cut short", "earlier write or flush", "could not be written"];
    assert!(error.kind() == ErrorKind::Poisoned && told.iter().any(|told| text.contains(told)), "{error:?}");
}

/// Ends the process if an answer is wrong: no panic, which may be excused.
fn is_right(is_right: bool, why: impl FnOnce() -> String) {
    if !is_right {
        eprintln!("{}", why());
        std::process::exit(1);
    }
}

/// Sets keys, one after another, in all ways, and looks at them, until something goes wrong, and says which
/// round was the last that is known to be kept.
fn work(
    env: &Env,
    records: &Database,
    thread: u64,
    kept: &AtomicU64,
    is_over: &AtomicBool,
) -> Result<(), Error> {
    let mut dice = Dice(thread);
    for round in 1.. {
        let set = |n: u64| (key(thread, n), value(round));
        let n = round % KEYS;
        let done = match dice.below(4) {
            0 => {
                let (key, value) = set(n);
                env.write_with(TxnOptions::new().durability(Durability::Sync), |txn| {
                    txn.insert(records, key, &value)
                })
            }
            1 => env.write(|txn| {
                let (key, value) = set(n);
                txn.get(records, key)?;
                txn.insert(records, key, &value)
            }),
            _ => {
                let (key, value) = set(n);
                records.insert(key, &value)
            }
        };
        done?;
        kept.store(round, Ordering::Relaxed);
        let seen = |n| records.get(key(thread, n)).map(|found| found.map(|value| round_of(&value)));
        let found = seen(n)?;
        is_right(found == Some(round), || format!("round {round} of {n}: {found:?}"));
        let far = dice.below(KEYS);
        // The last round that has set it.
        let last = round.saturating_sub((round + KEYS - far) % KEYS);
        let found = seen(far)?;
        is_right(last == 0 || found == Some(last), || {
            format!("{far} in round {round}: {found:?}, not {last}")
        });
        if is_over.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
    unreachable!("it goes on until it is over")
}

/// Works until the memory is cut short, or the test says that it is enough; then says up to where what it did
/// is kept.
#[test]
#[ignore = "what the processes of the other tests do"]
fn worker() {
    let Ok(base) = std::env::var(DIRECTORY) else { return };
    let (base, number) = base.rsplit_once(':').expect("a place and a number");
    let place = std::mem::ManuallyDrop::new(Place { base: base.into() });
    let number: u64 = number.parse().expect("a number");
    let env = builder(&place).open(place.env()).expect("opened");
    let records = env.database("records").expect("opened");
    let is_over = AtomicBool::new(false);
    println!("\nworks");
    let kept = [const { AtomicU64::new(0) }; THREADS as usize];
    std::thread::scope(|scope| {
        let threads: Vec<_> = (number * THREADS..)
            .zip(&kept)
            .map(|(thread, kept)| {
                let (env, records, is_over) = (&env, &records, &is_over);
                scope.spawn(move || work(env, records, thread, kept, is_over))
            })
            .collect();
        std::io::stdin().lock().read_line(&mut String::new()).expect("told");
        is_over.store(true, Ordering::Relaxed);
        for thread in threads {
            match thread.join() {
                Ok(ended) => ended.err().iter().for_each(assert_told),
                // What is asserted of memory does not hold while it goes away. Without assertions such zeros
                // are read like any.
                Err(panic) if cfg!(debug_assertions) => {
                    let error = records.get("any").err().unwrap_or_else(|| std::panic::resume_unwind(panic));
                    assert_told(&error);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    for (thread, kept) in (number * THREADS..).zip(kept) {
        println!("\nkept {thread} {}", kept.into_inner());
    }
    drop(records);
    if let Err(error) = env.close() {
        assert_told(&error);
    }
    println!("\nclosed");
}

struct Process {
    worker: Worker,
    says: BufReader<ChildStdout>,
}

impl Process {
    fn start(place: &Place, number: u64) -> Process {
        let mut command = Command::new(std::env::current_exe().expect("a program"));
        command
            .args(["--exact", test_name(worker), "--ignored", "--nocapture"])
            .env(DIRECTORY, format!("{}:{number}", place.base.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut worker = Worker(command.spawn().expect("started"));
        let says = BufReader::new(worker.0.stdout.take().expect("piped"));
        Process { worker, says }
    }

    /// The next line that begins with a word; what comes after it.
    fn hears(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            let heard = self.says.read_line(&mut line).expect("heard");
            assert!(heard > 0, "it ended before it said {word:?}: {:?}", self.worker.0.wait());
            if let Some(rest) = line.trim_end().strip_prefix(word) {
                return rest.to_owned();
            }
        }
    }
}

pub(super) fn newest_segment(place: &Place) -> PathBuf {
    let log = fs::read_dir(place.env().join("log")).expect("there");
    log.map(|file| file.expect("read").path()).max().expect("a segment")
}

pub(super) fn cut(path: &Path, len: u64) {
    fs::File::options().write(true).open(path).and_then(|file| file.set_len(len)).expect("cut");
}

/// Where the region is cut: before anything, in its header, somewhere in what there is of its tables and
/// frames, and in a page.
fn cut_at(round: u64, region: &Path, dice: &mut Dice) -> u64 {
    let file = fs::File::open(region).expect("there");
    let extents = sparse::extents(&file).expect("told");
    let mut within = dice.below(extents.iter().map(|extent| extent.end - extent.start).sum());
    let place = extents.iter().find_map(|extent| {
        let len = extent.end - extent.start;
        let here = (within < len).then_some(extent.start + within);
        within = within.saturating_sub(len);
        here
    });
    match round % 4 {
        0 => 0,
        1 => dice.below(64) << 12,
        2 => place.expect("within") & !4095,
        _ => place.expect("within"),
    }
}

fn processes_whose_memory_is_cut_short(rounds: std::ops::Range<u64>) {
    for round in rounds {
        let mut dice = Dice(round);
        let place = Place::new("cut-short");
        let env = builder(&place).open(place.env()).expect("made");
        env.database("records").expect("made");
        let mut processes: Vec<_> = (0..PROCESSES).map(|number| Process::start(&place, number)).collect();
        processes.iter_mut().for_each(|process| drop(process.hears("works")));
        // With nobody else there, and with one who only looks.
        let watching = (round % 2 == 0).then_some(env);
        std::thread::sleep(std::time::Duration::from_micros(dice.below(100_000)));
        let at = cut_at(round, &place.region(), &mut dice);
        cut(&place.region(), at);
        std::thread::sleep(std::time::Duration::from_millis(20));
        let mut kept = Vec::new();
        for process in &mut processes {
            process.worker.0.stdin.take();
            for _ in 0..THREADS {
                let said = process.hears("kept ");
                let mut words = said.split(' ');
                let mut number = || words.next().expect("a number").parse().expect("a number");
                kept.push((number(), number()));
            }
            process.hears("closed");
            process.worker.assert_ends();
        }
        if let Some(env) = watching {
            if let Err(error) = env.database("records").and_then(|records| records.len()) {
                assert_told(&error);
            }
            if let Err(error) = env.close() {
                assert_told(&error);
            }
        }
        let env =
            builder(&place).open(place.env()).unwrap_or_else(|error| panic!("{round}, cut at {at}: {error}"));
        env.verify(&mut |_| {}).unwrap_or_else(|error| panic!("{round}, cut at {at}: {error}"));
        let records = env.database("records").expect("there");
        for (thread, last) in kept {
            for n in 0..KEYS.min(last) {
                let found = records.get(key(thread, (last - n) % KEYS)).expect("read");
                let found = found.map(|value| round_of(&value));
                assert!(found >= Some(last - n), "{round}, cut at {at}: {:?} of {}", found, last - n);
            }
        }
        drop(records);
        env.close().expect("closed");
    }
}

#[test]
fn processes_whose_memory_is_cut_short_are_told_and_lose_nothing() {
    processes_whose_memory_is_cut_short(0..12);
}

#[test]
#[ignore = "takes minutes"]
fn processes_whose_memory_is_cut_short_very_often() {
    let from = std::env::var("FROM").map_or(12, |from| from.parse().expect("a number"));
    processes_whose_memory_is_cut_short(from..from + 1000);
}

/// Behind the end of the file, but in a page of it, stores go on to find a place.
#[test]
fn a_log_that_is_cut_within_a_page_is_durable_no_more() {
    for shared in [false, true] {
        let place = Place::new("log-cut-within");
        let env = builder(&place).shared(shared).background(false).open(place.env()).expect("made");
        let records = env.database("records").expect("made");
        records.insert("first", "handed over").expect("set");
        env.sync().expect("durable");
        records.insert("second", "handed over").expect("set");
        let newest = newest_segment(&place);
        let written = fs::read(&newest).expect("read").iter().rposition(|byte| *byte != 0).expect("a record");
        cut(&newest, written as u64 + 1);
        let _ = records.insert("third", "nowhere");
        let error = env.sync().expect_err("the third is in no file");
        assert!(error.kind() == ErrorKind::Poisoned && error.to_string().contains("cut short"), "{error}");
    }
}

/// The rest of the page reads as zeros, and nobody gets a signal.
#[test]
fn memory_that_is_cut_within_a_page_is_found_by_who_keeps_house() {
    for made_long_again in [false, true] {
        let place = Place::new("cut-within");
        let env = builder(&place).open(place.env()).expect("made");
        let records = env.database("records").expect("made");
        cut_by_one(&place.region(), made_long_again);
        let error = loop {
            match records.get("any") {
                Ok(_) => std::thread::yield_now(),
                Err(error) => break error,
            }
        };
        assert_told(&error);
    }
}

/// What is to go to a file is not written any more; nor does anybody come to such memory.
#[test]
fn memory_that_is_cut_within_a_page_is_found_by_who_commits() {
    for made_long_again in [false, true] {
        let place = Place::new("cut-commits");
        let env = builder(&place).background(false).open(place.env()).expect("made");
        let records = env.database("records").expect("made");
        cut_by_one(&place.region(), made_long_again);
        let late = builder(&place).open(place.env()).map(drop).expect_err("it is cut short");
        assert!(late.kind() == ErrorKind::InUse && late.to_string().contains("its "), "{late}");
        let sync = TxnOptions::new().durability(Durability::Sync);
        let error = env.write_with(sync, |txn| txn.insert(&records, "key", "value")).expect_err("cut short");
        assert_told(&error);
    }
}

/// Takes the last byte of a file away, and perhaps puts a zero in its place.
fn cut_by_one(path: &Path, made_long_again: bool) {
    let len = fs::metadata(path).expect("there").len();
    cut(path, len - 1);
    if made_long_again {
        cut(path, len);
    }
}

/// Who only looks may change nothing, not even to say what it has found.
#[test]
fn who_looks_from_outside_at_memory_that_is_cut_short_is_told() {
    for round in 0..40 {
        let place = Place::new("cut-outside");
        let env = builder(&place).background(false).open(place.env()).expect("made");
        let look = || builder(&place).activity(place.env());
        assert_eq!(look().expect("seen").processes.len(), 1);
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                loop {
                    if let Err(error) = look() {
                        return error.kind();
                    }
                }
            });
            cut(&place.region(), round << 14);
            let kind = looking.join().expect("no panic");
            assert!(matches!(kind, ErrorKind::Poisoned | ErrorKind::Invalid), "{kind:?}");
        });
        drop(env);
    }
}

#[test]
fn a_child_of_who_finds_its_memory_cut_short_stays_a_child() {
    let place = Place::new("cut-forked");
    let env = builder(&place).background(false).open(place.env()).expect("made");
    let records = env.database("records").expect("made");
    let (inherited, region) = (records.clone(), place.region());
    let in_child = move || {
        cut(&region, 0);
        let refused = inherited.get("any").expect_err("the parent's handle");
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        Ok(())
    };
    let mut command = Command::new("true");
    // SAFETY: of the other threads, none holds a lock that the closure takes but the allocator's, which the C
    // library sees to at fork.
    unsafe { command.pre_exec(in_child) };
    assert!(command.status().expect("the child is told that it is one").success());
    assert_told(&records.get("any").expect_err("it is gone here as well"));
}

/// The newest segment's, while commits are handed over by stores to it.
#[test]
fn a_log_that_is_cut_short_is_an_error() {
    for shared in [false, true] {
        let place = Place::new("log-cut-short");
        let open = || builder(&place).shared(shared).background(false).open(place.env());
        let env = open().expect("made");
        let records = env.database("records").expect("made");
        env.checkpoint().expect("durable");
        (0..20u8).for_each(|n| records.insert([n], "kept").expect("set"));
        env.sync().expect("durable");
        records.insert("last", "handed over").expect("set");
        cut(&newest_segment(&place), 4096);
        let error = (0..1000).find_map(|_| records.insert("after", "it is cut").err()).expect("it is found");
        assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
        assert!(error.to_string().contains("cut short"), "{error}");
        drop(records);
        assert_eq!(env.close().expect_err("it is poisoned").kind(), ErrorKind::Poisoned);
        // What was cut off cannot be had back, and is not taken for the end of the log.
        let error = open().map(drop).expect_err("it is damaged");
        assert!(
            error.kind() == ErrorKind::Corruption && error.to_string().contains("shorter than a segment"),
            "{error}"
        );
    }
}
