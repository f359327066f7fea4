//! Whether there is an order of all calls, each at one moment while it ran, that agrees with what they saw:
//! strict serialisability, of a single operation linearisability (Herlihy, Wing 1990); and for transactions
//! at snapshot isolation two moments, one for all reads and a later one for all writes.
//!
//! For histories of any length, since values tell which call wrote them and in which order: each write of a
//! record has a number, higher than those before it, and the call that made it. What is read then says which
//! calls come before and after which (Adya 1999): the writer of what was read before the reader, the reader
//! before the next writer. With the clock, such an order exists if there is no circle, and no call has to
//! come after its end because of those before it. Both is seen by going over the calls once in that order:
//! linear in calls and what they read.
//!
//! A call in doubt, of a process that died in it, counts if another saw something of it; then all of it does,
//! and it may have happened at any time after it was begun. That a record was not there does not say which
//! call removed it: it is held against the moments that are left for all removals.

use std::collections::{BTreeMap, HashMap};

use crate::alike::Wrong;

/// A record.
pub type Key = u32;

/// What a call wrote to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// Which record.
    pub key: Key,
    /// Higher than that of every write before it.
    pub number: u64,
    /// It was removed.
    pub removed: bool,
}

/// What a call saw in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Which record.
    pub key: Key,
    /// The write that it saw, as the value says, and its call; none: no record.
    pub seen: Option<(u64, u64)>,
}

/// A call: a single operation or a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// No other call's; not 0, which wrote what was there in the beginning.
    pub id: u64,
    /// When it was begun, on a clock that all share.
    pub begun: u64,
    /// When it had returned; none: in doubt.
    pub returned: Option<u64>,
    /// Reads and writes may be at two moments.
    pub snapshot: bool,
    /// What it saw before it wrote anything.
    pub reads: Vec<Read>,
    /// What it wrote.
    pub writes: Vec<Write>,
}

/// A moment to be found: between `earliest` and `latest`, and behind and before those of others.
#[derive(Debug)]
struct Moment {
    call: usize,
    earliest: u64,
    latest: u64,
    next: Vec<usize>,
}

/// A write in the order of its record.
#[derive(Clone, Copy, Debug)]
struct Version {
    number: u64,
    call: usize,
    removed: bool,
}

/// Holds calls against each other. What was there before the first of them is whatever they saw of it.
///
/// # Errors
/// What cannot be.
pub fn check(calls: &[Call]) -> Result<(), Wrong> {
    let history = History::of(calls)?;
    let mut moments = history.moments();
    for (n, call) in calls.iter().enumerate().filter(|(n, _)| history.happened[*n]) {
        for read in &call.reads {
            let Some((number, _)) = read.seen else { continue };
            let (before, next) = history.around(read.key, number);
            let reads = history.reads_at(n);
            before
                .filter(|before| before.call != n)
                .into_iter()
                .for_each(|before| moments[history.writes_at(before.call)].next.push(reads));
            next.filter(|next| next.call != n)
                .into_iter()
                .for_each(|next| moments[reads].next.push(history.writes_at(next.call)));
        }
    }
    for versions in history.versions.values() {
        for pair in versions.windows(2).filter(|pair| pair[0].call != pair[1].call) {
            let (before, after) = (history.writes_at(pair[0].call), history.writes_at(pair[1].call));
            moments[before].next.push(after);
        }
    }
    settle(calls, &mut moments)?;
    history.check_absent(&moments)
}

struct History<'a> {
    calls: &'a [Call],
    happened: Vec<bool>,
    /// All writes that happened, by record, in order.
    versions: BTreeMap<Key, Vec<Version>>,
}

