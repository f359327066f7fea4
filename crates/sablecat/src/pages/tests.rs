//! Frames of a tiny pool: counted by state, and versions against a model of what each snapshot must see.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use sablecat_os::atomic::{AtomicU32, Ordering};
use sablecat_os::check::sparse;
use sablecat_os::sim::SimDisk;

use super::generation::Generations;
use super::participants::hand::pretend;
use super::participants::{PATIENCE, Superseded};
use super::pool::PageKinds;
use super::pool::frames::LIMBO_BATCH;
use super::pool::writing::{MarkedVersion, Writes};
use super::volume::Volume;
use super::{LocalParticipant, Pages, header};
use crate::error::ErrorKind;
use crate::region::tests::in_a_file;
use crate::region::{BlockWord, EntryWord, FrameState, Geometry, Region, Work};
use crate::types::{FrameId, Lsn, PageId, VolumeId};

/// Where the frames of a pool are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) free: usize,
    pub(crate) current: usize,
    pub(crate) old: usize,
    pub(crate) retired: usize,
    pub(crate) building: usize,
}

impl Pages {
    /// Counts the frames by state, while nobody is at work. Fails if a frame is lost (current by its own
    /// word, but of a page that has another) or named by two pages, or a latch is held.
    pub(crate) fn census(&self) -> Census {
        let mut census = Census::default();
        for frame in (1..self.region.geometry().frames as u32).map(FrameId) {
            let desc = self.region.frame(frame);
            match desc.state() {
                // Kept for removals, as free frames are first.
                FrameState::Free | FrameState::Building(0) => census.free += 1,
                FrameState::Building(_) | FrameState::Claimed(_) => census.building += 1,
                FrameState::Retired => census.retired += 1,
                FrameState::Published if desc.superseded() != Lsn::MAX => census.old += 1,
                FrameState::Published => {
                    let named = self.region.entry(desc.page()).word();
                    assert_eq!(
                        named,
                        EntryWord::new(frame, 0),
                        "{frame:?} says it is current for {:?}",
                        desc.page()
                    );
                    census.current += 1;
                }
            }
        }
        let named = (0..self.page_ids.high_water() as u32).map(PageId).filter(|&page| {
            let word = self.region.entry(page).word();
            assert_eq!(word.owner(), 0, "{page:?} is latched");
            word.frame() != FrameId::NONE
        });
        assert_eq!(named.count(), census.current, "pages in memory, and frames of current versions");
        census
    }

    /// How many frames some page has been in.
    pub(crate) fn frames_used(&self) -> usize {
        let frames = 1..self.region.geometry().frames as u32;
        frames.filter(|&frame| self.region.frame(FrameId(frame)).page() != PageId::NONE).count()
    }

    /// Sweeps over the whole pool several times, with all that was remembered of free frames forgotten.
    pub(crate) fn sweep_all(&self, me: &LocalParticipant) {
        for _ in 0..8 {
            self.forget_free(me);
            let _ = self.sweep_round(me, usize::MAX, true);
        }
        self.forget_free(me);
    }

    /// Sweeps until an eighth of the pool is free. An error says that this cannot be.
    pub(crate) fn sweep_some(&self, me: &LocalParticipant) {
        self.forget_free(me);
        let _ = self.refill(me, usize::MAX, 1);
    }

    /// Evicts all that may be, and then reads a page into a frame that is free.
    pub(crate) fn read_into(&self, frame: FrameId, page: PageId, me: &LocalParticipant) {
        self.sweep_all(me);
        assert_eq!(self.region.frame(frame).state(), FrameState::Free, "nothing holds it");
        me.free.borrow_mut().push(frame);
        assert_eq!(self.page_in(page, me).unwrap(), frame);
    }

    /// Whether somebody sleeps until the checkpoint role is free.
    pub(crate) fn is_checkpoint_waited_for(&self) -> bool {
        self.region.role(Work::Checkpoint).has_sleepers()
    }

