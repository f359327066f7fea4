//! Tending LSM trees: sealing and merging their layers, and freeing what was merged (access/lsm).
//!
//! Who changes the structure of such a tree has it tended if there is something to be done. A thread does it;
//! where there is none, those who write do, after their commits. If it does not keep up, they wait: so what
//! is written is never far more than what is merged. Each step is a commit under the tree's structure latch
//! that no log record tells of. What it merges is drawn from layers that nobody changes, before it takes the
//! latch.
//!
//! Two that tend one tree do no harm: each step is that of the state it finds, or nothing. Of one process
//! each takes what no other is at: so a small merge goes on beside a large one, and what waits for the disk
//! does not hold up the rest.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Trees;
use crate::access::{Drawing, DrawnStep, LayerDuty, LayerLimits};
use crate::error::Result;
use crate::pages::{Bell, LocalParticipant};
use crate::region::ListItem;
use crate::txn::catalog::TreeRef;
use crate::txn::commit::changes::ChangedPages;
use crate::txn::commit::publish::{self, filler};
use crate::txn::state::CommittedState;
use crate::types::{FrameId, Lsn, PageId};

/// The part of the cache that the newest layer of a tree takes, and how much at most.
const NEWEST_PART: usize = 16;
const NEWEST_BYTES_MAX: usize = 8 << 20;
/// The fewest leaves that it is sealed with.
const LEAVES_MIN: usize = 2;
/// So many steps are made after a commit where no thread makes them: many more than it takes to keep up.
const STEPS_AT_ONCE: usize = 8;
/// Where merging does not keep up, who has made the newest layer larger waits: for so long, the longer the
/// larger it is. So what is written comes to be no more than what is merged.
const PAUSE: Duration = Duration::from_micros(200);
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// How often and how long it is waited for snapshots that are in the way of freeing, before that is left to
/// another time.
const WAITS: usize = 10;
const WAIT: Duration = Duration::from_millis(1);

/// The part of the cache that snapshots may keep of what is freed.
const FREED_PART: usize = 16;
/// The part of the cache that one step of a merge makes, and between how many and how many pages that is.
const STEP_PART: usize = 32;
const STEP_PAGES: std::ops::RangeInclusive<usize> = 4..=256;

/// What a process tends.
#[derive(Debug)]
pub(in crate::txn) struct Tending {
    limits: LayerLimits,
    freed: Mutex<Freed>,
    wanted: Mutex<VecDeque<TreeRef>>,
    /// The parts of trees that somebody of this process works on.
    taken: Mutex<Vec<PageId>>,
    /// Rung when something is to be done.
    bell: Arc<Bell>,
    /// Whether a thread of this process does it.
    has_thread: AtomicBool,
}

/// What was freed lately. Snapshots that began before keep it in the cache, although they do not see it.
#[derive(Debug, Default)]
struct Freed {
    pages: usize,
    /// A state that is no earlier.
    by: Lsn,
}

impl Tending {
    /// `newest_bytes`: how large the newest layer of a tree becomes; none: a part of the cache of `frames`
    /// pages.
    pub(super) fn new(newest_bytes: Option<usize>, (frames, page_size): (usize, usize)) -> Tending {
        let bytes = newest_bytes.unwrap_or_else(|| (frames / NEWEST_PART * page_size).min(NEWEST_BYTES_MAX));
        let limits = LayerLimits { leaves: (bytes / page_size).max(LEAVES_MIN) };
        Tending {
            limits,
            freed: Mutex::default(),
            wanted: Mutex::default(),
            taken: Mutex::default(),
            bell: Arc::default(),
            has_thread: AtomicBool::new(false),
        }
    }

    /// Has a tree be tended.
    fn want(&self, tree: &TreeRef) {
        self.note_wanted(tree);
        self.bell.ring();
    }

    fn note_wanted(&self, tree: &TreeRef) {
        let mut wanted = self.wanted();
        if !wanted.iter().any(|have| have.id == tree.id) {
            wanted.push_back(tree.clone());
        }
    }

    fn freed(&self) -> MutexGuard<'_, Freed> {
        self.freed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wanted(&self) -> MutexGuard<'_, VecDeque<TreeRef>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn taken(&self) -> MutexGuard<'_, Vec<PageId>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what a duty is about; none: another was first.
    fn take(&self, duty: LayerDuty) -> Option<TakenPart<'_>> {
        let part = duty.part();
        let mut taken = self.taken();
        if part.is_some_and(|part| taken.contains(&part)) {
            return None;
        }
        taken.extend(part);
        Some(TakenPart { tending: self, part })
    }
}

/// What one works on, until dropped.
struct TakenPart<'t> {
    tending: &'t Tending,
    part: Option<PageId>,
}

