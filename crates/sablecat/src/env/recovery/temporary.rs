//! Temporary databases are empty when an environment is opened afresh.
//!
//! Their pages are as of the last checkpoint, since nothing was logged of their records: a state as whole as
//! any, and one that means nothing without the memory that had the rest. So the pages of each are freed, in
//! place and without a record in the log, as replay changes pages; what was logged of the database itself,
//! its making, name and indices, has been replayed before, and stands. The checkpoint that every opening
//! writes makes it the new beginning; an opening that is cut short before that is followed by one that does
//! the same again.
//!
//! No page is written but the new root and the catalog's: which pages a tree has is read off it. If they
//! cannot be told, as the tree is damaged or the disk does not read, it gets a new root all the same: a
//! database of which nothing is to be kept keeps nobody from the others. The pages then stay in use, with
//! nothing that leads to them. A process that compacts the environment frees those that can be read.
//!
//! Costs: all of its pages that do not lie in memory are read once.

use crate::access::{PageRead, PageWrite};
use crate::error::{ErrorKind, Result};
use crate::pages::{LocalParticipant, PageSet};
use crate::txn::catalog::{self, CatalogEntry, catalog_tree};
use crate::txn::{CommittedState, Direct, Kernel};

/// Empties all temporary databases. True if any had anything.
pub(super) fn empty_all<'a>(
    kernel: &Kernel,
    me: &LocalParticipant,
    direct: impl Fn() -> Direct<'a>,
) -> Result<bool> {
    let mut changed = false;
    for (key, entry) in
        catalog::records(&mut CommittedState { states: kernel, me, at: kernel.pages.newest() })?
    {
        // One that this build does not know is left to a build that does.
        if entry.temporary && catalog::is_name(&key) && entry.method(&key).is_ok() {
            changed |= empty(kernel, &key, entry, direct())?;
        }
    }
    Ok(changed)
}

fn empty(kernel: &Kernel, key: &[u8], entry: CatalogEntry, mut direct: Direct<'_>) -> Result<bool> {
    // Neither order nor placement matters here: only which pages there are.
    let (method, old) = (entry.method(key)?, entry.tree(key, None, None)?);
    let old = old.tree();
    let mut pages = PageSet::new(kernel.pages.page_ids().high_water());
    let reached = match direct.read(old.root, |root| old.is_as_made(root)) {
        Ok(true) => return Ok(false),
        Ok(false) => old.reach(&direct, &mut |page| pages.insert(page)),
        Err(error) => Err(error),
    };
    let root = direct.allocate(entry.volume)?;
    let new = CatalogEntry { root, ..entry };
    new.form_root(method, direct.write(root)?);
    direct.change(&catalog_tree().tree(), key, Some(&new.encode()))?;
    match reached.and_then(|()| pages.iter().try_for_each(|page| direct.free(page))) {
        Err(error) if error.kind() == ErrorKind::Poisoned => Err(error),
        _ => Ok(true),
    }
}
