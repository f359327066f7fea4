//! Where SQLite's memory is from.

use std::ffi::c_void;

use rusqlite::ffi;

// SAFETY: as mimalloc declares it; any address may be asked about.
unsafe extern "C" {
    fn mi_is_in_heap_region(at: *const c_void) -> bool;
}

#[test]
fn the_memory_of_sqlite_is_of_mimalloc() {
    // SAFETY: memory that is asked for, made longer, looked at by its address, and given back.
    unsafe {
        let short = ffi::sqlite3_malloc(100);
        assert!(!short.is_null() && mi_is_in_heap_region(short));
        assert_eq!(ffi::sqlite3_msize(short), 104, "as it was asked for, in words");
        let long = ffi::sqlite3_realloc(short, 100_000);
        assert!(!long.is_null() && mi_is_in_heap_region(long));
        ffi::sqlite3_free(long);
        let own = 7;
        assert!(!mi_is_in_heap_region((&raw const own).cast()), "and it can be told");
    }
}
