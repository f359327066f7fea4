//! What a transaction sees: its snapshot, with what it has pending over it.
//!
//! Reading changes nothing of it but what it has seen. What is read may be shown in place to a caller's
//! closure, which may read in the same transaction again; a slot announces one operation at a time, so that
//! is done in another seat, with the same snapshot (*beside*).

use std::cell::Cell;
use std::ops::Bound;

use super::Transaction;
use crate::access::{Each, KeyBounds, KeySpan, Scan, ScannedValue, StateSource, StoredValue, Tree};
use crate::error::{Error, ErrorKind, Result};
use crate::pages::{LocalParticipant, Use};
use crate::txn::catalog::TreeRef;
use crate::txn::options::Isolation;
use crate::txn::refusals::removed;
use crate::txn::seen::merged::Merged;
use crate::txn::state::CommittedState;
use crate::types::{Lsn, PageId};

/// An operation in progress in a transaction's seat.
struct Busy<'t>(&'t Cell<bool>);

impl Drop for Busy<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// The value of a record, as it is shown.
enum ShownValue<'v> {
    /// Where it is; none: there is no record.
    InPlace(Option<&'v [u8]>),
    /// It is long: a copy.
    Long(Vec<u8>),
}

/// What a record's value is: what was made of it, or, if it is long, where it begins and how long it is.
pub(in crate::txn) enum ValueOrPlace<R> {
    Inline(R),
    Long(PageId, u64),
}

