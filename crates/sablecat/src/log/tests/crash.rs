//! What a disk may hold after the power failed, and what bytes may rot: a scan tells the one from the other.

use proptest::prelude::*;
use sablecat_os::disk::How;
use sablecat_os::sim::{Fault, SimDisk, Survival};

use super::*;

const SEGMENT: u64 = 8192;
const RING: usize = 32768;

/// What becomes of a record once it is appended.
#[derive(Clone, Copy, Debug)]
enum Then {
    Nothing,
    HandOver,
    Drain,
    Durable,
    Prepare,
}

fn stream() -> impl Strategy<Value = Vec<(usize, Then)>> {
    let then = prop_oneof![
        6 => Just(Then::Nothing),
        3 => Just(Then::HandOver),
        1 => Just(Then::Drain),
        2 => Just(Then::Durable),
        1 => Just(Then::Prepare),
    ];
    let len = prop_oneof![8 => 0usize..200, 1 => 0usize..6000];
    proptest::collection::vec((len, then), 1..60)
}

fn run(log: &TestLog, stream: &[(usize, Then)]) -> Vec<(Lsn, Vec<u8>)> {
    let mut model = Vec::new();
    for (n, (len, then)) in stream.iter().enumerate() {
        let mut record = RecordBuilder::new();
        record.begin(RecordKind::Commit);
        let body: Vec<u8> = (0..*len).map(|i| (i * 31 + n) as u8).collect();
        record.raw(&body);
        record.finish_body();
        let end = log.append(&mut record, me(1)).unwrap();
        model.push((end, body));
        match then {
            Then::Nothing => {}
            Then::HandOver => log.log.hand_over(end, me(1)).unwrap(),
            Then::Drain => log.log.drain(me(1)).unwrap(),
            Then::Durable => log.log.make_durable(end, me(1)).unwrap(),
            Then::Prepare => log.log.prepare_next(me(1)).unwrap(),
        }
    }
    model
}

fn reopen(disk: Arc<SimDisk>) -> TestLog {
    reopen_with(disk, config(SEGMENT))
}

fn reopen_with(disk: Arc<SimDisk>, config: LogConfig) -> TestLog {
    TestLog::open(Some(disk), Path::new("log"), config, RING).unwrap()
}

/// The ways in which a log may be kept.
fn configs() -> [LogConfig; 3] {
    let archive = Some(PathBuf::from("journal"));
    [
        config(SEGMENT),
        LogConfig { sync_io: true, ..config(SEGMENT) },
        LogConfig { archive, ..config(SEGMENT) },
    ]
}

/// All records that there are, archived ones too, and the end.
fn read_kept(log: &Log) -> Result<(Vec<Found>, LogEnd)> {
    read(log.segments()?.scan_kept(Lsn(0), None)?)
}

/// That `log` holds a prefix of `model` with everything durable in it; returns its length and the end.
pub(super) fn check_prefix(log: &Log, from: Lsn, model: &[(Lsn, Vec<u8>)], durable: Lsn) -> (usize, Lsn) {
    check_records(read_all(log, from), from, model, durable)
}

