//! Images of environments that are held in memory.

use super::Env;
use crate::env::ImageReport;
use crate::error::Result;

impl Env {
    /// Writes an image of an environment that is [held in memory](super::Builder::held_in), in the place of
    /// the one that is there: everything that is committed by now, as a checkpoint has it. Durable when it
    /// returns; until then, and if it fails, the image before stays as it was. If nothing was committed since
    /// that, nothing is written. Others go on reading and writing; checkpoints, and others who want to write
    /// an image, wait.
    ///
    /// # Errors
    /// `Invalid` if it is not held in memory, or if the image there is of another environment, or newer;
    /// `DiskFull` if there is no room for it beside the one there, or none in memory for the checkpoint;
    /// `Corruption` if a block of the environment is damaged; `Poisoned` if its files were removed or
    /// replaced; those of [`Env::checkpoint`]; `Io`.
    pub fn flush_image(&self) -> Result<ImageReport> {
        self.core().to_write()?.flush_image()
    }

    /// That the environment can be gone on with, and is what who opens it finds: for a program that is there
    /// to be ready for something, and does nothing until then. Costs a look at the names of the files.
    ///
    /// # Errors
    /// `Poisoned` when a write or flush failed, the files were removed or replaced, or others took this
    /// process for dead: then it must be closed, and opened again; `Io`.
    pub fn fail_if_poisoned(&self) -> Result<()> {
        self.core().to_write()?.fail_if_poisoned()
    }
}
