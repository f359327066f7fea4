//! Reading ahead: pages that somebody will want soon, read by threads that do nothing else.
//!
//! A scan past what is in memory waits for one page after the other, though a device answers several
//! questions at once about as soon as one. So a reader that knows what it comes to says so, goes on, and
//! finds in memory, or being read, what it has asked for. That is a hint: nothing waits for it, what cannot
//! be read ahead is read when it is wanted, and what is wrong with it is said then. Where there are no such
//! threads the reader comes to all of it itself, and to neighbours at once.
//!
//! Pages whose blocks are neighbours are read in one call. Their latches are held meanwhile, as when a page
//! is read in: who wants one of them waits for the call. A reader that comes to a page before a thread has
//! reads it itself, and its neighbours with it.
//!
//! Where reading is quick, as from what the system has cached, handing it over costs more than it saves:
//! threads that find it so have the next [`DECLINED`] pages declined.
//!
//! Costs (sketch): a look at each page's entry and a lock each time some are asked for; a copy a page. A
//! device that reads 17,000 blocks of 4 KiB a second one at a time reads 47,000 by eight threads, and 130,000
//! as stretches of 16.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sablecat_os::clock;
use sablecat_os::disk::AlignedBuf;

use super::Pool;
use super::latch::PageLatch;
use crate::error::{ErrorKind, Result};
use crate::pages::bell::Bell;
use crate::pages::participants::LocalParticipant;
use crate::region::BlockWord;
use crate::types::{BlockId, FrameId, PageId};

/// Bytes that are read in one call, at most.
const RUN_BYTES: usize = 128 << 10;
/// Buffers of that size that are kept.
const BUFFERS_MAX: usize = 8;
/// Pages that wait to be read, at most: those that have waited longest are forgotten.
const ASKED_MAX: usize = 256;
/// How long a call takes that was worth a thread's time, for so many pages.
fn worth(pages: usize) -> Duration {
    Duration::from_micros(10 + pages as u64)
}
/// Pages that are declined after a call that was not.
const DECLINED: u32 = 2048;

/// Which pages are to be read ahead.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    asked: Mutex<VecDeque<PageId>>,
    /// There are none.
    is_idle: AtomicBool,
    /// Memory to read into.
    buffers: Mutex<Vec<AlignedBuf>>,
    /// Rung when there are some.
    pub(crate) bell: Arc<Bell>,
    /// So many pages are declined before the next is taken on.
    declined: AtomicU32,
}

impl Default for ReadAhead {
    fn default() -> ReadAhead {
        ReadAhead {
            asked: Mutex::default(),
            is_idle: AtomicBool::new(true),
            buffers: Mutex::default(),
            bell: Arc::default(),
            declined: AtomicU32::new(0),
        }
    }
}

impl ReadAhead {
    fn asked(&self) -> MutexGuard<'_, VecDeque<PageId>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pages that nobody has come to.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> Vec<PageId> {
        self.asked().iter().copied().collect()
    }

    fn buffers(&self) -> MutexGuard<'_, Vec<AlignedBuf>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn buffer(&self, bytes: usize) -> AlignedBuf {
        self.buffers().pop().unwrap_or_else(|| AlignedBuf::new(bytes))
    }

    fn give_back(&self, buffer: AlignedBuf) {
        let mut buffers = self.buffers();
        if buffers.len() < BUFFERS_MAX {
            buffers.push(buffer);
        }
    }

    /// Whether so many pages are not to be asked for now.
    fn declines(&self, pages: usize) -> bool {
        // Relaxed, here and below: hints.
        let declined = self.declined.load(Ordering::Relaxed);
        if declined > 0 {
            self.declined.store(declined.saturating_sub(pages as u32), Ordering::Relaxed);
        }
        declined > 0
    }
}

impl Pool {
    /// Has those of the pages read that are not in memory, soon and by others. Says how many these are; none
    /// if it would not be worth it.
    pub(crate) fn ask_for(&self, pages: &[PageId]) -> usize {
        if pages.is_empty() || self.volume.is_none() || self.ahead.declines(pages.len()) {
            return 0;
        }
        let out: Vec<PageId> = pages.iter().copied().filter(|&page| self.is_out(page)).collect();
        if !out.is_empty() {
            let mut asked = self.ahead.asked();
            asked.extend(&out);
            let over = asked.len().saturating_sub(ASKED_MAX);
            asked.drain(..over);
            // Relaxed: who does not see it reads its page alone.
            self.ahead.is_idle.store(false, Ordering::Relaxed);
            drop(asked);
            self.ahead.bell.ring();
        }
        out.len()
    }

    /// Pages that are asked for at once, at most: a small part of what the cache has.
    pub(crate) fn ahead_max(&self) -> usize {
        (self.frames_ready() / 32).min(32) as usize
    }

    /// Whether nobody has the page in memory, or latched.
    fn is_out(&self, page: PageId) -> bool {
        page != PageId::NONE && u64::from(page.0) < self.region.geometry().pages_max && {
            let word = self.region.entry(page).word();
            word.frame() == FrameId::NONE && word.owner() == 0
        }
    }

