//! A place for tests of shared environments: the files are on a simulated disk, the memory and the locks in
//! directories of the machine's.

use std::path::PathBuf;
use std::sync::Arc;

use sablecat_os::sim::SimDisk;

use crate::env::config::{Config, EnvMode};
use crate::env::opening::Core;
use crate::env::opening::open::open;

/// Removed when dropped.
pub(in crate::env) struct SharedPlace {
    base: PathBuf,
    config: Config,
}

impl SharedPlace {
    /// A place of a test's own, by its name.
    pub(in crate::env) fn new(name: &str, disk: &Arc<SimDisk>) -> SharedPlace {
        let base = std::env::temp_dir().join(format!("sablecat-{name}-{}", std::process::id()));
        for part in ["env", "region"] {
            std::fs::create_dir_all(base.join(part)).unwrap();
        }
        let config = Config {
            disk: Arc::clone(disk) as Arc<dyn sablecat_os::disk::Disk>,
            shared: true,
            region_directory: Some(base.join("region")),
            background: false,
            cache_bytes: Some(0),
            ..Config::default()
        };
        SharedPlace { base, config }
    }

    /// The environment, for one process more.
    pub(in crate::env) fn open(&self) -> Arc<Core> {
        self.open_as(|_| {})
    }

    /// The same, with other settings.
    pub(in crate::env) fn open_as(&self, set: impl FnOnce(&mut Config)) -> Arc<Core> {
        let mut config = self.config.clone();
        set(&mut config);
        open(&self.base.join("env"), config, EnvMode::Transactional).unwrap()
    }
}

impl Drop for SharedPlace {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.base);
    }
}
