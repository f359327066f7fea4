//! Images of the last checkpoint, made while others work: nobody makes another checkpoint meanwhile, so that
//! no block which this one names is used again. Writers go on; what they log is kept until the next.

use std::path::Path;

use sablecat_os::disk::File;

use super::Store;
use crate::error::{Error, Result};
use crate::pages::participants::LocalParticipant;
use crate::pages::volume::Image;

impl Store {
    /// Copies the last checkpoint into a file, whatever that has so far.
    ///
    /// # Errors
    /// `Invalid` without a volume; those of [`Volume::write_image`](crate::pages::volume::Volume).
    pub(crate) fn write_image(&self, me: &LocalParticipant, to: &dyn File, path: &Path) -> Result<Image> {
        let Some(volume) = &self.volume else {
            return Err(Error::invalid(
                "writing an image of an environment in memory alone, which has no files",
            ));
        };
        let image = self.without_checkpoint(me, || {
            self.fail_if_poisoned()?;
            self.follow_generation(volume)?;
            // What another made it of, that took this one's place and was taken over in turn.
            to.set_len(0).map_err(|e| Error::io("writing", path, e))?;
            volume.write_image(to, path, &mut || self.move_on())
        })?;
        self.region.check_fence()?;
        Ok(image)
    }
}
