//! `papers report`: pages to look at, from what `papers --json` has written.

use std::fs;
use std::path::{Path, PathBuf};

use sablecat_papers::Results;
use sablecat_papers::report::{Named, html, markdown};

use crate::{Failure, Outcome, output};

/// Make an HTML page and Markdown from the files that `papers --json` has written
///
/// With several files, for example of two machines or two versions, the results that they have in common are
/// compared first.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The files
    #[arg(required = true, value_name = "RESULTS")]
    files: Vec<PathBuf>,
    /// Where the HTML page goes; without it, beside the first file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Where the Markdown goes; without it, beside the first file
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let mut all: Vec<Named> = Vec::new();
    for file in &arguments.files {
        let results = Results::read(file)?;
        all.push(Named { name: name(file, &all), results });
    }
    let beside = |extension| arguments.files[0].with_extension(extension);
    let page = arguments.html.clone().unwrap_or_else(|| beside("html"));
    let text = arguments.markdown.clone().unwrap_or_else(|| beside("md"));
    for (path, option) in [(&page, "--html"), (&text, "--markdown")] {
        if let Some(file) = arguments.files.iter().find(|file| is_same(file, path)) {
            let file = file.display();
            return Err(format!("{file} has the results: name another file with {option}").into());
        }
    }
    for (path, text) in [(page, html(&all)), (text, markdown(&all))] {
        fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        output::line(&path.display().to_string())?;
    }
    Ok(Outcome::Done)
}

/// Whether two paths lead to the same file.
fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// What a file is called beside the others: its name, or its path if another has the same.
fn name(file: &Path, others: &[Named]) -> String {
    let name = file.file_stem().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
    let is_taken = others.iter().any(|other| other.name == name);
    if is_taken { file.display().to_string() } else { name }
}
