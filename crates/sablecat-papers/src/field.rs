//! Sessions run by every system in turn, again and again.
//!
//! Round by round, every contestant runs the session once, so that a slow minute of the machine slows all of
//! them; a figure is the median over the rounds.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use sablecat_os::interrupt;

use crate::Progress;
use crate::contestant::{Contestant, DEVICE, Refusal, Served, flawless, is_ours, maps_files};
use crate::latency::{Latency, Of};
use crate::machine;
use crate::memory_limit::MemoryLimit;
use crate::protocol::{Figures, Kind, Mode, Request};
use crate::row::Row;
use crate::session::{Session, Step};

/// What came of the sessions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) rows: Vec<Row>,
    /// Which systems could not take part where, and why; without our own failures.
    pub(crate) notes: Vec<String>,
    /// What makes the run a failure: wrong or failed operations of anybody, failures of ours.
    pub(crate) problems: Vec<String>,
}

/// Where and how often.
pub(crate) struct Field<'a> {
    pub(crate) contestants: Vec<&'a dyn Contestant>,
    pub(crate) dir: &'a Path,
    pub(crate) rounds: u32,
    pub(crate) progress: &'a mut dyn Progress,
}

/// Loading is not measured, so it need not suffer from the small caches that reading is measured with.
const LOADING_CACHE_BYTES_MIN: u64 = 256 << 20;

impl Field<'_> {
    /// Runs each session in rounds.
    pub(crate) fn run(&mut self, sessions: &[Session]) -> Outcome {
        let mut outcome = Outcome::default();
        let entrants: Vec<Vec<usize>> = sessions.iter().map(|session| self.entrants(session)).collect();
        let runs = entrants.iter().map(|entrants| entrants.len() as u64 * u64::from(self.rounds)).sum();
        self.progress.start(runs);
        let mut loaded = vec![false; self.contestants.len()];
        for (i, (session, entrants)) in sessions.iter().zip(entrants).enumerate() {
            if interrupt::is_asked() {
                break;
            }
            self.run_session(session, entrants, &mut loaded, &mut outcome);
            if !sessions.get(i + 1).is_some_and(|next| next.goes_on_with(session)) {
                loaded.fill(false);
                for contestant in &self.contestants {
                    // What could not be cleared away is in a directory that will be removed as a whole.
                    let _ = fs::remove_dir_all(self.dir.join(contestant.name()));
                }
            }
        }
        outcome
    }

    fn entrants(&self, session: &Session) -> Vec<usize> {
        let takes_part = |contestant: &dyn Contestant| {
            let only_bounds = contestant.name() == DEVICE && session.threads > 1;
            contestant.takes_part(session.mode) && !only_bounds
        };
        (0..self.contestants.len()).filter(|&i| takes_part(self.contestants[i])).collect()
    }

    fn run_session(
        &mut self,
        session: &Session,
        mut entrants: Vec<usize>,
        loaded: &mut [bool],
        outcome: &mut Outcome,
    ) {
        // Per contestant: per round: per step, up to one that was refused.
        let mut rounds = vec![Vec::new(); self.contestants.len()];
        let mut refusals = vec![None; self.contestants.len()];
        for _ in 0..self.rounds {
            entrants.retain(|&entrant| {
                if interrupt::is_asked() {
                    return false;
                }
                let contestant = self.contestants[entrant];
                self.progress.step(&session.label(contestant.name()));
                let mut figures = Vec::new();
                let dir = self.dir.join(contestant.name());
                let done = run_once(contestant, session, &dir, &mut loaded[entrant], &mut figures);
                rounds[entrant].push(figures);
                // A process that ended because all are asked to end has refused nothing.
                refusals[entrant] = done.err().filter(|_| !interrupt::is_asked());
                refusals[entrant].is_none()
            });
        }
        for ((contestant, rounds), refusal) in self.contestants.iter().zip(rounds).zip(refusals) {
            for (i, step) in session.steps.iter().enumerate() {
                let samples: Vec<&Figures> = rounds.iter().filter_map(|figures| figures.get(i)).collect();
                outcome.add(contestant.name(), session, step, &samples);
            }
            let label = session.label(contestant.name());
            match refusal {
                None => {}
                Some(Refusal::Skipped(why)) => outcome.note(format!("skipped: {why}")),
                Some(Refusal::Failed(why)) if !is_ours(contestant.name()) => {
                    outcome.note(format!("{label} could not run: {why}"));
                }
                Some(Refusal::Failed(why) | Refusal::Wrong(why)) => {
                    outcome.problems.push(format!("{label}: {why}"));
                }
            }
        }
    }
}

