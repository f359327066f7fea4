//! A holder that is stopped in the flush turn, between any two of its calls: the others go on, and what it
//! does when it goes on does no harm. The successor may be stopped as well, or die, and the power may fail. A
//! holder that is stopped while it fills a segment is in filling.rs.

mod filling;

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::thread;

use sablecat_os::sim::SimDisk;

use super::super::turn::{Living, ProcessState};
use super::crash::check_prefix;
use super::stepped::{Stepped, Stop};
use super::*;

const SEGMENT: u64 = 8192;
const RING: usize = 16384;

/// The stopped one, its successor, and somebody else.
const FIRST: u16 = 7;
const SECOND: u16 = 8;
const THIRD: u16 = 9;

/// What the participants see of each other.
#[derive(Debug, Default)]
struct Seen {
    stopped: Mutex<BTreeSet<u16>>,
    dead: Mutex<BTreeSet<u16>>,
}

impl Living for Seen {
    fn is_dead(&self, slot: u16, _: &dyn Fn() -> bool) -> bool {
        self.dead.lock().unwrap().contains(&slot)
    }
    fn look_at(&self, slot: u16) -> ProcessState {
        if self.stopped.lock().unwrap().contains(&slot) { ProcessState::Stopped } else { ProcessState::Runs }
    }
}

/// How the log is kept, and what the stopped one was about to do.
#[derive(Clone, Copy, Debug)]
struct Case {
    archive: bool,
    direct: bool,
    sync_io: bool,
    act: Act,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    /// A commit at `Sync`.
    Durable,
    /// Two at `WriteNoSync`, the second through the window.
    HandOver,
    /// Much that others have left in the ring, over more than one segment.
    Drain,
    /// More of a segment in use to be made ready.
    Fill,
}

impl Act {
    /// Only of a long segment a part is made ready first.
    fn segment(self) -> u64 {
        if matches!(self, Act::Fill) { 3 << 20 } else { SEGMENT }
    }
}

const CASES: [Case; 5] = [
    Case { archive: false, direct: true, sync_io: false, act: Act::Durable },
    Case { archive: false, direct: true, sync_io: true, act: Act::Durable },
    Case { archive: true, direct: false, sync_io: false, act: Act::HandOver },
    Case { archive: false, direct: true, sync_io: false, act: Act::Drain },
    Case { archive: true, direct: true, sync_io: false, act: Act::Durable },
];

/// An environment's log, and what was logged.
struct Scene {
    disk: Arc<SimDisk>,
    config: LogConfig,
    log: TestLog,
    seen: Seen,
    model: Mutex<Vec<(Lsn, Vec<u8>)>>,
    /// Acknowledged as durable.
    sure: Mutex<Lsn>,
    /// Below it nothing is needed.
    floor: Mutex<Lsn>,
}

impl Scene {
    fn new(case: Case) -> Scene {
        let disk = Arc::new(SimDisk::new(1));
        let archive = case.archive.then(|| PathBuf::from("journal"));
        let config = LogConfig {
            patience: Duration::ZERO,
            archive,
            direct: case.direct,
            sync_io: case.sync_io,
            ..config(case.act.segment())
        };
        let log = TestLog::open(Some(disk.clone()), Path::new("log"), config.clone(), RING).unwrap();
        log.log.start_fresh(Lsn(0), Lsn(0), me(1)).unwrap();
        let scene = Scene {
            disk,
            config,
            log,
            seen: Seen::default(),
            model: Mutex::default(),
            sure: Mutex::default(),
            floor: Mutex::default(),
        };
        // Blocks and bytes before what matters, some flushed and some not.
        let early = scene.put(&scene.log, 3000, me(1)).unwrap();
        scene.log.log.make_durable(early, me(1)).unwrap();
        *scene.sure.lock().unwrap() = early;
        let early = scene.put(&scene.log, 200, me(1)).unwrap();
        scene.log.log.hand_over(early, me(1)).unwrap();
        scene
    }

    fn process(&self, stop: &Arc<Stop>) -> TestLog {
        self.log.beside(
            Arc::new(Stepped { stop: Arc::clone(stop), of: Arc::clone(&self.disk) }),
            self.config.clone(),
        )
    }

