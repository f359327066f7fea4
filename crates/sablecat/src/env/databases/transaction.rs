//! A transaction on an environment: on records, and on which databases there are.
//!
//! The catalog is a tree like any other, so its changes are part of the transaction's write set and its
//! reads, and are isolated, committed, rolled back and logged with everything else:
//!
//! ```text
//! create    tree and note made at once, in a commit of its own;    pending: name put, note deleted
//! rename                                                           pending: name deleted, name put
//! remove                                                           pending: name deleted, note put;
//!                                                                  tree freed after the commit
//! ```
//!
//! So a tree that is made is nobody's until the transaction commits: if it does not, the note says that it is
//! to be freed, and the thread that gives up the transaction frees it. If the process is killed first, the
//! next process that opens the environment afresh frees the tree, or one that compacts the environment
//! (txn/mending/notes.rs).
//!
//! Where a name is taken away, another deletion tells readers of the log which tree had it ([`former_key`]).
//!
//! What a transaction does about a database is what it has pending for its note: deleted, it creates it; put,
//! it removes it. There is no other account of it, so rolling back needs none.
//!
//! Names that are to change are *claimed*: whatever the isolation, the commit fails if another has changed
//! them first. Two transactions that create one name never both commit.

use std::sync::Arc;
use std::time::Duration;

use sablecat_os::clock;

use super::relation_changes::RelationChanges;
use super::{Asked, Databases, Named, check_asked, seen_as};
use crate::access::Scan;
use crate::error::{Error, ErrorKind, Result};
use crate::txn::catalog::{self, CatalogEntry, catalog_tree, former_key, note_key};
use crate::txn::{
    Durability, KnownDatabase, Options, Position, Presence, PresenceState, Transaction, TreeRef, View,
};
use crate::types::{Content, Lsn, TreeId};

/// Work of the environment's own whose snapshot is given up so often in a row, and for so long, is not run
/// again.
const GIVEN_UP_MAX: u32 = 16;
const GIVEN_UP_FOR: Duration = Duration::from_secs(1);

/// A database that a transaction has made and not committed.
#[derive(Debug)]
struct Made {
    entry: CatalogEntry,
    presence: Arc<Presence>,
}

/// What a transaction does about a database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// Nothing.
    Kept,
    /// It creates it.
    Created,
    /// It removes it.
    Removed,
}

/// A transaction in progress. Dropped without a commit, it changes nothing.
#[derive(Debug)]
pub(crate) struct EnvTxn<'e> {
    pub(in crate::env) databases: &'e Databases,
    pub(crate) records: Transaction<'e>,
    made: Vec<Made>,
    /// What it does about which databases are indices of which.
    pub(super) related: RelationChanges,
}

impl Drop for EnvTxn<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.made.is_empty() {
            self.give_up();
        }
    }
}

impl<'e> EnvTxn<'e> {
    /// Begins: takes a seat and pins the newest published state.
    #[inline]
    pub(crate) fn begin(databases: &'e Databases, options: Options) -> Result<EnvTxn<'e>> {
        Ok(EnvTxn {
            databases,
            records: Transaction::begin(&databases.kernel, options)?,
            made: Vec::new(),
            related: RelationChanges::default(),
        })
    }

    /// Begins at the snapshot of another one, which only reads and lasts longer: see
    /// [`Transaction::begin_beside`].
    pub(crate) fn begin_beside(
        databases: &'e Databases,
        options: Options,
        beside: (u16, Lsn),
    ) -> Result<EnvTxn<'e>> {
        Ok(EnvTxn {
            databases,
            records: Transaction::begin_beside(&databases.kernel, options, beside)?,
            made: Vec::new(),
            related: RelationChanges::default(),
        })
    }

