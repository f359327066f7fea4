//! Memory and files that are cut short, and made as long again, between the engine's looks at them and what
//! it does then: nothing that was said to be kept is lost, and what is left can be opened.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use sablecat::{Database, Durability, Env, ErrorKind, Result, TxnOptions};
use sablecat_os::check::sparse;
use sablecat_os::disk::HostDisk;
use sablecat_os::disk::between::{Between, Call, Judge, Verdict};

use crate::cut_short::{cut, newest_segment};
use sablecat_tests::{Place, copy};

/// Cuts a file and makes it as long again, right before a call that changes something: the guard, which is in
/// front of this, has looked by then.
#[derive(Clone, Debug, Default)]
struct Cutting(Arc<Mutex<Option<Cut>>>);

#[derive(Clone, Debug)]
struct Cut {
    /// Calls that are let through before.
    calls: u64,
    path: PathBuf,
    at: u64,
}

impl Cutting {
    /// Before the call after so many.
    fn after(&self, calls: u64, path: &Path, at: u64) {
        *self.0.lock().expect("whole") = Some(Cut { calls, path: path.to_owned(), at });
    }

    fn is_done(&self) -> bool {
        self.0.lock().expect("whole").is_none()
    }
}

impl Judge for Cutting {
    fn judge(&self, call: Call) -> Verdict {
        let mut due = self.0.lock().expect("whole");
        match &mut *due {
            Some(Cut { calls, .. }) if call.changes() && *calls > 0 => *calls -= 1,
            Some(Cut { path, at, .. }) if call.changes() => {
                if let Ok(there) = fs::metadata(&*path) {
                    cut(path, *at);
                    cut(path, there.len());
                }
                *due = None;
            }
            _ => {}
        }
        Verdict::Make
    }
}

fn set(env: &Env, records: &Database, n: u64, durability: Durability) -> Result<()> {
    let options = TxnOptions::new().durability(durability);
    env.write_with(options, |txn| txn.insert(records, n.to_be_bytes(), [144; 500]))
}

/// The page of a region in which the log's memory begins with records of these.
fn ring_of(region: &Path) -> u64 {
    let file = fs::File::open(region).expect("there");
    let find = |extent: std::ops::Range<u64>| {
        let mut bytes = vec![0; (extent.end - extent.start) as usize];
        file.read_exact_at(&mut bytes, extent.start).expect("read");
        let at = bytes.windows(400).position(|bytes| bytes.iter().all(|byte| *byte == 144))?;
        Some((extent.start + at as u64) & !4095)
    };
    sparse::extents(&file).expect("told").into_iter().find_map(find).expect("in memory")
}

fn missing(env: &Env, numbers: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let records = env.database("records").expect("there");
    let is_missing = |n: &u64| records.get(n.to_be_bytes()).expect("read").is_none();
    numbers.into_iter().filter(is_missing).collect()
}

#[test]
fn a_commit_whose_memory_goes_while_it_is_written_is_not_said_to_be_kept() {
    let mut calls = 0;
    loop {
        let place = Place::new("cut-between");
        let cutting = Cutting::default();
        let disk = Arc::new(Between::new(HostDisk, cutting.clone()));
        let env = place.builder().disk(disk).open(place.env()).expect("made");
        let records = env.database("records").expect("made");
        (0..20).for_each(|n| set(&env, &records, n, Durability::Sync).expect("set"));
        let ring = ring_of(&place.region());
        cutting.after(calls, &place.region(), ring + calls % 4 * 4096);
        let mut kept = 20;
        let _ = (20..60).try_for_each(|n| {
            let durability = if n % 3 == 0 { Durability::WriteNoSync } else { Durability::Sync };
            if n % 2 == 0 {
                set(&env, &records, n, durability)?;
            } else {
                // Some pages of log.
                env.write_with(TxnOptions::new().durability(durability), |txn| {
                    let more = 1000 + n * 100..1030 + n * 100;
                    more.chain([n]).try_for_each(|n| txn.insert(&records, n.to_be_bytes(), [144; 500]))
                })?;
            }
            kept = n + 1;
            if n == 40 { env.checkpoint().map(drop) } else { Ok(()) }
        });
        let was_cut = cutting.is_done();
        drop(records);
        let _ = env.close();
        let env = place.open().unwrap_or_else(|error| panic!("call {calls}: {error}"));
        env.verify(&mut |_| {}).unwrap_or_else(|error| panic!("call {calls}: {error}"));
        assert_eq!(missing(&env, 0..kept), [], "call {calls}");
        if !was_cut {
            break;
        }
        calls += 1;
    }
    assert!(calls > 50, "{calls}");
}

