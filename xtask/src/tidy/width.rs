//! Lines are narrow enough to be read: 110 columns, of code, examples, pictures and prose, in Rust, C,
//! Markdown, TOML and scripts of shells. Most of Rust's code the formatter sees to; it leaves strings, macros
//! and comments.
//!
//! Rows of tables and lines of one word, such as an address, could not be broken, and may be wider.

use super::Problem;
use crate::files::TextFile;

const WIDTH_MAX: usize = 110;

pub(super) fn check(files: &[TextFile]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files {
        let mark = match () {
            () if ["rs", "c", "h"].iter().any(|kind| file.is(kind)) => Some("//"),
            () if file.is("toml") || is_script(file) => Some("#"),
            () if file.is("md") => None,
            () => continue,
        };
        let mut in_example = false;
        for (number, line) in file.text.lines().enumerate() {
            let prose = mark.map_or(Some(line.trim()), |mark| comment(line, mark));
            in_example = match prose {
                Some(prose) => in_example != prose.starts_with("```"),
                None => false,
            };
            let is_row = !in_example && prose.is_some_and(|prose| prose.starts_with('|'));
            let may_be_wide = is_row || !prose.unwrap_or(line.trim()).contains(' ');
            let width = line.chars().count();
            if !may_be_wide && width > WIDTH_MAX {
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

/// Whether a shell is to run it.
fn is_script(file: &TextFile) -> bool {
    let first = file.text.lines().next().unwrap_or_default();
    file.is("sh") || first.starts_with("#!") && first.ends_with("sh")
}

/// The text of a line that is a comment, which begins with a mark.
fn comment<'l>(line: &'l str, mark: &str) -> Option<&'l str> {
    let text = line.trim_start().strip_prefix(mark)?;
    Some(text.trim_start_matches(['/', '!']).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(path: &str, text: &str) -> usize {
        check(&[TextFile { path: path.to_owned(), text: text.to_owned() }]).len()
    }

    #[test]
    fn wide_lines_are_told_and_wide_tables_are_not() {
        let words = "word ".repeat(30);
        assert_eq!(wide("a.rs", &format!("/// {words}\nfn f() {{}}\n// {words}\n")), 2);
        assert_eq!(wide("a.rs", &format!("let text = \"{words}\";\n")), 1);
        assert_eq!(wide("a.c", &format!("/* {words}\n * {words} */\n")), 2);
        assert_eq!(wide("a.h", &format!("int a; /* {words} */\n")), 1);
        assert_eq!(wide("a.md", &format!("{words}\n- {words}\n")), 2);
        assert_eq!(wide("a.md", &format!("| {words} |\n")), 0);
        assert_eq!(wide("a.rs", &format!("/// | {words} |\n")), 0);
        assert_eq!(wide("a.toml", &format!("# {words}\nname = \"{words}\"\n")), 2);
        assert_eq!(wide("a.sh", &words), 1);
        assert_eq!(wide("run", &format!("#!/usr/bin/env bash\n# {words}\n")), 1);
        assert_eq!(wide("run", &words), 0);
    }

    #[test]
    fn wide_examples_are_told_whatever_they_begin_with() {
        let words = "word ".repeat(30);
        assert_eq!(wide("a.md", &format!("```text\n{words}\n| {words}\n```\n| {words} |\n")), 2);
        assert_eq!(wide("a.rs", &format!("//! ```\n//! | {words}\n//! ```\n//! | {words} |\n")), 1);
        assert_eq!(wide("a.rs", &format!("//! ```\nfn f() {{}}\n//! | {words} |\n")), 0, "code ends it");
    }

    #[test]
    fn a_line_of_one_word_may_be_wide() {
        let word = "w".repeat(120);
        assert_eq!(wide("a.md", &format!("https://{word}\n```\n{word}\n```\n")), 0);
        assert_eq!(wide("a.rs", &format!("// {word}\nconst A: &str =\n    \"{word}\";\n")), 0);
        assert_eq!(wide("a.md", &format!("see https://{word}\n")), 1);
    }
}
