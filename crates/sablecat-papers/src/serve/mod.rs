//! The serving end of the line protocol: one process, one system, one open store at a time.
//!
//! It serves `sablecat`, `sablecat-hash`, whose database is a hash table, `sablecat-queue`, which can be
//! written to and its records be taken, and `sablecat-dups`, which has many values for each key; each of them
//! also with `-shared` behind it, which opens its environments as processes do that share them; and `device`:
//! the disk itself, whose only operation is to make 4 KB durable, as a bound for every synchronous commit.
//! What a run means, how it is warmed, timed and checked, is kept the same here as in `sablecat-peers`, so
//! that one driver can ask both in turn. Unlike there, it is the driver that has to know what a directory
//! holds: a wrong belief shows as errors, since every value is checked.

mod asked;
mod batch;
mod checkpoints;
mod device;
mod engine;
mod fill;
mod line;
mod loops;
mod pairs;
mod watch;

use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use sablecat::Method;
use sablecat_os::interrupt;

use crate::contestant::{
    DEVICE, DUPS, DUPS_SHARED, HASH, HASH_SHARED, LSM, OURS, QUEUE, QUEUE_SHARED, SHARED,
};
use crate::machine;
use crate::mix::Act;
use crate::protocol::{Answer, Figures, Kind, Open, Request, Run};
use crate::shape::ANY_VERSION;
use crate::workload;
pub(crate) use fill::records as records_of_fill;
pub(crate) use pairs::VALUES_A_KEY;

use device::Device;
use engine::Engine;
use line::Line;
use loops::{Job, Tally};
use pairs::Pairs;

/// The systems that can be served.
pub const SYSTEMS: [&str; 10] =
    [OURS, SHARED, HASH, HASH_SHARED, LSM, QUEUE, QUEUE_SHARED, DUPS, DUPS_SHARED, DEVICE];

/// Answers the requests on standard input until it ends; a store that is still open then is dropped.
///
/// # Errors
/// When standard input or output fails, or there is no such system.
pub fn serve(system: &str) -> io::Result<()> {
    let mut server = Server::new(system).map_err(io::Error::other)?;
    if system.ends_with("-shared") {
        // Shared memory outlives a process that is killed. Ctrl-C ends the driver, and that the input, after
        // which the store is closed.
        interrupt::watch()?;
    }
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        serde_json::to_writer(&mut out, &server.answer(&line?))?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}

/// What is served, and the store that is open, if any.
pub(crate) struct Server {
    system: System,
    opened: Option<Opened>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum System {
    Engine { shared: bool, method: Method },
    Queue { shared: bool },
    Pairs { shared: bool },
    Device,
}

struct Opened {
    store: Store,
    dir: PathBuf,
    threads: u32,
    contents: Contents,
}

/// What is known of the records.
#[derive(Clone, Copy, Debug, Default)]
struct Contents {
    /// Of the values that were written last.
    version: u32,
    /// Whether others have values of earlier versions.
    is_mixed: bool,
    /// How many were removed.
    removed: u64,
    /// How many a mix has inserted.
    added: u64,
}

impl Contents {
    /// The version to expect where none is asked for.
    fn expected(self) -> u32 {
        if self.is_mixed { ANY_VERSION } else { self.version }
    }

