//! What the first paper names without measuring: recovery time, start-up time, databases larger than its own
//! and than the cache.
//!
//! - *Replay*: single-record transactions are logged and made durable, the process is killed, and another
//!   opens the directory. No checkpoint is made in between, so the log holds all of them; a scan afterwards
//!   checks each value. By three lengths of the log.
//! - *Open*: a large environment is closed cleanly and opened in a new process, after the system was asked to
//!   forget its files, and once more right after that. That must not take longer because there is more in it.
//! - *Checkpoint* (`checkpoint.rs`): how long one takes, by how much has changed.
//! - *Deadlock* (`deadlock.rs`): how long it takes to find a circle of waiting owners.
//! - *Attach* (`attach.rs`): hundreds of processes open a shared environment that another has open: how long
//!   each takes, and what memory each has to itself.
//! - *Large*: random reads of ten million records, all in cache, ours and the peers'.
//! - *Spill*: random reads and updates of records that are two and eight times the cache, with the system
//!   kept from caching the files itself; ours opens them for direct transfers. Peers that map their files
//!   (LMDB, LevelDB) have their memory limited where that can be (memory_limit.rs); else they have them in
//!   memory nevertheless, are shown, and are not what ours is measured against.
//! - *Methods* (`methods.rs`): hash tables beside B+trees.
//! - *Queue* (`queue.rs`): records that are appended to a queue, and consumed, each in a transaction of its
//!   own; ours and Berkeley DB's.
//! - *Hash* (`hash.rs`): the random operations of the first paper, in hash tables.
//! - *Duplicates* (`duplicates.rs`): a hundred sorted values a key; ours, LMDB's and redb's.
//! - *Secondary* (`secondary.rs`): an index, beside two records set in one transaction.

mod attach;
mod checkpoint;
mod deadlock;
mod duplicates;
mod hash;
mod methods;
mod queue;
mod secondary;

use std::fs;
use std::path::Path;

use sablecat_os::interrupt;

use crate::beside::Figure;
use crate::charted::each_once;
use crate::contestant::{
    Contestant, Keeps, OURS, Refusal, SHARED, Served, flawless, is_ours, keeps, maps_files,
};
use crate::field::{Field, Outcome};
use crate::grid::{Cell, Grid, is_lost, ratio_to_best, thousands};
use crate::machine;
use crate::memory_limit::MemoryLimit;
use crate::protocol::{Figures, Kind, Mode, Open, Request, Run};
use crate::row::Row;
use crate::serve::records_of_fill;
use crate::session::{Session, Step};
use crate::workload::{KEY_BYTES, Keys, VALUE_BYTES};
use crate::wp43::cache_for;
use crate::{Case, Charted, Dots, Options, Report, Suite};

/// Times the cache that the data of the spilling cases are.
const SPILLS: [u64; 2] = [2, 8];

/// How long a system reads or updates. With eight systems, four sessions and three rounds that makes five
/// minutes; a cache of half the data is full after the first half second, which all systems begin with.
const SPILL_SECONDS: f64 = 3.0;

/// Which part of the transactions a log has, and what replaying it is called.
const LOGS: [(u64, &str); 3] = [(1, "replay"), (2, "replay, a half"), (10, "replay, a tenth")];

/// Whether any case that was asked for compares with peers.
pub(crate) fn has_peers(options: &Options) -> bool {
    let with_peers =
        |case: &Case| matches!(case, Case::Large | Case::Spill | Case::Queue | Case::Hash | Case::Duplicates);
    cases(options).iter().any(with_peers)
}

fn cases(options: &Options) -> &[Case] {
    match &options.cases {
        Some(cases) => cases,
        None if options.quick => &[
            Case::Replay,
            Case::Open,
            Case::Checkpoint,
            Case::Deadlock,
            Case::Attach,
            Case::Methods,
            Case::Queue,
            Case::Hash,
            Case::Duplicates,
            Case::Secondary,
        ],
        None => &[
            Case::Replay,
            Case::Open,
            Case::Checkpoint,
            Case::Deadlock,
            Case::Attach,
            Case::Large,
            Case::Spill,
            Case::Methods,
            Case::Queue,
            Case::Hash,
            Case::Duplicates,
            Case::Secondary,
        ],
    }
}

