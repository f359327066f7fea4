//! The guard: what stands between an environment and its files.
//!
//! Somebody may cut short the file of a region that is in use. Who finds that goes on with zeros for what is
//! missing, until it comes to where it looks at its fence (sablecat-os, `truncation`). Blocks that count as
//! free by a bitmap of zeros are not, and a superblock of zeros says nothing: so from the first zero on,
//! which comes after the fence, nothing is changed in any file.

use std::sync::{Arc, OnceLock};

use sablecat_os::disk::Disk;
use sablecat_os::disk::between::{Between, Call, Judge, Verdict};
use sablecat_os::truncation::MemoryGone;

use super::Region;

/// The guard of one environment, which is told of its region once there is one.
#[derive(Debug, Default)]
pub(crate) struct Guard(OnceLock<Arc<Region>>);

impl Guard {
    /// A guard before a disk, which takes the place of that.
    pub(crate) fn before(disk: &mut Arc<dyn Disk>) -> Arc<Guard> {
        let guard = Arc::new(Guard::default());
        *disk = Arc::new(Between::over(Arc::clone(disk), Arc::<Guard>::clone(&guard)));
        guard
    }

    /// From now on nothing is changed once this region is cut short.
    pub(crate) fn watch(&self, region: &Arc<Region>) {
        let _ = self.0.set(Arc::clone(region));
    }
}

impl Judge for Guard {
    fn judge(&self, call: Call) -> Verdict {
        // A store would take less time than a look.
        let is_cut_short =
            |region: &Region| region.is_cut_short() || call != Call::Store && region.look_whether_cut_short();
        match self.0.get() {
            Some(region) if call.changes() && is_cut_short(region) => Verdict::Fail(MemoryGone.into()),
            _ => Verdict::Make,
        }
    }
}
