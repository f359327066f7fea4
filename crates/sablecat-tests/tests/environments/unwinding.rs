//! Closures and comparators that panic, wherever they are called from: afterwards nothing is held, and
//! everybody else goes on.
//!
//! A *fuse* is given to each operation: its n-th call burns it, for every n until the operation has ended
//! without. So a comparator is seen to panic in descents, in splits and merges, in validation under the
//! commit role, in bulk loads and in walks.

use std::cell::RefCell;
use std::cmp::Ordering as Order;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use sablecat::{Database, Durability, Env, Isolation, Result, TxnOptions};
use sablecat_os::sim::SimDisk;

/// Burns at the call that it was set to.
#[derive(Clone, Default)]
struct Fuse(Arc<AtomicU64>);

/// What a burnt fuse unwinds with: the panic hook is not asked, so nothing is printed.
struct Burnt;

impl Fuse {
    fn set(&self, calls: u64) {
        self.0.store(calls, Ordering::SeqCst);
    }

    /// The fuse is cut: it burns no more. Whether it had burnt.
    fn cut(&self) -> bool {
        self.0.swap(0, Ordering::SeqCst) == 0
    }

    fn call(&self) {
        let before = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if before == Ok(1) {
            resume_unwind(Box::new(Burnt));
        }
    }
}

struct Shop {
    env: Env,
    db: Database,
    fuse: Fuse,
}

type Work = fn(&Shop) -> Result<()>;

fn builder(disk: &SimDisk, fuse: &Fuse) -> sablecat::Builder {
    let fuse = fuse.clone();
    Env::builder()
        .disk(Arc::new(disk.clone()))
        .background(false)
        .cache_size(1 << 20)
        .durability(Durability::WriteNoSync)
        .comparator("fused", move |one, two| -> Order {
            fuse.call();
            one.cmp(two)
        })
}

fn key(n: u64) -> Vec<u8> {
    format!("key {n:05}").into_bytes()
}

const RECORDS: u64 = 300;

impl Shop {
    fn open(disk: &SimDisk, fuse: Fuse) -> Result<Shop> {
        let env = builder(disk, &fuse).open(Path::new("shop"))?;
        let db = env.database_ordered_by("stock", "fused")?;
        Ok(Shop { env, db, fuse })
    }

    fn new() -> Shop {
        let shop = Shop::open(&SimDisk::new(1), Fuse::default()).expect("opened");
        shop.env.database_ordered_by("empty", "fused").expect("made");
        shop.db.insert_batch((0..RECORDS).map(|n| (key(2 * n), [n as u8; 40]))).expect("room");
        shop
    }

    fn empty(&self) -> Database {
        self.env.database_ordered_by("empty", "fused").expect("made")
    }

    /// Nobody has anything, and everybody can do everything.
    fn assert_free(&self, why: &str) {
        for participant in self.env.processes().into_iter().flat_map(|process| process.participants) {
            assert_eq!(participant.roles, Vec::<&str>::new(), "{why}");
            assert_eq!(participant.snapshot, None, "{why}: {participant:?}");
            assert!(!participant.in_operation && !participant.committing, "{why}: {participant:?}");
            assert_eq!(
                (participant.pages_latched, participant.record_locks),
                (0, 0),
                "{why}: {participant:?}"
            );
        }
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let before = self.db.get(key(2)).expect("read");
                self.db.insert(key(2), before.expect("it is there")).expect("written");
            });
            other.join().expect("no panic");
        });
    }

    /// Does some work with the fuse set to every call in turn, in this thread and in one that ends of it,
    /// until it does not burn.
    fn burn(&self, why: &str, work: Work) {
        let mut burnt = 0;
        for call in 1.. {
            let alone = call % 2 == 0;
            self.fuse.set(call);
            let done = if alone {
                std::thread::scope(|scope| scope.spawn(|| work(self)).join())
            } else {
                catch_unwind(AssertUnwindSafe(|| work(self)))
            };
            let cut = self.fuse.cut();
            match done {
                Ok(done) => {
                    done.unwrap_or_else(|error| panic!("{why}: {error}"));
                    assert!(!cut, "{why}: somebody has swallowed a panic");
                    break;
                }
                Err(panic) => assert!(panic.is::<Burnt>(), "{why}: another panic, at call {call}"),
            }
            burnt += 1;
            self.assert_free(&format!("{why}, call {call}"));
            if call % 16 == 0 {
                self.env.checkpoint().expect("written");
            }
        }
        assert!(burnt > 0, "{why}: never called");
        self.assert_free(why);
        self.env.checkpoint().expect("written");
    }

    /// All work of a list; then the environment is whole, and closes.
    fn burn_all(self, all: &[(&str, Work)]) {
        all.iter().for_each(|&(why, work)| self.burn(why, work));
        let report = self.env.verify(&mut |_| {}).expect("read");
        assert_eq!(report.problems, Vec::<String>::new());
        let Shop { env, db, .. } = self;
        drop(db);
        env.close().expect("written");
    }
}

