//! The door to the C adapters: the only unsafe code of this program.
//!
//! Every adapter is a table of functions ([`Peer`], `struct peer` in src/c/peer.h). Here it becomes three
//! Rust types: a [`System`] that can be opened, the [`Store`] that it opens, and a [`Session`] per thread. A
//! session borrows its store, so a store cannot be closed under one, and closing a store consumes it.
//!
//! The structs with `repr(C)` repeat peer.h member by member; `the_layouts_are_those_of_c` compares their
//! sizes.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;

use serde::{Deserialize, Serialize};

use crate::mix::Act;
use crate::shape::Shape;
use crate::watch::Watch;
use crate::workload::Order;

/// What of a store's promises is bought for a run, from none to durable commits. The numbers are C's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(i32)]
pub(crate) enum Mode {
    /// Data Store: no locks, log or transactions, as far as the system can leave them out.
    #[serde(rename = "DS")]
    Ds = 0,
    /// Transactions; for reads.
    #[serde(rename = "TDS")]
    Tds = 1,
    /// Transactions, with a log in memory only.
    Memory = 2,
    /// A commit stays in the process.
    NoSync = 3,
    /// A commit is with the operating system.
    WriteNoSync = 4,
    /// A commit is durable when it returns.
    Sync = 5,
    /// A commit stays in the process, and is made durable by somebody beside it.
    Background = 6,
    /// Nothing is logged, and threads work side by side.
    Unlogged = 7,
}

impl Mode {
    /// From the least to the most, and two that the others have nothing to do with.
    pub(crate) const ALL: [Mode; 8] = [
        Mode::Ds,
        Mode::Tds,
        Mode::Memory,
        Mode::NoSync,
        Mode::WriteNoSync,
        Mode::Sync,
        Mode::Background,
        Mode::Unlogged,
    ];

    /// As requests and reports spell it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Ds => "DS",
            Mode::Tds => "TDS",
            Mode::Memory => "Memory",
            Mode::NoSync => "NoSync",
            Mode::WriteNoSync => "WriteNoSync",
            Mode::Sync => "Sync",
            Mode::Background => "Background",
            Mode::Unlogged => "Unlogged",
        }
    }
}

const TEXT_BYTES: usize = 240;

/// `struct peer_options`.
#[repr(C)]
struct RawOptions {
    dir: *const c_char,
    cache_bytes: u64,
    log_buffer: u64,
    page_size: u32,
    threads: u32,
    mode: i32,
    transactions: i32,
    direct: i32,
}

/// `struct peer_job`: one thread's share of a run.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) order: Order,
    pub(crate) shape: Shape,
    pub(crate) records: u64,
    pub(crate) present: u64,
    /// What the thread does in a mix; set by [`Session::run`].
    pub(crate) acts: Acts,
    /// What times each act; set by [`Session::run`].
    pub(crate) watch: Timed,
    pub(crate) first: u64,
    pub(crate) end: u64,
    pub(crate) seconds_max: f64,
    pub(crate) check_every: u64,
    pub(crate) version: u32,
    pub(crate) passes: u32,
    pub(crate) kind: i32,
    pub(crate) whole: i32,
    pub(crate) cursor: i32,
}

/// A list as C is given it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acts {
    first: *const Act,
    count: u64,
}

impl Acts {
    /// None.
    pub(crate) const NONE: Acts = Acts { first: std::ptr::null(), count: 0 };
}

// SAFETY: it is only followed by the thread that was given the list too, in `Session::run`.
unsafe impl Sync for Acts {}

/// A watch as C is given it, or none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed(*mut Watch);

impl Timed {
    /// None.
    pub(crate) const NOT: Timed = Timed(std::ptr::null_mut());
}

// SAFETY: it is only followed by the thread whose watch it is, in `Session::run`.
unsafe impl Sync for Timed {}

/// `struct peer_result`.
#[repr(C)]
struct RawResult {
    ops: u64,
    errors: u64,
    inserted: u64,
    started_ns: u64,
    ended_ns: u64,
    first_error: [c_char; TEXT_BYTES],
    note: [c_char; TEXT_BYTES],
}

/// What one thread's share came to; the times are of the monotonic clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) ops: u64,
    pub(crate) errors: u64,
    pub(crate) inserted: u64,
    pub(crate) started_ns: u64,
    pub(crate) ended_ns: u64,
    pub(crate) first_error: String,
    pub(crate) note: String,
    /// How long acts took, where that was asked for.
    pub(crate) watch: Option<Box<Watch>>,
}

