//! What the databases of each method can be used for: the layers above ask here, and name no method.

use super::Method;

impl Method {
    /// Whether keys can have any order, and any length. (What is in an order has long keys, too.)
    pub(crate) fn takes_any_order(self) -> bool {
        match self {
            Method::Btree | Method::Counted => true,
            Method::Hash | Method::Lsm => false,
            #[cfg(feature = "seam")]
            Method::Flat => true,
        }
    }

    /// Why no comparator can order its keys, if none can.
    pub(crate) fn refuses_comparators(self) -> Option<&'static str> {
        match self {
            Method::Hash => Some("hash tables have an order of their own"),
            Method::Lsm => Some("LSM trees are in the order of bytes"),
            Method::Btree | Method::Counted => None,
            #[cfg(feature = "seam")]
            Method::Flat => None,
        }
    }

    /// Why it cannot have a queue, if it cannot.
    pub(crate) fn refuses_queues(self) -> Option<&'static str> {
        match self {
            Method::Lsm => Some("who consumes a record must see at once that it is there"),
            Method::Btree | Method::Counted | Method::Hash => None,
            #[cfg(feature = "seam")]
            Method::Flat => None,
        }
    }

    /// The method of records whose numbers close up.
    pub(crate) fn of_closing_numbers() -> Method {
        Method::Counted
    }

    /// What it is called, after its article.
    pub(crate) fn with_article(self) -> String {
        let article = if self == Method::Lsm { "an" } else { "a" };
        format!("{article} {self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_says_what_it_cannot_be_used_for() {
        let all = [Method::Btree, Method::Counted, Method::Hash, Method::Lsm];
        let of = |holds: fn(Method) -> bool| all.map(holds);
        assert_eq!(of(Method::takes_any_order), [true, true, false, false]);
        assert_eq!(of(|method| method.refuses_comparators().is_some()), [false, false, true, true]);
        assert_eq!(of(|method| method.refuses_queues().is_some()), [false, false, false, true]);
        assert!(Method::of_closing_numbers().counts());
        assert_eq!(
            all.map(Method::with_article),
            ["a B+tree", "a counted B+tree", "a hash table", "an LSM tree"]
        );
    }
}
