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
    let first = &arguments.files[0];
    for (chosen, extension, text) in
        [(&arguments.html, "html", html(&all)), (&arguments.markdown, "md", markdown(&all))]
    {
        let path = chosen.clone().unwrap_or_else(|| first.with_extension(extension));
        fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        output::line(&path.display().to_string())?;
    }
    Ok(Outcome::Done)
}

/// What a file is called beside the others: its name, or its path if another has the same.
fn name(file: &Path, others: &[Named]) -> String {
    let name = file.file_stem().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
    let is_taken = others.iter().any(|other| other.name == name);
    if is_taken { file.display().to_string() } else { name }
}
