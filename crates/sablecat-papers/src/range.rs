//! How far the runs of one figure lie apart.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The least and the most of some runs, in the unit of their figure.
///
/// It is shown short, as what stands small below a figure: `387K–553K`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// What the least of them has.
    pub least: f64,
    /// What the most of them has.
    pub most: f64,
}

/// So many times the least the most is, where runs lie wide apart.
const WIDE: f64 = 1.5;

impl Range {
    /// Of some runs; none of fewer than two.
    pub(crate) fn of(runs: &[f64]) -> Option<Range> {
        let least = runs.iter().copied().min_by(f64::total_cmp)?;
        let most = runs.iter().copied().max_by(f64::total_cmp)?;
        (runs.len() > 1).then_some(Range { least, most })
    }

    /// The same in another unit, in which less may be more.
    pub(crate) fn map(self, unit: impl Fn(f64) -> f64) -> Range {
        let (one, other) = (unit(self.least), unit(self.most));
        Range { least: one.min(other), most: one.max(other) }
    }

    /// How many times the least the most is.
    pub fn times(self) -> f64 {
        self.most / self.least.max(f64::MIN_POSITIVE)
    }

    /// Whether the runs lie so far apart that the figure says little.
    pub fn is_wide(self) -> bool {
        self.times() >= WIDE
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, most) = (short(self.least), short(self.most));
        if least == most { f.write_str(&least) } else { write!(f, "{least}–{most}") }
    }
}

/// Three digits of a number, and more of none.
fn short(value: f64) -> String {
    let (scaled, unit) = match value {
        999_500.0.. => (value / 1e6, "M"),
        999.5.. => (value / 1e3, "K"),
        _ => (value, ""),
    };
    let digits = match scaled {
        99.95.. => 0,
        9.995.. => 1,
        0.0995.. => 2,
        0.00995.. => 3,
        _ => 4,
    };
    if scaled == 0.0 { "0".to_owned() } else { format!("{scaled:.digits$}{unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_of_several_runs() {
        assert_eq!(Range::of(&[]), None);
        assert_eq!(Range::of(&[7.0]), None);
        let range = Range::of(&[4.0, 2.0, 3.0]).unwrap();
        assert_eq!((range, range.times()), (Range { least: 2.0, most: 4.0 }, 2.0));
        let seconds = range.map(|rate| 1.0 / rate);
        assert_eq!(seconds, Range { least: 0.25, most: 0.5 });
        let is_wide = |most| Range { least: 100.0, most }.is_wide();
        assert_eq!([100.0, 149.0, 150.0].map(is_wide), [false, false, true]);
        assert!(Range { least: 0.0, most: 1.0 }.is_wide() && !Range { least: 0.0, most: 0.0 }.is_wide());
    }

    #[test]
    fn a_range_is_short() {
        let shown = |least, most| Range { least, most }.to_string();
        assert_eq!(shown(387_270.8, 553_190.4), "387K–553K");
        assert_eq!(shown(999_499.0, 5_436_983.3), "999K–5.44M");
        assert_eq!(shown(96.21, 1234.0), "96.2–1.23K");
        assert_eq!(shown(0.0512, 0.102), "0.051–0.10");
        assert_eq!(shown(0.0, 0.0049), "0–0.0049");
        assert_eq!(shown(5_000_001.0, 5_000_002.0), "5.00M", "no nearer than that");
    }
}
