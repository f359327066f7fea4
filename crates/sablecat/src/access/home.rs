//! Where the pages of a tree are to be: in which volume.
//!
//! All pages of a tree are in one volume, but for the leaves that hold nothing but keys of a prefix that is
//! placed elsewhere. What a leaf holds its ends say: so where it is to be is decided when it gets them, that
//! is, when it is made, split or merged. A leaf at the edge of a prefix, or one that holds other keys as
//! well, stays with the tree; so do inner pages.
//!
//! Keys that are nested (btree/nest.rs) begin with their stem, and so with any prefix that applies to them: a
//! subtree is in one volume.

use crate::types::VolumeId;

/// Keys that are placed in another volume than the rest of their tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeyRule {
    prefix: Vec<u8>,
    /// The first key above all that begin with the prefix, if there is one.
    end: Option<Vec<u8>>,
    volume: VolumeId,
}

impl KeyRule {
    /// Keys that begin with a prefix go into a volume.
    pub(crate) fn new(prefix: &[u8], volume: VolumeId) -> KeyRule {
        KeyRule { prefix: prefix.to_vec(), end: after(prefix), volume }
    }

    /// Whether all keys between two fences begin with the prefix.
    fn holds(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        lower.starts_with(&self.prefix)
            && self.end.as_deref().is_none_or(|end| upper.is_some_and(|upper| upper <= end))
    }
}

/// The first key above all that begin with `prefix`, if there is one.
pub(crate) fn after(prefix: &[u8]) -> Option<Vec<u8>> {
    let end = prefix.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut after = prefix[..=end].to_vec();
    after[end] += 1;
    Some(after)
}

/// Where the pages of a tree go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home<'a> {
    /// Where they go unless a rule says otherwise.
    pub(crate) volume: VolumeId,
    /// Prefixes of keys; the longest that applies counts.
    pub(crate) keys: &'a [KeyRule],
}

impl Home<'_> {
    /// The main volume, with everything.
    pub(crate) const MAIN: Home<'static> = Home { volume: VolumeId::MAIN, keys: &[] };

    fn longest(&self, applies: impl Fn(&KeyRule) -> bool) -> VolumeId {
        let rules = self.keys.iter().filter(|rule| applies(rule));
        rules.max_by_key(|rule| rule.prefix.len()).map_or(self.volume, |rule| rule.volume)
    }

    /// Where what belongs to one key goes: a long value, or the subtree of a stem.
    #[inline]
    pub(crate) fn of_key(&self, key: &[u8]) -> VolumeId {
        if self.keys.is_empty() { self.volume } else { self.longest(|rule| key.starts_with(&rule.prefix)) }
    }

    /// The home of the subtree of a stem.
    pub(crate) fn of_subtree(&self, stem: &[u8]) -> Home<'static> {
        Home { volume: self.of_key(stem), keys: &[] }
    }

    /// Where a page goes that has the keys from one to another, or from the first or to the last.
    pub(crate) fn of_range(&self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> VolumeId {
        match lower {
            Some(lower) if !self.keys.is_empty() => self.longest(|rule| rule.holds(lower, upper)),
            _ => self.volume,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_that_holds_the_whole_range_counts() {
        let rules = [
            KeyRule::new(b"log/", VolumeId(1)),
            KeyRule::new(b"log/a", VolumeId(2)),
            KeyRule::new(b"\xff", VolumeId(3)),
        ];
        let home = Home { volume: VolumeId(9), keys: &rules };
        let of = |lower: Option<&[u8]>, upper: Option<&[u8]>| home.of_range(lower, upper).0;
        assert_eq!(of(None, None), 9);
        assert_eq!(of(None, Some(b"log/b")), 9);
        assert_eq!(of(Some(b"log/b"), None), 9, "the last leaf holds what comes after as well");
        assert_eq!(of(Some(b"log/b"), Some(b"log/c")), 1);
        assert_eq!(of(Some(b"log/"), Some(b"log0")), 1, "to the end of the prefix");
        assert_eq!(of(Some(b"log/b"), Some(b"log0")), 1);
        assert_eq!(of(Some(b"log/b"), Some(b"log00")), 9);
        assert_eq!(of(Some(b"log/a"), Some(b"log/b")), 2);
        assert_eq!(of(Some(b"log/a"), Some(b"log/b0")), 1);
        assert_eq!(of(Some(b"lo"), Some(b"log/b")), 9);
        assert_eq!(of(Some(b"\xff\x01"), None), 3, "nothing comes after");
        assert_eq!((home.of_key(b"log/azz").0, home.of_key(b"log/z").0, home.of_key(b"log").0), (2, 1, 9));
    }
}
