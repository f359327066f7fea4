//! Participants: the right to work on the region, one at a time each.
//!
//! An operation or a transaction in progress takes a *seat*: a slot of the region with the private caches
//! that go with it. Seats belong to the process, not to threads, so a transaction may move between threads;
//! each thread prefers the seat it used last, so its slot and caches stay in its processor's cache. Taking a
//! seat is one compare-and-swap on a line nobody else touches.
//!
//! A thread that leaves a seat may give up the processor to others then ([`LocalParticipant::crowded`]): it
//! holds nothing at that moment.
//!
//! A process uses few of the seats that it may have. They lie in memory that is there once it is touched, and
//! in which nothing is yet a seat that nobody has used.
//!
//! `unsafe` here: the seat's busy word is the lock that makes its private part exclusive; and a participant
//! knows where its slot is.

use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use sablecat_os::atomic::{AtomicU32, Ordering, yield_now};
use sablecat_os::mapping::Mapping;
use sablecat_os::places::{Places, Taken};

use super::hints::{Hints, LeftOff};
use crate::error::{Error, Result};
use crate::region::{ListItem, NO_EPOCH, Region, Slot, Tenant};
use crate::types::{FrameId, Lsn, PageId};

/// Own superseded frames that must be held back, since the last time, before others are given the processor.
pub(in crate::pages) const PATIENCE: usize = 64;
/// Seats of one process at most, however many slots the region has for all. They take 512 bytes each, once
/// used.
const SEATS_MAX: usize = 1024;

/// A version that was superseded: the frame that it was in, and at which LSN. A hint: others may have freed
/// it.
#[derive(Clone, Copy, Debug)]
pub(in crate::pages) struct Superseded {
    pub(in crate::pages) frame: FrameId,
    pub(in crate::pages) at: Lsn,
}

/// A slot of the region with this process's private caches for it.
pub(crate) struct LocalParticipant {
    region: Arc<Region>,
    number: u16,
    /// The slot of that number, in the region.
    slot: NonNull<Slot>,
    /// How the slot says that it is this one's.
    tenant: Tenant,
    /// Frames that were free when last seen. Hints: taking one is a compare-and-swap on its state.
    pub(in crate::pages) free: RefCell<Vec<FrameId>>,
    /// Frames this participant retired, oldest first. Hints as well: sweeps by others free them too.
    pub(in crate::pages) retired: RefCell<VecDeque<FrameId>>,
    /// Those that it took out of the middle of their chains, in the same way.
    pub(in crate::pages) unlinked: RefCell<VecDeque<FrameId>>,
    /// Frames this participant superseded, the oldest first as a rule.
    pub(in crate::pages) limbo: RefCell<VecDeque<Superseded>>,
    /// Those from before that were not to be had when they were looked at, most since a snapshot wants them.
    pub(in crate::pages) wanted: RefCell<VecDeque<Superseded>>,
    /// Pages that it has freed, whose last versions say so, the oldest first as a rule.
    pub(in crate::pages) freed: RefCell<VecDeque<PageId>>,
    /// How many it has superseded since it last looked at them.
    pub(in crate::pages) unlooked: Cell<usize>,
    /// How many it had superseded when it last did, since the oldest were held back by no pin.
    pub(in crate::pages) held_back: Cell<usize>,
    /// Whether these have become many. The participant whose pin holds them back may be waiting for the
    /// processor.
    pub(in crate::pages) crowded: Cell<bool>,
    /// Whether what it changes is only removed, and may take the last frames for that
    /// (pages/pool/last_frames.rs).
    pub(crate) removes: Cell<bool>,
    /// Whether too few of these are kept, as far as it knows: what becomes free is.
    pub(crate) owes: Cell<bool>,
    /// The operation in progress that others were not waited for any more, by its epoch
    /// (pages/pool/sweep.rs).
    pub(in crate::pages) outlasted: Cell<u64>,
    /// How many of the values that say that it has something in hand have not been dropped yet
    /// (pages/participants/hand.rs).
    pub(in crate::pages) hands: Cell<u32>,
    /// How often it had to read a page in, or to wait for one that others read.
    pub(in crate::pages) waits: Cell<u32>,
    /// Where in each tree it was last.
    pub(crate) hints: Hints,
    /// Where it left a scan.
    pub(crate) left_off: LeftOff,
    /// Memory for the log record being built, so that single operations allocate nothing.
    pub(crate) scratch: Cell<Vec<u8>>,
    /// Room for a list of changes, so that single operations allocate nothing.
    pub(crate) list: RefCell<Vec<ListItem>>,
}

