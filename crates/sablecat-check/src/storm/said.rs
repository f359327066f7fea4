//! What workers say of their commits, and what must be found because of it.
//!
//! A line for each commit that was acknowledged: in which memory it was made, its number, when it was begun
//! and when it had returned, and whether it was handed over to the system, as `WriteNoSync` and `Sync`
//! promise. Times are of the clock that all processes share. Of an environment that nobody poisoned
//! everything that was acknowledged is found, whichever processes were killed. In one that was poisoned it is
//! what was handed over, and what had returned in the same memory before that was begun: the log has an
//! order, and keeps the beginning of it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::order::{Call, Read, Write};

/// Which memory it is that processes share, of all that there have been; 0: none.
pub(super) type Memory = u64;

/// An acknowledged commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Commit {
    pub(super) memory: Memory,
    /// Which of the worker's commits it is, from 1 on.
    pub(super) number: u64,
    /// Nanoseconds of the clock.
    pub(super) begun: u64,
    pub(super) returned: u64,
    pub(super) handed_over: bool,
}

/// A line that a worker says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Committed(Commit),
    /// A call of registers, about to be made, or one that returned.
    Called(Memory, Call),
    /// Of this number: it failed.
    Undone(Memory, u64),
    /// It was told that the environment is poisoned, in this memory or before it had any, and ends.
    Poisoned(Memory),
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Line::Committed(Commit { memory, number, begun, returned, handed_over }) => {
                write!(f, "{memory} {number} {begun} {returned} {}", u8::from(*handed_over))
            }
            Line::Called(memory, call) => {
                write!(
                    f,
                    "called {memory} {} {} {} {}",
                    call.id,
                    call.begun,
                    call.returned.unwrap_or(0),
                    u8::from(call.snapshot)
                )?;
                for Read { key, seen } in &call.reads {
                    match seen {
                        Some((number, by)) => write!(f, " r.{key}.{number}.{by}")?,
                        None => write!(f, " n.{key}")?,
                    }
                }
                call.writes.iter().try_for_each(|write| {
                    write!(f, " {}.{}.{}", if write.removed { 'd' } else { 'w' }, write.key, write.number)
                })
            }
            Line::Undone(memory, call) => write!(f, "undone {memory} {call}"),
            Line::Poisoned(memory) => write!(f, "poisoned {memory}"),
        }
    }
}

impl FromStr for Line {
    type Err = ();

    fn from_str(line: &str) -> Result<Line, ()> {
        if let Some(memory) = line.strip_prefix("poisoned ") {
            return memory.parse().map(Line::Poisoned).map_err(drop);
        }
        if let Some(words) = line.strip_prefix("undone ") {
            let (memory, call) = words.split_once(' ').ok_or(())?;
            return Ok(Line::Undone(memory.parse().map_err(drop)?, call.parse().map_err(drop)?));
        }
        if let Some(words) = line.strip_prefix("called ") {
            return called(words).ok_or(());
        }
        let numbers: Vec<u64> =
            line.split(' ').map(|word| word.parse().map_err(drop)).collect::<Result<_, ()>>()?;
        let [memory, number, begun, returned, handed_over] = numbers[..] else { return Err(()) };
        Ok(Line::Committed(Commit { memory, number, begun, returned, handed_over: handed_over == 1 }))
    }
}

fn called(words: &str) -> Option<Line> {
    let mut words = words.split(' ');
    let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
    let (memory, id, begun, returned, snapshot) = (number()?, number()?, number()?, number()?, number()?);
    let mut call = Call {
        id,
        begun,
        returned: (returned > 0).then_some(returned),
        snapshot: snapshot == 1,
        reads: Vec::new(),
        writes: Vec::new(),
    };
    for word in words {
        let mut parts = word.split('.');
        let (kind, key) = (parts.next()?, parts.next()?.parse().ok()?);
        let mut number = || parts.next().and_then(|part| part.parse::<u64>().ok());
        match kind {
            "r" => call.reads.push(Read { key, seen: Some((number()?, number()?)) }),
            "n" => call.reads.push(Read { key, seen: None }),
            "w" | "d" => call.writes.push(Write { key, number: number()?, removed: kind == "d" }),
            _ => return None,
        }
    }
    Some(Line::Called(memory, call))
}

/// What one worker has said, in all its lives, since nobody had the environment open.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    /// The commits that were there then.
    settled: u64,
    memories: BTreeMap<Memory, InMemory>,
    /// Processes that may have made a commit each which nobody heard of.
    in_doubt: u64,
    /// In which memory it has been told that the environment is poisoned, if it has.
    poisoned: Option<Memory>,
}

/// What was said of one memory.
#[derive(Clone, Debug, Default)]
struct InMemory {
    /// When commits returned, and their numbers. Both grow.
    returned: Vec<(u64, u64)>,
    /// When the last commit that was handed over was begun, and its number.
    handed_over: Option<(u64, u64)>,
    /// Calls of registers, by number.
    calls: BTreeMap<u64, Call>,
}

impl Said {
    /// A process begins to speak for the worker.
    pub(super) fn begin(&mut self) {
        self.in_doubt += 1;
    }

    pub(super) fn hear(&mut self, line: Line) {
        match line {
            Line::Poisoned(memory) => self.poisoned = Some(memory),
            // What it was about to do is known better once it has returned.
            Line::Called(memory, call) => {
                drop(self.memories.entry(memory).or_default().calls.insert(call.id, call))
            }
            Line::Undone(memory, call) => drop(self.memories.entry(memory).or_default().calls.remove(&call)),
            Line::Committed(commit) => {
                self.in_doubt = 1;
                let memory = self.memories.entry(commit.memory).or_default();
                memory.returned.push((commit.returned, commit.number));
                if commit.handed_over {
                    memory.handed_over = Some((commit.begun, commit.number));
                }
            }
        }
    }

