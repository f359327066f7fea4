//! Histories: what concurrent transactions did and saw, and whether their isolation level allows it.
//!
//! The method is that of Elle (Kingsbury, Alvaro 2020): values are lists, writes append an element that is
//! appended once, so that a list that is read tells which transactions wrote it, in which order, and which
//! had not written yet. From that follow the dependencies of Adya (1999), and an anomaly is a cycle of them:
//!
//! - *ww*: one transaction appended right after the other;
//! - *wr*: one read a list that ends in what the other appended;
//! - *rw*: one read a list that what the other appended comes next in;
//! - *rt*: one had returned before the other began.
//!
//! ```text
//! record.rs    a history, as threads write it down
//! check.rs     lists that cannot be, and the dependencies
//! cycles.rs    cycles with and without two rw in a row
//! run.rs       running transactions in threads
//! ```

mod check;
mod cycles;
mod record;
mod run;

pub use check::{Level, check};
pub use record::{Element, Event, History, Key, Outcome, Transaction};
pub use run::{Run, run};

use crate::alike::Wrong;
use crate::dice::Dice;
use crate::method;

/// A run at each isolation level.
///
/// # Errors
/// The anomaly.
pub fn explore(seed: u64) -> Result<(), Wrong> {
    let mut dice = Dice::new(seed);
    for level in [Level::Serializable, Level::Snapshot, Level::ReadCommitted] {
        let plan = Run {
            level,
            threads: dice.pick(&[2, 3, 4]),
            transactions: 120,
            keys: dice.pick(&[3, 8, 40]),
            page_size: dice.pick(&[512, 4096]),
            on_disk: dice.percent(50),
            shelves: if level == Level::ReadCommitted { 0 } else { dice.pick(&[0, 0, 2]) },
            nested: dice.percent(30) && method::nests(),
            seed: dice.throw(),
        };
        let history = run(&plan).map_err(|wrong| format!("{plan:?}: {wrong}"))?;
        check(&history, level).map_err(|wrong| format!("{plan:?}: {wrong}"))?;
    }
    Ok(())
}
