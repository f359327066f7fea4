//! A flat list of records, in order, in one chain of pages: an access method for tests.
//!
//! It is there to show that nothing above `access` takes the pages of a database for a B+tree: the checks of
//! the engine run over it as they do over that. It is as small as it can be, and as slow: a page is found by
//! going along the chain from the root. Users are not offered it.
//!
//! Each page says from which key to which it holds the records, so that a page found once can be asked
//! whether it still covers a key. Its lower end never changes. A page that has no room is divided in two; one
//! that has become empty is taken out, unless it is the root, which is the first. There are no nested keys.
//!
//! Changing a page in a copy changes the page before it, which leads there, and so all pages up to the root.
//! So a writer that builds beside what there is copies the chain as far as the last key that changes, some
//! pages at a time.

mod page;
mod scan;
mod whole;

pub(super) use page::{KIND, check, inline_value_bytes_max, key_bytes_max};
pub(super) use scan::Ends;
pub(super) use whole::{Freeing, Load, estimate, estimate_range, free_root, reach, verify};

use self::page::{Page, PageContent};
use super::method::{Order, SetOrRemove, StoredValue, Tree, Tried};
use super::scan::WantedPage;
use super::wrong::{damaged, misplaced, unborn};
use super::{CopyWrite, PageRead, PageWrite, long};
use crate::error::{Error, Result};
use crate::pages::header;
use crate::types::{PageId, TreeId};

/// Makes an empty root.
pub(super) fn format(bytes: &mut [u8], tree: TreeId, root: PageId) {
    PageContent::default().write(bytes, root, tree);
}

/// Whether a page is a root as it was made.
pub(super) fn is_as_made(bytes: &[u8]) -> bool {
    is_of_chain(bytes) && Page::new(bytes).next().is_none() && Page::new(bytes).records().next().is_none()
}

fn is_of_chain(bytes: &[u8]) -> bool {
    header::kind(bytes) == Some(KIND)
}

/// Refuses keys that are too long.
pub(super) fn check_key(page_size: usize, key: &[u8]) -> Result<()> {
    let most = key_bytes_max(page_size);
    if key.len() <= most {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a key of {} bytes; keys of this database can have {most} at most",
        key.len()
    )))
}

/// What a page says to a participant that goes along the chain.
enum ChainStep {
    Here,
    Next(PageId, Vec<u8>),
    OfAnother,
    Wrong(&'static str),
}

/// Goes along the chain to the first page that is `wanted`, or else to the last.
fn walk<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    mut wanted: impl FnMut(Page<'_>) -> bool,
) -> Result<PageId> {
    let (mut page, mut begins): (PageId, Option<Vec<u8>>) = (tree.root, None);
    loop {
        let look = |bytes: &[u8]| {
            if header::tree_id(bytes) != tree.id {
                return ChainStep::OfAnother;
            }
            if !is_of_chain(bytes) {
                return ChainStep::Wrong("is no page of a chain");
            }
            let this = Page::new(bytes);
            if this.lower() != begins.as_deref() {
                return ChainStep::Wrong("does not begin where the page before it ends");
            }
            match this.upper() {
                Some((upper, next)) if !wanted(this) => {
                    // Nobody goes in a circle: each page begins above the one before.
                    if this.lower().is_some_and(|lower| tree.order.compare(lower, upper).is_ge()) {
                        return ChainStep::Wrong("ends before it begins");
                    }
                    ChainStep::Next(next, upper.to_vec())
                }
                _ => ChainStep::Here,
            }
        };
        match reader.read(page, look).map_err(|error| unborn(tree, page, error))? {
            ChainStep::Here => return Ok(page),
            ChainStep::Next(next, upper) => (page, begins) = (next, Some(upper)),
            ChainStep::OfAnother => return Err(misplaced(tree, page)),
            ChainStep::Wrong(why) => return Err(damaged(tree, page, why)),
        }
    }
}

/// The page that covers a key.
pub(super) fn find<R: PageRead>(reader: &R, tree: &Tree<'_>, key: &[u8]) -> Result<PageId> {
    wanted(reader, tree, WantedPage::At(key))
}

/// The page that a scan wants.
pub(super) fn wanted<R: PageRead>(reader: &R, tree: &Tree<'_>, wanted: WantedPage<'_>) -> Result<PageId> {
    let ends = |page: Page<'_>, is_far: &dyn Fn(std::cmp::Ordering) -> bool, key: &[u8]| {
        page.upper().is_none_or(|(upper, _)| is_far(tree.order.compare(key, upper)))
    };
    walk(reader, tree, |page| match wanted {
        WantedPage::First | WantedPage::Root => true,
        WantedPage::Last => false,
        WantedPage::At(key) => ends(page, &|order| order.is_lt(), key),
        WantedPage::Before(key) => ends(page, &|order| order.is_le(), key),
        WantedPage::Hash { .. } => unreachable!("its pages are not found by hashes"),
    })
}

