//! An index beside what a program would do without one: records of 40 bytes are inserted in random order,
//! each in a transaction of its own, and found by the first eight bytes of their values too. Once an index
//! does that; once the program sets a second record in the same transaction, as it can where it knows that
//! there is no record yet; and once it first looks, as an index does, for a record that is replaced, of which
//! the second record goes. All take turns in this process.

use std::path::Path;
use std::time::Instant;

use sablecat::{Durability, Env, IndexOptions};
use sablecat_os::interrupt;

use super::own_session;
use crate::Options;
use crate::beside::Figure;
use crate::contestant::{OURS, Refusal};
use crate::field::{Field, Outcome};
use crate::grid::{Grid, ratio, thousands};
use crate::machine;
use crate::protocol::{Figures, Kind, Mode};
use crate::row::Row;
use crate::session::{Session, Step};
use crate::workload::{self, Keys, Order, Stage};
use crate::wp43::cache_for;

/// Twice as many records as elsewhere.
const CACHE_TIMES: u64 = 2;
/// A way to have a second record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Index,
    TwoPuts,
    GetAndPuts,
}

impl Way {
    const ALL: [Way; 3] = [Way::Index, Way::TwoPuts, Way::GetAndPuts];

    /// What it is shown as.
    fn name(self) -> &'static str {
        match self {
            Way::Index => OURS,
            Way::TwoPuts => "two puts",
            Way::GetAndPuts => "a get and two puts",
        }
    }
}

/// Bytes of a value that it is found by.
const FOUND_BY: usize = 8;

pub(super) fn secondary(options: &Options, field: &mut Field<'_>) -> (Grid, Outcome) {
    let records = options.records.unwrap_or(if options.quick { 50_000 } else { 500_000 });
    let cache = options.cache.unwrap_or_else(|| CACHE_TIMES * cache_for(records));
    let session = own_session(Mode::NoSync, records, cache);
    let mut outcome = Outcome::default();
    let title = format!(
        "an index: {} records of 40 bytes inserted in random order; transactions a second",
        thousands(records as f64)
    );
    let heads = [
        "environment",
        "an index",
        "two puts in a transaction",
        "index / two puts",
        "a get and two puts",
        "index / get and puts",
    ];
    let mut grid = Grid::new(title, heads, 1);
    field.progress.start(2 * Way::ALL.len() as u64 * u64::from(field.rounds));
    for (shared, name) in [(false, "private"), (true, "shared")] {
        let mut samples = [const { Vec::new() }; Way::ALL.len()];
        for round in (0..field.rounds).take_while(|_| !interrupt::is_asked()) {
            for (samples, way) in samples.iter_mut().zip(Way::ALL) {
                let shown = way.name();
                field.progress.step(shown);
                match once(&field.dir.join("secondary"), (way, shared), &session) {
                    Ok(figures) => samples.push(figures),
                    Err(refusal) => {
                        outcome
                            .problems
                            .push(format!("secondary, {name}, {shown}, round {round}: {refusal}"));
                    }
                }
            }
        }
        let step =
            Step { op: if shared { "insert, shared" } else { "insert" }, ..Step::new(Kind::Write, 1, 0.0) };
        let [index, puts, get_and_puts] = Way::ALL.map(|way| {
            let samples: Vec<_> = samples[way as usize].iter().collect();
            outcome.add(way.name(), &session, &step, &samples);
            outcome.rows.iter().rfind(|row| row.system == way.name() && row.op == step.op).cloned()
        });
        let cell = |row: &Option<Row>| Figure::Median.cell(row.as_ref());
        let share = |other: &Option<Row>| ratio(Figure::Median.share(index.as_ref(), other.as_ref()));
        let others = [puts, get_and_puts];
        let others = others.iter().flat_map(|other| [cell(other), share(other).into()]);
        grid.push([name.into(), cell(&index)].into_iter().chain(others));
    }
    (grid, outcome)
}

/// Inserts all records in a new environment, in one of the ways.
fn once(dir: &Path, (way, shared): (Way, bool), session: &Session) -> Result<Figures, Refusal> {
    let failed = |error: sablecat::Error| Refusal::Failed(error.to_string());
    let env = Env::builder()
        .cache_size(session.cache_bytes)
        .shared(shared)
        .durability(Durability::NoSync)
        .extractor("the value's beginning", |_, value, keys| {
            value.get(..FOUND_BY).into_iter().for_each(|key| keys.push(key));
        })
        .open(dir)
        .map_err(failed)?;
    let records = env.database("records").map_err(failed)?;
    let by_value = env.database("by value").map_err(failed)?;
    if way == Way::Index {
        env.index("index", &records, IndexOptions::new("the value's beginning")).map_err(failed)?;
    }
    let order = Order::new(Keys::Random, Stage::Write, session.records, 1);
    let begun = Instant::now();
    for position in 0..session.records {
        let number = order.key(position);
        let (key, value) = (workload::key_bytes(number), workload::value(number, 0));
        let found_by = |value: &[u8]| [&value[..FOUND_BY.min(value.len())], &key].concat();
        let inserted = match way {
            Way::Index => records.insert(key, value),
            Way::TwoPuts => env.write(|txn| {
                txn.insert(&records, key, value)?;
                txn.insert(&by_value, found_by(&value), "")
            }),
            Way::GetAndPuts => env.write(|txn| {
                if let Some(before) = txn.get(&records, key)? {
                    txn.remove(&by_value, found_by(&before))?;
                }
                txn.insert(&records, key, value)?;
                txn.insert(&by_value, found_by(&value), "")
            }),
        };
        inserted.map_err(failed)?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let (rss_mb, _) = machine::resident_mb();
    drop((records, by_value));
    env.close().map_err(failed)?;
    std::fs::remove_dir_all(dir)
        .map_err(|_| Refusal::Failed("what was measured could not be cleared away".to_owned()))?;
    Ok(Figures { ops: session.records, seconds, rss_mb, ..Figures::default() })
}
