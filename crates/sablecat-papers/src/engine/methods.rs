//! Hash tables beside B+trees: random reads, insertions and updates in a Data Store, of records with keys of
//! 8 to 16 bytes and values of 100, in this process. The methods take turns, so that what else goes on in the
//! machine is the same for both.

use std::path::Path;
use std::time::Instant;

use sablecat::{Database, Env, Method};
use sablecat_os::interrupt;

use crate::beside::Figure;
use crate::contestant::{OURS, Refusal};
use crate::field::{Field, Outcome};
use crate::grid::{Grid, ratio, thousands};
use crate::machine;
use crate::protocol::{Figures, Kind, Mode};
use crate::session::{Session, Step};
use crate::wp43::cache_for;
use crate::{Charted, Dots, Options};

const VALUE_BYTES: usize = 100;
/// Records and what pages leave free are several times those of the paper.
const CACHE_TIMES: u64 = 4;

/// The operations, in their order.
const KINDS: [Kind; 3] = [Kind::Write, Kind::Read, Kind::Update];

/// The methods, each as the system that it is shown as.
const METHODS: [(&str, Method); 2] = [(OURS, Method::Btree), ("sablecat-hash", Method::Hash)];

/// Key number n of so many, in a random order: a permutation, as long as neither overflows.
fn key(n: u64, round: u64) -> ([u8; 16], usize) {
    let mut mixed = n.wrapping_add(round << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^= mixed >> 32;
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mixed.wrapping_mul(0xd6e8_feb8_6659_fd93).to_le_bytes());
    key[8..].copy_from_slice(&n.to_le_bytes());
    (key, 8 + (n % 9) as usize)
}

/// The n-th record to be looked at: all of them, in an order that has nothing to do with that of insertion.
fn turn(n: u64, records: u64) -> u64 {
    // Odd, and prime to any number of records that is a product of twos and fives.
    (n.wrapping_mul(7_368_787) + 12_345) % records
}

pub(super) fn methods(options: &Options, field: &mut Field<'_>) -> (Grid, Outcome) {
    let records = options.records.unwrap_or(if options.quick { 50_000 } else { 1_000_000 });
    let cache = options.cache.unwrap_or_else(|| CACHE_TIMES * cache_for(records));
    let session = super::own_session(Mode::Ds, records, cache);
    let mut outcome = Outcome::default();
    let mut samples = [const { [const { Vec::new() }; KINDS.len()] }; METHODS.len()];
    field.progress.start(u64::from(field.rounds) * METHODS.len() as u64);
    for round in (0..field.rounds).take_while(|_| !interrupt::is_asked()) {
        for (of, (name, method)) in METHODS.into_iter().enumerate() {
            field.progress.step(name);
            match once(&field.dir.join("methods"), method, &session) {
                Ok(figures) => {
                    samples[of].iter_mut().zip(figures).for_each(|(all, figures)| all.push(figures));
                }
                Err(refusal) => outcome.problems.push(format!("methods, {name}, round {round}: {refusal}")),
            }
        }
    }
    let title = format!(
        "methods: {} records, keys of 8 to 16 bytes in random order, values of {VALUE_BYTES}; Data Store, \
         operations a second",
        thousands(records as f64)
    );
    let heads = ["operation", "B+tree", "hash table", "hash table / B+tree"];
    let mut grid = Grid::new(title, heads, 1);
    let mut charted = Charted::new("Operations a second");
    for (at, kind) in KINDS.into_iter().enumerate() {
        let step = Step::new(kind, 1, 0.0);
        for ((name, _), samples) in METHODS.iter().zip(&samples) {
            outcome.add(name, &session, &step, &samples[at].iter().collect::<Vec<_>>());
        }
        let of = |system: &str| outcome.rows.iter().find(|row| row.system == system && row.op == kind.name());
        let [tree, hash] = METHODS.map(|(name, _)| of(name));
        let cell = |row| Figure::Median.cell(row);
        let share = ratio(Figure::Median.share(hash, tree));
        grid.push([kind.name().into(), cell(tree), cell(hash), share.into()]);
        let point = |system: &str| of(system).and_then(|row| Figure::Median.point(row));
        charted.lines.push(Dots::of(kind.name(), METHODS.map(|(name, _)| name), point));
    }
    (Grid { charted: Some(charted), ..grid }, outcome)
}

/// Each operation once for all records, in a new Data Store.
fn once(dir: &Path, method: Method, session: &Session) -> Result<[Figures; KINDS.len()], Refusal> {
    let failed = |error: sablecat::Error| Refusal::Failed(error.to_string());
    let removed = |_| Refusal::Failed("what was measured could not be cleared away".to_owned());
    let builder = Env::builder().cache_size(session.cache_bytes);
    let mut store = builder.open_data_store(dir).map_err(failed)?;
    let table: Database<_> = store.database_as("records", method).map_err(failed)?;
    let (mut figures, mut errors) = (Vec::new(), 0);
    for kind in KINDS {
        let value = [kind as u8; VALUE_BYTES];
        let begun = Instant::now();
        for n in 0..session.records {
            let record = if kind == Kind::Write { n } else { turn(n, session.records) };
            let (key, len) = key(record, 0);
            match kind {
                Kind::Read => {
                    let is_right =
                        |value: Option<&[u8]>| value.is_some_and(|value| value[0] == Kind::Write as u8);
                    errors += u64::from(!store.get_with(&table, &key[..len], is_right).map_err(failed)?);
                }
                _ => store.insert(&table, &key[..len], value).map_err(failed)?,
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        figures.push(Figures { ops: session.records, seconds, errors, ..Figures::default() });
    }
    let (rss_mb, _) = machine::resident_mb();
    drop(table);
    store.close().map_err(failed)?;
    std::fs::remove_dir_all(dir).map_err(removed)?;
    figures.iter_mut().for_each(|figures| figures.rss_mb = rss_mb);
    figures.try_into().map_err(|_| Refusal::Failed("an operation was left out".to_owned()))
}
