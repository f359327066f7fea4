//! What came of the cases of a file, and how ours compares with SQLite as it is.

use std::collections::{BTreeMap, HashMap};

use super::known::{Known, Reason};

/// So much is shown of what a case has got.
const SHOWN: usize = 300;

/// A file in one of the programs.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The cases in their order, with a number where a name comes more than once, and whether each passed.
    cases: Vec<(String, bool)>,
    /// What was expected of each case that failed, and what it got.
    said: HashMap<String, String>,
    /// How it ended, if not by itself.
    ended: String,
}

impl Outcome {
    /// Of what the shim has written and what the program has printed.
    pub(super) fn read(cases: &str, output: &str, ended: &str) -> Outcome {
        let mut outcome = Outcome::default();
        let (mut times, mut from) = (HashMap::new(), HashMap::new());
        for line in cases.lines() {
            let Some((kind, name)) = line.split_once(' ') else { continue };
            let number = times.entry(name).or_insert(0u32);
            *number += 1;
            let numbered = if *number == 1 { name.to_owned() } else { format!("{name}#{number}") };
            if kind == "failed" {
                let begin = from.entry(name).or_insert(0);
                if let Some((said, end)) = said(output, name, *begin) {
                    *begin = end;
                    outcome.said.insert(numbered.clone(), said);
                }
            }
            outcome.cases.push((numbered, kind == "passed"));
        }
        outcome.ended = ended.trim().to_owned();
        if outcome.ended.is_empty() && !output.contains(" errors out of ") {
            let last: Vec<&str> = output.lines().filter(|line| !line.is_empty()).collect();
            outcome.ended = format!("the script failed: {}", last.last().copied().unwrap_or("no message"));
            // What failed stands before the lines about where.
            if let Some(at) = last.iter().position(|line| line.starts_with("    while executing")) {
                outcome.ended = format!("the script failed: {}", last[at.saturating_sub(1)]);
            }
        }
        outcome
    }
}

/// What the program printed of a failed case, from a place on, and where that ends.
fn said(output: &str, name: &str, from: usize) -> Option<(String, usize)> {
    let mark = format!("! {name} expected: ");
    let error = format!("{name}...\nError: ");
    let rest = &output[from..];
    let (begin, text) = match (rest.find(&mark), rest.find(&error)) {
        (Some(at), error) if error.is_none_or(|error| at < error) => (at, &rest[at + mark.len()..]),
        (_, Some(at)) => (at, &rest[at + name.len() + 4..]),
        _ => return None,
    };
    let got = format!("\n! {name} got:      ");
    let line = |text: &str| {
        let end = text.char_indices().nth(SHOWN).map_or(text.len(), |(at, _)| at);
        text[..end].split("\n! ").next().unwrap_or_default().to_owned()
    };
    let text = match text.split_once(&got) {
        Some((expected, after)) if rest[begin..].starts_with(&mark) => {
            let after = after.split_once("]\n").map_or(after, |(got, _)| got);
            format!("expected {}, got {}]", line(expected), line(after))
        }
        _ => text.lines().next().unwrap_or_default().to_owned(),
    };
    Some((text, from + begin + mark.len()))
}

/// Ours against SQLite as it is, of a file or of many.
#[derive(Debug, Default)]
pub(super) struct Compared {
    name: String,
    files: usize,
    /// Files that are left out.
    left_out: usize,
    /// Cases that pass on SQLite as it is, and of these,
    stock: usize,
    /// those that pass on ours,
    passed: usize,
    /// those that need not, by the kind of the reason,
    excused: BTreeMap<String, usize>,
    /// those that should, as is known,
    defects: usize,
    /// and those that should, as is not. Each with what it got.
    pub(super) failed: Vec<(String, String)>,
    /// Said to fail, and pass.
    stale: Vec<String>,
    notes: Vec<String>,
}

impl Compared {
    /// A file that is not run on ours.
    pub(super) fn left_out(name: String, stock: &Outcome, reason: &Reason) -> Compared {
        let passed = stock.cases.iter().filter(|(_, passed)| *passed).count();
        let mut compared = Compared { name, files: 1, left_out: 1, stock: passed, ..Compared::default() };
        compared.excuse(reason, passed);
        compared
    }

    pub(super) fn new(name: String, stock: &Outcome, ours: &Outcome, known: &Known) -> Compared {
        let mut compared = Compared { files: 1, ..Compared::default() };
        let found: HashMap<&str, bool> = ours.cases.iter().map(|(case, ok)| (case.as_str(), *ok)).collect();
        let (mut missing, mut is_cut_short) = (Vec::new(), false);
        for (case, _) in stock.cases.iter().filter(|(_, passed)| *passed) {
            compared.stock += 1;
            let there = found.get(case.as_str());
            match (there, known.case(&name, case, there.is_some())) {
                (Some(true), reason) => {
                    compared.passed += 1;
                    if reason.is_some_and(|reason| reason.is_exact) {
                        compared.stale.push(format!("{name} {case}"));
                    }
                }
                (_, Some(reason)) => {
                    // Why it was not reached is why the script ended before it.
                    is_cut_short |= there.is_none() && !reason.may_be_absent();
                    compared.excuse(reason, 1);
                }
                (Some(false), None) => {
                    let said = ours.said.get(case).cloned().unwrap_or_default();
                    compared.failed.push((case.clone(), said));
                }
                (None, None) => missing.push(case.clone()),
            }
        }
        if let Some(first) = missing.first() {
            let last = ours.cases.last().map_or("the beginning", |(case, _)| case.as_str());
            let why = match ours.ended.is_empty() {
                true => "it was passed over".to_owned(),
                false => format!("{} after {last}", ours.ended),
            };
            let said = format!("{} cases from {first} on were not reached: {why}", missing.len());
            compared.failed.extend(missing.into_iter().map(|case| (case, String::new())));
            compared.notes.push(said);
        } else if !ours.ended.is_empty() && stock.ended.is_empty() {
            compared.notes.push(format!("it ended otherwise than on SQLite: {}", ours.ended));
            if !is_cut_short {
                compared.failed.push(("the end".to_owned(), String::new()));
            }
        }
        if !stock.ended.is_empty() {
            compared.notes.push(format!("on SQLite as it is: {}", stock.ended));
        }
        compared.name = name;
        compared
    }

