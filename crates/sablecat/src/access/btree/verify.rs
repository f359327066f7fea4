//! Checking a whole tree with its subtrees: every invariant that its pages and their places must keep.

use std::collections::HashSet;

use super::node::{self, Fences, Inner, Leaf, NodeKind, StoredValue};
use super::{OwnValues, Tree, counted, nest};
use crate::access::ahead::Many;
use crate::access::method::Shape;
use crate::access::{PageRead, long};
use crate::pages::{Foresight, header};
use crate::types::PageId;

/// Walks a tree and tells `problem` of whatever is wrong, naming page and reason; `seen` collects every page
/// met, to find pages met twice.
pub(crate) fn verify<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    seen: &mut HashSet<PageId>,
    problem: &mut dyn FnMut(String),
    progress: &mut dyn FnMut(u64),
) -> Shape {
    verify_own(reader, tree, &OwnValues::All, seen, problem, progress)
}

/// As [`verify`], of a tree of which only some long values are its own.
pub(in crate::access) fn verify_own<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    own: &OwnValues,
    seen: &mut HashSet<PageId>,
    problem: &mut dyn FnMut(String),
    progress: &mut dyn FnMut(u64),
) -> Shape {
    let mut walk = Walk {
        reader,
        tree: *tree,
        own,
        stems_len: 0,
        found: 0,
        below: Vec::new(),
        seen,
        problem,
        progress,
        shape: Shape::default(),
        foresight: Foresight::default(),
    };
    walk.page(tree.root, None, (None, None));
    // One after the other, however deep they are nested.
    while let Some((subtree, stems_len, counted)) = walk.below.pop() {
        (walk.tree, walk.stems_len, walk.found) = (subtree, stems_len, 0);
        let records = walk.page(subtree.root, None, (None, None));
        if walk.found == 0 {
            walk.wrong(subtree.root, "is the root of a subtree in which no record was found");
        }
        if let Some(records) = records
            && tree.method.counts()
            && records != counted
        {
            let why = format!("has {records} records below it, and the reference to it says {counted}");
            walk.wrong(subtree.root, why);
        }
    }
    walk.shape
}

struct Walk<'a, R> {
    reader: &'a R,
    /// The tree or subtree that is being walked, the bytes of the stems that lead to it, and the records
    /// found in it, references included.
    tree: Tree<'a>,
    own: &'a OwnValues,
    stems_len: usize,
    found: u64,
    /// Subtrees to be walked, and how many records they are said to have.
    below: Vec<(Tree<'a>, usize, u64)>,
    seen: &'a mut HashSet<PageId>,
    problem: &'a mut dyn FnMut(String),
    progress: &'a mut dyn FnMut(u64),
    shape: Shape,
    foresight: Foresight,
}

