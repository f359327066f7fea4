//! Operations that are each a commit or a snapshot of their own: of one record (`single`), of one record of a
//! queue (`queue`), loading a tree (`bulk`), and how large one is (`estimate`).

mod bulk;
mod estimate;
pub(in crate::txn) mod queue;
mod single;

pub(crate) use single::RecordChange;

use std::ops::Deref;
use std::time::Duration;

use crate::log::Log;
use crate::pages::Pages;
use crate::txn::commit::Committer;
use crate::txn::locks::LockTable;
use crate::txn::mending::Mender;
use crate::txn::pending::runs::SpillSettings;
use crate::txn::state::States;
use crate::txn::transactions::Transactions;
use crate::txn::trees::Trees;

/// Pages, log and locks of one environment: what all the rooms can do, each with what those below it can.
#[derive(Debug)]
pub(crate) struct Kernel(Mender);

impl Kernel {
    /// `patience`: how long to wait for a record lock or the serial gate. `spill`: where write sets go that
    /// are too large for memory; none: they stay there. `newest_layer_bytes`: as for [`Trees::new`].
    pub(crate) fn new(
        pages: Pages,
        (log, locks): (Log, LockTable),
        patience: Duration,
        spill: Option<SpillSettings>,
        newest_layer_bytes: Option<usize>,
    ) -> Kernel {
        let trees = Trees::new(Committer::new(States::new(pages), log, patience), newest_layer_bytes);
        Kernel(Mender::new(Transactions::new(trees, locks, spill)))
    }
}

impl Deref for Kernel {
    type Target = Mender;

    #[inline(always)]
    fn deref(&self) -> &Mender {
        &self.0
    }
}
