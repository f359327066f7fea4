//! Documents point to what exists: relative links of Markdown files, and documents that comments in the
//! source name.

use std::collections::HashSet;

use super::Problem;
use crate::files::TextFile;

pub(super) fn check(files: &[TextFile]) -> Vec<Problem> {
    let known: HashSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let is_there = |path: &str| {
        known.contains(path)
            || known.iter().any(|file| file.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
    };
    let mut problems = Vec::new();
    for file in files {
        let mut fenced = false;
        for (number, line) in file.text.lines().enumerate() {
            if file.is("md") {
                fenced ^= line.trim_start().starts_with("```");
                for link in links(line).filter(|_| !fenced) {
                    let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
                    let path =
                        if target.is_empty() { file.path.clone() } else { resolve(&file.path, target) };
                    if !is_there(&path) {
                        problems.push(Problem::new(
                            file,
                            number + 1,
                            format!("a link to {link}, and there is no {path}"),
                        ));
                    } else if let Some(other) =
                        files.iter().find(|other| other.path == path && other.is("md"))
                        && !anchor.is_empty()
                        && !has_heading(&other.text, anchor)
                    {
                        problems.push(Problem::new(
                            file,
                            number + 1,
                            format!("a link to {link}, and {path} has no such heading"),
                        ));
                    }
                }
            } else if file.is("rs") {
                for name in documents(line).filter(|name| !is_there(name)) {
                    problems.push(Problem::new(
                        file,
                        number + 1,
                        format!("names {name}, and there is no such document"),
                    ));
                }
            }
        }
    }
    problems
}

/// The targets of the links in a line that lead to files.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target)
        .filter(|target| !target.contains(':') && !target.is_empty())
}

/// Documents below docs/ that a comment names.
fn documents(line: &str) -> impl Iterator<Item = &str> {
    let comment = line.find("//").map_or("", |at| &line[at..]);
    comment.match_indices("docs/").filter_map(|(at, _)| {
        let rest = &comment[at..];
        let end = rest.find(|c: char| !(c.is_alphanumeric() || "/-_.".contains(c))).unwrap_or(rest.len());
        let name = rest[..end].trim_end_matches('.');
        name.ends_with(".md").then_some(name)
    })
}

/// A path from the root, for a target seen from a file.
fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn has_heading(text: &str, anchor: &str) -> bool {
    let slug = |heading: &str| -> String {
        heading
            .trim()
            .to_lowercase()
            .chars()
            .filter(|&c| c.is_alphanumeric() || c == ' ' || c == '-' || c == '_')
            .map(|c| if c == ' ' { '-' } else { c })
            .collect()
    };
    text.lines().filter(|line| line.starts_with('#')).any(|line| slug(line.trim_start_matches('#')) == anchor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn dead_links_are_found_and_living_ones_are_not() {
        let there = file("docs/b.md", "# One thing\n");
        let a = file(
            "docs/a.md",
            "[b](b.md) [one](b.md#one-thing) [up](../docs) [out](https://x.y/z) [no](c.md) [two](b.md#two)\n\
             ```\n[x](y)\n```\n",
        );
        let problems = check(&[a, there]);
        assert_eq!(problems.len(), 2, "{problems:?}");
    }

    #[test]
    fn documents_that_comments_name_must_be_there() {
        assert_eq!(check(&[file("a.rs", "// See docs/locks.md.\n")]).len(), 1);
        assert_eq!(check(&[file("a.rs", "// See docs/locks.md.\n"), file("docs/locks.md", "")]), []);
    }
}
