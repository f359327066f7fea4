//! Sealing the newest layer, merging those below it, and freeing what was merged: one step after the other,
//! each of which leaves a whole tree.

use std::ops::Bound;
use std::slice;

use super::filter::{self, FilterHash};
use super::page::{self, Layer, LayerMerge, Layers, Retired, newest_at, part_id};
use super::scan::SideBySide;
use crate::access::btree::node::{self, Inner, NodeKind};
use crate::access::btree::{self, Append, OwnValues};
use crate::access::method::{Method, Tree};
use crate::access::scan::{ScannedValue, StateSource};
use crate::access::wrong::damaged;
use crate::access::{PageRead, PageWrite, long};
use crate::error::Result;
use crate::pages::header;
use crate::types::{Lsn, PageId, TreeId};

/// So many layers of like size are merged, at least,
const MERGED_MIN: usize = 4;
/// and at most.
const MERGED_MAX: usize = 8;
/// So many merges are under way at most: while a large one is, small ones go on.
const MERGES_MAX: usize = 6;
/// With so many layers below it the newest is not sealed: each costs every reader something.
const LAYERS_MAX: usize = 28;
/// Nor with so many that were sealed and not merged: these are to be merged while they are in memory.
const SEALED_MAX: usize = 2 * MERGED_MIN;
/// A layer that was sealed with more than so many times the usual size gets no filters before it is merged:
/// all of its keys would have to be in memory at once.
const FILTERED_MAX: u64 = 8;
/// Entries of the root page that are kept for what is merged.
const ENTRIES_SPARE: usize = 2;

/// How large the newest layer becomes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerLimits {
    /// Leaves that it has before it is sealed, about.
    pub(crate) leaves: usize,
}

/// What is to be done next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LayerDuty {
    Nothing,
    /// Nothing but to free what was merged, once no snapshot sees it.
    Wait,
    /// From which state on what was merged is not seen is to be noted.
    Note,
    /// Some of what was merged is to be freed: of the nth tree.
    Free(usize),
    /// The newest layer is to be sealed.
    Seal,
    /// So many layers from one on are to be merged.
    Begin(usize, usize),
    /// A merge is to go on.
    Go(LayerMerge),
    /// A layer that was sealed is to have filters.
    Filter(Layer),
}

/// A record to be appended to what a merge makes.
#[derive(Debug)]
pub(crate) struct Drawn {
    key: Vec<u8>,
    /// The value, of which what is made takes over the pages if it is long; or that it was removed.
    value: ScannedValue,
    /// Long values that older layers have in its place: nobody leads to them any more.
    hidden: Vec<(PageId, u64)>,
}

/// What is to be done next to a tree; `is_unseen` says whether no snapshot is left from before a state.
pub(in crate::access) fn duty<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    limits: LayerLimits,
    is_unseen: impl Fn(Lsn) -> bool,
) -> Result<LayerDuty> {
    let layers = super::layers(reader, tree)?;
    let Layers { newest, below, merges, retired } = layers.unwrap_or(Layers::of_newest(tree.root));
    if retired.iter().any(|retired| retired.from.is_none()) {
        return Ok(LayerDuty::Note);
    }
    if let Some(n) = retired.iter().position(|retired| retired.from.is_some_and(&is_unseen)) {
        return Ok(LayerDuty::Free(n));
    }
    let entries = below.len() + merges.len() + retired.len();
    let room = page::entries_max(reader.page_size()).saturating_sub(entries);
    let is_large = leaves_about(reader, &newest_at(tree, newest))? >= limits.leaves;
    let sealed = below.iter().filter(|layer| layer.id == tree.id).count();
    if is_large && below.len() < LAYERS_MAX && sealed < SEALED_MAX && room > ENTRIES_SPARE {
        return Ok(LayerDuty::Seal);
    }
    let unit = (limits.leaves * reader.page_size()) as u64;
    let is_bare = |layer: &Layer| {
        let is_small = layer.bytes <= unit.saturating_mul(FILTERED_MAX);
        layer.filters == PageId::NONE && is_small
    };
    if let Some(layer) = below.iter().find(|layer| is_bare(layer)) {
        return Ok(LayerDuty::Filter(*layer));
    }
    if merges.len() < MERGES_MAX
        && room > 0
        && let Some((first, count)) = to_merge(&below, &merges, unit)
    {
        return Ok(LayerDuty::Begin(first, count));
    }
    let bytes = |merge: &LayerMerge| -> u64 {
        below.get(merge.window()).unwrap_or_default().iter().map(|layer| layer.bytes).sum()
    };
    Ok(match merges.iter().min_by_key(|merge| bytes(merge)) {
        Some(merge) => LayerDuty::Go(*merge),
        None if !retired.is_empty() => LayerDuty::Wait,
        None => LayerDuty::Nothing,
    })
}

