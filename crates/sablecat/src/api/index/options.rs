//! What an index is to be.

use super::super::{Database, Kind};
use crate::txn::{IndexInfo, OnRemove};
use crate::types::TreeId;

/// The properties that an index gets if it is created, and must have if it exists.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub struct IndexOptions {
    extractor: String,
    unique: bool,
    references: Option<(String, OnRemove)>,
    /// What the name stood for by which records are referred to.
    referenced: Option<TreeId>,
}

impl IndexOptions {
    /// An index kept by the extractor of this name: see
    /// [`Builder::extractor`](crate::Builder::extractor).
    pub fn new(extractor: impl Into<String>) -> IndexOptions {
        IndexOptions { extractor: extractor.into(), unique: false, references: None, referenced: None }
    }

    /// Whether no two records may have the same index key. Then setting a second record with the same index
    /// key is an error ([`Duplicate`](crate::ErrorKind::Duplicate)), and nothing is changed. Default: not
    /// unique.
    ///
    /// ```
    /// # use sablecat::{Env, ErrorKind, IndexOptions};
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = Env::builder().extractor("email", |_, value, keys| keys.push(value)).in_memory()?;
    /// let users = env.database("users")?;
    /// let by_email = env.index("users by email", &users, IndexOptions::new("email").unique(true))?;
    /// users.insert("ada", "ada@example.org")?;
    /// assert_eq!(users.insert("eve", "ada@example.org").unwrap_err().kind(), ErrorKind::Duplicate);
    /// assert_eq!(by_email.get(&env, "ada@example.org")?.unwrap().0, b"ada");
    /// # Ok(())
    /// # }
    /// ```
    pub fn unique(mut self, unique: bool) -> Self {
        self.unique = unique;
        self
    }

    /// Makes the index keys foreign keys: they must be keys of another database, or of the primary itself.
    /// Setting a record with an index key that is not there is an error
    /// ([`Reference`](crate::ErrorKind::Reference)); `on_remove` is what happens when a record that is
    /// referred to is removed. All of it is one transaction. Default: no references.
    ///
    /// ```
    /// # use sablecat::{Env, ErrorKind, IndexOptions, OnRemove};
    /// # fn main() -> sablecat::Result<()> {
    /// # let env = Env::builder().extractor("customer", |_, value, keys| keys.push(value)).in_memory()?;
    /// let (customers, orders) = (env.database("customers")?, env.database("orders")?);
    /// let options = IndexOptions::new("customer").references(&customers, OnRemove::Cascade);
    /// env.index("orders by customer", &orders, options)?;
    /// customers.insert("ada", "")?;
    /// orders.insert("1", "ada")?;
    /// assert_eq!(orders.insert("2", "eve").unwrap_err().kind(), ErrorKind::Reference);
    /// customers.remove("ada")?;
    /// assert!(orders.is_empty()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn references<K: Kind>(mut self, database: &Database<K>, on_remove: OnRemove) -> Self {
        self.references = Some((database.name().to_owned(), on_remove));
        self.referenced = Some(database.named.tree_id());
        self
    }

    /// The name by which records are referred to, and what it stood for.
    pub(super) fn referenced(&self) -> Option<(&str, TreeId)> {
        self.references.as_ref().map(|(name, _)| name.as_str()).zip(self.referenced)
    }

    pub(super) fn info(&self, primary: &str) -> IndexInfo {
        let mut info = IndexInfo::new(primary.to_owned(), self.extractor.clone(), self.unique);
        info.references.clone_from(&self.references);
        info
    }
}
