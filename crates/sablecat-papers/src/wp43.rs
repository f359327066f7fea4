//! Berkeley DB 4.3 white paper (Sleepycat, 2005): single operations of one thread on 8 + 32-byte records, all
//! in cache.
//!
//! The paper measures two products: DS, the Data Store, without locks, log or transactions; and TDS, the
//! transactional one, at each step of its durability ladder. It names synchronous commits without a figure
//! ("set by the disk"); here they are measured for 1 to 50 threads, beside a probe of the disk. Updates of
//! existing records are ours too.
//!
//! The paper's figures are those of its Linux machine: 32 KB pages, 32 MB of cache, an 8 MB log buffer. Here
//! every system has the page size that suits it, the same log buffer, and by default a cache that holds all
//! records, as the paper's did.

use crate::beside::{Figure, Line, NONE, Said, Table, systems};
use crate::contestant::{DEVICE, OURS};
use crate::field::Field;
use crate::grid::{Grid, thousands};
use crate::protocol::{Kind, Mode};
use crate::row::Row;
use crate::session::{Session, Step};
use crate::workload::Keys;
use crate::{Options, Report, Suite};

/// What all systems get for a million records: several times the records, since pages are not full and
/// versions need room.
const CACHE_BYTES_PER_MILLION: u64 = 128 << 20;
const CACHE_BYTES_MIN: u64 = 16 << 20;

const SYNC_THREADS: [u32; 4] = [1, 4, 16, 50];

/// What all systems are given, and whether it is meant to hold all records.
#[derive(Clone, Copy)]
struct Cache {
    bytes: u64,
    holds_all: bool,
}

/// The lines of the paper's table, with its figures on Linux, and those added to it.
fn lines() -> Vec<Line> {
    let line = |label: &str, mode, kind: Kind, paper| Line::new(label, mode, kind.name()).paper(paper);
    let mut lines = vec![
        line("DS read", Mode::Ds, Kind::Read, Said::Figure(1_002_200.0)),
        line("DS write", Mode::Ds, Kind::Write, Said::Figure(766_034.0)),
        line("DS update", Mode::Ds, Kind::Update, Said::Nothing),
        line("DS bulk read", Mode::Ds, Kind::Bulk, Said::Figure(13_501_800.0)),
        line("TDS read", Mode::Tds, Kind::Read, Said::Figure(466_623.0)),
        line("TDS write, log in memory", Mode::Memory, Kind::Write, Said::Figure(239_824.0)),
        line("TDS write, no-sync", Mode::NoSync, Kind::Write, Said::Figure(141_109.0)),
        line("TDS write, write-no-sync", Mode::WriteNoSync, Kind::Write, Said::Figure(90_774.0)),
    ];
    let by_the_disk = Said::Words("set by the disk".to_owned());
    let sync = line("TDS write, sync", Mode::Sync, Kind::Write, by_the_disk);
    lines.extend(SYNC_THREADS.map(|threads| sync.clone().threads(threads)));
    lines
}

/// Runs the suite.
pub(crate) fn run(options: &Options, mut field: Field<'_>) -> Report {
    let records = options.records.unwrap_or(if options.quick { 100_000 } else { 1_000_000 });
    let cache = Cache {
        bytes: options.cache.unwrap_or_else(|| cache_for(records)),
        holds_all: options.cache.is_none(),
    };
    let orders = options.keys.map_or(vec![Keys::Sequential, Keys::Random], |keys| vec![keys]);
    let plan: Vec<Session> =
        orders.iter().flat_map(|&keys| sessions(keys, records, cache, options.quick)).collect();
    let outcome = field.run(&plan);
    let (mut tables, mut grids) = (Vec::new(), Vec::new());
    for keys in orders {
        let sample = sessions(keys, records, cache, options.quick);
        let keys = sample[0].keys_name();
        let rows: Vec<&Row> = outcome.rows.iter().filter(|row| row.keys == keys).collect();
        let head = format!(
            "{keys} keys: {} records of 8 + 32 bytes, {} MB of cache",
            thousands(records as f64),
            cache.bytes >> 20
        );
        grids.push(sizes(&head, &rows));
        tables.push(table(head, keys, &rows, field.rounds));
    }
    Report { grids, ..Report::of(Suite::Wp43, Some(cache.bytes), outcome, tables) }
}

