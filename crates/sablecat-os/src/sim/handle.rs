//! An open file of the simulated disk, and the window onto it.

use std::fmt;
use std::io;

use super::fault::{Call, Fault, sync_failed};
use super::names::NodeId;
use super::shared::SharedState;
use super::state::State;
use crate::disk::{File, How, Window, cut_off, debug_assert_aligned, range_end, window_refused};

/// One opening of a file.
pub(super) struct SimFile {
    disk: SharedState,
    node: NodeId,
    /// Tells this opening from others.
    opening: u64,
    how: How,
}

impl SimFile {
    pub(super) fn open(disk: &SharedState, state: &mut State, node: NodeId, how: How) -> SimFile {
        let opening = state.tick();
        state.file(node).users += 1;
        SimFile { disk: disk.clone(), node, opening, how }
    }

    fn check(&self, bytes: &[u8], offset: u64) {
        if self.how.direct {
            debug_assert_aligned(bytes, offset);
        }
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.how.read_only { Err(io::Error::from_raw_os_error(libc::EBADF)) } else { Ok(()) }
    }

    /// Writes as much as faults and space allow; an error unless that is all.
    fn write(&self, bytes: Box<[u8]>, offset: u64) -> io::Result<()> {
        range_end(offset, bytes.len())?;
        let (mut state, fault) = self.disk.call(Call::Write)?;
        self.check_writable()?;
        let wanted = bytes.len() as u64;
        let (allowed, error) = match fault {
            Some(Fault::ShortWrite) => (state.short_of(wanted), io::ErrorKind::WriteZero),
            Some(Fault::DiskFull) => (state.short_of(wanted), io::ErrorKind::StorageFull),
            _ => (state.fitting(self.node, offset, wanted), io::ErrorKind::StorageFull),
        };
        let moment = state.tick();
        let is_lie = matches!(fault, Some(Fault::LostWrite | Fault::MisdirectedWrite));
        if allowed == wanted && (fault.is_none() || is_lie) {
            let len = bytes.len();
            if is_lie {
                let place = (fault == Some(Fault::MisdirectedWrite))
                    .then(|| state.elsewhere(self.node, offset, wanted));
                let elsewhere = state.tick();
                let file = state.file(self.node);
                file.lied = true;
                // The file system knows of nothing.
                file.allocate(moment, offset, wanted);
                place.into_iter().for_each(|place| file.write(elsewhere, place, bytes.clone(), false));
            } else {
                state.file(self.node).write(moment, offset, bytes, false);
            }
            drop(state);
            return if self.how.durable { self.sync_range(offset, len) } else { Ok(()) };
        }
        state.file(self.node).write(moment, offset, bytes[..allowed as usize].into(), false);
        Err(error.into())
    }

    /// The second half of a write that is durable when it returns: between the two the power may fail.
    fn sync_range(&self, offset: u64, len: usize) -> io::Result<()> {
        let (mut state, fault) = self.disk.call(Call::Sync)?;
        if fault == Some(Fault::SyncFails) {
            let mut fates = state.fates();
            state.file(self.node).fail_to_sync(&mut fates);
            return Err(sync_failed());
        }
        state.file(self.node).sync_range(offset, len);
        Ok(())
    }

