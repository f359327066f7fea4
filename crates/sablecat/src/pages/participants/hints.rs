//! Which leaf of a tree was used last: often the next key is in it.
//!
//! A hint is no more than that: a participant that uses it checks that the page still is a leaf of that tree
//! and covers the key. With keys in no order that check costs a cache line from memory, that of the leaf's
//! fences, and tells nothing; so a hint that has been wrong several times in a row is not given until two
//! searches have ended in the same leaf.
//!
//! The check cannot tell a leaf from one that it has been replaced by with all that is above it, nor from a
//! page that is being built and has the number of a leaf that is gone (txn/commit/rebuilt.rs). So hints are
//! of states since the last time that either began, are given to participants that look at such a state, and
//! are forgotten the next time.

use std::cell::Cell;

use crate::types::{Lsn, PageId, TreeId};

/// Trees whose leaves are remembered, at most.
const HINTS: usize = 8;
/// Leaves of a front, beside what was used last in the tree: a queue is appended to at its other end.
const FRONT: usize = 2;
/// After so many misses in a row a hint is not given.
const MISSES_MAX: u8 = 8;
/// So many changes of a tree are taken for such as the one that was found to change its structure.
const STRUCTURE_BELIEVED: u8 = 32;

/// The leaves that one participant has used last.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    /// They are of states at or above this LSN.
    since: Cell<Lsn>,
    hints: [Cell<Hint>; HINTS],
    near: [[Near; HINTS]; 2],
    front: Cell<Front>,
    of_structure: Cell<(TreeId, u8)>,
}

/// The first leaves of the tree of which records were taken last in the order of their keys.
#[derive(Clone, Copy, Debug, Default)]
struct Front {
    tree: TreeId,
    leaves: [PageId; FRONT],
}

/// Where in its page the key sought last was, and whether keys are sought slot by slot: then the next one is
/// looked for in the slot behind it, and there need be no search. Any tree's may be given to any other's
/// search: what is in the slot is compared with the key.
#[derive(Debug, Default)]
pub(crate) struct Near(Cell<NearSlot>);

/// What a key is sought for: each has an order of its own, also where both are done in turns.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Use {
    Read,
    Change,
}

#[derive(Clone, Copy, Debug, Default)]
struct NearSlot {
    last: u16,
    /// The last came directly behind the one before.
    in_order: bool,
}

impl Near {
    /// The slot in which the next key is likely to be, or to be missing: the one behind the last.
    #[inline(always)]
    pub(crate) fn expected(&self) -> Option<usize> {
        let NearSlot { last, in_order } = self.0.get();
        in_order.then_some(usize::from(last) + 1)
    }

    /// Says where the key was, or was missing.
    #[inline(always)]
    pub(crate) fn found_at(&self, slot: usize) {
        let in_order = slot == usize::from(self.0.get().last) + 1;
        self.0.set(NearSlot { last: slot as u16, in_order });
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Hint {
    tree: TreeId,
    page: PageId,
    /// How often in a row a search ended in another leaf than the one before.
    misses: u8,
}

/// What one end of a scan has asked for ahead of it (access/ahead.rs).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Foresight {
    /// Pages that the scan has come to since it began to wait.
    pub(crate) come_to: u32,
    /// Those asked for last, and those before that it had not come to.
    pub(crate) window: u32,
    /// Those of these that it has not come to now.
    pub(crate) left: u32,
    /// It is known to come to all there are.
    pub(crate) comes_to_all: bool,
}

/// Where a scan was left that may go on, and what it had asked for.
#[derive(Debug, Default)]
pub(crate) struct LeftOff(Cell<(PageId, PageId, Foresight)>);

impl LeftOff {
    /// A scan ends at this page, for now, and would have come to `next`, if that is known, or to no page.
    #[inline]
    pub(crate) fn at(&self, page: PageId, next: PageId, foresight: Foresight) {
        self.0.set((page, next, foresight));
    }

    /// What the scan had asked for that goes on at this page, and whether it had come to that.
    #[inline]
    pub(crate) fn taken_up_at(&self, page: PageId) -> (Foresight, bool) {
        let (left, next, foresight) = self.0.get();
        let is_known = page == left || page == next;
        (if is_known { foresight } else { Foresight::default() }, page == left)
    }
}

impl Hints {
    /// Whether they are good for a participant that looks at `at`, pages having been replaced last at
    /// `since`.
    #[inline]
    pub(crate) fn are_of(&self, at: Lsn, since: Lsn) -> bool {
        if self.since.get() != since {
            self.forget_before(since);
        }
        at >= since
    }

