//! Records removed, of whatever kind.

use std::ops::Bound;

use sablecat::globals::Globals;
use sablecat::{Database, Expiring, Holds, MultiMap, Numbered, Prefix, Queue, Txn};

use crate::naming::{Name, Names};
use crate::shown::Shown;
use crate::{Failure, interrupt};

/// Removes one record; where a key has several values, all of the key; of a node, its value. False if there
/// is none.
pub(crate) fn one(txn: &mut Txn<'_>, database: &Database, name: &Name) -> Result<bool, Failure> {
    let own = database.clone();
    let removed = match (database.holds(), name) {
        (Holds::Expiring, Name::Key(key)) => Expiring::of(&*txn, database)?.remove(txn, key),
        (Holds::Values(order), Name::Key(key)) => {
            MultiMap::of(own, order)?.remove_all(txn, key).map(|removed| removed > 0)
        }
        (Holds::Queue { .. }, Name::Number(number)) => Queue::of(own)?.remove(txn, *number),
        (_, Name::Number(number)) => Numbered::of(own)?.remove(txn, *number),
        (_, Name::Node(reference)) => {
            let globals = Globals::of(own)?;
            let node = globals.node(reference)?;
            let there = node.data(&*txn)?.value;
            node.kill_value(txn)?;
            Ok(there)
        }
        (_, Name::Key(key)) => txn.remove(database, key),
    };
    Ok(removed?)
}

/// Removes all records of a part of a database, and says how many there were. The numbers of a queue go on
/// afterwards.
pub(crate) fn all_of(txn: &mut Txn<'_>, database: &Database, part: &Names) -> Result<u64, Failure> {
    let shown = Shown::within(&*txn, database.clone())?;
    // What has expired goes as well, and counts for nothing: it was not there.
    let live = (database.holds() == Holds::Expiring).then(|| shown.count(part)).transpose()?;
    let removed = match (database.holds(), part) {
        (Holds::Records | Holds::Expiring, Names::BeginningWith(Name::Key(prefix))) => {
            txn.remove_range(database, Prefix(prefix))?
        }
        (holds, Names::Between(Bound::Unbounded, Bound::Unbounded))
            if !matches!(holds, Holds::Queue { .. }) =>
        {
            txn.remove_range(database, ..)?
        }
        (Holds::Records | Holds::Expiring | Holds::Globals, Names::Between(from, to)) => {
            let keys = (shown.bound(from.as_ref())?, shown.bound(to.as_ref())?);
            txn.remove_range(database, keys)?
        }
        _ => {
            let found = shown.records(part)?.map(|record| record.map(|(name, _)| name));
            let mut found = found.collect::<Result<Vec<Name>, _>>()?;
            let records = found.len() as u64;
            // A key that has several values is there for each.
            found.dedup();
            // The last first: where numbers close up, those before it keep theirs.
            for name in found.iter().rev() {
                interrupt::check()?;
                one(txn, database, name)?;
            }
            records
        }
    };
    Ok(live.unwrap_or(removed))
}
