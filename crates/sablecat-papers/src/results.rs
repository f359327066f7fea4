//! The file that a run of suites leaves: where, when and how it ran, and what each suite came to.
//!
//! It is written anew after each suite, beside itself and then under its name, so that what is finished is
//! there whatever becomes of the rest.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::{OURS, Report};

/// What the file's `format` says; another number is another layout.
const FORMAT: u32 = 1;

/// What some suites came to on a machine.
///
/// ```text
/// {"format": 1, "sablecat": "0.1.0", "began": "2026-01-31 23:59 UTC", "command": "sablecat papers wp43",
///  "machine": {"cpu", "cpus", "memory_mb", "system"}, "finished": true, "suites": [a report each]}
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    format: u32,
    /// The version that ran.
    #[serde(rename = "sablecat")]
    pub version: String,
    /// When it began.
    pub began: String,
    /// What does the same again.
    pub command: String,
    /// Where it ran.
    pub machine: Machine,
    /// Whether all suites that were asked for are there, whole.
    pub finished: bool,
    /// What each of them came to.
    pub suites: Vec<Report>,
}

impl Results {
    /// Of a run that begins now, on this machine.
    pub fn begin(arguments: impl IntoIterator<Item = String>) -> Results {
        let words = arguments.into_iter().map(|word| quoted(&word));
        Results {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            began: utc(SystemTime::now()),
            command: [OURS.to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" "),
            machine: Machine::here(),
            finished: false,
            suites: Vec::new(),
        }
    }

    /// What a file has.
    ///
    /// # Errors
    /// A sentence, when it cannot be read or is something else.
    pub fn read(path: &Path) -> Result<Results, String> {
        let what = |why: String| format!("cannot read the results in {}: {why}", path.display());
        let text = fs::read_to_string(path).map_err(|error| what(error.to_string()))?;
        let results: Results = serde_json::from_str(&text)
            .map_err(|error| what(format!("{error}; it is no file that `papers --json` writes")))?;
        if results.format != FORMAT {
            let format = results.format;
            return Err(what(format!("it has format {format}, and this version reads {FORMAT}")));
        }
        for grid in results.suites.iter().flat_map(|report| &report.grids) {
            let heads = grid.heads.len();
            if let Some(row) = grid.rows.iter().find(|row| row.len() != heads) {
                let (title, cells) = (&grid.title, row.len());
                return Err(what(format!("{title:?} has a row of {cells} cells below {heads} heads")));
            }
        }
        Ok(results)
    }

    /// Finds out whether results can be put into a file, which stays as it is.
    ///
    /// # Errors
    /// A sentence, when they cannot.
    pub fn can_be_written(path: &Path) -> Result<(), String> {
        let what = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
        if is_special(path) {
            let is_dir = path.is_dir();
            return if is_dir { Err(what(std::io::ErrorKind::IsADirectory.into())) } else { Ok(()) };
        }
        let beside = beside(path);
        fs::File::create(&beside).and_then(|_| fs::remove_file(&beside)).map_err(what)
    }

    /// Puts them into a file, in the place of what it had.
    ///
    /// # Errors
    /// A sentence, when that fails; a file that was there is then as it was.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let what = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
        let mut text = serde_json::to_string_pretty(self).map_err(|error| what(error.into()))?;
        text.push('\n');
        // What is no file, a pipe say, cannot be put in another's place.
        if is_special(path) {
            return fs::write(path, text).map_err(what);
        }
        let beside = beside(path);
        let written = fs::File::create(&beside).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        let done = written.and_then(|()| fs::rename(&beside, path));
        done.map_err(|error| {
            // Whether or not it is there: what is told is why it is of no use.
            let _ = fs::remove_file(&beside);
            what(error)
        })
    }
}

/// Whether it is there, and no file.
fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| !metadata.is_file())
}

/// Where a file is written before it takes its place.
fn beside(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    beside.into()
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=,./:+%@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A time to the minute.
fn utc(time: SystemTime) -> String {
    let minutes = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 60);
    let (year, month, day) = date(minutes / (24 * 60));
    let (hour, minute) = (minutes / 60 % 24, minutes % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// Year, month and day of so many days after the first of 1970, by the Gregorian calendar: counted in years
/// that begin with March, so that the leap day is the last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + later, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beside::tests::row;
    use crate::field::Outcome;
    use crate::place::Place;
    use crate::protocol::Mode;
    use crate::{Grid, Suite, Table};

    #[test]
    fn what_was_written_is_read() {
        let place = Place::below(&std::env::temp_dir()).unwrap();
        let path = place.path().join("results.json");
        let mut results = Results::begin(["papers".to_owned(), "it's".to_owned()]);
        assert_eq!(results.command, r"sablecat papers 'it'\''s'");
        results.write(&path).unwrap();
        assert!(Results::read(&path).unwrap().suites.is_empty());
        let outcome = Outcome { rows: vec![row("a", Mode::Ds, "read", 1, 5.0)], ..Outcome::default() };
        results.suites.push(Report::of(Suite::Wp43, Some(1), outcome, vec![Table::new("t", 3)]));
        results.write(&path).unwrap();
        let read = Results::read(&path).unwrap();
        assert_eq!(read.suites[0].operations(), results.suites[0].operations());
        assert_eq!((&read.suites[0].tables, &read.began), (&results.suites[0].tables, &results.began));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn what_is_no_such_file_is_refused() {
        let place = Place::below(&std::env::temp_dir()).unwrap();
        let path = place.path().join("results.json");
        assert!(Results::read(&path).unwrap_err().contains("No such file"));
        fs::write(&path, "[]").unwrap();
        assert!(Results::read(&path).unwrap_err().contains("no file that `papers --json` writes"));
        let mut results = Results::begin([]);
        results.format = 9;
        results.write(&path).unwrap();
        assert!(Results::read(&path).unwrap_err().ends_with("it has format 9, and this version reads 1"));
        results.format = FORMAT;
        let mut grid = Grid::new("t", ["a", "b"], 1);
        grid.rows.push(vec!["c".to_owned()]);
        results.suites.push(Report::failed(Suite::Engine, String::new()));
        results.suites[0].grids.push(grid);
        results.write(&path).unwrap();
        let why = Results::read(&path).unwrap_err();
        assert!(why.ends_with("\"t\" has a row of 1 cells below 2 heads"), "{why}");
        let nowhere = place.path().join("absent/results.json");
        for unusable in [&nowhere, place.path()] {
            assert!(Results::can_be_written(unusable).unwrap_err().starts_with("cannot write "));
        }
        let before = fs::read(&path).unwrap();
        assert_eq!(Results::can_be_written(&path), Ok(()));
        assert_eq!(fs::read(&path).unwrap(), before);
        assert_eq!(Results::can_be_written(&place.path().join("new.json")), Ok(()));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "nothing is left");
        assert!(results.write(&nowhere).unwrap_err().starts_with("cannot write "));
    }

    #[test]
    fn days_have_dates() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (59, (1970, 3, 1)),
            (10_957, (2000, 1, 1)),
            (11_016, (2000, 2, 29)),
            (20_782, (2026, 11, 25)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(date(days), expected);
        }
        assert_eq!(utc(UNIX_EPOCH + std::time::Duration::from_secs(90_061)), "1970-01-02 01:01 UTC");
    }
}
