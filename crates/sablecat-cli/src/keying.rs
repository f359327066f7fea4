//! Keys on the command line: where the key of an encrypted environment is. Never the key itself, which every
//! user of the machine could see there.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use sablecat::{Builder, Cipher, EncryptionKey, Env};

use crate::Failure;

/// Under what the help shows them.
const HEADING: &str = "Encryption";

/// The key of the environment.
#[derive(Debug, Args)]
pub(crate) struct Keying {
    /// The file with the key of an encrypted environment; a new environment that is given a key is encrypted
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    key_file: Option<PathBuf>,
    /// The environment variable with the key, as 64 hexadecimal digits, instead of a file
    #[arg(long, value_name = "NAME", conflicts_with = "key_file", help_heading = HEADING)]
    key_variable: Option<String>,
    /// The cipher of a new environment with a key
    #[arg(long, value_name = "CIPHER", default_value = "aes-256-gcm", help_heading = HEADING)]
    cipher: Named,
}

/// A cipher by its name.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Named {
    #[value(name = "aes-256-gcm")]
    Aes256Gcm,
    #[value(name = "chacha20-poly1305")]
    ChaCha20Poly1305,
}

/// Another key than that of the environment.
#[derive(Debug, Args)]
pub(crate) struct KeyingTo {
    /// The file with the target's key, or with the new key of the environment
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    to_key_file: Option<PathBuf>,
    /// The environment variable with that key, as 64 hexadecimal digits, instead of a file
    #[arg(long, value_name = "NAME", conflicts_with = "to_key_file", help_heading = HEADING)]
    to_key_variable: Option<String>,
}

/// How a copy is enciphered.
#[derive(Debug, Args)]
pub(crate) struct Copying {
    #[command(flatten)]
    to: KeyingTo,
    /// Do not encrypt the target, although this environment is encrypted
    #[arg(long, conflicts_with_all = ["to_key_file", "to_key_variable"], help_heading = HEADING)]
    unencrypted: bool,
}

fn find(file: Option<&PathBuf>, variable: Option<&String>) -> Result<Option<EncryptionKey>, Failure> {
    Ok(match (file, variable) {
        (Some(file), _) => Some(EncryptionKey::from_file(file)?),
        (None, Some(variable)) => Some(EncryptionKey::from_variable(variable)?),
        (None, None) => None,
    })
}

impl Keying {
    fn key(&self) -> Result<Option<EncryptionKey>, Failure> {
        find(self.key_file.as_ref(), self.key_variable.as_ref())
    }

    /// Gives the key to a builder.
    pub(crate) fn give(&self, builder: Builder) -> Result<Builder, Failure> {
        let cipher = match self.cipher {
            Named::Aes256Gcm => Cipher::Aes256Gcm,
            Named::ChaCha20Poly1305 => Cipher::ChaCha20Poly1305,
        };
        Ok(match self.key()? {
            Some(key) => builder.encryption(key, cipher),
            None => builder,
        })
    }
}

impl KeyingTo {
    /// The key that is named, if any is.
    pub(crate) fn key(&self) -> Result<Option<EncryptionKey>, Failure> {
        find(self.to_key_file.as_ref(), self.to_key_variable.as_ref())
    }
}

impl Copying {
    /// Gives a builder of the other environment its key: that which is named, or else that of this one.
    pub(crate) fn give(&self, builder: Builder, this: &Env, keying: &Keying) -> Result<Builder, Failure> {
        let key = match self.to.key()? {
            Some(key) => Some(key),
            None if self.unencrypted => None,
            None => keying.key()?,
        };
        let cipher = this.stats()?.encryption.map(|encryption| encryption.cipher).unwrap_or_default();
        Ok(match key {
            Some(key) => builder.encryption(key, cipher),
            None => builder,
        })
    }
}