/// Runs another transaction, on a thread that has nothing to do with this one's, which the fuse spares.
fn beside(shop: &Shop, work: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    let left = shop.fuse.0.swap(0, Ordering::SeqCst);
    let done = std::thread::scope(|scope| scope.spawn(work).join().expect("no panic"));
    shop.fuse.set(left);
    done
}

#[test]
fn a_comparator_that_panics_in_the_commit_step_stops_nobody() {
    Shop::new().burn_all(&[("validation", |shop| {
        let mut txn = shop.env.begin_with(TxnOptions::new().isolation(Isolation::Serializable))?;
        txn.get(&shop.db, key(10))?;
        txn.range(&shop.db, key(40)..key(90))?.try_for_each(|record| record.map(drop))?;
        // A neighbour changes: what was read is compared, record by record, in the commit step.
        beside(shop, || shop.db.insert(key(11), [9; 8]).and_then(|()| shop.db.insert(key(100), [9; 8])))?;
        txn.insert(&shop.db, key(400), [1; 40])?;
        txn.commit().map(|_| ())
    })]);
}

#[test]
fn a_comparator_that_panics_while_records_change_stops_nobody() {
    Shop::new().burn_all(&[
        ("one record", |shop| shop.db.insert(key(33), [5; 50])),
        ("one removed", |shop| shop.db.remove(key(33)).map(drop)),
        ("splits", |shop| {
            // Those that an earlier burning left are put again.
            for n in 0..RECORDS / 3 {
                shop.db.insert(key(2 * n + 1), [7; 60])?;
            }
            Ok(())
        }),
        ("merges", |shop| (0..RECORDS / 3).try_for_each(|n| shop.db.remove(key(2 * n + 1)).map(drop))),
        ("a transaction", |shop| {
            shop.env.write(|txn| {
                for n in 0..20 {
                    txn.insert(&shop.db, key(7 * n + 3), [n as u8; 30])?;
                    txn.remove(&shop.db, key(14 * n))?;
                }
                txn.get_for_update(&shop.db, key(44)).map(drop)
            })
        }),
        ("a transaction that splits", |shop| {
            shop.env.write(|txn| (0..80).try_for_each(|n| txn.insert(&shop.db, key(1000 + n), [3; 100])))?;
            shop.env.write(|txn| (0..80).try_for_each(|n| txn.remove(&shop.db, key(1000 + n)).map(drop)))
        }),
        ("a large value", |shop| shop.db.insert(key(55), vec![5; 300_000])),
        ("an entry", |shop| shop.db.entry(key(57)).or_insert([1; 5]).map(drop)),
    ]);
}

#[test]
fn a_comparator_that_panics_while_records_are_read_stops_nobody() {
    Shop::new().burn_all(&[
        ("get", |shop| shop.db.get(key(100)).map(drop)),
        ("range", |shop| shop.db.range(key(9)..key(70))?.rev().try_for_each(|record| record.map(drop))),
        ("visit", |shop| shop.db.visit(key(9)..key(70), |_, _| ControlFlow::Continue(()))),
        ("a snapshot", |shop| {
            let txn = shop.env.snapshot()?;
            txn.get(&shop.db, key(7))?;
            txn.value_len(&shop.db, key(8)).map(drop)
        }),
        ("verification", |shop| shop.env.verify(&mut |_| {}).map(drop)),
    ]);
}