/// How many times as large as it should be the newest layer is, about.
pub(in crate::access) fn overdue<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    limits: LayerLimits,
) -> Result<usize> {
    Ok(leaves_about(reader, &super::newest(reader, tree)?)? / limits.leaves.max(1))
}

/// How many leaves a tree has, about: as if all of its pages were as full as some in its middle.
fn leaves_about<R: PageRead>(reader: &R, tree: &Tree<'_>) -> Result<usize> {
    let (mut page, mut leaves) = (tree.root, 1usize);
    for _ in 0..btree::LEVELS_MAX {
        let child = reader.read(page, |bytes| match node::kind(bytes) {
            Some(NodeKind::Inner) => {
                let inner = Inner::new(bytes);
                Some((inner.count() + 1, inner.child(inner.count() / 2)))
            }
            _ => None,
        })?;
        let Some((children, child)) = child else { return Ok(leaves) };
        (page, leaves) = (child, leaves.saturating_mul(children));
    }
    Err(damaged(tree, page, "is deeper below the root than a tree can be"))
}

/// The first layers of like size that are enough to be merged, and are not, with the smaller ones before
/// them: the small ones before the large ones. Layers are the larger the older they are, so what comes before
/// a layer is no larger; a larger one is not merged for the sake of some small ones.
fn to_merge(below: &[Layer], merges: &[LayerMerge], unit: u64) -> Option<(usize, usize)> {
    let is_merged = |n: usize| merges.iter().any(|merge| merge.window().contains(&n));
    // Of as many bytes as the newest has when it is sealed, half as many, or twice: 0; of four times that: 1.
    let class = |n: usize| (below[n].bytes.saturating_mul(2) / unit.max(1)).max(1).ilog(4);
    let highest = (0..below.len()).map(class).max()?;
    for size in 0..=highest {
        let mut first = 0;
        while first < below.len() {
            let fits = |n: &usize| !is_merged(*n) && class(*n) <= size;
            let count = (first..below.len()).take_while(fits).count();
            if (first..first + count).filter(|&n| class(n) == size).count() >= MERGED_MIN {
                let merged = count.min(MERGED_MAX);
                return Some((first + count - merged, merged));
            }
            first += count.max(1);
        }
    }
    None
}

/// Does what is to be done, if it still is: the structure latch is held. `drawn` is what a merge goes on
/// with; `most` how many long values of a page are freed at once, and `is_enough` says of all that is.
pub(in crate::access) fn perform<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    duty: LayerDuty,
    (drawn, most): (&[Drawn], usize),
    is_enough: impl Fn(&W) -> bool,
) -> Result<()> {
    if duty == LayerDuty::Seal {
        return seal(writer, tree);
    }
    let Some(mut layers) = super::layers(writer, tree)? else { return Ok(()) };
    match duty {
        LayerDuty::Nothing | LayerDuty::Wait | LayerDuty::Seal => return Ok(()),
        LayerDuty::Note => {
            // It was made so by this version of the root, or by one before.
            let from = header::born(writer.latched(tree.root)?);
            layers.retired.iter_mut().for_each(|retired| _ = retired.from.get_or_insert(from));
        }
        LayerDuty::Free(n) => free_some(writer, tree, (&mut layers, n), most, is_enough)?,
        LayerDuty::Begin(first, count) => {
            let drops_removals = first + count == layers.below.len();
            let made = new_layer(writer, tree)?;
            layers.merges.push(LayerMerge { first, count, drops_removals, made });
        }
        LayerDuty::Filter(bare) => {
            let Some(layer) = layers.below.iter_mut().find(|layer| **layer == bare) else { return Ok(()) };
            layer.filters = new_filters(writer, tree)?;
            layer.records = drawn.len() as u64;
            append_filters(writer, tree, layer, drawn)?;
        }
        LayerDuty::Go(merge) => {
            let Some(at) = layers.merges.iter().position(|have| *have == merge) else { return Ok(()) };
            if drawn.is_empty() {
                end_merge(&mut layers, at);
            } else {
                append(writer, tree, &mut layers.merges[at].made, drawn)?;
            }
        }
    }
    layers.write(writer.write(tree.root)?, tree.root, tree.id);
    Ok(())
}

