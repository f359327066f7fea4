//! The engine's own bytes, mutated: refused, or as good as any.

use sablecat_check::{fuzz, seeds};

#[test]
fn mutated_pages_are_refused_or_sound() {
    seeds::all("fuzz pages", 0..1500);
}

#[test]
fn mutated_log_segments_are_refused_or_replayed() {
    seeds::all("fuzz log", 0..60);
}

#[test]
fn mutated_volumes_are_refused_or_read() {
    seeds::all("fuzz superblock", 0..60);
}

#[test]
fn mutations_get_past_the_checks_often_enough_to_mean_something() {
    let (believed, all) = fuzz::tally(10_000..10_040);
    assert!(believed.iter().all(|&believed| all / 20 < believed && believed < all), "{believed:?} of {all}");
}

/// A superblock without pages, whose page ids were not all free.
#[test]
fn an_empty_map_below_used_page_ids_is_refused() {
    seeds::all("fuzz superblock", 2398..2399);
}
