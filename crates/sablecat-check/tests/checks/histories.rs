//! What concurrent transactions see; and that the checker sees what they must not.

use std::collections::BTreeMap;

use sablecat_check::history::{Event, History, Level, Outcome, Transaction, check};
use sablecat_check::seeds;

#[test]
fn histories_of_concurrent_transactions_are_as_their_level_promises() {
    seeds::all("histories", 0..40);
}

fn read(key: u32, list: &[u32]) -> Event {
    Event::Read(key, list.to_vec())
}

/// Transactions that overlap all, committed.
fn history(transactions: &[&[Event]], last: &[(u32, &[u32])]) -> History {
    let transaction = |events: &&[Event]| Transaction {
        span: (0, 100),
        events: events.to_vec(),
        outcome: Outcome::Committed,
    };
    History {
        transactions: transactions.iter().map(transaction).collect(),
        last: last.iter().map(|(key, list)| (*key, list.to_vec())).collect::<BTreeMap<_, _>>(),
    }
}

fn refused_at(history: &History) -> Vec<Level> {
    [Level::ReadCommitted, Level::Snapshot, Level::Serializable]
        .into_iter()
        .filter(|level| check(history, *level).is_err())
        .collect()
}

use Event::Append;
use Level::{ReadCommitted, Serializable, Snapshot};

#[test]
fn transactions_one_after_the_other_are_allowed_at_every_level() {
    let history = history(
        &[&[read(1, &[]), Append(1, 10)], &[read(1, &[10]), Append(1, 11)], &[read(1, &[10, 11])]],
        &[(1, &[10, 11])],
    );
    assert_eq!(refused_at(&history), []);
}

#[test]
fn a_dirty_read_is_found() {
    let mut history = history(&[&[Append(1, 10)], &[read(1, &[10])]], &[]);
    history.transactions[0].outcome = Outcome::Aborted;
    assert_eq!(refused_at(&history), [ReadCommitted, Snapshot, Serializable]);
}

#[test]
fn an_aborted_write_that_stays_is_found() {
    let mut history = history(&[&[Append(1, 10)]], &[(1, &[10])]);
    history.transactions[0].outcome = Outcome::Aborted;
    assert_eq!(refused_at(&history), [ReadCommitted, Snapshot, Serializable]);
}

#[test]
fn an_intermediate_read_is_found() {
    let history = history(&[&[Append(1, 10), Append(1, 11)], &[read(1, &[10])]], &[(1, &[10, 11])]);
    assert_eq!(refused_at(&history), [ReadCommitted, Snapshot, Serializable]);
}

#[test]
fn a_lost_update_is_found() {
    let history = history(&[&[read(1, &[]), Append(1, 10)], &[read(1, &[]), Append(1, 11)]], &[(1, &[11])]);
    assert_eq!(refused_at(&history), [ReadCommitted, Snapshot, Serializable]);
}

#[test]
fn circular_information_flow_is_found() {
    let history = history(
        &[&[Append(1, 10), read(2, &[20])], &[Append(2, 20), read(1, &[10])]],
        &[(1, &[10]), (2, &[20])],
    );
    assert_eq!(refused_at(&history), [ReadCommitted, Snapshot, Serializable]);
}

#[test]
fn writes_in_opposite_orders_are_found() {
    let history = history(
        &[&[Append(1, 10), Append(2, 20)], &[Append(1, 11), Append(2, 21)]],
        &[(1, &[10, 11]), (2, &[21, 20])],
    );
    assert_eq!(refused_at(&history), [ReadCommitted, Snapshot, Serializable]);
}

#[test]
fn a_fuzzy_read_is_allowed_at_read_committed_only() {
    let history = history(&[&[read(1, &[]), read(1, &[10])], &[Append(1, 10)]], &[(1, &[10])]);
    assert_eq!(refused_at(&history), [Snapshot, Serializable]);
}

#[test]
fn read_skew_is_allowed_at_read_committed_only() {
    let history = history(
        &[&[read(1, &[]), read(2, &[20])], &[Append(1, 10), Append(2, 20)]],
        &[(1, &[10]), (2, &[20])],
    );
    assert_eq!(refused_at(&history), [Snapshot, Serializable]);
}

#[test]
fn write_skew_is_forbidden_to_serializable_only() {
    let history =
        history(&[&[read(1, &[]), Append(2, 20)], &[read(2, &[]), Append(1, 10)]], &[(1, &[10]), (2, &[20])]);
    assert_eq!(refused_at(&history), [Serializable]);
}

#[test]
fn the_read_only_anomaly_is_forbidden_to_serializable_only() {
    // Fekete, O'Neil, O'Neil 2004: the third transaction sees the second's write and not the first's, which
    // comes before it.
    let history = history(
        &[
            &[read(1, &[]), read(2, &[]), Append(1, 10)],
            &[read(2, &[]), Append(2, 20)],
            &[read(1, &[]), read(2, &[20])],
        ],
        &[(1, &[10]), (2, &[20])],
    );
    assert_eq!(refused_at(&history), [Serializable]);
}

#[test]
fn a_stale_read_is_found_by_the_clock() {
    let mut history = history(&[&[Append(1, 10)], &[read(1, &[])]], &[(1, &[10])]);
    history.transactions[0].span = (0, 10);
    history.transactions[1].span = (20, 30);
    assert_eq!(refused_at(&history), [Serializable]);
}

#[test]
fn a_read_that_misses_its_own_write_is_found() {
    let history = history(&[&[Append(1, 10), read(1, &[])]], &[(1, &[10])]);
    assert_eq!(refused_at(&history), [ReadCommitted, Snapshot, Serializable]);
}
