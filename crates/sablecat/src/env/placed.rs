//! Which records of a database are placed elsewhere than the rest of it.

use std::sync::Arc;

use crate::access::KeyRule;
use crate::error::{Error, Result};
use crate::pages::Pages;
use crate::txn::catalog::CatalogEntry;

/// Which records of a database go into other volumes than the rest of it; none: none.
///
/// Keys in an order of the user's, or of hashes, have no neighbours by prefix, and stay together.
///
/// # Errors
/// Corruption if the database is in a volume that there is not.
pub(in crate::env) fn keys(
    pages: &Pages,
    name: &str,
    entry: &CatalogEntry,
) -> Result<Option<Arc<[KeyRule]>>> {
    if entry.volume.index() >= pages.volume_count() {
        return Err(Error::corruption(format!(
            "the catalog says that the database {name:?} is in volume {}, which does not exist",
            entry.volume
        )));
    }
    let is_by_bytes = entry.comparator.is_none() && entry.seed.is_none();
    let Some(volume) = pages.volume().filter(|_| is_by_bytes) else { return Ok(None) };
    let placement = volume.superblock().placement;
    let rules: Arc<[KeyRule]> =
        placement.keys_of(name).map(|(prefix, volume)| KeyRule::new(prefix, volume)).collect();
    Ok((!rules.is_empty()).then_some(rules))
}