/// A cache that holds so many records, in whatever system.
pub(crate) fn cache_for(records: u64) -> u64 {
    let bytes = u128::from(records) * u128::from(CACHE_BYTES_PER_MILLION) / 1_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX).max(CACHE_BYTES_MIN)
}

fn sessions(keys: Keys, records: u64, cache: Cache, quick: bool) -> Vec<Session> {
    // A run ends after so many passes or seconds, whichever comes first.
    let passes = |full, short| if quick { short } else { full };
    let seconds = |full, short| if quick { short } else { full };
    let read = Step::new(Kind::Read, passes(3, 5), seconds(5.0, 0.15));
    let bulk = Step::new(Kind::Bulk, passes(20, 50), seconds(2.0, 0.1));
    // Reading afterwards needs all records, so this has no limit.
    let write = Step::new(Kind::Write, 1, 0.0);
    let update = Step::new(Kind::Update, 1, seconds(20.0, 0.25));
    let commit = Step::new(Kind::Write, 1, seconds(20.0, 0.25));
    let commit_durably = Step::new(Kind::Write, 1, seconds(3.0, 0.2));
    let session = |mode, threads, loaded, steps: &[Step]| Session {
        threads,
        in_cache: cache.holds_all,
        loaded,
        steps: steps.to_vec(),
        ..Session::new(mode, keys, records, cache.bytes)
    };
    let mut sessions = vec![
        session(Mode::Ds, 1, false, &[write, read, bulk, update]),
        session(Mode::Tds, 1, true, &[read]),
        session(Mode::Memory, 1, false, &[commit]),
        session(Mode::NoSync, 1, false, &[commit]),
        session(Mode::WriteNoSync, 1, false, &[commit]),
    ];
    sessions.extend(SYNC_THREADS.map(|threads| session(Mode::Sync, threads, false, &[commit_durably])));
    sessions
}

fn table(title: String, keys: &str, rows: &[&Row], rounds: u32) -> Table {
    Table {
        paper: Some("paper, Linux 2005".to_owned()),
        keys: Some(keys.to_owned()),
        lines: lines(),
        remarks: shares(rows),
        ..Table::new(title, rounds)
    }
}

/// How our figures relate to each other and to the disk, as the paper relates its own.
fn shares(rows: &[&Row]) -> Vec<String> {
    let ours = |mode, kind: Kind| {
        rows.iter()
            .copied()
            .find(|row| row.system == OURS && row.mode == mode && row.op == kind.name() && row.threads == 1)
    };
    let device = rows.iter().copied().find(|row| row.system == DEVICE);
    let (read, bulk) = (ours(Mode::Ds, Kind::Read), ours(Mode::Ds, Kind::Bulk));
    let lines = [
        Figure::Median
            .share(bulk, read)
            .map(|x| format!("bulk read / single read: {x:.2} (the paper's: 13.47)")),
        Figure::Median
            .share(ours(Mode::Tds, Kind::Read), read)
            .map(|x| format!("TDS read / DS read: {x:.3} (the paper's: .609)")),
        Figure::Median.share(ours(Mode::Sync, Kind::Write), device).zip(device).map(|(x, device)| {
            let rate = thousands(device.ops_per_s);
            format!(
                "sync, 1 thread / the disk: {x:.2} (it overwrites and flushes 4 KB {rate} times a second)"
            )
        }),
    ];
    lines.into_iter().flatten().collect()
}

