//! Backward recovery: to an epoch, and from there forwards over the log to a time or a commit.
//!
//! Nothing is undone: the epoch's blocks were kept. What is written goes to blocks that nothing uses, and one
//! superblock makes the whole the present state, in the place of the one that is left behind:
//!
//! ```text
//! map of the epoch ─▶ replay in memory, up to the target
//!   ─▶ checkpoint: changed pages, map, flush, superblock, flush ─▶ archive the log
//! ```
//!
//! Before the superblock is durable the environment is as it was, after it as it is to be. It says that the
//! log ends at the target and goes on above all LSNs that were ever given (its floor); so whatever the log's
//! files say of the time after the target counts for nothing, and they are archived, by this or by the next
//! opening.
//!
//! The newest state need not be sound, nor the log beyond the target: neither is looked at but to say what
//! will be lost.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sablecat_os::atomic::Ordering;
use sablecat_os::calendar::Moment;
use sablecat_os::disk::File;

use super::recover::{RecoveryReport, replay_commits};
use super::{begin_from, build_kernel, geometry};
use crate::env::config::{Config, EnvMode};
use crate::env::files::history::{self, Epoch};
use crate::env::files::left::take_alone;
use crate::env::files::{VOLUME, existing_volume};
use crate::error::{Error, ErrorKind, Result};
use crate::log::{CommitOperations, Commits};
use crate::pages::Moving;
use crate::pages::volume::{self, Journal, Superblock, Volume};
use crate::region::Region;
use crate::txn::caller;
use crate::types::Lsn;

/// The state to go back to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Target {
    /// What had been committed at this time. Commits of the next 10 milliseconds may be included.
    Time(Moment),
    /// The commits at or below this LSN.
    Lsn(Lsn),
    /// The epoch of this number, and nothing after it.
    Epoch(u64),
}

/// What going back would do, or did.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RecoveryPlan {
    /// The epoch (restore point) from which it begins: the newest at or before the target.
    pub epoch: Epoch,
    /// The last commit that is kept, or the epoch's LSN if none is replayed: the state that results.
    pub lsn: Lsn,
    /// When that commit was made, as far as the log says: at this time or up to 10 milliseconds later.
    pub time: Option<Moment>,
    /// Commits that are replayed over the epoch.
    pub commits: u64,
    /// Changes of single records in them.
    pub operations: u64,
    /// Commits after the target: they will be lost.
    pub commits_lost: u64,
    /// When the first of them was made, as `time`.
    pub lost_from: Option<Moment>,
    /// When the last of them was made, as `time`.
    pub lost_to: Option<Moment>,
    /// Where the log ends.
    pub end: Lsn,
    /// What is wrong with the log after the target, if anything: then more may be lost than was counted.
    pub damage: Option<String>,
}

/// An environment that is about to be taken back. No other process can open it until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Recovery {
    directory: PathBuf,
    config: Config,
    journal: Journal,
    superblock: Superblock,
    base: volume::RetainedCheckpoint,
    plan: RecoveryPlan,
    /// The end of the last record that is kept: where the log goes on from. Below the plan's LSN if that is
    /// the checkpoint of a life in which nothing was logged, and which has no file.
    position: Lsn,
    _lock: Arc<dyn File>,
}

/// Takes an environment to itself and finds out what going back to a target means. Nothing is changed.
pub(crate) fn prepare(directory: &Path, mut config: Config, target: Target) -> Result<Recovery> {
    config.check()?;
    let directory = &config.locate(directory)?;
    let path = existing_volume(directory, &config)?;
    let lock = take_alone(directory, &config)?;
    let superblock = Volume::look(&*config.disk, &path)?;
    let Some(journal) = superblock.journal.clone() else {
        return Err(Error::invalid(format!(
            "the environment in {} keeps no journal, so it cannot be taken back; turn a journal on for the \
             next time",
            directory.display()
        )));
    };
    let base = choose(&history::epochs(&superblock), target)?;
    let (plan, position) = plan(directory, &config, &superblock, &base, target)?;
    Ok(Recovery {
        directory: directory.to_owned(),
        config,
        journal,
        superblock,
        base,
        plan,
        position,
        _lock: lock,
    })
}

