//! Verification: every invariant of pages, trees, map and catalog, at one snapshot, while others work; and
//! whether the epochs are whole.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use sablecat_os::disk::AlignedBuf;

use super::Upkeep;
use crate::error::Result;
use crate::pages::volume::MapFinding;
use crate::txn::{Comparator, Isolation, Options, Transaction, catalog, listed};
use crate::types::PageId;

/// The progress of a long operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Pages checked so far.
    pub pages: u64,
    /// Pages there are in all, about.
    pub pages_total: u64,
}

/// What verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The problems, one sentence each, with page and reason. Empty if there are none.
    pub problems: Vec<String>,
    /// Databases checked.
    pub databases: u64,
    /// Records found.
    pub records: u64,
    /// Pages that trees consist of.
    pub pages: u64,
    /// Unreachable pages: pages in use that nothing leads to, because a bulk load was killed, or is in
    /// progress. Only space is lost; [`Env::compact`](crate::Env::compact) frees them.
    pub pages_unreachable: u64,
    /// Databases whose comparator was not given to the builder: their pages were checked, and the order of
    /// their records was not.
    pub order_not_checked: Vec<String>,
    /// Indices whose extractor was not given to the builder: that each entry leads to a record was checked,
    /// and not that each record has the entries that it should.
    pub indices_not_compared: Vec<String>,
    /// Databases with an access method that this version of the library does not know. They were not checked;
    /// nor were unreachable pages looked for, which may be theirs.
    pub not_known: Vec<String>,
    /// Retained epochs checked.
    pub epochs: u64,
}

impl VerifyReport {
    /// What is wrong with a database.
    pub(crate) fn note(&mut self, name: &str, problems: Vec<String>) {
        self.problems.extend(problems.into_iter().map(|why| format!("database {name:?}: {why}")));
    }
}

/// An order for which any is right: whatever checks compare, what should be lower stands first. Nothing can
/// be looked for by it.
fn any_order(name: &str) -> Arc<Comparator> {
    Arc::new(Comparator::new(name, |_, _| Ordering::Less))
}

impl Upkeep {
    /// Checks everything.
    pub(crate) fn verify(&self, progress: &mut dyn FnMut(Progress)) -> Result<VerifyReport> {
        let mut report = VerifyReport::default();
        if let Some(volume) = self.kernel.pages.volume() {
            report.problems.extend(volume.complaints().iter().cloned());
        }
        let options = Options {
            isolation: Isolation::Snapshot,
            durability: self.config.durability,
            read_only: true,
            patience: self.config.lock_timeout,
        };
        let txn = Transaction::begin(&self.kernel, options)?;
        let mut seen = HashSet::new();
        let total = self.kernel.pages.page_ids().high_water();
        let mut looked = 0;
        let mut count = |pages| {
            looked += pages;
            progress(Progress { pages: looked, pages_total: total });
        };
        let mut trees = vec![("the catalog".to_owned(), catalog::catalog_tree().clone())];
        let mut all_known = true;
        for (key, entry) in catalog::records(&mut txn.committed())? {
            if entry.method(&key).is_err() {
                all_known = false;
                report
                    .not_known
                    .extend(catalog::is_name(&key).then(|| String::from_utf8_lossy(&key).into_owned()));
                continue;
            }
            let comparator =
                entry.comparator.as_ref().and_then(|wanted| self.config.comparators.get(wanted).cloned());
            if !catalog::is_name(&key) {
                // It may be half freed: its pages are accounted for, and that is all.
                let tree = entry.tree(&key, comparator, None)?;
                tree.tree().verify(&txn.committed(), &mut seen, &mut |_| {}, &mut count);
                listed::each_to_be_freed(&txn.committed(), &entry, &mut |page| _ = seen.insert(page))?;
                continue;
            }
            let name = String::from_utf8_lossy(&key).into_owned();
            let comparator = match (&entry.comparator, comparator) {
                (Some(missing), None) => {
                    report.order_not_checked.push(name.clone());
                    Some(any_order(missing))
                }
                (_, comparator) => comparator,
            };
            let comparator = entry.order(&key, comparator, self.kernel.page_size())?;
            trees.push((format!("database {name:?}"), entry.tree(&key, comparator, None)?));
        }
        for (name, tree) in &trees {
            let mut problems = Vec::new();
            let shape =
                tree.tree().verify(&txn.committed(), &mut seen, &mut |why| problems.push(why), &mut count);
            // A snapshot that was given up meanwhile makes sound pages look as if they were not there.
            txn.check_snapshot()?;
            report.problems.extend(problems.into_iter().map(|why| format!("{name}: {why}")));
            report.pages += shape.inner_pages + shape.leaf_pages + shape.long_pages;
            if tree.id != catalog::CATALOG {
                report.databases += 1;
                report.records += shape.records;
            }
        }
        let at = txn.at();
        drop(txn);
        self.verify_map(&seen, &mut report)?;
        if !all_known {
            report.pages_unreachable = 0;
        }
        self.verify_blocks(&mut report)?;
        self.verify_epochs(&mut report)?;
        // For a process that reads checkpoints: whether all that was still there, or blocks that are used
        // again by now.
        self.kernel.pages.confirm(at)?;
        // What was found missing need not be so on the disk.
        self.kernel.pages.fail_if_fenced()?;
        self.kernel.pages.fail_if_poisoned()?;
        Ok(report)
    }