/// `struct peer`.
#[repr(C)]
struct Peer {
    version: unsafe extern "C" fn() -> *const c_char,
    meaning: unsafe extern "C" fn(c_int) -> *const c_char,
    open: unsafe extern "C" fn(*const RawOptions, *mut c_char) -> *mut c_void,
    session: unsafe extern "C" fn(*mut c_void, *mut c_char) -> *mut c_void,
    run: unsafe extern "C" fn(*mut c_void, *const Job, *mut RawResult),
    end_session: unsafe extern "C" fn(*mut c_void),
    settle: unsafe extern "C" fn(*mut c_void, *mut c_char) -> c_int,
    upkeep: Option<unsafe extern "C" fn(*mut c_void, c_int, *mut c_char) -> c_int>,
    close: unsafe extern "C" fn(*mut c_void, *mut c_char) -> c_int,
}

/// The adapters that this build has, and why it lacks the others.
#[allow(clippy::undocumented_unsafe_blocks, reason = "generated; argued in the module's own comment")]
mod built {
    // SAFETY of the generated references: each names a `const struct peer` of an adapter that the build
    // script has compiled into this program; it is never written and lives as long as the program.
    use super::Peer;
    include!(concat!(env!("OUT_DIR"), "/systems.rs"));
}

pub(crate) use built::SKIPPED;

/// A system that this build can run.
#[derive(Clone, Copy)]
pub(crate) struct System {
    pub(crate) name: &'static str,
    peer: &'static Peer,
}

/// How to open a store; see [`crate::protocol::Open`].
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) dir: CString,
    pub(crate) mode: Mode,
    pub(crate) cache_bytes: u64,
    pub(crate) log_buffer: u64,
    pub(crate) page_size: u32,
    pub(crate) threads: u32,
    pub(crate) direct: bool,
    pub(crate) transactions: bool,
}

/// All systems that this build can run.
pub(crate) fn all() -> impl Iterator<Item = System> {
    built::FOUND.iter().map(|&(name, peer)| System { name, peer })
}

/// The system of that name, or why it cannot be run.
pub(crate) fn find(name: &str) -> Result<System, String> {
    if let Some(system) = all().find(|system| system.name == name) {
        return Ok(system);
    }
    let skipped = SKIPPED.iter().find(|(skipped, _)| *skipped == name);
    Err(skipped.map_or_else(|| "no such system".to_owned(), |(_, reason)| (*reason).to_owned()))
}

impl System {
    pub(crate) fn version(&self) -> String {
        // SAFETY: every adapter's `version` may be called at any time and returns a static or otherwise
        // lasting text.
        unsafe { lasting_text((self.peer.version)()) }.unwrap_or_default()
    }

    /// What a mode means in this system; `None` when it has none like it.
    pub(crate) fn meaning(&self, mode: Mode) -> Option<String> {
        // SAFETY: `meaning` takes any number and returns NULL or a string literal.
        unsafe { lasting_text((self.peer.meaning)(mode as c_int)) }
    }

    pub(crate) fn open(&self, options: &Options) -> Result<Store, String> {
        let raw = RawOptions {
            dir: options.dir.as_ptr(),
            cache_bytes: options.cache_bytes,
            log_buffer: options.log_buffer,
            page_size: options.page_size,
            threads: options.threads,
            mode: options.mode as i32,
            transactions: i32::from(options.transactions),
            direct: i32::from(options.direct),
        };
        let mut error = [0; TEXT_BYTES];
        // SAFETY: `raw` and the text it points to outlive the call, and `error` has the size that peer.h
        // names.
        let store = unsafe { (self.peer.open)(&raw, error.as_mut_ptr()) };
        let store = NonNull::new(store).ok_or_else(|| text(&error))?;
        Ok(Store { peer: self.peer, store })
    }
}

/// An open store. Dropping it without [`Store::close`] leaks it, as a killed process would.
pub(crate) struct Store {
    peer: &'static Peer,
    store: NonNull<c_void>,
}

// SAFETY: peer.h lets sessions be made from any thread on the same store; open, settle and close are only
// called by the owner (`settle` takes &mut, `close` takes self).
unsafe impl Sync for Store {}

