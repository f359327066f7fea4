//! Going back to earlier states.

use sablecat_check::seeds;

#[test]
fn every_state_since_the_oldest_epoch_can_be_gone_back_to() {
    seeds::all("backward", 0..30);
}

#[test]
fn power_may_fail_after_any_call_of_going_back() {
    seeds::all("backward-calls", 0..1);
}

#[test]
fn what_was_committed_at_a_time_is_found_again() {
    seeds::all("backward-times", 0..3);
}