    fn caller(&self, slot: u16) -> Caller<'_> {
        Caller::new(slot, &self.seen)
    }

    fn put(&self, log: &TestLog, len: usize, caller: Caller<'_>) -> Result<Lsn> {
        let mut record = RecordBuilder::new();
        record.begin(RecordKind::Commit);
        let body: Vec<u8> = (0..len).map(|i| (i * 31 + len + usize::from(caller.owner())) as u8).collect();
        record.raw(&body);
        record.finish_body();
        let mut model = self.model.lock().unwrap();
        let lsn = log.append(&mut record, caller)?;
        model.push((lsn, body));
        Ok(lsn)
    }

    /// Does what is to be stopped. What goes before is done at once.
    fn act(&self, log: &TestLog, stop: &Stop, (act, at): (Act, u64), caller: Caller<'_>) -> Result<()> {
        match act {
            Act::Durable => {
                let lsn = self.put(log, 300, caller)?;
                stop.arm(at);
                log.log.make_durable(lsn, caller)?;
                let mut sure = self.sure.lock().unwrap();
                *sure = lsn.max(*sure);
            }
            Act::HandOver => {
                let lsn = self.put(log, 100, caller)?;
                log.log.hand_over(lsn, caller)?;
                let lsn = self.put(log, 100, caller)?;
                stop.arm(at);
                log.log.hand_over(lsn, caller)?;
            }
            Act::Drain => {
                for _ in 0..9 {
                    self.put(log, 1000, caller)?;
                }
                stop.arm(at);
                log.log.drain(caller)?;
            }
            Act::Fill => {
                while !log.log.wants_segment() {
                    self.put(log, 3000, caller)?;
                }
                stop.arm(at);
                log.log.prepare_next(caller)?;
            }
        }
        Ok(())
    }

    /// Commits at all rungs, around the ring and more; with a checkpoint, after which segments are used
    /// again, or not.
    fn work(&self, log: &TestLog, recycles: bool, caller: Caller<'_>) -> Result<()> {
        for n in 0..40usize {
            let lsn = self.put(log, 300 + n * 37 % 900, caller)?;
            match n % 4 {
                0 => log.log.hand_over(lsn, caller)?,
                1 => {
                    log.log.make_durable(lsn, caller)?;
                    *self.sure.lock().unwrap() = lsn;
                }
                2 => log.log.drain(caller)?,
                _ => {}
            }
            if n == 25 && recycles {
                log.log.make_durable(lsn, caller)?;
                (*self.sure.lock().unwrap(), *self.floor.lock().unwrap()) = (lsn, lsn);
                log.log.recycle_before(lsn, caller)?;
            }
        }
        Ok(())
    }

    /// That the files have all that was promised, after the machine failed and after the processes did.
    fn check(&self, what: &dyn std::fmt::Debug) {
        let (model, sure, floor) =
            (self.model.lock().unwrap(), *self.sure.lock().unwrap(), *self.floor.lock().unwrap());
        let handed_over = self.log.log.written();
        assert!(self.log.log.durable() >= sure, "{what:?}: what was durable is so no more");
        let read = |disk: SimDisk, least: Lsn| {
            let log =
                TestLog::open(Some(Arc::new(disk)), Path::new("log"), self.config.clone(), RING).unwrap();
            let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                check_prefix(&log.log, floor, &model, least)
            }));
            assert!(checked.is_ok(), "{what:?}: from {floor} to {least}");
        };
        for seed in 0..3 {
            read(self.disk.crash(seed), sure.max(self.log.log.durable()));
        }
        read(self.disk.clone().as_ref().clone(), handed_over);
    }
}

/// Runs the first participant to its `at`-th step. None if it ends before; otherwise `then` is called while
/// it is stopped.
fn stopped_at(case: Case, at: u64, then: impl FnOnce(&Scene, &dyn Fn())) -> bool {
    let scene = Scene::new(case);
    let stop = Arc::new(Stop::default());
    thread::scope(|scope| {
        let first = scope.spawn(|| {
            let log = scene.process(&stop);
            let acted = scene.act(&log, &stop, (case.act, at), scene.caller(FIRST));
            stop.end();
            acted
        });
        if !stop.wait() {
            first.join().unwrap().unwrap();
            return false;
        }
        scene.seen.stopped.lock().unwrap().insert(FIRST);
        let ended = Mutex::new(Some(first));
        let go_on = || {
            if let Some(first) = ended.lock().unwrap().take() {
                scene.seen.stopped.lock().unwrap().remove(&FIRST);
                stop.go_on();
                let acted = first.join().unwrap();
                assert!(acted.is_ok() || scene.disk.has_crashed(), "{acted:?}");
            }
        };
        // Also when a check has failed: somebody waits for the thread.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| then(&scene, &go_on)));
        go_on();
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        true
    })
}

