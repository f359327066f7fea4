//! Records of a bulk load, which come in order or, if the method has no use for that, with each key once.

use super::method::Order;
use crate::error::{Error, Result};

/// The last of the records that there were, and how many.
#[derive(Clone, Debug, Default)]
pub(crate) struct InOrder {
    last: Option<Vec<u8>>,
    count: u64,
}

impl InOrder {
    /// Whether the next key may follow.
    ///
    /// # Errors
    /// `Invalid` if it is not above the one before.
    #[inline]
    pub(super) fn check(&self, order: Order<'_>, key: &[u8]) -> Result<()> {
        if self.last.as_ref().is_some_and(|last| order.compare(last, key).is_ge()) {
            let count = self.count;
            return Err(Error::invalid(format!(
                "record {count} of a bulk load is not above the one before it; sort the records first"
            )));
        }
        Ok(())
    }

    /// The next key follows.
    #[inline]
    pub(super) fn note(&mut self, key: &[u8]) {
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        self.count += 1;
    }

    /// Takes the next key.
    ///
    /// # Errors
    /// As for [`InOrder::check`].
    pub(crate) fn next(&mut self, order: Order<'_>, key: &[u8]) -> Result<()> {
        self.check(order, key)?;
        self.note(key);
        Ok(())
    }

    /// Takes a key of a load whose records come in any order; it is known whether it is there already.
    ///
    /// # Errors
    /// `Invalid` if it is.
    pub(crate) fn next_of_any(&mut self, is_there: bool) -> Result<()> {
        if is_there {
            let count = self.count;
            return Err(Error::invalid(format!(
                "record {count} of a bulk load has the key of one before it; each key can be there once"
            )));
        }
        self.count += 1;
        Ok(())
    }

    /// The last key; empty before the first.
    pub(super) fn last(&self) -> &[u8] {
        self.last.as_deref().unwrap_or_default()
    }

    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}