impl Outcome {
    /// Adds a note, once.
    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Adds the row of a step, and a problem if there were errors.
    pub(crate) fn add(&mut self, system: &str, session: &Session, step: &Step, samples: &[&Figures]) {
        let Some(row) = Row::of(system, session, step, samples) else { return };
        if let Some(sample) = samples.iter().find(|sample| sample.errors > 0) {
            self.problems.push(format!(
                "{}: {} errors, first: {}",
                row.label(),
                row.errors,
                sample.first_error
            ));
        }
        if step.is_aside {
            return;
        }
        if !step.timed {
            self.rows.push(row);
            return;
        }
        // A row for each kind of operation, both with the rate of all.
        for (of, word) in [(Of::Reads, "read"), (Of::Writes, "write")] {
            if let Some(latency) = Latency::of(samples, session.threads, of) {
                let op = format!("{word} {}", step.op);
                self.rows.push(Row { op, latency: Some(latency), ..row.clone() });
            }
        }
    }

    /// Adds what came of others.
    pub(crate) fn append(&mut self, mut other: Outcome) {
        self.rows.append(&mut other.rows);
        other.notes.into_iter().for_each(|note| self.note(note));
        self.problems.append(&mut other.problems);
    }
}

/// One round of one contestant: the `figures` of each step, with the disk use after closing; those of the
/// steps before a refusal are there too. Loads first what is not `loaded`.
fn run_once(
    contestant: &dyn Contestant,
    session: &Session,
    dir: &Path,
    loaded: &mut bool,
    figures: &mut Vec<Figures>,
) -> Result<(), Refusal> {
    let image = session.image_of(contestant.name());
    for dir in [Some(dir), image.as_deref()].into_iter().flatten().filter(|dir| !*loaded && dir.exists()) {
        fs::remove_dir_all(dir)
            .map_err(|error| Refusal::Failed(format!("cannot clear {}: {error}", dir.display())))?;
    }
    if session.loaded && !*loaded {
        let mut served = contestant.start()?;
        let loading =
            Session { cache_bytes: session.cache_bytes.max(LOADING_CACHE_BYTES_MIN), ..session.clone() };
        // What keeps house beside it is a thread too.
        let threads = if session.mode == Mode::Background { session.threads } else { 1 };
        served.ask(&loading.open(contestant, dir, threads))?;
        flawless(served.ask(&session.run(Kind::Load, None, false))?, "loading")?;
        served.ask(&Request::Close)?;
        *loaded = true;
    }
    let unlimited = |error: std::io::Error| Refusal::Failed(format!("its memory cannot be limited: {error}"));
    let mut measure = |limit: Option<&MemoryLimit>| {
        let mut served = contestant.start()?;
        limit.map_or(Ok(()), |limit| limit.hold(served.id())).map_err(unlimited)?;
        served.ask(&session.open(contestant, dir, session.threads))?;
        let done = session.steps.iter().try_for_each(|step| {
            figures.push(served.ask(&session.run(step.kind, Some(step), contestant.by_cursor()))?);
            Ok(())
        });
        if figures.is_empty() {
            return done;
        }
        let closed = close(&mut *served);
        // Who cannot close its store leaves what is there.
        let disk_mb = closed.as_ref().map_or_else(|_| machine::disk_mb(dir), |&disk_mb| disk_mb);
        figures.iter_mut().for_each(|figures| figures.disk_mb = disk_mb);
        done.and(closed.map(drop))
    };
    if !session.uncached {
        return measure(None);
    }
    if !(maps_files(contestant.name()) && MemoryLimit::is_possible()) {
        return without_system_cache(dir, || measure(None));
    }
    // The report says that it was limited.
    let limit = MemoryLimit::new(session.memory_bytes()).map_err(unlimited)?;
    // What is cached of its files already counts for others.
    rustix::fs::sync();
    machine::drop_cached(dir);
    measure(Some(&limit))
}

fn close(served: &mut dyn Served) -> Result<f64, Refusal> {
    served.ask(&Request::Close).map(|figures| figures.disk_mb)
}