#[test]
fn who_is_stopped_in_the_flush_turn_keeps_nobody_waiting_and_does_no_harm_later() {
    for case in CASES {
        let mut in_turn = 0;
        for (at, recycles) in (1..).flat_map(|at| [(at, false), (at, true)]) {
            let stopped = stopped_at(case, at, |scene, go_on| {
                in_turn += u32::from(scene.log.log.words().flush.owner() == FIRST);
                let other = scene.process(&Arc::default());
                scene.work(&other, recycles, scene.caller(THIRD)).unwrap();
                scene.check(&(case, at));
                go_on();
                scene.check(&(case, at, "gone on"));
                scene.work(&other, recycles, scene.caller(THIRD)).unwrap();
                scene.work(&scene.log, true, scene.caller(1)).unwrap();
                scene.check(&(case, at, "others too"));
            });
            if !stopped {
                break;
            }
        }
        assert!(in_turn >= 2, "{case:?}: {in_turn}");
    }
}

/// What becomes of the successor, and when the first goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Then {
    /// Both are stopped while a third works; then the first goes on before the second.
    BothStopped,
    /// The second goes on before the first.
    SecondFirst,
    /// The second dies.
    Dies,
    /// The first goes on, to its end, while the second is stopped; the second goes on before anybody else
    /// works.
    FirstMeanwhile,
}

/// All pairs of their steps are some thousand; without `SABLECAT_TEST_STEPS=1` it is an eighth of them,
/// another for each step of the first.
#[test]
fn a_successor_may_be_succeeded_at_any_of_its_steps() {
    let every = std::env::var("SABLECAT_TEST_STEPS").map_or(8, |every| every.parse().expect("a number"));
    for case in CASES {
        for at in 1.. {
            let mut ends = false;
            // The turn is had by the first.
            let mut counts = false;
            for then in [Then::BothStopped, Then::SecondFirst, Then::Dies, Then::FirstMeanwhile] {
                let mut second_ended = false;
                for second_at in (1 + at % every..).step_by(every as usize) {
                    ends |= !stopped_at(case, at, |scene, go_on| {
                        counts = scene.log.log.words().flush.owner() == FIRST;
                        if counts {
                            second_ended = !second_stopped_at(scene, (case, at, second_at, then), go_on);
                        }
                    });
                    if ends || !counts || second_ended {
                        break;
                    }
                }
                if ends || !counts {
                    break;
                }
            }
            if ends {
                break;
            }
        }
    }
}

/// False if the second participant ended before it came to that step.
fn second_stopped_at(scene: &Scene, what: (Case, u64, u64, Then), go_on: &dyn Fn()) -> bool {
    let (_, at, second_at, then) = what;
    let recycles = (at + second_at).is_multiple_of(2);
    let stop = Arc::new(Stop::default());
    thread::scope(|scope| {
        let second = scope.spawn(|| {
            let log = scene.process(&stop);
            let acted = scene.act(&log, &stop, (Act::Durable, second_at), scene.caller(SECOND));
            stop.end();
            acted
        });
        let stopped = stop.wait();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            if !stopped {
                return;
            }
            let third = scene.process(&Arc::default());
            if then == Then::Dies {
                scene.seen.dead.lock().unwrap().insert(SECOND);
            } else {
                scene.seen.stopped.lock().unwrap().insert(SECOND);
            }
            if then == Then::FirstMeanwhile {
                go_on();
            } else {
                scene.work(&third, recycles, scene.caller(THIRD)).unwrap();
                scene.check(&what);
            }
            if matches!(then, Then::BothStopped | Then::Dies) {
                go_on();
                scene.check(&(what, "first"));
                scene.work(&third, recycles, scene.caller(THIRD)).unwrap();
                scene.check(&(what, "first, and then others"));
            }
        }));
        scene.seen.stopped.lock().unwrap().remove(&SECOND);
        stop.go_on();
        let acted = second.join().unwrap();
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        if stopped && then != Then::Dies {
            acted.unwrap();
            scene.check(&(what, "second"));
            go_on();
            scene.work(&scene.log, true, scene.caller(1)).unwrap();
            scene.check(&(what, "all"));
        }
        stopped
    })
}

