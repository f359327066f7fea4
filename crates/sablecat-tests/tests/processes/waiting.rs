//! Waiting for what others commit: in threads, and in processes, some of which are killed as they wait.
//!
//! The workers are this test program itself, started again with `SABLECAT_TEST_DIR` set, so that it runs
//! [`worker`] alone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use sablecat::{Durability, Env, ErrorKind};
use sablecat_tests::worker::{DIRECTORY, Worker};

/// Long for anything that is to happen.
const PATIENCE: Duration = Duration::from_secs(600);
/// Short, for what is not to happen.
const MOMENT: Duration = Duration::from_millis(30);

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("sablecat-waiting-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

fn open(path: &Path) -> Env {
    Env::builder().shared(true).cache_size(4 << 20).durability(Durability::Memory).open(path).expect("opened")
}

#[test]
fn work_that_finds_nothing_runs_again_when_there_is_something_and_each_job_is_done_once() {
    const JOBS: u32 = 2000;
    let env = Env::in_memory().unwrap();
    let (jobs, done) = (env.database("jobs").unwrap(), env.database("done").unwrap());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let job = env.write_when(|txn| {
                        let Some((key, job)) = txn.pop_first(&jobs)? else { return Ok(None) };
                        if job != b"the end" {
                            assert!(txn.insert_new(&done, &key, "done")?, "done twice: {key:?}");
                        }
                        Ok(Some(job))
                    });
                    if job.unwrap() == b"the end" {
                        break;
                    }
                }
            });
        }
        for n in 0..JOBS {
            jobs.insert(n.to_be_bytes(), "a job").unwrap();
            if n % 500 == 0 {
                thread::sleep(MOMENT);
            }
        }
        (JOBS..JOBS + 4).for_each(|n| jobs.insert(n.to_be_bytes(), "the end").unwrap());
    });
    assert_eq!(done.range(..).unwrap().count(), JOBS as usize);
    assert!(jobs.first().unwrap().is_none());
}

#[test]
fn what_waits_has_changed_nothing_and_keeps_nothing() {
    let env = Env::builder().cache_size(1 << 20).open(directory("nothing")).unwrap();
    let (watched, others) = (env.database("watched").unwrap(), env.database("others").unwrap());
    let runs = AtomicU32::new(0);
    let (waits, is_waiting) = mpsc::channel();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            env.write_when(|txn| {
                runs.fetch_add(1, Ordering::SeqCst);
                txn.insert(&others, "a", "of no account")?;
                txn.database("made in vain")?;
                txn.get_for_update(&watched, "b")?;
                let found = txn.get(&watched, "a")?;
                waits.send(()).expect("heard");
                Ok(found)
            })
        });
        is_waiting.recv_timeout(PATIENCE).expect("it runs");
        // Its record lock and its snapshot, with which all of this would not fit the cache, nobody has.
        for round in 0..20u8 {
            env.write(|txn| {
                (0..2000u32).try_for_each(|n| txn.insert(&others, n.to_be_bytes(), [round; 100]))
            })
            .unwrap();
        }
        env.write(|txn| txn.get_for_update(&watched, "b").map(drop)).unwrap();
        assert_eq!((others.get("a").unwrap(), env.databases().unwrap().len()), (None, 2));
        watched.insert("a", "alpha").unwrap();
        assert_eq!(waiter.join().unwrap().unwrap(), b"alpha");
    });
    assert_eq!(others.get("a").unwrap().as_deref(), Some(&b"of no account"[..]));
    assert_eq!(env.databases().unwrap(), ["made in vain", "others", "watched"]);
}

/// Whatever changes what was read ends the wait: a record in a range, its removal, a value, a database; in a
/// small commit or one larger than the cache.
#[test]
fn every_change_of_what_was_read_is_noticed() {
    let env = Env::builder().cache_size(1 << 20).open(directory("every")).unwrap();
    let db = env.database("records").unwrap();
    (0..5000u32).for_each(|n| db.insert(n.to_be_bytes(), [1; 100]).unwrap());
    let key = |n: u32| n.to_be_bytes();
    let read = |txn: &mut sablecat::Txn<'_>| {
        let records = txn.range(&db, key(1000)..key(4000))?.collect::<sablecat::Result<Vec<_>>>()?;
        Ok((records, txn.get(&db, key(77))?, txn.get(&db, key(9999))?, txn.databases()?))
    };
    let changes: [(&str, &dyn Fn()); 7] = [
        ("a value", &|| db.insert(key(77), "changed").unwrap()),
        ("a record in a range", &|| db.insert([&key(2000)[..], b"new"].concat(), "new").unwrap()),
        ("a removal in it", &|| assert!(db.remove(key(3999)).unwrap())),
        ("a key that was not there", &|| db.insert(key(9999), "new").unwrap()),
        ("a commit larger than the cache", &|| {
            env.write(|txn| {
                (1500..1501).chain(20_000..40_000u32).try_for_each(|n| txn.insert(&db, key(n), [2; 200]))
            })
            .unwrap();
        }),
        ("a name", &|| drop(env.database("another").unwrap())),
        ("a name that is gone", &|| assert!(env.remove_database("another").unwrap())),
    ];
    for (what, change) in changes {
        let (found, is_found) = mpsc::channel();
        let before = env.write(read).unwrap();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                env.write_when(|txn| {
                    let now = read(txn)?;
                    found.send(()).expect("heard");
                    Ok((now != before).then_some(()))
                })
            });
            is_found.recv_timeout(PATIENCE).expect("it runs");
            change();
            let since = Instant::now();
            while !waiter.is_finished() {
                assert!(since.elapsed() < PATIENCE, "{what} goes unnoticed");
                thread::sleep(Duration::from_millis(1));
            }
            waiter.join().unwrap().unwrap();
        });
    }
}

