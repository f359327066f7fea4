//! A process that works on a database through one library, as it is asked to.

use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use sablecat::Env;
use sablecat_os::interrupt;

use super::library::{Connection, Fault, Library};
use super::protocol::{Done, Open, Query, Request};
use super::systems::{Setting, System};
use super::{bank, fill, relations};
use crate::machine;
use crate::protocol::Answer;

/// Answers the requests on standard input until it ends, on databases of the system of that name; one that is
/// still open then is closed.
///
/// # Errors
/// When standard input or output fails, or there is no such system.
pub fn work(system: &str) -> io::Result<()> {
    let system = System::named(system).ok_or_else(|| io::Error::other(format!("there is no {system}")))?;
    // Shared memory outlives a process that is killed. Ctrl-C ends the driver, and that the input.
    interrupt::watch()?;
    let mut worker = Worker { system, opened: None };
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        serde_json::to_writer(&mut out, &worker.answer(&line?))?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}

struct Worker {
    system: &'static System,
    opened: Option<Opened>,
}

/// A database, and a connection to it.
struct Opened {
    library: &'static Library,
    dir: PathBuf,
    setting: Setting,
    connection: Connection,
}

impl Worker {
    fn answer(&mut self, line: &str) -> Answer<Done> {
        let answered = serde_json::from_str(line)
            .map_err(|error| format!("a request that cannot be read ({error}): {line}"))
            .and_then(|request| match request {
                Request::Version => Ok(self.system.functions().map_or_else(
                    |skipped| Answer::Skipped { skipped },
                    |library| Answer::Done(Done { version: library.version(), ..Done::default() }),
                )),
                _ => self.carry_out(&request).map(Answer::Done),
            });
        answered.unwrap_or_else(|error| Answer::Error { error })
    }

    fn carry_out(&mut self, request: &Request) -> Result<Done, String> {
        let clock = Clock::start();
        match request {
            Request::Open(open) => {
                // Not two at once: one may be alone.
                self.opened = None;
                self.opened = Some(Opened::new(self.system, open)?);
                Ok(clock.stop())
            }
            Request::Close => {
                let opened = self.opened.take().ok_or("nothing is open")?;
                let dir = opened.dir.clone();
                drop(opened);
                Ok(Done { disk_mb: machine::disk_mb(&dir), ..clock.stop() })
            }
            _ => {
                let opened = self.opened.as_ref().ok_or("nothing is open")?;
                opened.carry_out(self.system, request, &clock)
            }
        }
    }
}

impl Opened {
    fn new(system: &'static System, open: &Open) -> Result<Opened, String> {
        let dir = PathBuf::from(&open.dir);
        let &Open { mode, cache_bytes, use_by, .. } = open;
        let setting = Setting { mode, cache_bytes, use_by, is_first: true };
        let library = system.functions()?;
        // SQL opens environments with the cache that suits the machine; an environment that is open keeps the
        // one that it has. This handle need not outlive the first connection.
        let store = dir.join("store");
        let env = system
            .is_ours()
            .then(|| Env::builder().shared(true).cache_size(open.cache_bytes).open(&store))
            .transpose()
            .map_err(|error| error.to_string())?;
        let connection = connect(system, library, &dir, setting)?;
        drop(env);
        Ok(Opened { library, dir, setting, connection })
    }

    fn carry_out(&self, system: &'static System, request: &Request, clock: &Clock) -> Result<Done, String> {
        let &Opened { library, ref dir, setting, ref connection } = self;
        match request {
            Request::Bank(scale) => {
                bank::make(connection, *scale)?;
                Ok(clock.stop())
            }
            Request::Transfer(asked) => {
                let setting = Setting { is_first: false, ..setting };
                let open = || connect(system, library, dir, setting);
                let done = bank::run(system, asked, connection, &open)?;
                Ok(Done { rss_mb: machine::resident_mb().0, ..done })
            }
            Request::Sums => Ok(Done { numbers: bank::sums(connection)?, ..clock.stop() }),
            Request::Relations { rows } => {
                relations::make(connection, *rows)?;
                Ok(clock.stop())
            }
            Request::Query(query) => again_and_again(connection, query),
            Request::Fill { rows } => {
                let done = fill::run(connection, *rows)?;
                Ok(Done { rss_mb: machine::resident_mb().0, ..done })
            }
            Request::Version | Request::Open(_) | Request::Close => unreachable!("the worker's"),
        }
    }
}

fn connect(
    system: &System,
    library: &'static Library,
    dir: &Path,
    setting: Setting,
) -> Result<Connection, String> {
    let connection = Connection::open(library, &system.address(dir))?;
    connection.execute(&system.settings(setting))?;
    Ok(connection)
}

/// Runs a query as often as is asked for, once before that counts.
fn again_and_again(connection: &Connection, query: &Query) -> Result<Done, String> {
    let mut done = Done { numbers: once(connection, query)?.numbers, ..Done::default() };
    while done.ops < query.times.into() && done.seconds < query.seconds_max && !interrupt::is_asked() {
        let run = once(connection, query)?;
        if run.numbers != done.numbers {
            return Err(format!("{:?} where it was {:?}: {}", run.numbers, done.numbers, query.sql));
        }
        done.seconds += run.seconds;
        done.cpu_seconds += run.cpu_seconds;
        done.ops += 1;
    }
    Ok(Done { rss_mb: machine::resident_mb().0, ..done })
}

/// One run: the text is compiled, and all its rows are taken.
fn once(connection: &Connection, query: &Query) -> Result<Done, Fault> {
    query.before.iter().try_for_each(|sql| connection.execute(sql))?;
    let clock = Clock::start();
    let (mut rows, mut sum) = (0, 0);
    let mut statement = connection.prepare(&query.sql)?;
    while statement.step()? {
        rows += 1;
        sum += statement.column(0);
    }
    drop(statement);
    let done = clock.stop();
    let numbers = match query.check.as_str() {
        "" => vec![rows, sum],
        check => connection.numbers(check, query.columns)?,
    };
    query.after.iter().try_for_each(|sql| connection.execute(sql))?;
    Ok(Done { numbers, ..done })
}

/// Time and processor time.
pub(super) struct Clock {
    began: Instant,
    cpu: f64,
}

impl Clock {
    pub(super) fn start() -> Clock {
        Clock { cpu: machine::own_cpu_seconds(), began: Instant::now() }
    }

    pub(super) fn stop(&self) -> Done {
        let seconds = self.began.elapsed().as_secs_f64();
        Done { seconds, cpu_seconds: machine::own_cpu_seconds() - self.cpu, ..Done::default() }
    }
}
