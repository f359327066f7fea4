//! What it takes to find a deadlock: owners of locks by name wait for each other in a row, and the last one
//! asks for what the first one has. That call is timed, which finds the circle, and is refused. Longer
//! circles take more steps to find.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use sablecat::{DeadlockPolicy, Env, ErrorKind, Locker};
use sablecat_os::interrupt;

use super::own_session;
use crate::Options;
use crate::contestant::{OURS, Refusal};
use crate::field::{Field, Outcome};
use crate::grid::{Cell, Grid};
use crate::machine;
use crate::protocol::{Figures, Kind, Mode};
use crate::session::{Session, Step};

/// Owners of a circle, and what that is called.
const CIRCLES: [(u64, &str); 4] =
    [(2, "circle of 2"), (4, "circle of 4"), (8, "circle of 8"), (16, "circle of 16")];
/// Circles in a run.
const CIRCLES_IN_RUN: u64 = 200;
const CIRCLES_IN_RUN_QUICK: u64 = 20;
/// An owner that has waited for so long that another waits is taken for lost.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn deadlock(options: &Options, field: &mut Field<'_>) -> (Grid, Outcome) {
    let circles = if options.quick { CIRCLES_IN_RUN_QUICK } else { CIRCLES_IN_RUN };
    let session = own_session(Mode::NoSync, circles, options.cache.unwrap_or(1 << 20));
    let mut outcome = Outcome::default();
    field.progress.start(CIRCLES.len() as u64 * u64::from(field.rounds));
    let mut samples = CIRCLES.map(|_| Vec::new());
    for round in (0..field.rounds).take_while(|_| !interrupt::is_asked()) {
        for (samples, (owners, op)) in samples.iter_mut().zip(CIRCLES) {
            field.progress.step(op);
            match once(&field.dir.join(format!("{op}, round {round}")), owners, &session) {
                Ok(figures) => samples.push(figures),
                Err(refusal) => outcome.problems.push(format!("{op}, round {round}: {refusal}")),
            }
        }
    }
    let mut grid = Grid::new(
        "deadlocks: how long the call takes that finds one, and is refused",
        ["owners", "microseconds"],
        1,
    );
    for (samples, (owners, op)) in samples.iter().zip(CIRCLES) {
        let step = Step { op, ..Step::new(Kind::Read, 1, 0.0) };
        outcome.add(OURS, &session, &step, &samples.iter().collect::<Vec<_>>());
        if let Some(row) = outcome.rows.iter().find(|row| row.op == op) {
            let us = |rate: f64| 1e6 / rate;
            let range = row.range().map(|range| range.map(us));
            grid.push([owners.to_string().into(), Cell { text: format!("{:.2}", us(row.ops_per_s)), range }]);
        }
    }
    (grid, outcome)
}

/// Makes and breaks circles of so many owners.
fn once(dir: &Path, owners: u64, session: &Session) -> Result<Figures, Refusal> {
    let failed = |error: sablecat::Error| Refusal::Failed(error.to_string());
    let env = Env::builder()
        .cache_size(session.cache_bytes)
        .deadlock_policy(DeadlockPolicy::Requester)
        .open(dir)
        .map_err(failed)?;
    let mut took = Duration::ZERO;
    for _ in 0..session.records {
        took += circle(&env, owners)?;
    }
    let (rss_mb, _) = machine::resident_mb();
    env.close().map_err(failed)?;
    std::fs::remove_dir_all(dir)
        .map_err(|_| Refusal::Failed("what was measured could not be cleared away".to_owned()))?;
    Ok(Figures { ops: session.records, seconds: took.as_secs_f64(), rss_mb, ..Figures::default() })
}

/// How long the last of a circle's owners took to be refused. The nth has the nth name, and waits for the
/// next; the last asks for the first.
fn circle(env: &Env, owners: u64) -> Result<Duration, Refusal> {
    let failed = |error: sablecat::Error| Refusal::Failed(error.to_string());
    let mut all = (0..owners).map(|_| env.locker()).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    for (owner, name) in all.iter_mut().zip(0..) {
        owner.lock([name_bytes(name)]).map_err(failed)?;
    }
    let mut last = all.pop().expect("a circle has owners");
    thread::scope(|scope| {
        let waiting: Vec<_> = all
            .into_iter()
            .zip(1..)
            .map(|(mut owner, next)| scope.spawn(move || owner.lock([name_bytes(next)]).map(drop)))
            .collect();
        let timed = all_wait(env, owners - 1).and_then(|()| refused(&mut last));
        // What it has is what the one before it waits for, and so on.
        drop(last);
        for owner in waiting {
            owner.join().map_err(|_| Refusal::Failed("an owner panicked".to_owned()))?.map_err(failed)?;
        }
        timed
    })
}

fn name_bytes(name: u64) -> [u8; 8] {
    name.to_be_bytes()
}

/// Comes back when so many owners wait.
fn all_wait(env: &Env, owners: u64) -> Result<(), Refusal> {
    let begun = Instant::now();
    loop {
        if env.locks().iter().filter(|lock| lock.waits_for.is_some()).count() as u64 >= owners {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            return Err(Refusal::Failed(format!("not all of {owners} owners wait")));
        }
        thread::yield_now();
    }
}

/// The timed call.
fn refused(last: &mut Locker) -> Result<Duration, Refusal> {
    let begun = Instant::now();
    let answer = last.lock([name_bytes(0)]);
    let took = begun.elapsed();
    match answer {
        Err(error) if error.kind() == ErrorKind::Deadlock => Ok(took),
        Err(error) => Err(Refusal::Failed(error.to_string())),
        Ok(()) => Err(Refusal::Failed("a lock was given that another has".to_owned())),
    }
}
