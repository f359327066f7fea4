//! A holder that is stopped while it fills more of a segment in use with zeros, between any two of its calls:
//! the others commit beyond what was ready, and segments are taken out of use. Its zeros come over nothing.
//! Its successor may be stopped or die as well, and the power may fail.

use super::*;

const CASES: [Case; 3] = [
    Case { archive: false, direct: true, sync_io: false, act: Act::Fill },
    Case { archive: true, direct: false, sync_io: false, act: Act::Fill },
    Case { archive: true, direct: true, sync_io: true, act: Act::Fill },
];

impl Scene {
    fn ready(&self) -> Lsn {
        Lsn(self.log.log.words().prepared.0.load(Ordering::SeqCst))
    }

    /// Commits up to `to`, or a little beyond, some at each rung; the last is durable.
    fn fill_to(&self, log: &TestLog, to: Lsn, caller: Caller<'_>) -> Result<()> {
        for n in 0.. {
            let lsn = self.put(log, 2000 + n * 37 % 1900, caller)?;
            match n % 16 {
                3 => log.log.hand_over(lsn, caller)?,
                7 => log.log.drain(caller)?,
                _ if n % 16 == 11 || lsn >= to => {
                    log.log.make_durable(lsn, caller)?;
                    let mut sure = self.sure.lock().unwrap();
                    *sure = lsn.max(*sure);
                }
                _ => {}
            }
            if lsn >= to {
                break;
            }
        }
        Ok(())
    }

    /// What a checkpoint does at its end.
    fn recycle(&self, log: &TestLog, caller: Caller<'_>) {
        let lsn = *self.sure.lock().unwrap();
        *self.floor.lock().unwrap() = lsn;
        log.log.recycle_before(lsn, caller).unwrap();
    }

    /// A little beyond what was ready when the first was stopped, or a segment further.
    fn beyond(&self, ready: Lsn, is_far: bool) -> Lsn {
        Lsn(ready.0 + if is_far { Act::Fill.segment() } else { 20_000 })
    }
}

#[test]
fn who_is_stopped_while_it_fills_a_segment_keeps_nobody_waiting_and_does_no_harm_later() {
    for case in CASES {
        let mut insisted = 0;
        for (at, is_far) in (1..).flat_map(|at| [(at, false), (at, true)]) {
            let stopped = stopped_at(case, at, |scene, go_on| {
                let (ready, mut own) = (scene.ready(), None);
                insisted += u32::from(scene.log.log.words().supply.owner() == FIRST);
                let other = scene.process(&Arc::default());
                // A checkpoint first, which owes something and cannot do it.
                scene.recycle(&other, scene.caller(THIRD));
                assert_ne!(scene.log.log.words().supply.owner(), FIRST);
                for late in [false, true] {
                    scene
                        .fill_to(&other, scene.beyond(own.unwrap_or(ready), is_far), scene.caller(THIRD))
                        .unwrap();
                    scene.check(&(case, at, is_far, late));
                    go_on();
                    scene.check(&(case, at, is_far, late, "gone on"));
                    own = Some(scene.log.log.tail());
                }
                scene.recycle(&other, scene.caller(THIRD));
                scene.check(&(case, at, is_far, "all"));
            });
            if !stopped {
                break;
            }
        }
        assert!(insisted >= 8, "{case:?}: {insisted}");
    }
}

/// It goes on when it has been succeeded and nothing has been done about it yet: what it does then is still
/// right.
#[test]
fn who_goes_on_before_anybody_needs_more_of_the_segment_does_no_harm() {
    for at in 1.. {
        let stopped = stopped_at(CASES[0], at, |scene, go_on| {
            let other = scene.process(&Arc::default());
            scene.recycle(&other, scene.caller(THIRD));
            go_on();
            scene.fill_to(&other, scene.beyond(scene.ready(), true), scene.caller(THIRD)).unwrap();
            scene.check(&at);
        });
        if !stopped {
            break;
        }
    }
}

