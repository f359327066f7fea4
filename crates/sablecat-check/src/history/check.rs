//! Lists that cannot be, and the dependencies between transactions.

use std::collections::HashMap;

use super::cycles::{self, Graph, Kind};
use super::record::{Element, Event, History, Key, Outcome};
use crate::alike::Wrong;

/// What transactions were promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// No dirty and no intermediate reads, no cycles of ww and wr. (Appends lock the record first.)
    ReadCommitted,
    /// Also: the same read twice answers the same, no lost updates, and no cycles without two rw in a row.
    Snapshot,
    /// No cycles at all, in an order that agrees with the clock.
    Serializable,
}

/// Checks a history.
///
/// # Errors
/// The first anomaly found.
pub fn check(history: &History, level: Level) -> Result<(), Wrong> {
    let mut writer: HashMap<(Key, Element), usize> = HashMap::new();
    for (n, transaction) in history.transactions.iter().enumerate() {
        for event in &transaction.events {
            if let Event::Append(key, element) = event
                && writer.insert((*key, *element), n).is_some()
            {
                return Err(format!("element {element} was appended to {key} twice: the history is no use"));
            }
        }
    }
    let committed = |n: usize| history.transactions[n].outcome == Outcome::Committed;
    let empty = Vec::new();
    let last = |key: &Key| history.last.get(key).unwrap_or(&empty);

    // What is there at the end: everything committed, once, and nothing else.
    for (key, list) in &history.last {
        let mut seen = std::collections::HashSet::new();
        for element in list {
            match writer.get(&(*key, *element)) {
                None => return Err(format!("list {key} has {element} in it, which nobody appended")),
                Some(&n) if !committed(n) => {
                    return Err(format!("list {key} has {element} in it, of transaction {n}, which aborted"));
                }
                Some(_) if !seen.insert(*element) => {
                    return Err(format!("list {key} has {element} in it twice"));
                }
                Some(_) => {}
            }
        }
    }
    for (&(key, element), &n) in &writer {
        if committed(n) && !last(&key).contains(&element) {
            return Err(format!(
                "lost update: transaction {n} committed {element} in list {key}, and it is not there: {:?}",
                last(&key)
            ));
        }
    }

    let mut graph: Graph = vec![Vec::new(); history.transactions.len()];
    let mut link = |from: usize, to: usize, kind: Kind| {
        if from != to && !graph[from].contains(&(to, kind)) {
            graph[from].push((to, kind));
        }
    };
    for (key, list) in &history.last {
        for pair in list.windows(2) {
            link(writer[&(*key, pair[0])], writer[&(*key, pair[1])], Kind::Ww);
        }
    }
    for (n, transaction) in history.transactions.iter().enumerate() {
        let mut own: HashMap<Key, Vec<Element>> = HashMap::new();
        let mut seen: HashMap<Key, &[Element]> = HashMap::new();
        for event in &transaction.events {
            let (key, list) = match event {
                Event::Append(key, element) => {
                    own.entry(*key).or_default().push(*element);
                    continue;
                }
                Event::Read(key, list) => (key, list),
            };
            let mine = own.get(key).map_or(&[][..], Vec::as_slice);
            let Some(list) = list.strip_suffix(mine) else {
                return Err(format!(
                    "transaction {n} appended {mine:?} to list {key} and then read {list:?}"
                ));
            };
            if let Some(element) = list
                .iter()
                .find(|element| writer.get(&(*key, **element)).is_none_or(|&writer| !committed(writer)))
            {
                return Err(format!(
                    "dirty read: transaction {n} read {element} in list {key}, which was never committed"
                ));
            }
            if !last(key).starts_with(list) {
                return Err(format!(
                    "transaction {n} read list {key} as {list:?}, which is no beginning of {:?}",
                    last(key)
                ));
            }
            if level != Level::ReadCommitted {
                // Before its own appends: after them it may see no more either.
                let before = *seen.entry(*key).or_insert(list);
                if before != list {
                    return Err(format!(
                        "fuzzy read: transaction {n} read list {key} as {before:?} and then as {list:?}"
                    ));
                }
            }
            if transaction.outcome == Outcome::Aborted {
                continue;
            }
            let after = last(key).get(list.len());
            if let Some(&element) = list.last() {
                let from = writer[&(*key, element)];
                link(from, n, Kind::Wr);
                if after.is_some_and(|&element| writer[&(*key, element)] == from && from != n) {
                    return Err(format!(
                        "intermediate read: transaction {n} read list {key} as {list:?}, in the middle of \
                         transaction {from}"
                    ));
                }
            }
            if let Some(&element) = after {
                link(n, writer[&(*key, element)], Kind::Rw);
            }
        }
    }
    match level {
        Level::ReadCommitted => {
            graph.iter_mut().for_each(|edges| edges.retain(|(_, kind)| *kind != Kind::Rw));
            report(history, cycles::find(&graph, true))
        }
        Level::Snapshot => report(history, cycles::find(&graph, false)),
        Level::Serializable => {
            report(history, cycles::find(&graph, true))?;
            add_clock(history, &mut graph);
            report(history, cycles::find(&graph, true))
        }
    }
}

/// Adds which transactions had ended before which began, by way of a node for each end, in the order of the
/// clock.
fn add_clock(history: &History, graph: &mut Graph) {
    let mut ends: Vec<(u64, usize)> = Vec::new();
    for (n, transaction) in history.transactions.iter().enumerate() {
        if transaction.outcome == Outcome::Committed {
            ends.push((transaction.span.1, n));
        }
    }
    ends.sort_unstable();
    let first = graph.len();
    for (place, &(_, n)) in ends.iter().enumerate() {
        graph[n].push((first + place, Kind::Rt));
        graph.push(if place + 1 < ends.len() { vec![(first + place + 1, Kind::Rt)] } else { Vec::new() });
    }
    for (n, transaction) in history.transactions.iter().enumerate() {
        let before = ends.partition_point(|&(end, _)| end < transaction.span.0);
        if before > 0 && transaction.outcome == Outcome::Committed {
            graph[first + before - 1].push((n, Kind::Rt));
        }
    }
}

fn report(history: &History, cycle: Option<Vec<(usize, Kind)>>) -> Result<(), Wrong> {
    let Some(cycle) = cycle else { return Ok(()) };
    let mut text = String::from("cycle:");
    for (n, kind) in cycle {
        // Nodes behind the transactions are those of the clock.
        if let Some(transaction) = history.transactions.get(n) {
            text += &format!("\n  transaction {n} {:?} --{kind:?}-->", transaction.events);
        }
    }
    Err(text)
}
