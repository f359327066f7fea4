//! Sealing the newest layer, merging those below it, and freeing what was merged: one step after the other,
//! each of which leaves a whole tree.

use std::ops::{Bound, Range};
use std::slice;

use super::filter::{self, FilterHash};
use super::page::{self, Layer, LayerMerge, Layers, Retired, newest_at, part_id};
use super::scan::SideBySide;
use crate::access::btree::node::{self, Inner, NodeKind};
use crate::access::btree::{self, Append, Freeing, OwnValues, UnseenLeaves};
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
    /// Some of what was merged is to be freed: of this layer.
    Free(Layer),
    /// The newest layer is to be sealed.
    Seal,
    /// So many layers from one on are to be merged.
    Begin(usize, usize),
    /// A merge is to go on.
    Go(LayerMerge),
    /// A layer that was sealed is to have filters.
    Filter(Layer),
}

impl LayerDuty {
    /// The root of what one participant at a time should work on.
    pub(crate) fn part(&self) -> Option<PageId> {
        match self {
            LayerDuty::Free(layer) | LayerDuty::Filter(layer) => Some(layer.root),
            LayerDuty::Go(merge) => Some(merge.made.root),
            LayerDuty::Nothing
            | LayerDuty::Wait
            | LayerDuty::Note
            | LayerDuty::Seal
            | LayerDuty::Begin(..) => None,
        }
    }

    /// Whether it is to be found once more under the structure latch: others may have made it wrong since.
    /// Of all else the duty says by itself whether it still can be done.
    pub(crate) fn is_of_the_moment(&self) -> bool {
        matches!(self, LayerDuty::Seal | LayerDuty::Begin(..) | LayerDuty::Free(..))
    }
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

/// What was drawn for a step, and of which layers.
#[derive(Debug, Default)]
pub(crate) struct DrawnStep {
    records: Vec<Drawn>,
    layers: Vec<Layer>,
    /// A state in which they were these layers.
    at: Lsn,
}

impl DrawnStep {
    /// Nothing was.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Where the long values begin that the step frees.
    pub(crate) fn freed(&self) -> impl Iterator<Item = PageId> {
        self.records.iter().flat_map(|drawn| drawn.hidden.iter().map(|&(first, _)| first))
    }

