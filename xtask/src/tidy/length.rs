//! No file is so long that it must be several ideas.

use super::Problem;
use crate::files::TextFile;

const LINES_MAX: usize = 700;
/// Long files that are one idea nevertheless. Keep the list short.
const LONG: [&str; 0] = [];

pub(super) fn check(files: &[TextFile]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files {
        let lines = file.text.lines().count();
        if lines > LINES_MAX && !LONG.contains(&file.path.as_str()) {
            problems.push(Problem::new(
                file,
                0,
                format!(
                    "has {lines} lines; find the two ideas in it, or name it in xtask/src/tidy/length.rs"
                ),
            ));
        }
    }
    problems
}