/// Runs the cases that were asked for.
pub(crate) fn run(options: &Options, mut field: Field<'_>) -> Report {
    // A shared environment is attached to; in the other cases it would be one more system. So would those
    // that are asked for something else.
    let all_contestants = std::mem::take(&mut field.contestants);
    let those = |takes_part: &dyn Fn(&str) -> bool| -> Vec<&dyn Contestant> {
        all_contestants.iter().copied().filter(|contestant| takes_part(contestant.name())).collect()
    };
    let as_usual = |name: &str| name != SHARED && keeps(name) == Keeps::Records;
    let mut all = Outcome::default();
    let mut grids = Vec::new();
    for case in cases(options).iter().take_while(|_| !interrupt::is_asked()) {
        field.contestants = match case {
            Case::Attach => those(&|name| name == SHARED),
            Case::Queue => those(&|name| keeps(name) == Keeps::Queue),
            Case::Duplicates => those(&|name| keeps(name) == Keeps::Duplicates),
            Case::Hash => those(&|name| keeps(name) == Keeps::OwnTable || as_usual(name)),
            _ => those(&as_usual),
        };
        let (grid, outcome) = match case {
            Case::Replay => replay(options, &mut field),
            Case::Open => open(options, &mut field),
            Case::Checkpoint => checkpoint::checkpoint(options, &mut field),
            Case::Deadlock => deadlock::deadlock(options, &mut field),
            Case::Attach => attach::attach(options, &mut field),
            Case::Large => large(options, &mut field),
            Case::Spill => spill(options, &mut field),
            Case::Methods => methods::methods(options, &mut field),
            Case::Queue => queue::queue(options, &mut field),
            Case::Hash => hash::hash(options, &mut field),
            Case::Duplicates => duplicates::duplicates(options, &mut field),
            Case::Secondary => secondary::secondary(options, &mut field),
        };
        grids.push(grid);
        all.append(outcome);
    }
    Report { grids, ..Report::of(Suite::Engine, None, all, Vec::new()) }
}

fn replay(options: &Options, field: &mut Field<'_>) -> (Grid, Outcome) {
    let records = options.records.unwrap_or(if options.quick { 200_000 } else { 1_000_000 });
    let mut outcome = Outcome::default();
    for (part, op) in LOGS {
        let records = (records / part).max(1);
        let session = own_session(Mode::NoSync, records, options.cache.unwrap_or_else(|| cache_for(records)));
        outcome.append(own_rounds(field, &session, op, |ours, dir| replay_once(ours, dir, &session)));
    }
    let title = "recovery: single-record transactions in the log of a killed process";
    let heads = ["replay", "transactions", "records a second", "seconds", "resident MB"];
    let mut grid = Grid::new(title, heads, 1);
    for row in &outcome.rows {
        let seconds = row.records as f64 / row.ops_per_s;
        let cells = [
            row.system.clone().into(),
            thousands(row.records as f64).into(),
            Figure::Median.cell(Some(row)),
            format!("{seconds:.3}").into(),
            format!("{:.1}", row.rss_mb).into(),
        ];
        grid.push(cells);
    }
    (grid, outcome)
}

fn replay_once(ours: &dyn Contestant, dir: &Path, session: &Session) -> Result<Figures, Refusal> {
    let open = own_open(dir, session, true);
    let run = |kind| Request::Run(replay_run(session, kind));
    let mut served = ours.start()?;
    served.ask(&open)?;
    let written = served.ask(&run(Kind::Write))?;
    served.ask(&Request::Sync)?;
    // Killed as it stands: nothing is closed.
    drop(served);
    let mut served = ours.start()?;
    let opened = served.ask(&open)?;
    if opened.replayed < session.records {
        return Err(Refusal::Failed(format!(
            "{} of {} records were replayed",
            opened.replayed, session.records
        )));
    }
    let scanned = served.ask(&run(Kind::Bulk))?;
    served.ask(&Request::Close)?;
    let errors = written.errors + scanned.errors;
    let first_error = if written.errors > 0 { written.first_error } else { scanned.first_error };
    Ok(Figures { ops: opened.replayed, errors, first_error, ..opened })
}

