//! The list of what is known to differ: `known.txt`.
//!
//! ```text
//! kind KIND SENTENCE              what cases of a kind test, or what is otherwise than in SQLite
//! FILE CASE KIND [SENTENCE]       these need not pass
//! FILE CASE absent [SENTENCE]     these need not be there, and pass if they are
//! FILE CASE defect SENTENCE       these should pass
//! ```
//!
//! `*` in a file or a case stands for anything. A file of which no case need pass, `*` alone, is not run. The
//! first line that fits counts.

use std::collections::BTreeSet;

use super::Failure;

const DEFECT: &str = "defect";
/// How many of some cases there are depends on how often SQLite allocates, or calls its VFS.
const ABSENT: &str = "absent";

/// Why cases differ.
#[derive(Debug)]
pub(super) struct Reason {
    pub(super) kind: String,
    /// It is about one case, so that it can be told when that passes.
    pub(super) is_exact: bool,
}

impl Reason {
    pub(super) fn is_defect(&self) -> bool {
        self.kind == DEFECT
    }

    pub(super) fn may_be_absent(&self) -> bool {
        self.kind == ABSENT
    }
}

#[derive(Debug)]
struct Entry {
    file: String,
    case: String,
    reason: Reason,
}

#[derive(Debug)]
pub(super) struct Known {
    entries: Vec<Entry>,
}

impl Known {
    pub(super) fn read(text: &str) -> Result<Known, Failure> {
        let (mut kinds, mut entries) = (BTreeSet::from([DEFECT, ABSENT]), Vec::new());
        for (number, line) in text.lines().enumerate() {
            let wrong = |what: &str| format!("known.txt, line {}: {what}", number + 1);
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split_whitespace();
            let mut word = |what| words.next().ok_or_else(|| wrong(what));
            let (file, case) = (word("no file")?, word("no case")?);
            if file == "kind" {
                kinds.insert(case);
                word("a kind without a sentence")?;
                continue;
            }
            let kind = word("no kind")?;
            if !kinds.contains(kind) {
                return Err(wrong(&format!("{kind:?} is no kind that was named above")).into());
            }
            if kind == DEFECT && words.next().is_none() {
                return Err(wrong("a defect without a sentence").into());
            }
            let is_exact = !file.contains('*') && !case.contains('*');
            let reason = Reason { kind: kind.to_owned(), is_exact };
            entries.push(Entry { file: file.to_owned(), case: case.to_owned(), reason });
        }
        Ok(Known { entries })
    }

    /// Why a file need not pass, whatever its cases.
    pub(super) fn whole(&self, file: &str) -> Option<&Reason> {
        self.of(file).find(|entry| entry.case == "*").map(|entry| &entry.reason)
    }

    /// Why a case need not pass, which is there or is not.
    pub(super) fn case(&self, file: &str, case: &str, is_there: bool) -> Option<&Reason> {
        let mut reasons = self.of(file).filter(|entry| fits(&entry.case, case)).map(|entry| &entry.reason);
        reasons.find(|reason| !is_there || reason.kind != ABSENT)
    }

    fn of(&self, file: &str) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| fits(&entry.file, file))
    }
}

/// Whether a pattern, in which `*` stands for anything, fits a text.
pub(super) fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| fits(after, &rest[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_that_is_checked_in_can_be_read() {
        Known::read(include_str!("known.txt")).expect("a list");
    }

    #[test]
    fn patterns_fit_as_they_say_and_the_first_line_counts() {
        assert!(fits("wal*.test", "wal2.test") && fits("*", "") && fits("a-1.*.2", "a-1.7.2"));
        assert!(!fits("wal", "wal2") && !fits("a-1.*.2", "a-1.2"));
        let list = "kind pager its cache\na.test *-oom.* absent\na*.test a-1* pager\n\
                    a.test a-12 defect wrong\nb.test * pager\n";
        let known = Known::read(list).expect("a list");
        let kind =
            |case| known.case("a.test", case, true).map(|reason| (reason.kind.as_str(), reason.is_exact));
        assert_eq!((kind("a-12"), kind("a-2")), (Some(("pager", false)), None));
        assert!(
            known.case("a.test", "2-oom.7", true).is_none()
                && known.case("a.test", "2-oom.7", false).is_some()
        );
        assert!(known.whole("b.test").is_some() && known.whole("a.test").is_none());
        for wrong in ["a.test a-1", "a.test a-1 pager", "a.test a-1 defect", "kind x"] {
            assert!(Known::read(wrong).is_err(), "{wrong}");
        }
    }
}
