//! Visibility: looking at the version of a page that a state has.
//!
//! A participant that has pinned a state looks at pages in operations (`operation`), which find the version
//! that is valid at it and keep that in its frame. Whether a page has changed since is asked without one
//! (`unchanged`). A participant that has the environment to itself changes pages in place (`alone`).

mod alone;
pub(in crate::pages) mod operation;
mod run;
mod unchanged;

pub(crate) use alone::Alone;

use std::ops::Deref;

use sablecat_os::atomic::accept_fences;

use crate::pages::pool::Pool;

/// The versions of pages, as states have them.
#[derive(Debug)]
pub(crate) struct Visibility {
    pool: Pool,
    /// Whether others may fence this process's operations, so that what these say of themselves can be relied
    /// upon.
    says_what_it_looks_at: bool,
}

impl Visibility {
    pub(in crate::pages) fn new(pool: Pool) -> Visibility {
        Visibility { pool, says_what_it_looks_at: accept_fences() }
    }
}

impl Deref for Visibility {
    type Target = Pool;

    #[inline(always)]
    fn deref(&self) -> &Pool {
        &self.pool
    }
}
