//! Moving through the layers side by side, from either end.

use std::cmp::Ordering;
use std::ops::Bound;

use super::page::{Layer, Layers, has_layers, newest_at};
use crate::access::btree;
use crate::access::method::Tree;
use crate::access::scan::{KeyBounds, PageCopy, Part, PendingRecord, ScanSource, ScannedValue, WantedPage};
use crate::error::Result;
use crate::types::{PageId, TreeId};

/// Both ends of a scan.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    front: Option<SideBySide>,
    back: Option<SideBySide>,
}

impl Ends {
    /// The value of the record that one end stands at.
    pub(crate) fn value(&self, forward: bool) -> ScannedValue {
        let end = if forward { &self.front } else { &self.back };
        end.as_ref().expect("it stands at a record").value(forward)
    }

    /// The key of the next record from one end, which then stands at that record; none if no more lie between
    /// the bounds.
    pub(crate) fn next<S: ScanSource>(
        &mut self,
        tree: &Tree<'_>,
        (lower, upper): KeyBounds<'_>,
        source: &mut S,
        forward: bool,
    ) -> Result<Option<Vec<u8>>> {
        let end = if forward { &mut self.front } else { &mut self.back };
        let merged = match end {
            Some(merged) => merged,
            None => end.insert(SideBySide::of_tree(tree, source)?),
        };
        let Some(mut key) = merged.next(tree, (lower, upper), source, forward)? else { return Ok(None) };
        // What is said to be removed hides what older layers say, and is not shown.
        while merged.value(forward).is_removed() {
            let beyond = Bound::Excluded(&key[..]);
            let bounds = if forward { (beyond, upper) } else { (lower, beyond) };
            match merged.next(tree, bounds, source, forward)? {
                Some(next) => key = next,
                None => return Ok(None),
            }
        }
        Ok(Some(key))
    }
}

/// Layers that are gone through together, the newer ones first.
#[derive(Debug)]
pub(super) struct SideBySide {
    parts: Vec<MergedLayer>,
    /// Which of them has the record that it stands at.
    at: usize,
}

#[derive(Debug)]
struct MergedLayer {
    root: PageId,
    id: TreeId,
    /// It is the newest, whose pages are the places of keys: what is read of them counts as read.
    counts: bool,
    ends: btree::Ends,
    /// The key that it stands at; none: not known.
    key: Option<Vec<u8>>,
    /// It has no more.
    is_done: bool,
}

impl MergedLayer {
    fn new(root: PageId, id: TreeId, counts: bool) -> MergedLayer {
        MergedLayer { root, id, counts, ends: btree::Ends::default(), key: None, is_done: false }
    }

    /// Has it stand at its first record within the bounds, from one end.
    fn stand<S: ScanSource>(
        &mut self,
        tree: &Tree<'_>,
        bounds: KeyBounds<'_>,
        source: &mut S,
        forward: bool,
    ) -> Result<()> {
        let within =
            |key: &Vec<u8>| if forward { tree.above(key, bounds.0) } else { tree.below(key, bounds.1) };
        if self.is_done || self.key.as_ref().is_some_and(within) {
            return Ok(());
        }
        let part = Tree { id: self.id, ..newest_at(tree, self.root) };
        // Nothing is nested in it: not even what a damaged page says.
        self.key = if self.counts {
            self.ends.next(&part, bounds, source, (forward, true))?
        } else {
            self.ends.next(&part, bounds, &mut Unseen(source), (forward, true))?
        };
        self.is_done = self.key.is_none();
        Ok(())
    }
}

impl SideBySide {
    /// All layers of a tree.
    fn of_tree<S: ScanSource>(tree: &Tree<'_>, source: &mut S) -> Result<SideBySide> {
        let mut root = PageCopy::default();
        let part = Part { tree, stems: &[], lower: Bound::Unbounded, upper: Bound::Unbounded };
        source.copy_unseen(&part, WantedPage::Root, &mut root)?;
        if !has_layers(root.bytes()) {
            return Ok(SideBySide { parts: vec![MergedLayer::new(tree.root, tree.id, true)], at: 0 });
        }
        let layers = Layers::read(root.bytes());
        let mut merged = SideBySide::of_layers(&layers.below);
        merged.parts.insert(0, MergedLayer::new(layers.newest, tree.id, true));
        Ok(merged)
    }

    /// Some layers that nobody changes.
    pub(super) fn of_layers(layers: &[Layer]) -> SideBySide {
        let parts = layers.iter().map(|layer| MergedLayer::new(layer.root, layer.id, false));
        SideBySide { parts: parts.collect(), at: 0 }
    }

    /// The same, to be gone through from end to end.
    pub(super) fn whole(mut self) -> SideBySide {
        self.parts.iter_mut().for_each(|part| part.ends.comes_to_all());
        self
    }

    /// The key of the next record from one end, or of the next removal, as the newest layer has it that has
    /// any; none if no more lie between the bounds.
    pub(super) fn next<S: ScanSource>(
        &mut self,
        tree: &Tree<'_>,
        bounds: KeyBounds<'_>,
        source: &mut S,
        forward: bool,
    ) -> Result<Option<Vec<u8>>> {
        let mut first: Option<usize> = None;
        for n in 0..self.parts.len() {
            self.parts[n].stand(tree, bounds, source, forward)?;
            let Some(key) = &self.parts[n].key else { continue };
            let comes_first = first.and_then(|first| self.parts[first].key.as_ref()).is_none_or(|first| {
                tree.order.compare(key, first) == if forward { Ordering::Less } else { Ordering::Greater }
            });
            if comes_first {
                first = Some(n);
            }
        }
        let Some(first) = first else { return Ok(None) };
        self.at = first;
        // It stands there still, and finds it again if it is asked for what comes next from the same bound
        // on.
        let key = self.parts[first].key.take();
        let is_within =
            |key: &Vec<u8>| if forward { tree.below(key, bounds.1) } else { tree.above(key, bounds.0) };
        Ok(key.filter(is_within))
    }

    /// The value of the record that it stands at.
    pub(super) fn value(&self, forward: bool) -> ScannedValue {
        self.parts[self.at].ends.value(forward)
    }

    /// The long values that older layers have under the key of the record that it stands at.
    pub(super) fn hidden<'s>(
        &'s self,
        key: &'s [u8],
        forward: bool,
    ) -> impl Iterator<Item = (PageId, u64)> + 's {
        let older = self.parts[self.at + 1..].iter().filter(|part| part.key.as_deref() == Some(key));
        older.filter_map(move |part| part.ends.value(forward).as_stored().in_pages())
    }
}

/// A source that notes nothing of what is read.
struct Unseen<'s, S>(&'s mut S);

impl<S: ScanSource> ScanSource for Unseen<'_, S> {
    fn copy(&mut self, part: &Part<'_>, wanted: WantedPage<'_>, into: &mut PageCopy) -> Result<()> {
        self.0.copy_unseen(part, wanted, into)
    }

    fn copy_unseen(&mut self, part: &Part<'_>, wanted: WantedPage<'_>, into: &mut PageCopy) -> Result<()> {
        self.0.copy_unseen(part, wanted, into)
    }

    fn pending(&self, _: Bound<&[u8]>, _: Bound<&[u8]>, _: bool) -> Result<Option<PendingRecord>> {
        Ok(None)
    }
}
