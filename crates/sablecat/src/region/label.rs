//! Labels: what a transaction says of itself, for people that look at what each participant does.
//!
//! Nothing is decided by one. It is written by the owner of its slot alone; a reader meanwhile gets it whole
//! or not at all.

use sablecat_os::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Bytes of a label at most.
pub(crate) const LABEL_BYTES: usize = 56;

/// The name of a transaction, in its slot.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Label {
    /// Odd while it is written; another number each time.
    version: AtomicU32,
    len: AtomicU32,
    words: [AtomicU64; LABEL_BYTES / 8],
}

impl Label {
    /// Says as much of `text` as there is room for, in whole characters.
    pub(super) fn set(&self, text: &str) {
        let end = (0..=text.len().min(LABEL_BYTES))
            .rev()
            .find(|&end| text.is_char_boundary(end))
            .unwrap_or_default();
        let text = &text[..end];
        let mut bytes = [0; LABEL_BYTES];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version | 1, Ordering::Relaxed);
        // A reader that finds one of the words stored below finds the odd version too.
        fence(Ordering::Release);
        self.len.store(text.len() as u32, Ordering::Relaxed);
        for (word, part) in self.words.iter().zip(bytes.chunks_exact(8)) {
            word.store(
                part.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
                Ordering::Relaxed,
            );
        }
        self.version.store((version | 1).wrapping_add(1), Ordering::Release);
    }

    /// Says nothing any more, or what a dead owner said.
    #[inline]
    pub(super) fn clear(&self) {
        if self.len.load(Ordering::Relaxed) != 0 || self.version.load(Ordering::Relaxed) & 1 != 0 {
            self.set("");
        }
    }

    /// What it says; none if that is nothing, or is being changed.
    pub(super) fn get(&self) -> Option<String> {
        let version = self.version.load(Ordering::Acquire);
        let len = self.len.load(Ordering::Relaxed) as usize;
        let bytes: Vec<u8> =
            self.words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        fence(Ordering::Acquire);
        if version & 1 != 0 || self.version.load(Ordering::Relaxed) != version {
            return None;
        }
        // Looked at from outside, it may be anything.
        let text = String::from_utf8_lossy(bytes.get(..len)?).into_owned();
        (!text.is_empty()).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label() -> Label {
        Label { version: AtomicU32::new(0), len: AtomicU32::new(0), words: Default::default() }
    }

    #[test]
    fn as_much_is_said_as_there_is_room_for() {
        let label = label();
        assert_eq!(label.get(), None);
        label.set("the nightly report");
        assert_eq!(label.get().as_deref(), Some("the nightly report"));
        label.set(&"ä".repeat(100));
        assert_eq!(label.get(), Some("ä".repeat(LABEL_BYTES / 2)));
        label.set(&format!("x{}", "ä".repeat(100)));
        assert_eq!(
            label.get(),
            Some(format!("x{}", "ä".repeat(LABEL_BYTES / 2 - 1))),
            "no half of a character"
        );
        label.clear();
        assert_eq!(label.get(), None);
    }

    #[test]
    fn what_is_being_changed_or_is_damaged_is_not_shown() {
        let label = label();
        label.set("one");
        label.version.fetch_add(1, Ordering::Relaxed);
        assert_eq!(label.get(), None, "its owner was killed as it wrote it");
        label.clear();
        assert_eq!(label.get(), None);
        label.set("two");
        assert_eq!(label.get().as_deref(), Some("two"));
        label.len.store(1 << 20, Ordering::Relaxed);
        assert_eq!(label.get(), None);
        label.len.store(3, Ordering::Relaxed);
        label.words[0].store(u64::MAX, Ordering::Relaxed);
        assert!(label.get().is_some_and(|text| text.starts_with(char::REPLACEMENT_CHARACTER)));
    }
}