    /// In which memory it has been told that the environment is poisoned, if it has.
    pub(super) fn poisoned(&self) -> Option<Memory> {
        self.poisoned
    }

    /// Whether it has acknowledged any commit since nobody had the environment open.
    pub(super) fn has_committed(&self) -> bool {
        self.memories.values().any(|memory| !memory.returned.is_empty())
    }

    /// The calls of registers, by the memory that they were made in.
    pub(super) fn calls(&self) -> impl Iterator<Item = (Memory, &Call)> {
        self.memories.iter().flat_map(|(memory, said)| said.calls.values().map(|call| (*memory, call)))
    }

    /// The number of the last commit that was acknowledged.
    pub(super) fn acknowledged(&self) -> u64 {
        let last = |memory: &InMemory| memory.returned.last().map(|(_, number)| *number);
        self.memories.values().filter_map(last).max().unwrap_or(0).max(self.settled)
    }

    /// The most commits that it may have made.
    pub(super) fn at_most(&self) -> u64 {
        self.acknowledged() + self.in_doubt
    }

    /// The number of the last commit that was acknowledged in one memory.
    pub(super) fn acknowledged_in(&self, memory: Memory) -> u64 {
        self.memories
            .get(&memory)
            .and_then(|memory| memory.returned.last())
            .map_or(self.settled, |(_, number)| *number)
    }

    /// When the last of its commits that were handed over was begun, by memory.
    fn handed_over(&self) -> impl Iterator<Item = (Memory, u64)> {
        self.memories.iter().filter_map(|(memory, said)| said.handed_over.map(|(begun, _)| (*memory, begun)))
    }

    /// How many commits the files must have, if in each memory all that had returned before `handed_over` is
    /// in them.
    fn kept(&self, handed_over: &BTreeMap<Memory, u64>) -> u64 {
        let kept = |(memory, said): (&Memory, &InMemory)| {
            let time = handed_over.get(memory).copied().unwrap_or(0);
            let before = said.returned.partition_point(|(returned, _)| *returned < time).checked_sub(1);
            before.map(|last| said.returned[last].1).max(said.handed_over.map(|(_, number)| number))
        };
        self.memories.iter().filter_map(kept).max().unwrap_or(0).max(self.settled)
    }

    /// Nobody has the environment open, and it has so many commits of this worker.
    pub(super) fn settle(&mut self, commits: u64) {
        *self = Said { settled: commits, ..Said::default() };
    }
}

/// How many commits of each worker must be there, although what was in memory alone may be lost.
pub(super) fn kept<'a>(said: impl Iterator<Item = &'a Said> + Clone) -> Vec<u64> {
    let mut handed_over = BTreeMap::new();
    for (memory, begun) in said.clone().flat_map(Said::handed_over) {
        let last = handed_over.entry(memory).or_insert(begun);
        *last = begun.max(*last);
    }
    said.map(|said| said.kept(&handed_over)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(memory: Memory, number: u64, handed_over: bool) -> Line {
        Line::Committed(Commit { memory, number, begun: number * 10, returned: number * 10 + 5, handed_over })
    }

    #[test]
    fn lines_are_read_as_they_were_said_and_not_in_part() {
        let reads = vec![Read { key: 3, seen: Some((8, 9)) }, Read { key: 4, seen: None }];
        let writes =
            vec![Write { key: 3, number: 9, removed: false }, Write { key: 5, number: 1, removed: true }];
        let call = Call { id: 70, begun: 7, returned: Some(8), snapshot: true, reads, writes };
        let doubtful = Call { id: 71, returned: None, snapshot: false, reads: Vec::new(), ..call.clone() };
        for line in [
            commit(1, 7, true),
            Line::Poisoned(4),
            Line::Called(1, call),
            Line::Called(1, doubtful),
            Line::Undone(1, 71),
        ] {
            assert_eq!(line.to_string().parse(), Ok(line));
        }
        assert_eq!("1 7 100 2000".parse::<Line>(), Err(()));
    }

    #[test]
    fn what_returned_before_something_was_handed_over_is_kept() {
        let mut said = [Said::default(), Said::default()];
        said[0].settle(3);
        (4..8).for_each(|number| said[0].hear(commit(1, number, number == 5)));
        assert_eq!((said[0].acknowledged(), kept(said.iter())), (7, vec![5, 0]));
        // Begun at 70, after the other's sixth had returned at 65. In another memory it says nothing.
        said[1].hear(commit(2, 7, true));
        assert_eq!(kept(said.iter()), [5, 7]);
        said[1].hear(commit(1, 7, true));
        assert_eq!(kept(said.iter()), [6, 7]);
        said[0].settle(6);
        assert_eq!((said[0].acknowledged(), kept(said.iter())), (6, vec![6, 7]));
    }

    #[test]
    fn what_was_lost_with_a_memory_does_not_count_in_the_next() {
        let mut said = Said::default();
        (0..3).for_each(|_| said.begin());
        assert_eq!(said.at_most(), 3);
        (1..5).for_each(|number| said.hear(commit(1, number, false)));
        said.hear(commit(2, 1, false));
        assert_eq!(
            (said.acknowledged(), said.acknowledged_in(2), said.acknowledged_in(3), said.at_most()),
            (4, 1, 0, 5)
        );
    }
}