/// Memory and disk of each system after two of the sessions that write.
fn sizes(head: &str, rows: &[&Row]) -> Grid {
    let title = format!("memory while open and disk after closing, {head}; MB");
    let heads = ["system", "resident, DS", "disk, DS", "resident, no-sync", "disk, no-sync"];
    let mut grid = Grid::new(title, heads, 1);
    for system in systems(rows).into_iter().filter(|&system| system != DEVICE) {
        let last = |mode, kind: Kind| {
            rows.iter().find(|row| row.system == system && row.mode == mode && row.op == kind.name())
        };
        let pair = |row: Option<&&Row>| match row {
            Some(row) => [format!("{:.1}", row.rss_mb), format!("{:.1}", row.disk_mb)],
            None => [NONE.to_owned(), NONE.to_owned()],
        };
        let (data, logged) = (last(Mode::Ds, Kind::Update), last(Mode::NoSync, Kind::Write));
        if data.is_some() || logged.is_some() {
            grid.rows.push([system.to_owned()].into_iter().chain(pair(data)).chain(pair(logged)).collect());
        }
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beside::tests::row;
    use crate::contestant::SHARED;

    #[test]
    fn every_line_is_measured_by_a_session() {
        for quick in [false, true] {
            let sessions = sessions(Keys::Random, 100, Cache { bytes: 1 << 20, holds_all: true }, quick);
            for line in &lines() {
                let measured = sessions.iter().any(|session| {
                    let has_step = session.steps.iter().any(|step| step.op == line.op);
                    session.mode == line.mode && session.threads == line.threads && has_step
                });
                assert!(measured, "{} of {} threads", line.label, line.threads);
            }
        }
    }

    #[test]
    fn the_best_peer_is_neither_us_nor_the_disk() {
        let rows = [
            row(OURS, Mode::Sync, "write", 1, 90.0),
            row(DEVICE, Mode::Sync, "write", 1, 100.0),
            row("a", Mode::Sync, "write", 1, 30.0),
            row("b", Mode::Sync, "write", 1, 60.0),
            row("b", Mode::Sync, "write", 4, 70.0),
            row("b", Mode::WriteNoSync, "write", 1, 70.0),
            row("lmdb-writemap", Mode::WriteNoSync, "write", 1, 700.0),
            row(OURS, Mode::Ds, "read", 1, 10.0),
            row(OURS, Mode::Tds, "read", 1, 9.0),
        ];
        let grid_of = |rows: &[Row]| {
            table("x".to_owned(), "random", &rows.iter().collect::<Vec<_>>(), 3)
                .beside_the_paper("wp43", rows)
        };
        let grid = grid_of(&[&rows[..], &[row(SHARED, Mode::Sync, "write", 1, 99.0)]].concat());
        assert_eq!(
            grid.rows[8][3..],
            ["90", "60", "b", "1.50", "99", "1.10"],
            "shared is beside us, and no peer"
        );
        assert_eq!(
            (&grid.heads[8], grid.heads.len(), &grid.rows[0][8..]),
            (&"shared / private".to_owned(), 9, &["—".to_owned()][..])
        );
        let grid = grid_of(&rows);
        assert_eq!(grid.rows[8], ["TDS write, sync", "1", "set by the disk", "90", "60", "b", "1.50"]);
        assert_eq!(grid.rows[0], ["DS read", "1", "1,002,200", "10", "—", "—", "—"]);
        assert_eq!(grid.remarks[0], "TDS read / DS read: 0.900 (the paper's: .609)");
        assert!(grid.remarks[1].starts_with("sync, 1 thread / the disk: 0.90 "));
        assert_eq!(grid.rows[7][5], "b", "who promises less does not count");
        assert!(grid.remarks[2].starts_with("lmdb-writemap is no peer in WriteNoSync"));
        assert!(grid.rows.iter().all(|cells| cells.len() == grid.heads.len()));
    }

    #[test]
    fn tables_of_all_systems_have_a_cell_for_each() {
        let rows = [row("a", Mode::Ds, "update", 1, 5000.0), row("b", Mode::NoSync, "write", 1, 30.0)];
        let grid = table("x".to_owned(), "random", &[], 3).all_systems(&rows).unwrap();
        assert_eq!(grid.rows[2], ["DS update", "1", "5.0", "—"]);
        let grid = sizes("x", &rows.each_ref());
        assert_eq!(grid.rows, [["a", "1.5", "2.5", "—", "—"], ["b", "—", "—", "1.5", "2.5"]]);
    }

    #[test]
    fn the_cache_grows_with_the_records() {
        assert_eq!(cache_for(1_000_000), 128 << 20);
        assert_eq!(cache_for(1000), 16 << 20);
        assert_eq!(cache_for(10_000_000), 1280 << 20);
    }
}
