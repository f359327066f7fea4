//! Helpers that come late: stopped between their last look at the commit role and the pages.

use super::*;
use crate::region::{EntryWord, ListItem};

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// A page that the commit has added may have left memory, and its committer be reading it in, latched as it
/// was in the commit.
#[test]
fn a_late_helper_puts_nothing_in_place_once_more() {
    let store = Store::new(128, 8, Some(volume(1)));
    let pages = &store.kernel.pages;
    (0..400).for_each(|n| store.put(&key(n), &[7; 60]).unwrap());
    let (helper, committer, other) = (store.seat(), store.seat(), store.seat());
    let owner = committer.number();
    drop(committer);
    for n in 400.. {
        // As before a helper reads the list of a commit that is not visible yet.
        let newest = pages.helping(&helper);
        store.put(&key(n), &[7; 60]).unwrap();
        let commit = pages.slot(owner).commit();
        assert!(commit > newest.at());
        let is_added = |item: &ListItem| {
            item.old == FrameId::NONE
                && item.new != FrameId::NONE
                && pages.region.entry(item.page).word() == EntryWord::new(item.new, 0)
        };
        let Some(added) = (0..8).map(|n| pages.slot(owner).item(n)).find(is_added) else { continue };
        let committer = store.seat();
        assert_eq!(committer.number(), owner);
        pages.sweep_all(&other);
        let before = pages.keep_latched(added.page, &committer);
        let latched = pages.region.entry(added.page).word();
        pages.put_in_place(added, commit, owner);
        assert_eq!(pages.region.entry(added.page).word(), latched);
        assert_eq!(before, added.new, "it stays while somebody helps");
        pages.let_go_of(added.page, &committer);
        drop(newest);
        pages.sweep_all(&other);
        assert_eq!(pages.region.entry(added.page).word(), EntryWord::new(FrameId::NONE, 0));
        break;
    }
    drop((helper, other));
    store.assert_nothing_leaks();
}
