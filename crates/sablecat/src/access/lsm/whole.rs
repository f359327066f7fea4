//! What is done with all layers: freeing, reaching, estimating and verifying them.

use std::collections::HashSet;

use super::page::{Layer, Layers, Retired, newest_at};
use crate::access::btree;
use crate::access::estimate::{Estimate, RecordEstimate};
use crate::access::method::{Shape, Tree};
use crate::access::one_by_one;
use crate::access::scan::{KeyBounds, Scanned};
use crate::access::wrong::damaged;
use crate::access::{PageRead, PageWrite};
use crate::error::Result;
use crate::types::PageId;

/// The B+trees that some layers are, with those of their filters.
fn parts<'l, 't: 'l>(
    tree: &'l Tree<'t>,
    layers: impl IntoIterator<Item = &'l Layer> + 'l,
) -> impl Iterator<Item = Tree<'t>> + 'l {
    let with_filters = |layer: &Layer| std::iter::once(layer.tree(tree)).chain(layer.filter_tree(tree));
    layers.into_iter().flat_map(with_filters)
}

/// The layers below the newest that are whole, and those that are being made.
fn whole_and_made(layers: &Layers) -> impl Iterator<Item = &Layer> {
    layers.below.iter().chain(layers.merges.iter().map(|merge| &merge.made))
}

/// What was merged and is to be freed.
fn retired(layers: &Layers) -> impl Iterator<Item = &Layer> {
    layers.retired.iter().map(|retired| &retired.layer)
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
        // Nothing is merged any more.
        let made = layers.merges.drain(..).map(|merge| merge.made);
        layers.retired.extend(made.chain(layers.below.drain(..)).map(Retired::new));
        match layers.retired.len().checked_sub(1) {
            Some(last) => super::upkeep::free_some(writer, tree, (&mut layers, last), most, |_| true)?,
            None if free_some(writer, &newest_at(tree, layers.newest), most, |_| true)? => {}
            None => {
                super::upkeep::form_part(writer.write(tree.root)?, tree.root, tree.id);
                return Ok(true);
            }
        }
        layers.write(writer.write(tree.root)?, tree.root, tree.id);
        Ok(true)
    }
}

/// Frees some pages of a part of a tree, its root last, until it is enough. False: it is freed.
pub(super) fn free_some<W: PageWrite>(
    writer: &mut W,
    part: &Tree<'_>,
    most: usize,
    is_enough: impl Fn(&W) -> bool,
) -> Result<bool> {
    let mut freeing = btree::Freeing::new(*part);
    while freeing.step(writer, most)? {
        if is_enough(writer) {
            return Ok(true);
        }
    }
    btree::free_root(writer, part)?;
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
    let all = whole_and_made(&layers).chain(retired(&layers));
    parts(tree, all).try_for_each(|part| btree::reach(reader, &part, met))
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
    for part in parts(tree, whole_and_made(&layers)) {
        let one = btree::verify(reader, &part, seen, problem, progress);
        shape.levels = shape.levels.max(one.levels);
        shape.inner_pages += one.inner_pages;
        shape.leaf_pages += one.leaf_pages;
        shape.long_pages += one.long_pages;
    }
    shape.levels += 1;
    shape.inner_pages += 1;
    // These are freed from their beginnings on, and not what trees are any more.
    for part in parts(tree, retired(&layers)) {
        if let Err(error) = btree::reach(reader, &part, &mut |page| seen.insert(page)) {
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