impl<'k> Transaction<'k> {
    /// Looks at the committed state that it sees. Read committed: each operation has a snapshot of its own,
    /// which may not have the tree any more.
    #[inline]
    pub(crate) fn look<T>(
        &self,
        tree: &TreeRef,
        look: impl FnOnce(CommittedState<'_>) -> Result<T>,
    ) -> Result<T> {
        self.used.set(self.used.get() + 1);
        if self.busy.replace(true) {
            return self.look_beside(tree, look);
        }
        let _busy = Busy(&self.busy);
        if self.options.isolation == Isolation::ReadCommitted {
            self.seat.renew();
            self.check_tree(tree, self.at(), &self.seat)?;
        }
        let looked = look(CommittedState { states: self.transactions, me: &self.seat, at: self.at() });
        self.note_if_absent(tree, &looked);
        looked
    }

    /// As [`Transaction::look`], while it is looking already, in a caller's closure.
    #[cold]
    fn look_beside<T>(
        &self,
        tree: &TreeRef,
        look: impl FnOnce(CommittedState<'_>) -> Result<T>,
    ) -> Result<T> {
        let transactions = self.transactions;
        if self.options.isolation == Isolation::ReadCommitted {
            let seat = transactions.pages.participants.sit()?;
            let pinned = transactions.pages.pinned(&seat);
            self.check_tree(tree, pinned.at(), &seat)?;
            return look(CommittedState { states: transactions, me: &seat, at: pinned.at() });
        }
        let seat = transactions.pages.sit_beside(self.number(), self.at())?;
        let looked = look(CommittedState { states: transactions, me: &seat, at: seat.at() });
        self.note_if_absent(tree, &looked);
        looked
    }

    /// Notes, if that is what a look at a tree came to, that the tree is not there.
    #[inline]
    pub(in crate::txn) fn note_if_absent<T>(&self, tree: &TreeRef, looked: &Result<T>) {
        if let Err(error) = looked {
            self.note_absence(tree, error);
        }
    }

    #[cold]
    fn note_absence(&self, tree: &TreeRef, error: &Error) {
        if error.kind() == ErrorKind::NotFound && self.tracks_reads() {
            self.reads.borrow_mut().note_absent(tree);
        }
    }

    #[inline]
    fn check_tree(&self, tree: &TreeRef, at: Lsn, me: &LocalParticipant) -> Result<()> {
        if self.transactions.is_there(tree, at, me)? { Ok(()) } else { Err(removed()) }
    }

    /// Shows `look` the value of a record, its own pending one if there is one. A long value is read whole.
    pub(crate) fn get<R>(
        &self,
        tree: &TreeRef,
        key: &[u8],
        look: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R> {
        let (mut look, mut shown) = (Some(look), None);
        self.show(tree, key, |value| {
            let look = look.take().expect("the value is shown once");
            shown = Some(match value {
                ShownValue::InPlace(value) => look(value),
                ShownValue::Long(value) => look(Some(&value)),
            });
        })?;
        Ok(shown.expect("the value was shown"))
    }

    /// The value of a record, its own pending one if there is one. There is one copy of it: the one that is
    /// returned.
    pub(crate) fn get_owned(&self, tree: &TreeRef, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut owned = None;
        self.show(tree, key, |value| {
            owned = match value {
                ShownValue::InPlace(value) => value.map(<[u8]>::to_vec),
                ShownValue::Long(value) => Some(value),
            };
        })?;
        Ok(owned)
    }

    /// Shows a value once, unless it fails. What is made of it is the closure's to keep, and is not handed
    /// from function to function.
    fn show(&self, tree: &TreeRef, key: &[u8], mut show: impl FnMut(ShownValue<'_>)) -> Result<()> {
        if let Some(pending) = self.pending(tree.id, key)? {
            show(ShownValue::InPlace(pending.as_deref()));
            return Ok(());
        }
        if tree.is_new() {
            show(ShownValue::InPlace(None));
            return Ok(());
        }
        self.look(tree, |CommittedState { states, me, at }| {
            let view = tree.tree();
            let nested;
            let (view, stems, rest) = match states.is_nested(&view, key) {
                false => (&view, &[][..], key),
                true => {
                    nested = states.place(&view, key, at, me)?;
                    (&nested.tree, nested.stems, nested.rest)
                }
            };
            let sought = view.sought(rest).after(me.hints.near(view.id, Use::Read));
            let mut long = None;
            let page = states.pages.operate(me, || {
                let mut snapshot = states.pages.at_pin(me, at)?;
                let (page, bytes) = snapshot.saying(view, sought)?;
                match view.get(bytes, sought) {
                    Some(StoredValue::Long { first_page, len }) => long = Some((first_page, len)),
                    Some(StoredValue::Inline(value)) => show(ShownValue::InPlace(Some(value))),
                    None => show(ShownValue::InPlace(None)),
                }
                Ok(page)
            })?;
            self.note_key(tree, view, (stems, rest), page);
            if let Some((first, len)) = long {
                show(ShownValue::Long(states.load_long(me, at, first, len)?));
            }
            Ok(())
        })
    }

    /// Notes that a key was looked for, in the tree to which a part of it leads.
    #[inline]
    fn note_key(&self, tree: &TreeRef, within: &Tree<'_>, (stems, rest): (&[u8], &[u8]), page: PageId) {
        if self.tracks_reads() {
            let key = within.bound_read(Bound::Included(rest), self.transactions.page_size());
            let key = key.as_ref().map(|key| &**key);
            self.reads.borrow_mut().note(tree, stems, page, key, key);
        }
    }

    /// Reads part of a value: none if there is no record, else how many bytes were read.
    pub(crate) fn read_at(
        &self,
        tree: &TreeRef,
        key: &[u8],
        offset: u64,
        into: &mut [u8],
    ) -> Result<Option<usize>> {
        fn part(value: &[u8], offset: u64, into: &mut [u8]) -> usize {
            let rest = usize::try_from(offset).ok().and_then(|from| value.get(from..)).unwrap_or_default();
            let len = rest.len().min(into.len());
            into[..len].copy_from_slice(&rest[..len]);
            len
        }
        if let Some(pending) = self.pending(tree.id, key)? {
            return Ok(pending.as_deref().map(|value| part(value, offset, into)));
        }
        if tree.is_new() {
            return Ok(None);
        }
        self.look(tree, |state| match self.extent(state, tree, key, |value| part(value, offset, into))? {
            None => Ok(None),
            Some(ValueOrPlace::Inline(read)) => Ok(Some(read)),
            Some(ValueOrPlace::Long(first, len)) => {
                state.states.read_long(state.me, state.at, first, len, offset, into).map(Some)
            }
        })
    }

    /// How long a value is; none if there is no record. Reads nothing but the leaf.
    pub(crate) fn value_len(&self, tree: &TreeRef, key: &[u8]) -> Result<Option<u64>> {
        if let Some(pending) = self.pending(tree.id, key)? {
            return Ok(pending.as_deref().map(|value| value.len() as u64));
        }
        if tree.is_new() {
            return Ok(None);
        }
        let extent = self.look(tree, |state| self.extent(state, tree, key, |value| value.len() as u64))?;
        Ok(extent.map(|extent| match extent {
            ValueOrPlace::Inline(len) | ValueOrPlace::Long(_, len) => len,
        }))
    }

    /// What `look` makes of a committed value, or, if that is long, where it begins and how long it is; none
    /// if there is no record.
    pub(in crate::txn) fn extent<R>(
        &self,
        state: CommittedState<'_>,
        tree: &TreeRef,
        key: &[u8],
        mut look: impl FnMut(&[u8]) -> R,
    ) -> Result<Option<ValueOrPlace<R>>> {
        let CommittedState { states, me, at } = state;
        let view = tree.tree();
        let place = states.place(&view, key, at, me)?;
        let sought = place.sought();
        let (found, page) = states.pages.operate(me, || {
            let mut snapshot = states.pages.at_pin(me, at)?;
            let (page, bytes) = snapshot.saying(&place.tree, sought)?;
            let found = place.tree.get(bytes, sought).map(|value| match value {
                StoredValue::Inline(value) => ValueOrPlace::Inline(look(value)),
                StoredValue::Long { first_page, len } => ValueOrPlace::Long(first_page, len),
            });
            Ok((found, page))
        })?;
        self.note_key(tree, &place.tree, (place.stems, place.rest), page);
        Ok(found)
    }

    /// The next record of a scan, a long value not read.
    pub(crate) fn next_found(
        &self,
        tree: &TreeRef,
        scan: &mut Scan,
        forward: bool,
    ) -> Result<Option<(Vec<u8>, ScannedValue)>> {
        self.look(tree, |state| {
            scan.look_in(self.state(state.at));
            scan.next(&tree.tree(), &mut self.merged(state, tree), forward)
        })
    }

    /// The next record of a scan, a long value read whole.
    pub(crate) fn next(
        &self,
        tree: &TreeRef,
        scan: &mut Scan,
        forward: bool,
    ) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.look(tree, |state| {
            scan.look_in(self.state(state.at));
            let found = scan.next(&tree.tree(), &mut self.merged(state, tree), forward)?;
            found.map(|(key, found)| Ok((key, state.load(found)?))).transpose()
        })
    }

    /// What of the state it sees, with what is pending over it, a scan looks at.
    pub(in crate::txn) fn merged<'a>(&'a self, state: CommittedState<'a>, tree: &'a TreeRef) -> Merged<'a> {
        let reads = self.tracks_reads().then_some(&self.reads);
        Merged { state, tree, writes: &self.writes, reads }
    }

    /// Whether between two bounds it sees the committed records of a tree and nothing else.
    pub(crate) fn sees_committed(&self, tree: &TreeRef, bounds: KeyBounds<'_>) -> bool {
        !tree.is_new() && self.writes.records(tree.id).is_none_or(|records| records.has_none_between(bounds))
    }

    /// Shows the committed records of a tree between two bounds in place, from the first (`forward`) or the
    /// last on, each with what was made of those before it, `sum` at first, and notes that they were read.
    /// Returns what was made of the last.
    #[inline]
    pub(crate) fn fold_committed<B>(
        &self,
        tree: &TreeRef,
        bounds: KeySpan,
        forward: bool,
        sum: B,
        each: impl Each<B>,
    ) -> Result<B> {
        self.look(tree, |state| tree.tree().fold(self.merged(state, tree), bounds, forward, sum, each))
    }

    /// Whether a tree has a name in the snapshot.
    pub(crate) fn has_name(&self, tree: &TreeRef) -> Result<bool> {
        self.transactions.has_name(tree, self.at(), &self.seat)
    }

    /// The committed state that the transaction sees, without what it has pending.
    pub(crate) fn committed(&self) -> CommittedState<'_> {
        CommittedState { states: self.transactions, me: &self.seat, at: self.at() }
    }
}
