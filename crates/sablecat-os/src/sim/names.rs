//! The directory tree: what the names are now, what they durably are, and the changes between the two.
//!
//! A change is a set of slots (a directory and a name in it) and what each is to name: one slot for creating
//! or removing, two for renaming. It happens as a whole or not at all. Changes to one name survive a power
//! failure in order, as every file system of today has it; changes to different names are strangers. A file
//! is found after a crash if the whole path to it survived.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path};

use super::crash::Fates;

/// A file or directory, whatever its names.
pub(super) type NodeId = u64;

/// The directory at the top, which always exists.
pub(super) const ROOT: NodeId = 0;

#[derive(Clone, Debug, Default)]
struct Dir {
    now: BTreeMap<String, NodeId>,
    durable: BTreeMap<String, NodeId>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot {
    pub(super) dir: NodeId,
    pub(super) name: String,
}

#[derive(Debug)]
struct Change {
    moment: u64,
    /// The last slot is the one whose directory must be synced.
    slots: Vec<(Slot, Option<NodeId>)>,
}

#[derive(Debug)]
pub(super) struct Names {
    dirs: BTreeMap<NodeId, Dir>,
    changes: Vec<Change>,
}

impl Names {
    pub(super) fn new() -> Names {
        Names { dirs: BTreeMap::from([(ROOT, Dir::default())]), changes: Vec::new() }
    }

    pub(super) fn is_dir(&self, node: NodeId) -> bool {
        self.dirs.contains_key(&node)
    }