    /// Checks that everything that the maps of retained epochs name is as it was written, and is not free.
    /// What several of them name is read once. No checkpoint is written while the blocks of one epoch are
    /// read.
    fn verify_epochs(&self, report: &mut VerifyReport) -> Result<()> {
        let Some(volume) = self.kernel.pages.volume() else { return Ok(()) };
        let seat = self.kernel.pages.participants.sit()?;
        let pages = &self.kernel.pages;
        let (mut seen, mut buffer) = (HashSet::new(), AlignedBuf::new(volume.block_size()));
        for epoch in volume.superblock().epochs {
            let found = pages.without_checkpoint(&seat, || {
                pages.follow_generation(volume)?;
                if !volume.superblock().epochs.contains(&epoch) {
                    return Ok(None);
                }
                let (mut problems, mut looked_at) = (Vec::new(), Vec::new());
                let mut problem = |what: String| problems.push(format!("epoch {}: {what}", epoch.generation));
                volume.walk_epoch(&epoch, &mut |found| {
                    pages.move_on();
                    let (block, what) = match &found {
                        MapFinding::Map(block) => (*block, "the map".to_owned()),
                        MapFinding::Page(page, block) => (block.block(), format!("page {page}")),
                        MapFinding::Damaged(block, error) => {
                            problem(format!("map block {block}: {error}"));
                            return Ok(false);
                        }
                    };
                    if seen.contains(&block) {
                        return Ok(false);
                    }
                    looked_at.push(block);
                    if !pages.blocks().is_used(block) {
                        problem(format!("{what}: block {block} is free"));
                    }
                    if let MapFinding::Page(page, block) = found
                        && let Err(error) = pages.check_stored(volume, page, block, &mut buffer)
                    {
                        problem(format!("page {page}: {error}"));
                    }
                    Ok(true)
                })?;
                Ok(Some((problems, looked_at)))
            })?;
            let Some((problems, looked_at)) = found else { continue };
            report.epochs += 1;
            report.problems.extend(problems);
            seen.extend(looked_at);
        }
        Ok(())
    }

    /// Reads the block of every page that the last checkpoint's map names: most pages looked at so far may
    /// have been in memory, and recovery will find what is on the disk. Checkpoints wait for the pages of one
    /// map leaf.
    fn verify_blocks(&self, report: &mut VerifyReport) -> Result<()> {
        let seat = self.kernel.pages.participants.sit()?;
        self.kernel.pages.check_blocks(&seat, &mut |page, error| {
            report.problems.push(format!("page {page}: {error}"));
            Ok(())
        })
    }