#[test]
fn a_closure_that_panics_stops_nobody() {
    Shop::new().burn_all(&[
        ("get_with", |shop| shop.db.get_with(key(100), |_| shop.fuse.call())),
        ("visit", |shop| {
            shop.db.visit(key(9)..key(70), |_, _| {
                shop.fuse.call();
                ControlFlow::Continue(())
            })
        }),
        ("fold", |shop| {
            shop.db.fold(.., 0, |sum, _, _| {
                shop.fuse.call();
                ControlFlow::Continue(sum + 1)
            })?;
            Ok(())
        }),
        ("get_with in a transaction", |shop| {
            shop.env.write(|txn| txn.get_with(&shop.db, key(100), |_| shop.fuse.call()))
        }),
        ("a write", |shop| {
            shop.env.write(|txn| {
                txn.get_for_update(&shop.db, key(10))?;
                txn.insert(&shop.db, key(10), [2; 90])?;
                shop.fuse.call();
                txn.nested(|txn| {
                    txn.remove(&shop.db, key(12))?;
                    shop.fuse.call();
                    txn.insert(&shop.db, key(12), [4; 9])
                })
            })
        }),
        ("a database made in a transaction", |shop| {
            shop.env.write(|txn| {
                let new = txn.database("new")?;
                txn.insert(&new, "a", "b")?;
                shop.fuse.call();
                Ok(())
            })?;
            shop.env.remove_database("new").map(drop)
        }),
        ("retain", |shop| {
            shop.db.retain(|_, _| {
                shop.fuse.call();
                true
            })
        }),
        ("and_modify", |shop| shop.db.entry(key(100)).and_modify(|_| shop.fuse.call()).apply().map(drop)),
        ("a batch", |shop| {
            shop.db.insert_batch((0..9).map(|n| {
                shop.fuse.call();
                (key(n), [1; 4])
            }))
        }),
        ("progress", |shop| shop.env.verify(&mut |_| shop.fuse.call()).map(drop)),
    ]);
}

#[test]
fn an_iterator_that_panics_in_a_bulk_load_stops_nobody() {
    let shop = Shop::new();
    shop.burn("records", |shop| {
        let empty = shop.empty();
        empty.retain(|_, _| false)?;
        let records = (0..60).map(|n| {
            shop.fuse.call();
            (key(n), vec![1; if n % 20 == 7 { 9000 } else { 400 }])
        });
        empty.bulk_load(records).map(drop)
    });
    let Shop { env, db, .. } = shop;
    drop(db);
    env.close().unwrap();
}

#[test]
fn a_closure_that_panics_in_a_data_store_stops_nobody() {
    let mut store = Env::builder().data_store_in_memory().unwrap();
    let table = store.database("records").unwrap();
    (0..RECORDS).for_each(|n| store.insert(&table, key(n), [n as u8; 40]).unwrap());
    for call in 0..RECORDS {
        let mut seen = 0;
        let visit = || {
            store.visit(&table, .., |_, _| {
                seen += 1;
                if seen > call { resume_unwind(Box::new(Burnt)) } else { ControlFlow::Continue(()) }
            })
        };
        assert!(catch_unwind(AssertUnwindSafe(visit)).is_err());
        let look = || store.get_with(&table, key(call), |_| resume_unwind(Box::new(Burnt)));
        assert!(catch_unwind(AssertUnwindSafe(look)).is_err());
    }
    for n in 0..RECORDS {
        assert!(store.remove(&table, key(n)).unwrap());
    }
    store.close().unwrap();
}

