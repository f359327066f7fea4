//! What borrows from an environment, together with what keeps that there.
//!
//! The engine's transactions borrow from the environment. Most of the caller's do as well, which costs
//! nothing. One that is to live by itself, beside its environment in a structure, in another task or behind a
//! pointer of another language, has a handle of the environment: as long as that is there the environment
//! stays where it is, whoever moves the two, and the handle goes last.
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

/// Something that borrows from an environment. It is dropped before the handle.
pub(super) struct Kept<'env, T> {
    /// Always there until this is dropped. In a union nobody says of the references within that they stay
    /// good while a function runs that is given it, and drops it.
    borrower: MaybeUninit<T>,
    env: Cow<'env, Env>,
}

impl<'env, T> Kept<'env, T> {
    /// What `begin` makes of an environment that is borrowed.
    ///
    /// # Errors
    /// Those of `begin`.
    #[inline]
    pub(super) fn borrowed(
        env: &'env Env,
        begin: impl FnOnce(&'env Core) -> Result<T>,
    ) -> Result<Kept<'env, T>> {
        Ok(Kept { borrower: MaybeUninit::new(begin(env.core())?), env: Cow::Borrowed(env) })
    }

    /// The environment's handle.
    #[inline]
    pub(super) fn env(&self) -> &Env {
        &self.env
    }
}

impl<T> Kept<'static, T> {
    /// What `begin` makes of an environment that is kept with it.
    ///
    /// # Errors
    /// Those of `begin`.
    pub(super) fn owned(
        env: Env,
        begin: impl FnOnce(&'static Core) -> Result<T>,
    ) -> Result<Kept<'static, T>> {
        // SAFETY: the environment is in an `Arc` of which `env` is a handle, so it stays where it is until
        // that is dropped: in `drop`, after all that borrows from it. `begin` and what it makes are the
        // engine's: they put the reference, and those that come from it, nowhere else than into what is kept
        // here.
        let core: &'static Core = unsafe { &*ptr::from_ref(env.core()) };
        Ok(Kept { borrower: MaybeUninit::new(begin(core)?), env: Cow::Owned(env) })
    }
}

impl<T> Drop for Kept<'_, T> {
    fn drop(&mut self) {
        // SAFETY: it is there, and nobody uses it any more. The handle goes after this.
        unsafe { self.borrower.assume_init_drop() };
    }
}

impl<T> Deref for Kept<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: it is there until this is dropped.
        unsafe { self.borrower.assume_init_ref() }
    }
}

impl<T> DerefMut for Kept<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { self.borrower.assume_init_mut() }
    }
}