// SAFETY: the slot consists of atomics, and everything else is as movable as it says itself.
unsafe impl Send for LocalParticipant {}

impl std::fmt::Debug for LocalParticipant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalParticipant").field("slot", &self.number).finish_non_exhaustive()
    }
}

impl LocalParticipant {
    fn new(region: Arc<Region>, (number, tenant): (u16, Tenant)) -> LocalParticipant {
        LocalParticipant {
            slot: NonNull::from(region.slot(number)),
            region,
            number,
            tenant,
            free: RefCell::default(),
            retired: RefCell::default(),
            unlinked: RefCell::default(),
            limbo: RefCell::default(),
            wanted: RefCell::default(),
            freed: RefCell::default(),
            unlooked: Cell::default(),
            held_back: Cell::default(),
            removes: Cell::default(),
            owes: Cell::default(),
            crowded: Cell::default(),
            outlasted: Cell::new(NO_EPOCH),
            hands: Cell::default(),
            waits: Cell::default(),
            hints: Hints::default(),
            left_off: LeftOff::default(),
            scratch: Cell::default(),
            list: RefCell::default(),
        }
    }

    /// The slot's number: what latches and roles are held as.
    #[inline]
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// How often a page that it wanted was not in memory.
    #[inline]
    pub(crate) fn waits(&self) -> u32 {
        self.waits.get()
    }

    /// The error for a page that something led to and that has no version. Where the snapshot was given up
    /// since it was followed there, others may have freed the page: they have seen the mark first.
    #[cold]
    pub(in crate::pages) fn finds_nothing(&self, page: PageId) -> Error {
        if self.slot().is_revoked() { Error::given_up() } else { Error::not_there(page) }
    }

    /// Ends its pins and operations, and gives the slot back.
    fn give_back(&self) {
        let slot = self.slot();
        slot.unpin();
        slot.end_helping();
        slot.unguard();
        slot.exit();
        slot.give_back(self.tenant);
    }

    /// The slot, for what is told now: a caller that holds on to it holds on to what may be another's.
    #[inline(always)]
    pub(crate) fn slot(&self) -> &Slot {
        if self.region.is_fenced() {
            return self.nobodys_slot();
        }
        // SAFETY: it lies in the region, which lives as long as `self` has it.
        unsafe { self.slot.as_ref() }
    }

    /// The slot of a process that was taken for dead is another's; slot 0 is nobody's.
    #[cold]
    fn nobodys_slot(&self) -> &Slot {
        self.region.slot(0)
    }
}

/// Where a seat is. All zeros is one that nobody has used.
#[repr(align(128))]
struct SeatPlace {
    busy: AtomicU32,
    /// Whether there is a participant. For the holder of the seat, which has set `busy`, as the participant
    /// is.
    filled: Cell<bool>,
    participant: UnsafeCell<MaybeUninit<LocalParticipant>>,
}

// SAFETY: the cells are only touched by the holder of the seat, which set `busy` from 0 to 1 and has not
// cleared it.
unsafe impl Sync for SeatPlace {}

impl SeatPlace {
    /// The participant is in it from now on.
    ///
    /// # Safety
    /// The caller has set `busy`, and there is none.
    unsafe fn fill(&self, participant: LocalParticipant) {
        // SAFETY: nobody else touches the cell, by the caller's word.
        unsafe { (*self.participant.get()).write(participant) };
        self.filled.set(true);
    }