    /// Does something that takes space for a range.
    fn grow(&self, offset: u64, len: u64, act: impl FnOnce(&mut State, u64)) -> io::Result<()> {
        let (mut state, fault) = self.disk.call(Call::Grow)?;
        self.check_writable()?;
        if fault == Some(Fault::DiskFull) || state.fitting(self.node, offset, len) < len {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let moment = state.tick();
        act(&mut state, moment);
        Ok(())
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.check(buf, offset);
        let (mut state, _) = self.disk.call(Call::Read)?;
        Ok(state.file(self.node).now().read(buf, offset))
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.check(buf, offset);
        self.write(buf.into(), offset)
    }

    fn write_all_at(&self, bufs: &[&[u8]], offset: u64) -> io::Result<()> {
        let mut at = offset;
        for buf in bufs {
            self.check(buf, at);
            at = range_end(at, buf.len())?;
        }
        self.write(bufs.concat().into(), offset)
    }

    fn sync(&self) -> io::Result<()> {
        let (mut state, fault) = self.disk.call(Call::Sync)?;
        if fault == Some(Fault::SyncFails) {
            let mut fates = state.fates();
            state.file(self.node).fail_to_sync(&mut fates);
            return Err(sync_failed());
        }
        state.file(self.node).sync();
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        let (mut state, _) = self.disk.call(Call::Read)?;
        Ok(state.file(self.node).now().len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        range_end(len, 0)?;
        self.grow(0, 0, |state, moment| state.file(self.node).set_len(moment, len))
    }

    fn preallocate(&self, offset: u64, len: u64) -> io::Result<()> {
        range_end(offset, len.try_into().unwrap_or(usize::MAX))?;
        if len == 0 {
            return Ok(());
        }
        self.grow(offset, len, |state, moment| state.file(self.node).allocate(moment, offset, len))
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<bool> {
        range_end(offset, len.try_into().unwrap_or(usize::MAX))?;
        let (mut state, fault) = self.disk.call(Call::Punch)?;
        self.check_writable()?;
        if !state.has_holes {
            return Ok(false);
        }
        if fault == Some(Fault::DiskFull) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let moment = state.tick();
        state.file(self.node).punch(moment, offset, len);
        Ok(true)
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        let (mut state, _) = self.disk.call(Call::Read)?;
        Ok(state.file(self.node).now().next_data(offset))
    }

    fn space(&self) -> io::Result<u64> {
        let (mut state, _) = self.disk.call(Call::Read)?;
        Ok(state.file(self.node).now().space())
    }

    fn try_lock(&self) -> io::Result<bool> {
        let (mut state, _) = self.disk.call(Call::Read)?;
        self.check_writable()?;
        let lock = &mut state.file(self.node).lock;
        Ok(*lock.get_or_insert(self.opening) == self.opening)
    }

    fn window(&self, offset: u64, len: usize) -> io::Result<Box<dyn Window>> {
        let (mut state, _) = self.disk.call(Call::Read)?;
        self.check_writable()?;
        let end = range_end(offset, len)?;
        let now = state.file(self.node).now();
        // On the host a window onto a hole works until the disk is full, and then kills the process.
        if len == 0 || end > now.len() || now.fitting(offset, len as u64, 0) < len as u64 {
            return Err(window_refused(offset, len));
        }
        let file = SimFile::open(&self.disk, &mut state, self.node, self.how);
        Ok(Box::new(SimWindow { file, offset, len }))
    }

    fn is_direct(&self) -> bool {
        self.how.direct
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.disk.lock();
        let file = state.file(self.node);
        file.users -= 1;
        if file.lock == Some(self.opening) {
            file.lock = None;
        }
        if file.users == 0 {
            state.forget_nameless();
        }
    }
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimFile({}, {:?})", self.node, self.how)
    }
}

#[derive(Debug)]
struct SimWindow {
    file: SimFile,
    offset: u64,
    len: usize,
}

impl Window for SimWindow {
    fn write(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let fits = offset.checked_add(bytes.len()).is_some_and(|end| end <= self.len);
        assert!(fits, "{} bytes at {offset} do not fit in a window of {}", bytes.len(), self.len);
        let (mut state, _) = self.file.disk.call(Call::Window)?;
        let at = self.offset + offset as u64;
        let file_len = state.file(self.file.node).now().len();
        if at + bytes.len() as u64 > file_len {
            return Err(cut_off());
        }
        let moment = state.tick();
        state.file(self.file.node).write(moment, at, bytes.into(), true);
        Ok(())
    }
}
