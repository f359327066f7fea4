//! Which files are the environment's own, where somebody else names one to write to.

use std::path::Path;

use super::Running;
use crate::env::files::LOG;
use crate::error::Result;

/// What names begin with that the environment gives to files in its directory.
const OWN: &[u8] = b"sablecat.";

impl Running {
    /// Whether a file with this path has, or would have, the place of one of the environment's own: a volume,
    /// wherever it is, a segment of the log, or what has a name as its files in its directory have.
    ///
    /// # Errors
    /// Those of looking at the volumes.
    pub(crate) fn is_own_file(&self, path: &Path) -> Result<bool> {
        // What cannot be looked at is told by what is done there.
        let id = |path: &Path| self.config.disk.id(path).ok().flatten();
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let (there, around) = (id(path), id(parent.unwrap_or(Path::new("."))));
        let is_named_so = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(OWN));
        let directories = [self.path(), self.directory.as_deref()];
        let is_in_place = around.is_some()
            && directories.into_iter().flatten().any(|directory| {
                is_named_so && id(directory) == around || id(&directory.join(LOG)) == around
            });
        Ok(is_in_place || there.is_some() && self.volumes()?.iter().any(|volume| id(&volume.path) == there))
    }
}
