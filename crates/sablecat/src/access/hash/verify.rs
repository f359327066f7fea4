//! Checking a whole table with its subtrees: every invariant that its pages and their places must keep.

use std::collections::HashSet;

use super::bucket::{self, Bucket, HashPrefix};
use super::directory::{self, Child, Directory};
use super::whole::is_reference;
use super::{is_bucket, is_directory};
use crate::access::ahead::Many;
use crate::access::btree::{self, nest};
use crate::access::method::{Order, Shape, StoredValue, Tree};
use crate::access::{PageRead, long};
use crate::pages::{Foresight, header};
use crate::types::PageId;

/// Walks a table and tells `problem` of whatever is wrong, naming page and reason; `seen` collects every page
/// met, to find pages met twice.
pub(crate) fn verify<R: PageRead>(
    reader: &R,
    tree: &Tree<'_>,
    seen: &mut HashSet<PageId>,
    problem: &mut dyn FnMut(String),
    progress: &mut dyn FnMut(u64),
) -> Shape {
    let mut walk = Walk {
        reader,
        tree,
        seen,
        problem,
        progress,
        shape: Shape::default(),
        subtrees: Vec::new(),
        foresight: Foresight::default(),
    };
    walk.page(tree.root, None, 1);
    let Walk { mut shape, subtrees, .. } = walk;
    for subtree in subtrees {
        let below = btree::verify(reader, &subtree, seen, problem, progress);
        if below.records == 0 {
            problem(format!("page {} of tree {}: is a subtree without records", subtree.root, subtree.id));
        }
        shape.inner_pages += below.inner_pages;
        shape.leaf_pages += below.leaf_pages;
        shape.long_pages += below.long_pages;
        shape.records += below.records;
    }
    shape
}

/// What a directory says of a page that it leads to.
#[derive(Clone, Copy)]
struct Expected {
    child: Child,
    /// Which hashes lead there, as far as slots tell: the bits of the first of them, and how many slots.
    first: u64,
    slots: usize,
    /// How many bits a slot stands for.
    level: u8,
}

struct Walk<'a, R> {
    reader: &'a R,
    tree: &'a Tree<'a>,
    seen: &'a mut HashSet<PageId>,
    problem: &'a mut dyn FnMut(String),
    progress: &'a mut dyn FnMut(u64),
    shape: Shape,
    subtrees: Vec<Tree<'static>>,
    foresight: Foresight,
}

