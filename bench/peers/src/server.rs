//! Carries out requests: opens the store, runs the workload on threads, keeps account of what the store
//! holds.
//!
//! Around every timed run: sessions are opened, the caches are warmed by one untimed scan (for runs that meet
//! existing records), and all threads meet at a barrier. The clock is read inside the adapters, so a run's
//! time is from the first thread's start to the last one's end, and sessions are closed after it.
//!
//! What is refused: reading records of which it is not known what they must be (see [`crate::contents`]), and
//! Data Store writes by several threads, since that mode has no locks in the system that it is named after.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use crate::contents::{Contents, State};
use crate::machine;
use crate::protocol::{Answer, Figures, Kind, Open, Request, Run};
use crate::system::{Job, Mode, Options, Outcome, Store, System};
use crate::upkeep::{self, Intervals};
use crate::watch::Watch;
use crate::workload;

/// One system, and the store of it that is open, if any.
pub(crate) struct Server {
    system: System,
    opened: Option<Opened>,
}

struct Opened {
    store: Box<dyn Store>,
    contents: Contents,
    dir: PathBuf,
    threads: u32,
    /// Whether what is written can be asked for; the device only takes bytes.
    keeps_records: bool,
}

impl Server {
    pub(crate) fn new(system: System) -> Server {
        Server { system, opened: None }
    }

    /// Answers one line of input.
    pub(crate) fn answer(&mut self, line: &str) -> Answer {
        let request = serde_json::from_str(line).map_err(|error| format!("request: {error}"));
        let done = request.and_then(|request| match request {
            Request::Open(open) => match self.system.peer.meaning(open.mode) {
                Some(_) => self.open(&open).map(Answer::Done),
                None => {
                    let skipped = format!("{}: it has no mode like {}", self.system.name, open.mode.name());
                    Ok(Answer::Skipped { skipped })
                }
            },
            Request::Run(run) => self.run(&run).map(Answer::Done),
            Request::Close => self.close().map(Answer::Done),
        });
        done.unwrap_or_else(|error| Answer::Error { error: format!("{}: {error}", self.system.name) })
    }

    /// Closes what is still open, when the input has ended.
    pub(crate) fn finish(&mut self) {
        if self.opened.is_some()
            && let Err(error) = self.close()
        {
            eprintln!("{}: {error}", self.system.name);
        }
    }

    fn open(&mut self, open: &Open) -> Result<Figures, String> {
        if self.opened.is_some() {
            return Err("a store is open already".to_owned());
        }
        if open.threads == 0 {
            return Err("threads must be at least 1".to_owned());
        }
        if open.mode == Mode::Background && open.threads == 1 {
            return Err("who keeps house is a thread too: at least 2 threads".to_owned());
        }
        let dir = PathBuf::from(&open.dir);
        let place = store_dir(&dir);
        fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
        let contents = Contents::read(&dir, self.system.name, open.mode)?;
        contents.write(&dir)?;
        let options = Options {
            dir: place,
            mode: open.mode,
            cache_bytes: open.cache_bytes,
            log_buffer: open.log_buffer,
            page_size: open.page_size,
            threads: open.threads,
            direct: open.direct,
            transactions: open.transactions,
        };
        let started = Instant::now();
        let store = self.system.peer.open(&options)?;
        let seconds = started.elapsed().as_secs_f64();
        let keeps_records = self.system.name != "device";
        self.opened =
            Some(Opened { store, contents, dir: dir.clone(), threads: open.threads, keeps_records });
        Ok(figures(&dir, seconds))
    }

    fn close(&mut self) -> Result<Figures, String> {
        let Opened { store, dir, .. } = self.opened.take().ok_or("no store is open")?;
        let started = Instant::now();
        store.close()?;
        Ok(figures(&dir, started.elapsed().as_secs_f64()))
    }