#[test]
fn power_may_fail_at_any_call_of_a_succession() {
    for case in CASES {
        for at in 1.. {
            let mut ends = false;
            for n in 0.. {
                let mut over = false;
                ends = !stopped_at(case, at, |scene, go_on| {
                    over = scene.log.log.words().flush.owner() != FIRST;
                    let other = scene.process(&Arc::default());
                    scene.disk.crash_at(scene.disk.calls() + n);
                    let caller = scene.caller(THIRD);
                    let lsn = scene.put(&other, 300, caller);
                    if let Ok(lsn) = lsn
                        && other.log.make_durable(lsn, caller).is_ok()
                    {
                        *scene.sure.lock().unwrap() = lsn;
                        over |= !scene.disk.has_crashed();
                    }
                    if n % 2 == 0 {
                        go_on();
                    }
                    let (model, sure) = (scene.model.lock().unwrap().clone(), *scene.sure.lock().unwrap());
                    for seed in 0..6 {
                        let disk = Arc::new(scene.disk.crash(n * 8 + seed));
                        let log =
                            TestLog::open(Some(disk), Path::new("log"), scene.config.clone(), RING).unwrap();
                        let (kept, _) = check_prefix(&log.log, Lsn(0), &model, sure);
                        // And the next life works upon what is left.
                        go_on_from(&log, &model[..kept]);
                    }
                });
                if ends || over {
                    break;
                }
            }
            if ends {
                break;
            }
        }
    }
}

/// Recovers, and looks whether everything is there in the next life too.
fn go_on_from(log: &TestLog, model: &[(Lsn, Vec<u8>)]) {
    super::go_on(&log.log, Lsn(0)).unwrap();
    let left: Vec<_> = log.log.segments().unwrap().disk().list(Path::new("log")).unwrap();
    assert!(!left.iter().any(|name| name.ends_with(".copy")), "{left:?}");
    let lsn = log.put(b"key", b"another life", me(1)).unwrap();
    log.log.make_durable(lsn, me(1)).unwrap();
    let (records, end) = read_all(&log.log, Lsn(0)).unwrap();
    let commits = records.iter().filter(|(kind, ..)| *kind == RecordKind::Commit).count();
    assert_eq!((commits, end.lsn), (model.len() + 1, lsn));
}

/// Takes everybody for stopped, so many times, one time in eight.
#[derive(Debug)]
struct Rash {
    looks: AtomicU64,
    left: AtomicU64,
}

impl Rash {
    fn new(seed: u64, times: u64) -> Rash {
        Rash { looks: AtomicU64::new(seed), left: AtomicU64::new(times) }
    }
}

impl Living for Rash {
    fn is_dead(&self, _: u16, _: &dyn Fn() -> bool) -> bool {
        false
    }
    fn look_at(&self, _: u16) -> ProcessState {
        let look = self.looks.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 61;
        let is_rash = look == 0
            && self
                .left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok();
        if is_rash { ProcessState::Stopped } else { ProcessState::Runs }
    }
}

/// Processes to be run.
type Committers = Vec<Box<dyn FnOnce() + Send>>;

