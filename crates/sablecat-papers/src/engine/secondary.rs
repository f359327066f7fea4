//! An index beside what a program would do without one: records of 40 bytes are inserted in random order,
//! each in a transaction of its own, and found by the first eight bytes of their values too. Once an index
//! does that, once the program sets a second record in the same transaction. Both take turns in this process.

use std::path::Path;
use std::time::Instant;

use sablecat::{Durability, Env, IndexOptions};

use super::own_session;
use crate::Options;
use crate::contestant::{OURS, Refusal};
use crate::field::{Field, Outcome};
use crate::grid::{Grid, ratio, thousands};
use crate::machine;
use crate::protocol::{Figures, Kind, Mode};
use crate::session::{Session, Step};
use crate::workload::{self, Keys, Order, Stage};
use crate::wp43::cache_for;

/// Twice as many records as elsewhere.
const CACHE_TIMES: u64 = 2;
/// What the second way is shown as.
const TWO_PUTS: &str = "two puts";
/// Bytes of a value that it is found by.
const FOUND_BY: usize = 8;

pub(super) fn secondary(options: &Options, field: &mut Field<'_>) -> (Grid, Outcome) {
    let records = options.records.unwrap_or(if options.quick { 50_000 } else { 500_000 });
    let cache = options.cache.unwrap_or_else(|| CACHE_TIMES * cache_for(records));
    let session = own_session(Mode::NoSync, records, cache);
    let mut outcome = Outcome::default();
    let shown_as = [OURS, TWO_PUTS];
    let title = format!(
        "an index: {} records of 40 bytes inserted in random order; transactions a second",
        thousands(records as f64)
    );
    let mut grid =
        Grid::new(title, ["environment", "an index", "two puts in a transaction", "index / two puts"], 1);
    field.progress.start(2 * 2 * u64::from(field.rounds));
    for (shared, name) in [(false, "private"), (true, "shared")] {
        let mut samples = [const { Vec::new() }; 2];
        for round in 0..field.rounds {
            for (samples, way) in samples.iter_mut().zip(shown_as) {
                field.progress.step(way);
                match once(&field.dir.join("secondary"), (way == OURS, shared), &session) {
                    Ok(figures) => samples.push(figures),
                    Err(refusal) => {
                        outcome.problems.push(format!("secondary, {name}, {way}, round {round}: {refusal}"));
                    }
                }
            }
        }
        let step =
            Step { op: if shared { "insert, shared" } else { "insert" }, ..Step::new(Kind::Write, 1, 0.0) };
        let rates = [0, 1].map(|way: usize| {
            outcome.add(shown_as[way], &session, &step, &samples[way].iter().collect::<Vec<_>>());
            let row = outcome.rows.iter().rfind(|row| row.system == shown_as[way] && row.op == step.op);
            row.map(|row| row.ops_per_s)
        });
        let cell = |rate: Option<f64>| rate.map_or_else(|| "—".to_owned(), thousands);
        let share = ratio(rates[0].zip(rates[1]).map(|(index, puts)| index / puts));
        grid.rows.push(vec![name.to_owned(), cell(rates[0]), cell(rates[1]), share]);
    }
    (grid, outcome)
}

/// Inserts all records in a new environment, with an index or with two puts.
fn once(dir: &Path, (index, shared): (bool, bool), session: &Session) -> Result<Figures, Refusal> {
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
    if index {
        env.index("index", &records, IndexOptions::new("the value's beginning")).map_err(failed)?;
    }
    let order = Order::new(Keys::Random, Stage::Write, session.records, 1);
    let begun = Instant::now();
    for position in 0..session.records {
        let number = order.key(position);
        let (key, value) = (workload::key_bytes(number), workload::value(number, 0));
        let inserted = if index {
            records.insert(key, value)
        } else {
            env.write(|txn| {
                txn.insert(&records, key, value)?;
                txn.insert(&by_value, [&value[..FOUND_BY], &key].concat(), "")
            })
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