    fn run(&mut self, run: &Run) -> Result<Figures, String> {
        let opened = self.opened.as_mut().ok_or("no store is open")?;
        opened.may_run(run)?;
        let expected = opened.contents.expected();
        let version = run.version_of_values(opened.contents.version, expected);
        let asked = Job { version, ..job(run, &opened.contents) };

        opened.before(run, version)?;
        if run.warm && matches!(run.kind, Kind::Read | Kind::Bulk | Kind::Update) {
            let stored = Job { kind: Kind::Bulk, version: expected, passes: 1, seconds_max: 0.0, ..asked };
            opened.store.session()?.run(&stored, Vec::new(), false);
        }
        let work = || run_on_threads(&*opened.store, &asked, run);
        let (outcomes, checkpoints) = match Intervals::of(opened.contents.mode, run.checkpoint_ms) {
            Some(intervals) => upkeep::beside(&*opened.store, intervals, work)?,
            None => (work()?, Vec::new()),
        };
        let total = add_up(&outcomes);
        opened.after(run, &total)?;
        if run.kind == Kind::Load {
            opened.store.settle()?;
        }
        let seconds = total.ended_ns.saturating_sub(total.started_ns) as f64 / 1e9;
        let times = total.watch.as_ref().map(|watch| watch.times(total.started_ns, &checkpoints));
        let Outcome { ops, errors, first_error, note, .. } = total;
        Ok(Figures { ops, errors, first_error, note, times, ..figures(&opened.dir, seconds) })
    }
}

