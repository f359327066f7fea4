//! Berkeley DB 11g Release 2 white paper (Oracle, 2011): records of 64 + 64 bytes, visited in runs of ten.
//!
//! A database of 57,600 batches, each of ten consecutive keys, is loaded, which is not timed and warms the
//! cache; then all records are fetched, updated, deleted and inserted again, batch after batch in a random
//! order, each write a transaction of its own. Timed is each step as a whole, without opening and closing.
//! Everything is done five times; figures are means, with standard deviations, as in the paper.
//!
//! The paper measures DS, the Data Store, and TDS, the transactional one, which
//!
//! | | is |
//! |---|---|
//! | SYNC | flushes every commit |
//! | RAMDISK | the same, with database and log on a RAM disk |
//! | WNS | gives every commit to the operating system |
//! | NS | keeps commits in the log buffer, of 128 MB |
//! | INMEM | has its log in memory alone |
//!
//! and SYNC also by 2 to 16 threads, each with a handle of its own. There the writing steps visit fewer
//! batches than there are, or they would take hours: the tables say how many. What was deleted is looked at
//! before it is inserted again, and everything at the end, outside of the time.

use std::path::Path;

use crate::beside::{Figure, Line, Said, Table};
use crate::contestant::DEVICE;
use crate::field::{Field, Outcome};
use crate::grid::thousands;
use crate::place;
use crate::protocol::{Kind, Mode};
use crate::session::{Session, Step};
use crate::shape::Shape;
use crate::workload::Keys;
use crate::{Options, Report, Suite};

/// As many as the paper's.
pub(crate) const ROUNDS: u32 = 5;

/// Keys of a batch.
const TOGETHER: u64 = 10;
const BATCHES: u64 = 57_600;
const BATCHES_QUICK: u64 = 5_760;

/// Batches that are written where each commit is flushed.
const BATCHES_FLUSHED: u64 = 200;
const BATCHES_FLUSHED_QUICK: u64 = 16;

const SHAPE: Shape = Shape::new(64, 64, 64, false);
const CACHE_BYTES: u64 = 512 << 20;
const LOG_BUFFER_BYTES: u64 = 128 << 20;

/// The operations as the paper orders them: in the log of a disk, and on a RAM disk.
const OPS: [&str; 4] = ["insert", "fetch", "delete", "update"];
const OPS_IN_MEMORY: [&str; 4] =
    ["insert, RAM disk", "fetch, RAM disk", "delete, RAM disk", "update, RAM disk"];

/// The paper's configurations of one thread, with what it did: insert, fetch, delete, update.
const CONFIGURATIONS: [(&str, Mode, [&str; 4], [f64; 4]); 6] = [
    ("DS", Mode::Ds, OPS, [208_139.0, 264_665.0, 158_506.0, 250_297.0]),
    ("TDS SYNC", Mode::Sync, OPS, [693.0, 159_837.0, 831.0, 1_732.0]),
    ("TDS RAMDISK", Mode::Sync, OPS_IN_MEMORY, [49_673.0, 162_848.0, 44_279.0, 60_973.0]),
    ("TDS WNS", Mode::WriteNoSync, OPS, [37_664.0, 160_307.0, 36_110.0, 52_922.0]),
    ("TDS NS", Mode::NoSync, OPS, [53_199.0, 159_980.0, 49_340.0, 86_960.0]),
    ("TDS INMEM", Mode::Memory, OPS, [66_435.0, 163_229.0, 58_845.0, 97_602.0]),
];

/// The paper's SYNC by threads.
const THREADS: [(u32, [f64; 4]); 7] = [
    (1, [693.0, 159_837.0, 831.0, 1_732.0]),
    (2, [647.0, 106_196.0, 767.0, 1_634.0]),
    (3, [690.0, 126_762.0, 863.0, 1_909.0]),
    (4, [721.0, 134_581.0, 882.0, 2_085.0]),
    (8, [859.0, 128_928.0, 967.0, 2_497.0]),
    (12, [930.0, 112_735.0, 1_013.0, 2_658.0]),
    (16, [968.0, 99_860.0, 1_085.0, 2_837.0]),
];

/// Of these, how many threads are measured in a hurry.
const THREADS_QUICK: [u32; 3] = [1, 4, 16];

/// How many there are of everything.
#[derive(Clone, Copy, Debug)]
struct Plan {
    batches: u64,
    batches_flushed: u64,
    cache_bytes: u64,
    /// Whether the cache is meant to hold all records.
    in_cache: bool,
    quick: bool,
}

impl Plan {
    fn new(options: &Options) -> Plan {
        let usual = if options.quick { BATCHES_QUICK } else { BATCHES };
        let batches = options.records.map_or(usual, |records| records.div_ceil(TOGETHER).max(1));
        let flushed = if options.quick { BATCHES_FLUSHED_QUICK } else { BATCHES_FLUSHED };
        Plan {
            batches,
            batches_flushed: batches.min(flushed),
            cache_bytes: options.cache.unwrap_or(CACHE_BYTES),
            in_cache: options.cache.is_none(),
            quick: options.quick,
        }
    }

    /// The paper's figures of SYNC that are measured.
    fn threads(self) -> impl Iterator<Item = (u32, [f64; 4])> {
        THREADS.into_iter().filter(move |(threads, _)| !self.quick || THREADS_QUICK.contains(threads))
    }

