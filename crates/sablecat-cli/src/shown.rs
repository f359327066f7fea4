//! A database as `get` and `scan` show it: by what it holds, and without what has expired.

use std::ops::Bound;

use sablecat::globals::{Globals, parts};
use sablecat::{
    Database, Env, Expiring, Holds, Index, KeyRange, MultiMap, Numbered, Prefix, Queue, Read, ReadTxn, Result,
};

use crate::naming::{Name, Names, Spelling};
use crate::{Failure, interrupt};

/// Bytes of a value in memory at once.
const PART_BYTES: usize = 1 << 20;

/// A part of a value: so many bytes from an offset on, or as many as there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub(crate) at: u64,
    pub(crate) len: u64,
}

/// Records in order, from either end.
pub(crate) type Ordered<'s> = Box<dyn DoubleEndedIterator<Item = Result<(Name, Vec<u8>)>> + 's>;

/// A database, in one state.
#[derive(Debug)]
pub(crate) struct Shown<S = ReadTxn> {
    state: S,
    database: Database,
    kind: Kind,
}

/// It by what it holds.
#[derive(Debug)]
enum Kind {
    Records,
    Expiring(Expiring),
    Values(MultiMap),
    /// Index keys, and for each the keys of the records that have it.
    Index(Index),
    Queue(Queue),
    Numbers(Numbered),
    Globals(Globals),
}

impl Shown {
    /// In the newest state.
    pub(crate) fn new(database: Database) -> Result<Shown> {
        Shown::within(database.env().snapshot()?, database)
    }
}

impl<S: Read<Of = Env>> Shown<S> {
    /// As it is in this state.
    pub(crate) fn within(state: S, database: Database) -> Result<Shown<S>> {
        let own = database.clone();
        let kind = match database.holds() {
            Holds::Values(order) => Kind::Values(MultiMap::of(own, order)?),
            Holds::Queue { .. } => Kind::Queue(Queue::of(own)?),
            Holds::Numbers { .. } | Holds::Renumbered { .. } => Kind::Numbers(Numbered::of(own)?),
            Holds::Globals => Kind::Globals(Globals::of(own)?),
            Holds::Expiring => Kind::Expiring(Expiring::of(&state, &database)?),
            _ if database.index_of().is_some() => {
                Index::existing(&state, database.name())?.map_or(Kind::Records, Kind::Index)
            }
            _ => Kind::Records,
        };
        Ok(Shown { state, database, kind })
    }

    /// What an argument names in it.
    pub(crate) fn name(&self, text: &str, spelling: Spelling) -> std::result::Result<Name, Failure> {
        Name::of(&self.database, text, spelling)
    }

    /// Whether there may be several values for a key.
    pub(crate) fn has_several(&self) -> bool {
        matches!(self.kind, Kind::Values(_) | Kind::Index(_))
    }

    /// How many records a part of it has. Reads a page for all records of that page, and of a database that
    /// counts its records a page a level.
    pub(crate) fn count(&self, part: &Names) -> std::result::Result<u64, Failure> {
        match (&self.kind, part) {
            (Kind::Queue(queue), Names::Between(Bound::Unbounded, Bound::Unbounded)) => {
                Ok(queue.len(&self.state)?)
            }
            (Kind::Records, Names::BeginningWith(Name::Key(prefix))) => {
                Ok(self.state.count(&self.database, Prefix(prefix))?)
            }
            (Kind::Records | Kind::Globals(_), Names::Between(from, to)) => {
                let keys = (self.bound(from.as_ref())?, self.bound(to.as_ref())?);
                Ok(self.state.count(&self.database, keys)?)
            }
            _ => self.records(part)?.try_fold(0, |records, record| {
                interrupt::check()?;
                record?;
                Ok(records + 1)
            }),
        }
    }