/// Several processes, each of which takes the others for stopped now and then; they are not, and go on.
fn rash_committers(seed: u64, (each, times): (usize, u64), run: fn(Committers)) {
    let disk = Arc::new(SimDisk::new(seed));
    let config = LogConfig { patience: Duration::ZERO, ..config(SEGMENT) };
    let log = Arc::new(TestLog::open(Some(disk.clone()), Path::new("log"), config.clone(), 8192).unwrap());
    log.log.start_fresh(Lsn(0), Lsn(0), me(1)).unwrap();
    let rash = Arc::new(Rash::new(seed, times));
    let model = Arc::new(Mutex::new(Vec::new()));
    let committer = |owner: u16| -> Box<dyn FnOnce() + Send> {
        let (log, rash, model) =
            (log.beside(disk.clone(), config.clone()), Arc::clone(&rash), Arc::clone(&model));
        Box::new(move || {
            let caller = Caller::new(owner, &*rash);
            for n in 0..each {
                let body = vec![owner as u8; 700 + n * 977 % 1900];
                let lsn = append(&log, &body, &model, caller);
                if (n + usize::from(owner)).is_multiple_of(2) {
                    log.log.make_durable(lsn, caller).unwrap();
                    assert!(log.log.durable() >= lsn);
                } else {
                    log.log.hand_over(lsn, caller).unwrap();
                    assert!(log.log.written() >= lsn);
                }
            }
        })
    };
    run((2..=4).map(committer).collect());
    let tail = log.log.tail();
    log.log.make_durable(tail, me(1)).unwrap();
    let model = model.lock().unwrap();
    for disk in [disk.crash(seed), (*disk).clone()] {
        let log = TestLog::open(Some(Arc::new(disk)), Path::new("log"), config.clone(), 8192).unwrap();
        assert_eq!(check_prefix(&log.log, Lsn(0), &model, tail), (model.len(), tail));
    }
}

/// Appends without waiting for anything that an explorer does not know.
fn append(log: &TestLog, body: &[u8], model: &Mutex<Vec<(Lsn, Vec<u8>)>>, caller: Caller<'_>) -> Lsn {
    let mut record = RecordBuilder::new();
    record.begin(RecordKind::Commit);
    record.raw(body);
    record.finish_body();
    loop {
        log.log.make_room(record.len(), caller).unwrap();
        if let Ok(_commit) = log.commit.try_lock()
            && log.log.has_room(record.len())
        {
            let start = log.log.tail();
            let bytes = record.seal(start, log.log.durable());
            log.log.copy_record(start, bytes);
            let end = Lsn(start.0 + bytes.len() as u64);
            log.log.advance_tail(end);
            model.lock().unwrap().push((end, body.to_vec()));
            return end;
        }
        sablecat_os::atomic::yield_now();
    }
}

#[test]
fn who_takes_others_for_stopped_that_are_not_does_no_harm() {
    for seed in 0..10 {
        rash_committers(seed, (40, u64::MAX), |committers| {
            let threads: Vec<_> = committers.into_iter().map(thread::spawn).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}

/// The same, switched between any two of their instructions that share something.
#[test]
fn explored_successions_in_the_flush_turn_lose_nothing() {
    for seed in 0..4 {
        sablecat_os::atomic::explore(seed, 500, move || {
            rash_committers(seed, (8, 6), |committers| {
                let threads: Vec<_> =
                    committers.into_iter().map(sablecat_os::shuttle::thread::spawn).collect();
                threads.into_iter().for_each(|thread| thread.join().unwrap());
            });
        });
    }
}

#[test]
fn what_is_owed_is_owed_by_whoever_has_the_turn_next() {
    let turn = super::super::turn::Turn::default();
    let Ok(slow) = turn.try_take(me(FIRST)) else { panic!("nobody has it") };
    let seen = turn.try_take(me(2)).unwrap_err();
    let second = turn.succeed(seen, me(SECOND)).unwrap();
    assert!(second.owes() && !slow.owes() && slow.is_succeeded());
    assert!(turn.succeed(seen, me(2)).is_none(), "that holding has ended");
    drop(slow);
    // Given up, and taken; died, and taken from the dead; and succeeded again.
    drop(second);
    let Ok(third) = turn.try_take(me(THIRD)) else { panic!("nobody has it") };
    assert!(third.owes());
    std::mem::forget(third);
    let alive = |owner| owner != THIRD;
    let fourth = turn.take(Caller::new(4, &alive));
    assert!(fourth.owes());
    std::mem::forget(fourth);
    turn.release_for(4);
    let Ok(mut fifth) = turn.try_take(me(5)) else { panic!("nobody has it") };
    let seen = turn.try_take(me(2)).unwrap_err();
    let mut sixth = turn.succeed(seen, me(6)).unwrap();
    assert!(fifth.owes() && !fifth.settle(), "it is another's to do");
    assert!(sixth.settle() && !sixth.owes());
    drop(sixth);
    assert!(turn.try_take(me(2)).is_ok_and(|held| !held.owes()));
}

/// What is seen of everybody.
struct All(ProcessState);

impl Living for All {
    fn is_dead(&self, _: u16, _: &dyn Fn() -> bool) -> bool {
        false
    }
    fn look_at(&self, _: u16) -> ProcessState {
        self.0
    }
}

#[test]
fn a_slow_device_has_no_successors_one_after_another() {
    let turn = super::super::turn::Turn::default();
    let Ok(slow) = turn.try_take(me(FIRST)) else { panic!("nobody has it") };
    let seen = turn.try_take(me(2)).unwrap_err();
    let is_stuck = |seen, look, least| {
        turn.is_stuck(&mut Default::default(), seen, Caller::new(2, &All(look)), (least, Duration::ZERO))
    };
    assert!(
        is_stuck(seen, ProcessState::Stopped, Duration::ZERO)
            && is_stuck(seen, ProcessState::Unknown, Duration::ZERO)
    );
    assert!(!is_stuck(seen, ProcessState::Runs, Duration::ZERO));
    assert!(!is_stuck(seen, ProcessState::Stopped, Duration::from_secs(60)));
    // The successor waits for the device too, perhaps.
    let second = turn.succeed(seen, me(SECOND)).unwrap();
    let seen = turn.try_take(me(2)).unwrap_err();
    assert!(
        !is_stuck(seen, ProcessState::Unknown, Duration::ZERO)
            && is_stuck(seen, ProcessState::Stopped, Duration::ZERO)
    );
    drop((slow, second));
}

/// The turn is taken from nobody while there is no room for what succession writes.
#[test]
fn without_room_for_a_copy_nobody_is_succeeded() {
    let scene = Scene::new(CASES[0]);
    let Ok(slow) = scene.log.log.words().flush.try_take(me(FIRST)) else { panic!("nobody has it") };
    let lsn = scene.put(&scene.log, 100, me(2)).unwrap();
    scene.disk.fill_up();
    scene.seen.stopped.lock().unwrap().insert(FIRST);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| scene.log.log.make_durable(lsn, scene.caller(2)));
        for _ in 0..10_000 {
            assert_eq!(scene.log.log.words().flush.owner(), FIRST);
            thread::yield_now();
        }
        assert!(!slow.is_succeeded());
        scene.disk.set_capacity(1 << 30);
        waiter.join().unwrap().unwrap();
        assert!(slow.is_succeeded());
    });
    scene.check(&"room again");
}

