//! The hidden command by which `papers tpcb` and `papers wisconsin` work on a database in a process of its
//! own.

use crate::{Failure, Outcome};

/// As it is called.
pub(crate) const NAME: &str = "papers-sql";

/// Work on a database as `papers tpcb` and `papers wisconsin` ask on standard input
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Whose library
    system: String,
}

pub(crate) fn run(Arguments { system }: &Arguments) -> Result<Outcome, Failure> {
    sablecat_papers::sql::work(system)?;
    Ok(Outcome::Done)
}
