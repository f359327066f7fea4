//! What borrows from an environment, together with what keeps that there.
//!
//! The engine's transactions borrow from the environment. Most of the caller's do as well, which costs
//! nothing. One that is to live by itself, beside its environment in a structure, in another task or behind a
//! pointer of another language, has a handle of the environment: as long as that is there the environment
//! stays where it is, however the two are moved, and the handle goes last.
//!
//! `unsafe` here: what borrows from an environment that its own neighbour keeps is said to borrow for as long
//! as it likes.

use std::borrow::Cow;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr;

use super::Env;
use crate::env::Core;
use crate::error::Result;

/// A handle of something that stays where it is.
///
/// # Safety
/// What [`kept`](Keeps::kept) leads to is there, and not moved, until the last of this handle and its clones
/// is dropped, however they are moved; and it is changed through shared references alone.
pub(super) unsafe trait Keeps: Clone {
    type Kept: 'static;

    /// What the handle is of.
    fn kept(&self) -> &Self::Kept;
}

// SAFETY: it is in an `Arc` of which this is a handle.
unsafe impl Keeps for Env {
    type Kept = Core;

    #[inline]
    fn kept(&self) -> &Core {
        self.core()
    }
}

/// Something that borrows from an environment. It is dropped before the handle.
pub(super) struct Kept<'env, T, H: Keeps = Env> {
    /// Always there until this is dropped. In a union nobody says of the references within that they stay
    /// good while a function runs that is given it, and drops it.
    borrower: MaybeUninit<T>,
    env: Cow<'env, H>,
}

impl<'env, T, H: Keeps> Kept<'env, T, H> {
    /// What `begin` makes of an environment that is borrowed.
    ///
    /// # Errors
    /// Those of `begin`.
    #[inline]
    pub(super) fn borrowed(
        env: &'env H,
        begin: impl FnOnce(&'env H::Kept) -> Result<T>,
    ) -> Result<Kept<'env, T, H>> {
        Ok(Kept { borrower: MaybeUninit::new(begin(env.kept())?), env: Cow::Borrowed(env) })
    }

    /// The environment's handle.
    #[inline]
    pub(super) fn env(&self) -> &H {
        &self.env
    }
}

impl<T, H: Keeps> Kept<'static, T, H> {
    /// What `begin` makes of an environment that is kept with it.
    ///
    /// # Errors
    /// Those of `begin`.
    pub(super) fn owned(
        env: H,
        begin: impl FnOnce(&'static H::Kept) -> Result<T>,
    ) -> Result<Kept<'static, T, H>> {
        // SAFETY: what is kept stays where it is until `env` is dropped, by the handle's word: in `drop`,
        // after all that borrows from it. `begin` and what it makes are the engine's: they put the reference,
        // and those that come from it, nowhere else than into what is kept here.
        let kept: &'static H::Kept = unsafe { &*ptr::from_ref(env.kept()) };
        Ok(Kept { borrower: MaybeUninit::new(begin(kept)?), env: Cow::Owned(env) })
    }
}

impl<T, H: Keeps> Drop for Kept<'_, T, H> {
    fn drop(&mut self) {
        // SAFETY: it is there, and nobody uses it any more. The handle goes after this.
        unsafe { self.borrower.assume_init_drop() };
    }
}

impl<T, H: Keeps> Deref for Kept<'_, T, H> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: it is there until this is dropped.
        unsafe { self.borrower.assume_init_ref() }
    }
}

impl<T, H: Keeps> DerefMut for Kept<'_, T, H> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { self.borrower.assume_init_mut() }
    }
}

/// Of a handle that is small enough for Miri, which checks what the promises above come to.
#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    /// What is kept: as an environment, of a part that stays as it is, and one that changes.
    struct Inner {
        fixed: u32,
        word: Cell<u32>,
    }

    #[derive(Clone)]
    struct Handle(Rc<Inner>);

    impl Handle {
        fn new(word: u32) -> Handle {
            Handle(Rc::new(Inner { fixed: 5, word: Cell::new(word) }))
        }
    }

    // SAFETY: it is in an `Rc` of which this is a handle.
    unsafe impl Keeps for Handle {
        type Kept = Inner;

        fn kept(&self) -> &Inner {
            &self.0
        }
    }

    /// Touches what it borrows from to the last.
    struct Borrower<'a>(&'a Inner);

    impl Drop for Borrower<'_> {
        fn drop(&mut self) {
            assert_eq!(self.0.fixed, 5);
            self.0.word.set(self.0.word.get() + 1);
        }
    }

    fn kept() -> Kept<'static, Borrower<'static>, Handle> {
        let begun = Kept::owned(Handle::new(7), |inner| Ok(Borrower(inner)));
        begun.unwrap_or_else(|_| unreachable!("nothing fails"))
    }

    /// Is given it, and drops it.
    fn end<T>(_: T) {}

    #[test]
    fn what_borrows_from_what_it_keeps_may_be_moved_and_goes_first() {
        end(kept());
        let kept = Box::new(kept());
        let mut all = vec![*kept];
        all.push(self::kept());
        all.swap(0, 1);
        all[0].0.word.set(11);
        let mut moved = all.remove(0);
        assert_eq!((moved.0.word.get(), moved.env().0.word.get()), (11, 11));
        assert_eq!(Rc::strong_count(&moved.env().0), 1, "nobody else keeps it");
        let other = moved.env().clone();
        *moved = Borrower(all[0].0);
        assert_eq!(other.0.word.get(), 12, "the borrower before has gone, and what it borrowed from has not");
        end(moved);
        end(all);
        assert_eq!((other.0.word.get(), Rc::strong_count(&other.0)), (12, 1));
    }

    #[test]
    fn what_borrows_from_what_others_keep_leaves_it_to_them() {
        let handle = Handle::new(0);
        let begun = Kept::borrowed(&handle, |inner| Ok(Borrower(inner)));
        end(begun.map(|kept| assert_eq!(kept.env().0.word.get(), 0)));
        assert_eq!(handle.0.word.get(), 1);
    }
}
