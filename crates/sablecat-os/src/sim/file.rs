//! One simulated file: what a reader sees, what is durable, and the changes between the two.
//!
//! A disk writes a sector at a time, from a cache that holds the newest bytes. So after a power failure each
//! sector is as some unsynced write left it (with all earlier writes to that sector in it), or as it was;
//! sectors know nothing of one another. Lengths are the file system's, which changes them in order: the file
//! has one of the lengths it had since the last sync. Three rules tie lengths to bytes. What a surviving cut
//! removed stays removed: those bytes are zero if the file grew again. A cut frees the blocks behind it; what
//! is written there later goes to other blocks, which nobody finds if the cut did not survive. The block that
//! a cut goes through is not freed, but filled up with zeros, which is a write like others. So is a hole that
//! is made, sector by sector: file systems make it at once or not at all, which is among that.

use std::collections::HashMap;

use super::bytes::{Bytes, CHUNK};
use super::crash::{Fate, Fates, SECTOR};

/// The unit in which the file system gives space to files.
const BLOCK: u64 = CHUNK;

/// What happened to a file since it was last synced.
#[derive(Debug)]
struct Change {
    moment: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    Write {
        offset: u64,
        bytes: Box<[u8]>,
        /// Through a window: memory is copied while the disk may be reading it, so a sector may hold a part
        /// of it.
        window: bool,
    },
    /// As a write of zeros, but that it takes no space.
    Punch {
        offset: u64,
        len: u64,
    },
    SetLen(u64),
    Allocate {
        offset: u64,
        len: u64,
    },
}

#[derive(Debug, Default)]
pub(super) struct FileState {
    now: Bytes,
    durable: Bytes,
    changes: Vec<Change>,
    /// Openings and windows.
    pub(super) users: usize,
    /// The opening that has the lock.
    pub(super) lock: Option<u64>,
    /// A write was lost, though nobody was told; before the last crash, perhaps.
    pub(super) lied: bool,
}

impl FileState {
    /// A file that holds these bytes, all durable.
    pub(super) fn holding(bytes: Bytes) -> FileState {
        FileState { now: bytes.clone(), durable: bytes, ..FileState::default() }
    }

    pub(super) fn now(&self) -> &Bytes {
        &self.now
    }

    /// The moments of the changes that are not durable.
    pub(super) fn moments(&self) -> impl Iterator<Item = u64> {
        self.changes.iter().map(|change| change.moment)
    }

    pub(super) fn write(&mut self, moment: u64, offset: u64, bytes: Box<[u8]>, window: bool) {
        if !bytes.is_empty() {
            self.change(moment, What::Write { offset, bytes, window });
        }
    }

    pub(super) fn set_len(&mut self, moment: u64, len: u64) {
        let filled_to = len.next_multiple_of(BLOCK).min(self.now.len());
        if len < filled_to {
            let zeroes = vec![0; (filled_to - len) as usize];
            self.write(moment, len, zeroes.into(), false);
        }
        self.change(moment, What::SetLen(len));
    }

    pub(super) fn allocate(&mut self, moment: u64, offset: u64, len: u64) {
        self.change(moment, What::Allocate { offset, len });
    }

    pub(super) fn punch(&mut self, moment: u64, offset: u64, len: u64) {
        // Nothing is there behind the end.
        let len = len.min(self.now.len().saturating_sub(offset));
        if len > 0 {
            self.change(moment, What::Punch { offset, len });
        }
    }

    fn change(&mut self, moment: u64, what: What) {
        what.apply(&mut self.now);
        self.changes.push(Change { moment, what });
    }

    /// Makes the bytes of a range durable, and no others. A range beyond the durable length takes everything
    /// else along, as the length has to become durable too.
    pub(super) fn sync_range(&mut self, offset: u64, len: usize) {
        let end = offset + len as u64;
        if end > self.durable.len() {
            self.sync();
            return;
        }
        let mut bytes = vec![0; len];
        self.now.read(&mut bytes, offset);
        self.durable.write(offset, &bytes);
        let synced = offset..end;
        // Of earlier writes what lies outside is pending still.
        for Change { moment, what } in std::mem::take(&mut self.changes) {
            let (from, bytes, window) = match what {
                What::Write { offset, bytes, window } => (offset, bytes, window),
                What::Punch { offset, len } => {
                    for (at, to) in
                        [(offset, synced.start.min(offset + len)), (synced.end.max(offset), offset + len)]
                    {
                        if at < to {
                            self.changes
                                .push(Change { moment, what: What::Punch { offset: at, len: to - at } });
                        }
                    }
                    continue;
                }
                what => {
                    self.changes.push(Change { moment, what });
                    continue;
                }
            };
            let within = |at: u64| (at.max(from) - from).min(bytes.len() as u64) as usize;
            for (begins, part) in [(from, &bytes[..within(offset)]), (end.max(from), &bytes[within(end)..])] {
                if !part.is_empty() {
                    self.changes.push(Change {
                        moment,
                        what: What::Write { offset: begins, bytes: part.into(), window },
                    });
                }
            }
        }
    }

    pub(super) fn sync(&mut self) {
        for change in self.changes.drain(..) {
            change.what.apply(&mut self.durable);
        }
    }

