//! How long records are there, as arguments and texts say it.

use std::time::Duration;

use sablecat::{Lifetime, Moment};

/// The units of times, and their seconds.
const UNITS: [(&str, f64); 5] = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];

/// A time to live: a number, and a unit or none, for seconds.
pub(crate) fn ttl(text: &str) -> Result<Duration, String> {
    let unit = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    let seconds =
        if unit.is_empty() { Some(1.0) } else { UNITS.iter().find(|one| one.0 == unit).map(|one| one.1) };
    let number = number.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number
        .zip(seconds)
        .and_then(|(number, seconds)| Duration::try_from_secs_f64(number * seconds).ok())
        .ok_or_else(|| "it is a number of seconds, or one with ms, s, m, h or d".to_owned())
}

/// From when on a record is gone, in milliseconds since 1970; none: never.
pub(crate) fn expires(lifetime: Lifetime) -> Option<u64> {
    match lifetime {
        Lifetime::Until(moment) => Some(moment.ms),
        Lifetime::Unlimited | Lifetime::For(_) => None,
    }
}

/// The lifetime that ends so.
pub(crate) fn until(expires: Option<u64>) -> Lifetime {
    expires.map_or(Lifetime::Unlimited, |ms| Lifetime::Until(Moment { ms }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_to_live_are_numbers_with_units() {
        for (text, ms) in [
            ("0", 0),
            ("5", 5000),
            ("1.5s", 1500),
            ("20ms", 20),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("2d", 172_800_000),
        ] {
            assert_eq!(ttl(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for wrong in ["", "s", "-1", "1w", "1 s", "nan", "inf", "1e999", "1e300d"] {
            assert!(ttl(wrong).is_err(), "{wrong}");
        }
        assert_eq!(expires(until(Some(7))), Some(7));
        assert_eq!(expires(until(None)), None);
    }
}
