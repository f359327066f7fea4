//! Every package says under which terms it may be used, and the terms are there.

use super::Problem;
use crate::files::TextFile;

const TERMS: &str = "license = \"Apache-2.0 OR MIT\"";
const INHERITED: &str = "license.workspace = true";
const TEXTS: [(&str, &str); 2] =
    [("LICENSE-APACHE", "Apache License"), ("LICENSE-MIT", "Permission is hereby granted")];

pub(super) fn check(files: &[TextFile]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, phrase) in TEXTS {
        if !files.iter().any(|file| file.path == path && file.text.contains(phrase)) {
            problems.push(Problem {
                path: path.to_owned(),
                line: 0,
                what: "is missing, or is another text".to_owned(),
            });
        }
    }
    for file in files.iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        let says = |wanted: &str| file.text.lines().any(|line| line.trim() == wanted);
        let is_root = file.path == "Cargo.toml";
        if (is_root && !says(TERMS)) || (!is_root && says("[package]") && !says(TERMS) && !says(INHERITED)) {
            problems.push(Problem::new(
                file,
                0,
                format!("has no licence field; say `{INHERITED}` or `{TERMS}`"),
            ));
        }
    }
    problems
}