    /// Marks some dirty current versions as being written, as a sweep does before it writes them.
    pub(crate) fn claim_some(&self, count: usize, me: &LocalParticipant) -> Vec<MarkedVersion> {
        let pages = (1..self.page_ids.high_water() as u32).map(PageId);
        let claim = |page| {
            let current = self.latch(page, me).unwrap();
            let claim = if current == FrameId::NONE { None } else { self.claim_write(current, me).unwrap() };
            self.unlatch(page, me);
            claim
        };
        pages.filter_map(claim).take(count).collect()
    }

    /// Writes what was marked.
    pub(crate) fn end_claims(&self, claims: Vec<MarkedVersion>) {
        let mut writes = Writes::new(self);
        claims.into_iter().for_each(|claim| writes.push(claim));
        writes.write_out(&self.participants.sit().unwrap()).unwrap();
    }

    /// Forgets the free frames that the participant remembers; sweeps find them again.
    pub(crate) fn forget_free(&self, me: &LocalParticipant) {
        me.free.borrow_mut().clear();
    }

    /// Builds something in all frames that are free.
    pub(crate) fn take_all_free(&self, me: &LocalParticipant) {
        let building = FrameState::Building(me.number());
        let frames = (1..self.region.geometry().frames as u32).map(FrameId);
        frames.for_each(|frame| _ = self.region.frame(frame).change(FrameState::Free, building));
    }

    /// As a participant that has waited for frames in vain, and then builds something else in some of those
    /// that it gets.
    pub(crate) fn overwrite_unlooked(&self, me: &LocalParticipant) {
        let _ = self.sweep_round(me, usize::MAX, true);
        self.free_unlooked(me, true);
        let taken: Vec<_> = (0..3).map_while(|_| self.take_frame(me).ok()).collect();
        for frame in taken {
            // SAFETY: the frame is building and ours. (This is to find a participant that looks at it
            // nevertheless.)
            unsafe { self.region.page_mut(frame) }.fill(0);
            self.drop_frame(frame, me);
        }
    }

    /// As a sweep does that finds no other way. Says whether there was a snapshot older than the newest
    /// state.
    pub(crate) fn give_up_oldest(&self, me: &LocalParticipant) -> bool {
        self.revoke_oldest(me)
    }
}

/// Pages that hold anything, and have no gap.
const ANY: PageKinds = PageKinds { check: |_| Ok(()), gap: |_| 0..0 };

pub(in crate::pages) fn pool(frames: usize) -> Pages {
    pool_over(frames, None)
}

pub(in crate::pages) fn pool_over(frames: usize, volume: Option<Volume>) -> Pages {
    let geometry = Geometry {
        block_size: 512,
        page_size: 512,
        frames: frames + 1,
        slots: 8,
        ring_bytes: 65536,
        lock_words: 64,
        pages_max: 4096,
        blocks_max: 4096,
        volumes: 1,
        members: 1,
    };
    let pages = Pages::new(Arc::new(Region::shareable(geometry).unwrap()), volume, ANY).unwrap();
    pages.page_ids.assume_used_below(1).unwrap();
    pages
}

/// What the commit step does for one page, without its role, record and list: there is one committer here.
pub(in crate::pages) fn commit(
    pages: &Pages,
    page: PageId,
    stamp: Option<u64>,
    me: &LocalParticipant,
) -> Result<Lsn, ()> {
    let old = pages.latch(page, me).unwrap();
    let new = loop {
        match pages.take_frame(me) {
            Ok(frame) => break frame,
            Err(_) if pages.refill(me, 2, 1).is_ok() => {}
            Err(_) => {
                pages.unlatch(page, me);
                return Err(());
            }
        }
    };
    // SAFETY: the frame is building and ours.
    let bytes = unsafe { pages.region.page_mut(new) };
    bytes.fill(0);
    match stamp {
        Some(stamp) => {
            bytes[64..].chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&stamp.to_le_bytes()))
        }
        None => header::form_free(bytes, page, 0),
    }
    pages.region.frame(new).describe(page, old, BlockWord::NOTHING);
    let at = Lsn(pages.region.header().visible().0 + 8);
    pages.region.born(new).store(at.0, Ordering::Relaxed);
    pages.region.frame(new).set_state(FrameState::Published);
    if old != FrameId::NONE {
        pages.region.frame(old).supersede(at);
    }
    pages.swing(page, EntryWord::new(old, me.number()), EntryWord::new(new, 0));
    pages.region.header().visible.0.fetch_max(at.0, Ordering::SeqCst);
    if old != FrameId::NONE {
        pages.superseded(old, at, me);
        pages.reclaim_batch(me);
    }
    Ok(at)
}

