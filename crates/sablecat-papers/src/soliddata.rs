//! Berkeley DB on Solid Data's storage, 2002: a database on a disk, and on memory behind a file system.
//!
//! | | is |
//! |---|---|
//! | benchmark 1 | 50 threads; each looks up a record of 10 bytes, changes part of it and writes it back, in one transaction |
//! | benchmark 2 | 100 threads, records of 200 bytes; of five operations four look a record up and one writes it |
//!
//! Every commit is durable when it returns; log and data are on the same device. The paper's solid-state
//! device keeps memory alive without power; here it is a file system in memory, which loses all at a crash of
//! the machine: it stands for the speed of such a device, and for nothing else.

use std::path::Path;

use crate::beside::{Line, Said, Table};
use crate::contestant::{DEVICE, has_transactions};
use crate::grid::thousands;
use crate::mix::{Mix, Pick};
use crate::place;
use crate::protocol::{Kind, Mode};
use crate::session::{Field, Outcome, Session, Step};
use crate::shape::Shape;
use crate::workload::Keys;
use crate::{Options, Report, Suite};

const RECORDS: u64 = 100_000;
const RECORDS_QUICK: u64 = 5_000;
const CACHE_BYTES: u64 = 128 << 20;

/// Operations that are drawn for each second that a run may last: more than any system does in memory.
const OPERATIONS_A_SECOND: f64 = 1e6;

/// A benchmark of the paper's.
#[derive(Clone, Copy, Debug)]
struct Benchmark {
    label: &'static str,
    threads: u32,
    shape: Shape,
    /// Shares of lookups, of updates, and of lookups with an update in one transaction.
    shares: [u32; 3],
    /// How its rows are labelled on a disk and in memory, and what the paper has of these.
    on_disk: (&'static str, f64),
    in_memory: (&'static str, f64),
}

const BENCHMARKS: [Benchmark; 2] = [
    Benchmark {
        label: "1: read, modify, write",
        threads: 50,
        shape: Shape::new(16, 10, 10, true),
        shares: [0, 0, 100],
        on_disk: ("1, disk", 849.0),
        in_memory: ("1, in memory", 3266.0),
    },
    Benchmark {
        label: "2: four reads, one write",
        threads: 100,
        shape: Shape::new(16, 200, 200, true),
        shares: [80, 20, 0],
        on_disk: ("2, disk", 100.0),
        in_memory: ("2, in memory", 1139.0),
    },
];

/// Runs the suite.
pub(crate) fn run(options: &Options, field: Field<'_>) -> Report {
    let records = options.records.unwrap_or(if options.quick { RECORDS_QUICK } else { RECORDS }).max(1);
    let cache_bytes = options.cache.unwrap_or(CACHE_BYTES);
    let Field { contestants, dir, rounds, progress } = field;
    let mut outcome = Outcome::default();
    let in_memory = place::in_memory();
    for benchmark in &BENCHMARKS {
        let wants_transactions = benchmark.shares[2] > 0;
        let contestants: Vec<_> = contestants
            .iter()
            .copied()
            .filter(|one| one.name() != DEVICE && (!wants_transactions || has_transactions(one.name())))
            .collect();
        let mut measure = |dir: &Path, op| {
            let session = session(benchmark, op, records, cache_bytes, options);
            let contestants = contestants.clone();
            Field { contestants, dir, rounds, progress: &mut *progress }.run(&[session])
        };
        outcome.append(measure(dir, benchmark.on_disk.0));
        if let Ok(memory) = &in_memory {
            outcome.append(measure(memory.path(), benchmark.in_memory.0));
        }
    }
    if let Err(why) = &in_memory {
        outcome.notes.push(format!("What runs in memory is skipped: {why}"));
    }
    let title = format!(
        "{} records of 16 + 10 and 16 + 200 bytes, each commit durable, {} MB of cache",
        thousands(records as f64),
        cache_bytes >> 20
    );
    let table = Table {
        unit: format!("transactions a second, medians of {rounds}"),
        paper: Some("paper, 2002".to_owned()),
        lines: lines(),
        remarks: vec![
            "The paper's device keeps its memory without power. What is in memory here is lost when the machine \
             crashes."
                .to_owned(),
            "LevelDB and hash tables without transactions are not in benchmark 1.".to_owned(),
        ],
        ..Table::new(title, rounds)
    };
    Report::of(Suite::Soliddata, Some(cache_bytes), outcome, vec![table])
}

fn session(
    benchmark: &Benchmark,
    op: &'static str,
    records: u64,
    cache_bytes: u64,
    options: &Options,
) -> Session {
    let seconds_max = if options.quick { 0.2 } else { 5.0 };
    let [read, update, modify] = benchmark.shares;
    let operations = (seconds_max * OPERATIONS_A_SECOND) as u64;
    let mix =
        Mix { read, update, modify, insert: 0, scan: 0, pick: Pick::Uniform, operations, whole: modify > 0 };
    Session {
        threads: benchmark.threads,
        in_cache: options.cache.is_none(),
        transactions: modify > 0,
        shape: benchmark.shape,
        steps: vec![
            Step::aside(Kind::Load),
            Step { op, mix: Some(mix), ..Step::new(Kind::Mix, 1, seconds_max) },
            Step::aside(Kind::Bulk),
        ],
        ..Session::new(Mode::Sync, Keys::Random, records, cache_bytes)
    }
}

fn lines() -> Vec<Line> {
    let of = |benchmark: &Benchmark| {
        [("disk", benchmark.on_disk), ("in memory", benchmark.in_memory)].map(|(place, (op, paper))| {
            Line::new(format!("{}, {place}", benchmark.label), Mode::Sync, op)
                .threads(benchmark.threads)
                .paper(Said::Figure(paper))
        })
    };
    BENCHMARKS.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_benchmarks_have_a_line_on_each_device() {
        for benchmark in BENCHMARKS {
            benchmark.shape.check().unwrap();
            assert_eq!(benchmark.shares.iter().sum::<u32>(), 100);
        }
        let lines: Vec<(String, u32)> = lines().into_iter().map(|line| (line.op, line.threads)).collect();
        let expected = [("1, disk", 50), ("1, in memory", 50), ("2, disk", 100), ("2, in memory", 100)];
        assert_eq!(lines, expected.map(|(op, threads)| (op.to_owned(), threads)));
    }
}
