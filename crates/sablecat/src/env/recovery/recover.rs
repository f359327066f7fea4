//! Recovery: the last checkpoint, and the log from there on, forwards.
//!
//! Only committed records are in the log, so there is nothing to undo; only committed data is in the volume,
//! so there is nothing to repair. Replay writes pages in place, since nobody else is there.

use std::collections::BTreeMap;

use super::temporary;
use crate::access::{KeyBounds, PageWrite};
use crate::env::config::Config;
use crate::env::placed;
use crate::error::{Error, Result};
use crate::log::{Commits, EndReason, LogOperation};
use crate::pages::LocalParticipant;
use crate::pages::volume::Superblock;
use crate::trace::{self, Happened};
use crate::txn::catalog::{self, CATALOG, CatalogEntry};
use crate::txn::{CommittedState, Direct, Kernel, Meaning, TreeRef};
use crate::types::{Lsn, TreeId};

/// What opening an environment found and did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// The environment was new.
    pub created: bool,
    /// The last process had closed it: its last checkpoint had everything. If it was opened read-only: the
    /// last checkpoint has everything that was committed before.
    pub closed: bool,
    /// Other processes had it open, and this one joined them: there was nothing to recover. The checkpoint
    /// and the end are those of that moment.
    pub joined: bool,
    /// The environment had not been closed, or not by the last process: the log was replayed.
    pub recovered: bool,
    /// The LSN of the checkpoint that replay began from.
    pub checkpoint: Lsn,
    /// Where the log ended.
    pub end: Lsn,
    /// Commits replayed.
    pub commits: u64,
    /// Changes of single records, and of ranges of them, replayed.
    pub operations: u64,
    /// The log ended in parts of commits that had not become durable.
    pub torn: bool,
    /// One of the two places for checkpoints could not be read: a newer checkpoint than the one that replay
    /// began from may have been lost. No commit was: the log had all of them.
    pub doubt: bool,
}

impl RecoveryReport {
    /// Tells the listeners.
    pub(in crate::env) fn tell(&self) {
        let RecoveryReport { created, joined, checkpoint, end, commits, operations, doubt, .. } = *self;
        if self.recovered || doubt {
            trace::tell(Happened::Recovered { checkpoint, end, commits, operations, doubt });
        }
        trace::tell(Happened::Opened { created, joined, end });
    }
}

/// Replays the log over the volume. True if anything was changed.
pub(in crate::env) fn replay(
    kernel: &Kernel,
    me: &LocalParticipant,
    config: &Config,
    superblock: Option<&Superblock>,
    report: &mut RecoveryReport,
) -> Result<bool> {
    if let Some(superblock) = superblock.filter(|superblock| superblock.clean) {
        check_closed(kernel, superblock)?;
        report.end = superblock.log_position;
        return Ok(false);
    }
    check_segments(kernel)?;
    let from = superblock.map_or(Lsn(0), |superblock| superblock.log_position);
    // Below the checkpoint there may be chunks of write sets that were committed above it; all else there is
    // in the pages already.
    let mut commits =
        Commits::new(kernel.log.scan(from)?, superblock.map_or(Lsn(0), |superblock| superblock.checkpoint));
    replay_commits(kernel, me, config, &mut commits, Lsn::MAX, report)?;
    let end = commits.end().ok_or_else(|| Error::corruption("the log's end was not found"))?;
    // The next life and the next checkpoint build upon it.
    commits.make_last(end.lsn)?;
    report.end = end.lsn;
    report.torn = end.reason == EndReason::Torn;
    report.recovered = report.commits > 0 || report.torn;
    Ok(report.commits > 0)
}

/// That the log has everything since a superblock, of which nobody knows whether it is the newest. Nothing is
/// changed.
///
/// # Errors
/// `Corruption` if not; those of the files.
pub(in crate::env) fn check_log(kernel: &Kernel, superblock: &Superblock) -> Result<()> {
    if superblock.clean {
        return check_closed(kernel, superblock);
    }
    check_segments(kernel)?;
    let mut scan = kernel.log.scan(superblock.log_position)?;
    while scan.next()?.is_some() {}
    Ok(())
}

