//! Memory for frames that nobody has used: found before it is needed.
//!
//! The system finds and clears memory when it is first touched, a large page at a time: half a millisecond,
//! in virtual machines several, in which the participant that happens to come there first does nothing else.
//! So the thread that cleans has it done for the large page that the clock's hand comes to next, as long as
//! the hand goes through the pool for the first time.
//!
//! Not from the beginning: an environment with little in it is to need little.

use sablecat_os::atomic::Ordering;

use super::Pool;

/// So many large pages must be in use before others are brought.
const USED_MIN: u64 = 4;

impl Pool {
    /// The hand goes on by `step` frames from here: calls the cleaner if it comes into another large page,
    /// and nobody has used what follows.
    pub(super) fn want_fresh(&self, hand: u64, step: u64) {
        if hand % self.region.frames_in_large_page() < step && self.is_first_round(hand) {
            self.call_cleaner();
        }
    }

    /// Has memory found for the frames that nobody has used and that are used next.
    pub(super) fn bring_fresh(&self) {
        let hand = self.region.header().hand.0.load(Ordering::Relaxed);
        let ready = self.frames_ready();
        let used = if self.region.membership().is_some() { ready } else { hand };
        if self.is_first_round(used) {
            self.region.bring_frames(hand);
        }
    }

    /// Whether frames that nobody has used follow this one, and many were used.
    fn is_first_round(&self, hand: u64) -> bool {
        let used_min = USED_MIN * self.region.frames_in_large_page();
        (used_min..self.region.geometry().frames as u64).contains(&hand)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use sablecat_os::mapping::{LARGE_PAGE, Mapping};

    use super::*;
    use crate::pages::tests::pool;
    use crate::types::FrameId;

    /// So many bytes of the mapping with an address are in memory.
    fn resident(address: *const u8) -> usize {
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut within = false;
        for line in maps.lines() {
            let word = line.split(' ').next().unwrap();
            if let Some((from, to)) = word.split_once('-') {
                let number = |text| usize::from_str_radix(text, 16);
                if let (Ok(from), Ok(to)) = (number(from), number(to)) {
                    within = (from..to).contains(&address.addr());
                }
            } else if let (true, Some(rss)) = (within, line.strip_prefix("Rss:")) {
                return rss.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10;
            }
        }
        panic!("no mapping has {address:p}");
    }

    #[test]
    fn memory_for_the_next_frames_is_brought_once_many_are_used() {
        if !Mapping::anonymous(4096).unwrap().populate(0, 4096) {
            eprintln!("left out: the kernel does not bring memory before it is touched");
            return;
        }
        let pages = pool(10 * LARGE_PAGE / 512);
        let me = pages.participants.sit().unwrap();
        let each = pages.region.frames_in_large_page();
        // The hand comes into the nth large page; what is brought then, if the cleaner is called.
        let brought = |n: u64| {
            pages.region.header().hand.0.store(n * each, Ordering::Relaxed);
            let one_more = me.free.borrow().len() + 1;
            pages.look_for_frames(&me, one_more).unwrap();
            assert_eq!(pages.cleaner.is_rung(), n >= USED_MIN && n * each < pages.frames_ready());
            assert!(pages.cleaner.listen(Duration::ZERO));
            let at = pages.region.frame_pointer(FrameId(1)).as_ptr();
            let before = resident(at);
            pages.clean(&me).unwrap();
            (resident(at) - before) / LARGE_PAGE
        };
        assert_eq!(brought(USED_MIN - 1), 0, "an environment with little in it needs little");
        assert_eq!(brought(USED_MIN), 1);
        assert_eq!(brought(USED_MIN), 0, "that is there");
        assert_eq!(brought(USED_MIN + 1), 1);
        assert_eq!(brought(12), 0, "all were used");
    }
}
