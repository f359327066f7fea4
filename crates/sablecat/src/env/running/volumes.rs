//! Volumes: which records of a database are placed elsewhere, and what there is of each volume.

use std::path::PathBuf;

use super::Running;
use crate::error::Result;
use crate::pages::first_within;
use crate::pages::volume::{Compression, MAIN_NAME};

/// A volume: a data file, which holds pages.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VolumeStats {
    /// Its name; `main` is the one in the environment's directory.
    pub name: String,
    /// Where its file is.
    pub path: PathBuf,
    /// Blocks in use, of one page each.
    pub blocks: u64,
    /// Bytes of its file.
    pub bytes: u64,
    /// Bytes that the file takes of its file system: fewer if it has holes.
    pub occupied: u64,
    /// How the pages that are written to it from now on are compressed.
    pub compression: Compression,
    /// Whether what is written to it is encrypted: in an encrypted environment everything is, but for the
    /// volumes that were made [without](crate::Builder::volume_unencrypted).
    pub encrypted: bool,
    /// Whether its file system supports holes in files; without them nothing is compressed. Known only if
    /// this process has opened the environment for writing, and the volume is compressed; otherwise true.
    pub makes_holes: bool,
}

impl Running {
    /// The volumes, the main one first; none in memory alone.
    pub(crate) fn volumes(&self) -> Result<Vec<VolumeStats>> {
        let Some(volume) = self.kernel.pages.volume() else { return Ok(Vec::new()) };
        let (blocks, placement) = (self.kernel.pages.blocks(), volume.superblock().placement);
        let names =
            std::iter::once(MAIN_NAME).chain(placement.volumes.iter().map(|volume| volume.name.as_str()));
        let files = volume.files()?.into_iter().zip(volume.holes()?).zip(volume.are_encrypted());
        let volumes = blocks.volumes().zip(names).zip(files).map(
            |((number, name), (((path, bytes), holes), encrypted))| VolumeStats {
                name: name.to_owned(),
                path: path.to_owned(),
                blocks: blocks
                    .of(number)
                    .used_count()
                    .saturating_sub(first_within(number, volume.block_size())),
                bytes,
                occupied: holes.occupied,
                compression: holes.compression,
                encrypted,
                makes_holes: holes.are_made,
            },
        );
        Ok(volumes.collect())
    }
}
