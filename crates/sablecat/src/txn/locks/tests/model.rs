//! Random operations against the plain version: a map from records to who has them.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;
use crate::error::ErrorKind;

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
        12 => (who(), 0..RECORDS, any::<bool>()).prop_map(|(who, record, exclusive)| Step::Try { who, record, exclusive }),
        2 => who().prop_map(|who| Step::End { who }),
        1 => who().prop_map(|who| Step::Reap { who }),
    ];
    proptest::collection::vec(step, 1..200)
}

#[derive(Default)]
struct Model(HashMap<(usize, u16), Mode>);

impl Model {
    fn allows(&self, who: u16, record: usize, mode: Mode) -> bool {
        self.0
            .iter()
            .all(|((r, w), m)| *r != record || *w == who || (*m == Mode::Shared && mode == Mode::Shared))
    }
    fn grant(&mut self, who: u16, record: usize, mode: Mode) {
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
            .map(|((_, w), m)| (*w, *m == Mode::Exclusive))
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
                let mode = if exclusive { Mode::Exclusive } else { Mode::Shared };
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
                locks.holders(*hash).iter().map(|h| (h.slot, h.mode == Mode::Exclusive)).collect();
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
