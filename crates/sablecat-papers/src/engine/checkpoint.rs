//! What a checkpoint takes: of an environment whose records have all been changed since the one before, of
//! one of which a hundredth has, and of one in which nothing has changed. Each is asked for, waited for and
//! timed by itself; what goes on beside checkpoints is timed by the suite of latencies.

use std::path::Path;

use sablecat_os::interrupt;

use super::{own_open, own_session, replay_run, takes_ms};
use crate::Options;
use crate::contestant::{Contestant, Refusal, flawless, is_ours};
use crate::field::{Field, Outcome};
use crate::grid::{Grid, thousands};
use crate::protocol::{Figures, Kind, Mode, Request, Run};
use crate::session::{Session, Step};
use crate::wp43::cache_for;

/// One in so many of the records is changed: what that is called, and none if nothing is.
const CHANGED: [(&str, Option<u64>); 3] = [
    ("checkpoint, all changed", Some(1)),
    ("checkpoint, a hundredth changed", Some(100)),
    ("checkpoint, nothing changed", None),
];

pub(super) fn checkpoint(options: &Options, field: &mut Field<'_>) -> (Grid, Outcome) {
    let records = options.records.unwrap_or(if options.quick { 100_000 } else { 1_000_000 });
    let session = own_session(Mode::NoSync, records, options.cache.unwrap_or_else(|| cache_for(records)));
    let mut outcome = Outcome::default();
    let ours: Vec<&dyn Contestant> =
        field.contestants.iter().copied().filter(|contestant| is_ours(contestant.name())).collect();
    field.progress.start(ours.len() as u64 * u64::from(field.rounds));
    let title = format!(
        "checkpoints of {} records of 40 bytes, changed in no order: how long one takes",
        thousands(records as f64)
    );
    let mut grid = Grid::new(title, ["changed before", "milliseconds", "disk MB"], 1);
    for ours in ours {
        let mut samples = CHANGED.map(|_| Vec::new());
        for round in (0..field.rounds).take_while(|_| !interrupt::is_asked()) {
            field.progress.step("checkpoint");
            match once(ours, &field.dir.join(format!("checkpoint {round}")), &session) {
                Ok(figures) => samples.iter_mut().zip(figures).for_each(|(all, one)| all.push(one)),
                Err(refusal) => outcome.problems.push(format!("checkpoint, round {round}: {refusal}")),
            }
        }
        for (samples, (op, _)) in samples.iter().zip(CHANGED) {
            let step = Step { op, ..Step::new(Kind::Update, 1, 0.0) };
            outcome.add(ours.name(), &session, &step, &samples.iter().collect::<Vec<_>>());
        }
    }
    for row in &outcome.rows {
        let op = row.op.trim_start_matches("checkpoint, ").to_owned();
        grid.push([op.into(), takes_ms(row, 2), format!("{:.1}", row.disk_mb).into()]);
    }
    (grid, outcome)
}

/// A checkpoint after each kind of change.
fn once(ours: &dyn Contestant, dir: &Path, session: &Session) -> Result<Vec<Figures>, Refusal> {
    let mut served = ours.start()?;
    // No checkpoints but those that are asked for.
    served.ask(&own_open(dir, session, true))?;
    flawless(served.ask(&Request::Run(replay_run(session, Kind::Load)))?, "loading")?;
    let mut all = Vec::new();
    for (op, changed) in CHANGED {
        if let Some(part) = changed {
            let visits = if part == 1 { 0 } else { (session.records / part).max(1) };
            let update = Request::Run(Run { visits, ..replay_run(session, Kind::Update) });
            flawless(served.ask(&update)?, op)?;
        }
        all.push(Figures { ops: 1, ..served.ask(&Request::Checkpoint)? });
    }
    served.ask(&Request::Close)?;
    std::fs::remove_dir_all(dir)
        .map_err(|_| Refusal::Failed("what was measured could not be cleared away".to_owned()))?;
    Ok(all)
}
