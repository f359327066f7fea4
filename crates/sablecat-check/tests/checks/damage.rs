//! Files that are changed behind the engine's back.

use sablecat_check::damage::{self, Verdict};
use sablecat_check::seeds;

#[test]
fn damage_is_reported_or_does_not_matter() {
    seeds::all("damage", 0..100);
}

#[test]
fn damage_is_met_often_enough_to_mean_something() {
    let mut sum = [0; 3];
    for seed in 1000..1040 {
        let verdicts = damage::tally(seed, 20).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        sum.iter_mut().zip(verdicts).for_each(|(sum, verdict)| *sum += verdict);
    }
    assert!(sum[Verdict::Reported as usize] > 50 && sum[Verdict::Harmless as usize] > 50, "{sum:?}");
}
