//! Databases as a process knows them: by name, and what their handles hold.
//!
//! Which databases there are the catalog says; it is read and changed by transactions (transaction.rs). What
//! an environment's own methods do is a transaction of its own. The process remembers what it has found under
//! a name, for as long as no name is taken away.

pub(in crate::env) mod indexing;
pub(in crate::env) mod indices;
mod relation_changes;
mod sweeping;
pub(in crate::env) mod transaction;

pub(crate) use indexing::Written;
pub(crate) use indices::{entries_of, key_of, leads_nowhere};
pub(in crate::env) use sweeping::Upcoming;
pub(crate) use transaction::EnvTxn;

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock};

use crate::access::Method;
use crate::access::{SEED_BYTES, Seed};
use crate::env::mutex::lock;
use crate::env::upkeep::Upkeep;
use crate::error::{Error, ErrorKind, Result};
use crate::pages::LocalParticipant;
use crate::txn::catalog::{self, CatalogEntry, OPTION_BYTES_MAX};
use crate::txn::{
    Comparator, Durability, Holds, IndexInfo, Isolation, KnownDatabase, Looked, Options, Presence,
    PresenceState, TreeRef, View,
};
use crate::types::{Lsn, TreeId, VolumeId};

/// A database as this process knows it.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(in crate::env) tree: TreeRef,
    pub(in crate::env) presence: Arc<Presence>,
    /// What kind of records it holds.
    pub(crate) holds: Holds,
    /// What it is an index of.
    index: Option<Arc<IndexInfo>>,
    /// What is set in it is what the log of another environment says, which has all that follows from it.
    is_replica: bool,
    /// The same database with the indices that it has by now, once this one was found to know others.
    newer: OnceLock<Arc<Named>>,
}

impl Named {
    /// What it is an index of, if it is one.
    pub(crate) fn index(&self) -> Option<&Arc<IndexInfo>> {
        self.index.as_ref()
    }

    /// The number of its tree.
    pub(crate) fn tree_id(&self) -> TreeId {
        self.tree.id
    }

    /// The same, to set in it what the log of another environment says.
    pub(crate) fn as_replica(&self) -> Named {
        Named {
            name: self.name.clone(),
            tree: self.tree.with(|tree| tree.follower = None),
            presence: Arc::clone(&self.presence),
            holds: self.holds,
            index: self.index.clone(),
            is_replica: true,
            newer: OnceLock::new(),
        }
    }

    pub(in crate::env) fn is_replica(&self) -> bool {
        self.is_replica
    }

    /// The newest that is known of it.
    pub(in crate::env) fn newest(&self) -> &Named {
        let mut newest = self;
        while let Some(newer) = newest.newer.get() {
            newest = newer;
        }
        newest
    }

    /// What its keys are ordered by; none: by bytes.
    pub(crate) fn comparator(&self) -> Option<&str> {
        let comparator = self.tree.comparator.as_ref().filter(|comparator| comparator.table.is_none());
        comparator.map(|comparator| comparator.name.as_str())
    }

    /// How its records are arranged.
    pub(crate) fn method(&self) -> Method {
        self.tree.method
    }

    /// Whether nothing is logged of its records, which are gone when the environment is opened afresh.
    pub(crate) fn is_temporary(&self) -> bool {
        self.tree.temporary
    }

    /// How two of its keys are ordered.
    pub(crate) fn compare(&self, one: &[u8], other: &[u8]) -> Ordering {
        self.tree.tree().order.compare(one, other)
    }

    /// The error of using a database that is not there any more.
    #[cold]
    pub(in crate::env) fn gone(&self) -> Error {
        Error::new(
            ErrorKind::NotFound,
            format!(
                "the database {:?} was removed after this handle was opened, or its creation was undone",
                self.name
            ),
        )
    }

    /// The error of using a database before the transaction that creates it has committed.
    #[cold]
    pub(in crate::env) fn not_yet(&self) -> Error {
        Error::new(
            ErrorKind::NotAllowed,
            format!(
                "the database {:?} was created in a transaction that has not committed; until then, use it \
                 in that transaction",
                self.name
            ),
        )
    }
}