/// The ends of a page of any kind, if it is one of a chain.
pub(super) fn ends_of(bytes: &[u8]) -> (Option<&[u8]>, Option<&[u8]>) {
    if !is_of_chain(bytes) {
        return (None, None);
    }
    let page = Page::new(bytes);
    (page.lower(), page.upper().map(|(upper, _)| upper))
}

/// Whether a page of any kind is the one of this tree that covers a key.
pub(super) fn covers(bytes: &[u8], tree: &Tree<'_>, key: &[u8]) -> bool {
    header::tree_id(bytes) == tree.id && is_of_chain(bytes) && Page::new(bytes).covers(key, tree.order)
}

/// The value of a record in the page that covers its key.
pub(super) fn get<'p>(bytes: &'p [u8], key: &[u8], order: Order<'_>) -> Option<StoredValue<'p>> {
    Page::new(bytes).get(key, order)
}

/// Sets or removes a record in its page, if nothing else has to change.
pub(super) fn try_change<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    page: PageId,
    (key, value): SetOrRemove<'_>,
) -> Result<Tried> {
    if value.is_some_and(|value| value.len() > inline_value_bytes_max(writer.page_size())) {
        return Ok(Tried::Structure);
    }
    let old = writer.latched(page)?.to_vec();
    let mut content = Page::new(&old).content();
    match content.set(tree.order, key, value.map(StoredValue::Inline)) {
        Some(StoredValue::Long { .. }) => return Ok(Tried::Structure),
        None if value.is_none() => return Ok(Tried::Missing),
        _ => {}
    }
    let is_empty = content.records.is_empty() && page != tree.root;
    if is_empty || content.bytes() > old.len() {
        return Ok(Tried::Structure);
    }
    content.write(writer.write(page)?, page, tree.id);
    Ok(Tried::Done)
}

/// Sets or removes a record with all that has to change for it.
pub(super) fn change<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    change: SetOrRemove<'_>,
    last: &mut PageId,
    store: impl FnOnce(&mut W, TreeId, &[u8]) -> Result<PageId>,
) -> Result<bool> {
    if *last == PageId::NONE || !covers(writer.latched(*last)?, tree, change.0) {
        *last = find(writer, tree, change.0)?;
    }
    change_page(writer, tree, change, last, store)
}

/// As [`change`], in a tree whose root is a copy. None if so far only pages were copied.
pub(super) fn change_beside<W: CopyWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    change: SetOrRemove<'_>,
    last: &mut PageId,
    store: impl FnOnce(&mut W, TreeId, &[u8]) -> Result<PageId>,
) -> Result<Option<bool>> {
    if *last == PageId::NONE || !writer.read(*last, |bytes| covers(bytes, tree, change.0))? {
        match own(writer, tree, change.0)? {
            Some(page) => *last = page,
            None => return Ok(None),
        }
    }
    change_page(writer, tree, change, last, store).map(Some)
}

/// Makes sure that all pages from the root, which is a copy, to the one for a key are copies, and says which
/// page that is. None if there are more than should be changed at once: some are by now.
fn own<W: CopyWrite>(writer: &mut W, tree: &Tree<'_>, key: &[u8]) -> Result<Option<PageId>> {
    let end = find(writer, tree, key)?;
    let (mut page, mut is_end) = (tree.root, end == tree.root);
    while !is_end {
        let next = writer.read(page, |bytes| Page::new(bytes).next())?;
        let next = next.ok_or_else(|| damaged(tree, page, "does not lead to a page that it led to"))?;
        is_end = next == end;
        if writer.is_own(next)? {
            page = next;
            continue;
        }
        if writer.is_full() {
            return Ok(None);
        }
        let copy = writer.copy(tree, next)?;
        lead_to(writer, tree, page, copy)?;
        page = copy;
    }
    Ok(Some(page))
}

