//! What this thread is in the middle of: calls that run the caller's code between the beginning and the end
//! of something.
//!
//! Within [`Env::write`](super::Env::write) the caller's code has a transaction, and changes the environment
//! through that. If it used the environment around it, that would be another transaction, committed by
//! itself: the outer one would lose to it, run again and lose again, and once it has the environment to
//! itself, or has locked the record, the inner one would wait for the outer, which waits for the inner.
//! Nobody can end such a wait, and all others wait with them. So whatever commits, or waits for a record, is
//! refused within, each time and at once: not only when another transaction happens to get in the way.
//!
//! The same goes for a database and its own bulk load, which needs it to be empty.
//!
//! Reading waits for nobody, whatever others hold: it stays allowed, and so do the environment's own methods
//! for databases, which pass the gate and lock nothing, other environments, and what others do in other
//! threads. A transaction begun by hand may be moved to another thread while it is in progress, so nothing is
//! known here of what it holds: a transaction that waits for that waits until the time allowed is over.
//!
//! Costs: a load from memory of the thread's own, for each change.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

use crate::env::Databases;
use crate::error::{Error, ErrorKind, Result};
use crate::types::TreeId;

/// Something that is being done for the caller's code, or around it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EnclosingWork {
    /// The work of a transaction, by its slot.
    Write(u16),
    /// A bulk load of a database, whose records are drawn.
    Load(TreeId),
}

thread_local! {
    /// How many there are. Looked at for each change, so a cell that needs no making and no clearing away.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Them, the innermost last: the address of the environment that each is of, and what it is.
    static STACK: RefCell<Vec<(usize, EnclosingWork)>> = const { RefCell::new(Vec::new()) };
}

/// The thread is in the middle of it, until this is dropped: on the same thread, as it cannot be moved.
#[derive(Debug)]
pub(super) struct Within {
    not_moved: PhantomData<*const ()>,
}

impl Within {
    /// Begins.
    pub(super) fn begin(databases: &Databases, doing: EnclosingWork) -> Within {
        // Where the stack is gone already, the thread is about to end, and nothing is told any more.
        if STACK.try_with(|stack| stack.borrow_mut().push((address(databases), doing))).is_ok() {
            DEPTH.set(DEPTH.get() + 1);
        }
        Within { not_moved: PhantomData }
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        if let Ok(Some(_)) = STACK.try_with(|stack| stack.borrow_mut().pop()) {
            DEPTH.set(DEPTH.get() - 1);
        }
    }
}

pub(super) fn address(databases: &Databases) -> usize {
    std::ptr::from_ref(databases).addr()
}

/// Whether this thread is in the middle of anything.
#[inline]
pub(super) fn any() -> bool {
    DEPTH.get() != 0
}

/// Refuses a change that this thread makes, within what it does, around that: of `tree`, if it is of one; by
/// the transaction in `slot`, if it is by one that was begun before.
///
/// # Errors
/// `NotAllowed`. `what` says what was tried.
#[inline]
pub(super) fn refuse_around(
    databases: &Databases,
    tree: Option<TreeId>,
    slot: Option<u16>,
    what: impl FnOnce() -> String,
) -> Result<()> {
    if any()
        && let Some(around) = found(databases, tree, slot)
    {
        return Err(refused(what(), around));
    }
    Ok(())
}

/// What is in the way of such a change.
#[cold]
fn found(databases: &Databases, tree: Option<TreeId>, slot: Option<u16>) -> Option<EnclosingWork> {
    let in_the_way = |&&(of, doing): &&(usize, EnclosingWork)| {
        of == address(databases)
            && match doing {
                EnclosingWork::Write(writer) => slot != Some(writer),
                EnclosingWork::Load(loaded) => tree == Some(loaded),
            }
    };
    STACK
        .try_with(|stack| stack.borrow().iter().rev().find(in_the_way).map(|&(_, doing)| doing))
        .ok()
        .flatten()
}

#[cold]
fn refused(what: String, around: EnclosingWork) -> Error {
    let why = match around {
        EnclosingWork::Write(_) => {
            "within the closure of a transaction on the same environment (of Env::write, Database::retain \
             or an Entry): it would be another transaction, and the two would conflict; use the transaction \
             that the closure is given, or do it before or after"
        }
        EnclosingWork::Load(_) => {
            "from the iterator of a bulk load of the same database, which must stay empty until it is \
             loaded; let the iterator return the record, or do it after the load"
        }
    };
    Error::new(ErrorKind::NotAllowed, format!("{what} {why}"))
}