    /// Takes out the participant, if there is one.
    ///
    /// # Safety
    /// The caller has set `busy`, or nobody else knows of the place any more; and nobody has a reference to
    /// the participant.
    unsafe fn take(&self) -> Option<LocalParticipant> {
        // SAFETY: nobody else touches the cell, by the caller's word, and what is read is not used again,
        // since the place is not filled now.
        self.filled.replace(false).then(|| unsafe { (*self.participant.get()).assume_init_read() })
    }
}

/// All seats of this process.
pub(crate) struct Participants {
    pub(crate) region: Arc<Region>,
    /// The places, `seats` of them.
    memory: Mapping,
    places: PhantomData<Box<[SeatPlace]>>,
    seats: usize,
    /// How many of the places, from the first, may have a participant: the memory of the others need not be
    /// touched to leave. With [`LEFT`] no other place gets one.
    used: AtomicU32,
}

/// Nobody sits down any more.
const LEFT: u32 = 1 << 31;

impl std::fmt::Debug for Participants {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Participants").field("seats", &self.seats).finish_non_exhaustive()
    }
}

/// One for each thread that there is, so that few seats are used: a thread that comes when another has ended
/// has the place of that one.
static THREADS: Places<()> = Places::new();

thread_local! {
    /// Which place this thread tries first.
    static PREFERRED: Cell<u32> = const { Cell::new(u32::MAX) };
    static THREAD: Taken<()> = THREADS.take();
}

impl Participants {
    pub(in crate::pages) fn new(region: Arc<Region>) -> Result<Participants> {
        let seats = (usize::from(region.geometry().slots) - 1).min(SEATS_MAX);
        let bytes = seats * size_of::<SeatPlace>();
        let memory = Mapping::anonymous(bytes).map_err(|e| {
            Error::memory_full(format!(
                "reserving {bytes} bytes of address space for the seats of a \
                 process: {e}; end programs that take so much"
            ))
        })?;
        Ok(Participants { region, memory, places: PhantomData, seats, used: AtomicU32::new(0) })
    }

    #[inline]
    fn places(&self) -> &[SeatPlace] {
        // SAFETY: the memory is this long, lives as long as `self`, is aligned to pages, and was zeroed,
        // which is what places are at first.
        unsafe { slice::from_raw_parts(self.memory.base().as_ptr().cast(), self.seats) }
    }

    /// Those that may have a participant.
    fn places_used(&self, used: u32) -> &[SeatPlace] {
        &self.places()[..(used & !LEFT) as usize]
    }

    /// Whether a seat that is held, of the place at `index`, has a participant, or gets one now: there may be
    /// no slot for it.
    fn prepare(&self, seat: &Seat<'_>, index: usize) -> bool {
        if seat.ready() {
            return true;
        }
        // AcqRel, as in `leave`: the thread that leaves looks at this place, or has said before that none is
        // filled.
        if self.used.fetch_max(index as u32 + 1, Ordering::AcqRel) & LEFT != 0 {
            return false;
        }
        let Some(slot) = self.take_slot() else { return false };
        // SAFETY: the seat is held, and there is none.
        unsafe { seat.place.fill(LocalParticipant::new(Arc::clone(&self.region), slot)) };
        true
    }