    /// Whether it was drawn of these layers, and not of others that had the same roots before: a layer's root
    /// does not change.
    fn is_of<R: PageRead>(&self, reader: &R, layers: &[Layer]) -> Result<bool> {
        if self.layers != layers {
            return Ok(false);
        }
        for layer in layers {
            if reader.read(layer.root, header::born)? > self.at {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// What is to be done next to a tree; `is_unseen` says whether no snapshot is left from before a state,
/// `is_taken` whether another [works on a part](LayerDuty::part).
pub(in crate::access) fn duty<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    limits: LayerLimits,
    (is_unseen, is_taken): (impl Fn(Lsn) -> bool, impl Fn(PageId) -> bool),
) -> Result<LayerDuty> {
    let layers = super::layers(reader, tree)?;
    let Layers { newest, below, merges, retired } = layers.unwrap_or(Layers::of_newest(tree.root));
    if retired.iter().any(|retired| retired.from.is_none()) {
        return Ok(LayerDuty::Note);
    }
    let is_to_free =
        |retired: &&Retired| !is_taken(retired.layer.root) && retired.from.is_some_and(&is_unseen);
    if let Some(retired) = retired.iter().find(is_to_free) {
        return Ok(LayerDuty::Free(retired.layer));
    }
    let entries = below.len() + merges.len() + retired.len();
    let room = page::entries_max(reader.page_size()).saturating_sub(entries);
    let is_large = leaves_about(reader, &newest_at(tree, newest))? >= limits.leaves;
    let sealed = below.iter().filter(|layer| layer.id == tree.id).count();
    let is_blocked = below.len() >= LAYERS_MAX || sealed >= SEALED_MAX;
    if is_large && !is_blocked && room > ENTRIES_SPARE {
        return Ok(LayerDuty::Seal);
    }
    let unit = (limits.leaves * reader.page_size()) as u64;
    let is_bare = |layer: &Layer| {
        let is_small = layer.bytes <= unit.saturating_mul(FILTERED_MAX);
        layer.filters == PageId::NONE && is_small
    };
    if let Some(layer) = below.iter().find(|layer| is_bare(layer) && !is_taken(layer.root)) {
        return Ok(LayerDuty::Filter(*layer));
    }
    if merges.len() < MERGES_MAX
        && room > 0
        && let Some((first, count)) = to_merge(&below, &merges, unit, is_blocked)
    {
        return Ok(LayerDuty::Begin(first, count));
    }
    let bytes = |merge: &LayerMerge| -> u64 {
        below.get(merge.window()).unwrap_or_default().iter().map(|layer| layer.bytes).sum()
    };
    let untaken = merges.iter().filter(|merge| !is_taken(merge.made.root));
    Ok(match untaken.min_by_key(|merge| bytes(merge)) {
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

/// The first layers of like size that are enough to be merged, and are not, the small ones before the large
/// ones: layers are the larger the older they are, but for what large commits make. A large one is not merged
/// for the sake of some small ones. If nothing can be sealed before something is merged, those that cost
/// least, unless a merge that costs less is under way.
fn to_merge(below: &[Layer], merges: &[LayerMerge], unit: u64, is_blocked: bool) -> Option<(usize, usize)> {
    let is_merged = |n: usize| merges.iter().any(|merge| merge.window().contains(&n));
    let size = |n: usize| below[n].bytes.max(unit);
    // No larger than twice the mean of some that come to so many bytes.
    let is_alike = |n: usize, count: usize, bytes: u64| size(n) * count as u64 <= 2 * bytes;
    for first in (0..below.len()).filter(|&n| !is_merged(n)) {
        let (mut end, mut bytes) = (first + 1, size(first));
        while end < below.len() && !is_merged(end) && is_alike(end, end - first, bytes) {
            bytes += size(end);
            end += 1;
        }
        let count = end - first;
        if count >= MERGED_MIN && is_alike(first, count - 1, bytes - size(first)) {
            let merged = count.min(MERGED_MAX);
            return Some((end - merged, merged));
        }
    }
    if !is_blocked {
        return None;
    }
    let bytes = |window: Range<usize>| window.map(size).sum::<u64>();
    let windows = (0..(below.len() + 1).saturating_sub(MERGED_MIN)).map(|first| first..first + MERGED_MIN);
    let unmerged = windows.filter(|window| !window.clone().any(is_merged));
    let (cost, first) = unmerged.map(|window| (bytes(window.clone()), window.start)).min()?;
    let is_over_first = merges.iter().all(|merge| cost < bytes(merge.window()));
    is_over_first.then_some((first, MERGED_MIN))
}

/// Does what is to be done, if it still is: the structure latch is held. `step` is what was drawn for it;
/// `most` how many long values of a page are freed at once, and `is_enough` says of all that is.
pub(in crate::access) fn perform<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    duty: LayerDuty,
    (step, most): (&DrawnStep, usize),
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
        LayerDuty::Free(layer) => free_unseen(writer, tree, (&mut layers, layer), most, is_enough)?,
        LayerDuty::Begin(first, count) => {
            let drops_removals = first + count == layers.below.len();
            let made = new_layer(writer, tree)?;
            layers.merges.push(LayerMerge { first, count, drops_removals, made });
        }
        LayerDuty::Filter(bare) => {
            let Some(layer) = layers.below.iter_mut().find(|layer| **layer == bare) else { return Ok(()) };
            if !step.is_of(writer, slice::from_ref(&bare))? {
                return Ok(());
            }
            layer.filters = new_filters(writer, tree)?;
            layer.records = step.records.len() as u64;
            append_filters(writer, tree, layer, &step.records)?;
        }
        LayerDuty::Go(merge) => {
            let Some(at) = layers.merges.iter().position(|have| have.made == merge.made) else {
                return Ok(());
            };
            let merge = layers.merges[at];
            if !step.is_of(writer, layers.below.get(merge.window()).unwrap_or_default())? {
                return Ok(());
            }
            if step.is_empty() {
                end_merge(&mut layers, at);
            } else {
                append(writer, tree, &mut layers.merges[at].made, &step.records)?;
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
    let bytes = (leaves as u64).saturating_mul(writer.page_size() as u64).min(page::SIZE_MAX);
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
        made.bytes = (made.bytes + bytes_of(key, value) as u64).min(page::SIZE_MAX);
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

/// Frees some pages of a layer that was merged, which no snapshot sees, until it is enough. What has long
/// values by then is what was made of it.
fn free_unseen<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    (layers, layer): (&mut Layers, Layer),
    most: usize,
    is_enough: impl Fn(&W) -> bool,
) -> Result<()> {
    let Some(n) = layers.retired.iter().position(|retired| retired.layer == layer) else { return Ok(()) };
    let part = layer.tree(tree);
    while let Some(leaves) = UnseenLeaves::next(writer, &part, most)? {
        leaves.free(writer, &part)?;
        if is_enough(writer) {
            return Ok(());
        }
    }
    Freeing::of_owner(part, OwnValues::None).end(writer)?;
    end_part(layers, n);
    Ok(())
}

/// A part of one of the trees that were merged is freed: its records, or its filters.
pub(super) fn end_part(layers: &mut Layers, n: usize) {
    let retired = &mut layers.retired[n];
    match retired.layer.without_records() {
        Some(filters) => retired.layer = filters,
        None => _ = layers.retired.remove(n),
    }
}

/// Pages that are read as some of a layer that was merged are freed next.
pub(in crate::access) fn freed_next<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    layer: Layer,
    most: usize,
) -> Result<Vec<PageId>> {
    let layers = super::layers(reader, tree)?.unwrap_or_default();
    if !layers.retired.iter().any(|retired| retired.layer == layer) {
        return Ok(Vec::new());
    }
    let leaves = UnseenLeaves::next(reader, &layer.tree(tree), most)?;
    Ok(leaves.iter().flat_map(UnseenLeaves::read).collect())
}

/// Records being drawn from layers that are merged, side by side.
#[derive(Debug)]
pub(crate) struct Drawing {
    of: PageId,
    layers: Vec<Layer>,
    /// The state in which it was begun.
    at: Lsn,
    merged: SideBySide,
    /// The last key that was drawn.
    passed: Option<Vec<u8>>,
    /// How many records what is made has after all that was drawn is appended.
    records: u64,
}

impl Drawing {
    /// Goes on with a merge: by that of these drawings which has come as far, if one has, and no other of the
    /// merge stays. None if the merge is another by now, or of other layers. `at` is the state of `source`.
    pub(crate) fn go_on<S: StateSource>(
        tree: &Tree<'_>,
        merge: &LayerMerge,
        drawings: &mut Vec<Drawing>,
        (source, at): (&S, Lsn),
    ) -> Result<Option<Drawing>> {
        let all = super::layers(source, tree)?.unwrap_or_default();
        drawings.retain(|drawing| all.merges.iter().any(|merge| merge.made.root == drawing.of));
        // Where its layers are may be another place by now.
        let merge = all.merges.iter().find(|have| have.made == merge.made);
        let Some((merge, layers)) = merge.and_then(|merge| Some((merge, all.below.get(merge.window())?)))
        else {
            return Ok(None);
        };
        let LayerMerge { made, .. } = merge;
        let begun = drawings.extract_if(.., |drawing| drawing.of == made.root).last();
        if let Some(drawing) =
            begun.filter(|drawing| (drawing.records, &drawing.layers[..]) == (made.records, layers))
        {
            return Ok(Some(drawing));
        }
        Ok(Some(Drawing {
            of: made.root,
            layers: layers.to_vec(),
            at,
            merged: SideBySide::of_layers(layers).whole(),
            passed: merge.passed(tree, source)?,
            records: made.records,
        }))
    }

    /// Draws all keys of a layer that was sealed. `at` is the state of `source`.
    pub(crate) fn keys<S: StateSource>(
        tree: &Tree<'_>,
        layer: &Layer,
        (source, at): (&mut S, Lsn),
    ) -> Result<DrawnStep> {
        let mut merged = SideBySide::of_layers(slice::from_ref(layer)).whole();
        let mut records = Vec::<Drawn>::new();
        loop {
            let from = records.last().map_or(Bound::Unbounded, |drawn| Bound::Excluded(&drawn.key[..]));
            let Some(key) = merged.next(tree, (from, Bound::Unbounded), source, true)? else {
                return Ok(DrawnStep { records, layers: vec![*layer], at });
            };
            records.push(Drawn { key, value: ScannedValue::Bytes(Vec::new()), hidden: Vec::new() });
        }
    }

    /// Draws records for as many bytes, about; none if there are no more.
    pub(crate) fn draw<S: StateSource>(
        &mut self,
        tree: &Tree<'_>,
        merge: &LayerMerge,
        source: &mut S,
        most: usize,
    ) -> Result<DrawnStep> {
        let (mut records, mut bytes, mut left_out) = (Vec::new(), 0, 0);
        while bytes < most {
            let from = self.passed.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let Some(key) = self.merged.next(tree, (from, Bound::Unbounded), source, true)? else { break };
            let (value, hidden) =
                (self.merged.value(true), self.merged.hidden(&key, true).collect::<Vec<_>>());
            self.passed.get_or_insert_default().clone_from(&key);
            if value.is_removed() && merge.drops_removals && hidden.is_empty() {
                left_out += bytes_of(&key, &value);
                if left_out < LEFT_OUT_TIMES * most {
                    continue;
                }
                // A step comes to an end, and that nothing is drawn says that there is no more: so one in
                // many removals stays until the next merge,
                bytes = most;
            }
            // as does that of what is to be freed: the last key that was appended says what was.
            bytes += bytes_of(&key, &value) + hidden.len() * source.page_size();
            records.push(Drawn { key, value, hidden });
        }
        self.records += records.len() as u64;
        Ok(DrawnStep { records, layers: self.layers.clone(), at: self.at })
    }
}

/// So many times what one step draws are left out of it, at most.
const LEFT_OUT_TIMES: usize = 8;
/// What a record takes of a page beside key and value, about.
const RECORD_BYTES: usize = 8;
/// What names the pages of a long value.
pub(super) const PLACE_BYTES: usize = 16;

/// How many bytes a record takes of a page, about: long values count where they are, and not in layers.
fn bytes_of(key: &[u8], value: &ScannedValue) -> usize {
    match value {
        ScannedValue::Bytes(value) => record_bytes(key.len(), value.len()),
        ScannedValue::Long(..) => record_bytes(key.len(), PLACE_BYTES),
    }
}

/// How many bytes of a page a key takes and what is beside it there, about.
pub(super) fn record_bytes(key: usize, value: usize) -> usize {
    key + value + RECORD_BYTES
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

    fn layers(sizes: &[u64]) -> Vec<Layer> {
        sizes.iter().map(|&bytes| Layer { bytes, ..Layer::default() }).collect()
    }

    #[test]
    fn layers_of_like_size_are_merged() {
        let picked = |sizes: &[u64], merged: &[(usize, usize)], is_blocked| {
            let merge = |&(first, count): &(usize, usize)| LayerMerge {
                first,
                count,
                drops_removals: false,
                made: Layer::default(),
            };
            let merges = merged.iter().map(merge).collect::<Vec<_>>();
            to_merge(&layers(sizes), &merges, 10, is_blocked)
        };
        assert_eq!(picked(&[], &[], false), None);
        assert_eq!(picked(&[10, 10, 10], &[], false), None);
        assert_eq!(picked(&[10, 12, 9, 10], &[], false), Some((0, 4)));
        // A large one is not rewritten for three small ones, on either side.
        assert_eq!(picked(&[10, 10, 10, 5000], &[], false), None);
        assert_eq!(picked(&[5000, 10, 10, 10], &[], false), None);
        assert_eq!(picked(&[10, 10, 10, 10, 5000], &[], false), Some((0, 4)));
        assert_eq!(picked(&[5000, 10, 10, 10, 10], &[], false), Some((1, 4)));
        // The small ones before the large ones, however much they vary.
        assert_eq!(picked(&[10, 10, 10, 10, 40, 40, 40, 40], &[], false), Some((0, 4)));
        assert_eq!(picked(&[49, 22, 28, 43, 32, 28, 33, 90, 241, 309, 2519], &[], false), Some((0, 7)));
        // While some are merged, those after and before them are.
        assert_eq!(picked(&[10, 10, 10, 10, 10, 40, 40, 40, 40], &[(1, 4)], false), Some((5, 4)));
        assert_eq!(picked(&[10, 10, 10, 10, 40, 40, 40, 40], &[(4, 4)], false), Some((0, 4)));
        // The oldest of many.
        assert_eq!(picked(&[10; 12], &[], false), Some((4, 8)));
        // None are alike: the least, if nothing else can be done.
        let unlike = [300, 10, 30, 90, 270, 810, 2430, 7290];
        assert_eq!(picked(&unlike, &[], false), None);
        assert_eq!(picked(&unlike, &[], true), Some((1, 4)));
        // Beside a merge, if it is over sooner.
        assert_eq!(picked(&unlike, &[(4, 4)], true), Some((0, 4)));
        assert_eq!(picked(&unlike, &[(0, 4)], true), None);
    }

    /// Whatever is sealed, there is something to be merged before nothing can be sealed any more; and what is
    /// sealed is rewritten no more often than the logarithm of its number, about.
    #[test]
    fn merging_goes_on_and_comes_to_little() {
        for spread in [1, 2, 4, 30] {
            let (mut below, mut sealed, mut written) = (Vec::<Layer>::new(), 0, 0);
            let mut dice = 1u64;
            for _ in 0..4000 {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let bytes = 10 * (1 + (dice >> 33) % spread);
                sealed += bytes;
                below.insert(0, Layer { bytes, id: TreeId(1), ..Layer::default() });
                let is_blocked = |below: &[Layer]| {
                    let sealed = below.iter().filter(|layer| layer.id == TreeId(1)).count();
                    sealed >= SEALED_MAX || below.len() >= LAYERS_MAX
                };
                while let Some((first, count)) = to_merge(&below, &[], 10, is_blocked(&below)) {
                    let bytes = below[first..first + count].iter().map(|layer| layer.bytes).sum();
                    below.splice(first..first + count, [Layer { bytes, ..Layer::default() }]);
                    written += bytes;
                }
                assert!(!is_blocked(&below));
            }
            let times = written as f64 / sealed as f64;
            assert!(times < 6.0, "{times} times, sizes from 1 to {spread}");
        }
    }
}