/// What only the memory had goes with it, and nothing else.
#[test]
fn what_is_left_in_memory_that_goes_while_it_is_rescued_spoils_no_file() {
    let place = Place::new("cut-rescue");
    let builder = |place: &Place| place.builder().log_buffer_size(1 << 20).log_segment_size(4 << 20);
    let env = builder(&place).open(place.env()).expect("made");
    let records = env.database("records").expect("made");
    (0..30).for_each(|n| set(&env, &records, n, Durability::Sync).expect("set"));
    (100..300).for_each(|n| set(&env, &records, n, Durability::Memory).expect("set"));
    let ring = ring_of(&place.region());
    for calls in 0.. {
        let left = place.killed("cut-rescue-left");
        let cutting = Cutting::default();
        cutting.after(calls, &left.region(), ring);
        let disk = Arc::new(Between::new(HostDisk, cutting.clone()));
        let _ = builder(&left).disk(disk).open(left.env());
        if !cutting.is_done() {
            assert!(calls > 5, "{calls}");
            break;
        }
        let env = builder(&left).open(left.env()).unwrap_or_else(|error| panic!("call {calls}: {error}"));
        assert_eq!(missing(&env, 0..30), [], "call {calls}");
        let is_aside = left.regions().iter().any(|path| path.extension().is_some_and(|end| end == "aside"));
        assert!(is_aside || missing(&env, 100..300).is_empty(), "call {calls}");
        env.verify(&mut |_| {}).unwrap_or_else(|error| panic!("call {calls}: {error}"));
    }
}

/// The writes that come after would make it as long again, or the zeros of what is made ready, and nobody
/// would miss what was behind the cut.
#[test]
fn a_segment_that_was_cut_short_is_not_filled_up() {
    for (shared, segment) in [(false, 1 << 20), (true, 1 << 20), (false, 8 << 20), (true, 8 << 20)] {
        let place = Place::new("cut-filled");
        let builder = |place: &Place| {
            let builder = place.builder().shared(shared).cache_size(64 << 20);
            builder.log_buffer_size(16 << 20).log_segment_size(segment)
        };
        let env = builder(&place).open(place.env()).expect("made");
        let records = env.database("records").expect("made");
        set(&env, &records, 0, Durability::Sync).expect("set");
        let newest = newest_segment(&place);
        (1..60).for_each(|n| set(&env, &records, n, Durability::WriteNoSync).expect("set"));
        cut(&newest, 16_384);
        let large = env.write_with(TxnOptions::new().durability(Durability::Sync), |txn| {
            (1000..4000_u64).try_for_each(|n| txn.insert(&records, n.to_be_bytes(), [1; 700]))
        });
        let error = large.expect_err("what it says to be behind is not there");
        assert!(error.to_string().contains("cut short"), "{error}");
        let left = Place::new("cut-filled-left");
        copy(&place.env(), &left.env());
        match builder(&left).open(left.env()) {
            Ok(env) => assert_eq!(missing(&env, 0..1), []),
            Err(error) => assert!(error.to_string().contains("shorter"), "{error}"),
        }
    }
}

/// Behind what is durable, and where the next commit is stored, of which more is written behind it.
#[test]
fn a_store_behind_the_end_of_a_segment_is_not_written_behind() {
    for shared in [false, true] {
        let place = Place::new("cut-stored");
        let env = place.builder().shared(shared).log_segment_size(1 << 20).open(place.env()).expect("made");
        let records = env.database("records").expect("made");
        for (n, durability) in (0..).zip([Durability::WriteNoSync, Durability::WriteNoSync, Durability::Sync])
        {
            set(&env, &records, n, durability).expect("set");
        }
        let newest = newest_segment(&place);
        let bytes = fs::read(&newest).expect("read");
        let end = bytes.iter().rposition(|byte| *byte != 0).expect("records") as u64 + 1;
        cut(&newest, end.next_multiple_of(8));
        let more = env.write_with(TxnOptions::new().durability(Durability::WriteNoSync), |txn| {
            (100..120_u64).try_for_each(|n| txn.insert(&records, n.to_be_bytes(), [144; 500]))
        });
        let error = more.expect_err("some of it is in no file");
        assert!(error.to_string().contains("cut short"), "{error}");
    }
}

/// The next commit would make it as long again, with what is durable missing.
#[test]
fn a_segment_that_is_cut_short_below_what_is_durable_is_found_by_who_keeps_house() {
    for shared in [false, true] {
        let place = Place::new("cut-durable");
        let env = place.builder().shared(shared).log_segment_size(8 << 20).open(place.env()).expect("made");
        let records = env.database("records").expect("made");
        (0..30).for_each(|n| set(&env, &records, n, Durability::Sync).expect("set"));
        cut(&newest_segment(&place), 8192);
        env.keep_house().expect_err("some of it is in no file");
        let error = set(&env, &records, 30, Durability::Sync).expect_err("the log is poisoned");
        assert_eq!(error.kind(), ErrorKind::Poisoned);
        assert!(error.to_string().contains("cut short"), "{error}");
    }
}