impl Store {
    pub(crate) fn session(&self) -> Result<Session<'_>, String> {
        let mut error = [0; TEXT_BYTES];
        // SAFETY: the store is open (only `close` ends it, and consumes self), `error` has the size peer.h
        // names.
        let session = unsafe { (self.peer.session)(self.store.as_ptr(), error.as_mut_ptr()) };
        let session = NonNull::new(session).ok_or_else(|| text(&error))?;
        Ok(Session { peer: self.peer, session, store: PhantomData })
    }

    /// Brings the store into the shape in which it likes to be read.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        let mut error = [0; TEXT_BYTES];
        // SAFETY: as in `session`; &mut self means that no session is alive.
        let failed = unsafe { (self.peer.settle)(self.store.as_ptr(), error.as_mut_ptr()) };
        if failed == 0 { Ok(()) } else { Err(text(&error)) }
    }

    /// Makes durable what has been committed, or a checkpoint, beside the sessions. One thread does that, in
    /// a store that was opened for two or more.
    pub(crate) fn upkeep(&self, checkpoint: bool) -> Result<(), String> {
        let Some(upkeep) = self.peer.upkeep else { return Ok(()) };
        let mut error = [0; TEXT_BYTES];
        // SAFETY: as in `session`; peer.h lets one thread call it beside the sessions', which the caller's
        // contract says it is.
        let failed = unsafe { upkeep(self.store.as_ptr(), c_int::from(checkpoint), error.as_mut_ptr()) };
        if failed == 0 { Ok(()) } else { Err(text(&error)) }
    }

    /// Shuts down cleanly.
    pub(crate) fn close(self) -> Result<(), String> {
        let mut error = [0; TEXT_BYTES];
        // SAFETY: as in `session`; self by value means that no session is alive and nothing is called
        // afterwards.
        let failed = unsafe { (self.peer.close)(self.store.as_ptr(), error.as_mut_ptr()) };
        if failed == 0 { Ok(()) } else { Err(text(&error)) }
    }
}

/// What one thread works with. Not `Send`: it stays on the thread that made it.
pub(crate) struct Session<'store> {
    peer: &'static Peer,
    session: NonNull<c_void>,
    store: PhantomData<&'store Store>,
}

impl Session<'_> {
    pub(crate) fn run(&mut self, job: &Job, acts: &[Act], timed: bool) -> Outcome {
        let mut watch = timed.then(Watch::new);
        let pointer = watch.as_deref_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
        let acts = Acts { first: acts.as_ptr(), count: acts.len() as u64 };
        let job = Job { acts, watch: Timed(pointer), ..*job };
        let mut raw = RawResult {
            ops: 0,
            errors: 0,
            inserted: 0,
            started_ns: 0,
            ended_ns: 0,
            first_error: [0; TEXT_BYTES],
            note: [0; TEXT_BYTES],
        };
        // SAFETY: the session is open (ended by drop only) and on its thread; `job`, `acts`, `watch` and
        // `raw` outlive the call.
        unsafe { (self.peer.run)(self.session.as_ptr(), &job, &mut raw) };
        Outcome {
            ops: raw.ops,
            errors: raw.errors,
            inserted: raw.inserted,
            started_ns: raw.started_ns,
            ended_ns: raw.ended_ns,
            first_error: text(&raw.first_error),
            note: text(&raw.note),
            watch,
        }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // SAFETY: the session is open, its store is too (it is borrowed), and nobody uses it afterwards.
        unsafe { (self.peer.end_session)(self.session.as_ptr()) }
    }
}

/// The monotonic clock, as the adapters read it.
pub(crate) fn now_ns() -> u64 {
    // SAFETY: it takes nothing and returns a number.
    unsafe { probe_now_ns() }
}

// SAFETY: it is declared as src/c/probe.c defines it.
unsafe extern "C" {
    fn probe_now_ns() -> u64;
}

