//! Subscripts as the keys of databases, in M's order.

use super::{Key, KeyBytes};
use crate::error::{Error, Result};
use crate::globals::{Subscript, subscripts_of};

/// In M's order, its bytes are those that it adds to the key of a node.
impl KeyBytes for Subscript<'_> {
    fn key_bytes(&self) -> Vec<u8> {
        Subscript::key_bytes(self)
    }
}

/// ```
/// use sablecat::globals::Subscript;
/// use sablecat::typed::Typed;
///
/// # fn main() -> sablecat::Result<()> {
/// # let env = sablecat::Env::in_memory()?;
/// let parts: Typed<Subscript<'static>, u32> = Typed::open(&env, "parts")?;
/// env.write(|txn| {
///     for (part, left) in [("B-2", 7), ("10", 8), ("9.5", 9)] {
///         parts.insert(txn, &Subscript::from(part), &left)?;
///     }
///     Ok(())
/// })?;
/// let left = parts.iter(&env)?.map(|record| record.map(|(_, left)| left));
/// let left: Vec<_> = left.collect::<Result<_, _>>()?;
/// assert_eq!(left, [9, 8, 7], "9.5, 10, then what is no number");
/// # Ok(())
/// # }
/// ```
impl Key for Subscript<'static> {
    fn from_key_bytes(bytes: &[u8]) -> Result<Self> {
        let [subscript] = <[_; 1]>::try_from(subscripts_of(bytes)?).map_err(|all: Vec<_>| {
            Error::invalid(format!(
                "the key {} has {} subscripts, and not one",
                bytes.escape_ascii(),
                all.len()
            ))
        })?;
        Ok(subscript)
    }
}

/// One after the other: what has fewer and is the same as far as it goes comes first, as a node comes before
/// its descendants.
impl KeyBytes for [Subscript<'_>] {
    fn key_bytes(&self) -> Vec<u8> {
        self.iter().flat_map(Subscript::key_bytes).collect()
    }
}

impl KeyBytes for Vec<Subscript<'_>> {
    fn key_bytes(&self) -> Vec<u8> {
        self[..].key_bytes()
    }
}

impl Key for Vec<Subscript<'static>> {
    fn from_key_bytes(bytes: &[u8]) -> Result<Self> {
        subscripts_of(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::ErrorKind;

    fn a_text() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::collection::vec(prop::sample::select(vec![0u8, 1, 5, b'a', 0xff]), 0..5),
            "-?[0-9]{0,3}\\.?[0-9]{0,3}".prop_map(String::into_bytes),
        ]
    }

    proptest! {
        #[test]
        fn subscripts_are_keys_in_the_order_of_m(
            a in prop::collection::vec(a_text(), 0..4),
            b in prop::collection::vec(a_text(), 0..4),
        ) {
            let subscripts = |texts: Vec<Vec<u8>>| -> Vec<Subscript<'static>> {
                texts.into_iter().map(Subscript::from).collect()
            };
            let (a, b) = (subscripts(a), subscripts(b));
            prop_assert_eq!(a.key_bytes().cmp(&b.key_bytes()), a.cmp(&b));
            prop_assert_eq!(&Vec::<Subscript<'static>>::from_key_bytes(&a.key_bytes()).expect("a key"), &a);
            let one = Subscript::from_key_bytes(&a.key_bytes());
            match &a[..] {
                [subscript] => prop_assert_eq!(&one.expect("a key"), subscript),
                _ => prop_assert_eq!(one.expect_err("not one").kind(), ErrorKind::Invalid),
            }
        }

        #[test]
        fn other_keys_are_an_error(bytes in prop::collection::vec(prop_oneof![0u8..8, any::<u8>()], 0..12)) {
            if let Ok(subscripts) = Vec::<Subscript<'static>>::from_key_bytes(&bytes) {
                prop_assert_eq!(subscripts.key_bytes(), bytes);
            }
        }
    }
}
