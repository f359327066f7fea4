//! YCSB's core workloads A to F (Cooper and others, "Benchmarking Cloud Serving Systems with YCSB", 2010), on
//! embedded stores.
//!
//! Records of a thousand bytes, with keys that are scattered, are loaded one by one, and then asked for by
//!
//! | | operations | of records |
//! |---|---|---|
//! | A | half lookups, half updates | zipfian |
//! | B | 95 % lookups, 5 % updates | zipfian |
//! | C | lookups | zipfian |
//! | D | 95 % lookups, 5 % insertions | latest |
//! | E | 95 % scans of 1 to 100 records, 5 % insertions | zipfian |
//! | F | half lookups, half lookups with an update after each | zipfian |
//!
//! and besides by A and C with every record wanted alike, to show what it is that the skew brings. Updates
//! write whole records. A commit is with the operating system when it returns, which is what most stores do
//! unless asked otherwise. As YCSB advises, one database serves the load and A, B, C, F and D in this order,
//! another one E; both are counted and looked at as a whole at the end, outside of the time. Hash tables have
//! no E.
//!
//! What is drawn, and how, is said in [`crate::mix`].

use crate::beside::{Line, Table};
use crate::contestant::DEVICE;
use crate::field::Field;
use crate::grid::thousands;
use crate::mix::{Mix, Pick};
use crate::protocol::{Kind, Mode};
use crate::session::{Session, Step};
use crate::shape::Shape;
use crate::workload::Keys;
use crate::{Options, Report, Suite};

const SHAPE: Shape = Shape::new(24, 1000, 1000, true);

const MODE: Mode = Mode::WriteNoSync;

const THREADS: [u32; 3] = [1, 2, 4];

const RECORDS: u64 = 200_000;
const RECORDS_QUICK: u64 = 10_000;

/// Times the data that the cache is, so that it holds them however full the pages are, and old versions too.
const CACHE_TIMES: u64 = 4;
const CACHE_BYTES_MIN: u64 = 64 << 20;

/// The loading, as it is shown.
const LOAD: &str = "load";

/// The workloads, in the order in which one database serves them.
const WORKLOADS: [(&str, Mix); 7] = [
    ("A", of(Pick::Zipfian, [50, 50, 0, 0, 0])),
    ("A, uniform", of(Pick::Uniform, [50, 50, 0, 0, 0])),
    ("B", of(Pick::Zipfian, [95, 5, 0, 0, 0])),
    ("C", of(Pick::Zipfian, [100, 0, 0, 0, 0])),
    ("C, uniform", of(Pick::Uniform, [100, 0, 0, 0, 0])),
    ("F", of(Pick::Zipfian, [50, 0, 0, 0, 50])),
    ("D", of(Pick::Latest, [95, 0, 5, 0, 0])),
];

/// The one that has a database of its own.
const SCANS: (&str, Mix) = ("E", of(Pick::Zipfian, [0, 0, 5, 95, 0]));

/// Operations of a lookup or so in the time that one scan takes.
const SCAN_TIMES: u64 = 10;

const fn of(pick: Pick, [read, update, insert, scan, modify]: [u32; 5]) -> Mix {
    Mix { read, update, insert, scan, modify, pick, operations: 0, whole: false }
}

/// Runs the suite.
pub(crate) fn run(options: &Options, mut field: Field<'_>) -> Report {
    let records = options.records.unwrap_or(if options.quick { RECORDS_QUICK } else { RECORDS }).max(1);
    let cache_bytes =
        options.cache.unwrap_or_else(|| (records * SHAPE.record_bytes() * CACHE_TIMES).max(CACHE_BYTES_MIN));
    let base = Session {
        in_cache: options.cache.is_none(),
        shape: SHAPE,
        ..Session::new(MODE, Keys::Random, records, cache_bytes)
    };
    // The disk can only be overwritten.
    field.contestants.retain(|contestant| contestant.name() != DEVICE);
    let all = THREADS.map(|threads| in_turn(&Session { threads, ..base.clone() }, options.quick));
    let mut outcome = field.run(&all);
    field.contestants.retain(|contestant| !contestant.name().ends_with("-hash"));
    let scans = THREADS.map(|threads| scanned(&Session { threads, ..base.clone() }, options.quick));
    outcome.append(field.run(&scans));

    let title = format!(
        "{} records of {} bytes, {} MB of cache",
        thousands(records as f64),
        SHAPE.record_bytes(),
        cache_bytes >> 20
    );
    let table = Table { axis: Some("threads".to_owned()), lines: lines(), ..Table::new(title, field.rounds) };
    Report::of(Suite::Ycsb, Some(cache_bytes), outcome, vec![table])
}

/// The load and the workloads that one database serves.
fn in_turn(base: &Session, quick: bool) -> Session {
    let mut steps = vec![Step { op: LOAD, ..Step::new(Kind::Write, 1, 0.0) }];
    steps.extend(WORKLOADS.map(|workload| step(base, workload, quick)));
    steps.push(Step::aside(Kind::Bulk));
    Session { steps, ..base.clone() }
}

/// Scans, of a database that is loaded for it.
fn scanned(base: &Session, quick: bool) -> Session {
    let (name, mix) = SCANS;
    let scans = Session { records: base.records.div_ceil(SCAN_TIMES), ..base.clone() };
    let steps = vec![Step::aside(Kind::Load), step(&scans, (name, mix), quick), Step::aside(Kind::Bulk)];
    Session { steps, ..base.clone() }
}

/// As many operations as there are records, and again; or as many as can be done in the time.
fn step(base: &Session, (op, mix): (&'static str, Mix), quick: bool) -> Step {
    let mix = Some(Mix { operations: 2 * base.records, ..mix });
    let seconds_max = if quick { 0.15 } else { 5.0 };
    Step { op, mix, ..Step::new(Kind::Mix, 1, seconds_max) }
}

fn lines() -> Vec<Line> {
    let ops = [LOAD].into_iter().chain(WORKLOADS.map(|(op, _)| op)).chain([SCANS.0]);
    ops.flat_map(|op| THREADS.map(|threads| Line::new(op, MODE, op).threads(threads))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_is_whole_and_measured_by_a_session() {
        let base = Session { shape: SHAPE, ..Session::new(MODE, Keys::Random, 100, 1 << 20) };
        let sessions = [in_turn(&base, true), scanned(&base, false)];
        for (op, mix) in WORKLOADS.into_iter().chain([SCANS]) {
            mix.check().unwrap();
            let steps = sessions.iter().flat_map(|session| &session.steps);
            let found: Vec<_> = steps.filter(|step| step.op == op).collect();
            assert!(matches!(found[..], [Step { mix: Some(Mix { operations: 20.., .. }), .. }]), "{op}");
        }
        assert_eq!(lines().len(), 27);
    }
}