    /// The environment.
    #[inline]
    pub(crate) fn databases(&self) -> &'e Databases {
        self.databases
    }

    /// Its time, by which records have expired or not.
    pub(crate) fn time(&self) -> u64 {
        self.records.time(|| self.databases.config.clock.now())
    }

    /// The tree of a database, if the transaction has that.
    ///
    /// # Errors
    /// `NotFound` if it was removed, by this transaction or before its snapshot, or its creation was rolled
    /// back; `NotAllowed` if another transaction is only just creating it; those of reading the catalog.
    #[inline]
    pub(crate) fn tree<'n>(&self, named: &'n Named) -> Result<&'n TreeRef> {
        if self.databases.kernel.is_surely_there(&named.presence) && !self.changes_databases() {
            Ok(&named.tree)
        } else {
            self.tree_if_there(named)
        }
    }

    #[cold]
    pub(super) fn tree_if_there<'n>(&self, named: &'n Named) -> Result<&'n TreeRef> {
        let named = named.newest();
        let is_there = match (named.presence.state(), self.fate(named.tree.id)) {
            (PresenceState::New(slot), fate) if slot == self.records.number() => fate == Fate::Created,
            (PresenceState::New(_), _) => return Err(named.not_yet()),
            (_, Fate::Removed) => false,
            _ => self.sees(named)?,
        };
        if is_there { Ok(&named.tree) } else { Err(named.gone()) }
    }

    /// Whether a database is there, or was in the snapshot, which goes on showing its records.
    fn sees(&self, named: &Named) -> Result<bool> {
        let keeps = self.records.keeps_snapshot();
        if keeps && named.presence.seen() == self.records.at() || self.databases.is_there(named)? {
            return Ok(true);
        }
        Ok(keeps && self.records.has_name(&named.tree)?)
    }

    #[inline]
    pub(super) fn changes_databases(&self) -> bool {
        self.records.changes_catalog()
    }

    fn fate(&self, tree: TreeId) -> Fate {
        match self.records.pending_in_catalog(&note_key(tree)) {
            None => Fate::Kept,
            Some(None) => Fate::Created,
            Some(Some(_)) => Fate::Removed,
        }
    }

    /// Opens a database if there is one of that name.
    pub(crate) fn database(&self, name: &str) -> Result<Option<Arc<Named>>> {
        catalog::check_name(name)?;
        let Some(value) = self.records.get_owned(catalog_tree(), name.as_bytes())? else { return Ok(None) };
        self.found(name, &CatalogEntry::decode(name.as_bytes(), &value)?).map(Some)
    }

    /// The name of the index that a database has by an extractor, if it has one.
    pub(crate) fn index_by(&self, name: &str, extractor: &str) -> Result<Option<String>> {
        let Some(entry) = self.records.entry(name)? else { return Ok(None) };
        for index in entry.relations.indices {
            let info = self.records.entry(&index.name)?.and_then(|entry| entry.relations.index);
            if info.is_some_and(|info| info.extractor == extractor) {
                return Ok(Some(index.name));
            }
        }
        Ok(None)
    }

    /// Opens a database, or creates it as it is asked for.
    pub(crate) fn database_or_new(&mut self, name: &str, asked: Asked<'_>) -> Result<Arc<Named>> {
        catalog::check_name(name)?;
        let entry = match self.records.claim(catalog_tree(), name.as_bytes())? {
            Some(value) => CatalogEntry::decode(name.as_bytes(), &value)?,
            None => self.make(name, asked)?,
        };
        let named = self.found(name, &entry)?;
        check_asked(&named, asked).map(|()| named)
    }

    /// The database that the transaction sees under a name.
    pub(in crate::env) fn found(&self, name: &str, entry: &CatalogEntry) -> Result<Arc<Named>> {
        if let Some(made) = self.made.iter().find(|made| made.entry.tree == entry.tree) {
            return self.databases.name(name, entry, Arc::clone(&made.presence), &self.records);
        }
        if self.records.pending_in_catalog(name.as_bytes()).is_some() {
            // Renamed, or given an index, which others do not know.
            let presence = Arc::new(seen_as(name, entry, self.records.at()));
            return self.databases.name(name, entry, presence, &self.records);
        }
        self.databases.found(name, entry, self.records.at(), &self.records)
    }

    pub(in crate::env) fn make(&mut self, name: &str, asked: Asked<'_>) -> Result<CatalogEntry> {
        let mut entry = self.databases.make_tree(self.records.committed().me, name, asked)?;
        entry.relations.index = asked.index.cloned();
        let presence = Presence::made_in(self.records.number()).knowing(KnownDatabase::of(name, &entry));
        self.made.push(Made { entry: entry.clone(), presence: Arc::new(presence) });
        self.records.set(catalog_tree(), name.as_bytes(), Some(&entry.named().encode()))?;
        self.records.set(catalog_tree(), &note_key(entry.tree), None)?;
        Ok(entry)
    }

    /// The names of all databases, in order.
    pub(crate) fn database_names(&self) -> Result<Vec<String>> {
        use std::ops::Bound::{Included, Unbounded};
        let tree = catalog_tree();
        // Notes come before all names, and are not looked at: others may make and free trees without being in
        // this transaction's way.
        let mut scan = Scan::new(Included(vec![1]), Unbounded);
        let mut names = Vec::new();
        while let Some((key, _)) = self.records.next(tree, &mut scan, true)? {
            names.push(
                String::from_utf8(key).map_err(|_| Error::corruption("a name in the catalog is not text"))?,
            );
        }
        Ok(names)
    }

    /// Gives a database another name.
    ///
    /// # Errors
    /// `NotFound` if there is none of the first name, `Exists` if there is one of the second.
    pub(crate) fn rename_database(&mut self, from: &str, to: &str) -> Result<()> {
        catalog::check_name(from)?;
        catalog::check_name(to)?;
        let tree = catalog_tree();
        let Some(value) = self.records.claim(tree, from.as_bytes())? else {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no database {from:?} to rename")));
        };
        if self.records.claim(tree, to.as_bytes())?.is_some() {
            return Err(Error::new(ErrorKind::Exists, format!("there is a database {to:?} already")));
        }
        let entry = CatalogEntry::decode(from.as_bytes(), &value)?;
        entry.method(from.as_bytes())?;
        self.take_name(from, entry.tree)?;
        self.records.set(tree, to.as_bytes(), Some(&entry.encode()))?;
        self.note_renamed(&entry, from, to)
    }

    /// Removes a database and all its records, with its indices. False if there was none.
    ///
    /// # Errors
    /// `Reference` if records of other databases refer to its records.
    pub(crate) fn remove_database(&mut self, name: &str) -> Result<bool> {
        for index in self.to_remove_with(name)? {
            self.remove_alone(&index)?;
        }
        self.remove_alone(name)
    }

    /// Removes a database and all its records, whatever its indices are, or are then. False if there was
    /// none.
    pub(crate) fn remove_alone(&mut self, name: &str) -> Result<bool> {
        catalog::check_name(name)?;
        let tree = catalog_tree();
        let Some(value) = self.records.claim(tree, name.as_bytes())? else { return Ok(false) };
        let maker = Some(self.databases.kernel.pages.standing());
        let note = CatalogEntry { maker, ..CatalogEntry::decode(name.as_bytes(), &value)? };
        note.method(name.as_bytes())?;
        self.note_unrelated(&note)?;
        self.take_name(name, note.tree)?;
        self.records.set(tree, &note_key(note.tree), Some(&note.encode()))?;
        Ok(true)
    }

    /// Takes its name from a tree, and has the log say which name it had before the transaction.
    fn take_name(&mut self, name: &str, tree: TreeId) -> Result<()> {
        self.log_former(name, tree)?;
        self.records.set(catalog_tree(), name.as_bytes(), None)
    }

    /// Before what stands under its name in the catalog changes: has the log say which name a tree had before
    /// the transaction.
    pub(super) fn log_former(&mut self, name: &str, tree: TreeId) -> Result<()> {
        let is_committed = self.records.pending_in_catalog(name.as_bytes()).is_none();
        if self.records.has_pending_in_catalog(&former_key(tree, b"")) {
            return Ok(());
        }
        self.records.set(
            catalog_tree(),
            &former_key(tree, if is_committed { name.as_bytes() } else { b"" }),
            None,
        )
    }

    /// The trees that the transaction removes.
    fn removed(&self) -> Result<Vec<CatalogEntry>> {
        let notes = self.records.changes_of_catalog().filter(|(key, _)| !catalog::is_name(key));
        notes.filter_map(|(key, value)| value.map(|value| CatalogEntry::decode(key, value))).collect()
    }

    /// Commits: see [`Transaction::commit`]. Then the pages of what was removed are freed.
    #[inline]
    pub(crate) fn commit(&mut self, durability: Durability) -> Result<Lsn> {
        if self.changes_databases() {
            self.commit_with_databases(durability)
        } else {
            self.records.commit(durability)
        }
    }

    /// What the content was right before it committed, and is since: see [`Transaction::contents`].
    pub(crate) fn contents(&self) -> Option<[Content; 2]> {
        self.records.contents()
    }

    fn commit_with_databases(&mut self, durability: Durability) -> Result<Lsn> {
        let removed = self.removed()?;
        let created: Vec<bool> =
            self.made.iter().map(|made| self.fate(made.entry.tree) == Fate::Created).collect();
        let committed = self.records.commit(durability);
        if self.records.has_changes() {
            return committed;
        }
        // A commit whose flush failed is visible all the same.
        for (made, is_there) in self.made.drain(..).zip(created) {
            if is_there { made.presence.note_made() } else { made.presence.note_gone() }
        }
        let will_last = committed.as_ref().err().is_none_or(|error| error.kind() == ErrorKind::NotDurable);
        if will_last && !removed.is_empty() {
            // The snapshot would keep what is freed.
            self.records.give_up();
            self.databases.free_trees(self.records.committed().me, &removed);
        }
        committed
    }

    /// Undoes what was set since the position was marked, creations included.
    ///
    /// # Errors
    /// As [`Transaction::roll_back_to`].
    pub(crate) fn roll_back_to(&mut self, position: Position) -> Result<()> {
        self.records.roll_back_to(position)?;
        let (undone, made) = std::mem::take(&mut self.made)
            .into_iter()
            .partition(|made| self.fate(made.entry.tree) == Fate::Kept);
        self.made = made;
        self.unmake(undone);
        Ok(())
    }

    /// Forgets everything, and the snapshot with it: see [`Transaction::give_up`].
    pub(crate) fn give_up(&mut self) {
        self.records.give_up();
        self.related = RelationChanges::default();
        let made = std::mem::take(&mut self.made);
        self.unmake(made);
    }

    /// Gives up what it does, and waits until something that it has read may have changed: see
    /// [`Transaction::wait_for_change`].
    pub(crate) fn wait_for_change(&mut self, deadline: Option<Duration>) -> Result<bool> {
        let made = std::mem::take(&mut self.made);
        self.unmake(made);
        self.related = RelationChanges::default();
        self.records.wait_for_change(deadline)
    }

    fn unmake(&self, made: Vec<Made>) {
        made.iter().for_each(|made| made.presence.note_gone());
        self.databases.free_trees(self.records.committed().me, made.iter().map(|made| &made.entry));
    }

    /// Runs `work` and commits, again when others get in the way. Passes the serial gate: the caller may be
    /// within a transaction that has it.
    pub(in crate::env) fn run<T>(
        mut self,
        durability: Durability,
        mut work: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<T> {
        self.records.pass_gate();
        // How often in a row its snapshot was given up, and since when.
        let mut given_up = (0, clock::monotonic());
        loop {
            match work(&mut self).and_then(|made| self.commit(durability).map(|_| made)) {
                Err(error) if error.kind() == ErrorKind::Conflict => given_up = (0, clock::monotonic()),
                Err(error) if error.kind() == ErrorKind::SnapshotTooOld => {
                    given_up.0 += 1;
                    if given_up.0 >= GIVEN_UP_MAX
                        && clock::monotonic().saturating_sub(given_up.1) >= GIVEN_UP_FOR
                    {
                        return Err(no_room_to_run(given_up.0));
                    }
                }
                done => return done,
            }
            self.give_up();
            self.records.restart();
        }
    }
}

