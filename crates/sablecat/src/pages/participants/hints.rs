//! Which leaf of a tree was used last: often the next key is in it.
//!
//! A hint is no more than that: whoever uses it checks that the page still is a leaf of that tree and covers
//! the key. With keys in no order that check costs a cache line from memory, that of the leaf's fences, and
//! tells nothing; so a hint that has been wrong several times in a row is not given until two searches have
//! ended in the same leaf.
//!
//! The check cannot tell a leaf from one that it has been replaced by with all that is above it, nor from a
//! page that is being built and has the number of a leaf that is gone (txn/commit/rebuilt.rs). So hints are
//! of states since the last time that either began, are given to who looks at such a state, and are forgotten
//! the next time.

use std::cell::Cell;

use crate::types::{Lsn, PageId, TreeId};

/// Trees whose leaves are remembered, at most.
const HINTS: usize = 8;
/// After so many misses in a row a hint is not given.
const MISSES_MAX: u8 = 8;

/// The leaves that one participant has used last.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    /// They are of states at or above this LSN.
    since: Cell<Lsn>,
    hints: [Cell<Hint>; HINTS],
}

#[derive(Clone, Copy, Debug, Default)]
struct Hint {
    tree: TreeId,
    page: PageId,
    /// How often in a row a search ended in another leaf than the one before.
    misses: u8,
}

impl Hints {
    /// Whether they are good for who looks at `at`, pages having been replaced last at `since`.
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
    }

    /// The leaf of `tree` used last, if it is worth looking at; else no page.
    #[inline]
    pub(crate) fn of(&self, tree: TreeId) -> PageId {
        let hint = self.hints[tree.0 as usize % HINTS].get();
        if hint.tree == tree && hint.misses < MISSES_MAX { hint.page } else { PageId::NONE }
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

    /// The leaf is not what it was.
    #[inline]
    pub(crate) fn forget(&self, tree: TreeId) {
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
