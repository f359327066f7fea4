//! Writing the next generation's map.
//!
//! Sorted changes are taken down the tree together; every block on a path to a change is written anew,
//! children before parents, so that a parent can name them. The old map stays as it is. Cost: the map blocks
//! on the paths, read and written once each.

use sablecat_os::disk::AlignedBuf;

use super::node::{MapNode, MapPlace};
use super::{MapRoot, coverage};
use crate::error::Result;
use crate::pages::volume::batch::BlockBatch;
use crate::pages::volume::blocks::BlockFiles;
use crate::types::{BlockId, PageId, SealedBlock};

/// What an update did.
#[derive(Debug)]
pub(in crate::pages::volume) struct MapChange {
    pub(in crate::pages::volume) root: SealedBlock,
    pub(in crate::pages::volume) height: u8,
    /// Blocks that only the old generation names: replaced map blocks and the old blocks of changed pages.
    pub(in crate::pages::volume) freed: Vec<BlockId>,
}

/// Writes the map that results from `changes` (sorted by page, each page once; block 0 removes a page) to new
/// blocks, without a flush. Blocks from `rewrite_from` on that lie on the paths are written anew even if
/// nothing changes in them.
///
/// # Errors
/// Those of reading the old map, of `allocate` and of writing. The old map is as it was; blocks allocated
/// have come to nothing.
pub(in crate::pages::volume) fn update(
    files: &BlockFiles,
    old: &MapRoot,
    generation: u64,
    (changes, rewrite_from): (&[(PageId, SealedBlock)], BlockId),
    allocate: &mut dyn FnMut() -> Result<BlockId>,
) -> Result<MapChange> {
    assert!(
        changes.windows(2).all(|pair| pair[0].0 < pair[1].0),
        "changes are sorted and name each page once"
    );
    assert!(changes.first().is_none_or(|change| change.0 != PageId::NONE), "page 0 is no page");
    let page_size = files.page_size();
    let mut height = old.height;
    if let Some(last) = changes.iter().rev().find(|change| change.1 != SealedBlock::NONE) {
        while coverage(page_size, height) <= u64::from(last.0.0) || height == 0 {
            height += 1;
        }
    }
    // Beyond what the map will cover there are only removals of pages that it never named.
    let end =
        changes.partition_point(|change| u64::from(change.0.0) < coverage(page_size, height) && height > 0);
    let mut change = MapChange { root: old.root, height, freed: Vec::new() };
    if end == 0 {
        return Ok(change);
    }
    let mut update = MapUpdate {
        files,
        old,
        generation,
        rewrite_from,
        allocate,
        batch: BlockBatch::new(files),
        buffer: AlignedBuf::new(files.block_size()),
        freed: Vec::new(),
    };
    let top = MapPlace { level: height - 1, first: 0 };
    let old_top = if height == old.height { old.root } else { SealedBlock::NONE };
    change.root = update.apply(top, old_top, &changes[..end])?;
    if change.root == SealedBlock::NONE {
        change.height = 0;
    }
    change.freed = update.freed;
    update.batch.finish()?;
    Ok(change)
}

struct MapUpdate<'a> {
    files: &'a BlockFiles,
    old: &'a MapRoot,
    generation: u64,
    rewrite_from: BlockId,
    allocate: &'a mut dyn FnMut() -> Result<BlockId>,
    batch: BlockBatch<'a>,
    buffer: AlignedBuf,
    freed: Vec<BlockId>,
}

impl MapUpdate<'_> {
    /// The block that takes the place of `block` at `place`: itself if nothing changes, none if nothing is
    /// left.
    fn apply(
        &mut self,
        place: MapPlace,
        block: SealedBlock,
        changes: &[(PageId, SealedBlock)],
    ) -> Result<SealedBlock> {
        let page_size = self.files.page_size();
        let mut node = if block == SealedBlock::NONE {
            MapNode::empty(page_size)
        } else {
            MapNode::read(self.files, self.old, place, block, &mut self.buffer)?
        };
        let before = node.clone();
        // A level above the old root: its first child leads to the old root, which no block has said so far.
        if place.first == 0 && place.level == self.old.height {
            node.entries[0] = self.old.root;
        }
        if place.level == 0 {
            self.apply_to_leaf(&mut node, place, changes);
        } else {
            self.apply_to_children(&mut node, place, changes)?;
        }
        if node == before && block.block() < self.rewrite_from {
            return Ok(block);
        }
        if block != SealedBlock::NONE {
            self.freed.push(block.block());
        }
        if node.entries.iter().all(|&entry| entry == SealedBlock::NONE) {
            return Ok(SealedBlock::NONE);
        }
        self.write(place, &node)
    }

    fn apply_to_leaf(&mut self, node: &mut MapNode, place: MapPlace, changes: &[(PageId, SealedBlock)]) {
        for &(page, new) in changes {
            let entry = &mut node.entries[place.entry_of(self.files.page_size(), u64::from(page.0))];
            let old = std::mem::replace(entry, new);
            if old.block() != new.block() && old != SealedBlock::NONE {
                self.freed.push(old.block());
            }
        }
    }

    fn apply_to_children(
        &mut self,
        node: &mut MapNode,
        place: MapPlace,
        mut changes: &[(PageId, SealedBlock)],
    ) -> Result<()> {
        let page_size = self.files.page_size();
        // Two levels or more above the old root: the first child has to be written for the old root's sake
        // alone.
        let mut needed =
            place.first == 0 && place.level > self.old.height && self.old.root != SealedBlock::NONE;
        while needed || !changes.is_empty() {
            let n = if needed { 0 } else { place.entry_of(page_size, u64::from(changes[0].0.0)) };
            let child = place.child(page_size, n);
            let end = child.first + place.pages_per_entry(page_size);
            let (its, rest) = changes.split_at(changes.partition_point(|change| u64::from(change.0.0) < end));
            node.entries[n] = self.apply(child, node.entries[n], its)?;
            changes = rest;
            needed = false;
        }
        Ok(())
    }

    fn write(&mut self, place: MapPlace, node: &MapNode) -> Result<SealedBlock> {
        let block = (self.allocate)()?;
        let page = &mut self.buffer[..self.files.page_size()];
        node.encode(page, place, self.generation);
        self.batch.push(block, page, 0..0)
    }
}
