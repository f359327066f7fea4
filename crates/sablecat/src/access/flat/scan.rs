//! Moving along the chain, from either end: a copy of one page at a time.

use std::cmp::Ordering;
use std::ops::Bound;

use super::page::Page;
use crate::access::method::Tree;
use crate::access::scan::{PageCopy, Part, ScanSource, ScannedValue, WantedPage};
use crate::access::wrong::damaged;
use crate::error::Result;
use crate::pages::header;

/// One end of a scan: a page, and the record in it at which it stands.
#[derive(Debug, Default)]
struct End {
    copy: PageCopy,
    filled: bool,
    at: usize,
}

/// Both ends of a scan.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    front: End,
    back: End,
}

impl Ends {
    /// The value of the record that one end stands at.
    pub(crate) fn value(&self, forward: bool) -> ScannedValue {
        let end = if forward { &self.front } else { &self.back };
        let (_, stored) = Page::new(end.copy.bytes()).records().nth(end.at).expect("it stands at a record");
        stored.into()
    }

    /// The key of the next record from one end, which then stands at that record; none if no more lie between
    /// the bounds.
    pub(crate) fn next<S: ScanSource>(
        &mut self,
        tree: &Tree<'_>,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        source: &mut S,
        forward: bool,
    ) -> Result<Option<Vec<u8>>> {
        let end = if forward { &mut self.front } else { &mut self.back };
        let part = Part { tree, stems: &[], lower, upper };
        if !end.filled {
            let wanted = match (forward, lower, upper) {
                (true, Bound::Unbounded, _) => WantedPage::First,
                (true, Bound::Included(key) | Bound::Excluded(key), _) => WantedPage::At(key),
                (false, _, Bound::Unbounded) => WantedPage::Last,
                (false, _, Bound::Included(key)) => WantedPage::At(key),
                (false, _, Bound::Excluded(key)) => WantedPage::Before(key),
            };
            source.copy(&part, wanted, &mut end.copy)?;
            end.filled = true;
        }
        loop {
            let page = Page::new(end.copy.bytes());
            let within = page
                .records()
                .enumerate()
                .filter(|(_, (key, _))| tree.above(key, lower) && tree.below(key, upper));
            if let Some((at, key)) = edge_of(within.map(|(at, (key, _))| (at, key.to_vec())), forward) {
                end.at = at;
                return Ok(Some(key));
            }
            let edge = |page: Page<'_>| {
                if forward {
                    page.upper().map(|(upper, _)| upper.to_vec())
                } else {
                    page.lower().map(<[u8]>::to_vec)
                }
            };
            let Some(last) = edge(page) else { return Ok(None) };
            if !(if forward { tree.below(&last, upper) } else { tree.above(&last, lower) }) {
                return Ok(None);
            }
            source.copy(
                &part,
                if forward { WantedPage::At(&last) } else { WantedPage::Before(&last) },
                &mut end.copy,
            )?;
            // Only damage leads back to where the scan came from; it would go round for ever.
            let toward = if forward { Ordering::Greater } else { Ordering::Less };
            if edge(Page::new(end.copy.bytes()))
                .is_some_and(|edge| tree.order.compare(&edge, &last) != toward)
            {
                return Err(damaged(
                    tree,
                    header::page_id(end.copy.bytes()),
                    "leads a scan back to where it came from",
                ));
            }
        }
    }
}

/// The first of some things, or the last.
fn edge_of<T>(mut of: impl Iterator<Item = T>, first: bool) -> Option<T> {
    if first { of.next() } else { of.last() }
}
