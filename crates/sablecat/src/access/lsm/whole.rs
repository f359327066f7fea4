//! What is done with all layers: freeing, reaching, estimating and verifying them.

use std::collections::HashSet;

use super::page::{Layer, LayerMerge, Layers, Retired, newest_at};
use crate::access::btree::{self, OwnValues};
use crate::access::estimate::{Estimate, RecordEstimate};
use crate::access::method::{Shape, Tree};
use crate::access::one_by_one;
use crate::access::scan::{KeyBounds, Scanned};
use crate::access::wrong::damaged;
use crate::access::{PageRead, PageWrite};
use crate::error::Result;
use crate::types::PageId;

/// The B+trees that a layer is: that of its records, of which the long values are to be told, and that of its
/// filters, which have none.
fn parts<'t>(tree: &Tree<'t>, layer: &Layer, own: OwnValues) -> impl Iterator<Item = (Tree<'t>, OwnValues)> {
    let filters = layer.filter_tree(tree).map(|filters| (filters, OwnValues::None));
    std::iter::once((layer.tree(tree), own)).chain(filters)
}

/// The layers below the newest that are whole, and those that are being made.
fn whole_and_made(layers: &Layers) -> impl Iterator<Item = &Layer> {
    layers.below.iter().chain(layers.merges.iter().map(|merge| &merge.made))
}

/// All B+trees of the layers below the newest that are whole or being made, each with its long values.
fn whole_and_made_parts<'t, R: PageRead>(
    reader: &R,
    tree: &Tree<'t>,
    layers: &Layers,
) -> Result<Vec<(Tree<'t>, OwnValues)>> {
    let mut all = Vec::new();
    for (n, layer) in layers.below.iter().enumerate() {
        let merge = layers.merges.iter().find(|merge| merge.window().contains(&n));
        let own = merge.map_or(Ok(OwnValues::All), |merge| merge.left(tree, reader))?;
        all.extend(parts(tree, layer, own));
    }
    all.extend(layers.merges.iter().flat_map(|merge| parts(tree, &merge.made, OwnValues::All)));
    Ok(all)
}

/// The B+trees of what was merged and is to be freed.
fn retired_parts<'l, 't: 'l>(
    tree: &'l Tree<'t>,
    layers: &'l Layers,
) -> impl Iterator<Item = (Tree<'t>, OwnValues)> + 'l {
    layers.retired.iter().flat_map(|retired| parts(tree, &retired.layer, OwnValues::None))
}

/// The layers in which there are records, the newest first: each as a tree.
fn with_records<'t, R: PageRead>(reader: &R, tree: &Tree<'t>) -> Result<Vec<Tree<'t>>> {
    let Layers { newest, below, .. } = super::layers(reader, tree)?.unwrap_or(Layers::of_newest(tree.root));
    let newest = newest_at(tree, newest);
    Ok(std::iter::once(newest).chain(below.iter().map(|layer| layer.tree(tree))).collect())
}

/// A tree being freed: the layers one after the other, the newest last.
pub(crate) struct Freeing<'t> {
    tree: Tree<'t>,
}

impl<'t> Freeing<'t> {
    pub(crate) fn new(tree: Tree<'t>) -> Freeing<'t> {
        Freeing { tree }
    }

    /// Frees some pages. False, with nothing freed, if there is nothing but the root.
    pub(crate) fn step<W: PageWrite>(&mut self, writer: &mut W, most: usize) -> Result<bool> {
        let tree = &self.tree;
        let Some(mut layers) = super::layers(writer, tree)? else {
            return btree::Freeing::new(newest_at(tree, tree.root)).step(writer, most);
        };
        if let Some(last) = layers.retired.len().checked_sub(1) {
            let part = layers.retired[last].layer.tree(tree);
            if !free_some(writer, part, OwnValues::None, most)? {
                super::upkeep::end_part(&mut layers, last);
            }
        } else if let Some(last) = layers.below.len().checked_sub(1) {
            free_some_below(writer, tree, (&mut layers, last), most)?;
        } else if !free_some(writer, newest_at(tree, layers.newest), OwnValues::All, most)? {
            super::upkeep::form_part(writer.write(tree.root)?, tree.root, tree.id);
            return Ok(true);
        }
        layers.write(writer.write(tree.root)?, tree.root, tree.id);
        Ok(true)
    }
}

/// Frees some pages of the oldest layer, which may be one that is being merged: then what was made so far
/// takes its place once all of those are gone.
fn free_some_below<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    (layers, last): (&mut Layers, usize),
    most: usize,
) -> Result<()> {
    let merge = layers.merges.iter().position(|merge| merge.window().contains(&last));
    let own = merge.map_or(Ok(OwnValues::All), |at| layers.merges[at].left(tree, writer))?;
    let layer = layers.below[last];
    if free_some(writer, layer.tree(tree), own, most)? {
        return Ok(());
    }
    layers.below.truncate(last);
    layers.retired.extend(layer.without_records().map(Retired::new));
    let Some(at) = merge else { return Ok(()) };
    layers.merges[at].count -= 1;
    if layers.merges[at].count == 0 {
        let LayerMerge { made, .. } = layers.merges.remove(at);
        layers.below.push(made);
    }
    Ok(())
}

