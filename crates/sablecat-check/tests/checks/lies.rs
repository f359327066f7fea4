//! A disk that says that it has written what it has not.

use sablecat_check::lies;

#[test]
fn a_write_that_was_lost_or_went_elsewhere_is_never_believed() {
    let mut verdicts = [0; 3];
    for seed in 0..60 {
        let these = lies::tally(seed, 6).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        verdicts.iter_mut().zip(these).for_each(|(all, these)| *all += these);
    }
    assert!(verdicts[0] > 50 && verdicts[1] > 50, "lies were told, and met: {verdicts:?}");
}
