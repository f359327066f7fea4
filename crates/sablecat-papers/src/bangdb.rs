//! BangDB's figures, of its embedded flavour, about 2012: keys of 20 random bytes, values of 100 to 400
//! bytes, pages of 8 KB, four threads, ordered (*btree*) and hashed (*hash*).
//!
//! | | is |
//! |---|---|
//! | log on | commits stay in the process, a thread flushes them every 50 ms, every 4 s there is a checkpoint |
//! | log off | nothing is logged; threads still work side by side |
//! | normal | all records are in the pool: they are inserted one by one, and then looked up |
//! | stressed | the pool has room for half of them, log on: records are looked up, and then given new values |
//! | totally stressed | the same with room for a fifth and a tenth |
//!
//! The paper has figures of the normal condition, and asks of the others that performance degrade gracefully
//! as the data outgrow the pool. So there is a curve of it. A pool is warm when it is measured: for a while
//! records are looked up, untimed, beforehand.
//!
//! The operating system's cache would hide the disk. Systems that can transfer directly do (ours, RocksDB,
//! WiredTiger); of the others' files the system is asked many times a second to drop what it has. That does
//! not reach what is mapped (LMDB, LevelDB): these have their memory limited, to the pool and 128 MB beside
//! it, where this process may set limits. Where it may not they have all data in memory: they are shown, and
//! are not measured against.

use crate::beside::{Line, Said, Table};
use crate::contestant::{HASH, LSM, MAPS_FILES, OURS};
use crate::field::Field;
use crate::grid::thousands;
use crate::memory_limit::MemoryLimit;
use crate::mix::Mix;
use crate::protocol::{Kind, Mode};
use crate::session::{BESIDE_CACHE_BYTES, Session, Step};
use crate::shape::Shape;
use crate::workload::Keys;
use crate::{Options, Report, Suite};

const SHAPE: Shape = Shape::new(20, 100, 400, true);
const PAGE_SIZE: u32 = 8 << 10;
const THREADS: u32 = 4;

const RECORDS: u64 = 1_000_000;
const RECORDS_QUICK: u64 = 50_000;

/// Times the records that a pool is which holds all of them: pages are not full, and versions need room.
const NORMAL_TIMES: u64 = 4;
const CACHE_BYTES_MIN: u64 = 32 << 20;

/// The modes of the two columns, with what the paper did in them: btree's writes and reads, and hash's.
const LOGS: [(&str, Mode, [f64; 4]); 2] = [
    ("log on", Mode::Background, [475_000.0, 1_025_000.0, 500_000.0, 1_690_000.0]),
    ("log off", Mode::Unlogged, [685_000.0, 1_045_000.0, 790_000.0, 1_675_000.0]),
];

/// Data larger than the pool, or not: times, reads, writes, and whether it is measured in a hurry.
const POOLS: [(f64, &str, &str, bool); 5] = [
    (0.25, "read, pool 4x the data", "write, pool 4x the data", false),
    (1.0, "read, pool as the data", "write, pool as the data", false),
    (2.0, "read, stressed", "write, stressed", true),
    (5.0, "read, data 5x the pool", "write, data 5x the pool", false),
    (10.0, "read, totally stressed", "write, totally stressed", true),
];

/// Operations of a mix that are drawn for each second that it may last.
const OPERATIONS_A_SECOND: f64 = 4e6;

/// Runs the suite.
pub(crate) fn run(options: &Options, mut field: Field<'_>) -> Report {
    let records = options.records.unwrap_or(if options.quick { RECORDS_QUICK } else { RECORDS }).max(1);
    let data = records * SHAPE.record_bytes();
    let pool = options.cache.unwrap_or((data * NORMAL_TIMES).max(CACHE_BYTES_MIN));
    let base = Session {
        threads: THREADS,
        in_cache: options.cache.is_none(),
        page_size: PAGE_SIZE,
        shape: SHAPE,
        ..Session::new(Mode::Background, Keys::Random, records, pool)
    };
    let normal = LOGS.map(|(_, mode, _)| in_the_pool(&base, mode, options.quick));
    let mut outcome = field.run(&normal);
    let pools = pools(options.quick);
    let stressed: Vec<Session> =
        pools.iter().map(|pool| stressed(&base, data, *pool, options.quick)).collect();
    outcome.append(field.run(&stressed));

    let head = format!(
        "{} records of 20 + 100 to 400 bytes, {THREADS} threads, pages of 8 KB",
        thousands(records as f64)
    );
    let normal = Table {
        paper: Some("paper, about 2012".to_owned()),
        lines: lines_in_the_pool(),
        ..Table::new(format!("normal: {head}, a pool of {} MB", pool >> 20), field.rounds)
    };
    let mapped = MAPS_FILES.join(" and ");
    let is_limited = MemoryLimit::is_possible();
    let by_pool = Table {
        axis: Some("data / pool".to_owned()),
        apart: if is_limited { Vec::new() } else { MAPS_FILES.map(str::to_owned).into() },
        lines: lines_by_pool(&pools),
        remarks: vec![
            "sablecat, RocksDB and WiredTiger transfer directly; of the others' files the system drops what \
             it caches while they are measured."
                .to_owned(),
            "LevelDB, RocksDB and fjall have their memtables on top of the pool, of a quarter of it and 4 \
             MB at least."
                .to_owned(),
            if is_limited {
                format!(
                    "{mapped} have their files mapped: their processes have the pool and {} MB of memory, \
                     with what is mapped and cached, and the list of what they are to do.",
                    BESIDE_CACHE_BYTES >> 20
                )
            } else {
                format!(
                    "{mapped} have their files mapped, and so all data in memory, since no limit could be \
                     set (a memory control group): they are not measured against."
                )
            },
        ],
        ..Table::new(format!("stressed: {head}, {} MB of records, log on", data >> 20), field.rounds)
    };
    Report::of(Suite::Bangdb, Some(pool), outcome, vec![normal, by_pool])
}

