//! Databases by name, along the log.
//!
//! The log says trees by their numbers. A reader of it knows which name each has at the place that it has
//! come to: the catalog of some later state says the names of then, and every commit that takes one away says
//! which tree had it ([`catalog::former_key`](crate::txn::catalog::former_key)). So the names at the
//! beginning are those of the later state, but for the trees that lost one in between: of these the first one
//! that was lost. From there on each commit is followed.
//!
//! Of a tree that has no name at a commit nothing is said: it is being made, or is a list of the engine's
//! own.
//!
//! What a commit does about databases is put into an order in which it can be done one after the other. Where
//! names are exchanged in a circle, one is given another name in between.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use super::Change;
use crate::access::Method;
use crate::error::{Error, ErrorKind, Result};
use crate::log::LoggedCommit;
use crate::txn::catalog::{self, CatalogEntry, CatalogKey};
use crate::txn::{Holds, IndexInfo, Meaning};
use crate::types::TreeId;

/// What a database is made as.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::env) struct How {
    comparator: Option<String>,
    method: Method,
    holds: Holds,
    index: Option<IndexInfo>,
    temporary: bool,
}

/// What a commit does about one database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::env) enum Deed {
    Created { name: String, how: How },
    Renamed { from: String, to: String },
    Removed { name: String },
}

impl Deed {
    pub(super) fn as_change(&self) -> Change<'_> {
        match self {
            Deed::Created { name, how } => Change::CreateDatabase {
                name,
                comparator: how.comparator.as_deref(),
                method: how.method,
                holds: how.holds,
                index: how.index.as_ref(),
                temporary: how.temporary,
            },
            Deed::Renamed { from, to } => Change::RenameDatabase { from, to },
            Deed::Removed { name } => Change::RemoveDatabase { name },
        }
    }
}

/// What a commit says of trees, as it stands there.
#[derive(Debug, Default)]
struct CommitNaming {
    named: Vec<(String, TreeId, How)>,
    noted: Vec<TreeId>,
    unnoted: HashSet<TreeId>,
    formerly: HashMap<TreeId, String>,
    takes_names: bool,
}

impl CommitNaming {
    fn of(commit: &LoggedCommit<'_>) -> Result<CommitNaming> {
        let mut said = CommitNaming::default();
        let mut operations = commit.operations();
        // The catalog is the first tree.
        while let Some(operation) = operations.next()? {
            match Meaning::of(operation)? {
                Meaning::Record { .. } | Meaning::Range { .. } => break,
                Meaning::Stands { key, entry } => match CatalogKey::of(key) {
                    CatalogKey::Name(name) => said.named.push((
                        text(name)?,
                        entry.tree,
                        How {
                            comparator: entry.comparator.clone(),
                            method: entry.method(key)?,
                            holds: entry.holds,
                            index: entry.relations.index.clone(),
                            temporary: entry.temporary,
                        },
                    )),
                    _ => said.noted.push(entry.tree),
                },
                Meaning::Unnamed { .. } => said.takes_names = true,
                Meaning::Unnoted { tree } => _ = said.unnoted.insert(tree),
                Meaning::Formerly { tree, name } => _ = said.formerly.insert(tree, text(name)?),
                Meaning::Nothing => {}
            }
        }
        Ok(said)
    }

    /// The name that a tree had before; none: it does not say. Empty: it had none.
    fn former(&self, tree: TreeId) -> Option<&str> {
        self.formerly.get(&tree).map(|name| &**name)
    }
}

fn text(name: &[u8]) -> Result<String> {
    String::from_utf8(name.to_vec())
        .map_err(|_| Error::corruption("a name of a database in the log is not text"))
}

/// Which tree has which name, at a place in the log.
#[derive(Debug, Default)]
pub(in crate::env) struct TreeNames {
    now: HashMap<TreeId, String>,
}

impl TreeNames {
    /// The names that records of the catalog say.
    pub(in crate::env) fn of(records: Vec<(Vec<u8>, CatalogEntry)>) -> Result<TreeNames> {
        let named = records.into_iter().filter(|(key, _)| catalog::is_name(key));
        Ok(TreeNames {
            now: named.map(|(name, entry)| Ok((entry.tree, text(&name)?))).collect::<Result<_>>()?,
        })
    }

    /// The name of a tree.
    pub(in crate::env) fn get(&self, tree: TreeId) -> Option<&str> {
        self.now.get(&tree).map(|name| &**name)
    }

    /// Follows a commit: what it does about databases, in an order in which it can be done.
    pub(in crate::env) fn follow(&mut self, commit: &LoggedCommit<'_>) -> Result<Vec<Deed>> {
        let said = CommitNaming::of(commit)?;
        if said.named.is_empty() && said.noted.is_empty() {
            return Ok(Vec::new());
        }
        let (mut removed, mut renamed, mut created) = (Vec::new(), Vec::new(), Vec::new());
        for (name, tree, how) in &said.named {
            let before = self.now.insert(*tree, name.clone());
            let before = if said.unnoted.contains(tree) {
                None
            } else {
                said.former(*tree).map(str::to_owned).or(before)
            };
            match before {
                Some(before) if before == *name => {}
                Some(before) => renamed.push((before, name.clone())),
                None => created.push((name, how)),
            }
        }
        // What has a note and no name, and had one, is removed. If nothing is said of that, and no name taken
        // away, it is only just made, and what is known of it is of a later state.
        let named: HashSet<TreeId> = said.named.iter().map(|(_, tree, _)| *tree).collect();
        for tree in said.noted.iter().filter(|tree| !named.contains(tree)) {
            let known = self.now.remove(tree).filter(|_| said.takes_names);
            let before = said.former(*tree).map(str::to_owned).or(known);
            removed.extend(before.filter(|name| !name.is_empty()).map(|name| Deed::Removed { name }));
        }
        removed.extend(in_turn(renamed));
        // What an index is of is there before it.
        created.sort_by_key(|(_, how)| how.index.is_some());
        let created = created.into_iter();
        removed.extend(created.map(|(name, how)| Deed::Created { name: name.clone(), how: how.clone() }));
        Ok(removed)
    }
}

