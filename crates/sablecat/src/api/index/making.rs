//! Making and opening indices.

use std::sync::Arc;

use super::super::data_store::index_of_store;
use super::super::{DataStore, Database, Env, Kind, Read, Txn, TxnOptions};
use super::{Index, IndexOptions, LOOKS};
use crate::error::{Error, Result};
use crate::txn::Isolation;
use crate::types::TreeId;

impl<O: Kind> Index<O> {
    /// Opens an index if there is one of that name, whatever its primary.
    ///
    /// # Errors
    /// As [`Read::existing_database`]; `Invalid` if it is not an index.
    pub fn existing(from: &impl Read<Of = O>, name: &str) -> Result<Option<Index<O>>> {
        // Each look may be at another state: the primary may have got another name, or have gone with the
        // index and have been made again, between two of them.
        for _ in 0..LOOKS {
            let Some(entries) = from.existing_database(name)? else { return Ok(None) };
            let Some(info) = entries.named.index().map(Arc::clone) else {
                return Err(Error::invalid(format!("the database {name:?} is not an index")));
            };
            if let Some(primary) = from.existing_database(&info.primary)? {
                return Ok(Some(Index { entries, primary, info }));
            }
        }
        Err(Error::corruption(format!("the primary database of the index {name:?} is not there")))
    }

    /// The same as what was asked for.
    fn if_asked(self, of: &Database<O>, options: &IndexOptions) -> Result<Index<O>> {
        if self.primary.is_same(of) && *self.info == options.info(&self.info.primary) {
            return Ok(Index { primary: of.clone(), ..self });
        }
        Err(Error::invalid(format!(
            "the index {:?} was asked for as {:?}, and is {:?}",
            self.name(),
            options.info(of.name()),
            self.info
        )))
    }

    /// An index that was just made.
    pub(in crate::api) fn made(entries: Database<O>, of: &Database<O>, options: &IndexOptions) -> Index<O> {
        Index { entries, primary: of.clone(), info: Arc::new(options.info(of.name())) }
    }
}

impl Env {
    /// Opens an index of a database, creating it if there is no database of that name: see [`Index`]. If the
    /// database has records, the transaction that creates the index reads all of them and enters them into
    /// it. Transactions may write to other databases meanwhile. A transaction that writes to this one makes
    /// the creation run again; in the end such transactions wait.
    ///
    /// # Errors
    /// `Invalid` if there is another database of that name, or for an extractor or nullifier that was not
    /// registered, a database with a comparator, an index of an index, references from or to a queue, or a
    /// handle of a database that has another name by now; `Duplicate`, `Reference` if what records there are
    /// does not permit the index; as [`Env::write`].
    pub fn index(&self, name: &str, of: &Database, options: IndexOptions) -> Result<Index> {
        of.check_in(self)?;
        if let Some(index) = Index::existing(self, name)? {
            return index.if_asked(of, &options);
        }
        self.write_with(TxnOptions::new().isolation(Isolation::Snapshot), |txn| {
            match Index::existing(txn, name)? {
                Some(index) => index.if_asked(of, &options),
                None => txn.make_index(name, of, &options),
            }
        })
    }
}

impl Txn<'_> {
    /// Opens an index of a database, making it if there is no database of that name, as part of the
    /// transaction: see [`Env::index`]. The index includes what the transaction has changed in the records
    /// before, and what it changes in them from then on.
    ///
    /// # Errors
    /// As [`Env::index`]; then nothing was done. `NotAllowed` to make one in a read committed transaction.
    pub fn index(&mut self, name: &str, of: &Database, options: IndexOptions) -> Result<Index> {
        of.check_in(self.env())?;
        match Index::existing(self, name)? {
            Some(index) => index.if_asked(of, &options),
            None => self.nested(|txn| txn.make_index(name, of, &options)),
        }
    }

    fn make_index(&mut self, name: &str, of: &Database, options: &IndexOptions) -> Result<Index> {
        check_names(self, of, options)?;
        let entries = self.create_index(name, &options.info(of.name()))?;
        Ok(Index::made(entries, of, options))
    }
}

/// An error if what an index is to be of, or to refer to, has another name by now, by which the index would
/// not find it.
fn check_names<O: Kind>(from: &impl Read<Of = O>, of: &Database<O>, options: &IndexOptions) -> Result<()> {
    let check = |name: &str, tree: TreeId, what: &str| -> Result<()> {
        match from.existing_database(name)? {
            Some(found) if found.named.tree_id() == tree => Ok(()),
            _ => Err(Error::invalid(format!(
                "an index {what} the database {name:?}, which has been renamed or removed since; open it \
                 again"
            ))),
        }
    };
    check(of.name(), of.named.tree_id(), "of")?;
    options.referenced().map_or(Ok(()), |(name, tree)| check(name, tree, "that refers to"))
}

impl DataStore {
    /// Opens an index of a database, making it if there is no database of that name: see [`Env::index`].
    ///
    /// # Errors
    /// As [`Env::index`].
    pub fn index(
        &mut self,
        name: &str,
        of: &Database<DataStore>,
        options: IndexOptions,
    ) -> Result<Index<DataStore>> {
        match Index::existing(self, name)? {
            Some(index) => index.if_asked(of, &options),
            None => {
                check_names(self, of, &options)?;
                let entries = index_of_store(self, name, of, &options.info(of.name()))?;
                Ok(Index::made(entries, of, &options))
            }
        }
    }
}
