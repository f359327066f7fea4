//! The root page of a tree with layers: which there are, what is being merged, and what is to be freed.
//!
//! ```text
//!   0  ..   what all pages have (pages/header.rs); kind 7
//!  21  u8   layers below the newest
//!  22  u8   merges
//!  23  u8   trees to be freed
//!  24  u32  root of the newest layer, which takes the changes
//!  28  u32  zero
//!  32  ..   entries: of the layers, the newer ones first; of what merges have made; of what is to be freed
//!
//! entry   0  u32  root             12  u8   merges: the first layer that is merged
//!         4  u32  tree id          13  u8   merges: how many layers are merged
//!         8  u32  root of the      14  u8   merges: 1: nothing older than these layers is there, so that
//!                 filters; 0: none               removals are left out
//!                                  15  u8   zero
//!                                  16  u64  bytes of keys and values, about; of what is to be
//!                                           freed: the state from which on nobody sees it; 0: not
//!                                           known yet
//!                                  24  u64  records, removals among them
//! ```

use std::ops::Range;

use crate::access::Home;
use crate::access::method::{Method, Order, Tree};
use crate::pages::header;
use crate::types::{Lsn, PageId, TreeId};

/// The kind of these pages.
pub(crate) const KIND: u8 = 7;

const COUNTS_AT: usize = 21;
const NEWEST_AT: usize = 24;
const ENTRIES_AT: usize = 32;
const ENTRY_BYTES: usize = 32;
/// More bytes or records than any layer has.
pub(super) const SIZE_MAX: u64 = 1 << 48;

/// A layer that nobody changes any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Layer {
    pub(super) root: PageId,
    /// Stands in each of its pages.
    pub(super) id: TreeId,
    /// Where its filters begin; no page: it has none.
    pub(super) filters: PageId,
    /// Bytes of keys and values, about.
    pub(super) bytes: u64,
    /// Records, removals among them.
    pub(super) records: u64,
}

/// Layers that are being made one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LayerMerge {
    /// Which are merged: from this one on.
    pub(super) first: usize,
    pub(super) count: usize,
    /// Nothing older is there, so that removals are left out.
    pub(super) drops_removals: bool,
    /// What was made so far. Its `records` also say how far the merge has come.
    pub(super) made: Layer,
}

/// A layer that was merged, and is to be freed once no snapshot sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Retired {
    pub(super) layer: Layer,
    /// From this state on it is not seen; none: that is not known yet.
    pub(super) from: Option<Lsn>,
}

impl LayerMerge {
    /// Which layers are merged.
    pub(super) fn window(&self) -> Range<usize> {
        self.first..self.first + self.count
    }
}

impl Retired {
    pub(super) fn new(layer: Layer) -> Retired {
        Retired { layer, from: None }
    }
}

/// What a root page says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Layers {
    /// The root of the newest layer, which takes the changes.
    pub(super) newest: PageId,
    /// Those below it, the newer ones first.
    pub(super) below: Vec<Layer>,
    pub(super) merges: Vec<LayerMerge>,
    /// To be freed.
    pub(super) retired: Vec<Retired>,
}

impl Layer {
    /// What it is as a tree.
    pub(super) fn tree<'t>(&self, around: &Tree<'t>) -> Tree<'t> {
        Tree { id: self.id, ..newest_at(around, self.root) }
    }

    /// Its filters as a tree, if it has any.
    pub(super) fn filter_tree(&self, around: &Tree<'_>) -> Option<Tree<'static>> {
        (self.filters != PageId::NONE).then(|| filters_at(around, self.filters))
    }

    /// What is left of it to be freed once its records are: its filters, if it has any.
    pub(super) fn without_records(&self) -> Option<Layer> {
        let Layer { filters: root, .. } = *self;
        (root != PageId::NONE).then(|| Layer { root, id: part_id(root), ..Layer::default() })
    }

    fn read(bytes: &[u8], n: usize) -> Layer {
        let at = ENTRIES_AT + n * ENTRY_BYTES;
        let word = |offset| u32::from_le_bytes(header::at(bytes, at + offset));
        let long = |offset| u64::from_le_bytes(header::at(bytes, at + offset));
        Layer {
            root: PageId(word(0)),
            id: TreeId(word(4)),
            filters: PageId(word(8)),
            bytes: long(16),
            records: long(24),
        }
    }

    fn write(&self, bytes: &mut [u8], n: usize) {
        let entry = &mut bytes[ENTRIES_AT + n * ENTRY_BYTES..][..ENTRY_BYTES];
        entry[..4].copy_from_slice(&self.root.0.to_le_bytes());
        entry[4..8].copy_from_slice(&self.id.0.to_le_bytes());
        entry[8..12].copy_from_slice(&self.filters.0.to_le_bytes());
        entry[16..24].copy_from_slice(&self.bytes.to_le_bytes());
        entry[24..].copy_from_slice(&self.records.to_le_bytes());
    }
}

