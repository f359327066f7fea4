//! Globals: trees of nodes with subscripts, as GT.M and other systems of the language M (ANSI X11.1) have
//! them.
//!
//! A global has a name. Its nodes are reached by subscripts, any number of them, numbers or texts; each node
//! may have a value, children, or both, and exists once it or a descendant of it is set. What M writes as
//! `^acct(42,"name")` is the node `acct.at(42).at("name")` here.
//!
//! ```
//! use sablecat::globals::Globals;
//!
//! # fn main() -> sablecat::Result<()> {
//! let env = sablecat::Env::in_memory()?;
//! let globals = Globals::open(&env, "globals")?;
//! let acct = globals.global("acct")?;
//!
//! env.write(|txn| {
//!     acct.at(42).set(txn, "gold")?; // a node with a value and children
//!     acct.at(42).at("name").set(txn, "Ada")?;
//!     acct.at(7).at("name").set(txn, "Grace")?;
//!     acct.at(42).at("visits").increment(txn, 1)?;
//!     Ok(())
//! })?;
//!
//! assert_eq!(acct.at(42).at("name").get(&env)?.as_deref(), Some(&b"Ada"[..]));
//! let mut children = acct.children(&env);
//! assert_eq!(children.next().transpose()?.map(|node| node.to_string()).as_deref(), Some("^acct(7)"));
//! assert_eq!(children.next().transpose()?.map(|node| node.to_string()).as_deref(), Some("^acct(42)"));
//! # Ok(())
//! # }
//! ```
//!
//! | M | here |
//! |---|---|
//! | `^a(1)`, `SET ^a(1)=x` | [`Node::get`], [`Node::set`] |
//! | `KILL ^a(1)`, `ZKILL ^a(1)` | [`Node::kill`], [`Node::kill_value`] |
//! | `$DATA(^a(1))` | [`Node::data`] |
//! | `$ORDER(^a(1))`, `$ORDER(^a(1),-1)` | [`Node::next_sibling`], [`Node::previous_sibling`] |
//! | `$ORDER(^a(1,""))`, and all of them | [`Node::first_child`], [`Node::last_child`], [`Node::children`] |
//! | `$QUERY(^a(1))`, `$QUERY(^a(1),-1)`, and all of them | [`Node::next`], [`Node::previous`], [`Node::nodes`] |
//! | `$INCREMENT(^a(1),x)` | [`Node::increment`] |
//! | `MERGE ^a(1)=^b` | [`Node::merge`] |
//! | `LOCK +^a(1)`, `LOCK +^a(1):5`, `LOCK -^a(1)`, `LOCK` | [`Node::lock`], [`Node::lock_within`], [`Node::unlock`], [`Locker::unlock_all`](crate::Locker::unlock_all) |
//! | `MUPIP EXTRACT`, `MUPIP LOAD`, of ZWR format | [`Globals::export`], [`Globals::import`] |
//!
//! All the nodes of [`Globals`] are the records of one database, in any state that can be read and
//! transaction that can be written to; what is set in one transaction is set together. Keys are made so that
//! their bytes sort as M's subscripts do (its standard collation: the empty text, numbers by value, texts by
//! their bytes), a node before its descendants and these before its next sibling. So a subtree is one range
//! of keys. A name takes its bytes and one; a text subscript its bytes and two; a number one byte for each
//! two digits, and three.

mod lock;
mod number;
mod subscript;
#[cfg(test)]
mod tests;
mod text;
mod walk;
mod zwr;

pub use number::Number;
pub use subscript::Subscript;
pub(crate) use subscript::subscripts_of;
pub use walk::{Children, Nodes};

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::error::{Error, Result};
use crate::{Database, Env, Holds, Kind, Read, Write};

/// The globals that one database holds: of an environment, or of a [`DataStore`](crate::DataStore).
#[derive(Debug)]
pub struct Globals<K: Kind = Env> {
    database: Database<K>,
}

impl<K: Kind> Clone for Globals<K> {
    fn clone(&self) -> Self {
        Globals { database: self.database.clone() }
    }
}

impl Globals {
    /// The globals in the database of this name, which is created if there is none.
    ///
    /// # Errors
    /// As [`Env::database`]; `Invalid` for a database that holds something else.
    pub fn open(env: &Env, database: &str) -> Result<Globals> {
        Globals::of(env.database_holding(database, Holds::Globals)?)
    }
}

