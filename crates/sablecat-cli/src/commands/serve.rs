//! The hidden command by which `papers` runs sablecat in a process of its own.

use crate::{Failure, Outcome};

/// As it is called.
pub(crate) const NAME: &str = "papers-serve";

/// Serve a system over the papers' line protocol
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The system
    #[arg(value_parser = sablecat_papers::SYSTEMS)]
    system: String,
}

pub(crate) fn run(Arguments { system }: &Arguments) -> Result<Outcome, Failure> {
    sablecat_papers::serve(system)?;
    Ok(Outcome::Done)
}