impl<'a> History<'a> {
    fn of(calls: &'a [Call]) -> Result<History<'a>, Wrong> {
        let by_id: HashMap<u64, usize> = calls.iter().enumerate().map(|(n, call)| (call.id, n)).collect();
        if by_id.len() < calls.len() {
            return Err("two calls have one number: the history is no use".into());
        }
        let mut happened: Vec<bool> = calls.iter().map(|call| call.returned.is_some()).collect();
        let mut written: BTreeMap<Key, BTreeMap<u64, (u64, bool)>> = BTreeMap::new();
        let mut write = |key: Key, number: u64, by: u64, removed: bool| match written
            .entry(key)
            .or_default()
            .insert(number, (by, removed))
        {
            Some((other, _)) if other != by => Err(format!(
                "lost update: write {number} of record {key} is of call {other}, and of call {by}"
            )),
            _ => Ok(()),
        };
        // What is seen of a call in doubt makes it one that happened, and what that saw may be of another.
        let mut looked: Vec<usize> = (0..calls.len()).filter(|&n| happened[n]).collect();
        while let Some(n) = looked.pop() {
            for made in &calls[n].writes {
                write(made.key, made.number, calls[n].id, made.removed)?;
            }
            for read in &calls[n].reads {
                let Some((number, by)) = read.seen else { continue };
                write(read.key, number, by, false)?;
                let Some(&writer) = by_id.get(&by) else { continue };
                if !happened[writer] {
                    happened[writer] = true;
                    looked.push(writer);
                } else if calls[writer].returned.is_some()
                    && !calls[writer].writes.iter().any(|made| (made.key, made.number) == (read.key, number))
                {
                    return Err(format!(
                        "call {} saw write {number} of record {}, which call {by} did not make",
                        calls[n].id, read.key
                    ));
                }
            }
        }
        let mut versions = BTreeMap::new();
        for (key, written) in written {
            let mut known = Vec::new();
            for (&number, &(by, removed)) in &written {
                match by_id.get(&by) {
                    Some(&call) => known.push(Version { number, call, removed }),
                    None if known.is_empty() => {}
                    None => {
                        return Err(format!(
                            "write {number} of record {key} is of call {by}, of which nobody knows"
                        ));
                    }
                }
            }
            if written.values().take_while(|(by, _)| !by_id.contains_key(by)).count() > 1 {
                return Err(format!("of record {key} two states were seen from before all calls"));
            }
            versions.insert(key, known);
        }
        Ok(History { calls, happened, versions })
    }

    /// The moments of a call: of its reads, and of its writes.
    fn reads_at(&self, call: usize) -> usize {
        2 * call
    }

    fn writes_at(&self, call: usize) -> usize {
        2 * call + usize::from(self.calls[call].snapshot)
    }

    fn moments(&self) -> Vec<Moment> {
        let moment = |n: usize| {
            let call = &self.calls[n / 2];
            let is_first = n.is_multiple_of(2);
            let next = if is_first && call.snapshot { vec![n + 1] } else { Vec::new() };
            Moment { call: n / 2, earliest: call.begun, latest: call.returned.unwrap_or(u64::MAX), next }
        };
        (0..2 * self.calls.len()).map(moment).collect()
    }

    /// The write of a number, if it is not from before all calls, and the one after it.
    fn around(&self, key: Key, number: u64) -> (Option<Version>, Option<Version>) {
        let Some(versions) = self.versions.get(&key) else { return (None, None) };
        let next = versions.partition_point(|version| version.number <= number);
        let before =
            next.checked_sub(1).map(|last| versions[last]).filter(|version| version.number == number);
        (before, versions.get(next).copied())
    }

    /// That there was a moment without a record for each call that saw none.
    fn check_absent(&self, moments: &[Moment]) -> Result<(), Wrong> {
        let none = Vec::new();
        // Removals that nobody can have seen for sure.
        let mut in_doubt: HashMap<Key, u64> = HashMap::new();
        for call in self.calls.iter().filter(|call| call.returned.is_none()) {
            for write in call.writes.iter().filter(|write| write.removed) {
                let first = in_doubt.entry(write.key).or_insert(call.begun);
                *first = call.begun.min(*first);
            }
        }
        for (n, call) in self.calls.iter().enumerate().filter(|(n, _)| self.happened[*n]) {
            let own = &moments[self.reads_at(n)];
            for key in call.reads.iter().filter(|read| read.seen.is_none()).map(|read| read.key) {
                let versions = self.versions.get(&key).unwrap_or(&none);
                let from = |n: usize| moments[self.writes_at(versions[n].call)].earliest;
                let to = |n: usize| {
                    versions.get(n).map_or(u64::MAX, |version| moments[self.writes_at(version.call)].latest)
                };
                let was_gone =
                    |n: usize| versions[n].removed && from(n) <= own.latest && own.earliest <= to(n + 1);
                let may_be = own.earliest <= to(0) && self.was_never_seen_before(key)
                    || (0..versions.len()).any(was_gone)
                    || in_doubt.get(&key).is_some_and(|&begun| begun <= own.latest);
                if !may_be {
                    return Err(format!(
                        "call {} found no record {key}, which was there all the while it ran: {call:?}",
                        call.id
                    ));
                }
            }
        }
        Ok(())
    }

    /// Whether nobody saw a record from before all calls.
    fn was_never_seen_before(&self, key: Key) -> bool {
        let first = self
            .versions
            .get(&key)
            .and_then(|versions| versions.first())
            .map_or(u64::MAX, |first| first.number);
        let saw = |call: &Call| {
            call.reads
                .iter()
                .any(|read| read.key == key && read.seen.is_some_and(|(number, _)| number < first))
        };
        !self.calls.iter().any(saw)
    }
}

/// Narrows the moments by those before and after them.
fn settle(calls: &[Call], moments: &mut [Moment]) -> Result<(), Wrong> {
    let mut before = vec![0u32; moments.len()];
    for next in moments.iter().flat_map(|moment| &moment.next) {
        before[*next] += 1;
    }
    let mut order: Vec<usize> = (0..moments.len()).filter(|&n| before[n] == 0).collect();
    // Whose moment is the latest that one must be behind.
    let mut behind: Vec<Option<usize>> = vec![None; moments.len()];
    let mut at = 0;
    while at < order.len() {
        let n = order[at];
        at += 1;
        let (earliest, next) = (moments[n].earliest, std::mem::take(&mut moments[n].next));
        if earliest > moments[n].latest {
            return Err(format!("too late to be in time: {}", chain(calls, moments, &behind, n)));
        }
        for &next in &next {
            if moments[next].earliest < earliest {
                moments[next].earliest = earliest;
                behind[next] = Some(n);
            }
            before[next] -= 1;
            if before[next] == 0 {
                order.push(next);
            }
        }
        moments[n].next = next;
    }
    if order.len() < moments.len() {
        return Err(format!("circle: {}", circle(calls, moments, &before)));
    }
    for &n in order.iter().rev() {
        let latest = moments[n].next.iter().map(|&next| moments[next].latest).min();
        moments[n].latest = moments[n].latest.min(latest.unwrap_or(u64::MAX));
    }
    Ok(())
}

/// The calls that push one beyond its end, the last one first.
fn chain(calls: &[Call], moments: &[Moment], behind: &[Option<usize>], from: usize) -> String {
    let mut text = format!("{:?}", calls[moments[from].call]);
    let mut at = from;
    while let Some(before) = behind[at] {
        text += &format!("\n  after {:?}", calls[moments[before].call]);
        at = before;
    }
    text
}

/// A circle among those that have somebody before them for ever.
fn circle(calls: &[Call], moments: &[Moment], before: &[u32]) -> String {
    // Each of them has another of them before it.
    let mut earlier: HashMap<usize, usize> = HashMap::new();
    for (n, moment) in moments.iter().enumerate().filter(|(n, _)| before[*n] > 0) {
        earlier.extend(moment.next.iter().filter(|next| before[**next] > 0).map(|next| (*next, n)));
    }
    let Some(mut at) = earlier.keys().copied().next() else { return String::new() };
    // So many steps lead into a circle from anywhere.
    for _ in 0..earlier.len() {
        at = earlier.get(&at).copied().unwrap_or(at);
    }
    let (start, mut text) = (at, String::new());
    loop {
        text += &format!("\n  {:?}", calls[moments[at].call]);
        match earlier.get(&at) {
            Some(&next) if next != start => at = next,
            _ => return text,
        }
    }
}
