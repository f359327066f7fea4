//! Every package that may be published says what it is: what registries show, what belongs into it, and no
//! more keywords and categories than they take.

use super::Problem;
use crate::files::TextFile;

const WANTED: [&str; 5] = ["description", "documentation", "keywords", "categories", "include"];
const UNPUBLISHED: &str = "publish = false";
/// Keywords, and categories, that a package may have.
const MOST: usize = 5;
/// Characters of a keyword.
const LONGEST: usize = 20;

pub(super) fn check(files: &[TextFile]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
        if !lines.contains(&"[package]") || lines.contains(&UNPUBLISHED) {
            continue;
        }
        for name in WANTED {
            match value(&lines, name) {
                None => {
                    problems.push(Problem::new(file, 0, format!("has no {name}; say it, or `{UNPUBLISHED}`")))
                }
                Some(list) if matches!(name, "keywords" | "categories") => {
                    let words: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
                    if words.is_empty()
                        || words.len() > MOST
                        || (name == "keywords" && words.iter().any(|word| word.len() > LONGEST))
                    {
                        problems.push(Problem::new(
                            file,
                            0,
                            format!("{name}: one to {MOST}, keywords of {LONGEST} characters at most"),
                        ));
                    }
                }
                Some(_) => {}
            }
        }
    }
    problems
}

/// What a line sets a name to.
fn value<'t>(lines: &[&'t str], name: &str) -> Option<&'t str> {
    lines.iter().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "[package]\ndescription = \"d\"\ndocumentation = \"u\"\nkeywords = [\"a\"]\n\
                         categories = [\"b\"]\ninclude = [\"/src\"]\n";

    fn problems(text: &str) -> usize {
        check(&[TextFile { path: "a/Cargo.toml".to_owned(), text: text.to_owned() }]).len()
    }

    #[test]
    fn what_registries_show_must_be_said() {
        assert_eq!(problems(WHOLE), 0);
        assert_eq!(problems(&WHOLE.replace("include", "exclude")), 1);
        assert_eq!(problems("[package]\n"), 5);
        assert_eq!(problems("[package]\npublish = false\n"), 0);
        assert_eq!(problems("[workspace]\n"), 0);
    }

    #[test]
    fn there_are_not_too_many_keywords_and_none_is_too_long() {
        assert_eq!(problems(&WHOLE.replace("[\"a\"]", "[\"1\", \"2\", \"3\", \"4\", \"5\", \"6\"]")), 1);
        assert_eq!(problems(&WHOLE.replace("\"a\"", "\"a-word-of-more-than-twenty\"")), 1);
        assert_eq!(problems(&WHOLE.replace("[\"b\"]", "[]")), 1);
    }
}
