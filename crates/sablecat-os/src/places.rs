//! Places that are never freed and are used again, for code that may wait for nothing: handlers of signals
//! and forks, which may come by at any moment, and threads whose process may be copied while others are at
//! the list.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

/// A list of places that only grows. One that nobody has any more is the next one's.
#[derive(Debug)]
pub struct Places<T: 'static> {
    first: AtomicPtr<Place<T>>,
    made: AtomicU32,
}

#[derive(Debug)]
struct Place<T: 'static> {
    value: T,
    number: u32,
    is_used: AtomicBool,
    next: AtomicPtr<Place<T>>,
}

/// A place that is somebody's until this is dropped. What it holds stays as it is then.
#[derive(Debug)]
pub struct Taken<T: 'static>(&'static Place<T>);

impl<T: Default + Sync> Places<T> {
    /// None yet.
    #[expect(clippy::new_without_default, reason = "they are statics")]
    pub const fn new() -> Places<T> {
        Places { first: AtomicPtr::new(ptr::null_mut()), made: AtomicU32::new(0) }
    }

    /// All of them, whether or not they are somebody's.
    pub(crate) fn all(&'static self) -> impl Iterator<Item = &'static T> {
        self.places().map(|place| &place.value)
    }

    fn places(&'static self) -> impl Iterator<Item = &'static Place<T>> {
        // SAFETY: what is in the list is never freed, and is changed through atomics alone.
        let at = |place: &AtomicPtr<Place<T>>| unsafe { place.load(Ordering::Acquire).as_ref() };
        std::iter::successors(at(&self.first), move |place| at(&place.next))
    }

    /// A place, which holds what its last owner has left there.
    pub fn take(&'static self) -> Taken<T> {
        let is_free = |place: &&Place<T>| !place.is_used.swap(true, Ordering::AcqRel);
        Taken(self.places().find(is_free).unwrap_or_else(|| self.add()))
    }

    fn add(&'static self) -> &'static Place<T> {
        let made: &Place<T> = Box::leak(Box::new(Place {
            value: T::default(),
            number: self.made.fetch_add(1, Ordering::Relaxed),
            is_used: AtomicBool::new(true),
            next: AtomicPtr::default(),
        }));
        let before = |first: *mut Place<T>| {
            made.next.store(first, Ordering::Relaxed);
            Some(ptr::from_ref(made).cast_mut())
        };
        // It always says which.
        let _ = self.first.fetch_update(Ordering::AcqRel, Ordering::Acquire, before);
        made
    }
}

impl<T> Taken<T> {
    #[inline(always)]
    pub(crate) fn get(&self) -> &'static T {
        &self.0.value
    }

    /// The place's number, which no other of the list has: they are numbered from 0.
    pub fn number(&self) -> u32 {
        self.0.number
    }
}

impl<T> Drop for Taken<T> {
    fn drop(&mut self) {
        self.0.is_used.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn a_place_is_one_owners_at_a_time_and_then_anothers() {
        static PLACES: Places<AtomicU64> = Places::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..1000 {
                        let taken = PLACES.take();
                        taken.get().store(n, Ordering::Relaxed);
                        let other = PLACES.take();
                        other.get().store(n + 1, Ordering::Relaxed);
                        assert_eq!(taken.get().load(Ordering::Relaxed), n);
                        assert_ne!(taken.number(), other.number());
                    }
                });
            }
        });
        let places = PLACES.all().count();
        assert!(places <= 8, "as many as there were owners at once");
        assert!((PLACES.take().number() as usize) < places);
    }
}