fn check_records(
    read: Result<(Vec<Found>, LogEnd)>,
    from: Lsn,
    model: &[(Lsn, Vec<u8>)],
    durable: Lsn,
) -> (usize, Lsn) {
    let (records, end) = read.unwrap_or_else(|error| panic!("durable {durable}: {error}"));
    // When it was is told by the clock, not by the model.
    let records: Vec<_> = records.into_iter().filter(|(kind, ..)| *kind != RecordKind::Time).collect();
    let ends = model.iter().filter(|(lsn, _)| *lsn > from).take(records.len());
    let got: Vec<_> = records.iter().map(|(_, _, end, body)| (*end, body.clone())).collect();
    assert!(ends.cloned().eq(got), "not a prefix");
    assert!(end.lsn >= durable, "what was durable up to {durable} ends at {}", end.lsn);
    (records.len(), end.lsn)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Power fails, twice: each time a prefix is left that holds everything durable, never an error; and the
    /// second life follows the first.
    #[test]
    fn after_power_loss_a_prefix_with_all_that_was_durable(
        first in stream(),
        second in stream(),
        seed in any::<u64>(),
    ) {
        let disk = Arc::new(SimDisk::new(seed));
        let log = TestLog::create(disk.clone(), SEGMENT, RING);
        let model = run(&log, &first);
        let durable = log.log.durable();
        let disk = Arc::new(disk.crash(seed));
        let log = reopen(disk.clone());
        let (kept, end) = check_prefix(&log.log, Lsn(0), &model, durable);

        let mut whole = model[..kept].to_vec();
        let fresh = go_on(&log.log, Lsn(0)).unwrap();
        whole.extend(run(&log, &second));
        // Everything before the new life became durable with its start.
        let durable = if log.log.durable() == fresh { end } else { log.log.durable() };
        let disk = Arc::new(disk.crash(seed ^ 1));
        let log = reopen(disk);
        check_prefix(&log.log, Lsn(0), &whole, durable);
        let second_only: Vec<_> = whole[kept..].to_vec();
        check_prefix(&log.log, fresh, &second_only, durable.max(fresh));
    }

    /// Any bit of a record that a later record knows to be durable.
    #[test]
    fn damage_below_what_was_durable_is_an_error(
        before in stream(),
        after in stream(),
        seed in any::<u64>(),
        place in any::<u64>(),
    ) {
        let disk = Arc::new(SimDisk::new(seed));
        let log = TestLog::create(disk.clone(), SEGMENT, RING);
        let model = run(&log, &before);
        let known = log.log.tail();
        log.log.make_durable(known, me(1)).unwrap();
        run(&log, &after);
        log.log.hand_over(log.log.tail(), me(1)).unwrap();
        // Every other time in the last record that is known to be durable, where the rule has least to spare.
        let last = model.iter().rev().nth(1).map_or(0, |(end, _)| end.0);
        let lsn = if seed % 2 == 0 { place % known.0 } else { last + place % (known.0 - last) };
        let begins = model.iter().map(|(end, _)| *end).rfind(|end| end.0 <= lsn).unwrap_or(Lsn(0));
        let number = lsn / SEGMENT;
        let path = format!("log/{number:016x}.log");
        let file = disk.open(Path::new(&path), How::default()).unwrap();
        let offset = 4096 + lsn % SEGMENT;
        let mut byte = [0];
        file.read_at(&mut byte, offset).unwrap();
        byte[0] ^= 1 << (place % 8);
        file.write_at(&byte, offset).unwrap();
        let error = read_all(&reopen(disk).log, Lsn(0)).unwrap_err();
        prop_assert!(error.is_corruption());
        let text = error.to_string();
        let names = format!(
            "{:016x}.log is damaged at offset {} (LSN {begins})",
            begins.0 / SEGMENT,
            4096 + begins.0 % SEGMENT
        );
        prop_assert!(text.contains(&names), "{} is not in: {}", names, text);
    }

    /// Whatever is made of the bytes beyond what was durable: never an error, and all that was durable.
    #[test]
    fn tears_beyond_what_was_durable_are_an_end(
        stream in stream(),
        seed in any::<u64>(),
        tears in proptest::collection::vec((any::<u64>(), 1usize..3000, any::<bool>()), 1..6),
    ) {
        let disk = Arc::new(SimDisk::new(seed));
        let log = TestLog::create(disk.clone(), SEGMENT, RING);
        let mut model = run(&log, &stream);
        let durable = log.log.durable().0;
        let mut record = RecordBuilder::new();
        record.begin(RecordKind::Commit);
        record.raw(b"one at least that nobody was promised");
        record.finish_body();
        let end = log.append(&mut record, me(1)).unwrap();
        model.push((end, b"one at least that nobody was promised".to_vec()));
        log.log.hand_over(end, me(1)).unwrap();
        let tail = end.0;
        for (place, len, zero) in tears {
            let from = durable + place % (tail - durable);
            for lsn in from..tail.min(from + len as u64) {
                let path = format!("log/{:016x}.log", lsn / SEGMENT);
                let file = disk.open(Path::new(&path), How::default()).unwrap();
                file.write_at(&[if zero { 0 } else { (lsn as u8).wrapping_mul(37) }], 4096 + lsn % SEGMENT)
                    .unwrap();
            }
        }
        check_prefix(&reopen(disk).log, Lsn(0), &model, Lsn(durable));
    }
}