    /// A sync that fails: some of it is durable, the rest is given up. Readers see it for a while, or not.
    pub(super) fn fail_to_sync(&mut self, fates: &mut Fates) {
        self.durable = self.after_crash(fates);
        self.changes.clear();
        if fates.part() {
            self.now = self.durable.clone();
        }
    }

    /// What the disk holds of this file after a power failure.
    pub(super) fn after_crash(&self, fates: &mut Fates) -> Bytes {
        let mut bytes = self.durable.clone();
        if self.changes.is_empty() {
            return bytes;
        }
        let verdict = self.verdict(fates);
        let mut len = bytes.len();
        // From here on, bytes are in places that the file system does not know of.
        let mut unseen_from = u64::MAX;
        for (index, change) in self.changes.iter().enumerate() {
            let length_survives = index < verdict.lengths;
            match &change.what {
                What::Write { offset, bytes: new, .. } => {
                    for part in sectors(*offset, new.len()) {
                        let Some(last) = verdict.sectors.get(&part.sector) else {
                            continue;
                        };
                        if index > last.index {
                            continue;
                        }
                        let (from, to) =
                            if index == last.index { last.cut(&part) } else { (part.start, part.end) };
                        let to = to.min(unseen_from.saturating_sub(*offset).try_into().unwrap_or(usize::MAX));
                        if from < to {
                            bytes.write(offset + from as u64, &new[from..to]);
                        }
                    }
                    if length_survives {
                        len = len.max(offset + new.len() as u64);
                    }
                }
                What::Punch { offset, len: count } => {
                    for part in sectors(*offset, *count as usize) {
                        let survives =
                            verdict.sectors.get(&part.sector).is_some_and(|last| index <= last.index);
                        let (from, to) = (offset + part.start as u64, offset + part.end as u64);
                        if survives && from < unseen_from {
                            bytes.punch(from, to.min(unseen_from) - from);
                        }
                    }
                    bytes.give_up_zeros(*offset, *count);
                }
                What::SetLen(new) if length_survives => {
                    bytes.set_len(*new);
                    len = *new;
                }
                What::SetLen(new) => unseen_from = unseen_from.min(new.next_multiple_of(BLOCK)),
                What::Allocate { offset, len: count } if length_survives => {
                    bytes.allocate(*offset, *count);
                    len = len.max(offset + count);
                }
                What::Allocate { .. } => {}
            }
        }
        bytes.set_len(len);
        bytes
    }

    /// Decides how far each sector and the length got.
    fn verdict(&self, fates: &mut Fates) -> Verdict {
        let mut verdict = Verdict { lengths: 0, sectors: HashMap::new() };
        for (index, change) in self.changes.iter().enumerate() {
            let fate = fates.of(change.moment);
            let (offset, len, window) = match &change.what {
                What::Write { offset, bytes, window } => (*offset, bytes.len(), *window),
                What::Punch { offset, len } => (*offset, *len as usize, false),
                What::SetLen(_) | What::Allocate { .. } => {
                    if fate == Fate::Survives || fate == Fate::Torn && fates.part() {
                        verdict.lengths = index + 1;
                    }
                    continue;
                }
            };
            if fate == Fate::Lost {
                continue;
            }
            for part in sectors(offset, len) {
                let torn = fate == Fate::Torn;
                if torn && !fates.part() {
                    continue;
                }
                // Words are what memory is copied by.
                let words = (part.end - part.start) as u64 / 8;
                let kept = (torn && window && fates.part()).then(|| 8 * fates.dice.below(words + 1) as usize);
                verdict.sectors.insert(part.sector, Last { index, kept });
                verdict.lengths = index + 1;
            }
        }
        if fates.length_strays() {
            verdict.lengths = fates.dice.below(self.changes.len() as u64 + 1) as usize;
        }
        verdict
    }
}

impl What {
    fn apply(&self, to: &mut Bytes) {
        match self {
            What::Write { offset, bytes, .. } => to.write(*offset, bytes),
            What::Punch { offset, len } => to.punch(*offset, *len),
            What::SetLen(len) => to.set_len(*len),
            What::Allocate { offset, len } => to.allocate(*offset, *len),
        }
    }
}

/// How far the parts of a file got before the power failed.
struct Verdict {
    /// Of the changes, this many had their effect on the length made durable.
    lengths: usize,
    /// The last write that each sector got.
    sectors: HashMap<u64, Last>,
}

struct Last {
    index: usize,
    /// How many bytes of that write's part the sector got, if not all.
    kept: Option<usize>,
}

impl Last {
    fn cut(&self, part: &Part) -> (usize, usize) {
        (part.start, self.kept.map_or(part.end, |kept| part.start + kept))
    }
}

/// The part of a write that lies in one sector: a range of the write's bytes.
struct Part {
    sector: u64,
    start: usize,
    end: usize,
}

fn sectors(offset: u64, len: usize) -> impl Iterator<Item = Part> {
    let end = offset + len as u64;
    (offset / SECTOR..end.div_ceil(SECTOR)).map(move |sector| Part {
        sector,
        start: ((sector * SECTOR).max(offset) - offset) as usize,
        end: (((sector + 1) * SECTOR).min(end) - offset) as usize,
    })
}