    /// The records of a part of it.
    pub(crate) fn records(&self, part: &Names) -> std::result::Result<Ordered<'_>, Failure> {
        match part {
            Names::Between(from, to) => self.range(from.as_ref(), to.as_ref()),
            Names::BeginningWith(name) => self.beginning_with(name),
        }
    }

    /// The values of a key.
    pub(crate) fn values(&self, key: &Name) -> std::result::Result<Vec<Vec<u8>>, Failure> {
        let found = self.range(Bound::Included(key), Bound::Included(key))?;
        Ok(found.map(|one| one.map(|(_, value)| value)).collect::<Result<_>>()?)
    }

    /// The value, where there is one at most.
    pub(crate) fn get(&self, name: &Name) -> Result<Option<Vec<u8>>> {
        match (&self.kind, name) {
            (Kind::Queue(queue), Name::Number(number)) => queue.get(&self.state, *number),
            (Kind::Numbers(numbers), Name::Number(number)) => numbers.get(&self.state, *number),
            (Kind::Expiring(expiring), Name::Key(key)) => expiring.get(&self.state, key),
            _ => self.state.get(&self.database, self.key(name)?),
        }
    }

    /// Shows a stretch of the value a part at a time, so that it need not fit in memory where it is stored
    /// under its own key. The length of the whole value; none if there is none.
    pub(crate) fn each_part(
        &self,
        name: &Name,
        stretch: Stretch,
        mut each: impl FnMut(&[u8]) -> std::result::Result<(), Failure>,
    ) -> std::result::Result<Option<u64>, Failure> {
        if let Name::Number(_) = name {
            let record = self.get(name)?;
            record.iter().try_for_each(|record| each(record))?;
            return Ok(record.map(|record| record.len() as u64));
        }
        let key = self.key(name)?;
        let len = match &self.kind {
            Kind::Expiring(expiring) => expiring.value_len(&self.state, &key)?,
            _ => self.state.value_len(&self.database, &key)?,
        };
        let Some(len) = len else { return Ok(None) };
        let end = len.min(stretch.at.saturating_add(stretch.len));
        let mut offset = end.min(stretch.at);
        let mut part = vec![0; PART_BYTES.min((end - offset) as usize)];
        while offset < end {
            let into = &mut part[..PART_BYTES.min((end - offset) as usize)];
            let read = match &self.kind {
                Kind::Expiring(expiring) => expiring.read_at(&self.state, &key, offset, into)?,
                _ => self.state.read_at(&self.database, &key, offset, into)?,
            };
            let read = read.unwrap_or_default();
            each(&part[..read])?;
            offset += read as u64;
        }
        Ok(Some(len))
    }

    /// An error if stretches of its values cannot be read.
    pub(crate) fn require_stretches(&self) -> std::result::Result<(), Failure> {
        match self.kind {
            Kind::Records | Kind::Expiring(_) | Kind::Globals(_) => Ok(()),
            _ => Err(format!(
                "a part of a value of {}: the database holds {}; --at and --len are only for plain records, \
                 records that expire and nodes of globals",
                self.database.name(),
                self.database.holds()
            )
            .into()),
        }
    }

    /// What tells in milliseconds since 1970 from when on a record is gone; none if it is there for good.
    pub(crate) fn expires(&self, name: &Name) -> Result<Option<u64>> {
        let (Kind::Expiring(expiring), Name::Key(key)) = (&self.kind, name) else { return Ok(None) };
        Ok(expiring.lifetime(&self.state, key)?.and_then(crate::lifetime::expires))
    }

    /// The records from one on to another.
    pub(crate) fn range(
        &self,
        from: Bound<&Name>,
        to: Bound<&Name>,
    ) -> std::result::Result<Ordered<'_>, Failure> {
        let number =
            |bound: Bound<&Name>| bound.map(|name| if let Name::Number(number) = name { *number } else { 0 });
        let numbers = (number(from), number(to));
        match &self.kind {
            Kind::Queue(queue) => Ok(numbered(queue.range(&self.state, numbers)?)),
            Kind::Numbers(records) => Ok(numbered(records.range(&self.state, numbers)?)),
            _ => self.of_keys((self.bound(from)?, self.bound(to)?)),
        }
    }

    /// The records whose keys begin with this one; a node and its descendants.
    pub(crate) fn beginning_with(&self, name: &Name) -> std::result::Result<Ordered<'_>, Failure> {
        match (&self.kind, name) {
            (Kind::Globals(globals), Name::Node(reference)) => {
                let nodes = globals.node(reference)?.nodes(&self.state)?;
                Ok(Box::new(
                    nodes.map(|node| node.map(|(node, value)| (Name::Node(node.to_string()), value))),
                ))
            }
            (_, Name::Key(prefix)) => self.of_keys(Prefix(prefix)),
            _ => Err(format!(
                "records of {} by the beginnings of their numbers: the database holds {}; use --from and \
                 --to",
                self.database.name(),
                self.database.holds()
            )
            .into()),
        }
    }

    fn of_keys(&self, keys: impl KeyRange) -> std::result::Result<Ordered<'_>, Failure> {
        Ok(match &self.kind {
            Kind::Expiring(expiring) => keyed(expiring.range(&self.state, keys)?),
            Kind::Values(values) => keyed(values.range(&self.state, keys)?),
            Kind::Index(index) => keyed(index.keys(&self.state, keys)?),
            Kind::Globals(globals) => Box::new(self.state.range(&self.database, keys)?.map(|record| {
                let (key, value) = record?;
                let (global, subscripts) = parts(&key)?;
                let node = subscripts.into_iter().fold(globals.global(global)?, |node, one| node.at(one));
                Ok((Name::Node(node.to_string()), value))
            })),
            _ => keyed(self.state.range(&self.database, keys)?),
        })
    }

    /// A bound as bytes.
    pub(crate) fn bound(&self, name: Bound<&Name>) -> Result<Bound<Vec<u8>>> {
        Ok(match name {
            Bound::Included(name) => Bound::Included(self.key(name)?),
            Bound::Excluded(name) => Bound::Excluded(self.key(name)?),
            Bound::Unbounded => Bound::Unbounded,
        })
    }

    /// The bytes in the order of which records are.
    pub(crate) fn key(&self, name: &Name) -> Result<Vec<u8>> {
        Ok(match (&self.kind, name) {
            (Kind::Globals(globals), Name::Node(reference)) => globals.node(reference)?.key().to_vec(),
            (_, Name::Node(reference)) => reference.clone().into_bytes(),
            (_, Name::Key(key)) => key.clone(),
            (_, Name::Number(number)) => number.to_be_bytes().to_vec(),
        })
    }
}

fn keyed<'s>(records: impl DoubleEndedIterator<Item = Result<(Vec<u8>, Vec<u8>)>> + 's) -> Ordered<'s> {
    Box::new(records.map(|record| record.map(|(key, value)| (Name::Key(key), value))))
}

fn numbered<'s>(records: impl DoubleEndedIterator<Item = Result<(u64, Vec<u8>)>> + 's) -> Ordered<'s> {
    Box::new(records.map(|record| record.map(|(number, value)| (Name::Number(number), value))))
}
