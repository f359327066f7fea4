//! Pages: from a page id to the bytes of the version one may see.
//!
//! A logical page has a stable id. Its current version is in a frame of the pool or on a block of the volume;
//! older versions that a snapshot may still need hang behind it, newest first. A published version never
//! changes, so a page is a plain `&[u8]`.
//!
//! Two protections, both announced in the participant's slot, both one store and a fence:
//! - a *pin* at LSN S keeps every version valid at S from being reclaimed, for as long as a snapshot lives;
//! - an *operation* (its epoch) keeps every frame that was reachable when it began from being used for
//!   something else, for as long as one call lasts. Eviction needs it: a page may leave the pool although a
//!   snapshot could read it, since it can be read in again.
//!
//! A version superseded at `c` is freed when no pin is below `c` (the *horizon*), or when no pin lies in
//! [born, c); the latter also waits for the operations in progress, because chain walkers may be on it.
//!
//! Inside an operation nothing waits for frames: what runs out of them gets an error that
//! [`Visibility::operate`] answers by leaving the operation, sweeping, and running it again. So a sweep never
//! waits for itself.

mod allocation;
mod bell;
mod generation;
pub(crate) mod header;
mod participants;
mod pool;
mod store;
#[cfg(test)]
pub(crate) mod tests;
mod visibility;
pub(crate) mod volume;

pub(crate) use allocation::first_within;
pub(crate) use bell::Bell;
#[cfg(test)]
pub(crate) use participants::hand::pretend;
pub(crate) use participants::hints::{Foresight, Near, Use};
pub(crate) use participants::{InHand, LocalParticipant, PinnedSeat, Seat};
#[cfg(test)]
pub(crate) use pool::latch::impatiently;
pub(crate) use pool::rest::runs_of;
pub(crate) use pool::{NewVersions, PageKinds, PageMap};
pub(crate) use store::lost::Lost;
pub(crate) use store::relocate::Moving;
pub(crate) use store::run::PageRun;
pub(crate) use store::settled::PageSet;
pub(crate) use visibility::Alone;
pub(crate) use visibility::operation::Snapshot;

use std::ops::Deref;
use std::sync::Arc;

use crate::error::Result;
use crate::region::Region;
use generation::Generations;
use pool::Pool;
use store::Store;
use visibility::Visibility;
use volume::Volume;

/// The pages of one environment: what all the rooms can do, each with what those below it can.
#[derive(Debug)]
pub(crate) struct Pages(Store);

impl Pages {
    /// Pages over a region: of `volume`, or of memory alone. A volume that may only be read is followed
    /// (store/follow.rs).
    pub(crate) fn new(region: Arc<Region>, volume: Option<Volume>, kinds: PageKinds) -> Result<Pages> {
        Ok(Pages::over(Generations::new(region, volume)?, kinds))
    }

    fn over(generations: Generations, kinds: PageKinds) -> Pages {
        let store = Store::new(Visibility::new(Pool::new(generations, kinds)));
        store.watch_keys();
        Pages(store)
    }
}

impl Deref for Pages {
    type Target = Store;

    #[inline(always)]
    fn deref(&self) -> &Store {
        &self.0
    }
}