impl Drop for TakenPart<'_> {
    fn drop(&mut self) {
        self.tending.taken().retain(|&part| Some(part) != self.part);
    }
}

/// What is known from one step of a merge to the next.
#[derive(Debug, Default)]
pub(crate) struct TendingProgress {
    drawings: Vec<Drawing>,
}

impl Trees {
    /// Rung when something is to be tended.
    pub(crate) fn tending_bell(&self) -> &Arc<Bell> {
        &self.tending.bell
    }

    /// Whether a thread tends what is to be tended from now on.
    pub(crate) fn set_tender(&self, is_there: bool) {
        self.tending.has_thread.store(is_there, Ordering::Relaxed);
    }

    /// Has a tree tended, of which the structure has changed, if anything is to be done. The caller holds
    /// nothing.
    #[inline]
    pub(in crate::txn) fn structure_changed(&self, tree: &TreeRef) {
        if tree.tree().has_layers() {
            // What is wrong is met again by who reads or writes what it concerns; what there is no room for
            // now is done later.
            let _ = self.tend_or_call(tree);
        }
    }

    #[cold]
    fn tend_or_call(&self, tree: &TreeRef) -> Result<()> {
        let seat = self.pages.participants.sit()?;
        let limits = self.tending.limits;
        // Others are at some of it, perhaps: it is to be done all the same.
        let duty = self.duty_beside(tree, limits, |_| false, &seat)?;
        if matches!(duty, LayerDuty::Nothing | LayerDuty::Wait) {
            return Ok(());
        }
        let mut progress = TendingProgress::default();
        if !self.tending.has_thread.load(Ordering::Relaxed) {
            let mut steps = 0..STEPS_AT_ONCE;
            while steps.next().is_some() && self.tend(tree, limits, &mut progress, &seat)? {}
            return Ok(());
        }
        self.tending.want(tree);
        let overdue = {
            let newest = self.pages.guarded(&seat);
            tree.tree().overdue(&CommittedState { states: self, me: &seat, at: newest.at() }, limits)?
        };
        drop(seat);
        if overdue > 1 {
            sablecat_os::atomic::pause(PAUSE.saturating_mul(overdue as u32).min(PAUSE_MAX));
        }
        Ok(())
    }

    /// Tends each of the trees that are to be tended, until nothing is left to be done to it or `goes_on`
    /// says no. What waits for snapshots is looked at with the next call.
    pub(crate) fn tend_wanted(&self, goes_on: impl Fn() -> bool) -> Result<()> {
        let seat = self.pages.participants.sit()?;
        let wanted = self.tending.wanted().len();
        for _ in 0..wanted {
            let Some(tree) = self.tending.wanted().pop_front() else { break };
            // What goes wrong with one is no reason to leave the others.
            if let Ok(LayerDuty::Wait) = self.tend_whole(&tree, &goes_on, &seat) {
                self.tending.note_wanted(&tree);
            }
        }
        Ok(())
    }

    /// Does what can be done to a tree, and says what is left.
    fn tend_whole(
        &self,
        tree: &TreeRef,
        goes_on: &impl Fn() -> bool,
        me: &LocalParticipant,
    ) -> Result<LayerDuty> {
        let (limits, mut progress) = (self.tending.limits, TendingProgress::default());
        let mut waits = 0..WAITS;
        loop {
            while goes_on() && self.tend(tree, limits, &mut progress, me)? {}
            let left = self.duty(tree, limits, me)?;
            // Most snapshots of this moment are about to end.
            let is_wanted_elsewhere = !self.tending.wanted().is_empty();
            if left != LayerDuty::Wait || is_wanted_elsewhere || !goes_on() || waits.next().is_none() {
                return Ok(left);
            }
            sablecat_os::atomic::pause(WAIT);
        }
    }

    /// What is to be done next to a tree, of what nobody is at.
    fn duty(&self, tree: &TreeRef, limits: LayerLimits, me: &LocalParticipant) -> Result<LayerDuty> {
        self.duty_beside(tree, limits, |part| self.tending.taken().contains(&part), me)
    }

    /// What is to be done next to a tree, beside what is taken.
    fn duty_beside(
        &self,
        tree: &TreeRef,
        limits: LayerLimits,
        is_taken: impl Fn(PageId) -> bool,
        me: &LocalParticipant,
    ) -> Result<LayerDuty> {
        let newest = self.pages.guarded(me);
        let state = CommittedState { states: self, me, at: newest.at() };
        if !self.is_there(tree, newest.at(), me)? {
            return Ok(LayerDuty::Nothing);
        }
        tree.tree().layer_duty(&state, limits, |at| self.may_free(at), is_taken)
    }

