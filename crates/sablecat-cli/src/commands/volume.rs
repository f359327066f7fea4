//! `volume`: environments that are held in memory, and their images on a disk.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Subcommand;
use sablecat::{Env, Error, ErrorKind, ImageReport};
use sablecat_papers::thousands;
use serde_json::json;

use crate::arguments::Existing;
use crate::lifetime::ttl;
use crate::{Failure, Outcome, interrupt, output};

/// How long it waits before it looks whether it was told something.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Hold an environment in memory, and keep an image of it on a disk
///
/// Its files are in a directory in memory then, which killed processes leave as it is; the directory by which
/// it is opened has the image, which is loaded when those are gone.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Have an environment be held in memory from now on; one that is there must be closed, and is the first
    /// image
    Hold {
        #[command(flatten)]
        place: Existing,
        /// The directory in memory, on a tmpfs, which is made
        #[arg(value_name = "MEMORY")]
        memory: PathBuf,
    },
    /// Write an image of all that is committed, while it is used
    Flush {
        #[command(flatten)]
        place: Existing,
    },
    /// Stay, and write images: every so often, whenever the signal PWR says that power fails, and when told
    /// to stop
    Guard {
        #[command(flatten)]
        place: Existing,
        /// How often, if anything was committed: seconds, or with ms, s, m, h or d. Default: only on signals
        #[arg(long, value_name = "TIME", value_parser = ttl)]
        every: Option<Duration>,
    },
}

impl Arguments {
    /// Whether being told to stop is how it ends.
    pub(crate) fn stays(&self) -> bool {
        matches!(self.what, What::Guard { .. })
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    match &arguments.what {
        What::Hold { place, memory } => {
            place.builder()?.held_in(memory).shared(true).open(place.path())?.close()?;
        }
        What::Flush { place } => {
            let env = place.open()?;
            let report = env.flush_image()?;
            env.close()?;
            tell(place.json, report)?;
        }
        What::Guard { place, every } => guard(place, *every)?,
    }
    Ok(Outcome::Done)
}

/// Stays until it is told to stop. An image that could not be written is tried again the next time.
fn guard(place: &Existing, every: Option<Duration>) -> Result<(), Failure> {
    interrupt::listen_for_power()?;
    let env = place.open()?;
    let (mut failures, mut last) = (interrupt::power_failures(), None::<Instant>);
    loop {
        let (is_last, now) = (interrupt::signal().is_some(), interrupt::power_failures());
        let is_due = last.is_none_or(|last| every.is_some_and(|every| last.elapsed() >= every));
        if is_last || is_due || now != failures {
            failures = now;
            match flush(place, &env) {
                Err(error) if !is_last && !is_poisoned(&*error) => eprintln!("sablecat: {error}"),
                done => done?,
            }
            last = Some(Instant::now());
        }
        if is_last {
            return Ok(env.close()?);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Whether no image can be written until the environment is opened again.
fn is_poisoned(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref::<Error>().is_some_and(|error| error.kind() == ErrorKind::Poisoned)
}

/// Writes an image, and says so if there was anything to write.
fn flush(place: &Existing, env: &Env) -> Result<(), Failure> {
    let report = env.flush_image()?;
    if report.bytes > 0 { tell(place.json, report) } else { Ok(()) }
}

fn tell(json: bool, report: ImageReport) -> Result<(), Failure> {
    let ImageReport { lsn, bytes, .. } = report;
    if json {
        output::json(&json!({ "lsn": lsn.0, "bytes": bytes }))?;
    } else if bytes == 0 {
        output::line(&format!("the image has everything up to LSN {}", lsn.0))?;
    } else {
        output::line(&format!("wrote {} bytes; up to LSN {}", thousands(bytes as f64), lsn.0))?;
    }
    Ok(())
}
