//! Calls that fail.

use sablecat_check::{deaths, faults, seeds};

#[test]
fn any_fault_at_any_call_of_a_workload_loses_nothing_and_says_so() {
    let outcome = faults::every_call(0, 20).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(outcome.failed > 100 && outcome.poisoned, "faults were met: {outcome:?}");
}

#[test]
fn a_fault_in_a_longer_workload_loses_nothing_and_says_so() {
    seeds::all("faults", 0..80);
}

#[test]
fn what_a_failed_flush_left_in_the_page_cache_is_not_built_upon() {
    for seed in 0..20 {
        faults::twice_anywhere(seed, 10).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
}

#[test]
fn whatever_fails_in_an_opening_that_succeeds_or_not_the_next_one_succeeds() {
    let mut failed = 0;
    for seed in 0..3 {
        failed += faults::openings(seed).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}")).failed;
    }
    assert!(failed > 100, "{failed} openings failed");
}

#[test]
fn a_fault_where_processes_share_an_environment_is_over_when_all_have_closed() {
    seeds::all("faults-shared", 0..20);
}

#[test]
fn a_fault_while_the_dead_are_mended_is_over_when_all_have_closed() {
    let mut outcome = faults::Outcome::default();
    for seed in 0..40 {
        let this = deaths::some(seed).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        outcome.failed += this.failed;
        outcome.poisoned |= this.poisoned;
    }
    assert!(outcome.failed > 20 && outcome.poisoned, "faults were met: {outcome:?}");
}

#[test]
fn a_full_disk_loses_nothing_and_room_helps() {
    let mut failed = 0;
    for seed in 0..60 {
        failed += faults::small_disk(seed).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}")).failed;
    }
    assert!(failed > 100, "the disks were small enough: {failed} steps failed");
}
