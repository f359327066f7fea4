//! Blocks that nothing names any more, when retained epochs share blocks with each other and with the
//! generation in force.
//!
//! Maps are copied on write, so two generations share every part of the map that did not change between them.
//! The blocks that only a dropped map names are found by going down that map beside all maps that stay: a
//! part that any of them has at the same place is left out, with all it leads to. Cost: the map blocks in
//! which the dropped map differs from each of the others, read once in every map that differs there.
//!
//! What cannot be read is taken to be shared: blocks stay in use rather than be freed by mistake.

use sablecat_os::disk::AlignedBuf;

use super::blocks::BlockFiles;
use super::map::{MapNode, MapPlace, MapRoot};
use crate::types::{BlockId, PageId, SealedBlock};

/// What another map has at the place that the search is at.
#[derive(Clone, Copy)]
enum Other<'a> {
    /// This block; or nothing.
    Block(&'a MapRoot, SealedBlock),
    /// Its root is further down, over the first pages.
    Lower(&'a MapRoot),
}

/// The blocks that `dropped` names and none of `kept`: those of pages with their pages, those of the map with
/// page 0.
pub(super) fn orphans(files: &BlockFiles, dropped: &MapRoot, kept: &[MapRoot]) -> Vec<(PageId, BlockId)> {
    if dropped.height == 0 {
        return Vec::new();
    }
    let mut search =
        Search { files, dropped, buffer: AlignedBuf::new(files.block_size()), found: Vec::new() };
    let level = dropped.height - 1;
    let others: Option<Vec<_>> = kept.iter().map(|root| search.at_top(root, level)).collect();
    if let Some(others) = others {
        search.descend(MapPlace { level, first: 0 }, dropped.root, &others);
    }
    search.found
}

struct Search<'a> {
    files: &'a BlockFiles,
    dropped: &'a MapRoot,
    buffer: AlignedBuf,
    found: Vec<(PageId, BlockId)>,
}

impl Search<'_> {
    /// What a map has at the place of the dropped map's root, which is at `level`. None if that cannot be
    /// read.
    fn at_top<'r>(&mut self, root: &'r MapRoot, level: u8) -> Option<Other<'r>> {
        if root.height > 0 && root.height <= level {
            return Some(Other::Lower(root));
        }
        let mut block = root.root;
        for above in (level + 1..root.height).rev() {
            block = self.read(root, MapPlace { level: above, first: 0 }, block)?.entries[0];
            if block == SealedBlock::NONE {
                break;
            }
        }
        Some(Other::Block(root, block))
    }

    fn read(&mut self, root: &MapRoot, place: MapPlace, block: SealedBlock) -> Option<MapNode> {
        MapNode::read(self.files, root, place, block, &mut self.buffer).ok()
    }

    fn descend(&mut self, place: MapPlace, block: SealedBlock, others: &[Other<'_>]) {
        if others.iter().any(|other| matches!(other, Other::Block(_, same) if same.block() == block.block()))
        {
            return;
        }
        let Some(node) = self.read(self.dropped, place, block) else { return };
        let mut beside = Vec::with_capacity(others.len());
        for &other in others {
            let entries = match other {
                Other::Block(root, block) if block != SealedBlock::NONE => {
                    match self.read(root, place, block) {
                        Some(node) => Some(node.entries),
                        None => return,
                    }
                }
                _ => None,
            };
            beside.push((other, entries));
        }
        self.found.push((PageId::NONE, block.block()));
        let page_size = self.files.page_size();
        for (n, &entry) in node.entries.iter().enumerate().filter(|(_, entry)| **entry != SealedBlock::NONE) {
            if place.level > 0 {
                let place = place.child(page_size, n);
                let children: Vec<_> = beside
                    .iter()
                    .map(|(other, entries)| match (*other, entries) {
                        (Other::Lower(root), _) if n == 0 && root.height == place.level + 1 => {
                            Other::Block(root, root.root)
                        }
                        (Other::Lower(root), _) if n == 0 => Other::Lower(root),
                        (Other::Lower(root) | Other::Block(root, _), None) => {
                            Other::Block(root, SealedBlock::NONE)
                        }
                        (Other::Lower(root) | Other::Block(root, _), Some(entries)) => {
                            Other::Block(root, entries[n])
                        }
                    })
                    .collect();
                self.descend(place, entry, &children);
            } else if !beside.iter().any(|(_, entries)| {
                entries.as_ref().is_some_and(|entries| entries[n].block() == entry.block())
            }) {
                self.found.push((PageId((place.first + n as u64) as u32), entry.block()));
            }
        }
    }
}