    /// Checks what the last checkpoint's map names against what the trees reach.
    fn verify_map(&self, seen: &HashSet<PageId>, report: &mut VerifyReport) -> Result<()> {
        let Some(volume) = self.kernel.pages.volume() else { return Ok(()) };
        let pages = &self.kernel.pages;
        // No checkpoint may end meanwhile: it would free blocks that the walk still has to read.
        let seat = pages.participants.sit()?;
        let (problems, unreachable) = pages.without_checkpoint(&seat, || {
            let (mut blocks, mut problems, mut unreachable) = (HashSet::new(), Vec::new(), 0);
            pages.follow_generation(volume)?;
            volume.walk(0..u64::MAX, &mut |found| {
                pages.move_on();
                let block = match found {
                    MapFinding::Page(page, block) => {
                        unreachable += u64::from(!seen.contains(&page));
                        block.block()
                    }
                    MapFinding::Map(block) => block,
                    MapFinding::Damaged(block, error) => {
                        problems.push(format!("map block {block}: {error}"));
                        return Ok(());
                    }
                };
                if !blocks.insert(block) {
                    problems.push(format!("block {block} is named twice by the map"));
                }
                if !pages.blocks().is_used(block) {
                    problems.push(format!("block {block} is free and the map names it"));
                }
                Ok(())
            })?;
            Ok((problems, unreachable))
        })?;
        report.problems.extend(problems);
        report.pages_unreachable = unreachable;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use sablecat_os::sim::SimDisk;

    use super::*;
    use crate::env::config::Journaling;
    use crate::env::config::{Config, EnvMode};
    use crate::env::databases::Asked;
    use crate::env::opening::open::open;
    use crate::pages::volume::Journal;
    use crate::txn::{Durability, RecordChange};
    use crate::types::BlockId;

    /// What is free would be overwritten by the next thread that needs a block.
    #[test]
    fn a_free_block_that_a_map_names_is_a_problem() {
        let journaling = Journaling::On(Journal::new());
        let config = Config { disk: Arc::new(SimDisk::new(1)), journaling, ..Config::default() };
        let core = open(Path::new("verified"), config, EnvMode::Transactional).unwrap();
        let records = core.database_or_new("records", Asked::default()).unwrap();
        for round in 0..3u8 {
            core.kernel
                .change_one(&records.tree, b"key", RecordChange::Put(&[round]), Durability::Memory)
                .unwrap();
            core.checkpoint(false).unwrap();
        }
        let problems = || core.verify(&mut |_| {}).unwrap().problems;
        assert_eq!(problems(), [""; 0]);

        let pages = &core.kernel.pages;
        let volume = pages.volume().unwrap();
        let (mut old, mut new) = (BlockId::NONE, BlockId::NONE);
        let note = |into: &mut BlockId, found| {
            if let MapFinding::Page(_, block) = found {
                *into = block.block();
            }
        };
        let epoch = volume.superblock().epochs[0];
        volume
            .walk_epoch(&epoch, &mut |found| {
                note(&mut old, found);
                Ok(true)
            })
            .unwrap();
        volume
            .walk(0..u64::MAX, &mut |found| {
                note(&mut new, found);
                Ok(())
            })
            .unwrap();
        assert_ne!(old, new);
        let seat = pages.participants.sit().unwrap();
        let hand = seat.in_hand();
        for (block, what) in [
            (old, format!("block {old} is free")),
            (new, format!("block {new} is free and the map names it")),
        ] {
            assert!(pages.blocks().release(block));
            let problems = problems();
            assert!(problems.iter().any(|problem| problem.contains(&what)), "{problems:?}");
            assert!(pages.blocks().of(block.volume()).take_run(block.within(), 1).unwrap());
        }
        drop(hand);
        drop(seat);
        core.close().unwrap();
    }
}
