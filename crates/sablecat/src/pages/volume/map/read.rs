//! Finding the map leaf over a page.
//!
//! Inner blocks are kept in process memory for as long as their generation is in force: one in 504 map blocks
//! is one (4 KiB pages), 4 MB for a terabyte. Leaves are not: their readers put them into the page table.
//!
//! A lookup may run while a checkpoint puts the next generation in force, after which blocks of the old map
//! are reused. So a lookup looks at the root once more at its end and starts again if it changed, whatever it
//! has found, errors included.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sablecat_os::disk::AlignedBuf;

use super::node::{MapNode, MapPlace};
use super::{MapRoot, coverage, leaf_span};
use crate::error::Result;
use crate::pages::volume::blocks::BlockFiles;
use crate::types::{BlockId, PageId, SealedBlock};

/// A reader of the map in force.
#[derive(Debug)]
pub(in crate::pages::volume) struct MapReader {
    state: Mutex<CachedMap>,
}

#[derive(Debug)]
struct CachedMap {
    root: MapRoot,
    inner: HashMap<BlockId, Arc<MapNode>>,
}

impl MapReader {
    pub(in crate::pages::volume) fn new(root: MapRoot) -> MapReader {
        MapReader { state: Mutex::new(CachedMap { root, inner: HashMap::new() }) }
    }

    fn state(&self) -> MutexGuard<'_, CachedMap> {
        // Nothing panics while holding it, and every state of it is a valid one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::pages::volume) fn root(&self) -> MapRoot {
        self.state().root
    }

    pub(in crate::pages::volume) fn set_root(&self, root: MapRoot) {
        let mut state = self.state();
        if state.root != root {
            *state = CachedMap { root, inner: HashMap::new() };
        }
    }

    /// The first page and the entries of the leaf that covers `page`.
    pub(in crate::pages::volume) fn lookup_leaf(
        &self,
        files: &BlockFiles,
        page: PageId,
    ) -> Result<(PageId, Vec<SealedBlock>)> {
        let span = leaf_span(files.page_size()) as u32;
        let first = PageId(page.0 / span * span);
        let mut buffer = None;
        loop {
            let root = self.root();
            let found = self.find(files, &root, page, &mut buffer);
            if self.root() == root {
                return Ok((first, found?));
            }
        }
    }

    fn find(
        &self,
        files: &BlockFiles,
        root: &MapRoot,
        page: PageId,
        buffer: &mut Option<AlignedBuf>,
    ) -> Result<Vec<SealedBlock>> {
        let page_size = files.page_size();
        let nothing = || Ok(MapNode::empty(page_size).entries);
        let page = u64::from(page.0);
        if page >= coverage(page_size, root.height) || root.height == 0 {
            return nothing();
        }
        let mut place = MapPlace { level: root.height - 1, first: 0 };
        let mut block = root.root;
        while place.level > 0 {
            let n = place.entry_of(page_size, page);
            block = self.inner(files, root, place, block, buffer)?.entries[n];
            place = place.child(page_size, n);
            if block == SealedBlock::NONE {
                return nothing();
            }
        }
        let buffer = buffer.get_or_insert_with(|| AlignedBuf::new(files.block_size()));
        Ok(MapNode::read(files, root, place, block, buffer)?.entries)
    }

    fn inner(
        &self,
        files: &BlockFiles,
        root: &MapRoot,
        place: MapPlace,
        block: SealedBlock,
        buffer: &mut Option<AlignedBuf>,
    ) -> Result<Arc<MapNode>> {
        {
            let state = self.state();
            if state.root == *root
                && let Some(node) = state.inner.get(&block.block())
            {
                return Ok(Arc::clone(node));
            }
        }
        let buffer = buffer.get_or_insert_with(|| AlignedBuf::new(files.block_size()));
        let node = Arc::new(MapNode::read(files, root, place, block, buffer)?);
        let mut state = self.state();
        if state.root == *root {
            state.inner.insert(block.block(), Arc::clone(&node));
        }
        Ok(node)
    }
}