#[test]
fn who_waits_for_no_longer_than_a_time_gets_nothing_when_it_is_over() {
    let env = Env::in_memory().unwrap();
    let db = env.database("a").unwrap();
    let found = env.write_when_within(MOMENT, |txn| {
        txn.insert(&db, "b", "2")?;
        txn.get(&db, "a")
    });
    assert_eq!((found.unwrap(), db.get("b").unwrap()), (None, None));
    let nothing = env.write_when_within(Duration::ZERO, |_| Ok(None::<()>)).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::NotAllowed);
    assert!(nothing.to_string().contains("has read nothing"), "{nothing}");
    // What it makes is there at once, and an error of its own ends it.
    assert_eq!(
        env.write_when_within(Duration::ZERO, |txn| Ok(Some(txn.insert_new(&db, "b", "2")?))).unwrap(),
        Some(true)
    );
    let refused = env.write_when(|txn| txn.insert(&db, vec![0; 1 << 17], "").map(Some)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
}

/// Takes jobs for ever, and says in the same transaction who has done each.
#[test]
#[ignore = "what the processes of another test do"]
fn worker() {
    let Ok(path) = std::env::var(DIRECTORY) else { return };
    let env = open(Path::new(&path));
    let (jobs, done) = (env.database("jobs").expect("opened"), env.database("done").expect("opened"));
    loop {
        let taken = env.write_when(|txn| {
            let Some((key, _)) = txn.pop_first(&jobs)? else { return Ok(None) };
            Ok(txn.insert_new(&done, &key, std::process::id().to_string())?.then_some(()))
        });
        taken.expect("taken");
    }
}

/// Workers are killed as they wait, or as they commit; the others hear of each job.
#[test]
fn jobs_are_heard_of_in_other_processes_whoever_is_killed() {
    let path = directory("processes");
    let env = open(&path);
    let (jobs, done) = (env.database("jobs").unwrap(), env.database("done").unwrap());
    let mut workers: Vec<_> = (0..3).map(|_| Worker::start(worker, &path)).collect();
    let mut by = BTreeSet::new();
    for n in 0..300u32 {
        jobs.insert(n.to_be_bytes(), "a job").unwrap();
        if n % 50 == 49 {
            let killed = workers.remove(0);
            drop(killed);
            workers.push(Worker::start(worker, &path));
        }
        let said = env.write_when_within(PATIENCE, |txn| txn.get(&done, n.to_be_bytes())).unwrap();
        by.insert(said.unwrap_or_else(|| panic!("nobody has heard of job {n}")));
    }
    assert!(by.len() > 1, "{by:?}");
    drop(workers);
    assert_eq!((done.range(..).unwrap().count(), jobs.range(..).unwrap().count()), (300, 0));
    drop((jobs, done));
    env.close().unwrap();
    std::fs::remove_dir_all(path).unwrap();
}

/// The names that are taken away before it waits, and after it has read, too.
#[test]
fn a_database_removed_between_reading_and_waiting_is_noticed() {
    let env = Env::in_memory().unwrap();
    let db = env.database("jobs").unwrap();
    let runs = AtomicU32::new(0);
    let found = env.write_when_within(PATIENCE, |txn| {
        let found = txn.get(&db, "a");
        if runs.fetch_add(1, Ordering::SeqCst) == 0 {
            thread::scope(|scope| {
                assert!(scope.spawn(|| env.remove_database("jobs").unwrap()).join().unwrap())
            });
        }
        found
    });
    assert_eq!(found.expect_err("it waits for what is gone").kind(), ErrorKind::NotFound);
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

#[test]
fn a_database_made_between_beginning_and_waiting_is_noticed() {
    let env = Env::in_memory().unwrap();
    let db = env.database("jobs").unwrap();
    let (runs, made) = (AtomicU32::new(0), std::sync::OnceLock::new());
    let found = env.write_when_within(PATIENCE, |txn| {
        runs.fetch_add(1, Ordering::SeqCst);
        assert_eq!(txn.get(&db, "a")?, None);
        let made = made.get_or_init(|| {
            thread::scope(|scope| {
                let making = scope.spawn(|| {
                    let made = env.database("made").unwrap();
                    made.insert("a", "alpha").unwrap();
                    made
                });
                making.join().unwrap()
            })
        });
        match txn.get(made, "a") {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            found => found,
        }
    });
    assert_eq!(found.unwrap().as_deref(), Some(&b"alpha"[..]));
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

#[test]
fn jobs_that_somebody_gives_up_are_heard_of() {
    let env = Env::in_memory().unwrap();
    let db = env.database("jobs").unwrap();
    db.insert("1", "a job").unwrap();
    let mut holder = env.begin().unwrap();
    assert!(holder.pop_first_unlocked(&db).unwrap().is_some());
    let (runs, is_run) = mpsc::channel();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            env.write_when_within(PATIENCE, |txn| {
                runs.send(()).expect("heard");
                txn.pop_first_unlocked(&db)
            })
        });
        is_run.recv_timeout(PATIENCE).expect("it runs");
        thread::sleep(MOMENT);
        holder.abort();
        let taken = waiter.join().unwrap().unwrap();
        assert!(taken.is_some(), "the job is there, and nobody has it");
    });
}
