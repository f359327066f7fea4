//! What is done with a whole chain: loading, freeing, reaching and checking it.

use std::collections::HashSet;

use super::page::{self, Page, PageContent, record_bytes};
use super::{inline_value_bytes_max, is_of_chain, put, walk};
use crate::access::estimate::{Estimate, RecordEstimate, Sum};
use crate::access::method::{Shape, StoredValue, Tree};
use crate::access::wrong::damaged;
use crate::access::{InOrder, KeyBounds, PageRead, PageWrite, long};
use crate::error::Result;
use crate::pages::header;
use crate::types::{PageId, TreeId};

/// A value as it is kept until its page is full.
#[derive(Clone)]
enum KeptValue {
    Inline(Vec<u8>),
    Long(PageId, u64),
}

impl KeptValue {
    fn value(&self) -> StoredValue<'_> {
        match self {
            KeptValue::Inline(value) => StoredValue::Inline(value),
            &KeptValue::Long(first_page, len) => StoredValue::Long { first_page, len },
        }
    }
}

/// A chain being loaded. What is to be in the root is kept until all else is there.
#[derive(Clone)]
pub(crate) struct Load<'t> {
    tree: Tree<'t>,
    page_size: usize,
    /// The page that is being filled, and where it begins.
    page: PageId,
    begins: Option<Vec<u8>>,
    records: Vec<(Vec<u8>, KeptValue)>,
    /// Bytes that they take of it.
    bytes: usize,
    /// The root, once it is full.
    root: Option<Vec<u8>>,
    taken: InOrder,
}

impl<'t> Load<'t> {
    pub(crate) fn new(tree: Tree<'t>, page_size: usize) -> Load<'t> {
        Load {
            tree,
            page_size,
            page: tree.root,
            begins: None,
            records: Vec::new(),
            bytes: 0,
            root: None,
            taken: InOrder::default(),
        }
    }

    pub(crate) fn push<W: PageWrite>(
        &mut self,
        writer: &mut W,
        key: &[u8],
        value: &[u8],
        store: impl FnOnce(&mut W, TreeId, &[u8]) -> Result<PageId>,
    ) -> Result<()> {
        self.taken.next(self.tree.order, key)?;
        let kept = if value.len() > inline_value_bytes_max(self.page_size) {
            KeptValue::Long(store(writer, self.tree.id, value)?, value.len() as u64)
        } else {
            KeptValue::Inline(value.to_vec())
        };
        let bytes = record_bytes(&(key, kept.value()));
        let ends = PageContent {
            lower: self.begins.as_deref(),
            upper: Some((key, PageId::NONE)),
            records: Vec::new(),
        }
        .bytes();
        if ends + self.bytes + bytes > self.page_size {
            let next = writer.allocate(self.tree.home.volume)?;
            // It may be published before it is full.
            PageContent { lower: Some(key), ..PageContent::default() }.write(
                writer.write(next)?,
                next,
                self.tree.id,
            );
            self.finish_page(writer, Some((key, next)))?;
            (self.page, self.begins, self.bytes) = (next, Some(key.to_vec()), 0);
            self.records.clear();
        }
        self.bytes += bytes;
        self.records.push((key.to_vec(), kept));
        Ok(())
    }

    fn finish_page<W: PageWrite>(&mut self, writer: &mut W, upper: Option<(&[u8], PageId)>) -> Result<()> {
        let records = self.records.iter().map(|(key, kept)| (&key[..], kept.value())).collect();
        let content = PageContent { lower: self.begins.as_deref(), upper, records };
        if self.page != self.tree.root {
            return put(writer, &self.tree, self.page, &content);
        }
        let mut root = vec![0; self.page_size];
        content.write(&mut root, self.page, self.tree.id);
        self.root = Some(root);
        Ok(())
    }

    pub(crate) fn finish<W: PageWrite>(mut self, writer: &mut W) -> Result<u64> {
        self.finish_page(writer, None)?;
        if let Some(root) = &self.root {
            writer.write(self.tree.root)?.copy_from_slice(root);
        }
        Ok(self.taken.count())
    }
}

/// A chain being freed: the root's records first, then page by page what comes after it.
pub(crate) struct Freeing<'t> {
    tree: Tree<'t>,
}