/// Pages and their stamps, as of one snapshot.
type State = BTreeMap<u32, u64>;

pub(in crate::pages) fn read(
    pages: &Pages,
    page: u32,
    at: Lsn,
    me: &LocalParticipant,
) -> Result<u64, crate::error::Error> {
    let mut snapshot = pages.at_pin(me, at)?;
    let bytes = snapshot.page(PageId(page))?;
    assert!(bytes[64..].chunks_exact(8).all(|word| word == &bytes[64..72]), "one version, whole");
    Ok(u64::from_le_bytes(bytes[64..72].try_into().expect("eight bytes")))
}

/// Random commits and frees by one participant, snapshots of others, sweeps: every snapshot sees its state to
/// the end, or is told that it was given up; at the end no frame is lost and no page id is.
fn random_life(seed: u64, frames: usize, steps: u64) {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut dice = |bound: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % bound
    };
    let pages = pool(frames);
    let writer = pages.participants.sit().unwrap();
    let readers: Vec<_> = (0..4).map(|_| pages.participants.sit().unwrap()).collect();
    let mut pinned: Vec<Option<(Lsn, State)>> = vec![None; readers.len()];
    let mut now = State::new();
    let (mut full, mut revoked) = (0, 0);
    for step in 0..steps {
        let n = dice(readers.len() as u64) as usize;
        match dice(16) {
            0..8 => {
                // At most half of the frames in current versions, so that there is room for old ones.
                let page = if now.len() < frames / 2 && dice(4) == 0 {
                    pretend(|| pages.allocate_page().unwrap())
                } else if let Some((&page, _)) = now.iter().nth(dice(now.len().max(1) as u64) as usize) {
                    PageId(page)
                } else {
                    continue;
                };
                match commit(&pages, page, Some(step), &writer) {
                    Ok(_) => drop(now.insert(page.0, step)),
                    Err(()) => {
                        full += 1;
                        if !now.contains_key(&page.0) {
                            pretend(|| pages.release_page(page));
                        }
                    }
                }
            }
            8 => {
                if let Some((&page, _)) = now.iter().nth(dice(now.len().max(1) as u64) as usize)
                    && commit(&pages, PageId(page), None, &writer).is_ok()
                {
                    now.remove(&page);
                }
            }
            9..11 => pinned[n] = Some((pages.pin(&readers[n]), now.clone())),
            11 => {
                readers[n].slot().unpin();
                pinned[n] = None;
            }
            12 => pages.sweep_some(&writer),
            _ => {
                let Some((at, then)) = &pinned[n] else { continue };
                let mut gone = false;
                for (&page, &stamp) in then {
                    match read(&pages, page, *at, &readers[n]) {
                        Ok(found) => {
                            assert_eq!(found, stamp, "seed {seed}, step {step}: page {page} at {at:?}")
                        }
                        Err(error) => {
                            assert_eq!(
                                error.kind(),
                                crate::error::ErrorKind::SnapshotTooOld,
                                "seed {seed}, step {step}: {error}"
                            );
                            gone = true;
                        }
                    }
                }
                if gone {
                    revoked += 1;
                    readers[n].slot().unpin();
                    pinned[n] = None;
                }
            }
        }
        pages.census();
    }
    assert!(
        full == 0 || frames < 16,
        "seed {seed}: half of the pool was free or old, but {full} commits found it full"
    );
    let _ = revoked;
    readers.iter().for_each(|reader| reader.slot().unpin());
    pages.sweep_all(&writer);
    let census = pages.census();
    let whole = Census { free: frames - now.len(), current: now.len(), ..Census::default() };
    assert_eq!(census, whole, "seed {seed}: with no snapshot left, a frame is free or holds what is current");
    assert_eq!(
        pages.page_ids.used_count(),
        1 + now.len() as u64,
        "seed {seed}: the ids in use are those of the pages there are"
    );
    for (&page, &stamp) in &now {
        let snapshot = pages.snapshot(&writer);
        let at = snapshot.at;
        drop(snapshot);
        writer.slot().set_pin(at);
        assert_eq!(read(&pages, page, at, &writer).unwrap(), stamp);
    }
}