    fn excuse(&mut self, reason: &Reason, cases: usize) {
        match reason.is_defect() {
            true => self.defects += cases,
            false => *self.excused.entry(reason.kind.clone()).or_default() += cases,
        }
    }

    /// A line about a file, and more where something is to be seen to.
    pub(super) fn line(&self) -> String {
        let mut text = format!("{:28} {:5} {}", self.name, self.stock, self.counts());
        for (case, said) in self.failed.iter().filter(|(_, said)| !said.is_empty()) {
            text.push_str(&format!("\n    {case}: {}", said.replace('\n', "\n        ")));
        }
        for note in &self.notes {
            text.push_str(&format!("\n    {note}"));
        }
        for stale in &self.stale {
            text.push_str(&format!("\n    listed, and passes: {stale}"));
        }
        text
    }

    fn counts(&self) -> String {
        let excused: Vec<String> = self.excused.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
        let mut text = format!("passed {}", self.passed);
        if !excused.is_empty() {
            text.push_str(&format!(", not applicable {}", excused.join(" + ")));
        }
        if self.defects > 0 {
            text.push_str(&format!(", known defects {}", self.defects));
        }
        if !self.failed.is_empty() {
            text.push_str(&format!(", FAILED {}", self.failed.len()));
        }
        text
    }

    pub(super) fn add(&mut self, other: Compared) {
        self.files += other.files;
        self.left_out += other.left_out;
        self.stock += other.stock;
        self.passed += other.passed;
        self.defects += other.defects;
        for (kind, cases) in other.excused {
            *self.excused.entry(kind).or_default() += cases;
        }
        self.failed
            .extend(other.failed.into_iter().map(|(case, said)| (format!("{} {case}", other.name), said)));
        self.stale.extend(other.stale);
    }

    pub(super) fn summary(&self) -> String {
        format!(
            "{} files, of which {} were not run on ours; {} cases pass on SQLite as it is: {}; \
             {} are listed and pass",
            self.files,
            self.left_out,
            self.stock,
            self.counts(),
            self.stale.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_ends_early_failed_unless_it_is_said_why_cases_are_not_reached() {
        let known = Known::read("kind wal its log\na.test a-2 wal\nb.test b-2 absent\n").expect("a list");
        let ends_early = |letter: &str| {
            let stock = format!("passed {letter}-1\npassed {letter}-2\n");
            let ours = Outcome::read(&format!("passed {letter}-1\n"), "", "killed by signal 11");
            let stock = Outcome::read(&stock, "0 errors out of 2 tests", "");
            Compared::new(format!("{letter}.test"), &stock, &ours, &known).failed
        };
        assert_eq!(ends_early("a"), []);
        assert_eq!(ends_early("b"), [("the end".to_owned(), String::new())]);
        assert_eq!(ends_early("c"), [("c-2".to_owned(), String::new())]);
    }

    const LIST: &str = "kind wal its log\n\na.test a-2 wal\na.test a-4 defect wrong rows\n";

    #[test]
    fn what_passes_on_sqlite_alone_is_told_with_what_it_got() {
        let known = Known::read(LIST).expect("a list");
        let stock = "passed a-1\npassed a-2\npassed a-1\npassed a-3\npassed a-4\nfailed a-5\npassed a-6\n";
        let stock = Outcome::read(stock, "0 errors out of 7 tests", "");
        let output = "a-1... Ok\n\
                      a-2...\n! a-2 expected: [1]\n! a-2 got:      [2]\n\
                      a-1...\nError: no such table\na-3...\n! a-3 expected: [x\ny]\n! a-3 got:      [z]\n\
                      invalid command\n    while executing\n\"hexio\"\n";
        let ours = "passed a-1\nfailed a-2\nfailed a-1\nfailed a-3\npassed a-4\n";
        let compared = Compared::new("a.test".to_owned(), &stock, &Outcome::read(ours, output, ""), &known);
        assert_eq!((compared.stock, compared.passed, compared.defects), (6, 2, 0));
        assert_eq!(compared.excused.get("wal"), Some(&1));
        assert_eq!(compared.stale, ["a.test a-4"]);
        let failed: Vec<(&str, &str)> =
            compared.failed.iter().map(|(case, said)| (case.as_str(), said.as_str())).collect();
        assert_eq!(
            failed,
            [("a-1#2", "Error: no such table"), ("a-3", "expected [x\ny], got [z]"), ("a-6", "")]
        );
        assert_eq!(
            compared.notes,
            ["1 cases from a-6 on were not reached: the script failed: invalid command after a-4"]
        );
    }
}
