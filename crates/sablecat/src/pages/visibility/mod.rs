//! Visibility: who may look at which version of a page, and what is kept for that.
//!
//! A participant sits down (`participants`), pins a state (`pin`) and looks at pages in operations
//! (`operation`), which find the version of a page that is valid at that state. What no pin and no operation
//! protects any more lies beyond the `horizon`.

mod hints;
pub(in crate::pages) mod horizon;
pub(in crate::pages) mod operation;
pub(in crate::pages) mod participants;
mod pin;
mod unchanged;
