//! The hidden command by which `papers threen1` runs a worker in a process of its own.

use std::path::PathBuf;

use sablecat_papers::threen1::{self, Line};

use crate::{Failure, Outcome};

/// As it is called.
pub(crate) const NAME: &str = "papers-work";

/// Be one of the workers of `papers threen1`
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The environment
    directory: PathBuf,
    /// Which worker
    number: u32,
    /// How many there are
    workers: u32,
    /// The first integer
    start: u64,
    /// The last integer
    finish: u64,
    /// Integers to claim at a time
    block: u64,
    /// Bytes of cache
    cache: u64,
    /// The name of the options
    options: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let &Arguments { ref directory, number, workers, start, finish, block, cache, ref options } = arguments;
    threen1::work(directory, number, &Line { start, finish, workers, block }, cache, options)?;
    Ok(Outcome::Done)
}
