//! `completions`: what a shell needs to complete the command's words.

use clap_complete::{Shell, generate};

use crate::{Failure, Outcome, output};

/// Print a script with which a shell completes commands and options
///
/// For bash: sablecat completions bash > ~/.local/share/bash-completion/completions/sablecat
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(Arguments { shell }: &Arguments) -> Result<Outcome, Failure> {
    let mut script = Vec::new();
    generate(*shell, &mut crate::described(), crate::NAME, &mut script);
    // Into memory first: its reader may have had enough, which is no reason to panic.
    output::value_part(&script)?;
    Ok(Outcome::Done)
}