/// Closed by its last user: whatever the log had is in the pages. The next life began with a checkpoint
/// before it logged anything.
fn check_closed(kernel: &Kernel, superblock: &Superblock) -> Result<()> {
    if kernel.log.goes_on_after(superblock.log_position, superblock.log_floor)? {
        return Err(Error::corruption(
            "the log goes on after the last checkpoint that can be read, so a later one was lost; restore \
             the environment from a backup",
        ));
    }
    Ok(())
}

/// A checkpoint that is not a last one was written with the log's first segment there already.
fn check_segments(kernel: &Kernel) -> Result<()> {
    if !kernel.log.has_segments()? {
        return Err(Error::corruption(
            "the environment was not closed, and its log is gone; restore the log's files, or the \
             environment from a backup",
        ));
    }
    Ok(())
}

/// Replays commits up to `until`.
pub(super) fn replay_commits(
    kernel: &Kernel,
    me: &LocalParticipant,
    config: &Config,
    commits: &mut Commits<'_>,
    until: Lsn,
    report: &mut RecoveryReport,
) -> Result<()> {
    let trees = BTreeMap::from([(CATALOG, catalog::catalog_tree().clone())]);
    let mut replay = Replay { kernel, me, config, trees, unmet: None, report };
    let mut at = Lsn(0);
    // Nothing is read beyond the last of them: it may be damaged, and that may be why somebody goes back.
    while at < until
        && let Some(commit) = commits.next()?.filter(|commit| commit.lsn <= until)
    {
        at = commit.lsn;
        let mut operations = commit.operations();
        while let Some(operation) = operations.next()? {
            replay.apply(operation)?;
        }
        replay.report.commits += 1;
    }
    Ok(())
}

/// Empties the temporary databases, after replay. True if anything was changed.
pub(in crate::env) fn empty_temporary(kernel: &Kernel, me: &LocalParticipant) -> Result<bool> {
    // SAFETY: recovery runs before any handle to the environment exists.
    temporary::empty_all(kernel, me, || unsafe { Direct::new(&kernel.pages, me) })
}

struct Replay<'a> {
    kernel: &'a Kernel,
    me: &'a LocalParticipant,
    config: &'a Config,
    /// Trees met so far.
    trees: BTreeMap<TreeId, TreeRef>,
    /// The others that the catalog had when one of them was first looked for; whatever replay does to a
    /// record of it, it has met the tree of before. Read once: there may be as many to be met.
    unmet: Option<BTreeMap<TreeId, (Vec<u8>, CatalogEntry)>>,
    report: &'a mut RecoveryReport,
}

