//! Who has the environment open, and what each holds: a look at the shared words while everybody goes on.

use sablecat_os::atomic::Ordering;

use super::Core;
use crate::region::{NO_EPOCH, Phase, Role};
use crate::types::Lsn;

/// A process that has the environment open, or died while it had.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Process {
    /// Its number, in its own namespace of process numbers.
    pub pid: u32,
    /// The beginning of its command.
    pub command: String,
    /// Whether it lives. A dead one is shown until somebody has finished what it left undone.
    pub alive: bool,
    /// Whether it is the process that asks.
    pub asking: bool,
    /// What its operations and transactions hold. A process that does nothing at the moment has none, or idle ones.
    pub participants: Vec<Participant>,
}

/// An operation or transaction in progress, or the place of one that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Participant {
    /// Its slot.
    pub slot: u16,
    /// The snapshot it has pinned.
    pub snapshot: Option<Lsn>,
    /// Bytes of log committed since that snapshot.
    pub snapshot_lag: u64,
    /// Whether its snapshot was given up for want of cache.
    pub given_up: bool,
    /// Whether it is looking at pages at this moment.
    pub in_operation: bool,
    /// Whether it is past the commit point and publishing.
    pub committing: bool,
    /// Pages it has latched for a commit.
    pub pages_latched: usize,
    /// Whether it waits for a record lock.
    pub waits_for_lock: bool,
    /// Work that one participant does at a time, and this one does: `commit`, `checkpoint`, `housekeeping`, `reaping`, `serial`.
    pub roles: Vec<&'static str>,
}

impl Core {
    /// Everybody who has the environment open.
    pub(crate) fn processes(&self) -> Vec<Process> {
        let region = &self.kernel.pages.region;
        let Some(membership) = region.membership() else {
            let command = std::env::args().collect::<Vec<_>>().join(" ");
            return vec![Process { pid: std::process::id(), command, alive: true, asking: true, participants: self.participants_of(0) }];
        };
        (0..region.geometry().members)
            .filter(|&number| region.member(number).is_used())
            .map(|number| Process {
                pid: region.member(number).pid(),
                command: region.member(number).command(),
                alive: membership.is_alive(number),
                asking: number == region.number(),
                participants: self.participants_of(number),
            })
            .collect()
    }

    fn participants_of(&self, member: u16) -> Vec<Participant> {
        let region = &self.kernel.pages.region;
        let header = region.header();
        let visible = header.visible();
        let roles: [(&'static str, &Role); 5] = [
            ("commit", &header.commit.0),
            ("checkpoint", &header.checkpoint.0),
            ("housekeeping", &header.housekeep.0),
            ("reaping", &header.reap.0),
            ("serial", &header.serial.0),
        ];
        (1..header.slots_high.0.load(Ordering::SeqCst) as u16)
            .filter(|&number| region.slot(number).member() == Some(member))
            .map(|number| {
                let slot = region.slot(number);
                let snapshot = slot.pinned();
                Participant {
                    slot: number,
                    snapshot,
                    snapshot_lag: snapshot.map_or(0, |at| visible.0.saturating_sub(at.0)),
                    given_up: slot.is_revoked() && snapshot.is_some(),
                    in_operation: slot.epoch() != NO_EPOCH,
                    committing: slot.phase() == Phase::Committing,
                    pages_latched: slot.list_len(),
                    waits_for_lock: slot.waits_for.load(Ordering::Acquire) != 0,
                    roles: roles.iter().filter(|(_, role)| role.look().owner() == number).map(|&(name, _)| name).collect(),
                }
            })
            .collect()
    }
}
