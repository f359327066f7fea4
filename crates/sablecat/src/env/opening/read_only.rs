//! Reading the last checkpoint of an environment, for a process that may not write: no lock, no log, a region
//! of its own, and nothing written anywhere (pages/store/follow.rs).

use std::path::Path;
use std::sync::Arc;

use sablecat_os::disk::Disk;

use super::{Core, EnvPlace};
use crate::crypt::Encryption;
use crate::env::config::{Config, EnvMode};
use crate::env::files::{VOLUME, existing_volume};
use crate::env::recovery::recover::RecoveryReport;
use crate::env::recovery::{build_kernel, geometry};
use crate::error::{Error, ErrorKind, Result};
use crate::pages::volume::Volume;
use crate::region::Region;

/// Opens an environment at its last checkpoint.
pub(in crate::env) fn open(directory: &Path, config: Config, mode: EnvMode) -> Result<Arc<Core>> {
    if mode == EnvMode::DataStore {
        return Err(Error::invalid(
            "a Data Store cannot be opened read-only; open the environment with Builder::open to read it",
        ));
    }
    let path = existing_volume(directory, &config)?;
    let volume = Volume::read(&*config.disk, &path, &config.declared, config.encryption.as_ref())?;
    let superblock = volume.superblock();
    if superblock.map_height == 0 {
        return Err(Error::new(
            ErrorKind::NotFound,
            format!(
                "the environment in {} has no checkpoint to read; its creation was never finished",
                directory.display()
            ),
        ));
    }
    let region = Arc::new(Region::private(geometry(&config, superblock.codec, Some(&volume)))?);
    // Without the directory: there is no log.
    let kernel = build_kernel(None, Some(volume), &region, &config, (mode, None))?;
    kernel.pages.catch_up()?;
    let report = RecoveryReport {
        closed: superblock.clean,
        checkpoint: superblock.checkpoint,
        end: superblock.checkpoint,
        ..RecoveryReport::default()
    };
    let place = EnvPlace { directory: Some(directory.to_path_buf()), lock: None, region: None };
    Ok(Core::new(kernel, config, (mode, None), report, place))
}

/// The error if an environment could not be opened to write: if that was not permitted and reading is, it
/// says so.
pub(in crate::env) fn explain(
    error: Error,
    directory: &Path,
    disk: &dyn Disk,
    encryption: Option<&Encryption>,
) -> Error {
    let can_be_read = || Volume::join(disk, &directory.join(VOLUME), (false, true), encryption).is_ok();
    if error.is_not_permitted() && can_be_read() {
        let message = format!("{error}; opened read-only, the environment shows its last checkpoint");
        return Error::new(ErrorKind::ReadOnly, message);
    }
    error
}

impl Core {
    /// The environment, to be changed.
    ///
    /// # Errors
    /// `ReadOnly` if it was opened to be read only.
    #[inline]
    pub(crate) fn to_write(&self) -> Result<&Core> {
        self.check_writable().map(|()| self)
    }
}