impl<K: Kind> Globals<K> {
    /// The globals in a database, which holds nothing else.
    ///
    /// # Errors
    /// `Invalid` for a database that holds something else, one with an order of its own, or a hash table.
    pub fn of(database: Database<K>) -> Result<Globals<K>> {
        database.require_holds(Holds::Globals)?;
        database.require_order_of_bytes("globals")?;
        Ok(Globals { database })
    }

    /// The database that the nodes are in.
    pub fn database(&self) -> &Database<K> {
        &self.database
    }

    /// The global of this name: the node that all its others are descendants of. A name has a letter or `%`
    /// first, then letters and digits, 31 bytes at most.
    ///
    /// # Errors
    /// `Invalid` for another name.
    pub fn global(&self, name: &str) -> Result<Node<'_, K>> {
        Ok(Node { globals: self, key: subscript::key_of(name)? })
    }

    /// Removes all globals.
    ///
    /// # Errors
    /// As [`Write::clear`].
    pub fn clear(&self, to: &mut impl Write<Of = K>) -> Result<()> {
        to.clear(&self.database).map(drop)
    }
}

/// The name of the global and the subscripts, from that on, of the node that a key of the database is of
/// ([`Node::key`]).
///
/// ```
/// use sablecat::globals::{Globals, parts};
///
/// # fn main() -> sablecat::Result<()> {
/// # let env = sablecat::Env::in_memory()?;
/// let globals = Globals::open(&env, "globals")?;
/// let node = globals.global("acct")?.at(42).at("name");
/// assert_eq!(parts(node.key())?, ("acct", vec![42.into(), "name".into()]));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `Invalid` for a key that no node has.
pub fn parts(key: &[u8]) -> Result<(&str, Vec<Subscript<'static>>)> {
    subscript::parts_of(key)
}

/// What a node has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Data {
    /// Whether it has a value.
    pub value: bool,
    /// Whether it has children.
    pub children: bool,
}

/// A node of a global: the global itself, or the node at some subscripts. It need not exist.
///
/// Nodes sort as their keys do: by the names of their globals, then by subscripts, each before its
/// descendants.
pub struct Node<'g, K: Kind = Env> {
    globals: &'g Globals<K>,
    key: Vec<u8>,
}

