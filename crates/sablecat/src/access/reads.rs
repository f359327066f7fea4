//! What is kept of what was read of a page, and whether that reads the same in another state.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Bound;

use super::method::{Method, Tree};
use super::scan::{self, KeySpan, MayGo, Part, ReadBound, ScanSource};
use super::{Home, PageRead, btree, hash};
use crate::error::Result;

impl Tree<'_> {
    /// What of the keys that a scan looks at are covered by a page, as it is kept of what was read.
    pub(crate) fn covered<'p>(&self, bytes: &'p [u8], part: &Part<'p>) -> (ReadBound<'p>, ReadBound<'p>) {
        if self.method == Method::Hash {
            return hash::covered(bytes, part);
        }
        let (lower, upper) = self.ends_of(bytes);
        let (lower, upper) = part.between(lower, upper);
        (self.bound_read(lower, bytes.len()), self.bound_read(upper, bytes.len()))
    }

    /// The same of all that a page covers, of the subtree that `stems` lead to: that is no hash table.
    pub(crate) fn covered_in_all(&self, stems: &[u8], bytes: &[u8]) -> KeySpan {
        let tree = match stems {
            [] => *self,
            _ => Tree::subtree(self.root, self.method.nested(), Home::MAIN),
        };
        let (lower, upper) = (Bound::Unbounded, Bound::Unbounded);
        let (lower, upper) = tree.covered(bytes, &Part { tree: &tree, stems, lower, upper });
        (lower.map(Cow::into_owned), upper.map(Cow::into_owned))
    }

    /// Whether all that a page covers lies in the part, as far as the ends of both say so.
    #[inline]
    pub(crate) fn is_all_within(&self, bytes: &[u8], part: &Part<'_>) -> bool {
        if let (Bound::Unbounded, Bound::Unbounded) = (part.lower, part.upper) {
            return true;
        }
        let (from, to) = self.ends_of(bytes);
        let begins = part.lower == Bound::Unbounded || from.is_some_and(|from| self.above(from, part.lower));
        begins && (part.upper == Bound::Unbounded || to.is_some_and(|to| self.below(to, part.upper)))
    }

    /// A bound as it is kept of what was read: of a key that is nested, as much as this tree knows of it.
    #[inline]
    pub(crate) fn bound_read<'b>(&self, bound: Bound<&'b [u8]>, page_size: usize) -> ReadBound<'b> {
        match self.method {
            Method::Btree | Method::Counted | Method::Lsm => {
                btree::bound_read(self.order, bound, page_size).map(Cow::Borrowed)
            }
            Method::Hash => hash::bound_read(self, bound, page_size),
            #[cfg(feature = "seam")]
            Method::Flat => bound.map(Cow::Borrowed),
        }
    }

    /// How two bounds are ordered, as they are kept of what was read of one page of it or of a subtree.
    #[inline]
    pub(crate) fn compare_read(&self, one: &[u8], other: &[u8]) -> Ordering {
        match self.method {
            Method::Hash => one.cmp(other),
            _ => self.order.compare(one, other),
        }
    }

    /// Whether what lies between two bounds, as they are kept of what was read, reads the same in two states:
    /// in the tree that `stems` lead to, without what is nested in that. A record of the first state that is
    /// not found in the second may be missing there if `may_go` says so, which is asked of none else.
    pub(crate) fn reads_same<S: ScanSource + PageRead>(
        &self,
        stems: &[u8],
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        states: (&mut S, &mut S),
        may_go: &MayGo<'_>,
    ) -> Result<bool> {
        match self.method {
            Method::Btree | Method::Counted => btree::reads_same(self, stems, bounds, states, may_go),
            Method::Hash => hash::reads_same(self, stems, bounds, states, may_go),
            Method::Lsm => scan::reads_same((self, self), bounds, states, may_go),
            #[cfg(feature = "seam")]
            Method::Flat => scan::reads_same((self, self), bounds, states, may_go),
        }
    }
}