/// Recovery replays through the comparator as well: who has caught it can open the environment again.
#[test]
fn a_comparator_that_panics_in_recovery_leaves_an_environment_that_opens() {
    let (disk, fuse) = (SimDisk::new(3), Fuse::default());
    let shop = Shop::open(&disk, fuse.clone()).unwrap();
    shop.env.checkpoint().unwrap();
    (0..40).for_each(|n| shop.db.insert(key(n), [n as u8; 200]).unwrap());
    shop.env.sync().unwrap();
    let mut burnt = 0;
    for call in (1..).step_by(7) {
        let left = disk.crash(call);
        fuse.set(call);
        let opened = catch_unwind(AssertUnwindSafe(|| Shop::open(&left, fuse.clone())));
        let cut = fuse.cut();
        if let Ok(opened) = opened {
            assert!(!cut);
            opened.unwrap();
            break;
        }
        burnt += 1;
        let again = Shop::open(&left, fuse.clone()).unwrap();
        assert_eq!(again.db.len().unwrap(), 40);
        again.assert_free("after recovery");
        let Shop { env, db, .. } = again;
        drop(db);
        env.close().unwrap();
    }
    assert!(burnt > 0, "never called");
}

/// What a thread has of its own is dropped when it ends, in an order that nobody chooses; what a program has
/// there may write.
#[test]
fn a_thread_that_ends_may_still_write() {
    struct Late(Database, Arc<Mutex<Vec<String>>>);

    impl Late {
        fn write(&self) -> sablecat::Result<()> {
            let Late(database, _) = self;
            for n in 0..600u32 {
                database.insert((n % 60).to_be_bytes(), vec![7; 10 + (n as usize * 37) % 150])?;
            }
            database.env().write(|txn| {
                (0..3000u32).try_for_each(|n| txn.insert(database, n.to_be_bytes(), [7; 300]))?;
                (0..3000u32).step_by(2).try_for_each(|n| txn.remove(database, n.to_be_bytes()).map(drop))
            })
        }
    }

    impl Drop for Late {
        fn drop(&mut self) {
            // A panic here would end the process.
            let written = catch_unwind(AssertUnwindSafe(|| self.write()));
            let told = match written {
                Ok(written) => format!("{written:?}"),
                Err(_) => "a panic".to_owned(),
            };
            self.1.lock().expect("told").push(told);
        }
    }

    thread_local! {
        static LATE: RefCell<Option<Late>> = const { RefCell::new(None) };
    }

    let env = Env::builder()
        .disk(Arc::new(SimDisk::new(1)))
        .page_size(4096)
        .cache_size(1 << 20)
        .background(false)
        .open("/env")
        .expect("created");
    let told = Arc::new(Mutex::new(Vec::new()));
    for first in [true, false] {
        let late = Late(env.database("d").expect("made"), Arc::clone(&told));
        let thread = std::thread::spawn(move || {
            if first {
                LATE.with_borrow_mut(|_| ());
            }
            late.write().expect("written");
            LATE.set(Some(late));
        });
        thread.join().expect("no panic");
    }
    assert_eq!(*told.lock().expect("told"), ["Ok(())", "Ok(())"]);
    assert_eq!(env.database("d").expect("there").len().expect("read"), 1500);
}

#[test]
fn a_look_that_is_not_validated_counts_again_after_it_has_panicked() {
    let env = Env::in_memory().expect("an environment");
    let (read, written) = (env.database("read").expect("one"), env.database("written").expect("another"));
    for panics in [false, true] {
        for is_looked_at_again in [false, true] {
            let mut txn = env.begin().expect("a transaction");
            txn.insert(&written, "own", "change").expect("a record");
            let looked = catch_unwind(AssertUnwindSafe(|| {
                txn.unvalidated(|txn| {
                    assert_eq!(txn.get(&written, "own").expect("read").as_deref(), Some(&b"change"[..]));
                    txn.get(&read, "key").expect("read");
                    if panics {
                        resume_unwind(Box::new(Burnt));
                    }
                });
            }));
            assert_eq!(looked.is_err(), panics);
            if is_looked_at_again {
                txn.get(&read, "key").expect("read");
            }
            let now = format!("{panics} {is_looked_at_again}");
            read.insert("key", now).expect("another's change");
            assert_eq!(txn.commit().is_err(), is_looked_at_again, "{panics}");
        }
    }
}
