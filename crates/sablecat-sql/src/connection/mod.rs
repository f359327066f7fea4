//! What a connection of SQLite's has of an environment: at most one transaction, with its savepoints.
//!
//! A table or index is a database. Its number, which SQLite calls root page, is in its name, so that the
//! catalog is all that says where it is. Beside them stands one small database, with the numbers that SQLite
//! keeps of its schema and the highest root so far. All of it is changed in the transaction, and goes with
//! it.
//!
//! A connection that writes holds a lock by name until the transaction ends: one of its own under a common
//! one, or, for `BEGIN IMMEDIATE`, the common one. So many may write at once, or one alone, without a
//! conflict afterwards.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sablecat::{
    Content, Database, DatabaseStats, Durability, Env, ErrorKind, Isolation, Locker, Savepoint, Txn,
    TxnOptions,
};

use crate::ahead::StateOf;
use crate::engine::{self, Shared};
use crate::failure::{BUSY_SNAPSHOT, Failure};
use crate::key_value::KeyValues;
use crate::place::Place;
use crate::row_ids::{self, RowIds};
use crate::sequences::{self, Sequences};
use statements::{Level, Statements};

mod numbers;
pub(crate) mod statements;

/// What the names of all databases of SQL begin with: no name that a person would choose.
const PREFIX: &str = "\u{1}sql";
/// The root of the schema's own table, which is always there.
const SCHEMA_ROOT: u32 = 1;
/// Under which the highest root is kept, beside SQLite's numbers, which have one byte.
const LAST_ROOT: &[u8] = b"root";
/// How many numbers SQLite keeps.
const NUMBERS: usize = 16;
/// What writers lock.
const WRITERS: &[u8] = b"sablecat-sql";
/// How many trees are known at most.
const TREES_MAX: usize = 1024;
/// How many cursors that were closed are kept.
const SPARE_MAX: usize = 8;
/// How long a statement that lost often waits to be the only one that writes.
const ALONE_WITHIN: Duration = Duration::from_secs(10);

type Result<T> = std::result::Result<T, Failure>;

/// What the transaction knows of the row ids of a table, for all cursors in it.
pub(crate) type SharedRowIds = Rc<RefCell<RowIds>>;

/// A connection's part in an environment.
#[derive(Debug)]
pub(crate) struct Connection {
    txn: Option<Txn<'static>>,
    locker: Option<Locker>,
    numbers: Database,
    /// SQLite's numbers that the transaction has read or set: each statement asks for some.
    seen: [Option<u32>; NUMBERS],
    trees: BTreeMap<u32, Database>,
    /// The transaction has made or dropped trees: what is known of them is of it alone.
    makes: bool,
    /// How often what was known of trees was forgotten: cursors from before that are not used again.
    forgotten: u64,
    /// Cursors that were closed, to be used again: each statement opens its own anew.
    #[expect(clippy::vec_box, reason = "they come and go as boxes, which are their handles")]
    spare: Vec<Box<Place>>,
    /// What is known of databases that are not SQL's.
    pub(crate) key_values: KeyValues,
    /// By root; one for all cursors there have been.
    row_ids: BTreeMap<u32, SharedRowIds>,
    /// Those of which something is known of the transaction in progress.
    row_ids_known: Vec<SharedRowIds>,
    pub(crate) sequences: Sequences,
    /// The transaction may write.
    writes: bool,
    /// Where it may be rolled back to: as a whole, if it began with a savepoint, then each of SQLite's other
    /// savepoints. Without any nothing is noted of what was before a change.
    begin: Option<Savepoint>,
    savepoints: Vec<Savepoint>,
    /// How many of these are not of a statement in progress.
    named: usize,
    /// How the statement that began last to write can be undone, if it can.
    statement: Option<Whole>,
    /// Why the transaction does not commit: it met a conflict, or a number could not be read.
    failed: Option<Failure>,
    /// The next transaction that writes does so alone.
    alone_next: bool,
    /// The one in progress does, if it writes.
    is_alone: bool,
    /// The one in progress has more than one statement.
    is_explicit: bool,
    /// How isolated transactions are,
    pub(crate) level: Level,
    /// and what tells of what they are made of.
    statements: Statements,
    /// What was committed when the transaction in progress began, or the last one did, or by that; and a
    /// number for what others have committed of it.
    data_version: (Content, u32),
    /// How often a transaction of this connection has changed something.
    own_changes: u32,
    /// How often what the transaction sees has become another state: what was read before is not to be used.
    state: u64,
    /// How often it has changed a record of which trees since. Few.
    changes: Vec<(u32, u64)>,
    /// The transaction sees one state and does not note what it reads.
    is_snapshot: bool,
    /// Goes last: what is above is of it.
    shared: Option<Arc<Shared>>,
}

