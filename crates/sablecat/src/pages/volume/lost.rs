//! A superblock that cannot be read any more, put back from the memory of the processes that wrote it.
//!
//! A participant that makes a checkpoint drafts its superblock in the region, which says besides which
//! generation is durable and in force. If all of them are killed, and both copies of that superblock are
//! damaged, the region has its bytes still: nobody drafts in the berth of the generation in force.
//!
//! The file may be another by then: a copy of some other moment, damaged or not. So a superblock is put back
//! only where one is in [doubt](super::superblock), and only if the file has the map that it names: a block
//! of that very generation or one before, with that checksum, at that place. All that a superblock names was
//! flushed before it was written. What the map leads to has seals, which are looked at as it is read.

use std::path::Path;

use sablecat_os::disk::{AlignedBuf, Disk};

use super::file::Volume;
use super::map::{MapNode, MapPlace};
use super::superblock::{Newest, Superblock};
use crate::crypt::Encryption;
use crate::error::{Error, Result};

impl Superblock {
    /// The superblock of a generation among what was drafted, if that generation is newer than the newest in
    /// a file, and there may have been a newer one there.
    pub(crate) fn lost<B: AsRef<[u8]>>(
        found: &Newest,
        generation: u64,
        mut drafts: impl Iterator<Item = B>,
    ) -> Option<Superblock> {
        if !found.in_doubt || found.superblock.generation >= generation {
            return None;
        }
        drafts.find_map(|draft| {
            let drafted = Superblock::decode(draft.as_ref()).ok()?;
            (drafted.generation == generation && drafted.uuid == found.superblock.uuid).then_some(drafted)
        })
    }
}

impl Volume {
    /// Writes a superblock that was [lost](Superblock::lost) to the file again. Durable when it returns.
    /// Nobody has the volume open.
    ///
    /// # Errors
    /// Invalid, and nothing was written, if the file is not as that superblock says; those of the file: it
    /// may be tried again.
    pub(crate) fn put_back(
        disk: &dyn Disk,
        path: &Path,
        lost: &Superblock,
        encryption: Option<&Encryption>,
    ) -> Result<()> {
        let volume = Volume::join(disk, path, (false, false), encryption)?;
        let another = |why: &str| {
            Error::invalid(format!(
                "{}: it is not as checkpoint {} left it: {why}",
                path.display(),
                lost.generation
            ))
        };
        if (lost.codec, lost.volume_count()) != (volume.superblock().codec, volume.count()) {
            return Err(another("it has other pages, or other volumes"));
        }
        let map = lost.map();
        if let Some(level) = map.height.checked_sub(1) {
            let mut buffer = AlignedBuf::new(volume.block_size());
            MapNode::read(&volume, &map, MapPlace { level, first: 0 }, map.root, &mut buffer)
                .map_err(|error| if error.is_corruption() { another(&error.to_string()) } else { error })?;
        }
        let berth = volume.berths_of_next().next().expect("there are several");
        volume.write_superblock(lost, berth)?;
        volume.sync()?;
        volume.adopt(lost.clone(), berth);
        volume.end_passed_by()
    }
}
