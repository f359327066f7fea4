//! Walking the whole map: what is used, and whether anything is used twice.
//!
//! Nobody may put another generation in force and reuse blocks meanwhile; the checkpoint role, or the `freed`
//! list held back, sees to it.

use std::ops::Range;

use sablecat_os::disk::AlignedBuf;

use super::blocks::BlockFiles;
use super::map::{MapNode, MapPlace, MapRoot};
use crate::error::{Error, Result};
use crate::pages::allocation::Used;
use crate::pages::allocation::UsedBlocks;
use crate::types::{BlockId, PageId, SealedBlock};

/// Something the scan came upon.
#[derive(Debug)]
pub(crate) enum MapFinding {
    /// A page and the block that holds it. The block has not been read.
    Page(PageId, SealedBlock),
    /// A block of the map, about to be read.
    Map(BlockId),
    /// A block of the map that could not be read; what it leads to is left out.
    Damaged(BlockId, Error),
}

/// What a generation uses. Reserved numbers (the blocks under the superblocks, page 0) count as used.
#[derive(Debug)]
pub(crate) struct InUse {
    /// Page ids below the superblock's mark.
    pub(crate) pages: Used,
    /// Blocks within the superblock's bounds, those of the map included.
    pub(crate) blocks: UsedBlocks,
}

/// Calls `visit` for everything the map names of `pages`, in ascending order. An error of `visit` ends the
/// walk.
pub(super) fn walk(
    files: &BlockFiles,
    root: &MapRoot,
    pages: Range<u64>,
    visit: &mut dyn FnMut(MapFinding) -> Result<()>,
) -> Result<()> {
    walk_parts(files, root, pages, &mut |found| visit(found).map(|()| true))
}

/// As [`walk`], but what hangs on a block of the map is left out if `visit` says so of the block.
pub(super) fn walk_parts(
    files: &BlockFiles,
    root: &MapRoot,
    pages: Range<u64>,
    visit: &mut dyn FnMut(MapFinding) -> Result<bool>,
) -> Result<()> {
    if root.height == 0 {
        return Ok(());
    }
    let mut buffer = AlignedBuf::new(files.block_size());
    walk_from(
        files,
        root,
        &pages,
        MapPlace { level: root.height - 1, first: 0 },
        root.root,
        &mut buffer,
        visit,
    )
}

fn walk_from(
    files: &BlockFiles,
    root: &MapRoot,
    pages: &Range<u64>,
    place: MapPlace,
    block: SealedBlock,
    buffer: &mut AlignedBuf,
    visit: &mut dyn FnMut(MapFinding) -> Result<bool>,
) -> Result<()> {
    if !visit(MapFinding::Map(block.block()))? {
        return Ok(());
    }
    let node = match MapNode::read(files, root, place, block, buffer) {
        Ok(node) => node,
        Err(error) => return visit(MapFinding::Damaged(block.block(), error)).map(drop),
    };
    let each = place.pages_per_entry(files.page_size());
    for (n, &entry) in node.entries.iter().enumerate() {
        let first = place.first + n as u64 * each;
        if entry == SealedBlock::NONE || first >= pages.end || first + each <= pages.start {
            continue;
        }
        if place.level > 0 {
            walk_from(files, root, pages, place.child(files.page_size(), n), entry, buffer, visit)?;
        } else {
            // Entries for numbers beyond the last page id were refused when the block was read.
            visit(MapFinding::Page(PageId(first as u32), entry))?;
        }
    }
    Ok(())
}

/// Adds the blocks of another map, which may share blocks with those found, to what is in use. What hangs on
/// a damaged block of that map is left out: nobody will find it there either.
///
/// # Errors
/// Those of the file.
pub(super) fn add_blocks(files: &BlockFiles, root: &MapRoot, found: &mut UsedBlocks) -> Result<()> {
    walk_parts(files, root, 0..u64::MAX, &mut |named| match named {
        MapFinding::Map(block) => Ok(found.insert(block)),
        MapFinding::Page(_, block) => {
            found.insert(block.block());
            Ok(true)
        }
        MapFinding::Damaged(_, error) => {
            if error.is_corruption() {
                Ok(false)
            } else {
                Err(error)
            }
        }
    })
}

/// Finds what a generation uses.
pub(super) fn in_use(files: &BlockFiles, root: &MapRoot) -> Result<InUse> {
    let there = files.blocks_there()?;
    let blocks = UsedBlocks::reserved(files.count(), &root.blocks, files.block_size());
    let mut found = InUse { pages: Used::new(u64::from(root.pages_high)), blocks };
    if root.pages_high > 0 {
        found.pages.insert(0);
    }
    walk(files, root, 0..u64::MAX, &mut |named| {
        let block = match named {
            MapFinding::Damaged(_, error) => return Err(error),
            MapFinding::Map(block) => block,
            MapFinding::Page(page, block) => {
                found.pages.insert(u64::from(page.0));
                block.block()
            }
        };
        let place = block.within();
        if place >= there[block.volume()] {
            return Err(Error::corruption(format!(
                "{}: the map names block {place}, which is beyond the end of the file",
                files.path_of(block).display()
            )));
        }
        if !found.blocks.insert(block) {
            return Err(Error::corruption(format!(
                "{}: the map names block {place} twice",
                files.path_of(block).display()
            )));
        }
        Ok(())
    })?;
    Ok(found)
}
