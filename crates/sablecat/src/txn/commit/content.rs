//! What transactions have made of an environment, as told from what it was before: for a process that keeps
//! what it has read, and is to know whether others have changed something since.
//!
//! LSNs do not say: the engine commits by itself too, when trees are made and freed or split. So a
//! transaction that changes something says over which state it does, in the commit step, on the line of the
//! log's tail, which it is about to write anyway.

use super::Committer;
use crate::types::Content;

impl Committer {
    /// What transactions have made of the environment. A caller that takes it and then a state finds all of
    /// that in the state; where a transaction is about to publish something, it is another one afterwards.
    pub(crate) fn content(&self) -> Content {
        // In this order: what is published has said over which state it is before it was.
        let newest = self.pages.newest();
        let over = self.log.changed_over();
        Content { over, is_published: newest > over }
    }

    /// A transaction is about to change something, in the commit step; what the content was before, and will
    /// be. A committer in that step finds all published that is in the log, so the log's tail says which
    /// state is the newest: the line of that is at hand, and others take the newest commit's.
    #[inline]
    pub(in crate::txn) fn change_content(&self) -> [Content; 2] {
        let (newest, over) = (self.log.tail(), self.log.changed_over());
        self.log.change_over(newest);
        [Content { over, is_published: newest > over }, Content { over: newest, is_published: true }]
    }
}
