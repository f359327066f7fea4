//! Atomic words: those of the standard library, each operation of which is a point where a test may switch
//! threads.
//!
//! The types are `repr(transparent)`: a word of a mapped region may be viewed as one of them. Without the
//! feature `shuttle` they compile to exactly the operation they name. With it, and inside `explore`, every
//! operation first lets the explorer choose which thread runs next. The words stay real words in real memory,
//! so the code explored is the code shipped, down to its pointer arithmetic.
//!
//! What exploration does not show: the explorer runs one thread at a time, so every execution is sequentially
//! consistent. An ordering that is too weak must be found by other means.

use std::fmt;

use rustix::thread::{MembarrierCommand, membarrier};

pub use std::sync::atomic::Ordering;

/// Lets the explorer switch threads. Outside an exploration it does nothing.
#[cfg(feature = "shuttle")]
#[inline(always)]
fn schedule() {
    if explored() {
        switch();
    }
}

#[cfg(feature = "shuttle")]
#[cold]
fn switch() {
    // The explorer's own atomics are where it switches threads without counting that as waiting.
    shuttle::sync::atomic::AtomicBool::new(false).load(Ordering::SeqCst);
}

/// Without the feature there is nobody to ask.
#[cfg(not(feature = "shuttle"))]
#[inline(always)]
fn schedule() {}

/// Explorations in this process: as long as there is none, which is nearly always, nobody asks the explorer.
#[cfg(feature = "shuttle")]
static EXPLORATIONS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// Whether the calling thread is one of an exploration's: there, others run at every step, and time does not
/// pass.
#[cfg(feature = "shuttle")]
#[inline(always)]
pub fn explored() -> bool {
    // Relaxed: an exploration's threads run in turns in the one that has begun it.
    EXPLORATIONS.load(Ordering::Relaxed) != 0 && is_explorers()
}

#[cfg(feature = "shuttle")]
#[cold]
fn is_explorers() -> bool {
    shuttle::current::try_get_current_task().is_some()
}

/// Without the feature nobody is.
#[cfg(not(feature = "shuttle"))]
#[inline(always)]
pub fn explored() -> bool {
    false
}

/// Runs `body` under `runs` random thread schedules, the same ones for the same `seed`: they switch threads
/// at any operation.
///
/// `body` starts its threads with `shuttle::thread::spawn`. A panic in any of them fails the exploration and
/// prints the schedule that led there; so does a run that has not ended after very many steps, which is one
/// in a circle.
#[cfg(feature = "shuttle")]
pub fn explore(seed: u64, runs: usize, body: impl Fn() + Send + Sync + 'static) {
    explore_by(shuttle::scheduler::RandomScheduler::new_from_seed(seed, runs), body);
}

/// Runs `body` under schedules that let one thread run until `moments` chosen moments (probabilistic
/// concurrency testing: Burckhardt et al., 2010), which is what finds a thread that is stopped between two
/// operations for long. Else as [`explore`].
#[cfg(feature = "shuttle")]
pub fn explore_few_switches(seed: u64, moments: usize, runs: usize, body: impl Fn() + Send + Sync + 'static) {
    explore_by(shuttle::scheduler::PctScheduler::new_from_seed(seed, moments, runs), body);
}