    /// What a path names.
    pub(super) fn find(&self, path: &Path) -> io::Result<Option<NodeId>> {
        let mut at = ROOT;
        for name in components(path)? {
            let dir = self.dirs.get(&at).ok_or(io::ErrorKind::NotADirectory)?;
            match dir.now.get(name) {
                Some(node) => at = *node,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// The directory that a path names.
    pub(super) fn dir(&self, path: &Path) -> io::Result<NodeId> {
        let node = self.find(path)?.ok_or(io::ErrorKind::NotFound)?;
        if self.is_dir(node) { Ok(node) } else { Err(io::ErrorKind::NotADirectory.into()) }
    }

    /// The slot that a path stands for; its directory must exist.
    pub(super) fn slot(&self, path: &Path) -> io::Result<Slot> {
        let mut names = components(path)?;
        let name = names.pop().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        let parent: std::path::PathBuf = names.iter().collect();
        Ok(Slot { dir: self.dir(&parent)?, name })
    }

    /// What a slot names.
    pub(super) fn get(&self, slot: &Slot) -> Option<NodeId> {
        self.dirs.get(&slot.dir)?.now.get(&slot.name).copied()
    }

    pub(super) fn list(&self, dir: NodeId) -> Vec<String> {
        self.dirs.get(&dir).map(|dir| dir.now.keys().cloned().collect()).unwrap_or_default()
    }

    /// Makes a slot name something, or nothing.
    pub(super) fn set(&mut self, moment: u64, slot: Slot, node: Option<NodeId>) {
        self.change(moment, vec![(slot, node)]);
    }

    pub(super) fn rename(&mut self, moment: u64, from: Slot, to: Slot, node: NodeId) {
        self.change(moment, vec![(from, None), (to, Some(node))]);
    }

    pub(super) fn make_dir(&mut self, moment: u64, slot: Slot, node: NodeId) {
        self.dirs.insert(node, Dir::default());
        self.set(moment, slot, Some(node));
    }

    fn change(&mut self, moment: u64, slots: Vec<(Slot, Option<NodeId>)>) {
        for (slot, node) in &slots {
            let dir = self.dirs.get_mut(&slot.dir).expect("slots are made of directories that exist");
            put(&mut dir.now, &slot.name, *node);
        }
        self.changes.push(Change { moment, slots });
    }

    pub(super) fn moments(&self) -> impl Iterator<Item = u64> {
        self.changes.iter().map(|change| change.moment)
    }

    /// Makes the changes to a directory durable, with those to the same names that they rest on.
    pub(super) fn sync(&mut self, dir: NodeId) {
        for change in self.take_changes_of(dir) {
            self.harden(change);
        }
    }

    /// A sync that fails: some changes are durable, the others are given up, though readers see them.
    pub(super) fn fail_to_sync(&mut self, dir: NodeId, fates: &mut Fates) {
        let changes = self.take_changes_of(dir);
        for change in survivors(changes, fates) {
            self.harden(change);
        }
    }

    fn harden(&mut self, change: Change) {
        for (slot, node) in change.slots {
            let dir = self.dirs.get_mut(&slot.dir).expect("directories stay while changes name them");
            put(&mut dir.durable, &slot.name, node);
        }
    }

    fn take_changes_of(&mut self, dir: NodeId) -> Vec<Change> {
        let mut rested_on: BTreeSet<Slot> = BTreeSet::new();
        let mut taken = vec![false; self.changes.len()];
        for (change, taken) in self.changes.iter().zip(&mut taken).rev() {
            let homes = change.slots.last().is_some_and(|(slot, _)| slot.dir == dir);
            if homes || change.slots.iter().any(|(slot, _)| rested_on.contains(slot)) {
                rested_on.extend(change.slots.iter().map(|(slot, _)| slot.clone()));
                *taken = true;
            }
        }
        let mut taken = taken.into_iter();
        self.changes.extract_if(.., |_| taken.next() == Some(true)).collect()
    }

    /// The names that the disk holds after a power failure, all durable.
    pub(super) fn after_crash(&self, fates: &mut Fates) -> Names {
        let mut dirs: BTreeMap<NodeId, Dir> = BTreeMap::new();
        for (node, dir) in &self.dirs {
            dirs.insert(*node, Dir { now: dir.durable.clone(), durable: BTreeMap::new() });
        }
        for change in survivors(self.changes.iter(), fates) {
            for (slot, node) in &change.slots {
                let dir = dirs.get_mut(&slot.dir).expect("directories stay while changes name them");
                put(&mut dir.now, &slot.name, *node);
            }
        }
        for dir in dirs.values_mut() {
            dir.durable = dir.now.clone();
        }
        let mut names = Names { dirs, changes: Vec::new() };
        names.forget_unreachable();
        names
    }

    /// Everything that has, had durably, or may have had a name.
    pub(super) fn nameable(&self) -> BTreeSet<NodeId> {
        let named = self.dirs.values().flat_map(|dir| dir.now.values().chain(dir.durable.values()));
        let changing =
            self.changes.iter().flat_map(|change| change.slots.iter().filter_map(|(_, node)| node.as_ref()));
        named.chain(changing).chain([&ROOT]).copied().collect()
    }

    /// Everything that has a name now.
    pub(super) fn named(&self) -> BTreeSet<NodeId> {
        self.dirs.values().flat_map(|dir| dir.now.values()).copied().collect()
    }

    /// Drops directories that no path leads to, and says what is left to be named.
    fn forget_unreachable(&mut self) {
        let mut reached = BTreeSet::new();
        let mut next = vec![ROOT];
        while let Some(node) = next.pop() {
            if let Some(dir) = self.dirs.get(&node)
                && reached.insert(node)
            {
                next.extend(dir.now.values());
            }
        }
        self.dirs.retain(|node, _| reached.contains(node));
    }
}

fn put(names: &mut BTreeMap<String, NodeId>, name: &str, node: Option<NodeId>) {
    match node {
        Some(node) => names.insert(name.to_owned(), node),
        None => names.remove(name),
    };
}

/// The changes that survive: each by its own fate, and only with those to the same names before it.
fn survivors<C: std::borrow::Borrow<Change>>(
    changes: impl IntoIterator<Item = C>,
    fates: &mut Fates,
) -> Vec<C> {
    let mut lost: BTreeSet<Slot> = BTreeSet::new();
    let mut kept = Vec::new();
    for change in changes {
        let slots = &change.borrow().slots;
        let stands = slots.iter().all(|(slot, _)| !lost.contains(slot));
        if fates.whole(change.borrow().moment) && stands {
            kept.push(change);
        } else {
            lost.extend(slots.iter().map(|(slot, _)| slot.clone()));
        }
    }
    kept
}

/// The names along a path. Absolute and relative paths start at the same place.
fn components(path: &Path) -> io::Result<Vec<&str>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
            Component::ParentDir => drop(names.pop()),
            Component::Normal(name) => names.push(name.to_str().ok_or(io::ErrorKind::InvalidInput)?),
        }
    }
    Ok(names)
}
