//! Images of an environment that is held in memory.

use super::Upkeep;
use crate::env::files::known;
use crate::error::{Error, Result};
use crate::pages::Moving;
use crate::pages::volume::image;
use crate::types::Lsn;

/// What writing an image did: see [`Env::flush_image`](crate::Env::flush_image).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageReport {
    /// Everything committed at or below this LSN is in the image.
    pub lsn: Lsn,
    /// Bytes that were written; 0 if the existing image has everything already.
    pub bytes: u64,
}

impl Upkeep {
    /// That what is committed from now on can be in a checkpoint, of the files that have the names.
    pub(crate) fn fail_if_poisoned(&self) -> Result<()> {
        let pages = &self.kernel.pages;
        pages.fail_if_fenced()?;
        self.kernel.log.fail_if_poisoned()?;
        pages.fail_if_poisoned()?;
        pages.volume().map_or(Ok(()), |volume| volume.check_names(&*self.config.disk))
    }

    /// Writes an image of all that is committed, in the place of the one that is there. Durable when it
    /// returns; until then the other one stays.
    pub(crate) fn flush_image(&self) -> Result<ImageReport> {
        let (Some(held), Some(volume)) = (&self.config.held, self.kernel.pages.volume()) else {
            return Err(Error::invalid("the environment is not held in memory, so it has no image"));
        };
        let disk = &*self.config.disk;
        // One at a time.
        let _entrance = held.enter(&self.config)?;
        // Others may have loaded the image meanwhile, and committed: this one has nothing of that.
        self.fail_if_poisoned()?;
        // One that is damaged is replaced.
        let there = held.look_at_image(&self.config);
        let there = there.or_else(|error| if error.is_corruption() { Ok(None) } else { Err(error) })?;
        if let Some(there) = &there
            && !known::is_known(disk, &held.memory, there)?
        {
            return Err(Error::invalid(format!(
                "{} was not made from the environment in {}, but from another environment that was loaded \
                 from the same image, on another machine or in another copy of the directory: move it away, \
                 and flush again",
                held.image().display(),
                held.memory.display()
            )));
        }
        if let Some(there) = &there
            && there.checkpoint == self.kernel.pages.newest()
            && volume.has_same_keys(disk, &held.image())?
        {
            return Ok(ImageReport { lsn: there.checkpoint, bytes: 0 });
        }
        let seat = self.kernel.pages.participants.sit()?;
        self.checkpoint_as(&seat, false, Moving::Little)?;
        let (path, unfinished) = (held.image(), image::unfinished(&held.image()));
        // Users that could read that can read this.
        let like = if there.is_some() { &*path } else { volume.path() };
        let write = || {
            let file = image::begin(disk, &unfinished, like)?;
            let image = self.kernel.pages.write_image(&seat, &*file, &unfinished)?;
            file.sync().map_err(|e| Error::io("flushing", &unfinished, e))?;
            if there.as_ref().is_some_and(|there| there.generation > image.superblock.generation) {
                return Err(Error::invalid(format!(
                    "{} is newer than the environment in {}: the files in one of the two were replaced; put \
                     the right ones back",
                    path.display(),
                    held.memory.display()
                )));
            }
            // Files that are put into the place of open ones have images of their own.
            volume.check_names(disk)?;
            let images: Vec<_> = there.iter().chain([&image.superblock]).collect();
            known::know(disk, &held.memory, &images, volume.path())?;
            image::put_in_place(disk, &unfinished, &path)?;
            Ok(ImageReport { lsn: image.superblock.checkpoint, bytes: image.bytes })
        };
        write().inspect_err(|_| _ = disk.remove(&unfinished))
    }
}