/// The filters of a layer, as a tree with this root.
pub(super) fn filters_at(around: &Tree<'_>, root: PageId) -> Tree<'static> {
    let home = Home { volume: around.home.volume, keys: &[] };
    Tree { id: part_id(root), root, method: Method::Btree, order: Order::Bytes, home }
}

/// The number of a tree that is a part of another: none that a database has.
pub(super) fn part_id(root: PageId) -> TreeId {
    TreeId(!root.0)
}

/// The layer of a tree that takes the changes, as a tree with this root.
pub(super) fn newest_at<'t>(tree: &Tree<'t>, root: PageId) -> Tree<'t> {
    Tree { root, method: Method::Btree, ..*tree }
}

/// Whether a page is a root with layers below it.
#[inline]
pub(super) fn has_layers(bytes: &[u8]) -> bool {
    header::kind(bytes) == Some(KIND)
}

/// The root of the newest layer.
#[inline]
pub(super) fn newest(bytes: &[u8]) -> PageId {
    PageId(u32::from_le_bytes(header::at(bytes, NEWEST_AT)))
}

/// Has another root be that of the newest layer.
pub(super) fn set_newest(bytes: &mut [u8], root: PageId) {
    if has_layers(bytes) {
        bytes[NEWEST_AT..NEWEST_AT + 4].copy_from_slice(&root.0.to_le_bytes());
    }
}

/// How many layers there are below the newest.
#[inline]
pub(super) fn count_below(bytes: &[u8]) -> usize {
    bytes[COUNTS_AT].into()
}

/// One of the layers below the newest, the newer ones first.
#[inline]
pub(super) fn layer(bytes: &[u8], n: usize) -> Layer {
    Layer::read(bytes, n)
}

/// How many entries a page has room for.
pub(super) fn entries_max(page_size: usize) -> usize {
    ((page_size - ENTRIES_AT) / ENTRY_BYTES).min(u8::MAX.into())
}

impl Layers {
    /// No layers but the newest.
    pub(super) fn of_newest(newest: PageId) -> Layers {
        Layers { newest, ..Layers::default() }
    }

    /// What a root page says that has layers below it.
    pub(super) fn read(bytes: &[u8]) -> Layers {
        let [below, merges, retired] = counts(bytes);
        let merge = |n| {
            let at = ENTRIES_AT + n * ENTRY_BYTES;
            LayerMerge {
                first: usize::from(bytes[at + 12]),
                count: usize::from(bytes[at + 13]),
                drops_removals: bytes[at + 14] != 0,
                made: Layer::read(bytes, n),
            }
        };
        Layers {
            newest: newest(bytes),
            below: (0..below).map(|n| Layer::read(bytes, n)).collect(),
            merges: (below..below + merges).map(merge).collect(),
            retired: (below + merges..below + merges + retired)
                .map(|n| {
                    let layer = Layer::read(bytes, n);
                    let from = (layer.bytes != 0).then_some(Lsn(layer.bytes));
                    Retired { layer: Layer { bytes: 0, ..layer }, from }
                })
                .collect(),
        }
    }

    /// Writes a root page. It has room for [`entries_max`] entries.
    pub(super) fn write(&self, bytes: &mut [u8], root: PageId, tree: TreeId) {
        bytes.fill(0);
        header::form(bytes, root, tree, KIND);
        let counts = [self.below.len(), self.merges.len(), self.retired.len()];
        bytes[COUNTS_AT..COUNTS_AT + 3].copy_from_slice(&counts.map(|count| count as u8));
        bytes[NEWEST_AT..NEWEST_AT + 4].copy_from_slice(&self.newest.0.to_le_bytes());
        let made = self.merges.iter().map(|merge| merge.made);
        let retired = self.retired.iter().map(|Retired { layer, from }| {
            let from = from.unwrap_or_default();
            Layer { bytes: from.0, ..*layer }
        });
        for (n, layer) in self.below.iter().copied().chain(made).chain(retired).enumerate() {
            layer.write(bytes, n);
        }
        for (n, merge) in self.merges.iter().enumerate() {
            let at = ENTRIES_AT + (self.below.len() + n) * ENTRY_BYTES;
            bytes[at + 12] = merge.first as u8;
            bytes[at + 13] = merge.count as u8;
            bytes[at + 14] = merge.drops_removals.into();
        }
    }
}