type Pool = (f64, &'static str, &'static str, bool);

fn pools(quick: bool) -> Vec<Pool> {
    POOLS.into_iter().filter(|(.., in_a_hurry)| !quick || *in_a_hurry).collect()
}

/// Records are inserted, looked up, and looked at as a whole.
fn in_the_pool(base: &Session, mode: Mode, quick: bool) -> Session {
    let seconds_max = if quick { 0.03 } else { 10.0 };
    let steps =
        vec![Step::new(Kind::Write, 1, 0.0), Step::new(Kind::Read, 10, seconds_max), Step::aside(Kind::Bulk)];
    Session { mode, steps, ..base.clone() }
}

/// Records that were loaded are looked up and given new values, in a pool with room for some of them.
fn stressed(base: &Session, data: u64, (times, read, write, _): Pool, quick: bool) -> Session {
    let seconds_max = if quick { 0.03 } else { 3.0 };
    let step = |op, read| {
        let operations = (seconds_max * OPERATIONS_A_SECOND) as u64;
        let mix = Mix::lookups_and_updates(read, operations);
        Step { op, mix: Some(mix), ..Step::new(Kind::Mix, 1, seconds_max) }
    };
    Session {
        cache_bytes: (data as f64 / times) as u64,
        in_cache: false,
        loaded: true,
        uncached: true,
        steps: vec![Step { is_aside: true, ..step(read, 100) }, step(read, 100), step(write, 0)],
        ..base.clone()
    }
}

fn lines_in_the_pool() -> Vec<Line> {
    let of = |(log, mode, [btree_write, btree_read, hash_write, hash_read]): (&str, Mode, [f64; 4])| {
        let line = |method: &str, ours: &str, kind: Kind, paper| Line {
            ours: ours.to_owned(),
            ..Line::new(format!("{method} {}, {log}", kind.name()), mode, kind.name())
                .threads(THREADS)
                .paper(Said::Figure(paper))
        };
        [
            line("btree", OURS, Kind::Write, btree_write),
            line("btree", OURS, Kind::Read, btree_read),
            line("hash", HASH, Kind::Write, hash_write),
            line("hash", HASH, Kind::Read, hash_read),
        ]
    };
    LOGS.into_iter().flat_map(of).collect()
}

fn lines_by_pool(pools: &[Pool]) -> Vec<Line> {
    type Pick = fn(&Pool) -> &'static str;
    let of = |label: &'static str, ours: &'static str, pick: Pick| {
        pools.iter().map(move |pool| Line {
            at: pool.0,
            ours: ours.to_owned(),
            ..Line::new(label, Mode::Background, pick(pool)).threads(THREADS)
        })
    };
    let (read, write): (Pick, Pick) = (|pool| pool.1, |pool| pool.2);
    of("read", OURS, read)
        .chain(of("write", OURS, write))
        .chain(of("read, LSM tree", LSM, read))
        .chain(of("write, LSM tree", LSM, write))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_measured_by_a_session() {
        let base = Session { shape: SHAPE, threads: THREADS, ..Session::new(Mode::Ds, Keys::Random, 100, 1) };
        for quick in [false, true] {
            let normal = LOGS.map(|(_, mode, _)| in_the_pool(&base, mode, quick));
            let pools = pools(quick);
            let base = Session { mode: Mode::Background, ..base.clone() };
            let stressed = pools.iter().map(|pool| stressed(&base, 27_000, *pool, quick));
            let sessions: Vec<Session> = normal.into_iter().chain(stressed).collect();
            for line in lines_in_the_pool().iter().chain(&lines_by_pool(&pools)) {
                let measured = sessions.iter().filter(|session| {
                    let has_step = session.steps.iter().any(|step| step.op == line.op && !step.is_aside);
                    session.mode == line.mode && session.threads == line.threads && has_step
                });
                assert_eq!(measured.count(), 1, "{line:?}");
            }
        }
    }

    #[test]
    fn a_pool_is_a_part_of_the_data() {
        let base = Session::new(Mode::Background, Keys::Random, 100, 1);
        let pools = POOLS.map(|pool| stressed(&base, 27_000, pool, true).cache_bytes);
        assert_eq!(pools, [108_000, 27_000, 13_500, 5400, 2700]);
    }
}