/// The newest epoch at or before the target.
fn choose(epochs: &[volume::RetainedCheckpoint], target: Target) -> Result<volume::RetainedCheckpoint> {
    let is_before = |epoch: &&volume::RetainedCheckpoint| match target {
        Target::Time(time) => epoch.time_ms <= time.ms,
        Target::Lsn(lsn) => epoch.checkpoint <= lsn,
        Target::Epoch(number) => epoch.generation == number,
    };
    if let Some(epoch) = epochs.iter().rfind(is_before) {
        return Ok(*epoch);
    }
    let oldest = epochs.first().map(|oldest| {
        format!(
            "the oldest epoch is number {}, at LSN {}, of {}",
            oldest.generation,
            oldest.checkpoint,
            Moment { ms: oldest.time_ms }
        )
    });
    let oldest = oldest.unwrap_or_default();
    Err(Error::new(
        ErrorKind::NotFound,
        match target {
            Target::Time(time) => format!("there is no epoch at or before {time}; {oldest}"),
            Target::Lsn(lsn) => format!("there is no epoch at or before LSN {lsn}; {oldest}"),
            Target::Epoch(number) => {
                let numbers: Vec<_> = epochs.iter().map(|epoch| epoch.generation.to_string()).collect();
                format!("there is no epoch {number}; there are {}", numbers.join(", "))
            }
        },
    ))
}

/// Where the log of an environment ends, if its superblock knows.
fn known_end(superblock: &Superblock) -> Option<Lsn> {
    superblock.clean.then_some(superblock.log_position)
}

/// Goes over the log from the epoch on. Also says where the last record that is kept ends.
fn plan(
    directory: &Path,
    config: &Config,
    superblock: &Superblock,
    base: &volume::RetainedCheckpoint,
    target: Target,
) -> Result<(RecoveryPlan, Lsn)> {
    let segments = history::segments(directory, config, superblock)?;
    let mut plan = RecoveryPlan {
        epoch: Epoch::of(superblock, base),
        lsn: base.checkpoint,
        time: None,
        commits: 0,
        operations: 0,
        commits_lost: 0,
        lost_from: None,
        lost_to: None,
        end: base.log_position,
        damage: None,
    };
    let mut is_past = matches!(target, Target::Epoch(_));
    let scan = match segments.scan_kept(base.log_position, known_end(superblock)) {
        // An epoch is a state by itself, without any log.
        Err(error) if is_past => {
            plan.damage = Some(error.to_string());
            return Ok((plan, base.checkpoint));
        }
        scan => scan?,
    };
    let mut commits = Commits::new(scan, base.checkpoint);
    let mut kept_to = None;
    let mut is_damaged = false;
    loop {
        let advanced = commits.advance();
        is_past |= matches!(target, Target::Time(limit) if commits.time().is_some_and(|time| time > limit));
        let commit = match advanced {
            Ok(_) => match commits.commit() {
                Some(commit) => commit,
                None => break,
            },
            // What will be lost may be damaged: that may be why somebody wants to go back.
            Err(error) if is_past => {
                plan.damage = Some(error.to_string());
                is_damaged = true;
                break;
            }
            Err(error) => return Err(error),
        };
        is_past |= matches!(target, Target::Lsn(limit) if commit.lsn > limit);
        if is_past {
            plan.commits_lost += 1;
            plan.lost_from = plan.lost_from.or(commit.time);
            plan.lost_to = commit.time;
        } else {
            plan.commits += 1;
            plan.operations += count(commit.operations())?;
            (plan.lsn, plan.time) = (commit.lsn, commit.time);
            kept_to = Some(commit.lsn);
        }
    }
    plan.end = plan.end.max(commits.last());
    let position = match kept_to {
        Some(lsn) => lsn,
        // Not even known is where the log stood then.
        None if is_damaged && plan.end < base.checkpoint => base.checkpoint,
        None => commits.passed(),
    };
    if let Some(end) = commits.end() {
        plan.end = plan.end.max(end.lsn);
    }
    // The last life may have begun after that, and have logged nothing.
    let end = plan.end.max(superblock.checkpoint);
    match target {
        Target::Lsn(lsn) if lsn > end && !is_past => {
            Err(Error::new(ErrorKind::NotFound, format!("the log ends at LSN {end}, before LSN {lsn}")))
        }
        _ => Ok((plan, position)),
    }
}

