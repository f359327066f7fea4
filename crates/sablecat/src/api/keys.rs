//! Which keys are meant: ranges of them, as Rust writes them, and beginnings.

use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use crate::access;
use crate::access::KeySpan;
use crate::error::Result;

/// A range of keys, or all keys with a prefix.
///
/// Ranges are written as for a [`BTreeMap`](std::collections::BTreeMap), over anything that is bytes: `..`,
/// `"a".."b"`, `&key[..]..`, a pair of [`Bound`]s. All keys with the same beginning are a [`Prefix`]. A range
/// whose end comes before its beginning is empty.
///
/// ```
/// # use std::ops::Bound;
/// # fn main() -> sablecat::Result<()> {
/// # let env = sablecat::Env::in_memory()?;
/// let db = env.database("letters")?;
/// for letter in ["a", "b", "bb", "c"] {
///     db.insert(letter, "")?;
/// }
/// assert_eq!(db.range(..)?.count(), 4);
/// assert_eq!(db.range("b"..)?.count(), 3);
/// assert_eq!(db.range(b"b"..=b"c")?.count(), 3);
/// assert_eq!(db.range((Bound::Excluded("b"), Bound::Unbounded))?.count(), 2);
/// assert_eq!(db.range(sablecat::Prefix("b"))?.count(), 2);
/// # Ok(())
/// # }
/// ```
///
/// Implemented here, and by no other crate.
pub trait KeyRange: sealed::Bounded {}

/// All keys that begin with these bytes, in a database in the order of bytes. In another order, keys with the
/// same prefix need not be next to each other, and asking for them is an error
/// ([`ErrorKind::Invalid`](crate::ErrorKind::Invalid)).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Prefix<K>(pub K);

pub(super) mod sealed {
    use super::{KeySpan, Result};

    /// What a range of keys is to the engine.
    pub trait Bounded {
        /// Its bounds. `in_bytes` is an error if the database is not in the order of bytes.
        fn bounds(&self, in_bytes: impl FnOnce() -> Result<()>) -> Result<KeySpan>;
    }
}

use sealed::Bounded;

fn owned(key: impl AsRef<[u8]>) -> Vec<u8> {
    key.as_ref().to_vec()
}

/// The bounds of all keys that begin with `prefix`, in the order of bytes.
fn prefixed(prefix: &[u8]) -> KeySpan {
    (Bound::Included(prefix.to_vec()), access::after(prefix).map_or(Bound::Unbounded, Bound::Excluded))
}

macro_rules! ranges {
    ($($range:ty, $this:ident => $bounds:expr;)*) => {$(
        impl<K: AsRef<[u8]>> Bounded for $range {
            fn bounds(&self, _: impl FnOnce() -> Result<()>) -> Result<KeySpan> {
                let $this = self;
                Ok($bounds)
            }
        }
        impl<K: AsRef<[u8]>> KeyRange for $range {}
    )*};
}

ranges! {
    Range<K>, range => (Bound::Included(owned(&range.start)), Bound::Excluded(owned(&range.end)));
    RangeFrom<K>, range => (Bound::Included(owned(&range.start)), Bound::Unbounded);
    RangeInclusive<K>, range => (Bound::Included(owned(range.start())), Bound::Included(owned(range.end())));
    RangeTo<K>, range => (Bound::Unbounded, Bound::Excluded(owned(&range.end)));
    RangeToInclusive<K>, range => (Bound::Unbounded, Bound::Included(owned(&range.end)));
    (Bound<K>, Bound<K>), range => (range.0.as_ref().map(owned), range.1.as_ref().map(owned));
}

impl Bounded for RangeFull {
    fn bounds(&self, _: impl FnOnce() -> Result<()>) -> Result<KeySpan> {
        Ok((Bound::Unbounded, Bound::Unbounded))
    }
}
impl KeyRange for RangeFull {}

impl<K: AsRef<[u8]>> Bounded for Prefix<K> {
    fn bounds(&self, in_bytes: impl FnOnce() -> Result<()>) -> Result<KeySpan> {
        in_bytes().map(|()| prefixed(self.0.as_ref()))
    }
}
impl<K: AsRef<[u8]>> KeyRange for Prefix<K> {}

impl<R: Bounded> Bounded for &R {
    fn bounds(&self, in_bytes: impl FnOnce() -> Result<()>) -> Result<KeySpan> {
        (**self).bounds(in_bytes)
    }
}
impl<R: KeyRange> KeyRange for &R {}