/// A run over all of a session's records.
fn replay_run(session: &Session, kind: Kind) -> Run {
    Run {
        kind,
        keys: session.keys,
        records: session.records,
        threads: 1,
        seed: 1,
        seconds_max: 0.0,
        version: None,
        passes: 1,
        cursor: false,
        warm: false,
        shape: session.shape,
        together: session.together,
        visits: 0,
        mix: None,
        timed: false,
        checkpoint_ms: 0,
    }
}

fn open(options: &Options, field: &mut Field<'_>) -> (Grid, Outcome) {
    let bytes = options.size.unwrap_or(if options.quick { 64 << 20 } else { 1 << 30 });
    let session = own_session(Mode::NoSync, records_of_fill(bytes), options.cache.unwrap_or(64 << 20));
    let mut warm = Vec::new();
    let mut outcome = own_rounds(field, &session, "open", |ours, dir| {
        let cold = open_once(ours, dir, &session, bytes, Files::Forgotten)?;
        warm.push(open_once(ours, dir, &session, bytes, Files::Cached)?);
        Ok(cold)
    });
    if let Some(row) = outcome.rows.first() {
        let (ours, step) = (row.system.clone(), Step { op: "open, warm", ..Step::new(Kind::Read, 1, 0.0) });
        outcome.add(&ours, &session, &step, &warm.iter().collect::<Vec<_>>());
    }
    let title = format!("opening an environment of {} MB that was closed cleanly", bytes >> 20);
    let mut grid = Grid::new(title, ["open", "milliseconds", "disk MB"], 1);
    for row in &outcome.rows {
        grid.push([row.op.clone().into(), takes_ms(row, 2), format!("{:.1}", row.disk_mb).into()]);
    }
    (grid, outcome)
}

/// Milliseconds that an operation took, to so many places.
fn takes_ms(row: &Row, places: usize) -> Cell {
    let ms = |rate: f64| 1000.0 / rate;
    let range = row.range().map(|range| range.map(ms));
    Cell { text: format!("{:.places$}", ms(row.ops_per_s)), range }
}

/// Whether the system has the files in its memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Files {
    Forgotten,
    Cached,
}

fn open_once(
    ours: &dyn Contestant,
    dir: &Path,
    session: &Session,
    bytes: u64,
    files: Files,
) -> Result<Figures, Refusal> {
    let open = own_open(dir, session, false);
    // All rounds open the same environment, which the first one makes.
    if !dir.exists() {
        fill(ours, &open, bytes).inspect_err(|_| {
            // So that the next round does not take half an environment for a whole one.
            let _ = fs::remove_dir_all(dir);
        })?;
    }
    if files == Files::Forgotten {
        machine::drop_cached(dir);
    }
    let mut served = ours.start()?;
    let opened = served.ask(&open)?;
    let spots = served.ask(&Request::Spot { bytes })?;
    let closed = served.ask(&Request::Close)?;
    let Figures { errors, first_error, .. } = spots;
    Ok(Figures { ops: 1, errors, first_error, disk_mb: closed.disk_mb, ..opened })
}

fn fill(ours: &dyn Contestant, open: &Request, bytes: u64) -> Result<(), Refusal> {
    let mut served = ours.start()?;
    served.ask(open)?;
    fill_opened(&mut *served, bytes)?;
    served.ask(&Request::Close).map(drop)
}

fn fill_opened(served: &mut dyn Served, bytes: u64) -> Result<(), Refusal> {
    flawless(served.ask(&Request::Fill { bytes })?, "filling").map(drop)
}

