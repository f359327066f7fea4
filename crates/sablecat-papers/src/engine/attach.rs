//! Processes that attach to a shared environment: how long it takes them, and what memory each of them costs.
//!
//! One process makes an environment, fills it and keeps it open, so that it is warm. The others are started
//! one after the other; each opens the environment, looks up some of its records, and stays. When all are
//! there, the memory of each is read from outside: what it has to itself, and the page tables through which
//! it sees what all of them share. Then they leave one after the other, the first one last, and with it the
//! shared memory.
//!
//! The clock runs around the call that opens, in the process that makes it, so what it takes to start a
//! process does not count. Its memory does: 0.33 MB of the 0.73 that a process has to itself are the
//! program's before it opens anything, and 0.39 are the seats of its threads.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{fill_opened, own_open, own_rounds, own_session, takes_ms};
use crate::Options;
use crate::contestant::{Contestant, Refusal, Served};
use crate::field::{Field, Outcome};
use crate::grid::{Cell, Grid};
use crate::machine::{self, Footprint};
use crate::protocol::{Figures, Mode, Request};
use crate::row::Attached;
use crate::serve::records_of_fill;
use crate::statistics::median;

/// How many processes attach.
const PROCESSES: u32 = 500;
const PROCESSES_QUICK: u32 = 50;

/// Bytes of records, unless the options say otherwise.
const BYTES: u64 = 64 << 20;
const BYTES_QUICK: u64 = 16 << 20;

/// Times the records that the cache is. In one of their size they have no room, since pages are not full: the
/// processes would begin to write ahead of need, each with a buffer for that, and their memory would depend
/// on whether they had come to it yet.
const CACHE_SCALE: u64 = 2;

/// Where shared memory lies.
const SHARED_MEMORY: &str = "/dev/shm";

/// Runs the case on the contestants of `field`, which share their environments.
pub(super) fn attach(options: &Options, field: &mut Field<'_>) -> (Grid, Outcome) {
    let (processes, bytes) = if options.quick { (PROCESSES_QUICK, BYTES_QUICK) } else { (PROCESSES, BYTES) };
    let bytes = options.size.unwrap_or(bytes);
    let session = own_session(
        Mode::NoSync,
        records_of_fill(bytes),
        options.cache.unwrap_or(bytes.saturating_mul(CACHE_SCALE)),
    );
    let mut rounds = Vec::new();
    let mut outcome = own_rounds(field, &session, "attach", |shared, dir| {
        let (figures, attached) =
            attach_once(shared, dir, &own_open(dir, &session, false), bytes, processes)?;
        rounds.push(attached);
        Ok(figures)
    });
    let title = format!("{processes} processes that attach to a shared environment of {} MB", bytes >> 20);
    let heads = ["attach", "milliseconds", "the slowest", "private MB each", "page tables MB each"];
    let mut grid = Grid::new(title, heads, 1);
    for row in &mut outcome.rows {
        row.attached = Attached::over(&rounds);
        let Some(attached) = &row.attached else { continue };
        let took = takes_ms(row, 3);
        let others = [attached.slowest_ms, attached.private_mb, attached.page_tables_mb];
        let others = others.map(|figure| Cell::from(format!("{figure:.3}")));
        grid.push([row.system.clone().into(), took].into_iter().chain(others));
    }
    (grid, outcome)
}

/// One round, after which nobody has the environment in `dir` open, whatever came of it.
fn attach_once(
    shared: &dyn Contestant,
    dir: &Path,
    open: &Request,
    bytes: u64,
    processes: u32,
) -> Result<(Figures, Attached), Refusal> {
    let mut present = Vec::new();
    let measured = gather(shared, open, bytes, processes, &mut present);
    let closed = leave(present);
    let (figures, attached) = measured?;
    let disk_mb = closed?.disk_mb;
    if let Some(path) = shared_memory(dir) {
        return Err(Refusal::Failed(format!(
            "all have closed the environment, and {} is still there",
            path.display()
        )));
    }
    Ok((Figures { disk_mb, ..figures }, attached))
}

/// Has processes open the environment and stay: they are `present`, the one that makes it first, also after
/// an error.
fn gather(
    shared: &dyn Contestant,
    open: &Request,
    bytes: u64,
    processes: u32,
    present: &mut Vec<Box<dyn Served>>,
) -> Result<(Figures, Attached), Refusal> {
    enter(shared, open, present)?;
    fill_opened(&mut *present[0], bytes)?;
    let mut arrived = Vec::new();
    for before in 0..processes {
        let arriving = enter(shared, open, present).and_then(|opened| {
            let looked = present[before as usize + 1].ask(&Request::Spot { bytes })?;
            Ok(Figures { seconds: opened.seconds, ..looked })
        });
        arrived.push(
            arriving.map_err(|why| why.after(&format!("with {before} of {processes} processes attached")))?,
        );
    }
    let footprints =
        present[1..].iter().map(|process| footprint(&**process)).collect::<Result<Vec<_>, _>>()?;
    Ok(sum_up(&arrived, &footprints))
}

