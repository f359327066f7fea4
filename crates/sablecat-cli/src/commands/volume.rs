//! `volume`: environments that are held in memory, and their images on a disk.

use std::io::{self, Write};
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
/// How long before it tries once more what has failed, and looks whether an image could be written.
const AGAIN: Duration = Duration::from_secs(1);

/// Hold an environment in memory, and keep an image of it on a disk
///
/// The environment's files are then in a directory in memory; killed processes do not damage them. The
/// directory by which the environment is opened has the image, which is loaded when the files in memory are
/// gone.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Hold an environment in memory from now on; an existing one must be closed, and becomes the first image
    Hold {
        #[command(flatten)]
        place: Existing,
        /// The directory in memory, on a tmpfs; it is created
        #[arg(value_name = "MEMORY")]
        memory: PathBuf,
    },
    /// Write an image of everything that is committed, while the environment is in use
    Flush {
        #[command(flatten)]
        place: Existing,
    },
    /// Keep running, and write images: at an interval (--every), on the signal PWR, which says that power
    /// fails, and when told to stop
    Guard {
        #[command(flatten)]
        place: Existing,
        /// The interval between images, if anything was committed: seconds, or a number with ms, s, m, h or
        /// d. Default: only on signals
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

/// Stays until it is told to stop. An image that could not be written is tried again soon; an environment
/// that must be closed and opened again is, so that others can open it, and the image is of what they have.
fn guard(place: &Existing, every: Option<Duration>) -> Result<(), Failure> {
    interrupt::listen_for_power()?;
    let mut env = Some(place.open()?);
    let (mut failures, mut last, mut looked) = (interrupt::power_failures(), None, Instant::now());
    let mut complaint = String::new();
    loop {
        let (is_last, now) = (interrupt::signal().is_some(), interrupt::power_failures());
        let is_due = last.is_none_or(|last: Instant| every.is_some_and(|every| last.elapsed() >= every));
        let is_asked = is_last || now != failures;
        let is_again = looked.elapsed() >= AGAIN;
        let done = if is_asked || (complaint.is_empty() || is_again) && is_due {
            failures = now;
            reopened(place, &mut env).and_then(|env| flush(place, env)).map(|()| last = Some(Instant::now()))
        } else if is_again {
            env.as_ref().map_or(Ok(()), |env| Ok(env.fail_if_poisoned()?))
        } else {
            std::thread::sleep(LOOK_EVERY);
            continue;
        };
        looked = Instant::now();
        match done {
            Ok(()) => complaint.clear(),
            Err(error) => {
                let is_to_reopen = is_poisoned(&*error) && env.is_some();
                if !may_pass(&*error) || is_last && !(is_to_reopen && complaint.is_empty()) {
                    return Err(error);
                }
                if is_to_reopen {
                    // What can be said of closing it has been said.
                    env = None;
                }
                last = None;
                // Once, and not whenever it is tried again.
                let said = error.to_string();
                if complaint != said {
                    // If nobody hears it any more the environment is guarded nevertheless.
                    let _ = writeln!(io::stderr(), "sablecat: {said}");
                    complaint = said;
                }
                continue;
            }
        }
        if let Some(env) = env.take_if(|_| is_last) {
            return Ok(env.close()?);
        }
    }
}

/// The environment, opened if it is not.
fn reopened<'a>(place: &Existing, env: &'a mut Option<Env>) -> Result<&'a Env, Failure> {
    Ok(match env {
        Some(env) => env,
        None => env.insert(place.open()?),
    })
}

/// Whether it may be otherwise the next time: not when there is no environment any more, or it has another
/// key.
fn may_pass(error: &(dyn std::error::Error + 'static)) -> bool {
    let kind = error.downcast_ref::<Error>().map(Error::kind);
    !matches!(kind, Some(ErrorKind::NotFound | ErrorKind::EncryptionKey))
}

/// Whether no image can be written until the environment is opened again.
fn is_poisoned(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref::<Error>().is_some_and(|error| error.kind() == ErrorKind::Poisoned)
}

/// Writes an image, and says so if there was anything to write, and anybody listens.
fn flush(place: &Existing, env: &Env) -> Result<(), Failure> {
    let report = env.flush_image()?;
    if report.bytes > 0 {
        let _ = tell(place.json, report);
    }
    Ok(())
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