/// Has a page lead to another than it does, which begins at the same key.
fn lead_to<W: PageWrite>(writer: &mut W, tree: &Tree<'_>, page: PageId, next: PageId) -> Result<()> {
    let old = writer.latched(page)?.to_vec();
    let mut content = Page::new(&old).content();
    content.upper = content.upper.map(|(upper, _)| (upper, next));
    content.write(writer.write(page)?, page, tree.id);
    Ok(())
}

/// Sets or removes a record in `last`, the page for its key, which then is none if that changed. The pages of
/// the value before are freed after all else.
fn change_page<W: PageWrite>(
    writer: &mut W,
    tree: &Tree<'_>,
    (key, value): SetOrRemove<'_>,
    last: &mut PageId,
    store: impl FnOnce(&mut W, TreeId, &[u8]) -> Result<PageId>,
) -> Result<bool> {
    let page = *last;
    let old = writer.latched(page)?.to_vec();
    let stored = match value {
        Some(value) if value.len() > inline_value_bytes_max(old.len()) => {
            Some(StoredValue::Long { first_page: store(writer, tree.id, value)?, len: value.len() as u64 })
        }
        value => value.map(StoredValue::Inline),
    };
    let mut content = Page::new(&old).content();
    let before = content.set(tree.order, key, stored);
    if before.is_none() && value.is_none() {
        return Ok(false);
    }
    let is_empty = content.records.is_empty() && page != tree.root;
    if content.bytes() > old.len() {
        *last = PageId::NONE;
        let right = writer.allocate(tree.home.volume)?;
        let (left, second) = content
            .split(old.len(), right)
            .ok_or_else(|| damaged(tree, page, "has records that are too long"))?;
        // The new page first: if a writer in place fails on the way, nothing leads to that page.
        put(writer, tree, right, &second)?;
        put(writer, tree, page, &left)?;
    } else {
        content.write(writer.write(page)?, page, tree.id);
    }
    if let Some(StoredValue::Long { first_page, len }) = before {
        long::free(writer, first_page, len)?;
    }
    if is_empty {
        *last = PageId::NONE;
        take_out(writer, tree, page)?;
    }
    Ok(true)
}

/// Writes a page that got other ends, and has it be where it belongs now.
fn put<W: PageWrite>(writer: &mut W, tree: &Tree<'_>, page: PageId, content: &PageContent<'_>) -> Result<()> {
    content.write(writer.write(page)?, page, tree.id);
    if tree.home.keys.is_empty() {
        return Ok(());
    }
    writer.settle(page, tree.home.of_range(content.lower, content.upper.map(|(upper, _)| upper)))
}

/// Takes an empty page out of the chain, if the one before it can be had and has room for its end.
fn take_out<W: PageWrite>(writer: &mut W, tree: &Tree<'_>, page: PageId) -> Result<()> {
    let before = walk(writer, tree, |this| this.next() == Some(page))?;
    // Pages are latched in key order, and this one comes before what is held already: so no waiting for it.
    if !writer.try_claim(before)? {
        return Ok(());
    }
    let (one, two) = (writer.latched(before)?.to_vec(), writer.latched(page)?.to_vec());
    let mut content = Page::new(&one).content();
    if content.upper.is_none_or(|(_, next)| next != page) {
        return Err(damaged(tree, page, "is not led to by the page before it"));
    }
    content.upper = Page::new(&two).upper();
    if content.bytes() > one.len() {
        return Ok(());
    }
    put(writer, tree, before, &content)?;
    writer.free(page)
}

/// Does everything to a page that passed the check, with this key.
#[cfg(feature = "fuzzing")]
pub(super) fn exercise(bytes: &[u8], key: &[u8]) {
    let page = Page::new(bytes);
    let key = &key[..key.len().min(key_bytes_max(bytes.len()))];
    let _ =
        (page.get(key, Order::Bytes), page.covers(key, Order::Bytes), page::check_order(page, Order::Bytes));
    for value in [None, Some(StoredValue::Inline(b"value"))] {
        let mut content = page.content();
        content.set(Order::Bytes, key, value);
        let mut into = vec![0; bytes.len()];
        if content.bytes() <= bytes.len() {
            content.write(&mut into, PageId(1), TreeId(1));
        } else if let Some((left, right)) = content.split(bytes.len(), PageId(2)) {
            [left, right].iter().for_each(|part| part.write(&mut into, PageId(1), TreeId(1)));
        }
    }
}