impl<'t> Freeing<'t> {
    pub(crate) fn new(tree: Tree<'t>) -> Freeing<'t> {
        Freeing { tree }
    }

    pub(crate) fn step<W: PageWrite>(&mut self, writer: &mut W, most: usize) -> Result<bool> {
        let Tree { id, root, .. } = self.tree;
        if thin_out(writer, &self.tree, root, most)? {
            return Ok(true);
        }
        let Some(first) = writer.read(root, |bytes| Page::new(bytes).next())? else { return Ok(false) };
        if thin_out(writer, &self.tree, first, most)? {
            return Ok(true);
        }
        let old = writer.latched(first)?.to_vec();
        PageContent { upper: Page::new(&old).upper(), ..PageContent::default() }.write(
            writer.write(root)?,
            root,
            id,
        );
        writer.free(first)?;
        Ok(true)
    }
}

/// Frees some long values of a page, and removes its records up to the last of these. False if there are no
/// records.
fn thin_out<W: PageWrite>(writer: &mut W, tree: &Tree<'_>, page: PageId, most: usize) -> Result<bool> {
    let old = writer.latched(page)?.to_vec();
    if !is_of_chain(&old) || header::tree_id(&old) != tree.id {
        return Err(damaged(tree, page, "is no page of its chain"));
    }
    let mut content = Page::new(&old).content();
    if content.records.is_empty() {
        return Ok(false);
    }
    let mut freed = 0;
    let gone = content.records.iter().position(|(_, value)| {
        freed += usize::from(matches!(value, StoredValue::Long { .. }));
        freed > most.max(1)
    });
    for (_, value) in content.records.drain(..gone.unwrap_or(content.records.len())) {
        if let StoredValue::Long { first_page, len } = value {
            long::free(writer, first_page, len)?;
        }
    }
    content.write(writer.write(page)?, page, tree.id);
    Ok(true)
}

/// Frees a root, the only page that is left.
pub(crate) fn free_root<W: PageWrite>(writer: &mut W, tree: &Tree<'_>) -> Result<()> {
    while thin_out(writer, tree, tree.root, usize::MAX)? {}
    writer.free(tree.root)
}

/// The pages that a value says it is in.
fn pages_of(first: PageId, len: u64, page_size: usize) -> impl Iterator<Item = Option<PageId>> {
    (0..long::page_count(len, page_size)).map(move |n| u32::try_from(u64::from(first.0) + n).ok().map(PageId))
}

/// Tells `met` of every page; it says whether that is news.
pub(crate) fn reach<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    met: &mut dyn FnMut(PageId) -> bool,
) -> Result<()> {
    let mut ahead = Some(tree.root);
    while let Some(page) = ahead {
        if !met(page) {
            return Err(damaged(tree, page, "is reached twice"));
        }
        ahead = reader.read(page, |bytes| {
            if header::tree_id(bytes) != tree.id || !is_of_chain(bytes) {
                return Err(damaged(tree, page, "is no page of its chain"));
            }
            for (_, value) in Page::new(bytes).records() {
                let StoredValue::Long { first_page, len } = value else { continue };
                if !pages_of(first_page, len, bytes.len()).all(|part| part.is_some_and(&mut *met)) {
                    return Err(damaged(tree, page, "has a value that is not its own"));
                }
            }
            Ok(Page::new(bytes).next())
        })??;
    }
    Ok(())
}

/// How large a chain is: there are no ways to choose from, so all of it is looked at, as when its last record
/// is looked for.
pub(crate) fn estimate<R: PageRead>(reader: &R, tree: &Tree<'_>) -> Result<Estimate> {
    let of = |page: Page<'_>| {
        let mut sum =
            Sum { pages: 1.0, records: page.records().count() as f64, bytes: page.content().bytes() as f64 };
        for (_, value) in page.records() {
            let StoredValue::Long { len, .. } = value else { continue };
            sum.add(
                Sum {
                    pages: long::page_count(len, reader.page_size()) as f64,
                    records: 0.0,
                    bytes: len as f64,
                },
                1.0,
            );
        }
        sum
    };
    let mut sum = Sum::default();
    let last = walk(reader, tree, |page| {
        sum.add(of(page), 1.0);
        false
    })?;
    sum.add(reader.read(last, |bytes| of(Page::new(bytes)))?, 1.0);
    Ok(Estimate { depth: 1, sum, is_exact: true })
}

/// Walks the chain and tells of whatever is wrong.
pub(crate) fn verify<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    seen: &mut HashSet<PageId>,
    problem: &mut dyn FnMut(String),
    progress: &mut dyn FnMut(u64),
) -> Shape {
    let mut shape = Shape { levels: 1, ..Shape::default() };
    let (mut ahead, mut begins): (_, Option<Vec<u8>>) = (Some(tree.root), None);
    let mut wrong = |page: PageId, why: String| problem(format!("page {page} of tree {}: {why}", tree.id));
    while let Some(page) = ahead.take() {
        if !seen.insert(page) {
            wrong(page, "is reached twice".to_owned());
            break;
        }
        let bytes = match reader.read(page, <[u8]>::to_vec) {
            Ok(bytes) => bytes,
            Err(error) => {
                wrong(page, error.to_string());
                break;
            }
        };
        if header::page_id(&bytes) != page || header::tree_id(&bytes) != tree.id || !is_of_chain(&bytes) {
            wrong(page, "is no page of its chain".to_owned());
            break;
        }
        let this = Page::new(&bytes);
        if let Err(why) = page::check(&bytes).and_then(|()| page::check_order(this, tree.order)) {
            wrong(page, why);
        }
        if this.lower() != begins.as_deref() {
            wrong(page, "does not begin where the page before it ends".to_owned());
        }
        shape.leaf_pages += 1;
        progress(1);
        for (_, value) in this.records() {
            shape.records += 1;
            let StoredValue::Long { first_page, len } = value else { continue };
            for part in pages_of(first_page, len, bytes.len()) {
                let is_new = part.is_some_and(|part| seen.insert(part));
                let is_part = |part| reader.read(part, |bytes| header::kind(bytes) == Some(long::KIND_LONG));
                match part.map(is_part) {
                    Some(Ok(true)) if is_new => shape.long_pages += 1,
                    Some(Err(error)) => {
                        wrong(page, error.to_string());
                        break;
                    }
                    _ => {
                        wrong(page, "has a value whose pages are not its own".to_owned());
                        break;
                    }
                }
            }
        }
        if let Some((upper, next)) = this.upper() {
            (ahead, begins) = (Some(next), Some(upper.to_vec()));
        }
    }
    shape
}

/// How many records there are between two bounds: all are looked at.
pub(crate) fn estimate_range<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    (lower, upper): KeyBounds<'_>,
) -> Result<RecordEstimate> {
    let of = |page: Page<'_>| {
        page.records().filter(|(key, _)| tree.above(key, lower) && tree.below(key, upper)).count()
    };
    let mut number = 0;
    let last = walk(reader, tree, |page| {
        number += of(page);
        false
    })?;
    number += reader.read(last, |bytes| of(Page::new(bytes)))?;
    Ok(RecordEstimate { number: number as f64, is_exact: true })
}