/// The error of work that has no room in the cache although nobody else commits: what it commits itself
/// first, the pages of a new database say, makes its own snapshot the one that keeps old versions.
#[cold]
fn no_room_to_run(times: u32) -> Error {
    Error::cache_full(format!(
        "the cache is too full for a change of the catalog or of a sequence: the snapshot that it was made \
         over was given up {times} times in a row; end snapshots, remove records, or enlarge the cache \
         (Builder::cache_size)"
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use sablecat_os::atomic::Ordering;
    use sablecat_os::sim::SimDisk;

    use super::*;
    use crate::access::Method;
    use crate::env::config::{Config, EnvMode};
    use crate::env::mutex::lock;
    use crate::env::opening::Core;
    use crate::env::opening::open::open;
    use crate::txn::{Isolation, RecordChange};
    use crate::types::VolumeId;

    fn core() -> Arc<Core> {
        let config = Config {
            disk: Arc::new(SimDisk::new(1)),
            cache_bytes: Some(4 << 20),
            background: false,
            ..Config::default()
        };
        open(Path::new("databases"), config, EnvMode::Transactional).unwrap()
    }

    fn begin(core: &Core, isolation: Isolation) -> EnvTxn<'_> {
        EnvTxn::begin(
            core,
            Options {
                isolation,
                durability: Durability::Memory,
                read_only: false,
                patience: Duration::from_secs(60),
            },
        )
        .unwrap()
    }

    /// Pages in use.
    fn pages(core: &Core) -> u64 {
        core.kernel.pages.sweep_all(&core.kernel.pages.participants.sit().unwrap());
        core.kernel.pages.page_ids().used_count() - 1
    }

    /// What the next to open the environment would have to free.
    fn notes(core: &Core) -> usize {
        let records = core.read(|txn| catalog::records(&mut txn.records.committed())).unwrap();
        records.iter().filter(|(key, _)| !catalog::is_name(key)).count()
    }

    #[test]
    fn what_is_undone_or_removed_is_freed_at_once() {
        let core = core();
        let mut txn = begin(&core, Isolation::Serializable);
        txn.database_or_new("given up", Asked::default()).unwrap();
        let before = txn.records.position();
        txn.database_or_new("rolled back", Asked::default()).unwrap();
        assert_eq!(notes(&core), 2);
        txn.roll_back_to(before).unwrap();
        assert_eq!(notes(&core), 1);
        txn.give_up();
        assert_eq!(notes(&core), 0);
        txn.records.restart();
        txn.database_or_new("kept", Asked::default()).unwrap();
        txn.database_or_new("removed", Asked::default()).unwrap();
        txn.remove_database("removed").unwrap();
        txn.commit(Durability::Memory).unwrap();
        assert_eq!((notes(&core), core.database_names().unwrap().len()), (0, 1));
        core.remove_database("kept").unwrap();
        drop(begin(&core, Isolation::Snapshot).database_or_new("dropped", Asked::default()).unwrap());
        assert_eq!((notes(&core), pages(&core)), (0, 1), "the catalog");
    }

    /// What is done about a database is several records of the catalog. If not all of them are set, a tree
    /// has a name and is freed, or has none and is not.
    #[test]
    fn no_half_of_what_is_done_about_a_database_is_left_by_a_disk_that_is_full() {
        let disk = SimDisk::new(1);
        let config = Config {
            disk: Arc::new(disk.clone()),
            cache_bytes: Some(0),
            background: false,
            ..Config::default()
        };
        let core = open(Path::new("databases"), config, EnvMode::Transactional).unwrap();
        let full = core.database_or_new("full", Asked::default()).unwrap();
        core.database_or_new("old", Asked::default()).unwrap();
        let mut txn = begin(&core, Isolation::Snapshot);
        disk.fill_up();
        let refused =
            (0..u32::MAX).find_map(|n| txn.records.set(&full.tree, &n.to_le_bytes(), Some(&[1; 1000])).err());
        assert_eq!(refused.expect("memory has an end").kind(), ErrorKind::DiskFull);
        assert!(txn.remove_database("old").unwrap());
        txn.rename_database("full", "renamed").unwrap();
        disk.set_capacity(u64::MAX);
        txn.commit(Durability::Memory).unwrap();
        drop(txn);
        assert_eq!((notes(&core), core.database_names().unwrap()), (0, vec!["renamed".to_owned()]));
        assert_eq!(core.verify(&mut |_| {}).unwrap().problems, [""; 0]);
    }

    /// Has the catalog say something else of a database's method, or of an unnamed tree's.
    fn set_method(core: &Core, key: &[u8], method: u8) {
        let mut txn = begin(core, Isolation::Snapshot);
        let value = txn.records.get_owned(catalog_tree(), key).unwrap().expect("it is there");
        let entry = CatalogEntry { method, ..CatalogEntry::decode(key, &value).unwrap() };
        txn.records.set(catalog_tree(), key, Some(&entry.encode())).unwrap();
        txn.records.commit(Durability::Memory).unwrap();
        // Nothing is remembered of it.
        lock(&core.names).forget();
    }

    #[test]
    fn a_database_of_an_unknown_method_is_left_as_it_is_and_all_others_go_on() {
        let disk = SimDisk::new(1);
        let opened = || {
            let config = Config {
                disk: Arc::new(disk.clone()),
                cache_bytes: Some(4 << 20),
                background: false,
                ..Config::default()
            };
            open(Path::new("databases"), config, EnvMode::Transactional).unwrap()
        };
        let core = opened();
        let [known, unknown] =
            ["known", "unknown"].map(|name| core.database_or_new(name, Asked::default()).unwrap());
        let put = |core: &Core, named: &Named, n: u32| {
            core.kernel
                .change_one(&named.tree, &n.to_be_bytes(), RecordChange::Put(&[1; 100]), Durability::Memory)
                .map(drop)
        };
        (0..200).for_each(|n| [&known, &unknown].into_iter().for_each(|named| put(&core, named, n).unwrap()));
        // And a tree without a name, which nobody here can free.
        let mut half = begin(&core, Isolation::Snapshot);
        half.database_or_new("half made", Asked::default()).unwrap();
        let note = note_key(half.made[0].entry.tree);
        std::mem::forget(half);
        let normal = CatalogEntry::new(TreeId(1), VolumeId::MAIN, Method::Btree).method;
        set_method(&core, b"unknown", 99);
        set_method(&core, &note, 99);

        let check = |core: &Core| {
            let refused = |error: Error| {
                assert!(
                    error.is_not_known() && error.to_string().contains("\"unknown\" has access method 99"),
                    "{error}"
                )
            };
            refused(core.database("unknown").unwrap_err());
            refused(core.database_or_new("unknown", Asked::default()).unwrap_err());
            refused(core.rename_database("unknown", "other").unwrap_err());
            refused(core.remove_database("unknown").unwrap_err());
            assert_eq!(core.database_names().unwrap(), ["known", "unknown"]);
            assert_eq!(core.database_kinds().unwrap().methods, ["B+tree", "unknown method 99"]);
            let known = core.database("known").unwrap().expect("there");
            put(core, &known, 1000).unwrap();
            let report = core.verify(&mut |_| {}).unwrap();
            assert_eq!(
                (report.problems, report.not_known, report.databases),
                (Vec::new(), vec!["unknown".to_owned()], 1)
            );
            assert_eq!((report.pages_unreachable, core.compact().unwrap().pages_freed), (0, 0));
        };
        check(&core);
        core.close().unwrap();
        drop((known, unknown, core));
        let core = opened();
        check(&core);
        set_method(&core, b"unknown", normal);
        set_method(&core, &note, normal);
        let unknown = core.database("unknown").unwrap().expect("there");
        assert_eq!(core.kernel.get_one(&unknown.tree, &7u32.to_be_bytes()).unwrap(), Some(vec![1; 100]));
        core.close().unwrap();
        drop((unknown, core));
        assert_eq!(notes(&opened()), 0);
    }

    #[test]
    fn databases_are_made_and_removed_with_the_last_seat() {
        let core = core();
        core.database_or_new("old", Asked::default()).unwrap();
        let mut txn = begin(&core, Isolation::Snapshot);
        let seats: Vec<_> = std::iter::from_fn(|| core.kernel.pages.participants.sit().ok()).collect();
        txn.database_or_new("new", Asked::default()).unwrap();
        txn.database_or_new("removed at once", Asked::default()).unwrap();
        txn.remove_database("removed at once").unwrap();
        txn.remove_database("old").unwrap();
        txn.commit(Durability::Memory).unwrap();
        drop((txn, seats));
        assert_eq!((notes(&core), core.database_names().unwrap()), (0, vec!["new".to_owned()]));
    }

    /// The state between a removal and the freeing of the pages, in which they would be lost if anybody added
    /// to them.
    #[test]
    fn nothing_is_committed_to_a_tree_that_is_about_to_be_freed() {
        for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
            let core = core();
            let (full, empty) = (
                core.database_or_new("full", Asked::default()).unwrap(),
                core.database_or_new("empty", Asked::default()).unwrap(),
            );
            let put = |n: u32| {
                core.kernel.change_one(
                    &full.tree,
                    &n.to_be_bytes(),
                    RecordChange::Put(&[1; 100]),
                    Durability::Memory,
                )
            };
            assert!((0..200).all(|n| put(n).unwrap()));
            let (mut small, mut large) = (begin(&core, isolation), begin(&core, isolation));
            small.records.set(&full.tree, b"k", Some(b"v")).unwrap();
            (0..500u32)
                .for_each(|n| large.records.set(&full.tree, &n.to_le_bytes(), Some(&[2; 500])).unwrap());

            let mut removal = begin(&core, Isolation::Snapshot);
            assert!(removal.remove_database("full").unwrap() && removal.remove_database("empty").unwrap());
            removal.records.commit(Durability::Memory).unwrap();

            let kind = |result: Result<Lsn>| result.expect_err("its tree has no name").kind();
            assert_eq!(kind(small.commit(Durability::Memory)), ErrorKind::Conflict);
            assert_eq!(kind(large.commit(Durability::Memory)), ErrorKind::Conflict);
            assert_eq!(put(7).expect_err("it has no name").kind(), ErrorKind::Conflict);
            assert_eq!(put(u32::MAX).expect_err("it has no name").kind(), ErrorKind::Conflict);
            let long = core.kernel.change_one(
                &full.tree,
                b"long",
                RecordChange::Put(&[1; 9000]),
                Durability::Memory,
            );
            assert_eq!(long.expect_err("it has no name").kind(), ErrorKind::Conflict);
            let loaded = core.kernel.bulk_load(
                &empty.tree,
                (0..5000u32).map(|n| (n.to_be_bytes(), [1; 100])),
                Durability::Memory,
            );
            assert_eq!(loaded.expect_err("it has no name").kind(), ErrorKind::Conflict);
            drop((small, large, removal));
            core.finish_drops().unwrap();
            assert_eq!(pages(&core), 1, "the catalog");
        }
    }

    /// A process that takes a name away may die between saying so and doing it, or be looked at in between.
    #[test]
    fn a_database_that_is_about_to_be_removed_is_there_until_it_is() {
        let core = core();
        let named = core.database_or_new("d", Asked::default()).unwrap();
        let header = core.kernel.pages.region.header();
        header.names_since.store(header.visible().0 + 1, Ordering::SeqCst);
        core.tree(&named).unwrap();
        let again = core.database("d").unwrap().expect("it is there");
        let mut removal = begin(&core, Isolation::Snapshot);
        removal.remove_database("d").unwrap();
        removal.records.commit(Durability::Memory).unwrap();
        for named in [&named, &again] {
            assert_eq!(core.tree(named).expect_err("removed").kind(), ErrorKind::NotFound);
        }
        assert!(core.database("d").unwrap().is_none());
    }
}
