//! The course of a long run: where it is, for a person that waits for it, and whether it is to end before it
//! has come to its end.

use std::cell::Cell;
use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use sablecat_os::interrupt;

/// Tells on standard error where a run is: at once, and then now and then. Is over when it was asked to end,
/// or when its time is.
#[derive(Debug)]
pub struct Course {
    until: Option<Instant>,
    terminal: bool,
    told: Cell<Option<Instant>>,
    failed: Cell<u64>,
}

impl Course {
    /// Begins. From here on the first Ctrl-C, or `kill`, asks for the end of the run, and does not end the
    /// process.
    ///
    /// # Errors
    /// Those of the system.
    pub fn begin(minutes: Option<u64>) -> std::io::Result<Course> {
        interrupt::watch()?;
        let until = minutes
            .and_then(|minutes| Instant::now().checked_add(Duration::from_secs(minutes.saturating_mul(60))));
        Ok(Course { until, terminal: stderr().is_terminal(), told: Cell::default(), failed: Cell::default() })
    }

    /// Whether the run is to end after what is in hand.
    pub fn is_over(&self) -> bool {
        interrupt::is_asked() || self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Says something that stays.
    pub fn say(&self, what: &dyn Display) {
        if self.terminal && self.told.take().is_some() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
        println!("{what}");
    }

    /// Says what was found that is wrong.
    pub fn fail(&self, wrong: &dyn Display) {
        self.failed.set(self.failed.get() + 1);
        self.say(wrong);
    }

    /// How often that was.
    pub fn failed(&self) -> u64 {
        self.failed.get()
    }

    /// Says where the run is, if it was not said lately: on a terminal in one line that is written again and
    /// again, elsewhere a line each minute.
    pub fn tell(&self, at: &dyn Display) {
        let now = Instant::now();
        let pause = if self.terminal { Duration::from_secs(2) } else { Duration::from_secs(60) };
        if self.told.get().is_some_and(|told| now < told + pause) {
            return;
        }
        self.told.set(Some(now));
        let (before, after) = if self.terminal { ("\r\x1b[K", "") } else { ("", "\n") };
        // A user that does not listen misses nothing that counts.
        let _ = write!(stderr(), "{before}{at}; {} failed{after}", self.failed());
    }
}
