//! `keygen`: a new key for an environment that is to be encrypted.

use std::path::PathBuf;

use sablecat::EncryptionKey;

use crate::{Failure, Outcome};

/// Write a new key for an encrypted environment into a new file that only its owner can read
///
/// Keep a copy elsewhere: without its key an encrypted environment cannot be read.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The file; it must not exist
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    EncryptionKey::random().write_new(&arguments.file)?;
    Ok(Outcome::Done)
}