#[test]
fn snapshots_see_their_state_and_no_frame_is_lost() {
    for seed in 0..60 {
        random_life(seed, 12 + (seed as usize % 5) * 8, 400);
    }
}

/// A version between two pinned ones goes, and the chain around it holds.
#[test]
fn a_version_that_no_snapshot_sees_is_taken_from_the_middle_of_its_chain() {
    let pages = pool(16);
    let (writer, first, last) = (
        pages.participants.sit().unwrap(),
        pages.participants.sit().unwrap(),
        pages.participants.sit().unwrap(),
    );
    let page = pretend(|| pages.allocate_page().unwrap());
    commit(&pages, page, Some(1), &writer).unwrap();
    let oldest = pages.pin(&first);
    for stamp in 2..6 {
        commit(&pages, page, Some(stamp), &writer).unwrap();
    }
    let middle = pages.pin(&last);
    for stamp in 6..9 {
        commit(&pages, page, Some(stamp), &writer).unwrap();
    }
    assert_eq!(pages.census().old, 7);
    pages.sweep_all(&writer);
    assert_eq!((pages.census().old, pages.census().retired), (2, 0));
    assert_eq!(read(&pages, page.0, oldest, &first).unwrap(), 1);
    assert_eq!(read(&pages, page.0, middle, &last).unwrap(), 5);
    first.slot().unpin();
    pages.sweep_all(&writer);
    assert_eq!(read(&pages, page.0, middle, &last).unwrap(), 5);
    last.slot().unpin();
    pages.sweep_all(&writer);
    assert_eq!(pages.census(), Census { free: 15, current: 1, ..Census::default() });
}

/// Between a sweep's walk along a chain and what it does there the pins may go, and the version in front of
/// the one that it wants be freed, its frame be used for another page: that page's chain is left as it is.
#[test]
fn a_chain_that_has_been_freed_under_a_sweep_is_left_alone() {
    let pages = pool(16);
    let [writer, idle, sweeper, reader] = [(); 4].map(|()| pages.participants.sit().unwrap());
    let (page, other) =
        (pretend(|| pages.allocate_page().unwrap()), pretend(|| pages.allocate_page().unwrap()));
    commit(&pages, page, Some(1), &writer).unwrap();
    pages.pin(&reader);
    // The participant that supersedes a version is the first to free it: one remains, of an older state than
    // one that is freed.
    for seat in [&writer, &idle, &writer] {
        commit(&pages, page, Some(2), seat).unwrap();
    }
    let current = pages.latch(page, &sweeper).unwrap();
    let newer = pages.region.frame(current).previous();
    let old = pages.region.frame(newer).previous();
    let superseded = pages.region.frame(old).superseded();
    assert_eq!((pages.behind(current, page), pages.behind(newer, page)), (Some(newer), Some(old)));

    reader.slot().unpin();
    assert!(pages.reclaim_own(&writer));
    pages.pin(&reader);
    let reused = || {
        pages.region.frame(newer).state() == FrameState::Published
            && pages.region.frame(newer).page() == other
    };
    let stamp = (0..16)
        .find(|&stamp| commit(&pages, other, Some(stamp), &writer).is_ok() && reused())
        .expect("a frame that is free is used");
    let before = pages.region.frame(newer).previous();
    let at = pages.pin(&sweeper);
    commit(&pages, other, Some(99), &writer).unwrap();
    assert!(!pages.take_from_chain(newer, false, Superseded { frame: old, at: superseded }, page, &sweeper));
    assert_eq!(pages.region.frame(newer).previous(), before);
    assert_eq!(read(&pages, other.0, at, &sweeper).unwrap(), stamp);
    pages.unlatch(page, &sweeper);
    [&sweeper, &reader].iter().for_each(|seat| seat.slot().unpin());
    pages.sweep_all(&writer);
    assert_eq!(pages.census(), Census { free: 14, current: 2, ..Census::default() });
}

