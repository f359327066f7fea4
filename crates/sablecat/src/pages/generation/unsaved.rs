//! Which pages have changed since a checkpoint looked at them: two bits a page, in words {tag 32 | bits of 32
//! pages 32}.
//!
//! A commit sets a page's bit in `unsaved`. A checkpoint moves the bits of a word to `capturing` before it
//! looks at its pages, and clears these when it stands: so the successor of one that failed or died finds the
//! same pages again.
//!
//! A participant that moves or clears bits may have been stopped just before, and been succeeded; then the
//! bits that it saw may be those of other changes by now. So the holder of the checkpoint role leaves its
//! holding's tag in each word that it changes, by compare-and-swap. A word with another tag than its own is
//! changed only by a participant that finds, after it has read the word, that it still has the role; if it
//! loses the role then, and the successor has been at the word, the word is another. Where the successor has
//! not been yet, the late one does no harm: it only moves bits to where they will be found, or clears those
//! of pages that its own checkpoint has.
//!
//! How far a checkpoint has come (`captured_below`) is said in the same way.

use sablecat_os::atomic::Ordering;

use super::Generations;
use crate::pages::participants::captured::{BITS, change, tag_of, tagged};
use crate::region::{HeldRole, PAGES_A_WORD};
use crate::types::PageId;

fn place_of(page: PageId) -> (usize, u64) {
    (page.0 as usize / PAGES_A_WORD as usize, 1 << (u64::from(page.0) % PAGES_A_WORD))
}

impl Generations {
    /// Remembers that a page changed, so that the next checkpoint looks at it.
    #[inline]
    pub(crate) fn mark_unsaved(&self, page: PageId) {
        let (index, bit) = place_of(page);
        let word = self.region.unsaved(index);
        if word.load(Ordering::SeqCst) & bit == 0 {
            word.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// Whether a page has changed since a checkpoint looked at it, or one is at it.
    pub(in crate::pages) fn is_unsaved(&self, page: PageId) -> bool {
        let (index, bit) = place_of(page);
        // In the order in which bits are moved.
        (self.region.unsaved(index).load(Ordering::SeqCst)
            | self.region.capturing(index).load(Ordering::SeqCst))
            & bit
            != 0
    }

    /// Whether a checkpoint is at a page, or one was that came to nothing.
    pub(in crate::pages) fn is_capturing(&self, page: PageId) -> bool {
        let (index, bit) = place_of(page);
        self.region.capturing(index).load(Ordering::SeqCst) & bit != 0
    }

    /// Words of bits that there are.
    pub(in crate::pages) fn unsaved_words(&self) -> usize {
        self.page_ids.high_water().div_ceil(PAGES_A_WORD) as usize
    }

    /// Moves a word of `unsaved` to `capturing`, and lists all pages of the latter. None if the role was
    /// taken over.
    pub(in crate::pages) fn take_unsaved(
        &self,
        index: usize,
        held: &HeldRole<'_>,
    ) -> Option<impl Iterator<Item = PageId> + use<>> {
        let (unsaved, capturing) = (self.region.unsaved(index), self.region.capturing(index));
        let tag = held.holding().tag();
        let all = loop {
            let seen = unsaved.load(Ordering::SeqCst);
            if (seen | capturing.load(Ordering::SeqCst)) & BITS == 0 {
                // Nothing to move, and no memory to touch.
                break 0;
            }
            // To where they will be found before they are taken from where they were.
            if !change(capturing, held, |bits| bits | seen & BITS)
                || tag_of(seen) != tag && held.is_succeeded()
            {
                return None;
            }
            if unsaved.compare_exchange(seen, tagged(tag, 0), Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                break capturing.load(Ordering::SeqCst) & BITS;
            }
        };
        let first = index as u64 * PAGES_A_WORD;
        Some(
            (0..PAGES_A_WORD)
                .filter(move |bit| all >> bit & 1 == 1)
                .map(move |bit| PageId((first + bit) as u32)),
        )
    }

    /// Forgets the pages of a word that a checkpoint took there, which stands. Leaves it to a successor if
    /// one has been at the word.
    pub(in crate::pages) fn forget_captured(&self, index: usize, held: &HeldRole<'_>) {
        let (capturing, tag) = (self.region.capturing(index), held.holding().tag());
        let seen = capturing.load(Ordering::SeqCst);
        if tag_of(seen) == tag {
            // Only another holder changes it.
            let _ = capturing.compare_exchange(seen, tagged(tag, 0), Ordering::SeqCst, Ordering::SeqCst);
        }
    }
}
