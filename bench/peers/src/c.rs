//! The door to the C adapters: the only unsafe code of this program.
//!
//! Every adapter in src/c is a table of functions ([`RawPeer`], `struct peer` in src/c/peer.h), which becomes
//! the three traits of [`crate::system`] here.
//!
//! The structs with `repr(C)` repeat peer.h member by member; `the_layouts_are_those_of_c` compares their
//! sizes.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::NonNull;

use crate::mix::Act;
use crate::shape::Shape;
use crate::system::{Job, Mode, Options, Outcome, Peer, Session, Store};
use crate::watch::Watch;
use crate::workload::Order;

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

/// `struct peer_job`.
#[repr(C)]
struct RawJob {
    order: Order,
    shape: Shape,
    records: u64,
    present: u64,
    acts: *const Act,
    acts_count: u64,
    watch: *mut Watch,
    first: u64,
    end: u64,
    seconds_max: f64,
    check_every: u64,
    version: u32,
    passes: u32,
    kind: i32,
    whole: i32,
    cursor: i32,
}

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

/// `struct peer`.
#[repr(C)]
pub(crate) struct RawPeer {
    version: unsafe extern "C" fn() -> *const c_char,
    meaning: unsafe extern "C" fn(c_int) -> *const c_char,
    open: unsafe extern "C" fn(*const RawOptions, *mut c_char) -> *mut c_void,
    session: unsafe extern "C" fn(*mut c_void, *mut c_char) -> *mut c_void,
    run: unsafe extern "C" fn(*mut c_void, *const RawJob, *mut RawResult),
    end_session: unsafe extern "C" fn(*mut c_void),
    settle: unsafe extern "C" fn(*mut c_void, *mut c_char) -> c_int,
    upkeep: Option<unsafe extern "C" fn(*mut c_void, c_int, *mut c_char) -> c_int>,
    close: unsafe extern "C" fn(*mut c_void, *mut c_char) -> c_int,
}

/// A system with a table of functions.
pub(crate) struct InC(pub(crate) &'static RawPeer);

impl Peer for InC {
    fn version(&self) -> String {
        // SAFETY: every adapter's `version` may be called at any time and returns a static or otherwise
        // lasting text.
        unsafe { lasting_text((self.0.version)()) }.unwrap_or_default()
    }

    fn meaning(&self, mode: Mode) -> Option<String> {
        // SAFETY: `meaning` takes any number and returns NULL or a string literal.
        unsafe { lasting_text((self.0.meaning)(mode as c_int)) }
    }

    fn open(&self, options: &Options) -> Result<Box<dyn Store>, String> {
        let dir =
            CString::new(options.dir.as_os_str().as_encoded_bytes()).map_err(|error| error.to_string())?;
        let raw = RawOptions {
            dir: dir.as_ptr(),
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
        let store = unsafe { (self.0.open)(&raw, error.as_mut_ptr()) };
        let store = NonNull::new(store).ok_or_else(|| text(&error))?;
        Ok(Box::new(StoreInC { peer: self.0, store }))
    }
}

struct StoreInC {
    peer: &'static RawPeer,
    store: NonNull<c_void>,
}

// SAFETY: peer.h lets sessions be made from any thread on the same store; open, settle and close are only
// called by the owner (`settle` takes &mut, `close` takes self).
unsafe impl Sync for StoreInC {}

impl Store for StoreInC {
    fn session(&self) -> Result<Box<dyn Session + '_>, String> {
        let mut error = [0; TEXT_BYTES];
        // SAFETY: the store is open (only `close` ends it, and consumes self), `error` has the size peer.h
        // names.
        let session = unsafe { (self.peer.session)(self.store.as_ptr(), error.as_mut_ptr()) };
        let session = NonNull::new(session).ok_or_else(|| text(&error))?;
        Ok(Box::new(SessionInC { store: self, session }))
    }

    fn settle(&mut self) -> Result<(), String> {
        let mut error = [0; TEXT_BYTES];
        // SAFETY: as in `session`; &mut self means that no session is alive.
        let failed = unsafe { (self.peer.settle)(self.store.as_ptr(), error.as_mut_ptr()) };
        if failed == 0 { Ok(()) } else { Err(text(&error)) }
    }

    fn upkeep(&self, checkpoint: bool) -> Result<(), String> {
        let Some(upkeep) = self.peer.upkeep else { return Ok(()) };
        let mut error = [0; TEXT_BYTES];
        // SAFETY: as in `session`; peer.h lets one thread call it beside the sessions', which the caller's
        // contract says it is.
        let failed = unsafe { upkeep(self.store.as_ptr(), c_int::from(checkpoint), error.as_mut_ptr()) };
        if failed == 0 { Ok(()) } else { Err(text(&error)) }
    }

    fn close(self: Box<Self>) -> Result<(), String> {
        let mut error = [0; TEXT_BYTES];
        // SAFETY: as in `session`; self by value means that no session is alive and nothing is called
        // afterwards.
        let failed = unsafe { (self.peer.close)(self.store.as_ptr(), error.as_mut_ptr()) };
        if failed == 0 { Ok(()) } else { Err(text(&error)) }
    }
}

/// Not `Send`: it stays on the thread that made it.
struct SessionInC<'store> {
    store: &'store StoreInC,
    session: NonNull<c_void>,
}

impl Session for SessionInC<'_> {
    fn run(&mut self, job: &Job, acts: Vec<Act>, timed: bool) -> Outcome {
        let mut watch = timed.then(Watch::new);
        let raw_job = RawJob {
            order: job.order,
            shape: job.shape,
            records: job.records,
            present: job.present,
            acts: acts.as_ptr(),
            acts_count: acts.len() as u64,
            watch: watch.as_deref_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut),
            first: job.first,
            end: job.end,
            seconds_max: job.seconds_max,
            check_every: job.check_every,
            version: job.version,
            passes: job.passes,
            kind: job.kind as i32,
            whole: i32::from(job.whole),
            cursor: i32::from(job.cursor),
        };
        let mut raw = RawResult {
            ops: 0,
            errors: 0,
            inserted: 0,
            started_ns: 0,
            ended_ns: 0,
            first_error: [0; TEXT_BYTES],
            note: [0; TEXT_BYTES],
        };
        // SAFETY: the session is open (ended by drop only) and on its thread; the job, `acts`, `watch` and
        // `raw` outlive the call.
        unsafe { (self.store.peer.run)(self.session.as_ptr(), &raw_job, &mut raw) };
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

impl Drop for SessionInC<'_> {
    fn drop(&mut self) {
        // SAFETY: the session is open, its store is too (it is borrowed), and nobody uses it afterwards.
        unsafe { (self.store.peer.end_session)(self.session.as_ptr()) }
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
                size_of::<RawJob>(),
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