/// One round's figures, of the processes' own: of each the seconds until it had opened the environment, and
/// the rest after it had looked.
fn sum_up(arrived: &[Figures], footprints: &[Footprint]) -> (Figures, Attached) {
    let of = |pick: fn(&Figures) -> f64| median(arrived.iter().map(pick).collect()).unwrap_or_default();
    let cost =
        |pick: fn(&Footprint) -> f64| median(footprints.iter().map(pick).collect()).unwrap_or_default();
    let figures = Figures {
        ops: 1,
        seconds: of(|process| process.seconds),
        errors: arrived.iter().map(|process| process.errors).sum(),
        rss_mb: of(|process| process.rss_mb),
        first_error: arrived
            .iter()
            .find(|process| process.errors > 0)
            .map_or_else(String::new, |process| process.first_error.clone()),
        ..Figures::default()
    };
    let attached = Attached {
        processes: arrived.len() as u32,
        slowest_ms: arrived.iter().map(|process| process.seconds * 1000.0).fold(0.0, f64::max),
        private_mb: cost(|footprint| footprint.private_mb),
        page_tables_mb: cost(|footprint| footprint.page_tables_mb),
    };
    (figures, attached)
}

/// One more process that has the environment open.
fn enter(
    shared: &dyn Contestant,
    open: &Request,
    present: &mut Vec<Box<dyn Served>>,
) -> Result<Figures, Refusal> {
    let mut process = shared.start()?;
    let opened = process.ask(open)?;
    present.push(process);
    Ok(opened)
}

/// Has all of them close the environment, also if some cannot; the one that came first is last. Its answer,
/// or the first refusal.
fn leave(present: Vec<Box<dyn Served>>) -> Result<Figures, Refusal> {
    let closed: Vec<_> = present.into_iter().rev().map(|mut process| process.ask(&Request::Close)).collect();
    closed.into_iter().try_fold(Figures::default(), |_, closed| closed)
}

fn footprint(process: &dyn Served) -> Result<Footprint, Refusal> {
    let id = process.id();
    machine::footprint(id)
        .map_err(|error| Refusal::Failed(format!("cannot read what memory process {id} has: {error}")))
}