impl<'g, K: Kind> Node<'g, K> {
    /// The child with this subscript.
    #[must_use]
    pub fn at<'s>(&self, subscript: impl Into<Subscript<'s>>) -> Node<'g, K> {
        let mut key = self.key.clone();
        subscript.into().encode(&mut key);
        Node { globals: self.globals, key }
    }

    /// The name of its global.
    ///
    /// # Errors
    /// `Invalid` if the node was found in a database that holds something else than globals.
    pub fn name(&self) -> Result<&str> {
        subscript::parts_of(&self.key).map(|(name, _)| name)
    }

    /// Its subscripts, from the global on.
    ///
    /// # Errors
    /// As [`Node::name`].
    pub fn subscripts(&self) -> Result<Vec<Subscript<'static>>> {
        subscript::parts_of(&self.key).map(|(_, subscripts)| subscripts)
    }

    /// The node that it is a child of; none of a global.
    ///
    /// # Errors
    /// As [`Node::name`].
    pub fn parent(&self) -> Result<Option<Node<'g, K>>> {
        let (name, mut subscripts) = subscript::parts_of(&self.key)?;
        if subscripts.pop().is_none() {
            return Ok(None);
        }
        let global = self.globals.global(name)?;
        Ok(Some(subscripts.into_iter().fold(global, |node, subscript| node.at(subscript))))
    }

    /// Whether it is this node or a descendant of it.
    fn is_of(&self, node: &Node<'_, K>) -> bool {
        self.key.starts_with(&node.key) && self.key < above(&node.key)
    }

    /// Its key in the database: to lock the record, or to wait for a change of it.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Its value.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn get(&self, from: &impl Read<Of = K>) -> Result<Option<Vec<u8>>> {
        from.get(&self.globals.database, &self.key)
    }

    /// Sets its value.
    ///
    /// # Errors
    /// As [`Write::insert`].
    pub fn set(&self, to: &mut impl Write<Of = K>, value: impl AsRef<[u8]>) -> Result<()> {
        to.insert(&self.globals.database, &self.key, value).map(drop)
    }

    /// Whether it has a value, and whether it has children.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn data(&self, from: &impl Read<Of = K>) -> Result<Data> {
        let value = from.contains_key(&self.globals.database, &self.key)?;
        Ok(Data { value, children: self.first_child(from)?.is_some() })
    }

    /// Removes it, with its value and all its descendants.
    ///
    /// # Errors
    /// As [`Write::remove_range`].
    pub fn kill(&self, to: &mut impl Write<Of = K>) -> Result<()> {
        to.remove_range(&self.globals.database, self.key.clone()..above(&self.key)).map(drop)
    }

    /// Removes its value, and leaves its descendants.
    ///
    /// # Errors
    /// As [`Write::remove`].
    pub fn kill_value(&self, to: &mut impl Write<Of = K>) -> Result<()> {
        to.remove(&self.globals.database, &self.key).map(drop)
    }

    /// Adds to its value, which is taken for [a number](Number::of_text), 0 if there is none; returns the
    /// sum, which is its value then.
    ///
    /// # Errors
    /// `Invalid` if the sum is too large for a number; as [`Write::insert`].
    pub fn increment(&self, to: &mut impl Write<Of = K>, by: impl Into<Number>) -> Result<Number> {
        let before = self.get(to)?.map_or(Number::ZERO, |value| Number::of_text(&value));
        let sum = before.plus(by.into())?;
        self.set(to, sum.to_string())?;
        Ok(sum)
    }

    /// Copies another node into it: its value, if it has one, and all its descendants. Other values and
    /// descendants of this node stay.
    ///
    /// # Errors
    /// `Invalid` if one of the two is a descendant of the other; as [`Read::range`] and [`Write::insert`].
    pub fn merge(&self, to: &mut impl Write<Of = K>, from: &Node<'_, K>) -> Result<()> {
        // By whatever names the handles were opened.
        let same_globals = self.globals.database.is_same(&from.globals.database);
        if same_globals && (self.is_of(from) || from.is_of(self)) {
            return if self.key == from.key { Ok(()) } else { Err(within(from, self)) };
        }
        let end = above(&from.key);
        let mut cursor = from.globals.database.cursor();
        let mut found = cursor.at_or_after(to, &from.key)?;
        while let Some(key) = found.filter(|key| *key < &end[..]) {
            let key = [&self.key, &key[from.key.len()..]].concat();
            if let Some(value) = cursor.value(to)?.map(<[u8]>::to_vec) {
                to.insert(&self.globals.database, key, value)?;
            }
            found = cursor.next(to)?;
        }
        Ok(())
    }
}

/// Above the keys of a node and its descendants, and not above that of what comes after them: a subscript
/// begins with no such byte. A key may begin with another's without being of a descendant, where a text goes
/// on after a zero byte.
fn above(key: &[u8]) -> Vec<u8> {
    [key, &[subscript::ESCAPE]].concat()
}

/// The error of merging a node into one that it is above or below.
#[cold]
fn within<K: Kind>(from: &Node<'_, K>, into: &Node<'_, K>) -> Error {
    Error::invalid(format!("merging {from} into {into}: one of them is a descendant of the other"))
}

impl<K: Kind> Clone for Node<'_, K> {
    fn clone(&self) -> Self {
        Node { globals: self.globals, key: self.key.clone() }
    }
}

impl<K: Kind> PartialEq for Node<'_, K> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<K: Kind> Eq for Node<'_, K> {}

impl<K: Kind> PartialOrd for Node<'_, K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: Kind> Ord for Node<'_, K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl<K: Kind> Hash for Node<'_, K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
    }
}

/// As M refers to it: `^acct(42,"name")`. [`Globals::node`] reads it again.
impl<K: Kind> fmt::Display for Node<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok((name, subscripts)) = parts(&self.key) else {
            return write!(f, "{}", self.key.escape_ascii());
        };
        write!(f, "^{name}")?;
        for (n, subscript) in subscripts.iter().enumerate() {
            write!(f, "{}{subscript}", if n == 0 { '(' } else { ',' })?;
        }
        if subscripts.is_empty() { Ok(()) } else { f.write_str(")") }
    }
}

impl<K: Kind> fmt::Debug for Node<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