#[cfg(feature = "shuttle")]
fn explore_by(
    scheduler: impl shuttle::scheduler::Scheduler + 'static,
    body: impl Fn() + Send + Sync + 'static,
) {
    /// Ends the exploration, also by a panic.
    struct Exploring;
    impl Drop for Exploring {
        fn drop(&mut self) {
            EXPLORATIONS.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let mut config = shuttle::Config::new();
    // The default suits toy programs; the engine's frames in a debug build need more.
    config.stack_size = 1 << 20;
    config.silence_warnings = true;
    config.max_steps = shuttle::MaxSteps::FailAfter(400_000);
    EXPLORATIONS.fetch_add(1, Ordering::Relaxed);
    let _exploring = Exploring;
    shuttle::Runner::new(scheduler, config).run(body);
}

/// A memory fence, as [`std::sync::atomic::fence`].
#[inline(always)]
pub fn fence(order: Ordering) {
    schedule();
    std::sync::atomic::fence(order);
}

/// Makes the swap (or other exchange) that the caller has just made a full memory fence: what comes before it
/// is before all that comes after. On x86 it is one already, and this keeps the compiler to it. Elsewhere an
/// exchange is ordered against what is sequentially consistent only: a load behind it may be done before
/// others see what it stored.
#[inline(always)]
pub fn fence_behind_swap() {
    if cfg!(target_arch = "x86_64") {
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    } else {
        std::sync::atomic::fence(Ordering::SeqCst);
    }
}

/// The cheap half of a fence whose other half is [`fence_everywhere`]: keeps the compiler, but not the
/// processor, from moving loads and stores over it.
#[inline(always)]
pub fn light_fence() {
    schedule();
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// Has this process be one of those in which [`fence_everywhere`] fences. Says whether it is: not where the
/// kernel has nothing like it (Linux before 4.16, or a sandbox that forbids it).
pub fn accept_fences() -> bool {
    membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok()
}

/// A full fence in every thread that is running, of every process that has [accepted](accept_fences) such,
/// and in the caller; those that are not running have had one when they last stopped. With it, a store, a
/// [`light_fence`] and a load in one thread are ordered as if there were a full fence between them, against a
/// store, this and a load in another. False if it could not be had.
///
/// Costs an interrupt of each processor: microseconds.
pub fn fence_everywhere() -> bool {
    fence(Ordering::SeqCst);
    // An exploration's threads run one at a time, and see each other's stores at once.
    explored() || membarrier(MembarrierCommand::GlobalExpedited).is_ok()
}

/// Says that the caller spins and expects another thread to make the next move soon.
#[inline(always)]
pub fn spin_hint() {
    #[cfg(feature = "shuttle")]
    if explored() {
        return shuttle::thread::yield_now();
    }
    std::hint::spin_loop();
}

/// Gives the processor to another thread that can run, if there is one.
#[inline]
pub fn yield_now() {
    #[cfg(feature = "shuttle")]
    if explored() {
        return shuttle::thread::yield_now();
    }
    std::thread::yield_now();
}

/// Sleeps for `time`, so that others get on; under an exploration, which knows no time, only lets them run.
pub fn pause(time: std::time::Duration) {
    #[cfg(feature = "shuttle")]
    if explored() {
        return shuttle::thread::yield_now();
    }
    std::thread::sleep(time);
}

macro_rules! atomic {
    ($name:ident, $int:ty) => {
        #[doc = concat!("An atomic `", stringify!($int), "`, laid out as one.")]
        #[derive(Default)]
        #[repr(transparent)]
        pub struct $name(std::sync::atomic::$name);

        impl $name {
            /// A word that holds `value`.
            #[inline(always)]
            pub const fn new(value: $int) -> Self {
                Self(std::sync::atomic::$name::new(value))
            }

            /// Reads the word.
            #[inline(always)]
            pub fn load(&self, order: Ordering) -> $int {
                schedule();
                self.0.load(order)
            }

            /// Replaces the word.
            #[inline(always)]
            pub fn store(&self, value: $int, order: Ordering) {
                schedule();
                self.0.store(value, order);
            }

            /// Replaces the word and returns what it held.
            #[inline(always)]
            pub fn swap(&self, value: $int, order: Ordering) -> $int {
                schedule();
                self.0.swap(value, order)
            }

            /// Replaces the word by `new` if it holds `current`. Returns what it held, as `Err` if it was
            /// left alone.
            #[inline(always)]
            pub fn compare_exchange(
                &self,
                current: $int,
                new: $int,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$int, $int> {
                schedule();
                self.0.compare_exchange(current, new, success, failure)
            }

            /// As `compare_exchange`, but may leave the word alone for no reason: for loops.
            #[inline(always)]
            pub fn compare_exchange_weak(
                &self,
                current: $int,
                new: $int,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$int, $int> {
                schedule();
                self.0.compare_exchange_weak(current, new, success, failure)
            }

            /// Adds, wrapping around, and returns what the word held.
            #[inline(always)]
            pub fn fetch_add(&self, value: $int, order: Ordering) -> $int {
                schedule();
                self.0.fetch_add(value, order)
            }

            /// Subtracts, wrapping around, and returns what the word held.
            #[inline(always)]
            pub fn fetch_sub(&self, value: $int, order: Ordering) -> $int {
                schedule();
                self.0.fetch_sub(value, order)
            }

            /// Sets the bits of `value` and returns what the word held.
            #[inline(always)]
            pub fn fetch_or(&self, value: $int, order: Ordering) -> $int {
                schedule();
                self.0.fetch_or(value, order)
            }

            /// Keeps only the bits of `value` and returns what the word held.
            #[inline(always)]
            pub fn fetch_and(&self, value: $int, order: Ordering) -> $int {
                schedule();
                self.0.fetch_and(value, order)
            }

            /// Raises the word to `value` unless it is larger, and returns what it held.
            #[inline(always)]
            pub fn fetch_max(&self, value: $int, order: Ordering) -> $int {
                schedule();
                self.0.fetch_max(value, order)
            }

            /// The word as a plain one: a thread that holds it exclusively needs no atomics.
            #[inline(always)]
            pub fn get_mut(&mut self) -> &mut $int {
                self.0.get_mut()
            }

            /// The word's address.
            #[inline(always)]
            pub const fn as_ptr(&self) -> *mut $int {
                self.0.as_ptr()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

atomic!(AtomicU8, u8);
atomic!(AtomicU16, u16);
atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);

impl AtomicU32 {
    /// The word as the standard library's: what the kernel waits on, and what is read without asking the
    /// explorer.
    #[inline(always)]
    pub(crate) fn raw(&self) -> &std::sync::atomic::AtomicU32 {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_laid_out_as_their_integers() {
        assert_eq!((size_of::<AtomicU8>(), align_of::<AtomicU8>()), (1, 1));
        assert_eq!((size_of::<AtomicU16>(), align_of::<AtomicU16>()), (2, 2));
        assert_eq!((size_of::<AtomicU32>(), align_of::<AtomicU32>()), (4, 4));
        assert_eq!((size_of::<AtomicU64>(), align_of::<AtomicU64>()), (8, 8));
    }

    #[test]
    fn each_operation_does_what_it_is_named_after() {
        let mut word = AtomicU16::new(0b0110);
        let order = Ordering::SeqCst;
        assert_eq!(word.fetch_or(0b1001, order), 0b0110);
        assert_eq!(word.fetch_and(0b0011, order), 0b1111);
        assert_eq!(word.fetch_add(4, order), 3);
        assert_eq!(word.fetch_sub(8, order), 7);
        assert_eq!(word.fetch_max(5, order), u16::MAX, "subtraction wraps around");
        assert_eq!(word.swap(5, order), u16::MAX, "a maximum never lowers the word");
        assert_eq!(word.fetch_max(9, order), 5);
        assert_eq!(word.compare_exchange(5, 1, order, order), Err(9));
        assert_eq!(word.compare_exchange(9, 1, order, order), Ok(9));
        word.store(word.load(order) + 1, order);
        *word.get_mut() += 1;
        assert_eq!(format!("{word:?}"), "3");
    }
}