/// The second puts another file in the place, and is stopped, or dies, at any of its calls. The first goes on
/// while the second is stopped, or after it.
#[test]
fn who_does_what_is_owed_for_a_filler_may_be_stopped_itself_or_die() {
    let case = CASES[0];
    let ways = [(false, false), (false, true), (true, false)];
    // It is about to write zeros, or has flushed them and is about to say so.
    for (first_at, (second_dies, first_meanwhile)) in
        [filled_at(), last_step()].into_iter().flat_map(|at| ways.map(|way| (at, way)))
    {
        for second_at in 1.. {
            let mut ended = false;
            stopped_at(case, first_at, |scene, go_on| {
                let (ready, stop) = (scene.ready(), Arc::new(Stop::default()));
                let what = (first_at, second_at, second_dies, first_meanwhile);
                // It has the file open that others are about to replace.
                let third = scene.process(&Arc::default());
                scene.fill_to(&third, Lsn(scene.log.log.tail().0 + 9000), scene.caller(THIRD)).unwrap();
                thread::scope(|scope| {
                    let second = scope.spawn(|| {
                        let log = scene.process(&stop);
                        stop.arm(second_at);
                        let prepared = log.log.prepare_to(Lsn(ready.0 + 1), scene.caller(SECOND));
                        stop.end();
                        prepared
                    });
                    ended = !stop.wait();
                    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        let whom = if second_dies { &scene.seen.dead } else { &scene.seen.stopped };
                        whom.lock().unwrap().insert(SECOND);
                        if first_meanwhile {
                            go_on();
                        }
                        scene
                            .fill_to(&third, scene.beyond(ready, second_at % 2 == 0), scene.caller(THIRD))
                            .unwrap();
                        scene.check(&(what, "third"));
                    }));
                    scene.seen.stopped.lock().unwrap().remove(&SECOND);
                    stop.go_on();
                    second.join().unwrap().unwrap();
                    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                    scene.check(&(what, "second"));
                    go_on();
                    scene.check(&(what, "first"));
                    scene
                        .fill_to(&scene.log, scene.beyond(scene.log.log.tail(), false), scene.caller(1))
                        .unwrap();
                    scene.check(&(what, "all"));
                });
            });
            if ended {
                break;
            }
        }
    }
}

/// The call before which it has opened the file, and is about to write zeros.
fn filled_at() -> u64 {
    // Opening is two steps; the next is before the first write.
    3
}

/// The last moment at which it can be stopped: the file is flushed.
fn last_step() -> u64 {
    (1..).take_while(|&at| stopped_at(CASES[0], at, |_, _| {})).last().unwrap()
}

#[test]
fn power_may_fail_while_a_file_takes_the_place_of_one_that_is_being_filled() {
    for n in 0.. {
        let mut over = false;
        stopped_at(CASES[0], filled_at(), |scene, go_on| {
            let (ready, other) = (scene.ready(), scene.process(&Arc::default()));
            let to = Lsn(ready.0 - 3000);
            scene.fill_to(&other, to, scene.caller(THIRD)).unwrap();
            scene.disk.crash_at(scene.disk.calls() + n);
            over = scene.fill_to(&other, scene.beyond(ready, false), scene.caller(THIRD)).is_ok();
            if n % 2 == 0 {
                go_on();
            }
            let (model, sure) = (scene.model.lock().unwrap().clone(), *scene.sure.lock().unwrap());
            for seed in 0..3 {
                let disk = Arc::new(scene.disk.crash(n * 4 + seed));
                let log = TestLog::open(Some(disk), Path::new("log"), scene.config.clone(), RING).unwrap();
                let (kept, _) = check_prefix(&log.log, Lsn(0), &model, sure);
                go_on_from(&log, &model[..kept]);
            }
        });
        if over {
            break;
        }
    }
}