fn large(options: &Options, field: &mut Field<'_>) -> (Grid, Outcome) {
    let records = options.records.unwrap_or(if options.quick { 1_000_000 } else { 10_000_000 });
    let seconds_max = if options.quick { 1.0 } else { 10.0 };
    let session = Session {
        in_cache: options.cache.is_none(),
        loaded: true,
        steps: vec![Step::new(Kind::Read, 1, seconds_max)],
        ..own_session(Mode::Ds, records, options.cache.unwrap_or_else(|| cache_for(records)))
    };
    let outcome = field.run(&[session]);
    let title = format!("{} records, all in cache: random reads a second", thousands(records as f64));
    (beside_peers(title, &outcome.rows, OURS), outcome)
}

fn spill(options: &Options, field: &mut Field<'_>) -> (Grid, Outcome) {
    let records = options.records.unwrap_or(if options.quick { 500_000 } else { 2_000_000 });
    let seconds_max = if options.quick { 1.0 } else { SPILL_SECONDS };
    let data_bytes = records * (KEY_BYTES + VALUE_BYTES) as u64;
    let session = |kind, times, op| Session {
        loaded: true,
        uncached: true,
        steps: vec![Step { op, ..Step::new(kind, 1, seconds_max) }],
        ..own_session(Mode::Tds, records, data_bytes / times)
    };
    let [twice, eight_times] = SPILLS;
    // Updates come last: after one that ended early nobody knows what there is to read.
    let sessions = [
        session(Kind::Read, twice, "read, data 2x the cache"),
        session(Kind::Read, eight_times, "read, data 8x the cache"),
        session(Kind::Update, twice, "update, data 2x the cache"),
        session(Kind::Update, eight_times, "update, data 8x the cache"),
    ];
    let mut outcome = field.run(&sessions);
    let title = format!(
        "{} records, {} MB, in caches too small for them: random operations a second",
        thousands(records as f64),
        data_bytes >> 20
    );
    if !MemoryLimit::is_possible() {
        outcome.rows.iter_mut().for_each(|row| row.apart = maps_files(&row.system));
    }
    (beside_peers(title, &outcome.rows, OURS), outcome)
}

/// One line per operation: ours, every peer's, and how ours compares with the best of those that count.
fn beside_peers(title: String, rows: &[Row], ours: &str) -> Grid {
    let systems = each_once(rows.iter().map(|row| row.system.as_str()));
    let mut lines: Vec<(Mode, &str)> = Vec::new();
    for row in rows {
        if !lines.contains(&(row.mode, &row.op)) {
            lines.push((row.mode, &row.op));
        }
    }
    let mut grid = Grid::new(title, ["operation"], 1);
    grid.heads.extend(systems.iter().map(|&system| system.to_owned()));
    grid.heads.push("ratio to the best peer".to_owned());
    let mut charted = Charted::new("Operations a second");
    for (mode, op) in lines {
        let of =
            |system: &str| rows.iter().find(|row| row.system == system && row.mode == mode && row.op == op);
        let point = |system: &str| of(system).and_then(|row| Figure::Median.point(row));
        let rate = |system: &str| Some(point(system)?.0);
        let best = systems
            .iter()
            .filter(|&&system| !is_ours(system) && of(system).is_some_and(|row| !row.apart))
            .filter_map(|system| rate(system))
            .max_by(f64::total_cmp);
        let share = rate(ours).zip(best).map(|(ours, best)| ours / best);
        let label = format!("{} {op}", mode.name());
        let is_behind = is_lost(share, best);
        charted.lines.push(Dots { is_behind, ..Dots::of(label.as_str(), systems.iter().copied(), point) });
        let mut cells = vec![Cell::from(label)];
        cells.extend(systems.iter().map(|system| Figure::Median.cell(of(system))));
        cells.push(ratio_to_best(share, best).into());
        grid.push(cells);
    }
    Grid { charted: Some(charted), ..grid }
}

/// Whether what counts of an operation is how long a single one takes, not how many there are in a second.
pub(crate) fn is_single(op: &str) -> bool {
    ["open", "checkpoint", "circle", "attach"].iter().any(|word| op.starts_with(word))
}

