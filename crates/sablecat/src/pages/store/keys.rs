//! Keys and pages: telling other processes of a new key, and how much is enciphered with older ones.
//!
//! What is, a checkpoint that moves pages to the newest key ([`super::relocate::Moving::ToKey`]) reads and
//! writes to other blocks, as if it moved them down; so nobody waits for it and a crash leaves either.

use std::sync::Arc;

use sablecat_os::atomic::Ordering;

use super::Store;

impl Store {
    /// Has this process look for new keys when another says that there are some.
    pub(in crate::pages) fn watch_keys(&self) {
        let Some(keys) = self.volume.as_ref().and_then(|volume| volume.keyring()) else { return };
        let (region, own) = (Arc::clone(&self.region), Arc::clone(&self.region));
        keys.watch(move || region.header().keys.0.load(Ordering::Acquire), move || own.check_fence());
    }
}

#[cfg(feature = "encryption")]
mod changed {
    use super::{Ordering, Store};
    use crate::error::Result;
    use crate::pages::participants::LocalParticipant;
    use crate::pages::volume::MapFinding;

    impl Store {
        /// Changes the keys in the file of the main volume while nobody makes a checkpoint: a participant
        /// that flushed the file at the same time would not hear of what is lost if the flush of the keys
        /// fails.
        ///
        /// # Errors
        /// Those of the change; one that leaves the volume in doubt poisons the environment.
        pub(crate) fn change_keys<T>(
            &self,
            me: &LocalParticipant,
            change: impl FnOnce() -> Result<T>,
        ) -> Result<T> {
            let _no_checkpoint = self.hold_checkpoint(me)?;
            self.fail_if_poisoned()?;
            change().inspect_err(|error| {
                if error.is_volume_in_doubt() {
                    self.poison();
                }
            })
        }

        /// Says that the keys were changed: the number of the newest key block.
        pub(crate) fn say_keys(&self, number: u64) {
            // Release: pairs with the load above; the key block is durable before this.
            self.region.header().keys.0.fetch_max(number, Ordering::Release);
        }

        /// True unless the search for what is enciphered with older keys has just come to its end.
        pub(crate) fn is_enciphering_anew(&self) -> bool {
            self.anew_below.load(std::sync::atomic::Ordering::Relaxed) != 0
        }

        /// How many blocks of pages and of the map in force are enciphered with another key than the newest.
        /// Checkpoints wait for the pages of one map leaf. What cannot be read is not counted.
        ///
        /// # Errors
        /// Those of the file.
        pub(crate) fn blocks_of_older_keys(&self, me: &LocalParticipant) -> Result<u64> {
            let Some(volume) = &self.volume else { return Ok(0) };
            let Some(keys) = volume.keyring() else { return Ok(0) };
            let mut count = 0;
            for first in (0..self.page_ids.high_water()).step_by(volume.leaf_span() as usize) {
                count += self.without_checkpoint(me, || {
                    self.follow_generation(volume)?;
                    let mut older = 0;
                    volume.walk(first..first + volume.leaf_span(), &mut |found| {
                        let block = match found {
                            // Inner blocks of the map are met with each leaf.
                            MapFinding::Map(block) => block,
                            MapFinding::Page(_, block) => block.block(),
                            MapFinding::Damaged(..) => return Ok(()),
                        };
                        self.move_on();
                        older += u64::from(volume.has_other_key(block, keys.newest()));
                        Ok(())
                    })?;
                    Ok(older)
                })?;
            }
            Ok(count)
        }
    }
}