    /// One configuration: all steps on a database of its own.
    fn session(
        self,
        mode: Mode,
        threads: u32,
        [insert, fetch, delete, update]: [&'static str; 4],
    ) -> Session {
        let is_flushed = mode == Mode::Sync && insert == OPS[0];
        let visits = TOGETHER * if is_flushed { self.batches_flushed } else { self.batches };
        let write = |kind, op| Step { op, visits, ..Step::new(kind, 1, 0.0) };
        Session {
            threads,
            in_cache: self.in_cache,
            log_buffer: LOG_BUFFER_BYTES,
            shape: SHAPE,
            together: TOGETHER,
            steps: vec![
                Step::aside(Kind::Load),
                Step { op: fetch, ..Step::new(Kind::Read, 1, 0.0) },
                write(Kind::Update, update),
                write(Kind::Delete, delete),
                Step::aside(Kind::Bulk),
                write(Kind::Write, insert),
                Step::aside(Kind::Bulk),
            ],
            ..Session::new(mode, Keys::Random, self.batches * TOGETHER, self.cache_bytes)
        }
    }
}

/// Runs the suite.
pub(crate) fn run(options: &Options, field: Field<'_>) -> Report {
    let plan = Plan::new(options);
    let Field { mut contestants, dir, rounds, progress } = field;
    // It can only be overwritten.
    contestants.retain(|contestant| contestant.name() != DEVICE);
    let mut measure = |dir: &Path, sessions: &[Session]| {
        let contestants = contestants.clone();
        Field { contestants, dir, rounds, progress: &mut *progress }.run(sessions)
    };
    let (in_memory, on_disk): (Vec<_>, Vec<_>) =
        CONFIGURATIONS.iter().partition(|(_, _, ops, _)| *ops == OPS_IN_MEMORY);
    let several = plan.threads().skip(1).map(|(threads, _)| plan.session(Mode::Sync, threads, OPS));
    let of_one = |&(_, mode, ops, _): &(_, _, _, _)| plan.session(mode, 1, ops);
    let mut outcome = measure(dir, &on_disk.into_iter().map(of_one).chain(several).collect::<Vec<_>>());
    match place::in_memory() {
        Ok(place) => {
            let sessions: Vec<_> = in_memory.into_iter().map(of_one).collect();
            outcome.append(measure(place.path(), &sessions));
        }
        Err(why) => outcome.notes.push(format!("TDS RAMDISK is skipped: {why}")),
    }
    report(plan, rounds, outcome)
}

fn report(plan: Plan, rounds: u32, outcome: Outcome) -> Report {
    let head = format!(
        "{} batches of {TOGETHER} records of 64 + 64 bytes, {} MB of cache",
        thousands(plan.batches as f64),
        plan.cache_bytes >> 20
    );
    let flushed = format!(
        "Where commits are flushed to the disk, {} batches are updated, deleted and inserted again.",
        thousands(plan.batches_flushed as f64)
    );
    let of_one = Table {
        unit: format!("operations a second, mean and standard deviation of {rounds}"),
        paper: Some("paper, 2011".to_owned()),
        figure: Figure::Mean,
        lines: lines_of_one(),
        remarks: vec![flushed],
        ..Table::new(head.clone(), rounds)
    };
    let by_threads = Table {
        title: format!("TDS SYNC by threads, {head}"),
        axis: Some("threads".to_owned()),
        lines: lines_by_threads(plan),
        ..of_one.clone()
    };
    Report::of(Suite::Wp11g, Some(plan.cache_bytes), outcome, vec![of_one, by_threads])
}

fn lines_of_one() -> Vec<Line> {
    let mut lines = Vec::new();
    for (name, mode, ops, paper) in CONFIGURATIONS {
        lines.extend((0..OPS.len()).map(|i| line((name, OPS[i]), mode, ops[i], 1, paper[i])));
    }
    lines
}

fn lines_by_threads(plan: Plan) -> Vec<Line> {
    let of = |i: usize| {
        plan.threads()
            .map(move |(threads, paper)| line(("TDS SYNC", OPS[i]), Mode::Sync, OPS[i], threads, paper[i]))
    };
    (0..OPS.len()).flat_map(of).collect()
}

fn line((name, what): (&str, &str), mode: Mode, op: &'static str, threads: u32, paper: f64) -> Line {
    Line::new(format!("{name} {what}"), mode, op).threads(threads).paper(Said::Figure(paper))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan =
        Plan { batches: 50, batches_flushed: 2, cache_bytes: 1 << 20, in_cache: true, quick: false };

    #[test]
    fn every_line_is_measured_once() {
        for plan in [PLAN, Plan { quick: true, ..PLAN }] {
            let of_one = CONFIGURATIONS.iter().map(|&(_, mode, ops, _)| plan.session(mode, 1, ops));
            let several = plan.threads().skip(1).map(|(threads, _)| plan.session(Mode::Sync, threads, OPS));
            let sessions: Vec<Session> = of_one.chain(several).collect();
            for line in lines_of_one().iter().chain(&lines_by_threads(plan)) {
                let measured = sessions.iter().filter(|session| {
                    let has_step = session.steps.iter().any(|step| step.op == line.op && !step.is_aside);
                    session.mode == line.mode && session.threads == line.threads && has_step
                });
                assert_eq!(measured.count(), 1, "{line:?}");
            }
        }
    }

    #[test]
    fn only_what_is_flushed_to_the_disk_is_written_in_part() {
        for (name, mode, ops, _) in CONFIGURATIONS {
            let session = PLAN.session(mode, 1, ops);
            let written: Vec<u64> = session
                .steps
                .iter()
                .filter(|step| matches!(step.kind, Kind::Update | Kind::Delete | Kind::Write))
                .map(|step| step.visits)
                .collect();
            assert_eq!(written, [if name == "TDS SYNC" { 20 } else { 500 }; 3], "{name}");
        }
    }
}