/// Does the work while a second thread has the system drop what it caches of the files, many times a second.
///
/// No limit on memory is needed for that, and no privilege. It does not reach what a process has mapped: a
/// system whose cache is that keeps all of it, unless its memory is limited.
fn without_system_cache<T>(dir: &Path, work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Relaxed: the flag carries no data, and seeing it late costs one more round.
            while !done.load(Ordering::Relaxed) {
                machine::drop_cached(dir);
                thread::sleep(Duration::from_millis(50));
            }
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contestant::{OURS, Program};
    use crate::place::Place;
    use crate::workload::Keys;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// Answers every request with the next of its figures' rates, and notes what was asked.
    struct Fake {
        name: &'static str,
        refusal: Option<Refusal>,
        asked: Rc<RefCell<Vec<String>>>,
        errors: u64,
        stops_at: Option<&'static str>,
    }

    struct Answering {
        name: &'static str,
        refusal: Option<Refusal>,
        asked: Rc<RefCell<Vec<String>>>,
        errors: u64,
        stops_at: Option<&'static str>,
    }

    impl Contestant for Fake {
        fn name(&self) -> &str {
            self.name
        }
        fn takes_part(&self, mode: Mode) -> bool {
            self.name != DEVICE || mode == Mode::Sync
        }
        fn by_cursor(&self) -> bool {
            false
        }
        fn cache_scale(&self) -> u64 {
            1
        }
        fn page_size_out_of_cache(&self) -> u32 {
            0
        }
        fn has_pages(&self) -> bool {
            true
        }
        fn has_direct_io(&self) -> bool {
            false
        }
        fn start(&self) -> Result<Box<dyn Served>, Refusal> {
            let Fake { name, refusal, asked, errors, stops_at } = self;
            let (refusal, asked) = (refusal.clone(), asked.clone());
            Ok(Box::new(Answering { name, refusal, asked, errors: *errors, stops_at: *stops_at }))
        }
    }

    impl Served for Answering {
        fn id(&self) -> u32 {
            std::process::id()
        }
        fn ask(&mut self, request: &Request) -> Result<Figures, Refusal> {
            let word = match request {
                Request::Run(run) => run.kind.name(),
                Request::Open(_) => "open",
                _ => "close",
            };
            self.asked.borrow_mut().push(format!("{} {word}", self.name));
            if self.stops_at == Some(word) {
                return Err(Refusal::Failed(format!("no {word}")));
            }
            match &self.refusal {
                Some(refusal) if word != "open" => Err(refusal.clone()),
                _ => Ok(Figures {
                    ops: 10,
                    seconds: 0.5,
                    errors: self.errors,
                    disk_mb: 3.0,
                    ..Figures::default()
                }),
            }
        }
    }

    fn session(mode: Mode, loaded: bool, threads: u32, kinds: &[Kind]) -> Session {
        Session {
            threads,
            in_cache: true,
            loaded,
            steps: kinds.iter().map(|&kind| Step::new(kind, 1, 0.0)).collect(),
            ..Session::new(mode, Keys::Random, 10, 1 << 20)
        }
    }

    fn run(fakes: &[Fake], sessions: &[Session]) -> Outcome {
        let place = Place::below(&std::env::temp_dir()).unwrap();
        let contestants = fakes.iter().map(|fake| fake as &dyn Contestant).collect();
        Field { contestants, dir: place.path(), rounds: 3, progress: &mut () }.run(sessions)
    }

    fn fakes(asked: &Rc<RefCell<Vec<String>>>, names: &[&'static str]) -> Vec<Fake> {
        names.iter().map(|name| fake(asked, name)).collect()
    }

    fn fake(asked: &Rc<RefCell<Vec<String>>>, name: &'static str) -> Fake {
        Fake { name, refusal: None, asked: asked.clone(), errors: 0, stops_at: None }
    }

    #[test]
    fn systems_take_turns_and_a_row_is_a_median() {
        let asked = Rc::new(RefCell::new(Vec::new()));
        let outcome =
            run(&fakes(&asked, &[OURS, "p"]), &[session(Mode::Ds, false, 1, &[Kind::Write, Kind::Read])]);
        let round = [OURS, "p"]
            .iter()
            .flat_map(|name| ["open", "write", "read", "close"].map(|word| format!("{name} {word}")));
        let rounds: Vec<String> = round.clone().chain(round.clone()).chain(round).collect();
        assert_eq!(*asked.borrow(), rounds);
        assert_eq!(outcome.rows.len(), 4);
        let row = &outcome.rows[0];
        assert_eq!(
            (row.system.as_str(), row.op.as_str(), row.ops_per_s, row.median_of, row.disk_mb),
            (OURS, "write", 20.0, 3, 3.0)
        );
        assert!(outcome.problems.is_empty() && outcome.notes.is_empty());
    }

    #[test]
    fn sessions_of_the_same_records_are_loaded_once() {
        let asked = Rc::new(RefCell::new(Vec::new()));
        let reading = session(Mode::Tds, true, 1, &[Kind::Read]);
        run(&fakes(&asked, &[OURS]), &[reading.clone(), reading, session(Mode::Ds, true, 1, &[Kind::Read])]);
        assert_eq!(
            asked.borrow().iter().filter(|line| line.ends_with("load")).count(),
            2,
            "the second session uses the first one's"
        );
        assert_eq!(asked.borrow().iter().filter(|line| line.ends_with("read")).count(), 9);
    }

    #[test]
    fn the_device_bounds_single_threads_only() {
        let asked = Rc::new(RefCell::new(Vec::new()));
        let kinds = [Kind::Write];
        let sessions = [
            session(Mode::Sync, false, 1, &kinds),
            session(Mode::Sync, false, 4, &kinds),
            session(Mode::Ds, false, 1, &kinds),
        ];
        let outcome = run(&fakes(&asked, &[DEVICE]), &sessions);
        assert_eq!(outcome.rows.len(), 1);
    }

    #[test]
    fn errors_of_anybody_are_problems_and_so_are_failures_of_ours() {
        let asked = Rc::new(RefCell::new(Vec::new()));
        let failed = Some(Refusal::Failed("broken".to_owned()));
        let skipped = Some(Refusal::Skipped("no such mode".to_owned()));
        let fakes = [
            Fake { refusal: failed.clone(), ..fake(&asked, OURS) },
            Fake { refusal: failed, ..fake(&asked, "p") },
            Fake { refusal: skipped, ..fake(&asked, "q") },
            Fake { errors: 2, ..fake(&asked, "r") },
        ];
        let outcome = run(&fakes, &[session(Mode::Ds, false, 1, &[Kind::Write])]);
        assert_eq!(outcome.problems, ["DS random sablecat: broken", "r DS write, random: 6 errors, first: "]);
        assert_eq!(outcome.notes, ["DS random p could not run: broken", "skipped: no such mode"]);
        assert_eq!(
            asked.borrow().iter().filter(|line| line.starts_with("p ")).count(),
            2,
            "who fails is not asked again"
        );
    }

    #[test]
    fn who_never_answers_is_left_out_and_the_others_go_on() {
        let asked = Rc::new(RefCell::new(Vec::new()));
        let hanging = |name: &str| {
            let script = ["sh", "-c", "exec sleep 1000"].map(std::ffi::OsString::from);
            Program::own(name, &script).within(Duration::from_millis(20))
        };
        let (ours, peer, fakes) = (hanging(OURS), hanging("p"), fakes(&asked, &["q"]));
        let contestants: Vec<&dyn Contestant> = vec![&ours, &peer, &fakes[0]];
        let place = Place::below(&std::env::temp_dir()).unwrap();
        let mut field = Field { contestants, dir: place.path(), rounds: 3, progress: &mut () };
        let outcome = field.run(&[session(Mode::Ds, false, 2, &[Kind::Write])]);
        let why = "no answer to \"open\" within 20 ms: its process was killed";
        assert_eq!(outcome.notes, [format!("DS random p, 2 threads could not run: {why}")]);
        assert_eq!(outcome.problems, [format!("DS random sablecat, 2 threads: {why}")]);
        let rows: Vec<_> = outcome.rows.iter().map(|row| (row.system.as_str(), row.median_of)).collect();
        assert_eq!(rows, [("q", 3)]);
    }

    #[test]
    fn what_was_measured_before_a_refusal_is_kept() {
        let asked = Rc::new(RefCell::new(Vec::new()));
        let stops = |name, errors| Fake { errors, stops_at: Some("read"), ..fake(&asked, name) };
        let session = session(Mode::Ds, false, 1, &[Kind::Write, Kind::Read, Kind::Update]);
        let outcome = run(&[stops(OURS, 2), stops("p", 0)], &[session]);
        let rows: Vec<_> =
            outcome.rows.iter().map(|row| (row.system.as_str(), row.op.as_str(), row.median_of)).collect();
        assert_eq!(rows, [(OURS, "write", 1), ("p", "write", 1)]);
        let problems = ["sablecat DS write, random: 2 errors, first: ", "DS random sablecat: no read"];
        assert_eq!(outcome.problems, problems);
        assert_eq!(outcome.notes, ["DS random p could not run: no read"]);
    }

    #[test]
    fn nothing_is_measured_on_what_was_loaded_with_errors() {
        let asked = Rc::new(RefCell::new(Vec::new()));
        let fakes = [Fake { errors: 3, ..fake(&asked, "p") }];
        let outcome = run(&fakes, &[session(Mode::Ds, true, 1, &[Kind::Update])]);
        assert_eq!(outcome.problems, ["DS random p: loading: 3 errors, first: "]);
        assert!(outcome.rows.is_empty() && outcome.notes.is_empty());
        assert_eq!(*asked.borrow(), ["p open", "p load"]);
    }

    #[test]
    fn work_goes_on_while_the_cache_is_dropped() {
        let place = Place::below(&std::env::temp_dir()).unwrap();
        assert_eq!(without_system_cache(place.path(), || 7), 7);
    }
}
