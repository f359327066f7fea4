//! Asking for the pages of a write set ahead of its being applied, once these are not in memory.
//!
//! Records are applied in order, and each page that is not in memory is waited for: a transaction of records
//! in many pages waits for one after the other. What leads to these pages is in memory as a rule, so a second
//! walk over the records goes ahead of the first and says which pages they are in.
//!
//! Costs (sketch): a way down to a page's parent a record, some 200 ns, once pages are waited for; until
//! then a comparison a record.

use super::Trees;
use crate::error::Result;
use crate::pages::LocalParticipant;
use crate::txn::catalog::TreeRef;
use crate::txn::pending::RecentIter;
use crate::txn::pending::write_set::PendingRecords;
use crate::types::{Lsn, PageId};

/// Pages are asked for once a record has waited for the first so often,
const WAITS: u32 = 2;
/// and for those of so many records ahead, unless there are too few frames.
const RECORDS: usize = 32;

/// What is asked for of the records of one tree.
pub(super) struct PagesAhead<'a> {
    trees: &'a Trees,
    me: &'a LocalParticipant,
    tree: &'a TreeRef,
    records: &'a PendingRecords,
    /// Those not looked at yet, once pages are asked for.
    behind: Option<RecentIter<'a>>,
    /// How many were looked at and are not applied yet.
    ahead: usize,
    /// The page of the last of these.
    last: PageId,
    /// How often was waited by the time of the last record, and in how many of them since they are counted.
    waits: u32,
    waited: u32,
}

impl<'a> PagesAhead<'a> {
    pub(super) fn new(
        trees: &'a Trees,
        me: &'a LocalParticipant,
        (tree, records): (&'a TreeRef, &'a PendingRecords),
    ) -> PagesAhead<'a> {
        PagesAhead {
            trees,
            me,
            tree,
            records,
            behind: None,
            ahead: 0,
            last: PageId::NONE,
            waits: me.waits(),
            waited: 0,
        }
    }

    /// The record of this key was applied. Pages are looked for at `at`, which the participant has pinned or
    /// guarded.
    #[inline]
    pub(super) fn applied(&mut self, key: &[u8], at: Lsn) {
        if self.behind.is_some() || self.me.waits() != self.waits {
            self.look_ahead(key, at);
        }
    }

    #[cold]
    fn look_ahead(&mut self, key: &[u8], at: Lsn) {
        self.waits = self.me.waits();
        self.waited += 1;
        self.ahead = self.ahead.saturating_sub(1);
        if self.waited < WAITS || self.ahead * 2 > RECORDS {
            return;
        }
        let (trees, tree, me) = (self.trees, self.tree.tree(), self.me);
        let behind = self.behind.get_or_insert_with(|| self.records.iter_after(key));
        let most = RECORDS.min(trees.pages.ahead_max());
        let mut pages = Vec::new();
        while self.ahead < most
            && let Some((key, _)) = behind.next()
        {
            self.ahead += 1;
            if trees.is_nested(&tree, key) {
                continue;
            }
            let find = || -> Result<PageId> {
                trees.pages.operate(me, || tree.led_to(&trees.pages.at_pin(me, at)?, tree.sought(key)))
            };
            // To no avail at worst: what is wrong is told to who applies the record.
            if let Ok(page) = find()
                && page != self.last
            {
                pages.push(page);
                self.last = page;
            }
        }
        if !pages.is_empty() && trees.pages.ask_for(&pages) == 0 {
            // They are in memory, or it would not be worth it: until it has waited as often again.
            *self = PagesAhead::new(trees, me, (self.tree, self.records));
        }
    }
}