/// A process that dies as it takes a version out of the middle of its chain leaves it claimed until that is
/// mended. A committer that holds the latch may have to read what is behind it first.
#[test]
fn a_version_claimed_by_the_dead_is_read_and_passed_by_who_holds_the_latch() {
    for claimed in 0..3 {
        let pages = pool(16);
        let (writer, dead) = (pages.participants.sit().unwrap(), pages.participants.sit().unwrap());
        let page = pretend(|| pages.allocate_page().unwrap());
        commit(&pages, page, Some(1), &writer).unwrap();
        let at = pages.pin(&writer);
        (2..6).for_each(|stamp| _ = commit(&pages, page, Some(stamp), &writer).unwrap());
        let mut chain = vec![pages.latch(page, &writer).unwrap()];
        while let frame @ FrameId(1..) = pages.region.frame(chain[chain.len() - 1]).previous() {
            chain.push(frame);
        }
        assert_eq!(chain.len(), 5);
        let claim = chain[[1, 3, 4][claimed]];
        assert!(pages.region.frame(claim).change(FrameState::Published, FrameState::Claimed(dead.number())));
        assert_eq!(read(&pages, page.0, at, &writer).unwrap(), 1);
        pages.free_frames_of(dead.number(), &dead);
        assert_eq!(
            pages.region.frame(claim).state(),
            FrameState::Published,
            "nobody waits for who has the latch"
        );
        assert_eq!(read(&pages, page.0, at, &writer).unwrap(), 1);
        pages.unlatch(page, &writer);
    }
}

/// Snapshots that come and go cannot make frames run out: none of them needs more than the frame of one old
/// version.
#[test]
fn snapshots_that_end_in_time_leave_room() {
    const COMMITS: u64 = 200_000;
    let pages = pool(2);
    let writer = pages.participants.sit().unwrap();
    let page = pretend(|| pages.allocate_page().unwrap());
    commit(&pages, page, Some(0), &writer).unwrap();
    let done = AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let reader = pages.participants.sit().unwrap();
            while done.load(Ordering::Relaxed) == 0 {
                let at = pages.pin(&reader);
                // It may be told that it took too long.
                let _ = read(&pages, page.0, at, &reader);
                reader.slot().unpin();
            }
        });
        let failed = (1..=COMMITS).find(|&stamp| commit(&pages, page, Some(stamp), &writer).is_err());
        done.store(1, Ordering::Relaxed);
        assert_eq!(failed, None);
    });
}

/// A snapshot that another's sweep gave up while its owner looked for frames is what the owner is told of,
/// not a cache that is too small.
#[test]
fn who_finds_no_frame_after_its_snapshot_was_given_up_is_told_so() {
    let pages = pool(4);
    let (one, two) = (pages.participants.sit().unwrap(), pages.participants.sit().unwrap());
    let page = pretend(|| pages.allocate_page().unwrap());
    commit(&pages, page, Some(0), &two).unwrap();
    pages.pin(&one);
    commit(&pages, page, Some(1), &two).unwrap();
    assert!(pages.revoke_oldest(&two));
    while pages.take_frame(&two).is_ok() || pages.refill(&two, 1, 1).is_ok() {}
    assert_eq!(pages.refill(&one, 1, 1).unwrap_err().kind(), ErrorKind::SnapshotTooOld);
    assert_eq!(pages.refill(&two, 1, 1).unwrap_err().kind(), ErrorKind::CacheFull);
}

/// Others are given the processor for every so many versions that a pin holds back, and no more often however
/// long it lasts.
#[test]
fn who_is_held_up_by_a_pin_gives_way_now_and_then() {
    let pages = pool(8192);
    let (writer, reader) = (pages.participants.sit().unwrap(), pages.participants.sit().unwrap());
    pages.refill(&writer, 8000, 8000).unwrap();
    let page = pretend(|| pages.allocate_page().unwrap());
    let gives_way = |times: usize| -> usize {
        let mut ways = 0;
        for _ in 0..times {
            commit(&pages, page, Some(7), &writer).unwrap();
            ways += usize::from(writer.crowded.take());
        }
        ways
    };
    assert_eq!(gives_way(10 * PATIENCE), 0, "nothing is held back");
    for _ in 0..2 {
        pages.pin(&reader);
        assert_eq!(gives_way(PATIENCE - LIMBO_BATCH), 0, "a pin that is over soon");
        assert_eq!(gives_way(10 * PATIENCE), 10);
        reader.slot().unpin();
        assert_eq!(gives_way(10 * PATIENCE), 0);
    }
    pages.pin(&reader);
    let for_all_remembered = gives_way(5000);
    assert_eq!((for_all_remembered, gives_way(1000)), (4096 / PATIENCE, 0), "a pin that stays");
}