fn count(mut operations: CommitOperations<'_>) -> Result<u64> {
    let mut count = 0;
    while operations.next()?.is_some() {
        count += 1;
    }
    Ok(count)
}

impl Recovery {
    /// What [`Recovery::apply`] would do.
    #[must_use]
    pub fn plan(&self) -> &RecoveryPlan {
        &self.plan
    }

    /// Takes the environment back. Durable when it returns; after a crash or an error the environment as a
    /// whole is either as before or as planned. Commits after the target stay in the journal and can be
    /// inspected there, but the environment cannot go forward to them again.
    ///
    /// # Errors
    /// `Corruption` if the epoch or the log up to the target is damaged, or a journal is missing, naming it;
    /// `Invalid` if the replay needs a comparator that the builder was not given; `Io`, `DiskFull`.
    pub fn apply(self) -> Result<RecoveryPlan> {
        let Recovery { directory, config, journal, superblock, base, plan, position, .. } = &self;
        let (path, encryption) = (directory.join(VOLUME), config.encryption.as_ref());
        let volume = Volume::open_with(&*config.disk, &path, config.direct_io, &config.declared, encryption)?;
        // Also where it is in doubt whether there was a newer checkpoint: a process that goes back has
        // decided.
        volume.end_passed_by()?;
        let segments = history::segments(directory, config, superblock)?;
        let floor = segments.end_of_numbers()?.max(superblock.log_floor).max(superblock.checkpoint);
        let time_ms = superblock.time_ms.max(sablecat_os::clock::wall_coarse().ms);
        volume.go_back_to(base);
        let from = volume.superblock();
        let region = Arc::new(Region::private(geometry(config, from.codec, Some(&volume)))?);
        let kernel = build_kernel(
            Some(directory),
            Some(volume),
            &region,
            config,
            (EnvMode::Transactional, Some(journal)),
        )?;
        begin_from(&kernel, &from)?;
        let header = region.header();
        // What the epoch does not use others do, until the switch: only blocks beyond all of them are free.
        header.free_known.store(1, Ordering::Release);
        let seat = kernel.pages.participants.sit()?;
        let mut report = RecoveryReport::default();
        if plan.commits > 0 {
            let scan = kernel.log.segments()?.scan_kept(base.log_position, known_end(superblock))?;
            let mut commits = Commits::new(scan, base.checkpoint);
            replay_commits(&kernel, &seat, config, &mut commits, plan.lsn, &mut report)?;
            // The journal is to lead here ever after.
            commits.make_last(*position)?;
        }
        header.visible.0.store(plan.lsn.0, Ordering::Release);
        let mut epochs = history::epochs(superblock);
        epochs.retain(|epoch| epoch.checkpoint <= plan.lsn && epoch.map_height > 0);
        epochs.drain(..epochs.len().saturating_sub(journal.epochs_max as usize));
        kernel.pages.checkpoint(&seat, Moving::Little, |_, next| {
            next.clean = true;
            next.log_position = *position;
            next.log_floor = floor;
            next.time_ms = time_ms;
            next.epochs.clone_from(&epochs);
            Ok(())
        })?;
        // The segment that begins where the log ended included: the log may go on from there.
        let logged_to = if plan.damage.is_some() { Lsn::MAX } else { Lsn(plan.end.0 + 1) };
        kernel.log.give_up_files(logged_to, caller(&kernel.pages, seat.number()))?;
        Ok(plan.clone())
    }
}