/// Forms the root page of a part of a tree, with nothing in it.
pub(super) fn form_part(bytes: &mut [u8], root: PageId, id: TreeId) {
    btree::format_root(bytes, id, root, btree::flags_of(Method::Btree, false));
}

/// Makes a layer with nothing in it.
pub(super) fn new_layer<W: PageWrite>(writer: &mut W, tree: &Tree<'_>) -> Result<Layer> {
    let root = writer.allocate(tree.home.volume)?;
    form_part(writer.write(root)?, root, part_id(root));
    let filters = new_filters(writer, tree)?;
    Ok(Layer { root, id: part_id(root), filters, ..Layer::default() })
}

/// Makes a tree of filters with nothing in it.
fn new_filters<W: PageWrite>(writer: &mut W, tree: &Tree<'_>) -> Result<PageId> {
    let root = writer.allocate(tree.home.volume)?;
    form_part(writer.write(root)?, root, part_id(root));
    Ok(root)
}

/// Has another, empty layer be the newest. Others that have found pages of the one before must be told.
fn seal<W: PageWrite>(writer: &mut W, tree: &Tree<'_>) -> Result<()> {
    let newest = super::newest(writer, tree)?;
    let leaves = leaves_about(writer, &newest)?;
    let mut layers = match super::layers(writer, tree)? {
        Some(layers) => layers,
        None => {
            // It was a B+tree so far: what is in the root moves to a page of its own.
            let moved = writer.allocate(tree.home.volume)?;
            let [root, below] = writer.write_all([tree.root, moved])?;
            below.copy_from_slice(root);
            header::set_page_id(below, moved);
            Layers::of_newest(moved)
        }
    };
    let bytes = (leaves * writer.page_size()) as u64;
    layers.below.insert(0, Layer { root: layers.newest, id: tree.id, bytes, ..Layer::default() });
    layers.merges.iter_mut().for_each(|merge| merge.first += 1);
    layers.newest = writer.allocate(tree.home.volume)?;
    form_part(writer.write(layers.newest)?, layers.newest, tree.id);
    layers.write(writer.write(tree.root)?, tree.root, tree.id);
    Ok(())
}

/// Appends some records to a layer that is being made, and filters of them, and frees what they hide.
fn append<W: PageWrite>(writer: &mut W, tree: &Tree<'_>, made: &mut Layer, drawn: &[Drawn]) -> Result<()> {
    let mut records = begin(writer, made.tree(tree), &drawn[0].key)?;
    for Drawn { key, value, hidden } in drawn {
        records.push_stored(writer, key, value.as_stored())?;
        made.bytes += bytes_of(key, value) as u64;
        hidden.iter().try_for_each(|&(first, len)| long::free(writer, first, len))?;
    }
    records.finish(writer)?;
    made.records += drawn.len() as u64;
    append_filters(writer, tree, made, drawn)
}

/// Appends filters of some records to those of their layer.
fn append_filters<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    layer: &Layer,
    drawn: &[Drawn],
) -> Result<()> {
    let (Some(filters), false) = (layer.filter_tree(tree), drawn.is_empty()) else { return Ok(()) };
    let mut append = begin(writer, filters, &drawn[0].key)?;
    // As many keys for each.
    let parts = drawn.len().div_ceil(filter::keys_max(writer.page_size()));
    for part in drawn.chunks(drawn.len().div_ceil(parts)) {
        let hashes: Vec<FilterHash> = part.iter().map(|drawn| FilterHash::of(&drawn.key)).collect();
        append.push(writer, &part[0].key, &filter::make(&hashes), |_, _, _| Err(filter::too_long()))?;
    }
    append.finish(writer)
}