/// Frames taken by one and given up are free for all, once.
#[test]
fn a_frame_has_one_owner_though_several_remember_it_as_free() {
    let pages = pool(16);
    // But for the last of them, which are for participants that remove.
    let free = 14;
    let (one, two) = (pages.participants.sit().unwrap(), pages.participants.sit().unwrap());
    let take = |me: &LocalParticipant| {
        let mut taken = Vec::new();
        loop {
            match pages.take_frame(me) {
                Ok(frame) => taken.push(frame),
                Err(_) if pages.refill(me, 4, 1).is_ok() && !me.free.borrow().is_empty() => {}
                Err(_) => return taken,
            }
        }
    };
    pages.refill(&one, 4, 1).unwrap();
    pages.refill(&two, 4, 1).unwrap();
    let mut all = take(&one);
    assert_eq!(all.len(), free);
    assert!(pages.take_frame(&two).is_err(), "what it remembers is taken");
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), free);
    all.into_iter().for_each(|frame| pages.drop_frame(frame, &one));
    assert_eq!(take(&two).len(), free);
}

/// An operation that lasts keeps the page that it looks at, and the versions of its snapshot; the others use
/// all other frames again and again.
#[test]
fn an_operation_that_lasts_keeps_the_one_frame_it_looks_at() {
    const FRAMES: usize = 64;
    let pages = pool(FRAMES);
    let [writer, reader] = [(); 2].map(|()| pages.participants.sit().unwrap());
    let all: Vec<PageId> = (0..8).map(|_| pretend(|| pages.allocate_page().unwrap())).collect();
    all.iter().for_each(|&page| _ = commit(&pages, page, Some(7), &writer).unwrap());
    let at = pages.pin(&reader);
    let mut snapshot = pages.at_pin(&reader, at).unwrap();
    let seen = snapshot.page(all[0]).unwrap();
    for stamp in 0..10 * FRAMES as u64 {
        commit(&pages, all[stamp as usize % all.len()], Some(100 + stamp), &writer)
            .expect("frames come back");
        assert!(seen[64..].chunks_exact(8).all(|word| word == 7u64.to_le_bytes()), "what is looked at stays");
    }
    for &page in &all {
        assert_eq!(snapshot.page(page).unwrap()[64..72], 7u64.to_le_bytes(), "the snapshot stays");
    }
    drop(snapshot);
    // One that may look at anything keeps everything.
    let operation = pages.enter(&reader);
    let refused =
        (0..10 * FRAMES as u64).find(|&stamp| commit(&pages, all[0], Some(stamp), &writer).is_err());
    assert!(refused.is_some(), "what is linked nowhere any more may still be looked at");
    drop(operation);
    reader.slot().unpin();
    commit(&pages, all[0], Some(1), &writer).unwrap();
}