    /// Takes a seat: the one this thread used last, or any free one.
    ///
    /// # Errors
    /// Too many if all are taken; poisoned if this process was taken for dead; invalid in a child made by
    /// fork, to which none of them belongs.
    #[inline]
    pub(crate) fn sit(&self) -> Result<Seat<'_>> {
        self.region.check_fence()?;
        let preferred = PREFERRED.with(Cell::get) as usize;
        if let Some(place) = self.places().get(preferred)
            && let Some(seat) = Self::try_sit(place)
            && seat.ready()
        {
            return Ok(seat);
        }
        self.sit_anywhere()
    }

    /// Takes a seat, as [`Participants::sit`] does, by a store instead of a compare-and-swap: 2 of the 40 ns
    /// of the shortest change in place.
    ///
    /// # Safety
    /// No other thread takes or leaves one of these seats meanwhile, and what others did on them before
    /// happened before this.
    ///
    /// # Errors
    /// As of [`Participants::sit`].
    #[inline]
    pub(crate) unsafe fn sit_alone(&self) -> Result<Seat<'_>> {
        self.region.check_fence()?;
        let preferred = PREFERRED.with(Cell::get) as usize;
        // Relaxed: by the caller's word.
        if let Some(place) = self.places().get(preferred)
            && place.busy.load(Ordering::Relaxed) == 0
            && place.filled.get()
        {
            place.busy.store(1, Ordering::Relaxed);
            return Ok(Seat { place, not_shared: PhantomData });
        }
        self.sit_anywhere()
    }

    /// Whether this process is a child of the one whose seats these are.
    #[inline]
    pub(crate) fn is_inherited(&self) -> bool {
        self.region.is_inherited()
    }

    #[inline]
    fn try_sit(place: &SeatPlace) -> Option<Seat<'_>> {
        // Acquire: pairs with the Release of the seat's drop, so the last user's private state is seen.
        place
            .busy
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|_| Seat { place, not_shared: PhantomData })
    }

    #[cold]
    fn sit_anywhere(&self) -> Result<Seat<'_>> {
        let places = self.places();
        let mut first = PREFERRED.with(Cell::get) as usize;
        if first == u32::MAX as usize {
            // A thread that is about to end may have given it back.
            first = THREAD.try_with(Taken::number).unwrap_or_default() as usize;
        }
        for n in 0..places.len() {
            let index = (first + n) % places.len();
            let Some(seat) = Self::try_sit(&places[index]) else { continue };
            if !self.prepare(&seat, index) {
                continue;
            }
            if n == 0 || PREFERRED.with(Cell::get) == u32::MAX {
                PREFERRED.with(|p| p.set(index as u32));
            }
            return Ok(seat);
        }
        Err(self.all_taken())
    }

    /// Takes a seat whose slot comes after another one: for a participant that shares the snapshot of that
    /// ([`Participants::sit_beside`]).
    ///
    /// # Errors
    /// As of [`Participants::sit`].
    #[cold]
    pub(crate) fn sit_above(&self, slot: u16) -> Result<Seat<'_>> {
        self.region.check_fence()?;
        for (index, place) in self.places().iter().enumerate() {
            let Some(seat) = Self::try_sit(place) else { continue };
            if self.prepare(&seat, index) && seat.number() > slot {
                return Ok(seat);
            }
        }
        Err(self.all_taken())
    }

    fn all_taken(&self) -> Error {
        Error::too_many_at_once(format!(
            "all {} seats (sessions) of the environment are taken by open transactions and running \
             operations; end some",
            self.seats
        ))
    }

    /// Gives back all slots that are not held at the moment; nobody can sit down any more. For a process that
    /// leaves a region that others go on using.
    pub(crate) fn leave(&self) {
        if self.region.is_fenced() {
            return;
        }
        for place in self.places_used(self.used.fetch_or(LEFT, Ordering::AcqRel)) {
            if let Some(seat) = Self::try_sit(place) {
                // SAFETY: the seat is held, and never let go of; no reference to the participant outlives a
                // seat.
                if let Some(participant) = unsafe { seat.place.take() } {
                    participant.give_back();
                }
                std::mem::forget(seat);
            }
        }
    }

    fn take_slot(&self) -> Option<(u16, Tenant)> {
        let slots = self.region.geometry().slots;
        let (taken, tenant) = (1..slots)
            .find_map(|n| self.region.slot(n).try_take(self.region.number()).map(|tenant| (n, tenant)))?;
        if self.region.is_fenced() {
            // Unless a reaper has found it: then the slot says so.
            self.region.slot(taken).give_back(tenant);
            return None;
        }
        // The tenant before may have been taken for dead as it began to mend.
        self.region.slot(taken).end_mending();
        // SeqCst: a scan that follows a fence sees the mark, or this slot's pin comes after that fence.
        self.region.header().slots_high.0.fetch_max(u32::from(taken) + 1, Ordering::SeqCst);
        Some((taken, tenant))
    }
}