    /// Whether what is not seen from a state on may be freed now: no snapshot sees it, and there are none
    /// that would fill the cache with it.
    fn may_free(&self, at: Lsn) -> bool {
        let mut freed = self.tending.freed();
        if freed.pages >= self.pages.frames_max() / FREED_PART && self.pages.is_unseen_before(freed.by) {
            freed.pages = 0;
        }
        freed.pages < self.pages.frames_max() / FREED_PART && self.pages.is_unseen_before(at)
    }

    /// Does one step of what is to be done to a tree. False: there is nothing.
    fn tend(
        &self,
        tree: &TreeRef,
        limits: LayerLimits,
        progress: &mut TendingProgress,
        me: &LocalParticipant,
    ) -> Result<bool> {
        let duty = self.duty(tree, limits, me)?;
        if matches!(duty, LayerDuty::Nothing | LayerDuty::Wait) {
            return Ok(false);
        }
        let Some(_taken) = self.tending.take(duty) else { return Ok(true) };
        let Some(step) = self.patiently_at_newest(me, || self.draw(tree, progress, duty, me))? else {
            return Ok(true);
        };
        self.patiently_at_newest(me, || self.commit_step(tree, (duty, limits), &step, me))?;
        Ok(true)
    }

    /// How many pages one step of a merge makes, about.
    fn step_pages(&self) -> usize {
        (self.pages.frames_max() / STEP_PART).clamp(*STEP_PAGES.start(), *STEP_PAGES.end())
    }

    /// Draws the records that a step is about; none: it is not what is to be done any more.
    fn draw(
        &self,
        tree: &TreeRef,
        progress: &mut TendingProgress,
        duty: LayerDuty,
        me: &LocalParticipant,
    ) -> Result<Option<DrawnStep>> {
        let newest = self.pages.pinned(me);
        let mut state = CommittedState { states: self, me, at: newest.at() };
        let view = tree.tree();
        let merge = match duty {
            LayerDuty::Go(merge) => merge,
            LayerDuty::Filter(layer) => {
                return Drawing::keys(&view, &layer, (&mut state, newest.at())).map(Some);
            }
            LayerDuty::Free(_) => {
                self.pages.ask_for(&view.freed_next(&state, duty, self.changed_at_once())?);
                return Ok(Some(DrawnStep::default()));
            }
            _ => return Ok(Some(DrawnStep::default())),
        };
        let begun = Drawing::go_on(&view, &merge, &mut progress.drawings, (&state, newest.at()))?;
        let Some(mut drawing) = begun else { return Ok(None) };
        let step = drawing.draw(&view, &merge, &mut state, self.step_pages() * self.page_size())?;
        if !step.is_empty() {
            progress.drawings.push(drawing);
        }
        // Each page that is freed is looked at.
        let freed: Vec<PageId> = step.freed().collect();
        self.pages.ask_for(&freed);
        Ok(Some(step))
    }

    /// The commit of a step, if it still is what is to be done.
    fn commit_step(
        &self,
        tree: &TreeRef,
        (duty, limits): (LayerDuty, LayerLimits),
        step: &DrawnStep,
        me: &LocalParticipant,
    ) -> Result<()> {
        let view = tree.tree();
        let structure = self.hold_structure(std::iter::once(tree.id), me)?;
        if !self.is_there(tree, self.pages.guarded(me).at(), me)? {
            return Ok(());
        }
        let mut changes = ChangedPages::at_newest(&self.pages, me);
        let is_taken = |part| Some(part) != duty.part() && self.tending.taken().contains(&part);
        if duty.is_of_the_moment()
            && view.layer_duty(&changes, limits, |at| self.may_free(at), is_taken)? != duty
        {
            return Ok(());
        }
        let most = self.changed_at_once();
        let is_enough = |changes: &ChangedPages<'_>| changes.items().len() >= most;
        view.tend_layers(&mut changes, duty, (step, most), is_enough)?;
        let changed = changes.items().len();
        let is_made = |item: &&ListItem| item.old == FrameId::NONE;
        let made: Vec<PageId> = changes.items().iter().filter(is_made).map(|item| item.page).collect();
        let at = publish::publish(&self.pages, &self.log, changes, &mut filler(), |_| {
            self.check_there(tree, me)?;
            if duty == LayerDuty::Seal {
                self.say_rebuilt();
            }
            Ok(())
        })?;
        drop(structure);
        if let LayerDuty::Free(_) = duty {
            let mut freed = self.tending.freed();
            *freed = Freed { pages: freed.pages + changed, by: freed.by.max(at) };
            drop(freed);
            self.pages.release_freed(me);
        }
        // What cannot be written now is written when its frame is wanted.
        let _ = if self.tending.has_thread.load(Ordering::Relaxed) {
            self.pages.have_written_together(made, me)
        } else {
            self.pages.write_together(&made, me)
        };
        Ok(())
    }
}