    /// Notes what a run has done. Of plain records a run that ends early is followed by none that reads.
    fn note(&mut self, run: &Run, version: u32, ops: u64) {
        match run.kind {
            Kind::Load | Kind::Write => {
                self.is_mixed = !run.shape.is_plain() && (1..run.records).contains(&self.removed);
                self.removed = self.removed.saturating_sub(ops);
                self.version = version;
            }
            Kind::Update => {
                self.is_mixed = !run.shape.is_plain() && ops < run.records;
                self.version = version;
            }
            Kind::Delete => self.removed += ops,
            Kind::Mix => self.is_mixed = true,
            Kind::Read | Kind::Bulk | Kind::Take => {}
        }
    }
}

enum Store {
    Engine(Engine),
    Queue(Line),
    Pairs(Pairs),
    Device(Device),
}

impl Server {
    pub(crate) fn new(system: &str) -> Result<Server, String> {
        let system = match system {
            OURS | SHARED => System::Engine { shared: system == SHARED, method: Method::Btree },
            HASH | HASH_SHARED => System::Engine { shared: system == HASH_SHARED, method: Method::Hash },
            LSM => System::Engine { shared: false, method: Method::Lsm },
            QUEUE | QUEUE_SHARED => System::Queue { shared: system == QUEUE_SHARED },
            DUPS | DUPS_SHARED => System::Pairs { shared: system == DUPS_SHARED },
            DEVICE => System::Device,
            other => return Err(format!("there is no system {other} to serve, only {}", SYSTEMS.join(", "))),
        };
        Ok(Server { system, opened: None })
    }

    /// Answers one line of input.
    pub(crate) fn answer(&mut self, line: &str) -> Answer {
        let done = match serde_json::from_str(line) {
            Ok(Request::Open(open)) => self.open(&open),
            Ok(Request::Run(run)) => self.with_open(|opened| opened.run(&run)),
            Ok(Request::Close) => self.close(),
            Ok(Request::Sync) => self.with_open(|opened| opened.timed(Store::sync)),
            Ok(Request::Checkpoint) => self.with_open(|opened| opened.timed(Store::checkpoint)),
            Ok(Request::Fill { bytes }) => self.with_open(|opened| opened.timed(|store| store.fill(bytes))),
            Ok(Request::Spot { bytes }) => self.with_open(|opened| opened.timed(|store| store.spot(bytes))),
            Err(error) => Err(format!("request: {error}")),
        };
        match done {
            Ok(figures) => Answer::Done(figures),
            Err(error) => Answer::Error { error },
        }
    }

    fn with_open(
        &mut self,
        work: impl FnOnce(&mut Opened) -> Result<Figures, String>,
    ) -> Result<Figures, String> {
        work(self.opened.as_mut().ok_or("no store is open")?)
    }

    fn open(&mut self, open: &Open) -> Result<Figures, String> {
        if self.opened.is_some() {
            return Err("a store is open already".to_owned());
        }
        if open.threads == 0 {
            return Err("threads must be at least 1".to_owned());
        }
        let dir = PathBuf::from(&open.dir);
        let started = Instant::now();
        let store = match self.system {
            System::Device => Store::Device(Device::open(&dir)?),
            System::Engine { shared, method } => Store::Engine(Engine::open(open, shared, method)?),
            System::Queue { shared } => Store::Queue(Line::open(open, shared)?),
            System::Pairs { shared } => Store::Pairs(Pairs::open(open, shared)?),
        };
        let figures = Figures { replayed: store.replayed(), ..figures(&dir, started) };
        self.opened = Some(Opened { store, dir, threads: open.threads, contents: Contents::default() });
        Ok(figures)
    }

    fn close(&mut self) -> Result<Figures, String> {
        let Opened { store, dir, .. } = self.opened.take().ok_or("no store is open")?;
        let started = Instant::now();
        match store {
            Store::Engine(engine) => engine.close()?,
            Store::Queue(line) => line.close()?,
            Store::Pairs(pairs) => pairs.close()?,
            Store::Device(_) => {}
        }
        Ok(figures(&dir, started))
    }
}

impl Store {
    fn replayed(&self) -> u64 {
        match self {
            Store::Engine(engine) => engine.replayed(),
            Store::Queue(_) | Store::Pairs(_) | Store::Device(_) => 0,
        }
    }

    fn engine(&mut self) -> Result<&mut Engine, String> {
        match self {
            Store::Engine(engine) => Ok(engine),
            Store::Queue(_) | Store::Pairs(_) => Err("this is asked of a table of records".to_owned()),
            Store::Device(_) => Err("the device keeps no records".to_owned()),
        }
    }

