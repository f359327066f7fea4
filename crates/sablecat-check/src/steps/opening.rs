//! How the environment of a place is opened.

use sablecat::{Builder, Durability, Env, Place as Where};

use super::state::Place;
use crate::{method, stored};

/// The smallest segments of the log that are used.
pub(super) const SEGMENT_BYTES: u64 = 1 << 16;
/// The smallest pages: the less there is to copy.
pub(super) const PAGE_BYTES: usize = 512;
/// Epochs that a journal has.
pub(super) const EPOCHS: u32 = 2;

/// Opens the environment of a place.
pub(super) fn open(place: &Place) -> sablecat::Result<Env> {
    open_with(place, 0)
}

/// Opens the environment of a place; with so much cache, if others do not have it open.
pub(super) fn open_with(place: &Place, cache_bytes: u64) -> sablecat::Result<Env> {
    builder(place, cache_bytes).open(place.environment())
}

pub(super) fn builder(place: &Place, cache_bytes: u64) -> Builder {
    stored::compressed(stored::keyed(method::builder()), PAGE_BYTES, &["one"])
        .shared(true)
        .background(false)
        .cache_size(cache_bytes)
        .log_buffer_size(1 << 16)
        .log_segment_size(SEGMENT_BYTES)
        .durability(Durability::Sync)
        .region_directory(place.regions())
        // Half of what is done is done in another file.
        .volume("one", "one.db")
        .place(Where::database("d"), "one")
}
