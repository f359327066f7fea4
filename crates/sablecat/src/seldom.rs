//! What few of many have: a word as long as there is nothing.
//!
//! Transactions are made, moved and dropped by the hundred thousand a second, and what most of them never use
//! would be initialised, copied and looked through in each.

use std::mem::ManuallyDrop;

/// Something that is made when it is first needed. Until then it takes a word, and dropping it is a test: what
/// the compiler makes to drop a box is a call.
#[derive(Debug)]
pub(crate) struct Seldom<T>(ManuallyDrop<Option<Box<T>>>);

impl<T> Default for Seldom<T> {
    #[inline(always)]
    fn default() -> Seldom<T> {
        Seldom(ManuallyDrop::new(None))
    }
}

impl<T> Drop for Seldom<T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.clear();
    }
}

impl<T: Default> Seldom<T> {
    /// It, made if it was not needed before.
    #[inline]
    pub(crate) fn needed(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl<T> Seldom<T> {
    /// Whether it was not needed.
    #[inline(always)]
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// It, if it was needed.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_deref()
    }

    /// It, to be changed, if it was needed.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }

    /// Has this, if anything.
    #[inline]
    pub(crate) fn put(&mut self, it: Option<T>) {
        *self.0 = it.map(Box::new);
    }

    /// It, if it was needed, and is no longer here.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<T> {
        self.0.take().map(|it| *it)
    }

    /// Has nothing any more.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        if self.0.is_some() {
            self.forget();
        }
    }

    #[cold]
    #[inline(never)]
    fn forget(&mut self) {
        *self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::rc::Rc;

    use super::*;

    /// Counts its drops, and may panic in one.
    struct Counted(Rc<Cell<u32>>, bool);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
            assert!(!self.1, "dropped");
        }
    }

    #[test]
    fn what_is_there_is_dropped_once() {
        let drops = Rc::new(Cell::new(0));
        let made = || Counted(Rc::clone(&drops), false);
        let mut seldom = Seldom::default();
        assert!(seldom.is_none() && seldom.get().is_none());
        seldom.put(Some(made()));
        assert_eq!(drops.get(), 0);
        seldom.put(Some(made()));
        assert_eq!(drops.get(), 1);
        drop(seldom.take());
        assert_eq!(drops.get(), 2);
        assert!(seldom.is_none());
        seldom.put(Some(made()));
        seldom.clear();
        seldom.clear();
        assert_eq!(drops.get(), 3);
        seldom.put(Some(made()));
        drop(seldom);
        assert_eq!((drops.get(), Rc::strong_count(&drops)), (4, 1));
    }

    #[test]
    fn what_panics_as_it_is_dropped_is_not_dropped_again() {
        let drops = Rc::new(Cell::new(0));
        let mut seldom = Seldom::default();
        seldom.put(Some(Counted(Rc::clone(&drops), true)));
        assert!(catch_unwind(AssertUnwindSafe(|| drop(seldom))).is_err());
        assert_eq!((drops.get(), Rc::strong_count(&drops)), (1, 1));
    }
}
