//! Images of environments that are held in memory.

use super::Env;
use crate::env::ImageReport;
use crate::error::Result;

impl Env {
    /// Writes an image of an environment that is [held in memory](super::Builder::held_in), in place of the
    /// last image: everything that is committed by now, as of a checkpoint. Durable when it returns; until
    /// then, and if it fails, the last image stays as it was. If nothing was committed since the last image,
    /// nothing is written. Others go on reading and writing; checkpoints, and other processes that want to
    /// write an image, wait.
    ///
    /// # Errors
    /// `Invalid` if the environment is not held in memory, or if the existing image is of another
    /// environment, or newer; `DiskFull` if there is no room for the new image beside the existing one, or
    /// none in memory for the checkpoint; `Corruption` if a block of the environment is damaged; `Poisoned`
    /// if its files were removed or replaced; those of [`Env::checkpoint`]; `Io`.
    pub fn flush_image(&self) -> Result<ImageReport> {
        self.core().to_write()?.flush_image()
    }

    /// Checks that the environment can still be used, and that its files are still those that a process would
    /// open by their names: for a program that does nothing until some event, and must be ready for it.
    /// Checks only the names of the files.
    ///
    /// # Errors
    /// `Poisoned` when a write or flush failed, the files were removed or replaced, or other processes took
    /// this one for dead: then the environment must be closed and opened again; `Io`.
    pub fn fail_if_poisoned(&self) -> Result<()> {
        self.core().to_write()?.fail_if_poisoned()
    }
}
