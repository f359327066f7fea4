//! Counting the records of a range: a leaf knows how many it has.

use std::ops::Bound;

use super::node::Leaf;
use super::{Tree, bound_read, damaged, nest, slots_between};
use crate::access::PageCopy;
use crate::access::scan::{KeyBounds, Part, ScanSource, WantedPage};
use crate::error::Result;
use crate::pages::header;

/// How many committed records lie between the bounds. Copies each leaf, and compares keys in those at the
/// bounds alone.
pub(crate) fn count<S: ScanSource>(
    source: &mut S,
    tree: &Tree<'_>,
    (lower, upper): KeyBounds<'_>,
) -> Result<u64> {
    // Subtrees are counted one after the other, however deep they are nested.
    let (mut ahead, mut records) = (vec![(*tree, Vec::new())], 0);
    while let Some((tree, stems)) = ahead.pop() {
        let inside = (nest::inside(lower, &stems), nest::inside(upper, &stems));
        records += count_in(source, &tree, &stems, inside, &mut ahead)?;
    }
    Ok(records)
}

/// Counts the records of one tree, and adds those nested in it to what is ahead.
fn count_in<'t, S: ScanSource>(
    source: &mut S,
    tree: &Tree<'t>,
    stems: &[u8],
    bounds: KeyBounds<'_>,
    ahead: &mut Vec<(Tree<'t>, Vec<u8>)>,
) -> Result<u64> {
    let part = Part { tree, stems, lower: bounds.0, upper: bounds.1 };
    let (mut copy, mut records, mut from) = (PageCopy::default(), 0, None::<Vec<u8>>);
    loop {
        let wanted = match (&from, bounds.0) {
            (Some(from), _) => WantedPage::At(from),
            (None, Bound::Included(key) | Bound::Excluded(key)) => WantedPage::At(key),
            (None, Bound::Unbounded) => WantedPage::First,
        };
        source.copy(&part, wanted, &mut copy)?;
        let bytes = copy.bytes();
        let stem_bytes = nest::stem_bytes(tree.order, bytes.len());
        // As this tree has them: a key that is nested in it as its stem.
        let lower = bound_read(tree.order, bounds.0, bytes.len());
        let upper = bound_read(tree.order, bounds.1, bytes.len());
        let leaf = Leaf::new(bytes);
        let (slots, goes_on) = slots_between(leaf, tree, (lower, upper));
        for (slot, record) in slots.clone().zip(leaf.records(slots.clone())) {
            if leaf.prefix().len() + record.suffix().len() == stem_bytes {
                nest::check_depth(tree, bytes, stems.len() + stem_bytes)?;
                let stems = [stems, leaf.prefix(), record.suffix()].concat();
                ahead.push((nest::subtree_at(tree, bytes, slot)?, stems));
                continue;
            }
            records += 1;
        }
        let Some(next) = leaf.upper_fence().filter(|_| goes_on).map(<[u8]>::to_vec) else {
            return Ok(records);
        };
        // Only damage leads back to where it came from; it would go round for ever.
        if from.as_ref().is_some_and(|from| tree.order.compare(&next, from).is_le()) {
            let page = header::page_id(bytes);
            return Err(damaged(tree, page, "leads back to where a count came from"));
        }
        from = Some(next);
    }
}
