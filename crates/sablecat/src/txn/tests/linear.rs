//! Whether answers agree with some order in which each call happened at one moment between its beginning and
//! its end.
//!
//! A call does some steps at once: a single operation one, a transaction several. That is linearisability
//! (Herlihy, Wing 1990), and of transactions strict serialisability. All orders are tried (Wing, Gong 1993),
//! those that lead to the same state once: for histories of some twenty calls.

use std::collections::{BTreeMap, HashSet};

/// What was done to a record, or seen of it.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Put(u8, u32),
    /// Removed, if it was there: whether it was.
    Removed(u8, bool),
    Got(u8, Option<u32>),
}

/// Steps that were done at once, between two ticks of one clock.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) span: (u64, u64),
    pub(super) steps: Vec<Step>,
}

type State = BTreeMap<u8, u32>;

/// The state after a call, if it can have happened in this one.
fn after(call: &Call, mut state: State) -> Option<State> {
    for step in &call.steps {
        let can_be = match *step {
            Step::Put(key, value) => {
                state.insert(key, value);
                true
            }
            Step::Removed(key, was_there) => state.remove(&key).is_some() == was_there,
            Step::Got(key, value) => state.get(&key).copied() == value,
        };
        if !can_be {
            return None;
        }
    }
    Some(state)
}

fn goes_on(calls: &[Call], done: u64, state: &State, tried: &mut HashSet<(u64, State)>) -> bool {
    let left = || (0..calls.len()).filter(|n| done & 1 << n == 0);
    let Some(first_end) = left().map(|n| calls[n].span.1).min() else { return true };
    tried.insert((done, state.clone()))
        && left().filter(|&n| calls[n].span.0 < first_end).any(|n| {
            after(&calls[n], state.clone()).is_some_and(|state| goes_on(calls, done | 1 << n, &state, tried))
        })
}

/// Whether there is such an order, from a state without any records on.
pub(super) fn is_linear(calls: &[Call]) -> bool {
    assert!(calls.len() < 64, "the calls that were done are the bits of a word");
    goes_on(calls, 0, &State::new(), &mut HashSet::new())
}

#[cfg(test)]
mod tests {
    use super::Step::{Got, Put, Removed};
    use super::*;

    fn linear(calls: &[(u64, u64, &[Step])]) -> bool {
        is_linear(
            &calls
                .iter()
                .map(|&(begun, ended, steps)| Call { span: (begun, ended), steps: steps.to_vec() })
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn calls_at_the_same_time_may_have_happened_in_any_order() {
        assert!(linear(&[(0, 9, &[Put(1, 5)]), (1, 8, &[Got(1, None)]), (2, 7, &[Got(1, Some(5))])]));
        assert!(linear(&[
            (0, 9, &[Put(1, 5)]),
            (1, 2, &[Removed(1, false)]),
            (3, 4, &[Got(1, None)]),
            (5, 6, &[Removed(1, true)])
        ]));
        assert!(linear(&[
            (0, 1, &[Put(1, 5), Put(2, 6)]),
            (2, 3, &[Got(1, Some(5)), Removed(2, true)]),
            (4, 5, &[Got(2, None)])
        ]));
    }

    #[test]
    fn what_returned_before_another_began_is_before_it() {
        assert!(!linear(&[(0, 1, &[Put(1, 5)]), (2, 3, &[Got(1, None)])]), "a stale read");
        assert!(!linear(&[(0, 1, &[Put(1, 5)]), (2, 3, &[Removed(1, false)])]));
        assert!(!linear(&[(0, 1, &[Removed(1, true)])]), "of nothing");
    }

    #[test]
    fn one_caller_does_not_go_back() {
        // It was not there to be removed, so nobody can see what was there before.
        let put = (3, 9, &[Put(1, 5)][..]);
        let remove = (2, 11, &[Removed(1, true)][..]);
        assert!(!linear(&[
            (0, 1, &[Put(1, 4)]),
            remove,
            (4, 5, &[Removed(1, false)]),
            (6, 7, &[Got(1, Some(4))]),
            put
        ]));
        assert!(!linear(&[put, (4, 5, &[Got(1, Some(5))]), (6, 7, &[Got(1, None)])]), "seen, and then not");
    }

    #[test]
    fn the_steps_of_a_call_are_done_at_once() {
        assert!(!linear(&[(0, 9, &[Put(1, 5), Put(2, 5)]), (1, 2, &[Got(1, Some(5)), Got(2, None)])]));
        // Write skew.
        assert!(!linear(&[(0, 9, &[Got(1, None), Put(2, 5)]), (1, 8, &[Got(2, None), Put(1, 5)])]));
    }
}
