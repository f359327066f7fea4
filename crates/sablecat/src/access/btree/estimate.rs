//! How large a tree is, with its subtrees and long values, from some ways down (access/estimate.rs).
//!
//! What a descent chooses from is the children of an inner page, and the subtrees that a leaf refers to. Of a
//! tree whose root is a leaf, or has few leaves for children, all are looked at, unless subtrees make them
//! many.

use super::node::{self, Leaf, NodeKind};
use super::reach::ReachStep;
use super::{OwnValues, Tree, misplaced, unborn};
use crate::access::estimate::{Chances, DESCENTS, Estimate, RandomDescent, Sum};
use crate::access::{PageRead, long};
use crate::error::Result;
use crate::pages::header;

/// How large a tree is, about.
///
/// # Errors
/// Those of reading, and corruption if pages that were looked at do not form a tree.
pub(crate) fn estimate<R: PageRead>(reader: &R, tree: &Tree<'_>, seed: u64) -> Result<Estimate> {
    let root = ReachStep::root(tree);
    let level = |bytes: &[u8]| {
        if header::tree_id(bytes) == tree.id {
            Ok(node::level(bytes))
        } else {
            Err(misplaced(tree, tree.root))
        }
    };
    let level = reader.read(tree.root, level).map_err(|error| unborn(tree, tree.root, error))??;
    let mut estimate = Estimate { depth: u32::from(level) + 1, ..Estimate::default() };
    let (at_root, below) = look(reader, &root)?;
    if level <= 1
        && below.len() <= DESCENTS
        && let Some(sum) = whole(reader, (at_root, below.clone()))?
    {
        return Ok(Estimate { sum, is_exact: true, ..estimate });
    }
    let mut chances = Chances::new(seed);
    for n in 0..DESCENTS {
        let mut way = RandomDescent::in_part(&mut chances, n);
        let mut times = 1.0 / DESCENTS as f64;
        let mut below = below.clone();
        // It ends: levels become lower, and stems longer up to what keys may have, or the page is an error.
        while !below.is_empty() {
            times *= below.len() as f64;
            let step = below.swap_remove(way.pick(below.len()));
            let here;
            (here, below) = look(reader, &step)?;
            estimate.sum.add(here, times);
        }
    }
    estimate.sum.add(at_root, 1.0);
    Ok(estimate)
}

/// All there is below a root; none if that is more than a few pages.
fn whole<'t, R: PageRead>(
    reader: &R,
    (mut sum, mut ahead): (Sum, Vec<ReachStep<'t>>),
) -> Result<Option<Sum>> {
    let mut looked = 0;
    while let Some(step) = ahead.pop() {
        if looked == 2 * DESCENTS {
            return Ok(None);
        }
        looked += 1;
        let (here, below) = look(reader, &step)?;
        sum.add(here, 1.0);
        ahead.extend(below);
    }
    Ok(Some(sum))
}

/// What a page has, and what is below it.
fn look<'t, R: PageRead>(reader: &R, step: &ReachStep<'t>) -> Result<(Sum, Vec<ReachStep<'t>>)> {
    let look = |bytes: &[u8]| {
        let (mut below, mut long) = (Vec::new(), Sum::default());
        step.look(bytes, &mut below, &OwnValues::All, &mut |_, len| {
            long.add(
                Sum { pages: long::page_count(len, bytes.len()) as f64, records: 0.0, bytes: len as f64 },
                1.0,
            );
            true
        })?;
        // What is below a leaf its references lead to, which are no records.
        let records = if node::kind(bytes) == Some(NodeKind::Leaf) {
            Leaf::new(bytes).count() - below.len()
        } else {
            0
        };
        let mut sum = Sum { pages: 1.0, records: records as f64, bytes: node::used_bytes(bytes) as f64 };
        sum.add(long, 1.0);
        Ok((sum, below))
    };
    reader.read(step.page, look)?
}
