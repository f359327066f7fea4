//! The file that a run of suites leaves: where, when and how it ran, and what each suite came to.
//!
//! It is written anew after each suite, beside itself and then under its name, so that what is finished is
//! there whatever becomes of the rest.

use std::fs;
use std::io::{self, Read, Write};
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
/// {"format": 1, "sablecat": "0.1.0", "build": "b0c39e1f40a7d852", "began": "2026-01-31 23:59 UTC",
///  "command": "sablecat papers wp43", "machine": {"cpu", "cpus", "memory_mb", "system"}, "finished": true,
///  "suites": [a report each]}
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    format: u32,
    /// The version that ran.
    #[serde(rename = "sablecat")]
    pub version: String,
    /// Which build of it: a checksum of the program. Files that are older have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
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
            build: build(Path::new("/proc/self/exe")).ok(),
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
        let what = |error: io::Error| format!("cannot write {}: {error}", path.display());
        if is_special(path) {
            let is_dir = path.is_dir();
            return if is_dir { Err(what(io::ErrorKind::IsADirectory.into())) } else { Ok(()) };
        }
        let beside = beside(path);
        fs::File::create(&beside).and_then(|_| fs::remove_file(&beside)).map_err(what)
    }

    /// Puts them into a file, in the place of what it had.
    ///
    /// # Errors
    /// A sentence, when that fails; a file that was there is then as it was.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let what = |error: io::Error| format!("cannot write {}: {error}", path.display());
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

/// A checksum of a program (FNV-1a, of words of eight bytes): other bytes have another, as a rule. It says
/// which build has run where nothing else does: a commit is not known to who builds from an archive, and a
/// file's time is that of a copy.
///
/// # Errors
/// When the program cannot be read.
fn build(program: &Path) -> io::Result<String> {
    const START: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut file = fs::File::open(program)?;
    let (mut sum, mut part) = (START, vec![0; 1 << 20]);
    loop {
        let read = read_full(&mut file, &mut part)?;
        for word in part[..read].chunks(8) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            sum = (sum ^ u64::from_le_bytes(bytes)).wrapping_mul(PRIME);
            // So that the upper bits of a word reach the lower ones of the sum.
            sum ^= sum >> 32;
        }
        if read < part.len() {
            return Ok(format!("{sum:016x}"));
        }
    }
}

/// As many bytes as there is room for, or as there are.
fn read_full(file: &mut fs::File, into: &mut [u8]) -> io::Result<usize> {
    let mut at = 0;
    while at < into.len() {
        match file.read(&mut into[at..]) {
            Ok(0) => break,
            Ok(bytes) => at += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(at)
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
        assert_eq!(read.build, results.build);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn files_of_before_are_read() {
        let place = Place::below(&std::env::temp_dir()).unwrap();
        let path = place.path().join("results.json");
        let file = r#"{"format": 1, "sablecat": "0.1.0", "began": "2026-01-31 23:59 UTC", "command": "c",
            "machine": {"cpu": "c", "cpus": 2, "memory_mb": 1, "system": "s"}, "finished": true, "suites": [
            {"suite": "latency", "rows": [{"system": "sablecat", "mode": "Sync", "op": "read alone",
            "keys": "random", "threads": 2, "records": 1, "cache_bytes": 1, "ops_per_s": 1, "mean": 1,
            "deviation": 0, "runs": [1], "median_of": 1, "errors": 0, "rss_mb": 1, "disk_mb": 1,
            "latency": {"p50_us": 1, "p99_us": 2, "p999_us": 3, "max_us": 4, "stall": "none"}}],
            "grids": [{"title": "t", "heads": ["a"], "text_columns": 1, "rows": [["b"]], "remarks": [],
            "charted": {"unit": "u", "paper": null, "lines": [
            {"label": "l", "is_behind": false, "paper": null, "values": [["sablecat", 1]]}]}}]},
            {"suite": "threen1", "rows": [{"system": "sablecat", "options": "NoSync", "durability": "NoSync",
            "start": 1, "finish": 2, "workers": 3, "block": 4, "longest": 5, "highest": 6, "reads": 7,
            "updates": 8, "elapsed_s": 9, "reads_per_s": 1, "updates_per_s": 2, "cpu_s": 3,
            "reads_per_cpu_s": 4, "updates_per_cpu_s": 5, "median_of": 1, "kills": 0, "correct": true}]}]}"#;
        fs::write(&path, file).unwrap();
        let read = Results::read(&path).unwrap();
        assert_eq!((&read.build, read.suites.len()), (&None, 2));
        let latency = read.suites[0].operations()[0].latency.as_ref().unwrap();
        assert_eq!((latency.range(), read.suites[0].grids[0].range(0, 0)), (None, None));
    }

    #[test]
    fn programs_that_differ_in_a_byte_are_other_builds() {
        let place = Place::below(&std::env::temp_dir()).unwrap();
        let path = place.path().join("program");
        let of = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            build(&path).unwrap()
        };
        // Longer than what is read at once.
        let mut program: Vec<u8> = (0..(1 << 20) + 13).map(|n: u32| (n % 251) as u8).collect();
        let first = of(&program);
        assert_eq!((of(&program), first.len()), (first.clone(), 16));
        for at in [0, 7, (1 << 20) - 1, 1 << 20, program.len() - 1] {
            program[at] ^= 0x80;
            assert_ne!(of(&program), first, "{at}");
            program[at] ^= 0x80;
        }
        assert!(build(&place.path().join("absent")).is_err());
        assert_eq!(Results::begin([]).build, Results::begin([]).build);
        assert!(Results::begin([]).build.is_some(), "that of these tests");
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