/// Processes die, not the machine: what they handed over is read, and it is as durable as what is built upon
/// it.
#[test]
fn what_only_the_page_cache_kept_is_flushed_before_the_log_goes_on() {
    let disk = Arc::new(SimDisk::new(1));
    let log = TestLog::create(disk.clone(), SEGMENT, RING);
    let lsn = log.put(b"key", b"handed over", me(1)).unwrap();
    log.log.hand_over(lsn, me(1)).unwrap();
    drop(log);
    let log = reopen(disk.clone());
    let (_, end) = read_all(&log.log, Lsn(0)).unwrap();
    assert_eq!(end.lsn, lsn);
    go_on(&log.log, Lsn(0)).unwrap();
    let second = log.put(b"key", b"built upon it", me(1)).unwrap();
    log.log.make_durable(second, me(1)).unwrap();
    for survival in Survival::ALL {
        let log = reopen(Arc::new(disk.crash_as(survival, 1)));
        let (records, end) = read_all(&log.log, Lsn(0)).unwrap();
        assert_eq!((records.len(), end.lsn), (2, second));
    }
}

/// A life with everything in it: start, commits of all kinds, preparing, recycling, a new start. Returns what
/// is durable for certain and everything appended, and where the log may be read from.
fn busy(
    disk: &Arc<SimDisk>,
    config: &LogConfig,
    model: &mut Vec<(Lsn, Vec<u8>)>,
    sure: &mut (Lsn, Lsn),
) -> Result<()> {
    let log = TestLog::open(Some(disk.clone()), Path::new("log"), config.clone(), RING)?;
    let (records, end) = read_all(&log.log, sure.0)?;
    assert!(end.lsn >= sure.1);
    model.retain(|(lsn, _)| *lsn <= end.lsn);
    let commits = records.iter().filter(|(kind, ..)| *kind != RecordKind::Time).count();
    assert_eq!(commits, model.iter().filter(|(lsn, _)| *lsn > sure.0).count());
    go_on(&log.log, sure.0)?;
    // What was recovered is durable from here.
    sure.1 = end.lsn;
    for n in 0..60usize {
        let mut record = RecordBuilder::new();
        record.begin(RecordKind::Commit);
        record.raw(&vec![n as u8; n * 13 % 700]);
        record.finish_body();
        let lsn = log.append(&mut record, me(1))?;
        model.push((lsn, vec![n as u8; n * 13 % 700]));
        match n % 7 {
            0 | 1 => log.log.hand_over(lsn, me(1))?,
            2 => {
                log.log.make_durable(lsn, me(1))?;
                sure.1 = lsn;
            }
            3 => log.log.prepare_next(me(1))?,
            4 if n > 30 => {
                // As a checkpoint would: durable first, then nothing below is needed.
                log.log.make_durable(lsn, me(1))?;
                *sure = (lsn, lsn);
                log.log.recycle_before(lsn, me(1))?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn calls_of_two_lives(config: &LogConfig) -> u64 {
    let disk = Arc::new(SimDisk::new(3));
    let (mut model, mut sure) = (Vec::new(), (Lsn(0), Lsn(0)));
    busy(&disk, config, &mut model, &mut sure).unwrap();
    busy(&disk, config, &mut model, &mut sure).unwrap();
    disk.calls()
}

#[test]
fn power_may_fail_after_any_call() {
    for config in configs() {
        power_may_fail_after_any_call_of(&config);
    }
}

fn power_may_fail_after_any_call_of(config: &LogConfig) {
    let calls = calls_of_two_lives(config);
    for n in 0..calls {
        for seed in 0..4 {
            let disk = Arc::new(SimDisk::new(3));
            disk.crash_at(n);
            let (mut model, mut sure) = (Vec::new(), (Lsn(0), Lsn(0)));
            let _ = busy(&disk, config, &mut model, &mut sure)
                .and_then(|()| busy(&disk, config, &mut model, &mut sure));
            let after = Arc::new(disk.crash(n * 16 + seed));
            let log = reopen_with(after.clone(), config.clone());
            let (_, end) = check_prefix(&log.log, sure.0, &model, sure.1);
            if config.archive.is_some() {
                // Nothing of the log is ever lost.
                assert_eq!(check_records(read_kept(&log.log), Lsn(0), &model, sure.1).1, end);
            }
            // And the next life works upon what is left.
            go_on(&log.log, sure.0).unwrap();
            drop(log);
            model.retain(|(lsn, _)| *lsn <= end);
            sure.1 = end;
            busy(&after, config, &mut model, &mut sure)
                .unwrap_or_else(|error| panic!("call {n}, seed {seed}: {error}"));
            if config.archive.is_some() {
                check_records(read_kept(&reopen_with(after, config.clone()).log), Lsn(0), &model, sure.1);
            }
        }
    }
}

#[test]
fn any_call_may_fail() {
    for config in configs() {
        for n in 1..=calls_of_two_lives(&config) {
            for fault in FAULTS {
                let disk = Arc::new(SimDisk::new(3));
                disk.fail_at(n, fault);
                let (mut model, mut sure) = (Vec::new(), (Lsn(0), Lsn(0)));
                let _ = busy(&disk, &config, &mut model, &mut sure)
                    .and_then(|()| busy(&disk, &config, &mut model, &mut sure));
                let log = reopen_with(Arc::new(disk.crash(n)), config.clone());
                check_prefix(&log.log, sure.0, &model, sure.1);
                if config.archive.is_some() {
                    check_records(read_kept(&log.log), Lsn(0), &model, sure.1);
                }
            }
        }
    }
}

const FAULTS: [Fault; 5] = [
    Fault::Error(std::io::ErrorKind::Other),
    Fault::DiskFull,
    Fault::ShortWrite,
    Fault::SyncFails,
    Fault::NoDescriptor,
];

/// A caller that does not stop at the first error: what it is told is durable must be so all the same.
#[test]
fn who_goes_on_after_an_error_is_not_lied_to() {
    for n in 1..=150 {
        for fault in FAULTS {
            let disk = Arc::new(SimDisk::new(n));
            let log = TestLog::create(disk.clone(), SEGMENT, RING);
            disk.fail_at(disk.calls() + n, fault);
            let mut model = Vec::new();
            let mut sure = Lsn(0);
            for n in 0..60usize {
                let mut record = RecordBuilder::new();
                record.begin(RecordKind::Commit);
                let body = vec![n as u8; n * 31 % 1500];
                record.raw(&body);
                record.finish_body();
                let Ok(lsn) = log.append(&mut record, me(1)) else { continue };
                model.push((lsn, body));
                match n % 4 {
                    0 => drop(log.log.prepare_next(me(1))),
                    1 => drop(log.log.hand_over(lsn, me(1))),
                    2 if log.log.make_durable(lsn, me(1)).is_ok() => sure = lsn,
                    _ => {}
                }
            }
            for seed in 0..8 {
                let log = reopen(Arc::new(disk.crash(seed)));
                check_prefix(&log.log, Lsn(0), &model, sure);
            }
        }
    }
}

/// The files beyond a torn end are set aside one by one; the power may fail at each.
#[test]
fn a_start_that_is_cut_short_leaves_no_gap() {
    let disk = Arc::new(SimDisk::new(1));
    let log = TestLog::create(disk.clone(), SEGMENT, RING);
    let first = log.put(b"key", b"durable", me(1)).unwrap();
    log.log.make_durable(first, me(1)).unwrap();
    for _ in 0..4 {
        let lsn = log.put(b"key", &[1; 7000], me(1)).unwrap();
        log.log.hand_over(lsn, me(1)).unwrap();
    }
    let torn = disk.crash_as(Survival::Nothing, 1);
    assert!(torn.list(Path::new("log")).unwrap().len() >= 4);
    for n in 0..60 {
        for seed in 0..20 {
            // A crash of an unharmed disk is a copy of it.
            let disk = Arc::new(torn.crash(0));
            let log = reopen(disk.clone());
            disk.crash_at(disk.calls() + n);
            let _ = go_on(&log.log, Lsn(0));
            let log = reopen(Arc::new(disk.crash(seed)));
            let (records, end) =
                read_all(&log.log, Lsn(0)).unwrap_or_else(|error| panic!("call {n}, seed {seed}: {error}"));
            assert_eq!(records.len(), 1);
            assert_eq!(end.lsn, first);
            go_on(&log.log, Lsn(0)).unwrap();
        }
    }
}

/// A flush fails; what it was to make durable is read all the same by the process that opens the log again,
/// from the page cache, and built upon; then something goes wrong there too, and the power fails. Whatever
/// the second one believed, the third finds what was promised.
#[test]
fn what_only_a_failed_flush_left_behind_is_not_built_upon() {
    for config in configs() {
        let calls = calls_of_two_lives(&config);
        // Names whose flush failed while the log was made are never durable, and no program can know which.
        let new = Arc::new(SimDisk::new(1));
        go_on(&reopen_with(new.clone(), config.clone()).log, Lsn(0)).unwrap();
        // Every place for the first failure would take too long: the flushes are spread over all the calls.
        for first in (new.calls() + 1..calls).step_by(7) {
            for second in 0..45 {
                let disk = Arc::new(SimDisk::new(first));
                disk.fail_at(first, Fault::SyncFails);
                let (mut model, mut sure) = (Vec::new(), (Lsn(0), Lsn(0)));
                let _ = busy(&disk, &config, &mut model, &mut sure)
                    .and_then(|()| busy(&disk, &config, &mut model, &mut sure));
                disk.clear_faults();
                let wrong = |what: &str, error: Error| -> ! {
                    panic!("{config:?}, {first}, {second}: {what}: {error}")
                };
                let found = |disk: &Arc<SimDisk>, model: &mut Vec<(Lsn, Vec<u8>)>, sure: (Lsn, Lsn)| {
                    let log = reopen_with(disk.clone(), config.clone());
                    let (_, end) = check_prefix(&log.log, sure.0, model, sure.1);
                    model.retain(|(lsn, _)| *lsn <= end);
                    log
                };
                // Cut short, or with another failed flush.
                if second % 2 == 0 {
                    disk.crash_at(disk.calls() + second);
                } else {
                    disk.fail_at(disk.calls() + second, Fault::SyncFails);
                }
                let _ = TestLog::open(Some(disk.clone()), Path::new("log"), config.clone(), RING)
                    .and_then(|log| go_on(&log.log, sure.0));
                disk.clear_faults();
                // Once without a power failure in between, once at once.
                let mut lost = model.clone();
                let third = Arc::new(disk.crash(second));
                let log = found(&third, &mut lost, sure);
                go_on(&log.log, sure.0).unwrap_or_else(|error| wrong("after a power failure", error));
                drop(log);
                let log = found(&disk, &mut model, sure);
                go_on(&log.log, sure.0).unwrap_or_else(|error| wrong("going on", error));
                let end = model.last().map_or(sure.1, |(lsn, _)| *lsn);
                drop(log);
                let log = reopen_with(Arc::new(disk.crash(second)), config.clone());
                check_prefix(&log.log, sure.0, &model, end);
            }
        }
    }
}
