//! Tasks for work on the repository: `cargo run -p xtask -- tidy`, `sqlite-tests`.
//!
//! `sqlite-tests` runs SQLite's own tests on our SQL (`sqlite`). `tidy` checks what no compiler does and
//! nobody wants to remember. Both depend on nothing but the standard library, so that they build in a second,
//! and `tidy` reads text, not syntax trees: a check that needs more than that is a lint and belongs
//! elsewhere.
//!
//! Exit codes: 0, all is well; 1, something is not, and standard output says what and where; 2, the command
//! makes no sense.

mod files;
mod source;
mod sqlite;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p xtask -- tidy";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some((first, rest)) = words.split_first()
        && first == "sqlite-tests"
    {
        return sqlite::main(repository(), rest);
    }
    if words != ["tidy"] {
        eprintln!("{USAGE}\n       cargo run -p xtask -- {}", sqlite::USAGE);
        return ExitCode::from(2);
    }
    match tidy::run(repository()) {
        Ok(problems) if problems.is_empty() => ExitCode::SUCCESS,
        Ok(problems) => {
            problems.iter().for_each(|problem| println!("{problem}"));
            println!("{} problems", problems.len());
            ExitCode::from(1)
        }
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }
    }
}

/// The root of the checkout: the directory above this crate's.
fn repository() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_repository_is_tidy() {
        let problems = super::tidy::run(super::repository()).expect("the checkout can be read");
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "\n{}", lines.join("\n"));
    }
}