impl Drop for Participants {
    fn drop(&mut self) {
        // The slots do not belong to a child made by fork, nor to a process that was taken for dead.
        let inherited = self.region.is_fenced();
        for place in self.places_used(self.used.load(Ordering::Acquire)) {
            // SAFETY: seats borrow from `self`, so there are none.
            if let Some(participant) = unsafe { place.take() }
                && !inherited
            {
                participant.give_back();
            }
        }
    }
}

/// A participant, held.
#[derive(Debug)]
pub(crate) struct Seat<'a> {
    place: &'a SeatPlace,
    /// One thread at a time sits here.
    not_shared: PhantomData<Cell<()>>,
}

impl std::fmt::Debug for SeatPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SeatPlace")
    }
}

impl Seat<'_> {
    #[inline]
    fn ready(&self) -> bool {
        self.place.filled.get()
    }
}

impl Deref for Seat<'_> {
    type Target = LocalParticipant;
    #[inline]
    fn deref(&self) -> &LocalParticipant {
        // SAFETY: the seat is held, and is only handed out once the cell is filled; it is not emptied before
        // the table is dropped.
        unsafe { (*self.place.participant.get()).assume_init_ref() }
    }
}

impl Drop for Seat<'_> {
    #[inline]
    fn drop(&mut self) {
        let crowded = self.ready() && self.crowded.take();
        self.place.busy.store(0, Ordering::Release);
        if crowded {
            yield_now();
        }
    }
}

// SAFETY: the holder of the seat holds the participant exclusively, on whichever thread; a seat is not shared
// (it is not `Sync`).
unsafe impl Send for Seat<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::Geometry;

    fn region() -> Arc<Region> {
        Arc::new(Region::private(Geometry::new(4096, 1 << 20, 1 << 16, true)).unwrap())
    }

    #[test]
    fn nobody_sits_down_where_nobody_has_sat_after_all_have_left() {
        let region = region();
        let participants = Participants::new(Arc::clone(&region)).unwrap();
        let [held, one, two] = [(); 3].map(|()| participants.sit().unwrap());
        let given_back = [one.number(), two.number()];
        drop((one, two));
        participants.leave();
        assert!(participants.sit().is_err());
        assert!(participants.sit_above(0).is_err());
        let can_be_taken = |slot| region.slot(slot).try_take(0).is_some();
        assert_eq!(given_back.map(can_be_taken), [true, true]);
        assert!(!can_be_taken(held.number()));
    }

    /// Beside those of other tests.
    #[test]
    fn threads_that_come_one_after_the_other_use_few_places() {
        let participants = Participants::new(region()).unwrap();
        for _ in 0..900 {
            std::thread::scope(|scope| _ = scope.spawn(|| drop(participants.sit().unwrap())));
        }
        let used = participants.used.load(Ordering::Acquire);
        assert!(used < 450, "{used} places");
    }

    #[test]
    fn every_slot_is_given_back_whenever_they_leave() {
        for round in 0..200 {
            let region = region();
            let participants = Participants::new(Arc::clone(&region)).unwrap();
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| drop([(); 5].map(|()| participants.sit())));
                }
                (0..round).for_each(|_| std::hint::spin_loop());
                participants.leave();
            });
            drop(participants);
            let taken = |slot: &u16| region.slot(*slot).try_take(0).is_none();
            assert_eq!((1..region.geometry().slots).find(taken), None, "round {round}");
        }
    }
}