/// Begins to append to a tree to which nothing else is done.
fn begin<'t, W: PageWrite>(writer: &mut W, tree: Tree<'t>, key: &[u8]) -> Result<Append<'t>> {
    let append = Append::begin(writer, tree, key, usize::MAX)?;
    append.ok_or_else(|| damaged(&tree, tree.root, "has records behind those that come next"))
}

/// Puts what was made in the place of what was merged, which is to be freed.
fn end_merge(layers: &mut Layers, at: usize) {
    let LayerMerge { first, count, made, .. } = layers.merges.remove(at);
    // Nothing may be left, of removals alone.
    let is_empty = made.records == 0;
    let merged = layers.below.splice(first..first + count, (!is_empty).then_some(made));
    layers.retired.extend(merged.chain(is_empty.then_some(made)).map(Retired::new));
    let gone = count - usize::from(!is_empty);
    layers.merges.iter_mut().filter(|merge| merge.first > first).for_each(|merge| merge.first -= gone);
}

/// Frees some pages of one of the trees that were merged, until it is enough. What has long values by then
/// is what was made of it.
pub(super) fn free_some<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    (layers, n): (&mut Layers, usize),
    most: usize,
    is_enough: impl Fn(&W) -> bool,
) -> Result<()> {
    let Some(Retired { layer, .. }) = layers.retired.get_mut(n) else { return Ok(()) };
    if !super::whole::free_some(writer, layer.tree(tree), OwnValues::None, most, is_enough)? {
        match layer.filter_tree(tree) {
            Some(filters) => {
                *layer = Layer { root: filters.root, id: filters.id, ..Layer::default() };
            }
            None => _ = layers.retired.remove(n),
        }
    }
    Ok(())
}

/// Leaves that are freed next of the nth tree that was merged: those with one parent.
pub(in crate::access) fn freed_next<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    n: usize,
) -> Result<Vec<PageId>> {
    let layers = super::layers(reader, tree)?.unwrap_or_default();
    let Some(Retired { layer, .. }) = layers.retired.get(n) else { return Ok(Vec::new()) };
    let mut parent = None;
    btree::find_edge(reader, &layer.tree(tree), true, |step| parent = Some(step.page))?;
    let Some(parent) = parent else { return Ok(Vec::new()) };
    reader.read(parent, |bytes| {
        let inner = Inner::new(bytes);
        (0..=inner.count()).map(|slot| inner.child(slot)).collect()
    })
}

/// Records being drawn from layers that are merged, side by side.
#[derive(Debug)]
pub(crate) struct Drawing {
    of: PageId,
    merged: SideBySide,
    /// The last key that was drawn.
    passed: Option<Vec<u8>>,
    /// How many records what is made has after all that was drawn is appended.
    records: u64,
}

impl Drawing {
    /// Whether it draws what a merge goes on with that has come as far as this.
    pub(crate) fn goes_on_with(&self, merge: &LayerMerge) -> bool {
        (self.of, self.records) == (merge.made.root, merge.made.records)
    }

    /// Begins to draw what a merge goes on with; none if that is another by now, or of other layers.
    pub(crate) fn begin<S: StateSource>(
        tree: &Tree<'_>,
        merge: &LayerMerge,
        source: &S,
    ) -> Result<Option<Drawing>> {
        let layers = super::layers(source, tree)?.unwrap_or_default();
        if !layers.merges.contains(merge) {
            return Ok(None);
        }
        let inputs = layers.below.get(merge.window()).unwrap_or_default();
        Ok(Some(Drawing {
            of: merge.made.root,
            merged: SideBySide::of_layers(inputs).whole(),
            passed: merge.passed(tree, source)?,
            records: merge.made.records,
        }))
    }

    /// Draws all records of a layer that was sealed.
    pub(crate) fn all<S: StateSource>(tree: &Tree<'_>, layer: &Layer, source: &mut S) -> Result<Vec<Drawn>> {
        let (mut merged, mut drawn) = (SideBySide::of_layers(slice::from_ref(layer)), Vec::<Drawn>::new());
        loop {
            let from = drawn.last().map_or(Bound::Unbounded, |drawn| Bound::Excluded(&drawn.key[..]));
            let Some(key) = merged.next(tree, (from, Bound::Unbounded), source, true)? else {
                return Ok(drawn);
            };
            drawn.push(Drawn { key, value: merged.value(true), hidden: Vec::new() });
        }
    }

