//! Every package that may be published says what it is: what registries show, what belongs into it, and no
//! more keywords and categories than they take. And what its features add to its interface is documented: all
//! features are named to docs.rs, but for those whose comment says that they are for tests only.

use super::Problem;
use crate::files::TextFile;

const WANTED: [&str; 5] = ["description", "documentation", "keywords", "categories", "include"];
const UNPUBLISHED: &str = "publish = false";
/// What docs.rs is told.
const DOCUMENTED: &str = "[package.metadata.docs.rs]";
const DEFAULT: &str = "default";
const FEATURES: &str = "[features]";
/// What the comment of a feature says that is no part of the interface.
const FOR_TESTS: &str = "For tests only";
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
        let shown = value(section(&lines, DOCUMENTED), "features").unwrap_or_default();
        let is_in = |list: &str, name: &str| list.split('"').skip(1).step_by(2).any(|other| other == name);
        // What is on by default is shown as it is.
        let on = value(section(&lines, FEATURES), DEFAULT).unwrap_or_default();
        for feature in features(section(&lines, FEATURES)) {
            if feature != DEFAULT && !is_in(on, feature) && !is_in(shown, feature) {
                let what =
                    format!("{DOCUMENTED} does not name the feature {feature}; or is it {FOR_TESTS:?}?");
                problems.push(Problem::new(file, 0, what));
            }
        }
    }
    problems
}

/// The lines of a section, without its name.
fn section<'l, 't>(lines: &'l [&'t str], name: &str) -> &'l [&'t str] {
    let begin = lines.iter().position(|line| *line == name).map_or(lines.len(), |at| at + 1);
    let end = lines[begin..].iter().position(|line| line.starts_with('['));
    &lines[begin..end.map_or(lines.len(), |end| begin + end)]
}

/// The features that add to the interface.
fn features<'t>(lines: &[&'t str]) -> Vec<&'t str> {
    let mut comment = String::new();
    let mut found = Vec::new();
    for line in lines {
        match line.strip_prefix('#') {
            Some(text) => comment.extend([text.trim(), " "]),
            None => {
                let said = std::mem::take(&mut comment);
                found.extend(
                    line.split_once('=').filter(|_| !said.contains(FOR_TESTS)).map(|(name, _)| name.trim()),
                );
            }
        }
    }
    found
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
    fn features_of_the_interface_are_documented() {
        let features = "[features]\n# In the interface.\na = []\n\n# Beside it. For\n# tests only.\nb = []\n";
        assert_eq!(problems(&format!("{WHOLE}{features}")), 1);
        let documented = |names: &str| {
            problems(&format!(
                "{WHOLE}[package.metadata.docs.rs]\nfeatures = [{names}]\n\n{features}[lints]\nc = 1\n"
            ))
        };
        assert_eq!(documented("\"a\""), 0);
        assert_eq!(documented("\"b\""), 1);
        assert_eq!(
            problems(&format!("{WHOLE}{}", features.replace("a = []", "default = [\"a\"]\na = []"))),
            0
        );
        assert_eq!(problems(&format!("[package]\npublish = false\n{features}")), 0);
    }

    #[test]
    fn there_are_not_too_many_keywords_and_none_is_too_long() {
        assert_eq!(problems(&WHOLE.replace("[\"a\"]", "[\"1\", \"2\", \"3\", \"4\", \"5\", \"6\"]")), 1);
        assert_eq!(problems(&WHOLE.replace("\"a\"", "\"a-word-of-more-than-twenty\"")), 1);
        assert_eq!(problems(&WHOLE.replace("[\"b\"]", "[]")), 1);
    }
}
