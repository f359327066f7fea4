//! Nothing that belongs on somebody's machine or was meant for later.

use super::Problem;
use crate::files::TextFile;
use crate::source;

/// Put together here so that this file does not break its own rule.
fn places() -> [String; 4] {
    [["/wo", "rk"], ["/ro", "ot"], ["../sh", "ared"], [".lib", "rary"]].map(|parts| parts.concat())
}

/// Macros that stand for what was not written.
const UNWRITTEN: [&str; 2] = ["todo", "unimplemented"];

pub(super) fn check(files: &[TextFile]) -> Vec<Problem> {
    let places = places();
    let mut problems = Vec::new();
    for file in files {
        for (number, line) in file.text.lines().enumerate() {
            for place in places.iter().filter(|place| stands_alone(line, place)) {
                problems.push(Problem::new(
                    file,
                    number + 1,
                    format!("names {place}, a place of somebody's machine"),
                ));
            }
        }
        if file.is("rs") {
            let code = source::code(&file.text);
            for name in UNWRITTEN {
                for at in source::words(&code, name).filter(|at| code[at + name.len()..].starts_with('!')) {
                    problems.push(Problem::new(
                        file,
                        source::line_of(&code, at),
                        format!("{name}!: write it, or leave it out"),
                    ));
                }
            }
        }
    }
    problems
}

/// Whether the line names the place itself, not something whose name begins like it or has it as a part.
fn stands_alone(line: &str, place: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    line.match_indices(place).any(|(at, _)| {
        let begins = place.starts_with('.') || !line[..at].ends_with(|c: char| part_of_name(c) || c == '.');
        begins && !line[at + place.len()..].starts_with(part_of_name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_and_names_like_them_are_not() {
        let [place, ..] = places();
        assert!(stands_alone(&format!("cd {place}/main"), &place) && stands_alone(&place, &place));
        assert!(
            !stands_alone(&format!("src{place}load.rs"), &place)
                && !stands_alone(&format!("src{place}"), &place)
        );
    }

    #[test]
    fn a_comment_may_speak_of_what_is_to_do() {
        let file = |text: &str| [TextFile { path: "a.rs".to_owned(), text: text.to_owned() }];
        assert_eq!(check(&file("// todo! is a macro\n")), []);
        assert_eq!(check(&file(&format!("fn f() {{ {}!() }}\n", UNWRITTEN[0]))).len(), 1);
    }
}