    fn sync(&mut self) -> Result<Tally, String> {
        self.engine()?.sync().map(|()| Tally::default())
    }

    fn checkpoint(&mut self) -> Result<Tally, String> {
        self.engine()?.settle().map(|()| Tally::default())
    }

    fn fill(&mut self, bytes: u64) -> Result<Tally, String> {
        fill::fill(self.engine()?, bytes)
    }

    fn spot(&mut self, bytes: u64) -> Result<Tally, String> {
        fill::spot(self.engine()?, bytes)
    }
}

impl Opened {
    /// A request that is one call.
    fn timed(&mut self, work: impl FnOnce(&mut Store) -> Result<Tally, String>) -> Result<Figures, String> {
        let started = Instant::now();
        let tally = work(&mut self.store)?;
        let figures = figures(&self.dir, started);
        Ok(Figures { ops: tally.ops, errors: tally.errors, first_error: tally.first_error, ..figures })
    }

    fn run(&mut self, run: &Run) -> Result<Figures, String> {
        run.check(self.threads)?;
        let version = run.version_of_values(self.contents.version, self.contents.expected());
        let present = run.present(self.contents.added, self.contents.removed);
        let job = job(run, version, present);
        let mut checkpoints = Vec::new();
        let tally = match &mut self.store {
            Store::Device(device) => device.run(&job)?,
            Store::Queue(line) => line.run(&job)?,
            Store::Pairs(pairs) => pairs.run(&job)?,
            Store::Engine(engine) => {
                if run.warm && matches!(run.kind, Kind::Read | Kind::Bulk | Kind::Update) {
                    let version = self.contents.expected();
                    let stored =
                        Job { kind: Kind::Bulk, version, passes: 1, seconds_max: 0.0, ..job.clone() };
                    engine.run(&stored)?;
                }
                let tally = if run.checkpoint_ms > 0 {
                    let (env, interval) = (engine.env()?, Duration::from_millis(run.checkpoint_ms));
                    let work = || run_on_threads(engine, run, &job);
                    let (tally, made) = checkpoints::beside(&env, interval, work)?;
                    checkpoints = made;
                    tally
                } else {
                    run_on_threads(engine, run, &job)?
                };
                if run.kind == Kind::Load {
                    engine.settle()?;
                }
                tally
            }
        };
        self.contents.note(run, version, tally.ops);
        self.contents.added += tally.inserted;
        let (rss_mb, rss_peak_mb) = machine::resident_mb();
        let started = tally.time.map(|(start, _)| start);
        let times = tally.watch.as_ref().zip(started).map(|(watch, start)| watch.times(start, &checkpoints));
        Ok(Figures {
            times,
            ops: tally.ops,
            seconds: tally.seconds(),
            errors: tally.errors,
            rss_mb,
            rss_peak_mb,
            disk_mb: machine::disk_mb(&self.dir),
            first_error: tally.first_error,
            ..Figures::default()
        })
    }
}

/// The run as one thread's job; further threads get another stretch of the positions.
fn job(run: &Run, version: u32, present: u64) -> Job {
    Job {
        kind: run.kind,
        order: run.order(),
        shape: run.shape,
        records: run.records,
        present,
        share: 0..run.visited(),
        acts: acts(run, 0),
        whole: run.mix.is_some_and(|mix| mix.whole),
        timed: run.timed,
        version,
        passes: run.passes,
        seconds_max: run.seconds_limit(),
    }
}

/// What a thread does in a mix.
fn acts(run: &Run, thread: u64) -> Vec<Act> {
    run.mix.map_or(Vec::new(), |mix| mix.acts(run.records, (run.threads.into(), thread), run.seed))
}

/// One job per thread; all start together. A single thread's job runs on this one.
fn run_on_threads(engine: &mut Engine, run: &Run, job: &Job) -> Result<Tally, String> {
    if run.threads == 1 {
        return engine.run(job);
    }
    let parts = (0..run.threads).map(|_| engine.part()).collect::<Result<Vec<_>, _>>()?;
    let barrier = Barrier::new(parts.len());
    let tallies: Vec<Tally> = thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(parts)
            .map(|(thread, mut part)| {
                let share = workload::share_of_runs(run.visited(), run.together, run.threads.into(), thread);
                let acts = if thread == 0 { job.acts.clone() } else { acts(run, thread) };
                let job = Job { share, acts, ..job.clone() };
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    part.run(&job)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a thread panicked".to_owned()))
            .collect::<Result<_, _>>()
    })?;
    Ok(Tally::sum(tallies))
}

/// The figures that every answer has.
fn figures(dir: &Path, started: Instant) -> Figures {
    let seconds = started.elapsed().as_secs_f64();
    let (rss_mb, rss_peak_mb) = machine::resident_mb();
    Figures { seconds, rss_mb, rss_peak_mb, disk_mb: machine::disk_mb(dir), ..Figures::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mix::{Mix, Pick};
    use crate::place::Place;
    use crate::protocol::Mode;
    use crate::shape::Shape;
    use crate::workload::Keys;

    fn ask(server: &mut Server, request: &Request) -> Figures {
        match server.answer(&serde_json::to_string(request).unwrap()) {
            Answer::Done(figures) => figures,
            other => panic!("{request:?}: {other:?}"),
        }
    }

    fn open(dir: &Path, mode: Mode, threads: u32) -> Request {
        Request::Open(Open {
            dir: dir.to_str().unwrap().to_owned(),
            mode,
            cache_bytes: 16 << 20,
            log_buffer: 1 << 20,
            page_size: 0,
            threads,
            keep_log: false,
            direct: false,
            transactions: false,
            image: String::new(),
        })
    }

    fn run(kind: Kind, keys: Keys, threads: u32) -> Request {
        Request::Run(Run {
            kind,
            keys,
            records: 300,
            threads,
            seed: 1,
            seconds_max: 0.0,
            version: None,
            passes: 2,
            cursor: false,
            warm: true,
            shape: Shape::PLAIN,
            together: 1,
            visits: 0,
            mix: None,
            timed: false,
            checkpoint_ms: 0,
        })
    }

    #[test]
    fn every_kind_of_run_finds_what_was_written_in_every_mode() {
        let modes = [Mode::Ds, Mode::Tds, Mode::Memory, Mode::NoSync, Mode::WriteNoSync, Mode::Sync];
        for (system, mode) in
            modes.into_iter().map(|mode| (OURS, mode)).chain(modes[1..].iter().map(|&mode| (SHARED, mode)))
        {
            for keys in [Keys::Sequential, Keys::Random] {
                let place = Place::below(&std::env::temp_dir()).unwrap();
                let mut server = Server::new(system).unwrap();
                ask(&mut server, &open(&place.path().join("env"), mode, 1));
                for (kind, ops) in [
                    (Kind::Write, 300),
                    (Kind::Read, 600),
                    (Kind::Bulk, 600),
                    (Kind::Update, 300),
                    (Kind::Read, 600),
                ] {
                    let done = ask(&mut server, &run(kind, keys, 1));
                    assert_eq!(
                        (done.ops, done.errors, done.first_error.as_str()),
                        (ops, 0, ""),
                        "{system} {mode:?} {keys:?} {kind:?}"
                    );
                }
                ask(&mut server, &Request::Close);
            }
        }
    }

    #[test]
    fn records_that_are_removed_are_missing_until_they_are_written_again() {
        for (mode, threads) in [(Mode::Ds, 1), (Mode::Memory, 1), (Mode::NoSync, 3)] {
            let place = Place::below(&std::env::temp_dir()).unwrap();
            let mut server = Server::new("sablecat").unwrap();
            ask(&mut server, &open(&place.path().join("env"), mode, threads));
            let mut done = |kind, visits, ops| {
                let Request::Run(plain) = run(kind, Keys::Random, threads) else { unreachable!() };
                let shape = Shape::new(64, 64, 64, false);
                let threads = if kind == Kind::Bulk { 1 } else { threads };
                let asked = Run { shape, together: 10, passes: 1, threads, visits, ..plain };
                let done = ask(&mut server, &Request::Run(asked));
                assert_eq!(
                    (done.ops, done.errors, done.first_error.as_str()),
                    (ops, 0, ""),
                    "{mode:?} {kind:?} {visits}"
                );
            };
            done(Kind::Load, 0, 300);
            done(Kind::Read, 0, 300);
            done(Kind::Update, 100, 100);
            done(Kind::Read, 0, 300);
            done(Kind::Delete, 200, 200);
            done(Kind::Bulk, 0, 100);
            done(Kind::Write, 200, 200);
            done(Kind::Bulk, 0, 300);
            done(Kind::Delete, 0, 300);
            done(Kind::Bulk, 0, 0);
            done(Kind::Write, 0, 300);
            done(Kind::Read, 0, 300);
        }
    }

    #[test]
    fn a_mix_adds_what_it_inserts_and_sees_what_is_wrong() {
        let mix = Mix {
            read: 20,
            update: 20,
            insert: 20,
            scan: 20,
            modify: 20,
            pick: Pick::Latest,
            operations: 400,
            whole: false,
        };
        let ways = [
            (Mode::Ds, 1, false),
            (Mode::Memory, 1, false),
            (Mode::NoSync, 3, false),
            (Mode::NoSync, 3, true),
        ];
        for (mode, threads, whole) in ways {
            let mix = Mix { whole, ..mix };
            let place = Place::below(&std::env::temp_dir()).unwrap();
            let mut server = Server::new("sablecat").unwrap();
            ask(&mut server, &open(&place.path().join("env"), mode, threads));
            let mut done = |kind, threads, mix| {
                let Request::Run(plain) = run(kind, Keys::Random, threads) else { unreachable!() };
                let shape = Shape::new(24, 100, 200, true);
                ask(&mut server, &Request::Run(Run { shape, passes: 1, mix, ..plain }))
            };
            assert_eq!(done(Kind::Write, 1, None).errors, 0);
            let mixed = done(Kind::Mix, threads, Some(mix));
            assert_eq!((mixed.ops, mixed.errors, mixed.first_error.as_str()), (400, 0, ""), "{mode:?}");
            let scanned = done(Kind::Bulk, 1, None);
            assert_eq!((scanned.errors, scanned.first_error.as_str()), (0, ""), "{mode:?}");
            assert!((350..450).contains(&scanned.ops), "{mode:?}: {}", scanned.ops);
            done(Kind::Delete, 1, None);
            let missing = done(Kind::Mix, 1, Some(Mix { pick: Pick::Uniform, ..mix }));
            assert!(missing.errors > 0, "{mode:?}: {missing:?}");
        }
    }

    #[test]
    fn a_record_that_cannot_be_removed_is_an_error() {
        let place = Place::below(&std::env::temp_dir()).unwrap();
        let mut server = Server::new("sablecat").unwrap();
        ask(&mut server, &open(&place.path().join("env"), Mode::Memory, 1));
        let done = ask(&mut server, &run(Kind::Delete, Keys::Random, 1));
        assert_eq!((done.ops, done.errors), (300, 300));
        assert!(done.first_error.ends_with("there was none"), "{}", done.first_error);
    }

    #[test]
    fn threads_share_the_records_out() {
        let place = Place::below(&std::env::temp_dir()).unwrap();
        let mut server = Server::new("sablecat").unwrap();
        ask(&mut server, &open(&place.path().join("env"), Mode::Memory, 4));
        for kind in [Kind::Load, Kind::Update, Kind::Read] {
            let done = ask(&mut server, &run(kind, Keys::Random, 4));
            assert_eq!((done.errors, done.first_error.as_str()), (0, ""), "{kind:?}");
        }
        assert!(matches!(
            server.answer(&serde_json::to_string(&run(Kind::Read, Keys::Random, 5)).unwrap()),
            Answer::Error { .. }
        ));
    }

    #[test]
    fn the_clock_is_looked_at_as_often_as_commits_allow() {
        for (mode, threads, ops) in
            [(Mode::NoSync, 1, 64), (Mode::NoSync, 3, 3 * 64), (Mode::Sync, 1, 1), (Mode::Sync, 3, 3)]
        {
            let place = Place::below(&std::env::temp_dir()).unwrap();
            let mut server = Server::new("sablecat").unwrap();
            ask(&mut server, &open(&place.path().join("env"), mode, threads));
            ask(&mut server, &run(Kind::Load, Keys::Random, 1));
            let Request::Run(plain) = run(Kind::Update, Keys::Random, threads) else { unreachable!() };
            // It is over at the first look.
            let done = ask(&mut server, &Request::Run(Run { seconds_max: 1e-9, ..plain }));
            assert_eq!((done.ops, done.errors), (ops, 0), "{mode:?}, {threads} threads");
        }
    }

    #[test]
    fn wrong_values_are_counted() {
        let place = Place::below(&std::env::temp_dir()).unwrap();
        let mut server = Server::new("sablecat").unwrap();
        ask(&mut server, &open(&place.path().join("env"), Mode::Ds, 1));
        ask(&mut server, &run(Kind::Write, Keys::Random, 1));
        let Request::Run(right) = run(Kind::Read, Keys::Random, 1) else { unreachable!() };
        let wrong_version = Request::Run(Run { version: Some(7), warm: false, passes: 1, ..right.clone() });
        let done = ask(&mut server, &wrong_version);
        assert_eq!((done.ops, done.errors), (300, 300));
        assert!(done.first_error.contains("not the value that was stored"), "{}", done.first_error);
        let more_records =
            Request::Run(Run { kind: Kind::Bulk, records: 301, warm: false, passes: 1, ..right });
        let done = ask(&mut server, &more_records);
        assert_eq!((done.ops, done.errors), (300, 1), "{}", done.first_error);
    }

    #[test]
    fn the_device_can_only_be_overwritten() {
        let place = Place::below(&std::env::temp_dir()).unwrap();
        let mut server = Server::new("device").unwrap();
        ask(&mut server, &open(&place.path().join("env"), Mode::Sync, 1));
        let Request::Run(run) = run(Kind::Write, Keys::Sequential, 1) else { unreachable!() };
        let done = ask(&mut server, &Request::Run(Run { records: 20, ..run.clone() }));
        assert_eq!((done.ops, done.errors), (20, 0));
        let read = serde_json::to_string(&Request::Run(Run { kind: Kind::Read, ..run })).unwrap();
        assert!(matches!(server.answer(&read), Answer::Error { .. }));
        assert!(matches!(server.answer("{}"), Answer::Error { .. }));
        ask(&mut server, &Request::Close);
        assert!(Server::new("toaster").is_err());
    }

    #[test]
    fn a_filled_store_holds_what_was_filled_in() {
        let place = Place::below(&std::env::temp_dir()).unwrap();
        let mut server = Server::new("sablecat").unwrap();
        ask(&mut server, &open(&place.path().join("env"), Mode::NoSync, 1));
        let done = ask(&mut server, &Request::Fill { bytes: 1 << 20 });
        assert!(done.ops > 2000, "{}", done.ops);
        ask(&mut server, &Request::Close);
        ask(&mut server, &open(&place.path().join("env"), Mode::NoSync, 1));
        let done = ask(&mut server, &Request::Spot { bytes: 1 << 20 });
        assert!(done.ops > 0 && done.errors == 0, "{done:?}");
    }
}
