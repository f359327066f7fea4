//! Settings: ways to open an environment that must make no difference to what it answers.

use std::sync::Arc;

use sablecat::{Builder, Durability, Env, Journal};
use sablecat_os::sim::SimDisk;

use crate::dice::Dice;
use crate::engine::REVERSED;

/// Where simulated environments live.
pub const DIRECTORY: &str = "/env";

/// How an environment is opened.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Bytes of a page.
    pub page_size: usize,
    /// Bytes of the cache; the engine takes at least 256 pages.
    pub cache: u64,
    /// The rung of single operations.
    pub durability: Durability,
    /// Bytes of the log's buffer.
    pub log_buffer: usize,
    /// Bytes of a log segment.
    pub log_segment: u64,
    /// What is kept to go back to.
    pub journal: Option<Journal>,
    /// Whether the log is written by writes that are durable by themselves.
    pub sync_io: bool,
}

impl Setting {
    /// Small in everything, so that every limit is met.
    pub fn small(page_size: usize, durability: Durability) -> Setting {
        Setting { page_size, cache: 0, durability, log_buffer: 65536, log_segment: 65536, journal: None, sync_io: false }
    }

    /// A small setting from a seed.
    pub fn any_small(dice: &mut Dice) -> Setting {
        let durability = dice.pick(&crate::step::RUNGS);
        Setting::small(dice.pick(&[512, 1024, 4096]), durability)
    }

    /// A small setting from a seed, which may have a journal and write its log in another way.
    pub fn any_journaled(dice: &mut Dice) -> Setting {
        let setting = Setting::any_small(dice);
        let journal = Journal::new().epochs(dice.pick(&[0, 1, 3])).keep_bytes(dice.pick(&[1, 1 << 18]));
        Setting { journal: dice.percent(40).then_some(journal), sync_io: dice.percent(30), ..setting }
    }

    /// Bytes from which on keys are nested.
    pub fn stem(&self) -> usize {
        self.page_size / 8 - 16
    }

    /// A builder that does nothing in the background.
    pub fn builder(&self) -> Builder {
        let builder = match &self.journal {
            Some(journal) => Env::builder().journal(journal.clone()),
            None => Env::builder(),
        };
        builder
            .page_size(self.page_size)
            .cache_size(self.cache)
            .durability(self.durability)
            .log_buffer_size(self.log_buffer)
            .log_segment_size(self.log_segment)
            .background(false)
            .sync_io(self.sync_io)
            .comparator(REVERSED, |a, b| b.cmp(a))
    }

    /// The builder on a simulated disk.
    pub fn builder_on(&self, disk: &SimDisk) -> Builder {
        self.builder().disk(Arc::new(disk.clone()))
    }
}
