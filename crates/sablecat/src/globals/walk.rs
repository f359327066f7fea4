//! From node to node: siblings, children, and the whole tree.

use super::subscript::{end_of, last_begins, name_end};
use super::{Globals, Node, above};
use crate::error::Result;
use crate::{Cursor, Kind, Read, Record};

impl<K: Kind> Globals<K> {
    /// All globals, in the order of their names.
    pub fn all<'g, 's, S: Read<Of = K>>(&'g self, from: &'s S) -> Children<'g, 's, S> {
        Children::new(self, from, Vec::new())
    }
}

impl<'g, K: Kind> Node<'g, K> {
    /// Its children, including those without a value, in order and from either end. Each is looked up in the
    /// state as it is then: nodes may be set and killed meanwhile.
    pub fn children<'s, S: Read<Of = K>>(&self, from: &'s S) -> Children<'g, 's, S> {
        Children::new(self.globals, from, self.key.clone())
    }

    /// Its first child.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn first_child(&self, from: &impl Read<Of = K>) -> Result<Option<Node<'g, K>>> {
        self.children(from).next().transpose()
    }

    /// Its last child.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn last_child(&self, from: &impl Read<Of = K>) -> Result<Option<Node<'g, K>>> {
        self.children(from).next_back().transpose()
    }

    /// The next child of the same parent, whether or not this one exists; of a global, the next global.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn next_sibling(&self, from: &impl Read<Of = K>) -> Result<Option<Node<'g, K>>> {
        let siblings = Children::new(self.globals, from, self.parent_key().to_vec());
        Children { low: above(&self.key), ..siblings }.next().transpose()
    }

    /// The child of the same parent before this one, whether or not this one exists; of a global, the global
    /// before it.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn previous_sibling(&self, from: &impl Read<Of = K>) -> Result<Option<Node<'g, K>>> {
        let siblings = Children::new(self.globals, from, self.parent_key().to_vec());
        Children { high: self.key.clone(), ..siblings }.next_back().transpose()
    }

    /// The next node of the same global that has a value, whether or not this one exists: the first of its
    /// descendants, or what comes after them.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn next(&self, from: &impl Read<Of = K>) -> Result<Option<Node<'g, K>>> {
        let mut cursor = self.globals.database.cursor();
        let next = [&self.key[..], &[0]].concat();
        let found = cursor.at_or_after(from, next)?;
        Ok(found.and_then(|key| self.of_same_global(key)))
    }

    /// The node of the same global before this one that has a value, whether or not this one exists.
    ///
    /// # Errors
    /// As [`Read::get`].
    pub fn previous(&self, from: &impl Read<Of = K>) -> Result<Option<Node<'g, K>>> {
        let mut cursor = self.globals.database.cursor();
        Ok(cursor.below(from, &self.key)?.and_then(|key| self.of_same_global(key)))
    }

    /// The node itself and all its descendants that have a value, with it, in order and from either end.
    ///
    /// # Errors
    /// As [`Read::range`].
    pub fn nodes<'s, S: Read<Of = K>>(&self, from: &'s S) -> Result<Nodes<'g, 's, S>> {
        let range = from.range(&self.globals.database, self.key.clone()..above(&self.key))?;
        Ok(Nodes { globals: self.globals, range })
    }

    /// The key of the node that this is a child of; nothing, of a global.
    fn parent_key(&self) -> &[u8] {
        &self.key[..last_begins(&self.key)]
    }

    fn of_same_global(&self, key: &[u8]) -> Option<Node<'g, K>> {
        let global = &self.key[..name_end(&self.key)];
        key.starts_with(global).then(|| Node { globals: self.globals, key: key.to_vec() })
    }
}

/// Children of a node, or globals: see [`Node::children`], [`Globals::all`]. After an error it is at its end.
#[derive(Debug)]
pub struct Children<'g, 's, S: Read> {
    globals: &'g Globals<S::Of>,
    from: &'s S,
    cursor: Cursor<S::Of>,
    /// Of whom they are children: how much of their keys is its.
    parent: Vec<u8>,
    /// Those left have keys from this one on,
    low: Vec<u8>,
    /// and below this one.
    high: Vec<u8>,
}

impl<'g, 's, S: Read> Children<'g, 's, S> {
    fn new(globals: &'g Globals<S::Of>, from: &'s S, parent: Vec<u8>) -> Self {
        let low = [&parent[..], &[0]].concat();
        Children { globals, from, cursor: globals.database.cursor(), low, high: above(&parent), parent }
    }

    /// The child that a key is of, or of whose descendants, if there are any left.
    fn child(&self, key: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let mut key = key.filter(|key| *key >= self.low && *key < self.high)?;
        key.truncate(if self.parent.is_empty() { name_end(&key) } else { end_of(&key, self.parent.len()) });
        Some(key)
    }

    fn end(&mut self) {
        self.low.clone_from(&self.high);
    }

    fn give(&mut self, found: Result<Option<Vec<u8>>>) -> Option<Result<Node<'g, S::Of>>> {
        let globals = self.globals;
        match found {
            Ok(Some(key)) => Some(Ok(Node { globals, key })),
            Ok(None) => {
                self.end();
                None
            }
            Err(error) => {
                self.end();
                Some(Err(error))
            }
        }
    }
}

impl<'g, S: Read> Iterator for Children<'g, '_, S> {
    type Item = Result<Node<'g, S::Of>>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.cursor.at_or_after(self.from, &self.low).map(|key| key.map(<[u8]>::to_vec));
        let child = found.map(|key| self.child(key));
        if let Ok(Some(key)) = &child {
            self.low = above(key);
        }
        self.give(child)
    }
}

impl<S: Read> DoubleEndedIterator for Children<'_, '_, S> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let found = self.cursor.below(self.from, &self.high).map(|key| key.map(<[u8]>::to_vec));
        let child = found.map(|key| self.child(key));
        if let Ok(Some(key)) = &child {
            self.high.clone_from(key);
        }
        self.give(child)
    }
}

/// Nodes that have a value, with it: see [`Node::nodes`].
#[derive(Debug)]
pub struct Nodes<'g, 's, S: Read + 's> {
    globals: &'g Globals<S::Of>,
    range: crate::Range<S::Lasting<'s>>,
}

impl<'g, 's, S: Read + 's> Nodes<'g, 's, S> {
    fn node(&self, record: Result<Record>) -> Result<(Node<'g, S::Of>, Vec<u8>)> {
        record.map(|(key, value)| (Node { globals: self.globals, key }, value))
    }
}

impl<'g, 's, S: Read + 's> Iterator for Nodes<'g, 's, S> {
    type Item = Result<(Node<'g, S::Of>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.range.next()?;
        Some(self.node(record))
    }
}

impl<'s, S: Read + 's> DoubleEndedIterator for Nodes<'_, 's, S> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let record = self.range.next_back()?;
        Some(self.node(record))
    }
}