impl<R: PageRead> Walk<'_, R> {
    fn wrong(&mut self, page: PageId, why: impl std::fmt::Display) {
        (self.problem)(format!("page {page} of tree {}: {why}", self.tree.id));
    }

    /// Checks a page and what is below it.
    fn page(&mut self, page: PageId, expected: Option<Expected>, depth: u32) {
        if !self.seen.insert(page) {
            return self.wrong(page, "is reached twice");
        }
        let bytes = match self.reader.read(page, <[u8]>::to_vec) {
            Ok(bytes) => bytes,
            Err(error) => return self.wrong(page, error),
        };
        if header::page_id(&bytes) != page {
            self.wrong(page, format!("says it is page {}", header::page_id(&bytes)));
        }
        if header::tree_id(&bytes) != self.tree.id {
            return self.wrong(page, format!("belongs to tree {}", header::tree_id(&bytes)));
        }
        self.shape.levels = self.shape.levels.max(depth);
        if is_directory(&bytes) {
            self.directory(page, &bytes, expected, depth);
        } else if is_bucket(&bytes) {
            self.bucket(page, &bytes, expected);
        } else {
            self.wrong(page, "is neither a directory nor a bucket");
        }
    }

    fn directory(&mut self, page: PageId, bytes: &[u8], expected: Option<Expected>, depth: u32) {
        if let Err(why) = directory::check(bytes) {
            return self.wrong(page, why);
        }
        let directory = Directory::new(bytes);
        let stretch = directory.stretch();
        let is_where_expected = match expected {
            None => stretch.level == 0,
            Some(expected) => {
                expected.child.is_directory
                    && expected.slots == 1
                    && stretch == HashPrefix::around(expected.first, expected.level)
            }
        };
        if !is_where_expected {
            return self.wrong(page, "is a directory for other hashes than those that lead to it");
        }
        self.shape.inner_pages += 1;
        let children: Vec<_> = directory.children().collect();
        let level = stretch.level + directory.bits();
        for (n, &(slot, child)) in children.iter().enumerate() {
            let before = self.reader.waits();
            let end = children.get(n + 1).map_or(directory.count(), |(slot, _)| *slot);
            // A slot's hashes begin with the directory's bits and its number.
            let above = 64 - u32::from(directory.bits());
            let first = stretch.prefix | (slot as u64) << above >> stretch.level;
            self.page(
                child.page,
                Some(Expected { child, first, slots: end - slot, level: level.min(64) }),
                depth + 1,
            );
            let waited = self.reader.waits() != before;
            let behind = |many: Many| {
                let behind = children[n + 1..].iter().filter(|(_, child)| !child.is_directory);
                Ok(behind.skip(many.without).take(many.at_most).map(|(_, child)| child.page).collect())
            };
            // To no avail at worst: what is wrong with a page is told when it is read.
            let _ = self.foresight.came(self.reader, waited, behind);
        }
    }

    fn bucket(&mut self, page: PageId, bytes: &[u8], expected: Option<Expected>) {
        if let Err(why) = bucket::check(bytes) {
            return self.wrong(page, why);
        }
        let bucket = Bucket::new(bytes);
        let stretch = bucket.stretch();
        let is_where_expected = match expected {
            None => stretch.level == 0,
            Some(expected) => {
                let slots = 1usize << (expected.level.saturating_sub(stretch.level)).min(63);
                !expected.child.is_directory
                    && stretch.prefix == expected.first
                    && (stretch.level <= expected.level && slots == expected.slots)
            }
        };
        if !is_where_expected {
            self.wrong(page, "is not the bucket for the hashes that lead to it");
        }
        self.shape.leaf_pages += 1;
        (self.progress)(1);
        let mut keys = HashSet::new();
        for (slot, (key, value)) in bucket.records().enumerate() {
            if let Order::Hashed(table) = self.tree.order {
                let hash = table.hashing.hash(key);
                if !stretch.covers(hash) {
                    self.wrong(page, format!("record {slot} has a hash that the bucket is not for"));
                } else if bucket.find(hash, key) != Some(slot) {
                    self.wrong(page, format!("record {slot} is not found under its tag"));
                }
            }
            if !keys.insert(key) {
                self.wrong(page, format!("record {slot} is there twice"));
            }
            if is_reference(bytes, slot) {
                match nest::subtree(value, self.tree.method.nested()) {
                    Ok(subtree) => self.subtrees.push(subtree),
                    Err(why) => self.wrong(page, format!("{why} (record {slot})")),
                }
                continue;
            }
            self.shape.records += 1;
            if let StoredValue::Long { first_page, len } = value {
                self.long(page, slot, (first_page, len), bytes.len());
            }
        }
    }

    fn long(&mut self, bucket: PageId, slot: usize, (first, len): (PageId, u64), page_size: usize) {
        for n in 0..long::page_count(len, page_size) {
            let Ok(number) = u32::try_from(u64::from(first.0) + n) else {
                return self.wrong(bucket, format!("record {slot} has a value that runs past the last page"));
            };
            let page = PageId(number);
            if !self.seen.insert(page) {
                let why = format!("is reached twice, now from the value of record {slot} of page {bucket}");
                return self.wrong(page, why);
            }
            match self.reader.read(page, |bytes| header::kind(bytes) == Some(long::KIND_LONG)) {
                Ok(true) => self.shape.long_pages += 1,
                Ok(false) => {
                    let why = format!("should hold part of the value of record {slot} of page {bucket}");
                    return self.wrong(page, why);
                }
                Err(error) => return self.wrong(page, error),
            }
        }
    }
}
