//! `backup` and `restore`: an environment copied into another, while it is used.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sablecat::{Builder, Changes, Compression, Copied, Durability, Env, ErrorKind, Follower, Stats};
use serde_json::json;

use crate::arguments::{Existing, to_hex};
use crate::keying::{Copying, Keying};
use crate::{Failure, Outcome, interrupt, output};

/// How long it waits for a commit before it asks whether it was told to stop.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Copy an environment into a backup while it is in use; run again, bring the backup up to date
///
/// The first run copies everything, from one snapshot. Later runs apply what was committed since the last
/// one. That needs the log since then: it is kept as long as recovery needs it, and with a journal (see
/// journal) as far back as the journal goes. The backup is an ordinary environment. When the command ends,
/// the backup is closed and, except after --follow, verified.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Existing,
    /// The backup's directory; it is created if it does not exist
    #[arg(value_name = "BACKUP")]
    to: PathBuf,
    #[command(flatten)]
    copying: Copying,
    #[command(flatten)]
    compressing: Compressing,
    /// After that, apply new commits as they come, until interrupted
    #[arg(long)]
    follow: bool,
}

/// What a backup or a restoring came to.
struct Done {
    copied: Option<Copied>,
    commits: u64,
    /// Of the origin, up to which everything is there.
    lsn: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let env = arguments.place.open()?;
    let keys = (&arguments.copying, &arguments.place.keying);
    let to = open_to(&arguments.to, &env, keys, &arguments.compressing)?;
    let done = arguments.back_up(&env, &to)?;
    env.close()?;
    // Told to stop, which is how following ends, it is not verified: that may take long.
    let problems = if interrupt::signal().is_some() { to.close().map(|()| Vec::new())? } else { finish(to)? };
    tell(arguments.place.json, &done, &problems)
}

impl Arguments {
    fn back_up(&self, env: &Env, to: &Env) -> Result<Done, Failure> {
        let id = env.id().ok_or("an environment in memory has no log to follow")?;
        let follower = Follower::new(to, &to_hex(&id))?;
        let mut done = Done { copied: None, commits: 0, lsn: 0 };
        let mut changes = self.begin(env, &follower, &mut done)?;
        // What is committed by now is to be in it, however durable it was; others may commit as fast as this
        // applies, so what comes later is not waited for.
        let until = env.lsn();
        env.sync()?;
        while changes.position() < until {
            interrupt::check()?;
            let Some(commit) = changes.try_next()? else { break };
            done.commits += u64::from(follower.apply(&commit)?);
        }
        while self.follow && interrupt::signal().is_none() {
            if let Some(commit) = changes.next_within(ASK_EVERY)? {
                done.commits += u64::from(follower.apply(&commit)?);
            }
        }
        done.lsn = follower.position()?.map_or(0, |lsn| lsn.0);
        Ok(done)
    }

    fn begin(&self, env: &Env, follower: &Follower, done: &mut Done) -> Result<Changes, Failure> {
        let Some(position) = follower.position()? else {
            let changes = follower.copy(env, &mut |copied| {
                interrupt::unwind_if_told();
                done.copied = Some(copied);
            });
            return Ok(changes?);
        };
        env.changes(position).map_err(|error| match error.kind() {
            ErrorKind::LogGone => format!(
                "{error}; the backup {} cannot be brought up to date: make another one; to have the log \
                 kept longer, keep a journal (`sablecat journal DIR --on`)",
                self.to.display()
            )
            .into(),
            _ => error.into(),
        })
    }
}

/// How the pages of a copy are compressed.
#[derive(Debug, clap::Args)]
pub(super) struct Compressing {
    /// How the target compresses the pages that it writes from now on: none, lz4, zstd, or zstd:LEVEL.
    /// Default for a new target: as in this environment's main volume
    #[arg(long, value_name = "HOW")]
    to_compression: Option<Compression>,
}

impl Compressing {
    fn ask(&self, builder: Builder, to: &Path, like: &Stats) -> Builder {
        let is_new = !to.join("sablecat.db").exists();
        let as_this = || like.volumes.first().map(|main| main.compression).filter(|_| is_new);
        self.to_compression.or_else(as_this).into_iter().fold(builder, Builder::compression)
    }
}

/// The environment to copy into, with pages as large as the other's. Durable once it is closed: how far it
/// has come is written with what has come.
pub(super) fn open_to(
    to: &Path,
    like: &Env,
    (copying, keying): (&Copying, &Keying),
    compressing: &Compressing,
) -> Result<Env, Failure> {
    let stats = like.stats()?;
    let page_size = stats.page_size as usize;
    let builder = compressing.ask(copying.give(Env::builder(), like, keying)?, to, &stats);
    Ok(builder.page_size(page_size).durability(Durability::NoSync).open(to)?)
}

/// Writes all down, checks it, and closes it; the problems that there are.
pub(super) fn finish(to: Env) -> Result<Vec<String>, Failure> {
    to.checkpoint()?;
    let report = to.verify(&mut |_| interrupt::unwind_if_told())?;
    to.close()?;
    Ok(report.problems)
}

fn tell(json: bool, done: &Done, problems: &[String]) -> Result<Outcome, Failure> {
    if json {
        output::json(&json!({
            "databases": done.copied.map(|copied| copied.databases),
            "records": done.copied.map(|copied| copied.records),
            "commits": done.commits,
            "lsn": done.lsn,
            "problems": problems,
        }))?;
    } else {
        if let Some(copied) = done.copied {
            output::line(&format!("copied {} records of {} databases", copied.records, copied.databases))?;
        }
        output::line(&format!("applied {} commits; up to LSN {}", done.commits, done.lsn))?;
        problems.iter().try_for_each(|problem| output::line(problem))?;
    }
    Ok(if problems.is_empty() { Outcome::Done } else { Outcome::No })
}