/// What only sablecat is asked to do: the rounds of one figure.
fn own_rounds(
    field: &mut Field<'_>,
    session: &Session,
    op: &'static str,
    mut once: impl FnMut(&dyn Contestant, &Path) -> Result<Figures, Refusal>,
) -> Outcome {
    let mut outcome = Outcome::default();
    let ours: Vec<&dyn Contestant> =
        field.contestants.iter().copied().filter(|contestant| is_ours(contestant.name())).collect();
    field.progress.start(u64::from(field.rounds) * ours.len() as u64);
    for ours in ours {
        let dir = field.dir.join(op);
        let mut samples = Vec::new();
        for round in (0..field.rounds).take_while(|_| !interrupt::is_asked()) {
            field.progress.step(op);
            match once(ours, &dir.join(if op == "open" { "all".to_owned() } else { round.to_string() })) {
                Ok(figures) => samples.push(figures),
                Err(refusal) => outcome.problems.push(format!("{op}: {refusal}")),
            }
        }
        // What could not be cleared away is in a directory that will be removed as a whole.
        let _ = fs::remove_dir_all(&dir);
        let step = Step { op, ..Step::new(Kind::Read, 1, 0.0) };
        outcome.add(ours.name(), session, &step, &samples.iter().collect::<Vec<_>>());
    }
    outcome
}

fn own_session(mode: Mode, records: u64, cache_bytes: u64) -> Session {
    Session::new(mode, Keys::Random, records, cache_bytes)
}

fn own_open(dir: &Path, session: &Session, keep_log: bool) -> Request {
    Request::Open(Open {
        dir: dir.to_string_lossy().into_owned(),
        mode: session.mode,
        cache_bytes: session.cache_bytes,
        log_buffer: session.log_buffer,
        page_size: 0,
        threads: 1,
        keep_log,
        direct: false,
        transactions: false,
        image: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beside::tests::row;
    use crate::contestant::Program;

    #[test]
    fn what_was_filled_with_errors_is_not_opened() {
        let figures = concat!(
            r#"{"ops":1,"seconds":1,"errors":2,"rss_mb":1,"rss_peak_mb":1,"disk_mb":1,"#,
            r#""first_error":"why"}"#
        );
        let script = format!("while read -r line; do echo '{figures}'; done");
        let ours = Program::own(OURS, &["sh".into(), "-c".into(), script.into()]);
        let refusal = fill(&ours, &Request::Sync, 1).unwrap_err();
        assert_eq!(refusal, Refusal::Wrong("filling: 2 errors, first: why".to_owned()));
    }

    #[test]
    fn a_peer_with_more_memory_is_shown_apart() {
        let apart = Row { apart: true, ..row("a", Mode::Ds, "read", 1, 900.0) };
        let rows = [row(OURS, Mode::Ds, "read", 1, 90.0), apart, row("b", Mode::Ds, "read", 1, 30.0)];
        let grid = beside_peers("t".to_owned(), &rows, OURS);
        assert_eq!(grid.rows, [["DS read", "90", "900", "30", "3.00"]]);
    }

    #[test]
    fn a_peer_that_fails_is_not_the_best() {
        let failing = Row { errors: 7, ..row("a", Mode::Ds, "read", 1, 900.0) };
        let rows = [row(OURS, Mode::Ds, "read", 1, 90.0), failing, row("b", Mode::Ds, "read", 1, 30.0)];
        let grid = beside_peers("t".to_owned(), &rows, OURS);
        assert_eq!(grid.rows, [["DS read", "90", "7 failed", "30", "3.00"]]);
        assert_eq!(grid.range(0, 1).unwrap().to_string(), "90.0–93.0");
        let charted = grid.charted.unwrap();
        let line = &charted.lines[0];
        assert_eq!((line.values.len(), line.ranges.len(), line.range("a")), (2, 2, None));
        let took = takes_ms(&rows[0], 2);
        assert_eq!((took.text.as_str(), took.range.unwrap().to_string().as_str()), ("11.11", "10.8–11.1"));
    }
}
