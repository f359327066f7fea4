//! Lines are narrow enough to be read: 110 columns. Of code the formatter sees to it; this of what it leaves,
//! which is comments and prose.
//!
//! Examples, tables, and lines that could not be broken may be wider.

use super::Problem;
use crate::files::TextFile;

const WIDTH_MAX: usize = 110;

pub(super) fn check(files: &[TextFile]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files {
        let is_code = file.is("rs");
        if !is_code && !file.is("md") {
            continue;
        }
        let mut in_example = false;
        for (number, line) in file.text.lines().enumerate() {
            let prose = if is_code { comment(line) } else { Some(line.trim()) };
            let Some(prose) = prose else {
                in_example = false;
                continue;
            };
            if prose.starts_with("```") {
                in_example = !in_example;
            }
            let may_be_wide = in_example || prose.starts_with('|') || !prose.contains(' ');
            if !may_be_wide && line.chars().count() > WIDTH_MAX {
                let width = line.chars().count();
                problems.push(Problem::new(
                    file,
                    number + 1,
                    format!("is {width} columns wide; break it at {WIDTH_MAX}"),
                ));
            }
        }
    }
    problems
}

/// The text of a line that is a comment.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(path: &str, text: &str) -> usize {
        check(&[TextFile { path: path.to_owned(), text: text.to_owned() }]).len()
    }

    #[test]
    fn wide_prose_is_told_and_wide_examples_and_tables_are_not() {
        let words = "word ".repeat(30);
        assert_eq!(wide("a.rs", &format!("/// {words}\nfn f() {{}}\n// {words}\n")), 2);
        assert_eq!(wide("a.rs", &format!("let text = \"{words}\";\n")), 0, "the formatter's affair");
        assert_eq!(wide("a.md", &format!("{words}\n- {words}\n")), 2);
        assert_eq!(
            wide("a.md", &format!("```text\n{words}\n```\n| {words} |\nhttps://{}\n", "w".repeat(120))),
            0
        );
        assert_eq!(wide("a.md", &format!("```\n```\n{words}\n")), 1, "behind an example");
        assert_eq!(wide("a.toml", &words), 0);
    }
}
