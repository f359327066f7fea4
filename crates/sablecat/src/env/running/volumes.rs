//! Volumes: which records of a database are placed elsewhere, and what there is of each volume.

use std::path::PathBuf;
use std::sync::Arc;

use super::Core;
use crate::access::KeyRule;
use crate::error::{Error, Result};
use crate::pages::Pages;
use crate::pages::first_within;
use crate::pages::volume::MAIN_NAME;
use crate::txn::catalog::CatalogEntry;

/// A volume: a file that holds pages.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VolumeStats {
    /// Its name; `main` is the one in the environment's directory.
    pub name: String,
    /// Where its file is.
    pub path: PathBuf,
    /// Blocks in use, of a page each.
    pub blocks: u64,
    /// Bytes of its file.
    pub bytes: u64,
}

/// Which records of a database go into other volumes than the rest of it; none: none.
///
/// Keys in an order of the user's, or of hashes, have no neighbours by prefix, and stay together.
///
/// # Errors
/// Corruption if the database is in a volume that there is not.
pub(super) fn keys(pages: &Pages, name: &str, entry: &CatalogEntry) -> Result<Option<Arc<[KeyRule]>>> {
    if entry.volume.index() >= pages.volume_count() {
        return Err(Error::corruption(format!(
            "the catalog says that the database {name:?} is in volume {}, which there is not",
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

impl Core {
    /// The volumes, the main one first; none in memory alone.
    pub(crate) fn volumes(&self) -> Result<Vec<VolumeStats>> {
        let Some(volume) = self.kernel.pages.volume() else { return Ok(Vec::new()) };
        let (blocks, placement) = (self.kernel.pages.blocks(), volume.superblock().placement);
        let names =
            std::iter::once(MAIN_NAME).chain(placement.volumes.iter().map(|volume| volume.name.as_str()));
        let volumes =
            blocks.volumes().zip(names).zip(volume.files()?).map(|((number, name), (path, bytes))| {
                VolumeStats {
                    name: name.to_owned(),
                    path: path.to_owned(),
                    blocks: blocks
                        .of(number)
                        .used_count()
                        .saturating_sub(first_within(number, volume.block_size())),
                    bytes,
                }
            });
        Ok(volumes.collect())
    }
}
