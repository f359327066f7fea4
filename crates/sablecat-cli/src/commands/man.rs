//! `man`: the manual pages.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man;

use crate::{Failure, Outcome, output};

/// Write the manual pages, one for each command, or print the first
///
/// For all users: sablecat man /usr/local/share/man/man1
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The directory to write them to, as sablecat.1, sablecat-get.1 and so on; without it the page of the
    /// command as a whole goes to standard output
    #[arg(value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
}

pub(crate) fn run(Arguments { directory }: &Arguments) -> Result<Outcome, Failure> {
    let mut whole = crate::described();
    // Gives each command its whole name, `sablecat-get`.
    whole.build();
    let Some(directory) = directory else {
        output::value_part(&page(whole)?.1)?;
        return Ok(Outcome::Done);
    };
    fs::create_dir_all(directory).map_err(|error| format!("making {}: {error}", directory.display()))?;
    write_pages(whole, directory)?;
    Ok(Outcome::Done)
}

/// Writes the page of a command, and those of the commands within it.
fn write_pages(command: Command, directory: &Path) -> Result<(), Failure> {
    let within: Vec<_> = command.get_subcommands().filter(|within| !within.is_hide_set()).cloned().collect();
    let (name, text) = page(command)?;
    let path = directory.join(name);
    fs::write(&path, text).map_err(|error| format!("writing {}: {error}", path.display()))?;
    within.into_iter().try_for_each(|within| write_pages(within, directory))
}

/// The page of a command: the name of its file, and its text.
fn page(command: Command) -> Result<(String, Vec<u8>), Failure> {
    let page = Man::new(command).source(concat!("sablecat ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    page.render(&mut text)?;
    Ok((page.get_filename(), text))
}
