//! By which access method the databases are made that the checks work on: for the whole process, and those
//! that it starts.
//!
//! All checks run over any of them, unchanged. What a check may not ask of a method it asks here, and in what
//! order a method has its records.

use std::cell::Cell;
use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::atomic::{self, AtomicUsize};

use sablecat::{Builder, Env, Method, hash_order};

/// The methods, by what they are called.
const METHODS: [(&str, Method); 5] = [
    ("btree", Method::Btree),
    ("counted", Method::Counted),
    ("flat", Method::Flat),
    ("hash", Method::Hash),
    ("lsm", Method::Lsm),
];

/// Which of them it is.
static CHOSEN: AtomicUsize = AtomicUsize::new(0);

/// What a command is told to choose by.
const OPTION: &str = "--method";

/// What hash tables are made with: so that a seed means the same each time.
const HASH_SEED: [u8; 16] = *b"sixteen of them.";

thread_local! {
    /// Bytes of a page, in what this thread checks.
    static PAGE_BYTES: Cell<usize> = const { Cell::new(4096) };
}

/// Has all databases made by a method from now on.
pub fn choose(method: Method) {
    let at = METHODS.iter().position(|(_, this)| *this == method).expect("one of them");
    CHOSEN.store(at, atomic::Ordering::SeqCst);
}

/// The method by which databases are made.
pub fn chosen() -> Method {
    METHODS[CHOSEN.load(atomic::Ordering::SeqCst)].1
}

/// Takes the choice out of a command's words. None: it is none.
pub fn take_from(words: &mut Vec<String>) -> Option<()> {
    while let Some(at) = words.iter().position(|word| word == OPTION) {
        let taken: Vec<String> = words.drain(at..words.len().min(at + 2)).collect();
        let (_, method) = METHODS.iter().find(|(name, _)| taken.get(1).is_some_and(|word| word == name))?;
        choose(*method);
    }
    Some(())
}

/// The words by which a process that is started chooses the same.
pub fn words() -> [&'static str; 2] {
    [OPTION, METHODS[CHOSEN.load(atomic::Ordering::SeqCst)].0]
}

/// A builder of environments that make databases by the method. Of an LSM tree the newest layer is as small
/// as can be: so few records make many layers.
pub fn builder() -> Builder {
    Env::builder().method(chosen()).hash_seed(HASH_SEED).newest_layer_bytes(0)
}

/// Says how many bytes pages have in what this thread checks from now on.
pub fn set_page_bytes(bytes: usize) {
    PAGE_BYTES.set(bytes);
}

/// Whether keys may be longer than what fits a page.
pub fn nests() -> bool {
    !matches!(chosen(), Method::Flat | Method::Lsm)
}

/// The longest key where the longest that is not nested has so many bytes.
pub fn key_bytes_max(most: usize) -> usize {
    if chosen() == Method::Lsm { most - 1 } else { most }
}

/// Whether keys that begin alike stand together, and so do those of a range.
pub fn has_neighbours() -> bool {
    chosen() != Method::Hash
}

/// How two keys are ordered, where no comparator orders them.
pub fn order(one: &[u8], other: &[u8]) -> Ordering {
    if has_neighbours() { one.cmp(other) } else { hash_order(HASH_SEED, PAGE_BYTES.get(), one, other) }
}

/// Bounds between which all keys from one to below another are found, and perhaps others.
pub fn around(from: &[u8], to: &[u8]) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    if has_neighbours() {
        (Bound::Included(from.to_vec()), Bound::Excluded(to.to_vec()))
    } else {
        (Bound::Unbounded, Bound::Unbounded)
    }
}