/// How a statement that fails is undone without the rest of its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whole {
    /// SQLite has a savepoint for it, as for all that it knows may fail half way.
    BySqlite,
    /// Here, to where it began.
    Kept(Savepoint),
}

fn name_of(root: u32) -> String {
    format!("{PREFIX}:{root}")
}

/// Whether a name is one of those that SQL's databases have.
pub(crate) fn is_of_sql(name: &str) -> bool {
    name.starts_with('\u{1}')
}

impl Connection {
    pub(crate) fn open(shared: Arc<Shared>, statements: Statements) -> sablecat::Result<Connection> {
        let env = &shared.env;
        // Nearly always they are there, and nothing is written.
        let numbers = match env.existing_database(PREFIX)? {
            Some(numbers) => numbers,
            None => env.write(|txn| {
                txn.database(&name_of(SCHEMA_ROOT))?;
                txn.database(PREFIX)
            })?,
        };
        Ok(Connection {
            txn: None,
            locker: None,
            numbers,
            trees: BTreeMap::new(),
            makes: false,
            forgotten: 0,
            spare: Vec::new(),
            key_values: KeyValues::default(),
            row_ids: BTreeMap::new(),
            row_ids_known: Vec::new(),
            sequences: Sequences::default(),
            seen: [None; NUMBERS],
            writes: false,
            begin: None,
            savepoints: Vec::new(),
            named: 0,
            statement: None,
            failed: None,
            alone_next: false,
            is_alone: false,
            is_explicit: false,
            level: Level::Serializable,
            statements,
            data_version: (env.content(), 1),
            own_changes: 0,
            state: 0,
            changes: Vec::new(),
            is_snapshot: false,
            shared: Some(shared),
        })
    }

    fn env(&self) -> &Env {
        self.numbers.env()
    }

    /// Whether another connection has the same environment.
    pub(crate) fn is_same(&self, other: &Connection) -> bool {
        self.shared.as_ref().zip(other.shared.as_ref()).is_some_and(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// The transaction in progress.
    pub(crate) fn txn(&mut self) -> Result<&mut Txn<'static>> {
        self.txn.as_mut().ok_or_else(|| Failure::internal("a table was used outside any transaction"))
    }

    /// The transaction in progress, to change what it sees as a whole.
    fn writing(&mut self) -> Result<&mut Txn<'static>> {
        self.state += 1;
        self.txn()
    }