/// Frees some pages of a part of a tree, with its long values, its root last. False: it is freed.
fn free_some<W: PageWrite>(writer: &mut W, part: Tree<'_>, own: OwnValues, most: usize) -> Result<bool> {
    let mut freeing = btree::Freeing::of_owner(part, own);
    if freeing.step(writer, most)? {
        return Ok(true);
    }
    freeing.end(writer)?;
    Ok(false)
}

/// Frees a root, the only page that is left.
pub(crate) fn free_root<W: PageWrite>(writer: &mut W, tree: &Tree<'_>) -> Result<()> {
    btree::free_root(writer, tree)
}

/// Tells `met` of every page; it says whether that is news.
pub(crate) fn reach<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    met: &mut dyn FnMut(PageId) -> bool,
) -> Result<()> {
    let Some(layers) = super::layers(reader, tree)? else {
        return btree::reach(reader, &newest_at(tree, tree.root), met);
    };
    if !met(tree.root) {
        return Err(damaged(tree, tree.root, "is reached twice"));
    }
    btree::reach(reader, &newest_at(tree, layers.newest), met)?;
    let all = whole_and_made_parts(reader, tree, &layers)?.into_iter().chain(retired_parts(tree, &layers));
    all.into_iter().try_for_each(|(part, own)| btree::reach_own(reader, &part, &own, met))
}

/// How large a tree is, about: all layers together, so that what stands in several counts in each.
pub(crate) fn estimate<R: PageRead>(reader: &R, tree: &Tree<'_>, seed: u64) -> Result<Estimate> {
    let mut all = Estimate { is_exact: true, ..Estimate::default() };
    let layers = with_records(reader, tree)?;
    for layer in &layers {
        let one = btree::estimate(reader, layer, seed)?;
        all.depth = all.depth.max(one.depth);
        all.sum.add(one.sum, 1.0);
        all.is_exact &= one.is_exact && layers.len() == 1;
    }
    if layers.len() > 1 {
        // The root, and a page for every few filters.
        all.depth += 1;
        all.sum.pages += 1.0;
    }
    Ok(all)
}

/// How many records there are between two bounds, about, as [`estimate`] counts them.
pub(crate) fn estimate_range<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    bounds: KeyBounds<'_>,
    seed: u64,
) -> Result<RecordEstimate> {
    let mut all = RecordEstimate { number: 0.0, is_exact: true };
    let layers = with_records(reader, tree)?;
    for layer in &layers {
        all.add(btree::estimate_range(reader, layer, bounds, seed)?, 1.0);
        all.is_exact &= layers.len() == 1;
    }
    Ok(all)
}

/// Walks all pages and tells `problem` of whatever is wrong: see [`Tree::verify`].
pub(crate) fn verify<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    seen: &mut HashSet<PageId>,
    problem: &mut dyn FnMut(String),
    progress: &mut dyn FnMut(u64),
) -> Shape {
    let layers = match super::layers(reader, tree) {
        Ok(Some(layers)) => layers,
        Ok(None) => return btree::verify(reader, &newest_at(tree, tree.root), seen, problem, progress),
        Err(error) => {
            problem(error.to_string());
            return Shape::default();
        }
    };
    if !seen.insert(tree.root) {
        problem(format!("page {} of tree {}: is reached twice", tree.root, tree.id));
    }
    let mut shape = btree::verify(reader, &newest_at(tree, layers.newest), seen, problem, progress);
    let parts = whole_and_made_parts(reader, tree, &layers).unwrap_or_else(|error| {
        problem(format!("how far merges have come in tree {}: {error}", tree.id));
        Vec::new()
    });
    for (part, own) in parts {
        let one = btree::verify_own(reader, &part, &own, seen, problem, progress);
        shape.levels = shape.levels.max(one.levels);
        shape.inner_pages += one.inner_pages;
        shape.leaf_pages += one.leaf_pages;
        shape.long_pages += one.long_pages;
    }
    shape.levels += 1;
    shape.inner_pages += 1;
    // These are freed from their beginnings on, and not what trees are any more.
    for (part, own) in retired_parts(tree, &layers) {
        if let Err(error) = btree::reach_own(reader, &part, &own, &mut |page| seen.insert(page)) {
            problem(error.to_string());
        }
    }
    // Those of all layers, each once, and none that was removed.
    let every = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    match one_by_one::count(&mut Scanned(reader), tree, every) {
        Ok(records) => shape.records = records,
        Err(error) => problem(format!("counting the records of tree {}: {error}", tree.id)),
    }
    check_filters(reader, tree, &layers, problem);
    shape
}

/// Tells of records that a layer has and that its filters say it does not have.
fn check_filters<R: PageRead>(reader: &R, tree: &Tree<'_>, layers: &Layers, problem: &mut dyn FnMut(String)) {
    for layer in whole_and_made(layers) {
        let Some(filters) = layer.filter_tree(tree) else { continue };
        match super::filter::first_unknown(reader, tree, layer, &filters) {
            Ok(None) => {}
            Ok(Some(key)) => problem(format!(
                "the filters of the layer at page {} of tree {} do not know its key {}",
                layer.root,
                tree.id,
                key.escape_ascii()
            )),
            Err(error) => problem(format!("the filters of tree {}: {error}", tree.id)),
        }
    }
}
