//! The process that comes after the dead: it attaches, works, and looks at everything.

use std::sync::mpsc;
use std::time::Duration;

use sablecat::{Env, ErrorKind};
use sablecat_os::liveness::LockFile;

use super::opening::{EPOCHS, open};
use super::operation::{Contents, contents, key, use_log};
use super::state::{Place, State};
use crate::{method, stored};

/// Whatever is longer than this stands still.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Of records that are not as they should be so many are shown.
const SHOWN_MAX: usize = 10;

/// A record of the survivor's, which must not be lost.
const MARK: &[u8] = b"zzzz";

/// The contents that there may be: before the operation, and after it.
pub(super) type Possible = [Contents; 2];

/// What is left where a survivor comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Left {
    /// Files, a region, and a process that seems to live.
    Somebody,
    /// Files and a region.
    Nobody,
    /// Files.
    Files,
}

/// The byte of the lock file of the last member that there can be: more than there ever are.
const MEMBER_BYTE: u64 = 1024;

/// Has it seem, until the answer is dropped, that a living process has the environment open.
pub(super) fn attend(place: &Place) -> std::io::Result<LockFile> {
    let lock = LockFile::open(&place.environment().join("sablecat.lock"), None)?;
    if lock.try_lock(MEMBER_BYTE)? { Ok(lock) } else { Err(std::io::Error::other("the lock is taken")) }
}

/// Does something that may stand still, in a thread of its own.
pub(super) fn patiently<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let (say, hear) = mpsc::channel();
    let thread = std::thread::spawn(move || drop(say.send(act())));
    match hear.recv_timeout(PATIENCE) {
        Ok(said) => said,
        Err(mpsc::RecvTimeoutError::Timeout) => {
            Err(format!("the survivor has been waiting for {PATIENCE:?}"))
        }
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            Err(thread.join().err().map_or_else(String::new, |panic| crate::seeds::said(&*panic)))
        }
    }
}

/// Opens what is in a place, does all that follows, and closes it; then looks again at what the files have.
/// Others look at the files, copied to `other`, as they were after the first work. Whether the operation was
/// done.
pub(super) fn come_after(
    place: &Place,
    other: &Place,
    left: Left,
    possible: &Possible,
) -> Result<bool, String> {
    let pretending = |error: std::io::Error| format!("pretending that somebody lives: {error}");
    let has_company = left == Left::Somebody && place.has_region().map_err(pretending)?;
    let somebody = has_company.then(|| attend(place)).transpose().map_err(pretending)?;
    let env = open(place).map_err(text("attaching"))?;
    drop(somebody);
    work(&env).map_err(text("the survivor's own work"))?;
    let marks = env.database("d").map_err(text("opening a database"))?;
    marks.insert(MARK, MARK).map_err(text("the survivor's own work"))?;
    let files = |error: std::io::Error| format!("copying: {error}");
    State::of(place).and_then(|state| state.put(other, false)).map_err(files)?;
    marks.remove(MARK).map_err(text("the survivor's own work"))?;
    drop(marks);
    let done = go_on(&env, possible)?;
    let kept = if left == Left::Files { None } else { Some(give_back(&env)?) };
    let dead: Vec<_> = env.processes().into_iter().filter(|process| !process.asking).collect();
    if !dead.is_empty() {
        return Err(format!("still there: {dead:?}"));
    }
    env.close().map_err(text("closing"))?;
    let mut expected = possible[usize::from(done)].clone();
    let has = look_alone(place, &expected).map_err(|wrong| format!("opened alone: {wrong}"))?;
    compare(kept, has)?;
    expected.entry("d".to_owned()).or_default().insert(MARK.to_vec(), MARK.to_vec());
    look_alone(other, &expected).map_err(|wrong| format!("opened alone, not closed: {wrong}"))?;
    Ok(done)
}

/// Page numbers and blocks in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct InUse {
    pages: u64,
    blocks: u64,
}

