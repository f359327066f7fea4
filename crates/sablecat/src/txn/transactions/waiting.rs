//! Waiting for a change of what a transaction has read.
//!
//! It is woken by commits that publish pages on which there is something of what it has read; these may have
//! changed beside it, so a waiting transaction looks again. (The idea is that of `retry` in Harris, Marlow,
//! Peyton Jones and Herlihy, Composable Memory Transactions, 2005.)
//!
//! A record that it passed over, because another transaction had it locked, it looks at as well: the lock's
//! end wakes it, as there may be no commit. So the lock is marked as waited for.
//!
//! Nothing is kept meanwhile but the seat and what was read, as keys: no snapshot, no record lock, no gate.
//! Commits of pages elsewhere wake it, too, to look at what they published: some microseconds, and a system
//! call for the committer.

use std::time::Duration;

use super::Transaction;
use crate::error::{Error, ErrorKind, Result};

impl Transaction<'_> {
    /// Gives up what it has pending, and waits until something that it has read may have changed, or the
    /// monotonic clock has come to `deadline` (none: never), and then none has. To be restarted afterwards.
    ///
    /// # Errors
    /// `NotAllowed` if it has read nothing, or takes no note of what it reads; `Poisoned` once nothing can
    /// change any more; those of reading.
    pub(crate) fn wait_for_change(&mut self, deadline: Option<Duration>) -> Result<bool> {
        let (passed, empty) = (std::mem::take(&mut self.passed), self.queues.take_empty());
        let (mut reads, at) = self.abandon();
        if let Some(empty) = empty {
            reads.absorb(&empty);
        }
        let (transactions, me) = (self.transactions, &*self.seat);
        // A database that is removed between two looks has no page left in the second.
        let watched =
            reads.watch(transactions, at, me).map_err(|error| transactions.explain(error, reads.trees(), me));
        let mut watch = match watched {
            // It has changed, or may have.
            Err(error) if error.is_retryable() => return Ok(true),
            watch => watch?,
        };
        if reads.is_empty() && passed.get().is_none() {
            let message = "waiting for a change of what a transaction has read, but it has read nothing: \
                           read in it the records to wait for, at the isolation Serializable";
            return Err(Error::new(ErrorKind::NotAllowed, message));
        }
        self.seat.let_go();
        let disturbed = transactions.pages.recent().sleepers.listen(deadline, || {
            // A committer that has died in the commit step has published nothing that can be seen until it is
            // mended.
            transactions.pages.stall();
            let ended = transactions
                .log
                .fail_if_poisoned()
                .and_then(|()| transactions.pages.fail_if_poisoned())
                .and_then(|()| transactions.pages.check_fence());
            let may_be_had =
                || passed.get().is_some_and(|passed| passed.may_be_had(transactions, me.number()));
            let mut is_disturbed = || Ok(reads.is_disturbed(transactions, &mut watch, me)? || may_be_had());
            match ended.and_then(|()| is_disturbed()) {
                Ok(false) => None,
                Ok(true) => Some(Ok(())),
                Err(error) => Some(Err(error)),
            }
        });
        disturbed.transpose().map(|disturbed| disturbed.is_some())
    }
}