impl Opened {
    /// Whether the run makes sense on what the store holds.
    fn may_run(&self, run: &Run) -> Result<(), String> {
        let Contents { records, state, mode, removed, .. } = self.contents;
        run.check(self.threads)?;
        let reads = matches!(run.kind, Kind::Read | Kind::Bulk | Kind::Take);
        if mode == Mode::Ds && run.threads > 1 && !reads {
            return Err("Data Store has no locks: one thread writes".to_owned());
        }
        if run.checkpoint_ms > 0 && self.threads == 1 {
            return Err("who makes checkpoints is a thread too: at least 2 threads".to_owned());
        }
        if mode == Mode::Ds && run.kind == Kind::Mix {
            return Err("in Data Store a run is one transaction, which either reads or writes".to_owned());
        }
        if run.kind == Kind::Take && run.threads > 1 {
            return Err("one thread takes records, so that they are known to come in their order".to_owned());
        }
        match run.kind {
            Kind::Write if !self.keeps_records => Ok(()),
            _ if !self.keeps_records => Err("it keeps no records: it can only be written to".to_owned()),
            Kind::Write if removed != 0 && state != State::Part => {
                let fits = run.records == records && run.visited() == removed;
                if fits { Ok(()) } else { Err(format!("what was removed are {removed} records")) }
            }
            Kind::Load | Kind::Write if records != 0 => Err("the store is not empty".to_owned()),
            Kind::Load | Kind::Write => Ok(()),
            _ if state == State::Part => {
                Err("an earlier write stopped early: it is not known what is there".to_owned())
            }
            _ if records != run.records => {
                Err(format!("{} records, but the store holds {records}", run.records))
            }
            Kind::Read | Kind::Update | Kind::Delete | Kind::Mix if removed != 0 => {
                Err(format!("{removed} records were removed"))
            }
            Kind::Read | Kind::Bulk | Kind::Take if state == State::Mixed && run.shape.is_plain() => {
                Err("an earlier update stopped early: it is not known what the values must be".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Notes what a run that writes is about to do, as if it were to fail.
    fn before(&mut self, run: &Run, version: u32) -> Result<(), String> {
        self.contents.state = match run.kind {
            Kind::Load | Kind::Write => State::Part,
            Kind::Update | Kind::Mix => State::Mixed,
            Kind::Read | Kind::Bulk => return Ok(()),
            // What is left of them is not known from here on.
            Kind::Take | Kind::Delete => State::Part,
        };
        self.contents.records = run.records;
        if !matches!(run.kind, Kind::Delete | Kind::Mix) {
            // Where reading is refused until a later update is whole, this need only be higher than all that
            // is there.
            self.contents.version = version;
        }
        self.contents.write(&self.dir)
    }

    /// Notes that it has done all of it, if it has.
    fn after(&mut self, run: &Run, total: &Outcome) -> Result<(), String> {
        if run.kind == Kind::Mix {
            // However many of them it has done: those are there, and are counted.
            self.contents.added += total.inserted;
            return self.contents.write(&self.dir);
        }
        if matches!(run.kind, Kind::Read | Kind::Bulk | Kind::Take)
            || total.ops != run.visited()
            || total.errors != 0
        {
            return Ok(());
        }
        let is_all = run.visited() == run.records;
        self.contents.state = if is_all { State::Whole } else { State::Mixed };
        self.contents.removed = if run.kind == Kind::Delete { run.visited() } else { 0 };
        self.contents.write(&self.dir)
    }
}

/// One job per thread, each on its own session; all start together.
fn run_on_threads(store: &dyn Store, job: &Job, run: &Run) -> Result<Vec<Outcome>, String> {
    let barrier = Barrier::new(run.threads as usize);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..run.threads)
            .map(|thread| {
                let barrier = &barrier;
                let acts = run.mix.map_or(Vec::new(), |mix| {
                    mix.acts(run.records, (run.threads.into(), thread.into()), run.seed)
                });
                let share =
                    workload::share_of_runs(run.visited(), run.together, run.threads.into(), thread.into());
                scope.spawn(move || {
                    let session = store.session();
                    barrier.wait();
                    let outcome = session.map(|mut session| {
                        let job = Job { first: share.start, end: share.end, ..*job };
                        let outcome = session.run(&job, acts, run.timed);
                        barrier.wait();
                        outcome
                    });
                    if outcome.is_err() {
                        barrier.wait();
                    }
                    outcome
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a thread panicked".to_owned())?).collect()
    })
}

/// The run as one thread's job; each thread has positions and, in a mix, acts of its own.
fn job(run: &Run, contents: &Contents) -> Job {
    Job {
        kind: run.kind,
        order: run.order(),
        shape: run.shape,
        records: run.records,
        present: run.present(contents.added, contents.removed),
        first: 0,
        end: run.visited(),
        seconds_max: run.seconds_limit(),
        // A durable commit takes long enough for a look at the clock each.
        check_every: if contents.mode == Mode::Sync { 1 } else { 64 },
        version: 0,
        passes: run.passes,
        whole: run.mix.is_some_and(|mix| mix.whole),
        cursor: run.cursor,
    }
}

fn add_up(outcomes: &[Outcome]) -> Outcome {
    let text = |of: fn(&Outcome) -> &String| {
        outcomes.iter().map(of).find(|text| !text.is_empty()).cloned().unwrap_or_default()
    };
    Outcome {
        ops: outcomes.iter().map(|outcome| outcome.ops).sum(),
        errors: outcomes.iter().map(|outcome| outcome.errors).sum(),
        inserted: outcomes.iter().map(|outcome| outcome.inserted).sum(),
        started_ns: outcomes.iter().map(|outcome| outcome.started_ns).min().unwrap_or(0),
        ended_ns: outcomes.iter().map(|outcome| outcome.ended_ns).max().unwrap_or(0),
        watch: outcomes.iter().filter_map(|outcome| outcome.watch.clone()).reduce(together),
        first_error: text(|outcome| &outcome.first_error),
        note: text(|outcome| &outcome.note),
    }
}

fn together(mut one: Box<Watch>, other: Box<Watch>) -> Box<Watch> {
    one.add(&other);
    one
}

/// The figures that every answer has.
fn figures(dir: &Path, seconds: f64) -> Figures {
    let (rss_mb, rss_peak_mb) = machine::resident_mb();
    let disk_mb = machine::disk_mb(&store_dir(dir)).unwrap_or(0.0);
    Figures { seconds, rss_mb, rss_peak_mb, disk_mb, ..Figures::default() }
}

/// Where the system keeps its files; our own note lies beside it, and is not counted.
fn store_dir(dir: &Path) -> PathBuf {
    dir.join("store")
}