/// Has everything given back that nothing leads to and that was in the hands of the dead, while the survivor
/// lives; says what is in use then.
pub(super) fn give_back(env: &Env) -> Result<InUse, String> {
    env.compact().map_err(text("compacting"))?;
    let report = env.verify(&mut |_| {}).map_err(text("verifying"))?;
    if !report.problems.is_empty() || report.pages_unreachable > 0 {
        return Err(format!("after compacting, verify: {report:?}"));
    }
    if report.epochs > 0 {
        // Each epoch that is kept is to be of the same, however many checkpoints there were before.
        (0..=EPOCHS)
            .try_for_each(|_| work(env).and_then(|()| env.checkpoint()).map(drop))
            .map_err(text("going on to other epochs"))?;
    }
    let stats = env.stats().map_err(text("counting"))?;
    Ok(InUse { pages: stats.pages, blocks: stats.blocks })
}

/// Holds what is in use after a survivor has closed the environment against what was before.
fn compare(kept: Option<InUse>, has: InUse) -> Result<(), String> {
    match kept {
        Some(kept) if kept != has => {
            Err(format!("{kept:?} while the survivor lived, and {has:?} once it had closed the environment"))
        }
        _ => Ok(()),
    }
}

/// Looks at what the files have, and at whether anything in them is lost to use; says what is in use.
fn look_alone(place: &Place, expected: &Contents) -> Result<InUse, String> {
    let env = stored::keyed(method::builder())
        .cache_size(0)
        .background(false)
        .open(place.environment())
        .map_err(text("opening"))?;
    let found = contents(&env).map_err(text("reading"))?;
    if found != *expected {
        return Err(format!(
            "the records are not what they were: {}",
            difference(&found, std::slice::from_ref(expected))
        ));
    }
    // What the dead was about to remove is removed by now, which the map says after a checkpoint.
    env.checkpoint().map_err(text("writing a checkpoint"))?;
    let report = env.verify(&mut |_| {}).map_err(text("verifying"))?;
    if !report.problems.is_empty() || report.pages_unreachable > 0 {
        return Err(format!("verify: {report:?}"));
    }
    let has = give_back(&env)?;
    env.close().map_err(text("closing"))?;
    Ok(has)
}

fn text(doing: &'static str) -> impl Fn(sablecat::Error) -> String {
    move |error| format!("{doing}: {error}")
}

/// Works beside where the dead was at work, and undoes it. Durable.
pub(super) fn work(env: &Env) -> sablecat::Result<()> {
    let d = env.database("d")?;
    let own = [key(31), key(4), b"zzz".to_vec()];
    let mut were = Vec::new();
    // In the transaction that changes them first: a commit of the dead may become visible meanwhile, and what
    // it has removed is not to be put back.
    env.write(|txn| {
        were = own.iter().map(|key| txn.get(&d, key)).collect::<sablecat::Result<Vec<_>>>()?;
        own.iter().try_for_each(|key| txn.insert(&d, key, "the survivor's first"))
    })?;
    d.insert(&own[0], "the survivor's")?;
    env.write(|txn| {
        txn.get_for_update(&d, key(8))?;
        own[1..].iter().try_for_each(|key| txn.insert(&d, key, [b'!'; 100]).map(drop))
    })?;
    env.write(|txn| {
        own.iter().zip(&were).try_for_each(|(key, was)| match was {
            Some(was) => txn.insert(&d, key, was).map(drop),
            None => txn.remove(&d, key).map(drop),
        })
    })
}

/// Works, with a checkpoint in between.
pub(super) fn work_beside(env: &Env) -> sablecat::Result<()> {
    work(env)?;
    env.checkpoint()?;
    work(env)
}

