//! The disk itself as a system: overwrite 4 KB and flush, again and again. No synchronous commit can be
//! faster for one thread.
//!
//! The file is written and flushed beforehand, so that overwriting allocates nothing, and it is opened to
//! bypass the system's cache where the file system allows that.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use sablecat_os::disk::{AlignedBuf, Disk, File, HostDisk, How};

use super::loops::{Job, Limit, Tally};
use crate::protocol::Kind;

const BLOCK_BYTES: usize = 4096;
const BLOCKS: u64 = 4096;

/// A file that has been written once.
pub(super) struct Device {
    file: Arc<dyn File>,
}

impl Device {
    pub(super) fn open(dir: &Path) -> Result<Device, String> {
        let prepare = || {
            HostDisk.create_dir_all(dir)?;
            let file = HostDisk
                .open(&dir.join("overwrite"), How { create: true, direct: true, ..How::default() })?;
            let mut megabyte = AlignedBuf::new(1 << 20);
            megabyte.fill(0xA5);
            for offset in (0..BLOCKS * BLOCK_BYTES as u64).step_by(1 << 20) {
                file.write_at(&megabyte, offset)?;
            }
            file.sync()?;
            Ok(Device { file })
        };
        prepare().map_err(|error: std::io::Error| format!("the device probe in {}: {error}", dir.display()))
    }

    /// Overwrites and flushes one block per position.
    pub(super) fn run(&mut self, job: &Job) -> Result<Tally, String> {
        if job.kind != Kind::Write {
            return Err("the device can only be written to".to_owned());
        }
        let mut block = AlignedBuf::new(BLOCK_BYTES);
        let mut tally = Tally::default();
        let start = Instant::now();
        let limit = Limit::new(start, job.seconds_max);
        for position in job.share.clone() {
            block[0] = block[0].wrapping_add(1);
            let offset = position % BLOCKS * BLOCK_BYTES as u64;
            if let Err(error) = self.file.write_at(&block, offset).and_then(|()| self.file.sync()) {
                tally.fail("overwrite", position, error);
            }
            tally.ops += 1;
            if limit.is_reached(tally.ops, 1) {
                break;
            }
        }
        tally.time = Some((start, Instant::now()));
        Ok(tally)
    }
}
