//! SQLite's C library over sablecat: `libsqlite3.so.0`, `libsqlite3.a` and `sqlite3.h`, for programs that
//! know nothing of it.
//!
//! ```text
//! cargo run --release -p sablecat-sqlite3 -- DIRECTORY
//! ```
//!
//! puts them there: [`sablecat_sql`], which says what is whose, as an archive of C's. Of symbols it has those
//! that SQLite's interface has and no others, so that it is in nobody's way.
//!
//! ```text
//! lib.rs     what becomes the archive
//! main.rs    the command
//! parts.rs   the two libraries, made of the archive by the C compiler
//! ```

use std::ffi::c_int;

use sablecat_sql as _;

/// By this `sablecat-sql` knows that it is a system's SQLite, with a system's defaults.
// SAFETY: nothing else has such a name.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "as C has it")]
static sablecat_sql_is_c_library: c_int = 1;
