//! Berkeley DB on Solid Data's storage, 2002: a database on a disk, and on memory behind a file system.
//!
//! | | is |
//! |---|---|
//! | benchmark 1 | 50 threads; each looks up a record of 10 bytes, changes part of it and writes it back, in one transaction |
//! | benchmark 2 | 100 threads, records of 200 bytes; of five operations four look a record up and one writes it |
//!
//! Every commit is durable when it returns; log and data are on the same device. The paper's solid-state
//! device is memory that writes itself to a disk when power fails. Here it is a file system in memory, in
//! which sablecat holds its environment, with an image on the disk beside ([`sablecat::Builder::held_in`]):
//! how long writing that and loading it takes is told below the table. The others have files there, which are
//! lost when the machine crashes.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use sablecat::Env;
use sablecat_os::interrupt;

use crate::beside::{Line, Said, Table};
use crate::contestant::{DEVICE, has_transactions};
use crate::field::{Field, Outcome};
use crate::grid::thousands;
use crate::mix::{Mix, Pick};
use crate::place;
use crate::protocol::{Kind, Mode};
use crate::session::{Session, Step};
use crate::shape::{KEY_BYTES_MAX, Shape, VALUE_BYTES_MAX};
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
        let mut measure = |dir: &Path, op, images| {
            let session = Session { images, ..session(benchmark, op, records, cache_bytes, options) };
            let contestants = contestants.clone();
            Field { contestants, dir, rounds, progress: &mut *progress }.run(&[session])
        };
        outcome.append(measure(dir, benchmark.on_disk.0, None));
        if let Ok(memory) = &in_memory {
            outcome.append(measure(memory.path(), benchmark.in_memory.0, Some(dir.join("images"))));
        }
    }
    let image = match &in_memory {
        Err(why) => {
            outcome.notes.push(format!("What runs in memory is skipped: {why}"));
            None
        }
        // A user that asked for an end has not asked for this.
        Ok(_) if interrupt::is_asked() => None,
        Ok(memory) => {
            match Image::of(&memory.path().join("held"), &dir.join("image"), records, cache_bytes) {
                Ok(image) => Some(image.said()),
                Err(error) => {
                    outcome.problems.push(format!("the image of an environment held in memory: {error}"));
                    None
                }
            }
        }
    };
    let title = format!(
        "{} records of 16 + 10 and 16 + 200 bytes, each commit durable, {} MB of cache",
        thousands(records as f64),
        cache_bytes >> 20
    );
    let table = Table {
        unit: format!("transactions a second, medians of {rounds}"),
        paper: Some("paper, 2002".to_owned()),
        lines: lines(),
        remarks: [
            "The paper's device writes its memory to a disk when power fails. So does an environment of \
             sablecat's that is held in memory, when it is told; what the peers have in memory here is lost \
             with it."
                .to_owned(),
            "LevelDB and hash tables without transactions are not in benchmark 1.".to_owned(),
        ]
        .into_iter()
        .chain(image)
        .collect(),
        ..Table::new(title, rounds)
    };
    Report::of(Suite::Soliddata, Some(cache_bytes), outcome, vec![table])
}

/// What it takes to write the image of an environment that is held in memory, and to have it from there
/// again.
#[derive(Clone, Copy, Debug)]
struct Image {
    bytes: u64,
    flushing: Duration,
    loading: Duration,
}

impl Image {
    /// Of one with the records of the second benchmark. Both directories are new ones.
    ///
    /// # Errors
    /// A sentence; also if not all records are there again.
    fn of(memory: &Path, dir: &Path, records: u64, cache_bytes: u64) -> Result<Image, String> {
        let say = |error: sablecat::Error| error.to_string();
        let open = || Env::builder().cache_size(cache_bytes).held_in(memory).open(dir).map_err(say);
        let env = open()?;
        let database = env.database("records").map_err(say)?;
        let shape = BENCHMARKS[1].shape;
        let (mut key_bytes, mut value_bytes) = ([0; KEY_BYTES_MAX], [0; VALUE_BYTES_MAX]);
        for key in 0..records {
            let value = shape.value(key, 0, &mut value_bytes);
            database.insert(shape.key(key, &mut key_bytes), value).map_err(say)?;
        }
        let begun = Instant::now();
        let bytes = env.flush_image().map_err(say)?.bytes;
        let flushing = begun.elapsed();
        drop(database);
        env.close().map_err(say)?;
        // As when the machine has started again.
        fs::remove_dir_all(memory).map_err(|error| format!("cannot remove {}: {error}", memory.display()))?;
        let begun = Instant::now();
        let env = open()?;
        let loading = begun.elapsed();
        let found = env.database("records").and_then(|database| database.len()).map_err(say)?;
        env.close().map_err(say)?;
        if found != records {
            return Err(format!("of {records} records {found} were in it"));
        }
        Ok(Image { bytes, flushing, loading })
    }

    fn said(self) -> String {
        format!(
            "The image of the second benchmark's records, {:.1} MB: written in {:.3} s, loaded in {:.3} s.",
            self.bytes as f64 / 1e6,
            self.flushing.as_secs_f64(),
            self.loading.as_secs_f64()
        )
    }
}

fn session(
    benchmark: &Benchmark,
    op: &'static str,
    records: u64,
    cache_bytes: u64,
    options: &Options,
) -> Session {
    let seconds_max = if options.quick { 0.1 } else { 5.0 };
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
