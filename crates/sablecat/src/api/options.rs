//! How transactions may differ from an environment's defaults.

use std::time::Duration;

use super::Env;
use crate::txn::{Durability, Isolation, Options};

/// How a transaction differs from the environment's defaults.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct TxnOptions {
    isolation: Option<Isolation>,
    durability: Option<Durability>,
    lock_timeout: Option<Duration>,
    give_up_after: Option<Duration>,
}

/// How long [`Env::write`] goes on, unless something else was asked for.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);

impl TxnOptions {
    /// The environment's defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// What the transaction is protected from: see [`Isolation`].
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = Some(isolation);
        self
    }

    /// How durable the transaction is when its commit returns: see [`Durability`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// How long it waits for a record lock.
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = Some(timeout);
        self
    }

    /// For how long [`Env::write`] runs its work again after conflicts: once this time has passed since the
    /// first one, the error is returned. Zero: it runs once. A single run may take longer, and is not
    /// interrupted. Only `write` and the like use this: a transaction that was begun by hand is not run
    /// again. Default: one minute.
    pub fn give_up_after(mut self, time: Duration) -> Self {
        self.give_up_after = Some(time);
        self
    }

    /// For how long the work is run again.
    pub(super) fn time_to_repeat(&self) -> Duration {
        self.give_up_after.unwrap_or(GIVE_UP_AFTER)
    }

    /// The options that the engine is given.
    pub(super) fn resolve(self, env: &Env) -> Options {
        let config = &env.core().config;
        Options {
            isolation: self.isolation.unwrap_or(config.isolation),
            durability: self.durability.unwrap_or(config.durability),
            read_only: false,
            patience: self.lock_timeout.unwrap_or(config.lock_timeout),
        }
    }
}
