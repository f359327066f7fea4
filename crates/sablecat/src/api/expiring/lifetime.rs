//! How long a record is there.

use std::time::{Duration, SystemTime};

use sablecat_os::calendar::Moment;

/// How long a record is there: see [`Expiring`](crate::Expiring).
///
/// ```
/// use std::time::Duration;
///
/// use sablecat::{Lifetime, Moment};
///
/// assert_eq!(Lifetime::from(Duration::from_secs(60)), Lifetime::For(Duration::from_secs(60)));
/// let tomorrow = Moment::parse("2026-11-25").expect("a day");
/// assert_eq!(Lifetime::from(tomorrow), Lifetime::Until(tomorrow));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lifetime {
    /// Until it is removed.
    Unlimited,
    /// For this long from the transaction's time on, rounded up to the millisecond.
    For(Duration),
    /// Until this moment; from then on it is gone.
    Until(Moment),
}

impl From<Duration> for Lifetime {
    fn from(duration: Duration) -> Lifetime {
        Lifetime::For(duration)
    }
}

impl From<Moment> for Lifetime {
    fn from(moment: Moment) -> Lifetime {
        Lifetime::Until(moment)
    }
}

impl From<SystemTime> for Lifetime {
    fn from(time: SystemTime) -> Lifetime {
        Lifetime::Until(time.into())
    }
}

impl Lifetime {
    /// From when on a record is gone that is set at a time; 0: never.
    pub(super) fn gone_from(self, now: u64) -> u64 {
        match self {
            Lifetime::Unlimited => 0,
            Lifetime::For(duration) => {
                let ms = duration.as_nanos().div_ceil(1_000_000);
                now.saturating_add(u64::try_from(ms).unwrap_or(u64::MAX)).max(1)
            }
            // The beginning of 1970 is long past; 0 says something else.
            Lifetime::Until(moment) => moment.ms.max(1),
        }
    }

    /// What says that a record is gone from a time on.
    pub(super) fn until(gone_from: u64) -> Lifetime {
        if gone_from == 0 { Lifetime::Unlimited } else { Lifetime::Until(Moment { ms: gone_from }) }
    }

    /// The same, from a time on.
    pub(super) fn remaining(gone_from: u64, now: u64) -> Lifetime {
        if gone_from == 0 {
            Lifetime::Unlimited
        } else {
            Lifetime::For(Duration::from_millis(gone_from.saturating_sub(now)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_end_when_they_say() {
        let ms = |ms| Lifetime::For(Duration::from_millis(ms)).gone_from(1000);
        assert_eq!((ms(0), ms(1), ms(u64::MAX)), (1000, 1001, u64::MAX));
        assert_eq!(Lifetime::For(Duration::from_micros(1)).gone_from(1000), 1001);
        assert_eq!(Lifetime::For(Duration::MAX).gone_from(1000), u64::MAX);
        assert_eq!(Lifetime::For(Duration::ZERO).gone_from(0), 1);
        assert_eq!(Lifetime::Until(Moment { ms: 0 }).gone_from(1000), 1);
        assert_eq!(Lifetime::Unlimited.gone_from(1000), 0);
        assert_eq!(Lifetime::until(7), Lifetime::Until(Moment { ms: 7 }));
        assert_eq!(Lifetime::remaining(7, 5), Lifetime::For(Duration::from_millis(2)));
        assert_eq!(
            (Lifetime::until(0), Lifetime::remaining(0, 5)),
            (Lifetime::Unlimited, Lifetime::Unlimited)
        );
    }
}