/// How many layers, merges and trees to be freed a root page says there are.
fn counts(bytes: &[u8]) -> [usize; 3] {
    [0, 1, 2].map(|n| bytes[COUNTS_AT + n].into())
}

/// Tells whether bytes that say they are such a page can be worked on.
pub(crate) fn check(bytes: &[u8]) -> Result<(), String> {
    if !header::is_page_size(bytes.len()) {
        return Err(format!("{} bytes are no page", bytes.len()));
    }
    let entries = counts(bytes).iter().sum();
    if entries > entries_max(bytes.len()) {
        return Err(format!("{entries} entries do not fit"));
    }
    if newest(bytes) == PageId::NONE || (0..entries).any(|n| Layer::read(bytes, n).root == PageId::NONE) {
        return Err("a layer has no root".to_owned());
    }
    let layers = Layers::read(bytes);
    let mut sized = layers.below.iter().chain(layers.merges.iter().map(|merge| &merge.made));
    if sized.any(|layer| layer.bytes.max(layer.records) > SIZE_MAX) {
        return Err("a layer is larger than can be".to_owned());
    }
    let mut merged = vec![false; layers.below.len()];
    for LayerMerge { first, count, .. } in &layers.merges {
        let Some(window) = merged.get_mut(*first..first + count) else {
            return Err(format!("{count} layers from {first} on are merged, of {}", layers.below.len()));
        };
        if *count == 0 || window.contains(&true) {
            return Err("a layer is merged twice, or none is".to_owned());
        }
        window.fill(true);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(n: u32) -> Layer {
        let filters = if n.is_multiple_of(2) { PageId::NONE } else { PageId(n + 100) };
        Layer { root: PageId(n), id: TreeId(!n), filters, bytes: 1 << n, records: n.into() }
    }

    #[test]
    fn what_is_written_is_read() {
        let merge = LayerMerge { first: 1, count: 2, drops_removals: true, made: layer(20) };
        let layers = Layers {
            newest: PageId(9),
            below: (1..=4).map(layer).collect(),
            merges: vec![merge, LayerMerge { first: 3, count: 1, drops_removals: false, made: layer(21) }],
            retired: vec![
                Retired { from: Some(Lsn(77)), ..Retired::new(Layer { bytes: 0, ..layer(30) }) },
                Retired::new(Layer { bytes: 0, ..layer(31) }),
            ],
        };
        let mut bytes = vec![7; 512];
        layers.write(&mut bytes, PageId(5), TreeId(3));
        check(&bytes).unwrap();
        assert!(has_layers(&bytes));
        assert_eq!(Layers::read(&bytes), layers);
        assert_eq!((newest(&bytes), count_below(&bytes)), (PageId(9), 4));
        assert_eq!(super::layer(&bytes, 2), layers.below[2]);
    }

    #[test]
    fn what_cannot_be_is_said() {
        let page = |layers: &Layers| {
            let mut bytes = vec![0; 512];
            layers.write(&mut bytes, PageId(5), TreeId(3));
            check(&bytes)
        };
        let good = Layers { newest: PageId(9), below: (1..=4).map(layer).collect(), ..Layers::default() };
        page(&good).unwrap();
        let merge = |first, count| LayerMerge { first, count, drops_removals: false, made: layer(20) };
        for bad in [
            Layers { newest: PageId::NONE, ..good.clone() },
            Layers { retired: vec![Retired::new(Layer::default())], ..good.clone() },
            Layers { merges: vec![merge(3, 2)], ..good.clone() },
            Layers { merges: vec![merge(0, 0)], ..good.clone() },
            Layers { merges: vec![merge(0, 2), merge(1, 1)], ..good.clone() },
            Layers { below: vec![Layer { bytes: u64::MAX, ..layer(1) }], ..good.clone() },
            Layers {
                merges: vec![LayerMerge { made: Layer { records: u64::MAX, ..layer(1) }, ..merge(0, 2) }],
                ..good.clone()
            },
        ] {
            page(&bad).unwrap_err();
        }
        let mut bytes = vec![0; 512];
        good.write(&mut bytes, PageId(5), TreeId(3));
        bytes[COUNTS_AT] = u8::MAX;
        check(&bytes).unwrap_err();
    }
}
