//! Keys for records that are in an order, and have no other number than that of their place in it: between
//! any two there is room for another.
//!
//! ```text
//! label  u64 | u32 | u32 | ...    most significant byte first; the last number is not zero
//! ```
//!
//! Labels are compared by their bytes: number by number, and a label before all that begin with it. What goes
//! behind the last one is some steps above it, far from the end of the numbers; what goes between two is
//! between their first different numbers, or, where these are neighbours, gets one number more. Records that
//! are put in order at one place, upwards or downwards, go by small steps from the one before, so that a
//! number more is needed after millions of them. A program that puts each next record beside another than the
//! last one, turn by turn, at one place makes keys longer by four bytes for some ten records.

/// Bytes of the first number of a label, and of each other.
const FIRST_BYTES: usize = 8;
const BYTES: usize = 4;
/// How far apart labels are that are made in order: the first numbers, and all others.
const FIRST_STEP: u64 = 1 << 20;
const STEP: u64 = 1 << 10;

/// A label between two, of which the first is below the second, or below or above all if there is none. None
/// if there is none between these: one of them is no label.
pub(super) fn between(below: Option<&[u8]>, above: Option<&[u8]>) -> Option<Vec<u8>> {
    let label = toward(below, above)?;
    let is_between =
        below.is_none_or(|below| *below < label[..]) && above.is_none_or(|above| label[..] < *above);
    is_between.then_some(label)
}

/// A label between two, if these are labels; none if the second ends where there is no room yet.
fn toward(below: Option<&[u8]>, above: Option<&[u8]>) -> Option<Vec<u8>> {
    // Which of the two was made later, as a rule.
    let (below_len, above_len) = (below.map_or(0, <[u8]>::len), above.map_or(0, <[u8]>::len));
    let (mut below, mut above) = (below.unwrap_or_default(), above);
    let mut label = Vec::new();
    loop {
        let (bytes, step) = if label.is_empty() { (FIRST_BYTES, FIRST_STEP) } else { (BYTES, STEP) };
        // What follows the end of a label is above nothing; so is what comes before all.
        let low = number(&mut below, bytes);
        let high = match &mut above {
            Some(above) => u128::from(number(above, bytes)),
            None => 1 << (8 * bytes),
        };
        let gap = high.saturating_sub(u128::from(low));
        if gap >= 2 {
            // Less than the gap, and so within the number's bytes.
            let half = (gap / 2) as u64;
            let at = match (below_len, above_len) {
                (0, 0) => half,
                (_, 0) => low + step.min(half),
                (0, _) => (high - u128::from(step.min(half))) as u64,
                (low_len, high_len) if low_len > high_len => low + step.min(half),
                (low_len, high_len) if low_len < high_len => (high - u128::from(step.min(half))) as u64,
                _ => low + half,
            };
            push(&mut label, at, bytes);
            return Some(label);
        }
        push(&mut label, low, bytes);
        if gap == 1 {
            // Whatever follows here is below the second.
            above = None;
        } else if above.is_some_and(<[u8]>::is_empty) {
            return None;
        }
    }
}

/// Takes the next number of a label; zero behind its end.
fn number(label: &mut &[u8], bytes: usize) -> u64 {
    let (taken, rest) = label.split_at(bytes.min(label.len()));
    *label = rest;
    let value = taken.iter().fold(0, |value, &byte| value << 8 | u64::from(byte));
    value << (8 * (bytes - taken.len()) as u32 % 64)
}

fn push(label: &mut Vec<u8>, number: u64, bytes: usize) {
    label.extend(&number.to_be_bytes()[FIRST_BYTES - bytes..]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Of two that are labels.
    fn between(below: Option<&[u8]>, above: Option<&[u8]>) -> Vec<u8> {
        super::between(below, above).expect("both are labels")
    }

    proptest! {
        /// Wherever labels are put, each is between its neighbours, and none ends with a zero.
        #[test]
        fn there_is_room_between_any_two(
            places in proptest::collection::vec(
                prop_oneof![any::<u16>(), Just(0), Just(1), Just(u16::MAX)],
                1..600,
            ),
        ) {
            let mut labels: Vec<Vec<u8>> = Vec::new();
            for place in places {
                let at = usize::from(place) * (labels.len() + 1) / (1 << 16);
                let below = at.checked_sub(1).map(|at| &labels[at][..]);
                let label = between(below, labels.get(at).map(|label| &label[..]));
                prop_assert!(below.is_none_or(|below| below < &label[..]));
                prop_assert!(labels.get(at).is_none_or(|above| label < *above));
                prop_assert!(
                    label[label.len() - BYTES..] != [0; BYTES]
                        || label.len() == FIRST_BYTES && label != [0; 8]
                );
                labels.insert(at, label);
            }
        }
    }

    #[test]
    fn what_is_put_in_order_stays_short() {
        let first = between(None, None);
        let (mut up, mut down) = (first.clone(), first.clone());
        for _ in 0..1_000_000 {
            up = between(Some(&up), None);
            down = between(None, Some(&down));
        }
        assert_eq!((up.len(), down.len()), (8, 8));
        let next = between(Some(&first), Some(&up));
        let (mut rising, mut falling) =
            (between(Some(&first), Some(&next)), between(Some(&first), Some(&next)));
        for _ in 0..1_000_000 {
            rising = between(Some(&rising), Some(&next));
            falling = between(Some(&first), Some(&falling));
        }
        assert!(rising.len() <= 16 && falling.len() <= 16, "{} and {}", rising.len(), falling.len());
    }

    /// Behind the last of all numbers, and before the first, there is another number. What comes before all
    /// goes far up in it: what comes before that goes below.
    #[test]
    fn where_there_is_no_end_to_numbers() {
        let most = vec![0xff; 8];
        let label = between(Some(&most), None);
        assert!(label > most && label.len() == 12);
        assert_eq!(
            between(None, Some(&[0, 0, 0, 0, 0, 0, 0, 1])),
            [0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xfc, 0]
        );
    }

    /// Whatever was written into a database past its handle.
    #[test]
    fn between_what_are_no_labels_there_may_be_none() {
        for (below, above) in [
            (None, Some(&[][..])),
            (None, Some(&[0; 8][..])),
            (None, Some(&[0; 3])),
            (Some(&[5][..]), Some(&[5, 0, 0, 0])),
            (Some(&[0, 0, 0, 0, 0, 0, 0, 5]), Some(&[0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0])),
            (Some(&[2]), Some(&[1])),
            (Some(&[1; 8]), Some(&[1; 8])),
        ] {
            assert_eq!(super::between(below, above), None, "{below:?} {above:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_between_any_bytes_is_so(
            below in proptest::option::of(proptest::collection::vec(
                prop_oneof![Just(0u8), Just(1), Just(0xff)],
                0..20,
            )),
            above in proptest::option::of(proptest::collection::vec(
                prop_oneof![Just(0u8), Just(1), Just(0xff)],
                0..20,
            )),
        ) {
            if let Some(label) = super::between(below.as_deref(), above.as_deref()) {
                prop_assert!(below.is_none_or(|below| below < label));
                prop_assert!(above.is_none_or(|above| label < above));
            }
        }
    }
}