/// The text up to the first NUL.
fn text(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> = bytes.iter().take_while(|&&byte| byte != 0).map(|&byte| byte as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// # Safety
/// `text` is NULL, or points to a NUL-terminated text that nobody changes during the call.
unsafe fn lasting_text(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's promise, for a pointer that is not NULL.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{ANY_VERSION, KEY_BYTES_MAX, VALUE_BYTES_MAX};
    use crate::workload::{self, Keys, Stage};

    // SAFETY: probe.c defines these with these types.
    unsafe extern "C" {
        static probe_sizes: [usize; 6];
        fn probe_key(order: *const Order, position: u64) -> u64;
        fn probe_key_number(bytes: *const u8) -> u64;
        fn probe_key_bytes(key: u64, bytes: *mut u8);
        fn probe_value(key: u64, version: u32, bytes: *mut u8);
        fn probe_is_value(key: u64, version: u32, bytes: *const u8, length: usize) -> c_int;
        fn probe_shape_key(shape: *const Shape, number: u64, bytes: *mut u8) -> usize;
        fn probe_shape_value(shape: *const Shape, number: u64, version: u32, bytes: *mut u8) -> usize;
        fn probe_shape_is_value(
            shape: *const Shape,
            number: u64,
            version: u32,
            bytes: *const u8,
            length: usize,
        ) -> c_int;
        fn probe_shape_number(
            shape: *const Shape,
            key: *const u8,
            key_length: usize,
            value: *const u8,
            value_length: usize,
        ) -> u64;
    }

    #[test]
    fn the_layouts_are_those_of_c() {
        // SAFETY: a constant of probe.c.
        let sizes = unsafe { probe_sizes };
        assert_eq!(
            sizes,
            [
                size_of::<Order>(),
                size_of::<RawOptions>(),
                size_of::<Job>(),
                size_of::<RawResult>(),
                size_of::<Shape>(),
                size_of::<Act>()
            ]
        );
    }

    #[test]
    fn the_c_records_are_the_rust_records() {
        for shape in [Shape::PLAIN, Shape::new(64, 64, 64, false), Shape::new(20, 100, 400, true)] {
            for (number, version) in (0..500).zip([0, 1, 7].into_iter().cycle()) {
                let (mut keys, mut values) = ([[0; KEY_BYTES_MAX]; 2], [[0; VALUE_BYTES_MAX]; 2]);
                let ([key, of_c], [value, value_of_c]) = (keys.each_mut(), values.each_mut());
                let (key, value) = (shape.key(number, key), shape.value(number, version, value));
                // SAFETY: `shape` has C's layout (tested above), the buffers the lengths that shape.h names.
                let lengths = unsafe {
                    [
                        probe_shape_key(&shape, number, of_c.as_mut_ptr()),
                        probe_shape_value(&shape, number, version, value_of_c.as_mut_ptr()),
                    ]
                };
                assert_eq!((key, value), (&of_c[..lengths[0]], &value_of_c[..lengths[1]]), "{shape:?}");
                let is_value = |number, version, value: &[u8]| {
                    // SAFETY: as above; the value is as long as is said.
                    unsafe { probe_shape_is_value(&shape, number, version, value.as_ptr(), value.len()) }
                };
                assert_eq!(is_value(number, version, value), 1);
                assert_eq!(is_value(number, ANY_VERSION, value), i32::from(!shape.is_plain()));
                let (short, mut other) = (&value[..value.len() - 1], value.to_vec());
                other[value.len() - 1] ^= 1;
                for (number, version, value) in [
                    (number + 1, version, value),
                    (number, version + 1, value),
                    (number, version, short),
                    (number, version, &other),
                ] {
                    assert_eq!(is_value(number, version, value), 0, "{shape:?}");
                }
                let number_of = |key: &[u8]| {
                    // SAFETY: as above.
                    unsafe {
                        probe_shape_number(&shape, key.as_ptr(), key.len(), value.as_ptr(), value.len())
                    }
                };
                assert_eq!((number_of(key), number_of(&key[1..])), (number, u64::MAX));
            }
        }
    }

    #[test]
    fn the_c_workload_is_the_rust_workload() {
        for records in [1, 2, 3, 1000, 1024, 1025] {
            for (keys, run) in [(Keys::Sequential, 1), (Keys::Random, 1), (Keys::Random, 10)] {
                let order = Order::in_runs(keys, Stage::Read, (records, run), 42);
                for position in 0..records * run {
                    // SAFETY: `order` has C's layout (tested above).
                    assert_eq!(unsafe { probe_key(&order, position) }, order.key(position));
                }
            }
        }
        for key in [0, 1, 0x0102_0304_0506_0708, u64::MAX] {
            for version in [0, 1, u32::MAX] {
                let (mut key_bytes, mut value) = ([0; workload::KEY_BYTES], [0; workload::VALUE_BYTES]);
                // SAFETY: both buffers have the lengths that workload.h names.
                unsafe {
                    probe_key_bytes(key, key_bytes.as_mut_ptr());
                    probe_value(key, version, value.as_mut_ptr());
                }
                assert_eq!((key_bytes, value), (workload::key_bytes(key), workload::value(key, version)));
                // SAFETY: as above.
                unsafe {
                    assert_eq!(probe_key_number(key_bytes.as_ptr()), key);
                    assert_eq!(probe_is_value(key, version, value.as_ptr(), 32), 1);
                    assert_eq!(probe_is_value(key, version, value.as_ptr(), 31), 0);
                }
                for byte in 0..32 {
                    value[byte] ^= 1;
                    // SAFETY: as above.
                    let right = unsafe { probe_is_value(key, version, value.as_ptr(), 32) };
                    assert_eq!(right, 0);
                    value[byte] ^= 1;
                }
            }
        }
    }
}