/// Changes of names, as they can be done one after the other. Takes time as they are many: a commit may
/// rename all databases there are.
fn in_turn(renamed: Vec<(String, String)>) -> Vec<Deed> {
    let holders: HashMap<&str, usize> =
        renamed.iter().enumerate().map(|(at, (from, _))| (&**from, at)).collect();
    let names: HashSet<&str> = renamed.iter().flat_map(|(from, to)| [&**from, &**to]).collect();
    // Whatever of these names is not in use in a circle: nobody else gives such names.
    let mut between = (0..).map(|n| format!("\u{1}renamed {n}")).filter(|name| !names.contains(&**name));
    let mut is_done = vec![false; renamed.len()];
    let mut deeds = Vec::new();
    for first in 0..renamed.len() {
        // The one that has the name that another is to get comes before that other.
        let (mut way, mut next) = (Vec::new(), Some(first));
        while let Some(at) = next
            && !std::mem::replace(&mut is_done[at], true)
        {
            way.push(at);
            next = holders.get(&*renamed[at].1).copied();
        }
        let is_circle = !way.is_empty() && next == Some(first);
        let first_from = if is_circle { between.next() } else { None };
        if let Some(between) = &first_from {
            deeds.push(Deed::Renamed { from: renamed[first].0.clone(), to: between.clone() });
        }
        for at in way.into_iter().rev() {
            let (from, to) = renamed[at].clone();
            let from = first_from.clone().filter(|_| at == first).unwrap_or(from);
            deeds.push(Deed::Renamed { from, to });
        }
    }
    deeds
}

/// The names at a place of the log, found from those of a later one along the commits between.
#[derive(Debug, Default)]
pub(in crate::env) struct Backwards {
    /// The trees that commits spoke of: their names before the first of these, if they had one.
    before: HashMap<TreeId, Option<String>>,
}

impl Backwards {
    /// Passes the next commit.
    ///
    /// # Errors
    /// `LogGone` if it was logged by a build that did not say what names trees had, and took one away.
    pub(super) fn pass(&mut self, commit: &LoggedCommit<'_>) -> Result<()> {
        let said = CommitNaming::of(commit)?;
        for &tree in said.named.iter().map(|(_, tree, _)| tree).chain(&said.noted) {
            let Entry::Vacant(before) = self.before.entry(tree) else { continue };
            let is_made = said.unnoted.contains(&tree) || !said.takes_names;
            match said.former(tree) {
                Some(name) => _ = before.insert(Some(name.to_owned()).filter(|name| !name.is_empty())),
                None if is_made => _ = before.insert(None),
                None => {
                    return Err(Error::new(
                        ErrorKind::LogGone,
                        format!(
                            "the commit at LSN {} took a name from a database, and an earlier version of \
                             the library, which made it, did not log which; begin after it, with a copy of \
                             a later state",
                            commit.lsn
                        ),
                    ));
                }
            }
        }
        Ok(())
    }

    /// The names before the first of the commits passed, given those after the last, or later.
    pub(in crate::env) fn before(self, mut later: TreeNames) -> TreeNames {
        for (tree, name) in self.before {
            match name {
                Some(name) => later.now.insert(tree, name),
                None => later.now.remove(&tree),
            };
        }
        later
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_exchanged_one_after_the_other() {
        let renamed = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|&(from, to)| (from.to_owned(), to.to_owned())).collect::<Vec<_>>()
        };
        for pairs in [
            &[("a", "b"), ("b", "c")][..],
            &[("a", "b"), ("b", "a")],
            &[("a", "b"), ("b", "c"), ("c", "a"), ("x", "y")],
        ] {
            let mut names: Vec<(String, String)> =
                pairs.iter().map(|&(from, _)| (from.to_owned(), from.to_owned())).collect();
            for deed in in_turn(renamed(pairs)) {
                let Deed::Renamed { from, to } = deed else { panic!("{deed:?}") };
                assert!(names.iter().all(|(_, now)| *now != to), "{to} is in use in {names:?}");
                names.iter_mut().find(|(_, now)| *now == from).expect("it is there").1 = to;
            }
            assert_eq!(names, renamed(pairs));
        }
    }

    /// A search through all of them for each would not come back from this.
    #[test]
    fn tens_of_thousands_of_names_are_passed_on_from_one_to_the_next() {
        const COUNT: u32 = 40_000;
        for circle in [false, true] {
            let name = |n: u32| format!("{:05}", if circle { n % COUNT } else { n });
            let mut now: HashMap<String, u32> = (0..COUNT).map(|n| (name(n), n)).collect();
            for deed in in_turn((0..COUNT).map(|n| (name(n), name(n + 1))).collect()) {
                let Deed::Renamed { from, to } = deed else { panic!("{deed:?}") };
                let tree = now.remove(&from).expect("it is there");
                assert!(now.insert(to, tree).is_none(), "in use");
            }
            assert_eq!(now, (0..COUNT).map(|n| (name(n + 1), n)).collect());
        }
    }
}