impl<'a> Replay<'a> {
    fn direct(&self) -> Direct<'a> {
        // SAFETY: recovery runs before any handle to the environment exists.
        unsafe { Direct::new(&self.kernel.pages, self.me) }
    }

    fn apply(&mut self, operation: LogOperation<'_>) -> Result<()> {
        self.report.operations += 1;
        match Meaning::of(operation)? {
            Meaning::Record { tree, key, value } => self.change(tree, key, value),
            Meaning::Range { tree, bounds } => self.remove_range(tree, bounds),
            Meaning::Stands { key, entry } => self.put_catalog(key, entry),
            Meaning::Unnamed { name } => self.delete_catalog(name),
            // A tree's pages are free. Here they are not yet, since no record tells of each, so the note that
            // they are to be freed stays; the process that opens the environment acts upon it
            // (`Databases::finish_drops`). Or else the tree is given a name, in the same commit.
            Meaning::Unnoted { .. } => Ok(()),
            Meaning::Formerly { .. } | Meaning::Nothing => Ok(()),
        }
    }

    fn change(&mut self, tree: TreeId, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let mut direct = self.direct();
        let Some(tree) = self.tree(tree)? else { return Ok(()) };
        direct.change(&tree.tree(), key, value)?;
        Ok(())
    }

    fn remove_range(&mut self, tree: TreeId, bounds: KeyBounds<'_>) -> Result<()> {
        let mut direct = self.direct();
        let Some(tree) = self.tree(tree)? else { return Ok(()) };
        direct.remove_range(&tree.tree(), bounds).map(drop)
    }

    /// A record of the catalog. A tree that is not known yet gets a root here, and the record is made to say
    /// so.
    fn put_catalog(&mut self, key: &[u8], mut entry: CatalogEntry) -> Result<()> {
        self.kernel.pages.note_tree_id(entry.tree);
        let (method, known) = (entry.method(key)?, self.tree(entry.tree)?);
        entry.root = match known {
            Some(tree) => tree.root,
            None => {
                let mut direct = self.direct();
                let root = direct.allocate(entry.volume)?;
                entry.root = root;
                entry.form_root(method, direct.write(root)?);
                root
            }
        };
        let tree = self.resolve(key, &entry)?;
        self.trees.insert(entry.tree, tree);
        self.remember(key)?;
        let catalog = catalog::catalog_tree();
        self.direct().change(&catalog.tree(), key, Some(&entry.encode()))?;
        if catalog::is_name(key) {
            // A tree with a name is not to be freed.
            self.direct().change(&catalog.tree(), &catalog::note_key(entry.tree), None)?;
        }
        Ok(())
    }

    /// A record of the catalog that goes.
    fn delete_catalog(&mut self, key: &[u8]) -> Result<()> {
        self.remember(key)?;
        let catalog = catalog::catalog_tree();
        self.direct().change(&catalog.tree(), key, None)?;
        Ok(())
    }

    /// Before a record of the catalog goes or is another tree's: its tree may come back in the same commit,
    /// under another name. It is what it was then.
    fn remember(&mut self, key: &[u8]) -> Result<()> {
        if let Some(entry) = catalog::record(&mut self.committed(), key)? {
            let tree = self.resolve(key, &entry)?;
            self.trees.entry(entry.tree).or_insert(tree);
        }
        Ok(())
    }

    fn resolve(&self, name: &[u8], entry: &CatalogEntry) -> Result<TreeRef> {
        let comparator = match &entry.comparator {
            None => None,
            Some(name) => Some(self.config.comparators.get(name).cloned().ok_or_else(|| {
                Error::invalid(format!(
                    "recovery needs the comparator {name:?}, which only a program can supply, under that \
                     name (Builder::comparator)"
                ))
            })?),
        };
        let order = entry.order(name, comparator, self.kernel.page_size())?;
        let keys = placed::keys(&self.kernel.pages, &String::from_utf8_lossy(name), entry)?;
        entry.tree(name, order, keys)
    }

    /// None: it was removed later on, before the checkpoint; what the log says of it is void.
    fn tree(&mut self, id: TreeId) -> Result<Option<&TreeRef>> {
        if !self.trees.contains_key(&id) {
            self.meet(id)?;
        }
        Ok(self.trees.get(&id))
    }

    #[cold]
    fn meet(&mut self, id: TreeId) -> Result<()> {
        if self.unmet.is_none() {
            // In descending order, so that the first of those of one tree stays.
            let records = catalog::records(&mut self.committed())?.into_iter().rev();
            self.unmet = Some(records.map(|(name, entry)| (entry.tree, (name, entry))).collect());
        }
        if let Some((name, entry)) = self.unmet.as_mut().and_then(|unmet| unmet.remove(&id)) {
            self.trees.insert(id, self.resolve(&name, &entry)?);
        }
        Ok(())
    }

    fn committed(&self) -> CommittedState<'_> {
        CommittedState { states: self.kernel, me: self.me, at: self.kernel.pages.newest() }
    }
}
