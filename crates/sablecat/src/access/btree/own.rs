//! Which of the long values that a tree leads to are its own: an LSM tree hands them on from layer to layer
//! (access/lsm), and for a while two lead to one.

use super::node::Leaf;

/// The long values that are freed with a tree, and reached through it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::access) enum OwnValues {
    All,
    /// Those of keys above this one, in the order of bytes.
    Above(Vec<u8>),
    None,
}

impl OwnValues {
    /// Whether the value of the record in a slot is one of them, if it is long.
    pub(super) fn has(&self, leaf: &Leaf<'_>, slot: usize) -> bool {
        match self {
            OwnValues::All => true,
            OwnValues::Above(passed) => {
                let (prefix, suffix) = leaf.key(slot);
                prefix.iter().chain(suffix).gt(passed)
            }
            OwnValues::None => false,
        }
    }
}
