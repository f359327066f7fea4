//! `keygen`: a new key for an environment that is to be encrypted.

use std::path::PathBuf;

use sablecat::EncryptionKey;

use crate::{Failure, Outcome};

/// Write a new key for an encrypted environment into a new file, which only its owner can read
///
/// Keep a copy elsewhere: without its key an environment cannot be read by anybody.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The file, which must not be there
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    EncryptionKey::random().write_new(&arguments.file)?;
    Ok(Outcome::Done)
}
