//! docs/format.md names the versions that the code writes.
//!
//! Its table of versions has rows `| what | version | file | constant |`. Each row must be true of the code,
//! and each version constant of the engine must have a row.

use super::Problem;
use crate::files::TextFile;
use crate::source;

const DOCUMENT: &str = "docs/format.md";
const SOURCE: &str = "crates/sablecat/src/";

pub(super) fn check(files: &[TextFile]) -> Vec<Problem> {
    let Some(document) = files.iter().find(|file| file.path == DOCUMENT) else {
        return vec![Problem { path: DOCUMENT.to_owned(), line: 0, what: "is missing".to_owned() }];
    };
    let rows: Vec<Row<'_>> =
        document.text.lines().enumerate().filter_map(|(number, line)| Row::of(number + 1, line)).collect();
    let mut problems = Vec::new();
    for row in &rows {
        let found = files.iter().find(|file| file.path == row.path).and_then(|file| {
            let mut constants = constants(&file.text);
            constants.find(|constant| constant.name == row.constant)
        });
        match found {
            None => problems.push(Problem::new(
                document,
                row.line,
                format!("{} has no constant {}", row.path, row.constant),
            )),
            Some(found) if found.value != row.version => {
                problems.push(Problem::new(
                    document,
                    row.line,
                    format!("says version {}, and {} says {}", row.version, row.path, found.value),
                ));
            }
            Some(_) => {}
        }
    }
    for file in files.iter().filter(|file| file.is("rs") && file.path.starts_with(SOURCE)) {
        for constant in constants(&file.text) {
            if !rows.iter().any(|row| row.path == file.path && row.constant == constant.name) {
                problems.push(Problem::new(
                    file,
                    constant.line,
                    format!("{} is not in the table of versions in {DOCUMENT}", constant.name),
                ));
            }
        }
    }
    problems
}

/// A row of the table of versions.
struct Row<'d> {
    line: usize,
    version: &'d str,
    path: &'d str,
    constant: &'d str,
}

impl<'d> Row<'d> {
    fn of(line: usize, text: &'d str) -> Option<Row<'d>> {
        let cells: Vec<&str> =
            text.strip_prefix('|')?.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        match cells[..] {
            [_, version, path, constant, ""] if path.starts_with(SOURCE) => {
                Some(Row { line, version, path, constant })
            }
            _ => None,
        }
    }
}

/// A constant whose name ends in VERSION.
struct Constant {
    line: usize,
    name: String,
    value: String,
}

fn constants(text: &str) -> impl Iterator<Item = Constant> {
    let code = source::code(text);
    let found: Vec<Constant> = source::words(&code, "const")
        .filter_map(|at| {
            let (declaration, _) = code[at + "const".len()..].split_once(';')?;
            let (name, value) = declaration.split_once('=')?;
            let name = name.split(':').next()?.trim();
            name.ends_with("VERSION").then(|| Constant {
                line: source::line_of(&code, at),
                name: name.to_owned(),
                value: value.trim().to_owned(),
            })
        })
        .collect();
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_both_ways() {
        let code =
            TextFile { path: format!("{SOURCE}log/record.rs"), text: "const VERSION: u8 = 2;\n".to_owned() };
        let document = |row: &str| TextFile { path: DOCUMENT.to_owned(), text: row.to_owned() };
        let right = document("| record | 2 | `crates/sablecat/src/log/record.rs` | `VERSION` |\n");
        let wrong = document("| record | 1 | `crates/sablecat/src/log/record.rs` | `VERSION` |\n");
        assert_eq!(check(&[code, right]), []);
        let code = || TextFile {
            path: format!("{SOURCE}log/record.rs"),
            text: "const VERSION: u8 = 2;\n".to_owned(),
        };
        assert_eq!(check(&[code(), wrong]).len(), 1);
        assert_eq!(check(&[code(), document("nothing\n")]).len(), 1);
    }
}