    /// Reads what was asked for until there is nothing left. Several threads may be at it.
    ///
    /// # Errors
    /// Those of the volume, and of frames; a reader that wants the page is told what is wrong with it.
    pub(crate) fn read_ahead(&self, me: &LocalParticipant) -> Result<()> {
        let frames = self.run_max().min(self.ahead_max());
        let read_run = || {
            if self.ahead.is_idle.load(Ordering::Relaxed) {
                return Ok(None);
            }
            // Before it takes pages that somebody may come to meanwhile.
            self.look_for_frames(me, frames)?;
            let found = me.free.borrow().len();
            if found == 0 {
                // What was asked for is left to who comes to it, or to the next call.
                return Ok(None);
            }
            let Some(run) = self.take_run(|_| Some(0), frames.min(found)) else { return Ok(None) };
            let begun = clock::monotonic();
            match self.read_run(&run, me) {
                Ok(pages) => {
                    let took = clock::monotonic().saturating_sub(begun);
                    if pages > 0 && took < worth(pages) {
                        self.ahead.declined.store(DECLINED, Ordering::Relaxed);
                    }
                }
                // Others have taken the frames.
                Err(error) if error.is_out_of_frames() => {}
                // One of them is damaged, which its reader is told. The others are read each by itself.
                Err(error) if error.kind() == ErrorKind::Corruption => {
                    run.iter().filter(|_| run.len() > 1).for_each(|&page| _ = self.read_run(&[page], me));
                }
                Err(error) => return Err(error),
            }
            Ok(Some(()))
        };
        loop {
            match read_run() {
                Ok(Some(())) => {}
                Ok(None) => return Ok(()),
                Err(error) => {
                    // It may be so with all of them.
                    self.ahead.asked().clear();
                    return Err(error);
                }
            }
        }
    }

    /// Reads a page with its neighbours that were asked for, if it was itself and no thread has come to it.
    /// The caller is about to read it in.
    #[inline]
    pub(super) fn read_with_neighbours(&self, page: PageId, me: &LocalParticipant) {
        if self.ahead.is_idle.load(Ordering::Relaxed) {
            return;
        }
        let find = |asked: &VecDeque<PageId>| asked.iter().position(|&other| other == page);
        let frames = me.free.borrow().len();
        if let Some(run) = self.take_run(find, self.run_max().min(frames)).filter(|run| run.len() > 1) {
            // It is read alone then, and what is wrong with it said.
            let _ = self.read_run(&run, me);
        }
    }

    /// So many pages are read in one call, at most.
    fn run_max(&self) -> usize {
        (RUN_BYTES / self.region.geometry().block_size).max(1)
    }

    /// A page that was asked for, at the place that `find` says, and those asked for right after it as far as
    /// their blocks are next to each other, upward or downward.
    fn take_run(
        &self,
        find: impl FnOnce(&VecDeque<PageId>) -> Option<usize>,
        run_max: usize,
    ) -> Option<Vec<PageId>> {
        let mut asked = self.ahead.asked();
        let at = find(&asked).filter(|&at| at < asked.len());
        let block = |page: PageId| self.region.entry(page).block();
        let run = at.map(|at| {
            let mut last = block(asked[at]);
            let mut direction = None;
            let behind = asked.range(at + 1..).take(run_max.saturating_sub(1));
            let more = behind.take_while(|&&next| {
                let word = block(next);
                let toward = neighbour(last, word);
                let goes_on = toward.is_some() && (direction.is_none() || direction == toward);
                (direction, last) = (toward, word);
                goes_on
            });
            let count = 1 + more.count();
            asked.drain(at..at + count).collect()
        });
        if asked.is_empty() {
            self.ahead.is_idle.store(true, Ordering::Relaxed);
        } else if run.is_some() {
            // One thread wakes the next, as long as there is something for it.
            self.ahead.bell.ring();
        }
        run
    }

    /// Reads pages whose blocks are neighbours, as far as that is still so and there are frames for them.
    /// Says how many.
    fn read_run(&self, run: &[PageId], me: &LocalParticipant) -> Result<usize> {
        let Some(volume) = &self.volume else { return Ok(0) };
        let view = self.view()?;
        let mut latched: Vec<(BlockWord, PageLatch<'_>)> = Vec::with_capacity(run.len());
        for &page in run.iter().take(me.free.borrow().len()) {
            // A commit may have it latched itself, once it is in memory.
            let latch = if self.is_out(page) { self.try_hold(page, me) } else { None };
            let Some(latch) = latch.filter(|latch| latch.current() == FrameId::NONE) else { continue };
            self.learn_block(page)?;
            let word = self.region.entry(page).block();
            let is_next = match latched.last() {
                None => word.block() != BlockId::NONE,
                Some(&(before, _)) => neighbour(before, word).is_some(),
            };
            if is_next {
                latched.push((word, latch));
            }
        }
        latched.sort_unstable_by_key(|&(word, _)| word.block().0);
        let Some(&(first, _)) = latched.first() else { return Ok(0) };
        let (block_size, pages) = (volume.block_size(), latched.len());
        let mut buffer = self.ahead.buffer(self.run_max() * block_size);
        let bytes = &mut buffer[..pages * block_size];
        let read = volume.read_neighbours(first.block(), bytes);
        let blocks = bytes.chunks_exact(block_size);
        let taken = read.and_then(|()| {
            latched
                .into_iter()
                .zip(blocks)
                .try_for_each(|((word, latch), block)| self.take_in(latch, (word, block), view, me))
        });
        self.ahead.give_back(buffer);
        taken.map(|()| pages)
    }
}

/// Whether a block comes right after (`Some(true)`) or right before another one.
fn neighbour(of: BlockWord, word: BlockWord) -> Option<bool> {
    let known = |word: BlockWord| (word.is_known() && word.block() != BlockId::NONE).then(|| word.block().0);
    let (of, block) = (known(of)?, known(word)?);
    if block == of + 1 {
        Some(true)
    } else if of == block + 1 {
        Some(false)
    } else {
        None
    }
}