/// What a database is asked for as.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked<'a> {
    /// What it is to be an index of if it is made.
    pub(crate) index: Option<&'a IndexInfo>,
    /// The comparator that its keys are to be ordered by; none: whatever it has, and the order of bytes if it
    /// is made.
    pub(crate) comparator: Option<&'a str>,
    /// How its records are to be arranged if it is made; none: as the environment has it.
    pub(crate) method: Option<Method>,
    /// What it is to hold; if it is there and nothing is said of that, it may be more than plain records.
    pub(crate) holds: Holds,
    /// Whether nothing is to be logged of its records; if not, it may be so all the same.
    pub(crate) temporary: bool,
}

impl<'a> Asked<'a> {
    /// By a method.
    pub(crate) fn arranged_as(method: Method) -> Asked<'a> {
        Asked { method: Some(method), ..Asked::default() }
    }

    /// By a comparator.
    pub(crate) fn ordered_by(comparator: &'a str) -> Asked<'a> {
        Asked { comparator: Some(comparator), ..Asked::default() }
    }

    /// For a kind of records.
    pub(crate) fn to_hold(holds: Holds) -> Asked<'a> {
        Asked { holds, ..Asked::default() }
    }
}

/// A database, if it is arranged in this way.
pub(crate) fn arranged(named: Arc<Named>, method: Method) -> Result<Arc<Named>> {
    if named.method() == method {
        return Ok(named);
    }
    Err(Error::invalid(format!(
        "the database {:?} is a {}, and was asked for as a {method}",
        named.name,
        named.method()
    )))
}

/// The databases of an environment, in the order of their names.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    pub(crate) names: Vec<String>,
    /// What their methods are called.
    pub(crate) methods: Vec<String>,
    pub(crate) holds: Vec<Holds>,
    /// What those are that are indices, by name.
    pub(crate) indices: BTreeMap<String, IndexInfo>,
    /// The names of those that are temporary.
    pub(crate) temporary: Vec<String>,
}

/// What was found under a name.
#[derive(Debug)]
pub(in crate::env) struct KnownName {
    /// The LSN at which it was found.
    at: Lsn,
    named: Arc<Named>,
}

/// Databases by the names under which they were found.
#[derive(Debug, Default)]
pub(in crate::env) struct KnownNames {
    known: HashMap<String, KnownName>,
    /// Nothing in it was found before this.
    since: Lsn,
}

impl KnownNames {
    /// What was found under a name, if no name has been taken away since then.
    fn get(&self, name: &str, since: Lsn) -> Option<&Arc<Named>> {
        self.known.get(name).filter(|known| known.at >= since).map(|known| &known.named)
    }

    /// Keeps what was found under a name, `since` no name has been taken away.
    fn add(&mut self, name: &str, known: KnownName, since: Lsn) {
        // Not each time: a program that opens all of many databases would go through all that are open with
        // each.
        if since > self.since {
            self.known.retain(|_, known| known.at >= since);
            self.since = since;
        }
        self.known.insert(name.to_owned(), known);
    }

    #[cfg(test)]
    pub(in crate::env) fn forget(&mut self) {
        self.known.clear();
    }
}

/// The databases of an environment.
#[derive(Debug)]
pub(crate) struct Databases {
    upkeep: Upkeep,
    /// Databases opened so far, by name.
    names: Mutex<KnownNames>,
}

impl Deref for Databases {
    type Target = Upkeep;

    #[inline(always)]
    fn deref(&self) -> &Upkeep {
        &self.upkeep
    }
}

impl Databases {
    pub(in crate::env) fn new(upkeep: Upkeep) -> Databases {
        Databases { upkeep, names: Mutex::default() }
    }