    #[cold]
    fn forget_before(&self, since: Lsn) {
        self.since.set(since);
        self.hints.iter().for_each(|hint| hint.set(Hint::default()));
        self.front.take();
    }

    /// The leaf of `tree` used last, if it is worth looking at; else no page.
    #[inline]
    pub(crate) fn of(&self, tree: TreeId) -> PageId {
        let hint = self.hints[tree.0 as usize % HINTS].get();
        if hint.tree == tree && hint.misses < MISSES_MAX { hint.page } else { PageId::NONE }
    }

    /// Where in its leaf the key of `tree` was that was last read or changed.
    #[inline]
    pub(crate) fn near(&self, tree: TreeId, by: Use) -> &Near {
        &self.near[by as usize][tree.0 as usize % HINTS]
    }

    /// Remembers the leaf that a search from the root ended in, because there was no hint or it was wrong.
    #[inline]
    pub(crate) fn remember(&self, tree: TreeId, page: PageId) {
        let hint = &self.hints[tree.0 as usize % HINTS];
        let before = hint.get();
        let misses =
            if before.tree == tree && before.page != page { before.misses.saturating_add(1) } else { 0 };
        hint.set(Hint { tree, page, misses });
    }

    /// The nth leaf from the front of a tree from which records are taken; no page if that is not known.
    #[inline]
    pub(crate) fn front(&self, tree: TreeId, n: usize) -> PageId {
        let front = self.front.get();
        if front.tree == tree { front.leaves.get(n).copied().unwrap_or_default() } else { PageId::NONE }
    }

    /// Remembers that leaf, if it is one of the first few.
    pub(crate) fn remember_front(&self, tree: TreeId, n: usize, page: PageId) {
        let mut front = self.front.get();
        if front.tree != tree {
            front = Front { tree, ..Front::default() };
        }
        if let Some(leaf) = front.leaves.get_mut(n) {
            *leaf = page;
        }
        self.front.set(front);
    }

    /// A change of `tree` was found to be one of structure, in vain: those that follow may be as well.
    pub(crate) fn was_of_structure(&self, tree: TreeId) {
        self.of_structure.set((tree, STRUCTURE_BELIEVED));
    }

    /// Whether the next change of `tree` is likely to be one of structure: for so many, until that is found
    /// out anew.
    #[inline]
    pub(crate) fn is_likely_of_structure(&self, tree: TreeId) -> bool {
        let (of, left) = self.of_structure.get();
        let is_likely = of == tree && left > 0;
        if is_likely {
            self.of_structure.set((tree, left - 1));
        }
        is_likely
    }

    /// The leaf is not what it was.
    #[inline]
    pub(crate) fn forget(&self, tree: TreeId) {
        if self.front.get().tree == tree {
            self.front.take();
        }
        let hint = &self.hints[tree.0 as usize % HINTS];
        if hint.get().tree == tree {
            hint.set(Hint::default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: TreeId = TreeId(3);

    #[test]
    fn a_hint_is_given_while_it_is_right_now_and_then() {
        let hints = Hints::default();
        assert_eq!(hints.of(TREE), PageId::NONE);
        for page in (1..100).map(PageId) {
            // A leaf's first key is found from the root, the others by the hint; unless that was wrong too
            // often, for once.
            hints.remember(TREE, page);
            if hints.of(TREE) == PageId::NONE {
                hints.remember(TREE, page);
            }
            assert_eq!(hints.of(TREE), page);
            assert_eq!(hints.of(TreeId(3 + HINTS as u32)), PageId::NONE, "of another tree");
        }
        hints.forget(TREE);
        assert_eq!(hints.of(TREE), PageId::NONE);
    }

    #[test]
    fn what_was_of_structure_is_believed_to_be_for_some_time() {
        let hints = Hints::default();
        assert!(!hints.is_likely_of_structure(TREE));
        for _ in 0..3 {
            hints.was_of_structure(TREE);
            assert!(!hints.is_likely_of_structure(TreeId(3 + HINTS as u32)), "of another tree");
            let believed = (0..1000).take_while(|_| hints.is_likely_of_structure(TREE)).count();
            assert_eq!(believed, usize::from(STRUCTURE_BELIEVED));
        }
    }

    #[test]
    fn a_hint_that_is_always_wrong_is_not_given_until_a_leaf_comes_twice() {
        let hints = Hints::default();
        let given = (1..1000).map(PageId).filter(|&page| {
            hints.remember(TREE, page);
            hints.of(TREE) != PageId::NONE
        });
        assert_eq!(given.count(), usize::from(MISSES_MAX));
        hints.remember(TREE, PageId(999));
        assert_eq!(hints.of(TREE), PageId(999));
    }
}