/// A file in memory of the environment in `dir`: its region, or what became of one.
fn shared_memory(dir: &Path) -> Option<PathBuf> {
    let metadata = fs::metadata(dir).ok()?;
    let region = format!("sablecat-{:x}-{:x}", metadata.dev(), metadata.ino());
    let names = fs::read_dir(SHARED_MEMORY).ok()?.flatten().map(|entry| entry.path());
    names.into_iter().find(|path| path.file_stem().is_some_and(|stem| stem == region.as_str()))
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use super::*;
    use crate::contestant::SHARED;
    use crate::place::Place;
    use crate::protocol::Answer;
    use crate::serve::Server;

    const BYTES: u64 = 100_000;

    /// Serves a shared environment several times over in this process, as often as it may, and notes what
    /// each was asked.
    struct Crowd {
        starts_max: usize,
        started: Cell<usize>,
        asked: Rc<RefCell<Vec<String>>>,
        /// What they take a request for; none: one that they refuse.
        hear: fn(&Request) -> Option<Request>,
    }

    struct One {
        server: Server,
        number: usize,
        asked: Rc<RefCell<Vec<String>>>,
        hear: fn(&Request) -> Option<Request>,
    }

    impl Crowd {
        fn new(starts_max: usize) -> Crowd {
            Crowd {
                starts_max,
                started: Cell::new(0),
                asked: Rc::default(),
                hear: |request| Some(request.clone()),
            }
        }

        /// A round of three processes, besides the first one.
        fn attach(&self, dir: &Path) -> Result<(Figures, Attached), Refusal> {
            let session = own_session(Mode::NoSync, records_of_fill(BYTES), 1 << 20);
            attach_once(self, dir, &own_open(dir, &session, false), BYTES, 3)
        }
    }

    impl Contestant for Crowd {
        fn name(&self) -> &str {
            SHARED
        }
        fn takes_part(&self, _: Mode) -> bool {
            true
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
            let number = self.started.get();
            if number == self.starts_max {
                return Err(Refusal::Failed("there are too many".to_owned()));
            }
            self.started.set(number + 1);
            let server = Server::new(SHARED).map_err(Refusal::Failed)?;
            Ok(Box::new(One { server, number, asked: Rc::clone(&self.asked), hear: self.hear }))
        }
    }

    impl Served for One {
        fn id(&self) -> u32 {
            std::process::id()
        }
        fn ask(&mut self, request: &Request) -> Result<Figures, Refusal> {
            let line = serde_json::to_string(request).unwrap();
            let word = line.split('"').nth(3).unwrap();
            self.asked.borrow_mut().push(format!("{} {word}", self.number));
            let Some(heard) = (self.hear)(request) else { return Err(Refusal::Failed("no".to_owned())) };
            match self.server.answer(&serde_json::to_string(&heard).unwrap()) {
                Answer::Done(figures) => Ok(figures),
                other => Err(Refusal::Failed(format!("{other:?}"))),
            }
        }
    }

    #[test]
    fn all_are_there_at_once_and_the_first_leaves_last() {
        let place = Place::below(&std::env::temp_dir()).unwrap();
        let dir = place.path().join("env");
        let crowd = Crowd::new(4);
        let (figures, attached) = crowd.attach(&dir).unwrap();
        let come = ["0 open", "0 fill", "1 open", "1 spot", "2 open", "2 spot", "3 open", "3 spot"];
        let go = ["3 close", "2 close", "1 close", "0 close"];
        assert_eq!(*crowd.asked.borrow(), [&come[..], &go].concat());
        assert_eq!((figures.ops, figures.errors, attached.processes), (1, 0, 3), "{figures:?}");
        assert!(figures.seconds > 0.0 && figures.disk_mb > 0.0 && figures.rss_mb > 0.0, "{figures:?}");
        assert!(attached.slowest_ms >= figures.seconds * 1000.0, "{attached:?}");
        assert!(attached.private_mb > 0.0 && attached.page_tables_mb > 0.0, "{attached:?}");
        assert_eq!(shared_memory(&dir), None);
    }

    #[test]
    fn who_has_come_leaves_when_the_next_cannot_be_started() {
        let place = Place::below(&std::env::temp_dir()).unwrap();
        let dir = place.path().join("env");
        let crowd = Crowd::new(3);
        let refusal = crowd.attach(&dir).unwrap_err();
        assert_eq!(refusal, Refusal::Failed("with 2 of 3 processes attached: there are too many".to_owned()));
        assert!(
            crowd.asked.borrow().ends_with(&["2 close", "1 close", "0 close"].map(str::to_owned)),
            "{:?}",
            crowd.asked
        );
        assert_eq!(shared_memory(&dir), None);
    }

    #[test]
    fn one_who_cannot_leave_keeps_nobody_else_from_it() {
        let place = Place::below(&std::env::temp_dir()).unwrap();
        let mut crowd = Crowd::new(4);
        crowd.hear = |request| (*request != Request::Close).then(|| request.clone());
        let refusal = crowd.attach(&place.path().join("env")).unwrap_err();
        assert_eq!(refusal, Refusal::Failed("no".to_owned()));
        assert!(
            crowd.asked.borrow().ends_with(&["3 close", "2 close", "1 close", "0 close"].map(str::to_owned)),
            "{:?}",
            crowd.asked
        );
    }

    #[test]
    fn records_that_are_not_found_are_errors() {
        let place = Place::below(&std::env::temp_dir()).unwrap();
        let mut crowd = Crowd::new(4);
        crowd.hear = |request| match request {
            Request::Spot { bytes } => Some(Request::Spot { bytes: 2 * bytes }),
            other => Some(other.clone()),
        };
        let (figures, _) = crowd.attach(&place.path().join("env")).unwrap();
        assert_eq!(figures.errors, 3 * (records_of_fill(2 * BYTES) - records_of_fill(BYTES)));
        assert!(figures.first_error.contains("not the value that was stored"), "{}", figures.first_error);
    }

    #[test]
    fn what_remains_in_memory_fails_the_round() {
        let place = Place::below(&std::env::temp_dir()).unwrap();
        let metadata = fs::metadata(place.path()).unwrap();
        let path = Path::new(SHARED_MEMORY).join(format!(
            "sablecat-{:x}-{:x}.aside",
            metadata.dev(),
            metadata.ino()
        ));
        fs::write(&path, "").unwrap();
        let refusal = Crowd::new(4).attach(place.path());
        fs::remove_file(&path).unwrap();
        let why = format!("all have closed the environment, and {} is still there", path.display());
        assert_eq!(refusal.unwrap_err(), Refusal::Failed(why));
    }

    #[test]
    fn figures_are_of_the_middle_process_and_the_slowest() {
        let process = |seconds, errors, error: &str| Figures {
            seconds,
            errors,
            first_error: error.to_owned(),
            ..Figures::default()
        };
        let arrived = [process(0.001, 0, ""), process(0.004, 1, "a"), process(0.002, 2, "b")];
        let footprints = [1.0, 3.0, 8.0].map(|mb| Footprint { private_mb: mb, page_tables_mb: mb / 2.0 });
        let (figures, attached) = sum_up(&arrived, &footprints);
        assert_eq!((figures.seconds, figures.errors, figures.first_error.as_str()), (0.002, 3, "a"));
        assert_eq!(
            attached,
            Attached { processes: 3, slowest_ms: 4.0, private_mb: 3.0, page_tables_mb: 1.5 }
        );
        let other = Attached { slowest_ms: 1.0, private_mb: 1.000_4, ..attached.clone() };
        let over = Attached::over(&[attached.clone(), other.clone(), other]).unwrap();
        assert_eq!(over, Attached { slowest_ms: 1.0, private_mb: 1.0, ..attached });
        assert_eq!(Attached::over(&[]), None);
    }
}