    /// The tree of a database, if that is there.
    ///
    /// # Errors
    /// `NotFound` if it was removed, `NotAllowed` if a transaction is only just creating it; those of reading
    /// the catalog.
    #[inline]
    pub(crate) fn tree<'n>(&self, named: &'n Named) -> Result<&'n TreeRef> {
        if self.kernel.is_surely_there(&named.presence) { Ok(&named.tree) } else { self.tree_if_there(named) }
    }

    #[cold]
    fn tree_if_there<'n>(&self, named: &'n Named) -> Result<&'n TreeRef> {
        let mut named = named;
        loop {
            named = named.newest();
            if self.kernel.is_surely_there(&named.presence) {
                return Ok(&named.tree);
            }
            if matches!(named.presence.state(), PresenceState::New(_)) {
                return Err(named.not_yet());
            }
            match self.look_for(named)? {
                Looked::There => return Ok(&named.tree),
                Looked::Gone => return Err(named.gone()),
                Looked::Changed => {
                    // None: it has got another name since, or is gone, which the next look tells.
                    if let Some(newer) = self.read(|txn| txn.named_anew(named))? {
                        named.newer.get_or_init(|| newer);
                    }
                }
            }
        }
    }

    /// Looks whether a database is there in the newest state.
    pub(in crate::env) fn is_there(&self, named: &Named) -> Result<bool> {
        Ok(self.look_for(named)? != Looked::Gone)
    }

    /// Looks whether a database is there in the newest state, as it is known.
    fn look_for(&self, named: &Named) -> Result<Looked> {
        at_any_snapshot(|| {
            let seat = self.kernel.pages.sit_to_read()?;
            let pinned = self.kernel.pages.pinned(&seat);
            self.kernel.look_for(&named.tree, pinned.at(), &seat)
        })
    }

    /// The error of an operation on a database: if that was removed meanwhile, this is why.
    #[cold]
    pub(crate) fn explain(&self, named: &Named, error: Error) -> Error {
        match self.tree(named) {
            Err(gone) if gone.kind() == ErrorKind::NotFound => gone,
            _ => error,
        }
    }

    /// Opens a database if there is one of that name.
    pub(crate) fn database(&self, name: &str) -> Result<Option<Arc<Named>>> {
        self.kernel.pages.catch_up()?;
        match self.known(name) {
            Some(named) => Ok(Some(named)),
            None => self.read(|txn| txn.database(name)),
        }
    }

    /// Opens a database, or creates it as it is asked for.
    pub(crate) fn database_or_new(&self, name: &str, asked: Asked<'_>) -> Result<Arc<Named>> {
        match self.database(name)? {
            Some(named) => check_asked(&named, asked).map(|()| named),
            None => {
                self.check_writable()?;
                self.write(|txn| txn.database_or_new(name, asked))
            }
        }
    }

    /// What is known under a name.
    fn known(&self, name: &str) -> Option<Arc<Named>> {
        let since = self.kernel.names_since();
        lock(&self.names).get(name, since).map(Arc::clone)
    }

    /// The database of an entry that the catalog has under a name at a snapshot.
    pub(in crate::env) fn found(
        &self,
        name: &str,
        entry: &CatalogEntry,
        at: Lsn,
        view: &dyn View,
    ) -> Result<Arc<Named>> {
        if let Some(known) = self.known(name)
            && known.tree.id == entry.tree
            && known.tree.root == entry.root
            && known.presence.knows(entry)
        {
            return Ok(known);
        }
        let named = self.name(name, entry, Arc::new(seen_as(name, entry, at)), view)?;
        let since = self.kernel.names_since();
        if at >= since {
            lock(&self.names).add(name, KnownName { at, named: Arc::clone(&named) }, since);
        }
        Ok(named)
    }

    /// The database of a catalog entry.
    pub(in crate::env) fn name(
        &self,
        name: &str,
        entry: &CatalogEntry,
        presence: Arc<Presence>,
        view: &dyn View,
    ) -> Result<Arc<Named>> {
        entry.method(name.as_bytes())?;
        let comparator = entry.comparator.as_deref().map(|wanted| {
            self.comparator(wanted).map_err(|_| {
                Error::invalid(format!(
                    "the database {name:?} is ordered by the comparator {wanted:?}, which only a program \
                     can supply, under that name (Builder::comparator)"
                ))
            })
        });
        let plain = indices::plain(view, name, entry, comparator.transpose()?)?;
        let follower = indices::follower(&self.config.functions, view, name, entry)?;
        let tree =
            plain.with(|tree| (tree.presence, tree.follower) = (Some(Arc::clone(&presence)), follower));
        let index = entry.relations.index.clone().map(Arc::new);
        let (name, holds, newer) = (name.to_owned(), entry.holds, OnceLock::new());
        Ok(Arc::new(Named { name, tree, presence, holds, index, is_replica: false, newer }))
    }

    fn comparator(&self, name: &str) -> Result<Arc<Comparator>> {
        self.config.comparators.get(name).cloned().ok_or_else(|| {
            Error::invalid(format!(
                "there is no comparator {name:?}; supply it under that name when the environment is opened \
                 (Builder::comparator)"
            ))
        })
    }

    /// Makes an empty tree for a database, in a commit of its own. Nobody names it yet.
    pub(in crate::env) fn make_tree(
        &self,
        me: &LocalParticipant,
        name: &str,
        asked: Asked<'_>,
    ) -> Result<CatalogEntry> {
        asked.comparator.map(|comparator| self.comparator(comparator)).transpose()?;
        if asked.comparator.is_some_and(|comparator| comparator.len() > OPTION_BYTES_MAX) {
            return Err(Error::invalid(format!(
                "a name of a comparator with more than {OPTION_BYTES_MAX} bytes"
            )));
        }
        let method = method_for(name, asked, self.config.method)?;
        let seed = self.config.hash_seed.unwrap_or_else(|| {
            let mut seed = [0; SEED_BYTES];
            sablecat_os::random::bytes(&mut seed);
            seed
        });
        let tree = self.kernel.pages.new_tree_id();
        let volume = self
            .kernel
            .pages
            .volume()
            .map_or(VolumeId::MAIN, |volume| volume.superblock().placement.of_database(name));
        let entry = CatalogEntry {
            comparator: asked.comparator.map(str::to_owned),
            seed: method.hashes().then_some(Seed::of(seed)),
            holds: asked.holds,
            temporary: asked.temporary,
            ..CatalogEntry::new(tree, volume, method)
        };
        self.kernel.patiently(|| self.kernel.create_tree(me, entry.clone()))
    }

    /// Frees the pages of trees that have no name any more, or never got one. What cannot be freed now is
    /// when the environment is next opened afresh, or compacted by others once this process has ended: their
    /// notes stay.
    pub(in crate::env) fn free_trees<'e>(
        &self,
        me: &LocalParticipant,
        entries: impl IntoIterator<Item = &'e CatalogEntry>,
    ) {
        for entry in entries {
            let _ = self.kernel.free_tree(me, entry);
        }
    }

    /// Frees what removals and creations that were cut short have left. Nobody else is in the environment.
    ///
    /// What cannot be freed stays, and is tried again by the next opening: a database that was removed for
    /// being damaged, or that lies where the disk does not read, is to keep nobody from the others.
    pub(in crate::env) fn finish_drops(&self) -> Result<()> {
        let records = self.read(|txn| catalog::records(&mut txn.records.committed()))?;
        let seat = self.kernel.pages.participants.sit()?;
        for (_, note) in records.iter().filter(|(key, _)| !catalog::is_name(key)) {
            match self.kernel.free_tree(&seat, note) {
                Err(error) if error.kind() == ErrorKind::Poisoned => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// The names of all databases, in order.
    pub(crate) fn database_names(&self) -> Result<Vec<String>> {
        self.read(|txn| txn.database_names())
    }

    /// What there is to say of all databases.
    pub(crate) fn database_kinds(&self) -> Result<Kinds> {
        let records = self.read(|txn| catalog::records(&mut txn.records.committed()))?;
        let mut kinds = Kinds::default();
        for (key, entry) in records.into_iter().filter(|(key, _)| catalog::is_name(key)) {
            let name = String::from_utf8_lossy(&key).into_owned();
            kinds.methods.push(entry.method_name());
            kinds.holds.push(entry.holds);
            kinds.indices.extend(entry.relations.index.map(|index| (name.clone(), index)));
            kinds.temporary.extend(entry.temporary.then(|| name.clone()));
            kinds.names.push(name);
        }
        Ok(kinds)
    }

    /// Gives a database another name.
    pub(crate) fn rename_database(&self, from: &str, to: &str) -> Result<()> {
        self.write(|txn| txn.rename_database(from, to))
    }

    /// Removes a database and all its records. False if there was none.
    pub(crate) fn remove_database(&self, name: &str) -> Result<bool> {
        self.write(|txn| txn.remove_database(name))
    }

    /// Reads at a snapshot.
    pub(in crate::env) fn read<T>(&self, mut work: impl FnMut(&mut EnvTxn<'_>) -> Result<T>) -> Result<T> {
        at_any_snapshot(|| work(&mut EnvTxn::begin(self, self.own_options(true))?))
    }

    /// Runs `work` in a transaction of its own, again when others get in its way.
    pub(in crate::env) fn write<T>(&self, work: impl FnMut(&mut EnvTxn<'_>) -> Result<T>) -> Result<T> {
        let options = self.own_options(false);
        EnvTxn::begin(self, options)?.run(options.durability, work)
    }

    /// The same with a durability of its own, for callers that may be within a transaction that has the
    /// environment to itself.
    pub(crate) fn write_beside<T>(
        &self,
        durability: Durability,
        work: impl FnMut(&mut EnvTxn<'_>) -> Result<T>,
    ) -> Result<T> {
        let own = self.own_options(false);
        let durability = if self.kernel.log.keeps_records() { durability } else { own.durability };
        EnvTxn::begin(self, own)?.run(durability, work)
    }

    fn own_options(&self, read_only: bool) -> Options {
        let durability =
            if self.kernel.log.keeps_records() { self.config.durability } else { Durability::Memory };
        Options { isolation: Isolation::Snapshot, durability, read_only, patience: self.config.lock_timeout }
    }
}

/// Looks at the catalog again when the snapshot was given up for want of cache: any other does as well.
fn at_any_snapshot<T>(mut look: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match look() {
            Err(error) if error.kind() == ErrorKind::SnapshotTooOld => {}
            seen => return seen,
        }
    }
}

/// The method of a new database: the one asked for, if what it is to hold can be arranged so; else the one
/// for what it is to hold, or the environment's.
fn method_for(name: &str, asked: Asked<'_>, otherwise: Method) -> Result<Method> {
    let holds = asked.holds;
    holds.check()?;
    let refused = |of: &str, why: &str| {
        Error::invalid(format!("the database {name:?} as {of}, to hold {holds}: {why}"))
    };
    if let (true, Some(comparator)) = (holds != Holds::Records, asked.comparator) {
        let of = format!("one ordered by the comparator {comparator:?}");
        return Err(refused(&of, "comparators are for plain records"));
    }
    let Some(method) = asked.method else {
        let method = holds.method().unwrap_or(otherwise);
        let ordered = holds.needs_order() || asked.comparator.is_some();
        let suits = !ordered || method.takes_any_order();
        return Ok(if suits { method } else { Method::default() });
    };
    let of = method.with_article();
    if let (Some(_), Some(why)) = (asked.comparator, method.refuses_comparators()) {
        return Err(Error::invalid(format!(
            "a comparator for the database {name:?}, which would be {of}: {why}"
        )));
    }
    if let Some(only) = holds.method().filter(|&only| only != method) {
        return Err(refused(&of, &format!("these are in a {only}")));
    }
    if let (Holds::Queue { .. }, Some(why)) = (holds, method.refuses_queues()) {
        return Err(refused(&of, why));
    }
    if holds.needs_order() && method.hashes() {
        return Err(refused(&of, "these are in the order of their keys, which a hash table does not keep"));
    }
    Ok(method)
}

/// Refuses a database that has another order, or holds other records, than was asked for, or is durable and
/// was to be temporary.
pub(in crate::env) fn check_asked(named: &Named, asked: Asked<'_>) -> Result<()> {
    check_holds(&named.name, named.holds, asked.holds)?;
    if asked.temporary && !named.is_temporary() {
        return Err(Error::invalid(format!(
            "the database {:?} is durable, and was asked for as temporary",
            named.name
        )));
    }
    let wanted = asked.comparator;
    let has = named.comparator();
    if wanted.is_none() || wanted == has {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the database {:?} is ordered {}, and was asked for as ordered by the comparator {:?}",
        named.name,
        has.map_or("by bytes".to_owned(), |has| format!("by the comparator {has:?}")),
        wanted.unwrap_or_default()
    )))
}

/// What is known of a database that an entry was found for under a name.
pub(in crate::env) fn seen_as(name: &str, entry: &CatalogEntry, at: Lsn) -> Presence {
    Presence::seen_at(at).knowing(KnownDatabase::of(name, entry))
}

/// Refuses a database that holds something else than what it is to be used as.
pub(crate) fn check_holds(name: &str, holds: Holds, wanted: Holds) -> Result<()> {
    if holds.serves_as(wanted) {
        return Ok(());
    }
    Err(Error::invalid(format!("the database {name:?} holds {holds}, and was asked for as one of {wanted}")))
}