/// What a walk along a chain has come upon counts only if it is still that: in a frame that was used again
/// meanwhile may be anything.
#[test]
fn a_version_is_what_it_was_until_its_frame_is_used_again() {
    let pages = pool(16);
    let [writer, reader] = [(); 2].map(|()| pages.participants.sit().unwrap());
    let [page, other] = [(); 2].map(|()| pretend(|| pages.allocate_page().unwrap()));
    let before = commit(&pages, page, Some(1), &writer).unwrap();
    let frame = pages.region.entry(page).word().frame();
    assert!(!pages.is_still(frame, page, before, before), "the current version is told by its page alone");
    let at = pages.pin(&reader);
    let after = commit(&pages, page, Some(2), &writer).unwrap();
    assert!(pages.is_still(frame, page, before, at));
    assert!(!pages.is_still(frame, other, before, at), "another page's");
    assert!(!pages.is_still(frame, page, after, at), "born at another time");
    assert!(!pages.is_still(frame, page, before, after), "superseded by then");
    reader.slot().unpin();
    pages.sweep_all(&writer);
    assert!(!pages.is_still(frame, page, before, at), "free");
    let me = FrameState::Building(writer.number());
    assert!(pages.region.frame(frame).change(FrameState::Free, me));
    let current = pages.region.entry(page).word().frame();
    // SAFETY: the frame is building and ours; the current version stays, since nobody sweeps.
    unsafe { pages.region.page_mut(frame).copy_from_slice(pages.region.page(current)) };
    pages.region.frame(frame).describe(page, current, BlockWord::NOTHING);
    assert!(!pages.is_still(frame, page, after, after), "the next version, of which nobody knows yet");
    pages.drop_frame(frame, &writer);
}

/// Memory that was not asked for beforehand may not be there when it is touched, and then the process is
/// killed.
#[test]
fn nothing_of_a_shared_region_is_touched_before_its_memory_is_certain() {
    // What describes the frames has memory from the beginning in the first, and as they do in the second.
    for cache_bytes in [1 << 20, 64 << 20] {
        touches_what_is_certain(Geometry::new(512, cache_bytes, 65536, false).with_volumes(3));
    }
}

fn touches_what_is_certain(geometry: Geometry) {
    let (file, region) = in_a_file("touched", geometry);
    let volume = Volume::create(
        &SimDisk::new(1),
        Path::new("sablecat.db"),
        crate::pages::volume::tests::plain(512),
        [7; 16],
        false,
    )
    .unwrap();
    let region = Arc::new(region);
    let check = |what: &str| {
        const PAGE: usize = 4096;
        let certain = region.certain();
        let is_certain = |at: usize| certain.iter().any(|bytes| bytes.start < at + PAGE && at < bytes.end);
        for extent in sparse::extents(&file).unwrap() {
            let touched =
                (extent.start as usize..extent.end as usize).step_by(PAGE).find(|&at| !is_certain(at));
            assert_eq!(touched, None, "{what}: within {extent:?}");
        }
    };
    check("made");
    let mut numbers = Generations::new(Arc::clone(&region), None).unwrap();
    // Where the next number needs another page of the table, or of a summary.
    for step in [64 * 64 * 64, 512 * 64 * 64, 1 << 16] {
        numbers.page_ids.assume_used_below(step - 3).unwrap();
        (0..70).for_each(|_| _ = pretend(|| numbers.allocate_page().unwrap()));
        check("page ids");
        let run = pretend(|| numbers.allocate_run(1 << 17).unwrap());
        check("a run of page ids");
        pretend(|| numbers.release_run(run, 1 << 17));
        check("given back");
    }
    for volume in (0..3).map(VolumeId) {
        let blocks = numbers.blocks().of(volume);
        blocks.assume_used_below(((512 * 64 * 64) << (3 * volume.0)) - 3).unwrap();
        check("blocks in use");
        (0..70).for_each(|_| _ = pretend(|| numbers.allocate_block(volume).unwrap()));
        let run = pretend(|| numbers.allocate_blocks(volume, 1 << 18).unwrap());
        check("blocks");
        pretend(|| numbers.blocks().release_run(run, 1 << 18));
        assert!(!blocks.is_used(blocks.capacity() - 1));
        check("blocks given back");
    }
    // The last page before a step shares a leaf of the map with some behind it.
    numbers.volume = Some(volume);
    let last = region.header().pages_ready.load(Ordering::SeqCst) - 1;
    let left = last + 1 - numbers.page_ids.high_water();
    pretend(|| numbers.allocate_run(left).unwrap());
    numbers.learn_block(PageId(last as u32)).unwrap();
    let pages = Pages::over(numbers, ANY);
    assert!(!pages.begins_run(PageId(last as u32)));
    check("the map");
    let me = pages.participants.sit().unwrap();
    pages.refill(&me, 16, 1).unwrap();
    pages.mark_unsaved(PageId(last as u32));
    check("frames");
}
