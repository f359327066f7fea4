//! Records of one database, as the model has them, and their order.
//!
//! Names of databases say how they are ordered: those that begin with `r` by the comparator `reversed`.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use crate::method;

/// A key or a value.
pub type Bytes = Vec<u8>;
/// From where to where.
pub type Bounds = (Bound<Bytes>, Bound<Bytes>);

/// Records of one database, in the order of bytes, however it is ordered.
pub type Records = BTreeMap<Bytes, Bytes>;

/// Whether a database of this name is ordered backwards.
pub fn reversed(name: &str) -> bool {
    name.starts_with('r')
}

/// Whether keys that begin alike stand together in a database of this name.
pub fn has_prefixes(name: &str) -> bool {
    !reversed(name) && method::has_neighbours()
}

/// How two keys of a database are ordered.
pub fn order(name: &str, one: &[u8], other: &[u8]) -> Ordering {
    if reversed(name) { other.cmp(one) } else { method::order(one, other) }
}

/// The records between two bounds, in the database's order.
pub fn between(name: &str, records: &Records, (lower, upper): &Bounds) -> VecDeque<(Bytes, Bytes)> {
    let order = |a: &Bytes, b: &Bytes| order(name, a, b);
    let inside = |key: &Bytes| {
        let low = match lower {
            Bound::Unbounded => true,
            Bound::Included(bound) => order(key, bound).is_ge(),
            Bound::Excluded(bound) => order(key, bound).is_gt(),
        };
        let high = match upper {
            Bound::Unbounded => true,
            Bound::Included(bound) => order(key, bound).is_le(),
            Bound::Excluded(bound) => order(key, bound).is_lt(),
        };
        low && high
    };
    let found =
        records.iter().filter(|(key, _)| inside(key)).map(|(key, value)| (key.clone(), value.clone()));
    let mut found: Vec<_> = found.collect();
    found.sort_by(|(one, _), (other, _)| order(one, other));
    found.into()
}