/// The flush of what is copied fails: what the copy shows may be what the disk never had.
#[test]
fn a_successor_whose_first_flush_fails_poisons() {
    let scene = Scene::new(CASES[0]);
    let Ok(slow) = scene.log.log.words().flush.try_take(me(FIRST)) else { panic!("nobody has it") };
    let lsn = scene.put(&scene.log, 100, me(2)).unwrap();
    scene.seen.stopped.lock().unwrap().insert(FIRST);
    scene.disk.fail_at(scene.disk.calls() + 1, sablecat_os::sim::Fault::SyncFails);
    let error = scene.log.log.make_durable(lsn, scene.caller(2)).unwrap_err();
    assert_eq!(error.kind(), crate::error::ErrorKind::Poisoned, "{error}");
    drop(slow);
}

/// Any other failure leaves it to be done by the next.
#[test]
fn a_succession_that_fails_is_tried_again() {
    for n in 1..60 {
        for fault in
            [sablecat_os::sim::Fault::Error(std::io::ErrorKind::Other), sablecat_os::sim::Fault::DiskFull]
        {
            let scene = Scene::new(CASES[0]);
            let Ok(slow) = scene.log.log.words().flush.try_take(me(FIRST)) else { panic!("nobody has it") };
            let lsn = scene.put(&scene.log, 100, me(2)).unwrap();
            scene.seen.stopped.lock().unwrap().insert(FIRST);
            scene.disk.fail_at(scene.disk.calls() + n, fault);
            if let Err(error) = scene.log.log.make_durable(lsn, scene.caller(2)) {
                if error.kind() == crate::error::ErrorKind::Poisoned {
                    // Of files that have names.
                    assert!(!error.to_string().contains("copy"), "{n}: {error}");
                    continue;
                }
                assert_eq!(error.kind(), crate::error::ErrorKind::NotDurable, "{n}: {error}");
                scene.log.log.make_durable(lsn, scene.caller(2)).unwrap();
            }
            drop(slow);
            scene.disk.clear_faults();
            scene.check(&(n, fault));
        }
    }
}
