//! A clock that tests of records that expire set, and environments that have it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sablecat::{Builder, Env, Isolation, Method, Moment, TxnOptions};

pub const ISOLATIONS: [Isolation; 3] =
    [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];

pub const METHODS: [Method; 2] = [Method::Btree, Method::Hash];

/// When the clock of a test begins.
pub const BEGIN: u64 = 1_000_000;

/// A clock that a test sets.
#[derive(Clone, Debug)]
pub struct Clock(Arc<AtomicU64>);

impl Clock {
    #[allow(clippy::new_without_default, reason = "begins at a time that is chosen")]
    pub fn new() -> Clock {
        Clock(Arc::new(AtomicU64::new(BEGIN)))
    }

    pub fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    pub fn set(&self, ms: u64) {
        self.0.store(ms, Ordering::SeqCst);
    }

    pub fn pass(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }

    pub fn builder(&self) -> Builder {
        let clock = self.clone();
        Env::builder().clock(move || Moment { ms: clock.now() }).cache_size(8 << 20).background(false)
    }

    pub fn in_memory(&self) -> Env {
        self.builder().in_memory().expect("made")
    }
}

pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub fn at(isolation: Isolation) -> TxnOptions {
    TxnOptions::new().isolation(isolation)
}
