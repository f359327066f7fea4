//! All there is to know about a simulated disk, behind its one lock.

use std::collections::BTreeMap;

use super::crash::{Fates, SECTOR, Survival};
use super::dice::Dice;
use super::fault::Plan;
use super::file::FileState;
use super::names::{Names, NodeId, ROOT};

/// What a disk without a limit says is free.
const UNLIMITED: u64 = 1 << 50;

/// Names, files, and what is planned for them.
pub(super) struct State {
    pub(super) names: Names,
    pub(super) files: BTreeMap<NodeId, FileState>,
    pub(super) plan: Plan,
    dice: Dice,
    pub(super) capacity: u64,
    /// Whether space in the middle of files can be given back.
    pub(super) has_holes: bool,
    /// Numbers given to nodes, openings and changes.
    counter: u64,
}

impl State {
    /// A disk with these names and files.
    pub(super) fn new(seed: u64, names: Names, files: BTreeMap<NodeId, FileState>) -> State {
        let counter = names.nameable().last().copied().unwrap_or(ROOT) + 1;
        let (plan, dice) = (Plan::default(), Dice::new(seed));
        State { names, files, plan, dice, capacity: UNLIMITED, has_holes: true, counter }
    }

    /// The moment of a change.
    pub(super) fn tick(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    pub(super) fn new_node(&mut self) -> NodeId {
        self.tick()
    }

    pub(super) fn file(&mut self, node: NodeId) -> &mut FileState {
        self.files.get_mut(&node).expect("files stay while somebody has them open")
    }

    /// Moments of all changes that are not durable.
    pub(super) fn moments(&self) -> Vec<u64> {
        let in_files = self.files.values().flat_map(FileState::moments);
        self.names.moments().chain(in_files).collect()
    }

    /// Fates for what a failing sync was to make durable.
    pub(super) fn fates(&mut self) -> Fates {
        let survival = self.dice.pick(&[Survival::Nothing, Survival::Changes, Survival::Sectors]);
        let dice = Dice::new(self.dice.next());
        Fates::new(survival, dice, &[])
    }

    pub(super) fn after_crash(&self, survival: Survival, mut dice: Dice) -> State {
        let seed = dice.next();
        let mut fates = Fates::new(survival, dice, &self.moments());
        let names = self.names.after_crash(&mut fates);
        let reached = names.nameable();
        let mut files = BTreeMap::new();
        for (node, file) in &self.files {
            if reached.contains(node) {
                let mut after = FileState::holding(file.after_crash(&mut fates));
                after.lied = file.lied;
                files.insert(*node, after);
            }
        }
        State { capacity: self.capacity, has_holes: self.has_holes, ..State::new(seed, names, files) }
    }

    /// Drops files that nothing can bring back.
    pub(super) fn forget_nameless(&mut self) {
        let nameable = self.names.nameable();
        self.files.retain(|node, file| file.users > 0 || nameable.contains(node));
    }

    /// Space that files take.
    pub(super) fn taken(&self) -> u64 {
        let named = self.names.named();
        let counts = |(node, file): &(&NodeId, &FileState)| file.users > 0 || named.contains(node);
        self.files.iter().filter(counts).map(|(_, file)| file.now().space()).sum()
    }

    /// Space that is left.
    pub(super) fn room(&self) -> u64 {
        self.capacity.saturating_sub(self.taken())
    }

    /// How much of a range of a file, from its start, there is space for.
    pub(super) fn fitting(&mut self, node: NodeId, offset: u64, len: u64) -> u64 {
        // Summing up all files at each write would be a waste without a limit.
        if self.capacity == UNLIMITED {
            return len;
        }
        let room = self.room();
        self.file(node).now().fitting(offset, len, room)
    }

    /// A place in a file for a write that was to go to `offset`, with the same alignment: any place but that,
    /// if there is one.
    pub(super) fn elsewhere(&mut self, node: NodeId, offset: u64, len: u64) -> u64 {
        let unit = 1 << (offset | len).trailing_zeros().clamp(SECTOR.trailing_zeros(), 16);
        let places = self.file(node).now().len().saturating_sub(len) / unit + 1;
        let place = self.dice.below(places) * unit;
        if place == offset { (place + unit) % (places * unit) } else { place }
    }

    /// A length, in whole sectors, that is less than the wanted one.
    pub(super) fn short_of(&mut self, wanted: u64) -> u64 {
        SECTOR * self.dice.below(wanted.div_ceil(SECTOR))
    }
}
