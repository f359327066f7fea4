//! One word for one thing: a type of the engine that is visible beyond its file has its name to itself. No
//! other visible type has it, and none that is private to another file.
//!
//! Private types of several files may share a name: let it be that of one idea in parallel places.

use std::collections::BTreeMap;

use super::Problem;
use crate::files::TextFile;
use crate::source;

const SOURCE: &str = "crates/sablecat/src/";
const KEYWORDS: [&str; 5] = ["struct ", "enum ", "trait ", "union ", "type "];
/// Types that are one thing in several files below a directory: where, their names, and why.
const PARALLEL: [(&str, &[&str], &str); 2] = [
    ("access/", &["Ends", "Freeing", "Load"], "an enum stands for that of each access method"),
    ("crypt/", &["EncryptionKey", "Keyring", "RunKey", "RunKeys"], "absent.rs has them without the feature"),
];

/// A type at the outermost level of a file.
struct Type<'f> {
    file: &'f TextFile,
    line: usize,
    /// The file, or the directory below which its name is one thing.
    home: &'f str,
    is_visible: bool,
}

pub(super) fn check(files: &[TextFile]) -> Vec<Problem> {
    let mut by_name: BTreeMap<String, Vec<Type<'_>>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is("rs") && !is_test(&file.path)) {
        let Some(path) = file.path.strip_prefix(SOURCE) else { continue };
        for (number, line) in source::code(&file.text).lines().enumerate() {
            let Some((name, is_visible)) = declared(line) else { continue };
            let parallel =
                |(home, names, _): &&(&str, &[&str], _)| path.starts_with(home) && names.contains(&name);
            let home = PARALLEL.iter().find(parallel).map_or(path, |&(home, ..)| home);
            let one = Type { file, line: number + 1, home, is_visible };
            by_name.entry(name.to_owned()).or_default().push(one);
        }
    }
    let mut problems = Vec::new();
    for (name, types) in &by_name {
        let [first, others @ ..] = &types[..] else { continue };
        if types.iter().any(|one| one.is_visible) {
            problems.extend(others.iter().filter(|one| one.home != first.home).map(|one| {
                let what =
                    format!("{} has a type {name}, too: give one a name that says more", first.file.path);
                Problem::new(one.file, one.line, what)
            }));
        }
    }
    problems
}

fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// The name of the type that a line declares at the outermost level, and whether that is visible beyond the
/// file.
fn declared(line: &str) -> Option<(&str, bool)> {
    let (is_visible, rest) = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => (true, rest.split_once(") ")?.1),
        Some(rest) => (true, rest.strip_prefix(' ')?),
        None => (false, line),
    };
    let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let rest = KEYWORDS.iter().find_map(|keyword| rest.strip_prefix(keyword))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    Some((&rest[..end], is_visible))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(texts: &[(&str, &str)]) -> Vec<(String, usize)> {
        let file = |&(path, text): &(&str, &str)| TextFile {
            path: format!("{SOURCE}{path}"),
            text: text.to_owned(),
        };
        let files: Vec<TextFile> = texts.iter().map(file).collect();
        check(&files)
            .into_iter()
            .map(|problem| (problem.path[SOURCE.len()..].to_owned(), problem.line))
            .collect()
    }

    #[test]
    fn a_visible_type_has_its_name_to_itself() {
        let private = ("log/scan.rs", "// text\nstruct End;\n");
        for visible in
            ["pub(super) enum End {}", "pub(in crate::txn) type End<'a> = &'a u8;", "pub trait End {}"]
        {
            let other = ("txn/end.rs", visible);
            assert_eq!(found(&[private, other]), [("txn/end.rs".to_owned(), 1)]);
            assert_eq!(found(&[other, private]), [("log/scan.rs".to_owned(), 2)]);
            assert_eq!(found(&[other, ("api/end.rs", visible)]).len(), 1);
        }
        assert_eq!(found(&[private, ("txn/end.rs", "struct End(u8);\n")]), [], "both are private");
        assert_eq!(
            found(&[private, ("txn/end.rs", "fn f() {\n    pub struct End;\n}\n// pub struct End;\n")]),
            []
        );
        assert_eq!(found(&[private, ("log/tests.rs", "pub(super) struct End;\n")]), []);
    }

    #[test]
    fn parallel_types_share_one_name_where_they_are_parallel() {
        let load = "pub(crate) struct Load<'t>(&'t u8);\n";
        assert_eq!(found(&[("access/whole.rs", load), ("access/btree/load.rs", load)]), []);
        assert_eq!(found(&[("access/whole.rs", load), ("env/load.rs", load)]).len(), 1);
        assert_eq!(
            found(&[("access/whole.rs", "pub struct A;\n"), ("access/flat/a.rs", "struct A;\n")]).len(),
            1
        );
    }
}
