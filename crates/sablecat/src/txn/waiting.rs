//! Waiting for a change of what a transaction has read.
//!
//! It is woken by commits that publish pages on which there is something of what it has read; these may have changed beside it, so whoever waits looks again. (The idea is that
//! of `retry` in Harris, Marlow, Peyton Jones and Herlihy, Composable Memory Transactions, 2005.)
//!
//! Nothing is kept meanwhile but the seat and what was read, as keys: no snapshot, no record lock, no gate. Commits of pages elsewhere wake it, too, to look at what they published: some microseconds, and a
//! system call for the committer.

use std::time::Duration;

use super::Transaction;
use crate::error::{Error, ErrorKind, Result};

impl Transaction<'_> {
    /// Gives up what it has pending, and waits until something that it has read may have changed, or the monotonic clock has come to `deadline` (none: never), and then none has. To be
    /// restarted afterwards.
    ///
    /// # Errors
    /// `NotAllowed` if it has read nothing, or takes no note of what it reads; `Poisoned` once nothing can change any more; those of reading.
    pub(crate) fn wait_for_change(&mut self, deadline: Option<Duration>) -> Result<bool> {
        let (mut reads, at) = self.abandon();
        let (kernel, me) = (self.kernel, &*self.seat);
        if reads.is_empty() {
            let message = "waiting for a change of what a transaction has read, which has read nothing: read in it what is to change, at the isolation Serializable";
            return Err(Error::new(ErrorKind::NotAllowed, message));
        }
        let mut watch = match reads.watch(kernel, at, me) {
            // It has changed, or may have.
            Err(error) if error.is_retryable() => return Ok(true),
            watch => watch?,
        };
        me.slot().unpin();
        let header = kernel.pages.region.header();
        let disturbed = header.recent.sleepers.listen(deadline, || {
            // Who has died in the commit step has published nothing that can be seen until somebody has seen to it.
            kernel.pages.region.stall();
            let ended = kernel
                .log
                .fail_if_poisoned()
                .and_then(|()| kernel.pages.fail_if_poisoned())
                .and_then(|()| kernel.pages.region.check_fence());
            match ended.and_then(|()| reads.is_disturbed(kernel, &mut watch, me)) {
                Ok(false) => None,
                Ok(true) => Some(Ok(())),
                Err(error) => Some(Err(error)),
            }
        });
        disturbed.transpose().map(|disturbed| disturbed.is_some())
    }
}
