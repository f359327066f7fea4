//! Random operations against the plain version: a map from records to their holders.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;
use crate::error::ErrorKind;
use crate::txn::locks::NamedLocks;

const PARTICIPANTS: u16 = 6;
const RECORDS: usize = 8;

#[derive(Clone, Copy, Debug)]
enum Step {
    Try { who: u16, record: usize, exclusive: bool },
    End { who: u16 },
    Reap { who: u16 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let who = || 1..=PARTICIPANTS;
    let step = prop_oneof![
        12 => (who(), 0..RECORDS, any::<bool>()).prop_map(|(who, record, exclusive)| Step::Try {
            who,
            record,
            exclusive,
        }),
        2 => who().prop_map(|who| Step::End { who }),
        1 => who().prop_map(|who| Step::Reap { who }),
    ];
    proptest::collection::vec(step, 1..200)
}

#[derive(Default)]
struct Model(HashMap<(usize, u16), LockMode>);

impl Model {
    fn allows(&self, who: u16, record: usize, mode: LockMode) -> bool {
        self.0.iter().all(|((r, w), m)| {
            *r != record || *w == who || (*m == LockMode::Shared && mode == LockMode::Shared)
        })
    }
    fn grant(&mut self, who: u16, record: usize, mode: LockMode) {
        let now = self.0.entry((record, who)).or_insert(mode);
        *now = mode.max(*now);
    }
    fn end(&mut self, who: u16) {
        self.0.retain(|(_, w), _| *w != who);
    }
    fn holders(&self, record: usize) -> HashSet<(u16, bool)> {
        self.0
            .iter()
            .filter(|((r, _), _)| *r == record)
            .map(|((_, w), m)| (*w, *m == LockMode::Exclusive))
            .collect()
    }
}

/// Runs the steps on both. `exact`: the table has room for every lock, so it must grant whatever the model
/// does; otherwise it may refuse more, and may show locks that are coarser than the model's, but never less.
fn run(locks: &LockTable, hashes: &[u64], steps: &[Step], exact: bool) {
    let mut model = Model::default();
    let mut parties: Vec<_> = (0..=PARTICIPANTS).map(|me| Party::new(locks, me)).collect();
    for step in steps {
        match *step {
            Step::Try { who, record, exclusive } => {
                let mode = if exclusive { LockMode::Exclusive } else { LockMode::Shared };
                let got = match parties[usize::from(who)].try_acquire(hashes[record], mode) {
                    Ok(got) => got,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::TooMany);
                        assert!(!exact, "there is room for all");
                        false
                    }
                };
                let allowed = model.allows(who, record, mode);
                assert!(allowed || !got, "{step:?} was granted, but must not");
                assert!(got || !allowed || !exact, "{step:?} was refused, but must not");
                if got {
                    model.grant(who, record, mode);
                }
            }
            Step::End { who } => {
                parties[usize::from(who)].release_all();
                model.end(who);
            }
            Step::Reap { who } => {
                locks.release_all_of(who);
                parties[usize::from(who)] = Party::new(locks, who);
                model.end(who);
            }
        }
        for (record, hash) in hashes.iter().enumerate() {
            let shown: HashSet<_> =
                locks.holders(*hash).iter().map(|h| (h.slot, h.mode == LockMode::Exclusive)).collect();
            let expected = model.holders(record);
            if exact {
                assert_eq!(shown, expected, "holders of record {record}");
            } else {
                let shows = |(who, exclusive): &(u16, bool)| {
                    shown.contains(&(*who, true)) || !*exclusive && shown.contains(&(*who, false))
                };
                assert!(expected.iter().all(shows), "holders of record {record}: {shown:?} for {expected:?}");
            }
        }
    }
    for party in &mut parties[1..] {
        party.release_all();
    }
    assert_empty(locks);
}

proptest! {
    #[test]
    fn a_roomy_table_grants_what_the_model_grants(steps in steps()) {
        let locks = lock_table(PARTICIPANTS, 1 << 10);
        let hashes: Vec<_> = (0..RECORDS as u64).map(record).collect();
        run(&locks, &hashes, &steps, true);
    }

    /// Up to 48 locks of one home: they spread over its neighbours, and share them with the locks of those.
    #[test]
    fn locks_that_overflow_their_bucket_are_as_good_as_others(steps in steps()) {
        let locks = lock_table(PARTICIPANTS, 1 << 12);
        let mut hashes = at_home_in(&locks, 9, RECORDS / 2);
        hashes.extend(at_home_in(&locks, 10, RECORDS / 2));
        run(&locks, &hashes, &steps, true);
    }

    #[test]
    fn a_crowded_table_never_grants_more_than_the_model(steps in steps(), size in 4..7u32) {
        let locks = lock_table(PARTICIPANTS, 1 << size);
        let hashes: Vec<_> = (0..RECORDS as u64).map(record).collect();
        run(&locks, &hashes, &steps, false);
    }
}

/// A path is a digit for each name. What paths need of records must be there, and no more if there is room.
fn run_paths(words: usize, steps: &[(u16, bool, Vec<u64>)], exact: bool) {
    let locks = lock_table(PARTICIPANTS, words);
    let hashes = |path: &[u64]| -> Vec<u64> {
        (1..=path.len()).map(|n| record(path[..n].iter().fold(1, |all, name| all * 10 + name))).collect()
    };
    let mut named: Vec<NamedLocks> = (0..=PARTICIPANTS).map(|_| NamedLocks::default()).collect();
    let mut held: Vec<(u16, Vec<u64>)> = Vec::new();
    for (who, is_lock, path) in steps {
        let mine = &mut named[usize::from(*who)];
        if *is_lock {
            let allowed = held.iter().all(|(other, locked)| {
                other == who || !locked.starts_with(path) && !path.starts_with(locked)
            });
            match locks.acquire_path(*who, &hashes(path), Duration::ZERO, mine) {
                Ok(()) => {
                    assert!(allowed, "{who} has {path:?} beside {held:?}");
                    held.push((*who, path.clone()));
                }
                Err(error) => {
                    assert!(
                        [ErrorKind::Timeout, ErrorKind::TooMany, ErrorKind::Deadlock].contains(&error.kind())
                    );
                    assert!(!allowed || !exact, "{who} was refused {path:?} beside {held:?}: {error}");
                }
            }
        } else if let Some(place) = held.iter().position(|(other, locked)| (other, locked) == (who, path)) {
            locks.release_path(*who, &hashes(path), mine);
            held.remove(place);
        }
    }
    for (who, path) in held {
        locks.release_path(who, &hashes(&path), &mut named[usize::from(who)]);
    }
    assert!(named.iter().all(|named| named.is_empty()), "each was given back by itself");
    assert_empty(&locks);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 100 }))]

    #[test]
    fn paths_keep_each_other_off_with_room_for_all(
        steps in proptest::collection::vec(
            (1..=PARTICIPANTS, any::<bool>(), proptest::collection::vec(0u64..3, 1..4)),
            1..120,
        ),
    ) {
        run_paths(1 << 11, &steps, true);
    }

    #[test]
    fn paths_keep_each_other_off_where_locks_are_made_coarse(
        steps in proptest::collection::vec(
            (1..=PARTICIPANTS, any::<bool>(), proptest::collection::vec(0u64..3, 1..4)),
            1..120,
        ),
    ) {
        run_paths(16, &steps, false);
    }
}