impl<R: PageRead> Walk<'_, R> {
    fn wrong(&mut self, page: PageId, why: impl std::fmt::Display) {
        (self.problem)(format!("page {page} of tree {}: {why}", self.tree.id));
    }

    /// Checks a page and what is below it. Its parent says at which level it must be and what its fences are.
    /// Says how many records were found below it, those in subtrees as the references to them say; none if
    /// that is not known.
    fn page(
        &mut self,
        page: PageId,
        level: Option<u8>,
        fences: (Option<Vec<u8>>, Option<Vec<u8>>),
    ) -> Option<u64> {
        let bytes = self.checked(page, level)?;
        self.shape.levels = self.shape.levels.max(u32::from(node::level(&bytes)) + 1);
        let expected = Fences { lower: fences.0.as_deref(), upper: fences.1.as_deref() };
        match node::kind(&bytes) {
            Some(NodeKind::Leaf) => {
                if Leaf::new(&bytes).fences() != expected {
                    self.wrong(page, "has other fences than its parent's separators");
                }
                self.leaf(page, &bytes);
                Some(counted::records_in(&bytes))
            }
            Some(NodeKind::Inner) => {
                if Inner::new(&bytes).fences() != expected {
                    self.wrong(page, "has other fences than its parent's separators");
                }
                self.inner(page, &bytes, fences)
            }
            None => {
                self.wrong(page, "is neither a leaf nor an inner page");
                None
            }
        }
    }

    /// The bytes of a page, if it is one that can be looked into.
    fn checked(&mut self, page: PageId, level: Option<u8>) -> Option<Vec<u8>> {
        match self.check(page, level) {
            Ok(bytes) => Some(bytes),
            Err(why) => {
                self.wrong(page, why);
                None
            }
        }
    }

    fn check(&mut self, page: PageId, level: Option<u8>) -> Result<Vec<u8>, String> {
        if !self.seen.insert(page) {
            return Err("is reached twice".to_owned());
        }
        let bytes = self.reader.read(page, <[u8]>::to_vec).map_err(|error| error.to_string())?;
        node::check_full(&bytes, self.tree.order)?;
        if header::page_id(&bytes) != page {
            self.wrong(page, format!("says it is page {}", header::page_id(&bytes)));
        }
        if header::tree_id(&bytes) != self.tree.id {
            return Err(format!("belongs to tree {}", header::tree_id(&bytes)));
        }
        if level.is_some_and(|level| level != node::level(&bytes)) {
            let level = node::level(&bytes);
            return Err(format!("is at level {level}, and its parent at one that does not fit"));
        }
        if node::is_counted(&bytes) != self.tree.method.counts() {
            return Err("counts its records where its tree does not, or the other way round".to_owned());
        }
        Ok(bytes)
    }

    fn leaf(&mut self, page: PageId, bytes: &[u8]) {
        let leaf = Leaf::new(bytes);
        self.shape.leaf_pages += 1;
        self.found += leaf.count() as u64;
        (self.progress)(1);
        let stem_bytes = nest::stem_bytes(self.tree.order, bytes.len());
        let order = self.tree.order;
        let mut last: Option<Vec<u8>> = None;
        for slot in 0..leaf.count() {
            let (prefix, suffix) = leaf.key(slot);
            let key = [prefix, suffix].concat();
            if last.as_ref().is_some_and(|last| order.compare(last, &key).is_ge()) {
                self.wrong(page, format!("record {slot} is not above the one before it"));
            }
            if !leaf.covers(&key, order) {
                self.wrong(page, format!("record {slot} lies outside the fences"));
            }
            if self.stems_len + key.len() > nest::key_bytes_max(order, bytes.len()) {
                self.wrong(
                    page,
                    format!(
                        "record {slot} has a key of {} bytes, longer than keys can be",
                        self.stems_len + key.len()
                    ),
                );
            } else if key.len() == stem_bytes {
                let value = leaf.value(slot);
                match nest::subtree(value, self.tree.method.nested()) {
                    Ok(subtree) => {
                        let records = nest::records_led_to(value);
                        self.below.push((subtree, self.stems_len + key.len(), records));
                    }
                    Err(why) => self.wrong(page, format!("{why} (record {slot})")),
                }
            } else {
                self.shape.records += 1;
                if let StoredValue::Long { first_page, len } = leaf.value(slot)
                    && self.own.has(&leaf, slot)
                {
                    self.long(page, slot, first_page, len, bytes.len());
                }
            }
            last = Some(key);
        }
    }

    fn long(&mut self, leaf: PageId, slot: usize, first: PageId, len: u64, page_size: usize) {
        for n in 0..long::page_count(len, page_size) {
            let Ok(number) = u32::try_from(u64::from(first.0) + n) else {
                return self.wrong(leaf, format!("record {slot} has a value that runs past the last page"));
            };
            let page = PageId(number);
            if !self.seen.insert(page) {
                self.wrong(
                    page,
                    format!("is reached twice, now from the value of record {slot} of page {leaf}"),
                );
                return;
            }
            match self.reader.read(page, |bytes| header::kind(bytes) == Some(long::KIND_LONG)) {
                Ok(true) => self.shape.long_pages += 1,
                Ok(false) => {
                    return self.wrong(
                        page,
                        format!("should hold part of the value of record {slot} of page {leaf}"),
                    );
                }
                Err(error) => return self.wrong(page, error),
            }
        }
    }

    fn inner(
        &mut self,
        page: PageId,
        bytes: &[u8],
        fences: (Option<Vec<u8>>, Option<Vec<u8>>),
    ) -> Option<u64> {
        let mut records = Some(0);
        let inner = Inner::new(bytes);
        self.shape.inner_pages += 1;
        let separator = |slot: usize| {
            let mut key = Vec::new();
            inner.copy_separator(slot, &mut key);
            key
        };
        for slot in 0..=inner.count() {
            let before = self.reader.waits();
            let lower = if slot == 0 { fences.0.clone() } else { Some(separator(slot - 1)) };
            let upper = if slot == inner.count() { fences.1.clone() } else { Some(separator(slot)) };
            let found = self.page(inner.child(slot), Some(inner.level() - 1), (lower, upper));
            if inner.level() == 1 {
                let waited = self.reader.waits() != before;
                let behind = |many: Many| {
                    Ok((slot + 1..=inner.count())
                        .skip(many.without)
                        .take(many.at_most)
                        .map(|n| inner.child(n))
                        .collect())
                };
                // To no avail at worst: what is wrong with a page is told when it is read.
                let _ = self.foresight.came(self.reader, waited, behind);
            }
            let counted = inner.records_below(slot);
            if let Some(found) = found
                && self.tree.method.counts()
                && found != counted
            {
                self.wrong(page, format!("counts {counted} records below child {slot}, which has {found}"));
            }
            records = records.zip(found).map(|(sum, found): (u64, u64)| sum.saturating_add(found));
        }
        records
    }
}
