//! The calendar, for file names and for people: milliseconds since the beginning of 1970 in UTC, and what is
//! written for them.
//!
//! Leap seconds are not counted, as on every system that counts seconds since 1970. The arithmetic of days is
//! the usual one on years that begin in March, so that the leap day is the last of the year.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

const DAY_MS: u64 = 86_400_000;
/// Days from 1 March of the year 0 to 1 January 1970.
const EPOCH_DAYS: u64 = 719_468;
/// Days in 400 years.
const ERA_DAYS: u64 = 146_097;
/// The last year that is written with four digits.
const YEAR_MAX: u64 = 9999;

/// A moment in UTC, to the millisecond. Displayed as `2026-11-21T17:04:05.678Z`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Moment {
    /// Milliseconds since the beginning of 1970.
    pub ms: u64,
}

impl Moment {
    /// Year, month and day, each as people count them.
    fn date(self) -> (u64, u64, u64) {
        let days = self.ms / DAY_MS + EPOCH_DAYS;
        let (era, day_of_era) = (days / ERA_DAYS, days % ERA_DAYS);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        (era * 400 + year_of_era + u64::from(month <= 2), month, day)
    }

    /// As it stands in a file name: `20261121T170405Z`.
    #[must_use]
    pub fn compact(self) -> String {
        let (year, month, day) = self.date();
        let seconds = self.ms % DAY_MS / 1000;
        format!(
            "{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60
        )
    }

    /// Reads `2026-11-21`, `2026-11-21T17:04`, `2026-11-21 17:04:05` or `2026-11-21T17:04:05.678Z`: UTC in
    /// all cases, what is left out is zero. None for anything else, and for years before 1970.
    #[must_use]
    pub fn parse(text: &str) -> Option<Moment> {
        let text = text.strip_suffix('Z').unwrap_or(text);
        let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "0:0"));
        let mut parts = date.splitn(3, '-').map(number);
        let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
        let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
        let mut parts = clock.splitn(3, ':').map(number);
        let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next().unwrap_or(Some(0))?);
        if !(1970..=YEAR_MAX).contains(&year) || hour > 23 || minute > 59 || second > 59 || fraction.len() > 9
        {
            return None;
        }
        number(fraction)?;
        let thousandths = number(&format!("{fraction:0<3}")[..3])?;
        let moment = Moment {
            ms: days_to(year, month, day)? * DAY_MS
                + ((hour * 60 + minute) * 60 + second) * 1000
                + thousandths,
        };
        // A day that the month does not have comes back as one of the next.
        (moment.date() == (year, month, day)).then_some(moment)
    }
}

impl From<SystemTime> for Moment {
    /// Before 1970 is 1970.
    fn from(time: SystemTime) -> Moment {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment { ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX) }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.date();
        let (seconds, ms) = (self.ms % DAY_MS / 1000, self.ms % 1000);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{ms:03}Z",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60
        )
    }
}

fn number(digits: &str) -> Option<u64> {
    let plain = !digits.is_empty() && digits.len() <= 9 && digits.bytes().all(|b| b.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

/// Days from the beginning of 1970 to a date.
fn days_to(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = year - u64::from(month <= 2);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let year_of_era = year % 400;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(year / 400 * ERA_DAYS + day_of_era - EPOCH_DAYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_calendars_have_them() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_795_280_645_678, "2026-11-21T17:04:05.678Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Moment { ms }.to_string(), text);
            assert_eq!(Moment::parse(text), Some(Moment { ms }));
        }
        assert_eq!(Moment { ms: 1_795_280_645_678 }.compact(), "20261121T170405Z");
    }

    #[test]
    fn every_day_is_read_as_it_is_written() {
        for day in (0..200_000).step_by(13) {
            let moment = Moment { ms: day * DAY_MS + day };
            assert_eq!(Moment::parse(&moment.to_string()), Some(moment));
        }
    }

    #[test]
    fn what_is_left_out_is_zero_and_what_cannot_be_is_refused() {
        let whole = Moment::parse("2026-11-21T17:00:00.000Z");
        assert_eq!(Moment::parse("2026-11-21 17:00"), whole);
        assert_eq!(Moment::parse("2026-11-21T17:00:00.0"), whole);
        assert_eq!(Moment::parse("2026-11-21"), Moment::parse("2026-11-21T00:00Z"));
        for wrong in [
            "",
            "now",
            "2026-11",
            "2026-02-30",
            "2026-13-01",
            "1969-12-31",
            "2026-01-01T24:00",
            "2026-01-01T1",
            "2026-01-01T01:02:03.x",
        ] {
            assert_eq!(Moment::parse(wrong), None, "{wrong}");
        }
    }
}
