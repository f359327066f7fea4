//! What a program gives for the indices of an environment, by name.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::txn::lapse::{self, BY_EXPIRY};

/// Collects the index keys that an extractor finds in a record.
///
/// ```
/// # fn main() -> sablecat::Result<()> {
/// // An index key for each word.
/// let env = sablecat::Env::builder()
///     .extractor("words", |_key, text, words| {
///         text.split(|&byte| byte == b' ').for_each(|word| words.push(word));
///     })
///     .in_memory()?;
/// # let _ = env;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct IndexKeys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl IndexKeys {
    /// Adds a key by which the record is found. Adding the same key twice is the same as once.
    pub fn push(&mut self, key: impl AsRef<[u8]>) {
        self.bytes.extend_from_slice(key.as_ref());
        self.ends.push(self.bytes.len());
    }

    /// In order, each once.
    pub(in crate::env) fn sorted(&self) -> Vec<&[u8]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        let mut keys: Vec<&[u8]> = begins.zip(&self.ends).map(|(from, &to)| &self.bytes[from..to]).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

type ExtractFn = Box<dyn Fn(&[u8], &[u8], &mut IndexKeys) + Send + Sync>;
type NullifyFn = Box<dyn Fn(&[u8], &[u8], &[u8]) -> Vec<u8> + Send + Sync>;

/// Says which index keys a record has.
pub(crate) struct Extractor(pub(crate) ExtractFn);

/// Says what becomes of a record that referred to a key.
pub(crate) struct Nullifier(pub(crate) NullifyFn);

impl Extractor {
    pub(in crate::env) fn keys(&self, key: &[u8], value: Option<&[u8]>) -> IndexKeys {
        let mut keys = IndexKeys::default();
        if let Some(value) = value {
            (self.0)(key, value, &mut keys);
        }
        keys
    }
}

impl fmt::Debug for Extractor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extractor").finish_non_exhaustive()
    }
}

impl fmt::Debug for Nullifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nullifier").finish_non_exhaustive()
    }
}

/// What a program has given for the indices of an environment, by name.
#[derive(Clone, Debug)]
pub(crate) struct Functions {
    /// The one that the index of records that expire is kept by.
    by_expiry: Arc<Extractor>,
    pub(crate) extractors: HashMap<String, Arc<Extractor>>,
    pub(crate) nullifiers: HashMap<String, Arc<Nullifier>>,
}

impl Default for Functions {
    fn default() -> Functions {
        let by_expiry = |_: &[u8], value: &[u8], keys: &mut IndexKeys| {
            if let Some(expires) = lapse::expires(value).filter(|&expires| expires != 0) {
                keys.push(lapse::index_key(expires));
            }
        };
        Functions {
            by_expiry: Arc::new(Extractor(Box::new(by_expiry))),
            extractors: HashMap::new(),
            nullifiers: HashMap::new(),
        }
    }
}

impl Functions {
    /// # Errors
    /// `Invalid`, and what to do.
    pub(crate) fn extractor(&self, name: &str, index: &str) -> Result<&Arc<Extractor>> {
        if name == BY_EXPIRY {
            return Ok(&self.by_expiry);
        }
        self.extractors.get(name).ok_or_else(|| missing("extractor", name, index))
    }

    pub(crate) fn nullifier(&self, name: &str, index: &str) -> Result<&Arc<Nullifier>> {
        self.nullifiers.get(name).ok_or_else(|| missing("nullifier", name, index))
    }
}

#[cold]
fn missing(what: &str, name: &str, index: &str) -> Error {
    Error::invalid(format!(
        "the index {index:?} is kept by the {what} {name:?}, which only a program can supply, under that \
         name, when it opens the environment (Builder::{what}); without it the records that the index is of \
         can be read, and not written"
    ))
}
