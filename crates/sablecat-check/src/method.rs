//! By which access method the databases are made that the checks work on: for the whole process, and those
//! that it starts.
//!
//! All checks run over any of them, unchanged. What a check may not ask of a method it asks here.

use std::sync::atomic::{AtomicBool, Ordering};

use sablecat::{Builder, Env, Method};

/// Databases are flat lists.
static FLAT: AtomicBool = AtomicBool::new(false);

/// What a command is told to choose by.
const OPTION: &str = "--method";

/// Has all databases made by a method from now on.
pub fn choose(method: Method) {
    FLAT.store(method == Method::Flat, Ordering::SeqCst);
}

/// The method by which databases are made.
pub fn chosen() -> Method {
    if FLAT.load(Ordering::SeqCst) { Method::Flat } else { Method::Btree }
}

/// Takes the choice out of a command's words. None: it is none.
pub fn take_from(words: &mut Vec<String>) -> Option<()> {
    while let Some(at) = words.iter().position(|word| word == OPTION) {
        let taken: Vec<String> = words.drain(at..words.len().min(at + 2)).collect();
        match taken.get(1).map(String::as_str) {
            Some("btree") => choose(Method::Btree),
            Some("flat") => choose(Method::Flat),
            _ => return None,
        }
    }
    Some(())
}

/// The words by which a process that is started chooses the same.
pub fn words() -> [&'static str; 2] {
    [OPTION, if chosen() == Method::Flat { "flat" } else { "btree" }]
}

/// A builder of environments that make databases by the method.
pub fn builder() -> Builder {
    Env::builder().method(chosen())
}

/// Whether keys may be longer than what fits a page.
pub fn nests() -> bool {
    chosen() == Method::Btree
}
