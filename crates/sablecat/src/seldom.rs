//! What few of many have: a word as long as there is nothing.
//!
//! Transactions are made, moved and dropped by the hundred thousand a second, and what most of them never use
//! would be initialised, copied and looked through in each.

/// Something that is made when it is first needed. Until then it takes a word, and dropping it is a test.
#[derive(Debug)]
pub(crate) struct Seldom<T>(Option<Box<T>>);

impl<T> Default for Seldom<T> {
    #[inline(always)]
    fn default() -> Seldom<T> {
        Seldom(None)
    }
}

impl<T: Default> Seldom<T> {
    /// It, if it was needed.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_deref()
    }

    /// It, made if it was not needed before.
    #[inline]
    pub(crate) fn needed(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }

    /// It, to be changed, if it was needed.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
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
        self.0 = None;
    }
}
