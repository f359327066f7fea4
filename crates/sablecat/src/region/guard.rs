//! The guard: what stands between an environment and its files.
//!
//! Somebody may cut short the file of a region that is in use. A process that finds that goes on with zeros
//! for what is missing, until it comes to where it looks at its fence (sablecat-os, `truncation`). Blocks
//! that count as free by a bitmap of zeros are not, and a superblock of zeros says nothing: so from the first
//! zero on, which comes after the fence, nothing is changed in any file.

use std::sync::{Arc, OnceLock, Weak};

use sablecat_os::atomic::{AtomicU64, Ordering, fence};
use sablecat_os::disk::Disk;
use sablecat_os::disk::between::{Between, Call, Judge, Verdict};
use sablecat_os::truncation::{self, MemoryGone};

use super::Region;

/// The guard of one environment, which is told of its region once there is one. It does not keep that: with
/// the region goes the lock that says that the process is a member.
#[derive(Debug, Default)]
pub(crate) struct DiskGuard {
    region: OnceLock<Weak<Region>>,
    /// Calls that are being made and change a file, stores aside.
    changing: AtomicU64,
}

impl DiskGuard {
    /// A guard before a disk, which takes the place of that.
    pub(crate) fn before(disk: &mut Arc<dyn Disk>) -> Arc<DiskGuard> {
        let guard = Arc::new(DiskGuard::default());
        *disk = Arc::new(Between::over(Arc::clone(disk), Arc::<DiskGuard>::clone(&guard)));
        guard
    }

    /// From now on nothing is changed once this region is cut short.
    pub(crate) fn watch(self: &Arc<DiskGuard>, region: &Arc<Region>) {
        let _ = self.region.set(Arc::downgrade(region));
        let _ = region.guard.set(Arc::clone(self));
    }

    /// Whether no call that changes a file is being made that began before the region was found to be cut
    /// short.
    pub(super) fn is_idle(&self) -> bool {
        // SeqCst: in one order with what is said of that, which came before, and the look in `judge`.
        self.changing.load(Ordering::SeqCst) == 0
    }

    /// Whether a call changes a file or a name, stores aside: what a flush makes durable is there already.
    fn counts(call: Call) -> bool {
        matches!(call, Call::Make | Call::Write | Call::Grow | Call::Rename | Call::Remove)
    }
}

impl Judge for DiskGuard {
    fn judge(&self, call: Call) -> Verdict {
        if DiskGuard::counts(call) {
            self.changing.fetch_add(1, Ordering::SeqCst);
            fence(Ordering::SeqCst);
        } else if call != Call::Store || !truncation::ever_happened() {
            // A store takes less time than a look.
            return Verdict::Make;
        }
        match self.region.get().and_then(Weak::upgrade) {
            Some(region) if region.look_whether_cut_short() => Verdict::Fail(MemoryGone.into()),
            _ => Verdict::Make,
        }
    }

    fn ended(&self, call: Call) {
        if DiskGuard::counts(call) {
            self.changing.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use sablecat_os::disk::How;
    use sablecat_os::sim::SimDisk;

    use super::*;
    use crate::region::Geometry;

    #[test]
    fn a_region_goes_although_there_is_a_guard_that_has_been_told_of_it() {
        let mut disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1));
        let guard = DiskGuard::before(&mut disk);
        let region = Arc::new(Region::private(Geometry::new(4096, 1 << 20, 1 << 16, true)).unwrap());
        guard.watch(&region);
        let file = disk.open("file".as_ref(), How { create: true, ..How::default() }).unwrap();
        file.write_at(b"as ever", 0).unwrap();
        assert!(Arc::into_inner(region).is_some(), "its lock goes with it, before others may enter");
        file.write_at(b"as ever", 0).unwrap();
    }
}