/// Works beside a process that is stopped, and leaves a mark; with so much more log, as [`use_log`] counts
/// it. False if no checkpoint could be made, since `several` are stopped and write superblocks.
pub(super) fn work_beside_the_stopped(env: &Env, log: u64, several: bool) -> sablecat::Result<bool> {
    work(env)?;
    match env.checkpoint() {
        Err(error) if several && error.kind() == ErrorKind::TooMany => return Ok(false),
        made => drop(made?),
    }
    work(env)?;
    use_log(env, log)?;
    env.database("d")?.insert(MARK, MARK)?;
    Ok(true)
}

/// Looks for the mark in the files alone, copied to `other`, now that the stopped process has gone on, and
/// takes it away. The operation was done, or not, as the process that was there beside it sees.
pub(super) fn look_for_mark(
    env: &Env,
    place: &Place,
    other: &Place,
    possible: &Possible,
) -> Result<(), String> {
    let files = |error: std::io::Error| format!("copying: {error}");
    State::of(place).and_then(|state| state.put(other, false)).map_err(files)?;
    let mut expected = contents(env).map_err(text("reading"))?;
    let mark = expected.get_mut("d").and_then(|d| d.remove(MARK));
    if mark.is_none() || !possible.contains(&expected) {
        return Err(format!(
            "the records after the stopped process went on are not what they were: {}",
            difference(&expected, possible)
        ));
    }
    expected.entry("d".to_owned()).or_default().insert(MARK.to_vec(), MARK.to_vec());
    look_alone(other, &expected)
        .map_err(|wrong| format!("the files alone, after the stopped process went on: {wrong}"))?;
    env.database("d").and_then(|d| d.remove(MARK)).map(drop).map_err(text("the survivor's own work"))
}

/// Works, with a checkpoint in between, and holds everything against what there may be. Whether the operation
/// was done.
pub(super) fn go_on(env: &Env, possible: &Possible) -> Result<bool, String> {
    go_on_but(env, possible, &|_| false)
}

/// The same, and some of what `verify` finds may be.
pub(super) fn go_on_but(
    env: &Env,
    possible: &Possible,
    may_be: &dyn Fn(&str) -> bool,
) -> Result<bool, String> {
    work_beside(env).map_err(text("the survivor's own work"))?;
    let found = contents(env).map_err(text("reading"))?;
    let Some(which) = possible.iter().rposition(|one| *one == found) else {
        return Err(format!(
            "the records are neither those before nor those after: {}",
            difference(&found, possible)
        ));
    };
    let report = env.verify(&mut |_| {}).map_err(text("verifying"))?;
    let problems: Vec<_> = report.problems.into_iter().filter(|problem| !may_be(problem)).collect();
    if !problems.is_empty() {
        return Err(format!("verify: {}", problems.join("; ")));
    }
    Ok(which == 1)
}

/// Where contents differ from each that they may be.
fn difference(found: &Contents, possible: &[Contents]) -> String {
    let flat = |contents: &Contents| -> std::collections::BTreeSet<(String, Vec<u8>, Vec<u8>)> {
        let records = |(name, records): (&String, &std::collections::BTreeMap<Vec<u8>, Vec<u8>>)| {
            records.iter().map(|(key, value)| (name.clone(), key.clone(), value.clone())).collect::<Vec<_>>()
        };
        contents.iter().flat_map(records).collect()
    };
    let found = flat(found);
    let show = |one: &Contents| {
        let one = flat(one);
        let list = |of: Vec<&(String, Vec<u8>, Vec<u8>)>| {
            let shown =
                of.iter().take(SHOWN_MAX).map(|(name, key, _)| format!("{name}/{}", key.escape_ascii()));
            let more = of.len().checked_sub(SHOWN_MAX + 1).map(|more| format!("and {} more", more + 1));
            shown.chain(more).collect::<Vec<_>>().join(" ")
        };
        format!(
            "missing {}, not expected {}",
            list(one.difference(&found).collect()),
            list(found.difference(&one).collect())
        )
    };
    possible.iter().map(show).collect::<Vec<_>>().join(" | ")
}