    /// The transaction in progress, to change a record of a tree.
    pub(crate) fn writing_to(&mut self, root: u32) -> Result<&mut Txn<'static>> {
        match self.changes.iter_mut().find(|(changed, _)| *changed == root) {
            Some((_, count)) => *count += 1,
            None => self.changes.push((root, 1)),
        }
        self.txn()
    }

    /// In which state the transaction sees a tree, told from all before it; and whether it is noted what is
    /// read of that.
    pub(crate) fn state_of(&self, root: u32, is_noted: bool) -> StateOf {
        let changes = self.changes.iter().find(|(changed, _)| *changed == root);
        StateOf { transaction: self.state, changes: changes.map_or(0, |(_, count)| *count), is_noted }
    }

    /// In which state the transaction is as a whole.
    pub(crate) fn whole_state(&self) -> u64 {
        self.state
    }

    /// Whether the transaction depends on what is read now.
    #[inline]
    pub(crate) fn depends(&self) -> bool {
        self.notes() && (self.level == Level::Serializable || !self.statements.only_read())
    }

    /// Whether it depends on anything that is read.
    pub(crate) fn notes(&self) -> bool {
        !self.is_snapshot
    }

    /// Reads in the transaction in progress, and says whether that depends on it.
    #[inline]
    pub(crate) fn look<T>(
        &mut self,
        depends: bool,
        look: impl FnOnce(&Txn<'static>) -> Result<T>,
    ) -> Result<T> {
        let txn = self.txn()?;
        if depends { look(txn) } else { txn.unvalidated(look) }
    }

    /// A database by its name, as the transaction in progress sees it; as it was committed last, if there is
    /// none.
    pub(crate) fn existing(&self, name: &str) -> Result<Option<Database>> {
        match &self.txn {
            Some(txn) => Ok(txn.existing_database(name)?),
            None => Ok(self.env().existing_database(name)?),
        }
    }

    /// Where it is kept what is known of the row ids of a table.
    pub(crate) fn row_ids(&mut self, root: u32) -> SharedRowIds {
        Rc::clone(self.row_ids.entry(root).or_default())
    }

    /// Something becomes known of the row ids of a table, where there are so many savepoints.
    pub(crate) fn change_row_ids(&mut self, ids: &SharedRowIds, change: impl FnOnce(&mut RowIds, usize)) {
        let mut ids_now = ids.borrow_mut();
        if ids_now.is_new() {
            self.row_ids_known.push(Rc::clone(ids));
        }
        change(&mut ids_now, self.savepoints.len());
    }

    fn each_row_ids(&self, each: impl Fn(&mut RowIds)) {
        self.row_ids_known.iter().for_each(|ids| each(&mut ids.borrow_mut()));
    }

    /// What is known of row ids is of a transaction that is over, or begins anew.
    fn forget_row_ids(&mut self) {
        self.row_ids_known.drain(..).for_each(|ids| ids.borrow_mut().forget());
    }

    /// Whether nobody else may write before the transaction ends.
    pub(crate) fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Locks a name, as part of a transaction that writes; false if somebody has it for so long.
    pub(crate) fn lock_path(
        &mut self,
        path: impl IntoIterator<Item = impl AsRef<[u8]>>,
        within: Duration,
    ) -> Result<bool> {
        let Some(locker) = &mut self.locker else {
            return Err(Failure::internal("a name is locked in a transaction that does not write"));
        };
        match locker.lock_within(path, within) {
            // Two look for numbers at once, and each has some that the other one tries.
            Err(error) if error.kind() == ErrorKind::Deadlock => Ok(false),
            locked => Ok(locked?),
        }
    }

    pub(crate) fn unlock_path(&mut self, path: impl IntoIterator<Item = impl AsRef<[u8]>>) {
        if let Some(locker) = &mut self.locker {
            locker.unlock(path);
        }
    }

    /// The transaction does not commit any more, for this reason.
    pub(crate) fn fails(&mut self, failure: Failure) -> Failure {
        self.failed = Some(failure.clone());
        failure
    }

    /// What tells whether anything was committed meanwhile.
    pub(crate) fn newest(&self) -> sablecat::Lsn {
        self.env().lsn()
    }

    /// Whether a transaction is in progress that sees one state and does not note what it reads. Nothing that
    /// is written may rest on that: a check that a key is not there yet, or a row that is referred to, has to
    /// be seen by a transaction that changes that meanwhile.
    pub(crate) fn is_snapshot(&self) -> bool {
        self.txn.is_some() && self.is_snapshot
    }

    /// Begins a transaction, or makes one that reads one that writes. One that does not note what it reads
    /// ends, and another begins in the newest state: see [`Connection::is_snapshot`].
    ///
    /// `alone`: nobody else may write before it ends. `explicit`: it has more than one statement.
    /// `savepoint`: it began with a savepoint.
    pub(crate) fn begin(&mut self, write: bool, alone: bool, explicit: bool, savepoint: bool) -> Result<()> {
        if write && !self.writes {
            self.lock(alone)?;
        }
        self.is_explicit = explicit;
        // A statement that only reads needs one state, and nobody to see that it is the last.
        let isolation = if write || explicit { Isolation::Serializable } else { Isolation::Snapshot };
        if self.txn.is_none() || (self.is_snapshot && isolation == Isolation::Serializable) {
            self.note_version();
            match self.env().begin_owned(TxnOptions::new().isolation(isolation)) {
                Ok(txn) => {
                    self.txn = Some(txn);
                    self.seen = [None; NUMBERS];
                    self.state += 1;
                    self.changes.clear();
                    self.is_snapshot = isolation == Isolation::Snapshot;
                }
                Err(error) if self.txn.is_none() => {
                    self.end();
                    return Err(error.into());
                }
                Err(error) => {
                    // A transaction that reads goes on as before.
                    if let Some(locker) = &mut self.locker {
                        locker.unlock_all();
                    }
                    return Err(error.into());
                }
            }
        }
        if write && !self.writes {
            self.writes = true;
            self.begin = self.txn.as_mut().filter(|_| savepoint).map(Txn::savepoint);
        }
        Ok(())
    }

    fn lock(&mut self, alone: bool) -> Result<()> {
        let locker = match &mut self.locker {
            Some(locker) => locker,
            none => none.insert(self.numbers.env().locker()?),
        };
        let alone_next = std::mem::take(&mut self.alone_next);
        let patience = if alone_next { ALONE_WITHIN } else { Duration::ZERO };
        self.is_alone = alone || alone_next;
        let locked = if self.is_alone {
            locker.lock_within([WRITERS], patience)
        } else {
            let own = [u64::from(std::process::id()), std::ptr::from_ref(locker) as u64];
            locker.lock_within([WRITERS, own.map(row_ids::word).as_flattened()], patience)
        };
        match locked {
            Ok(true) => Ok(()),
            Ok(false) => Err(Failure::busy()),
            Err(error) => Err(error.into()),
        }
    }

    /// The next transaction that writes waits until it is the only one.
    pub(crate) fn next_alone(&mut self) {
        self.alone_next = true;
    }

    /// An error if it is known already that the transaction does not commit.
    pub(crate) fn may_commit(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Commits. The transaction is over either way, unless it was known before that it does not commit: then
    /// it is open until it is rolled back.
    pub(crate) fn commit(&mut self, durability: Durability) -> Result<()> {
        self.may_commit()?;
        let joined = sequences::join(self)?;
        let txn = self.txn.take().ok_or_else(|| Failure::internal("committing where no transaction is"))?;
        let (saw_newest, began_over) = (txn.sees_newest(), self.data_version.0);
        // No transaction that waits for a sequence waits for a disk.
        let is_flushed_later = !joined.is_empty() && durability == Durability::Sync;
        let (lsn, contents) =
            txn.commit_over(if is_flushed_later { Durability::NoSync } else { durability })?;
        if let Some([before, since]) = contents {
            if saw_newest && before == began_over {
                self.each_row_ids(|ids| ids.commit_alone(lsn));
            }
            self.note_change(before);
            self.data_version.0 = since;
            self.own_changes = self.own_changes.wrapping_add(1);
        }
        (self.writes, self.begin) = (false, None);
        sequences::unlock(self, &joined);
        if is_flushed_later {
            self.env().make_durable(lsn)?;
        }
        Ok(())
    }

    /// Ends the transaction. What was not committed never was.
    pub(crate) fn end(&mut self) {
        self.txn = None;
        self.forget_row_ids();
        self.sequences.clear();
        (self.begin, self.writes) = (None, false);
        self.forget_made();
        self.makes = false;
        self.savepoints.clear();
        self.statement = None;
        self.failed = None;
        if let Some(locker) = &mut self.locker {
            locker.unlock_all();
        }
    }

    /// A statement that writes begins, where there are so many savepoints with names, `by_itself` or within
    /// another. Not in a transaction that has met a conflict.
    ///
    /// It may meet one if others have committed something since the transaction's snapshot: then a place is
    /// kept to which it goes back.
    pub(crate) fn begin_statement(&mut self, named: usize, by_itself: bool) -> Result<()> {
        if let Some(lost) = self.failed.as_ref().filter(|failure| failure.code == BUSY_SNAPSHOT) {
            return Err(lost.clone());
        }
        if let Some(Whole::Kept(_)) = self.statement.take() {
            self.forget_savepoints();
        }
        self.named = named;
        self.savepoints(named)?;
        if by_itself && self.is_explicit && !self.txn()?.sees_newest() {
            self.statement = Some(Whole::Kept(self.txn()?.savepoint()));
        }
        Ok(())
    }

    /// SQLite can roll that statement back, to the savepoint of this number.
    pub(crate) fn be_whole(&mut self, number: usize) -> Result<()> {
        self.statement = Some(Whole::BySqlite);
        self.savepoints(number)
    }

    /// Takes savepoints until there are so many.
    fn savepoints(&mut self, count: usize) -> Result<()> {
        while self.savepoints.len() < count {
            let savepoint = self.txn()?.savepoint();
            self.savepoints.push(savepoint);
        }
        Ok(())
    }

    /// A conflict if others have changed, and committed, what the transaction has read of a key that it
    /// changes. Then the statement in progress is undone, here or by SQLite. Nothing is asked for one that
    /// cannot be.
    pub(crate) fn check(&mut self, tree: &Database, key: &[u8]) -> Result<()> {
        match self.may_go_back() {
            true => self.checked(|txn| txn.check_unchanged(tree, key)),
            false => Ok(()),
        }
    }

    /// Whether the statement in progress can be undone without the rest of its transaction.
    fn may_go_back(&self) -> bool {
        match self.statement {
            Some(Whole::Kept(_)) => true,
            Some(Whole::BySqlite) => self.is_explicit && self.savepoints.len() > self.named,
            None => false,
        }
    }

    fn checked(&mut self, check: impl FnOnce(&Txn<'static>) -> sablecat::Result<()>) -> Result<()> {
        let Err(error) = check(self.txn()?) else { return Ok(()) };
        let failure = match error.kind() {
            ErrorKind::Conflict => Failure::conflict(),
            _ => error.into(),
        };
        let failure = if failure.code == BUSY_SNAPSHOT { self.fails(failure) } else { failure };
        if let Some(Whole::Kept(begin)) = self.statement.take() {
            self.go_back(&begin)?;
            // It inserts no more rows.
            self.forget_row_ids();
        }
        Err(failure)
    }

    /// Lets go of a savepoint and those after it.
    pub(crate) fn release(&mut self, index: usize) {
        self.savepoints.truncate(index);
        self.each_row_ids(|ids| ids.release(index));
        self.forget_savepoints();
    }

    /// Goes back to a savepoint, which stays; without one, to where the transaction began.
    pub(crate) fn roll_back(&mut self, index: Option<usize>) -> Result<()> {
        let to = match index {
            None if self.writes && self.begin.is_none() => {
                return Err(Failure::internal("rolling back to a beginning that is no savepoint"));
            }
            None => self.begin,
            Some(index) => self.savepoints.get(index).copied(),
        };
        let Some(to) = to else { return Ok(()) };
        self.go_back(&to)?;
        self.savepoints.truncate(index.map_or(0, |index| index + 1));
        match index {
            None => self.forget_row_ids(),
            Some(index) => {
                self.each_row_ids(|ids| ids.roll_back(index));
                self.row_ids_known.retain(|ids| !ids.borrow().is_new());
            }
        }
        Ok(())
    }

    /// Goes back to a savepoint.
    fn go_back(&mut self, to: &Savepoint) -> Result<()> {
        self.writing()?.rollback_to(to)?;
        self.seen = [None; NUMBERS];
        self.forget_made();
        Ok(())
    }

    /// Without savepoints nothing is noted of what was before a change.
    fn forget_savepoints(&mut self) {
        if self.savepoints.is_empty()
            && self.begin.is_none()
            && let Some(txn) = &mut self.txn
        {
            txn.forget_savepoints();
        }
    }

    /// What the transaction created may not be there, or will be another one of that number.
    fn forget_made(&mut self) {
        if self.makes {
            self.forgotten += 1;
            self.trees.clear();
            self.spare.clear();
        }
    }

    /// A cursor that was closed, if there is such a one.
    pub(crate) fn spare(&mut self, is_wanted: impl Fn(&Place) -> bool) -> Option<Box<Place>> {
        let at = self.spare.iter().rposition(|place| is_wanted(place))?;
        Some(self.spare.swap_remove(at))
    }

    /// How often what was known of trees was forgotten.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// A cursor was closed. One that was open while its tree was unmade, or may have been, is not used again.
    pub(crate) fn keep(&mut self, mut place: Box<Place>) {
        if place.forgotten() != self.forgotten {
            return;
        }
        place.leave();
        if self.spare.len() == SPARE_MAX {
            self.spare.remove(0);
        }
        self.spare.push(place);
    }

    /// The tree with a root.
    pub(crate) fn tree(&mut self, root: u32) -> Result<Database> {
        if let Some(tree) = self.trees.get(&root) {
            return Ok(tree.clone());
        }
        let tree = self.txn()?.existing_database(&name_of(root))?;
        let tree = tree.ok_or_else(|| {
            Failure::corrupt(format!("the schema says that there is a tree {root}, and there is none"))
        })?;
        if self.trees.len() >= TREES_MAX {
            // Others may have dropped most of them.
            self.trees.clear();
        }
        self.trees.insert(root, tree.clone());
        Ok(tree)
    }

    /// A new tree; its root.
    pub(crate) fn create(&mut self) -> Result<u32> {
        let last = self.last_root()?;
        self.check(&self.numbers.clone(), LAST_ROOT)?;
        let root = last.checked_add(1).filter(|root| i32::try_from(*root).is_ok()).ok_or_else(|| {
            Failure::too_big("creating a table or an index: the environment has used all numbers for them")
        })?;
        let numbers = self.numbers.clone();
        self.makes = true;
        let txn = self.writing()?;
        txn.insert(&numbers, LAST_ROOT, root.to_be_bytes())?;
        let tree = txn.database(&name_of(root))?;
        self.trees.insert(root, tree);
        Ok(root)
    }

    pub(crate) fn drop_tree(&mut self, root: u32) -> Result<()> {
        self.makes = true;
        self.forget_made();
        self.writing()?.remove_database(&name_of(root))?;
        Ok(())
    }

    /// Removes all records of a tree; how many there were.
    pub(crate) fn clear(&mut self, root: u32) -> Result<u64> {
        let tree = self.tree(root)?;
        let row_ids = self.row_ids(root);
        self.change_row_ids(&row_ids, |ids, savepoints| ids.removed(savepoints, i64::MAX));
        let count = self.writing()?.clear(&tree)?;
        self.change_row_ids(&row_ids, RowIds::cleared);
        if self.may_go_back() {
            self.checked(|txn| txn.check_all_unchanged(&tree))?;
        }
        Ok(count)
    }

    /// How many records a tree has.
    pub(crate) fn count(&mut self, root: u32) -> Result<u64> {
        let tree = self.tree(root)?;
        self.look(self.depends(), |txn| Ok(txn.len(&tree)?))
    }

    /// How large a tree is, about, in its newest state: nothing, as long as it is this transaction's alone.
    pub(crate) fn size(&mut self, root: u32) -> Result<DatabaseStats> {
        match self.tree(root)?.stats() {
            Err(error) if error.kind() == ErrorKind::NotAllowed => Ok(DatabaseStats::default()),
            stats => Ok(stats?),
        }
    }

    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.env().checkpoint()?;
        Ok(())
    }

    pub(crate) fn compact(&self) -> Result<()> {
        self.env().compact()?;
        Ok(())
    }

    /// What is wrong with the environment's files and trees: the first few sentences.
    pub(crate) fn verify(&self) -> Result<Vec<String>> {
        Ok(self.env().verify(&mut |_| {})?.problems)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.end();
        self.locker = None;
        self.trees.clear();
        self.spare.clear();
        self.key_values.clear();
        if let Some(shared) = self.shared.take() {
            engine::give_back(shared);
        }
    }
}