    /// Draws records for as many bytes, about; none if there are no more.
    pub(crate) fn draw<S: StateSource>(
        &mut self,
        tree: &Tree<'_>,
        merge: &LayerMerge,
        source: &mut S,
        most: usize,
    ) -> Result<Vec<Drawn>> {
        let (mut drawn, mut bytes) = (Vec::new(), 0);
        while bytes < most {
            let from = self.passed.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let Some(key) = self.merged.next(tree, (from, Bound::Unbounded), source, true)? else { break };
            let (value, hidden) =
                (self.merged.value(true), self.merged.hidden(&key, true).collect::<Vec<_>>());
            self.passed.get_or_insert_default().clone_from(&key);
            // What is left out does not count: that nothing is drawn says that there is no more. A removal of
            // what is to be freed stays until the next merge: so the last key that was appended says what was.
            if !(value.is_removed() && merge.drops_removals && hidden.is_empty()) {
                bytes += bytes_of(&key, &value) + hidden.len() * source.page_size();
                drawn.push(Drawn { key, value, hidden });
            }
        }
        self.records += drawn.len() as u64;
        Ok(drawn)
    }
}

/// What a record takes of a page beside key and value, about.
const RECORD_BYTES: usize = 8;
/// What names the pages of a long value.
const PLACE_BYTES: usize = 16;

/// How many bytes a record takes of a page, about.
fn bytes_of(key: &[u8], value: &ScannedValue) -> usize {
    let value_bytes = match value {
        ScannedValue::Bytes(value) => value.len(),
        ScannedValue::Long(..) => PLACE_BYTES,
    };
    key.len() + value_bytes + RECORD_BYTES
}

impl LayerMerge {
    /// The last key that was appended to what is made; none: none was. Long values of keys up to this one are
    /// those of what is made, or freed; of keys behind it, those of the layers that are merged.
    pub(super) fn passed<R: PageRead>(&self, around: &Tree<'_>, reader: &R) -> Result<Option<Vec<u8>>> {
        let last = btree::find_edge(reader, &self.made.tree(around), false, |_| {})?;
        reader.read(last, |bytes| {
            let leaf = node::Leaf::new(bytes);
            leaf.count().checked_sub(1).map(|slot| {
                let mut key = Vec::new();
                leaf.copy_key(slot, &mut key);
                key
            })
        })
    }

    /// Which long values of the layers that are merged are their own.
    pub(super) fn left<R: PageRead>(&self, around: &Tree<'_>, reader: &R) -> Result<OwnValues> {
        Ok(self.passed(around, reader)?.map_or(OwnValues::All, OwnValues::Above))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_of_like_size_are_merged() {
        let picked = |sizes: &[u64], merged: &[(usize, usize)]| {
            let below: Vec<_> = sizes.iter().map(|&bytes| Layer { bytes, ..Layer::default() }).collect();
            let merge = |&(first, count): &(usize, usize)| LayerMerge {
                first,
                count,
                drops_removals: false,
                made: Layer::default(),
            };
            to_merge(&below, &merged.iter().map(merge).collect::<Vec<_>>(), 10)
        };
        assert_eq!(picked(&[], &[]), None);
        assert_eq!(picked(&[10, 10, 10], &[]), None);
        assert_eq!(picked(&[10, 12, 9, 10], &[]), Some((0, 4)));
        // A large one is not rewritten for three small ones.
        assert_eq!(picked(&[10, 10, 10, 5000], &[]), None);
        assert_eq!(picked(&[10, 10, 10, 10, 5000], &[]), Some((0, 4)));
        // With the small ones before those that are enough.
        assert_eq!(picked(&[10, 40, 40, 40, 40, 5000], &[]), Some((0, 5)));
        // While some are merged, those after and before them are.
        assert_eq!(picked(&[10, 10, 10, 10, 10, 40, 40, 40, 40], &[(1, 4)]), Some((5, 4)));
        assert_eq!(picked(&[10, 10, 10, 10, 40, 40, 40, 40], &[(4, 4)]), Some((0, 4)));
        // The oldest of many.
        assert_eq!(picked(&[10; 12], &[]), Some((4, 8)));
    }
}