/// Checkpoints go on; a committer that needs more log is told why there is none.
#[test]
fn without_room_for_another_file_only_who_needs_more_log_is_refused() {
    let mut ran = false;
    stopped_at(CASES[0], filled_at(), |scene, go_on| {
        let (ready, other) = (scene.ready(), scene.process(&Arc::default()));
        scene.disk.fill_up();
        scene.recycle(&other, scene.caller(THIRD));
        let error = scene.fill_to(&other, scene.beyond(ready, false), scene.caller(THIRD)).unwrap_err();
        assert_eq!(error.kind(), crate::error::ErrorKind::DiskFull, "{error}");
        assert!(!scene.log.log.words().flush.try_take(me(2)).unwrap().owes(), "nothing was begun");
        scene.recycle(&other, scene.caller(THIRD));
        let lsn = scene.log.log.tail();
        other.log.make_durable(lsn, scene.caller(THIRD)).unwrap();
        scene.disk.set_capacity(1 << 30);
        scene.fill_to(&other, scene.beyond(ready, false), scene.caller(THIRD)).unwrap();
        go_on();
        scene.check(&"room again");
        ran = true;
    });
    assert!(ran);
}

/// Makers of segments, fillers above all. Each takes the others for stopped now and then, and they are not.
fn rash_fillers(seed: u64, (commits, times): (usize, u64), run: fn(Committers)) {
    let disk = Arc::new(SimDisk::new(seed));
    let config = LogConfig { patience: Duration::ZERO, ..config(Act::Fill.segment()) };
    let log = Arc::new(TestLog::open(Some(disk.clone()), Path::new("log"), config.clone(), RING).unwrap());
    log.log.start_fresh(Lsn(0), Lsn(0), me(1)).unwrap();
    let rash = Arc::new(Rash::new(seed, times));
    let model = Arc::new(Mutex::new(Vec::new()));
    // To shortly before what is ready ends.
    while log.log.words().prepared.0.load(Ordering::SeqCst) - log.log.tail().0 > 6000 {
        append(&log, &[1; 3000], &model, me(1));
    }
    let committer = |owner: u16| -> Box<dyn FnOnce() + Send> {
        let (log, rash, model) =
            (log.beside(disk.clone(), config.clone()), Arc::clone(&rash), Arc::clone(&model));
        Box::new(move || {
            let caller = Caller::new(owner, &*rash);
            for n in 0..commits {
                let lsn = append(&log, &[owner as u8; 3000], &model, caller);
                match (n + usize::from(owner)) % 3 {
                    0 => log.log.make_durable(lsn, caller).unwrap(),
                    1 => log.log.hand_over(lsn, caller).unwrap(),
                    _ => log.log.recycle_before(Lsn(0), caller).unwrap(),
                }
            }
        })
    };
    run((2..=4).map(committer).collect());
    let tail = log.log.tail();
    log.log.make_durable(tail, me(1)).unwrap();
    let model = model.lock().unwrap();
    for disk in [disk.crash(seed), (*disk).clone()] {
        let log = TestLog::open(Some(Arc::new(disk)), Path::new("log"), config.clone(), RING).unwrap();
        assert_eq!(check_prefix(&log.log, Lsn(0), &model, tail), (model.len(), tail));
    }
}

#[test]
fn who_takes_fillers_for_stopped_that_are_not_does_no_harm() {
    for seed in 0..10 {
        rash_fillers(seed, (300, u64::MAX), |committers| {
            let threads: Vec<_> = committers.into_iter().map(thread::spawn).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}

/// The same, switched between any two of their instructions that share something.
#[test]
fn explored_successions_of_fillers_lose_nothing() {
    for seed in 0..4 {
        sablecat_os::atomic::explore(seed, 50, move || {
            rash_fillers(seed, (6, 6), |committers| {
                let threads: Vec<_> =
                    committers.into_iter().map(sablecat_os::shuttle::thread::spawn).collect();
                threads.into_iter().for_each(|thread| thread.join().unwrap());
            });
        });
    }
}
