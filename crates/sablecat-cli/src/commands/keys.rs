//! `keys`: what an environment is enciphered with, and how that is changed.

use serde_json::json;

use crate::arguments::Existing;
use crate::keying::KeyingTo;
use crate::{Failure, Outcome, output};

/// Show or change the keys of an encrypted environment, while it is in use
///
/// The environment's key, which you keep, encrypts (wraps) the data keys, which the environment keeps.
/// --to-key-file or --to-key-variable changes the environment's key at once. --rotate adds a new data key for
/// everything written from now on. --anew writes everything again that older data keys encrypt. The options
/// can be combined, and are carried out in this order.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Existing,
    #[command(flatten)]
    to: KeyingTo,
    /// Use a new data key for everything written from now on
    #[arg(long)]
    rotate: bool,
    /// Write everything again that is encrypted with older data keys
    #[arg(long)]
    anew: bool,
}

pub(crate) fn run(Arguments { place, to, rotate, anew }: &Arguments) -> Result<Outcome, Failure> {
    let env = place.open()?;
    if let Some(key) = to.key()? {
        env.change_encryption_key(&key)?;
    }
    if *rotate {
        env.rotate_key()?;
    }
    let report = if *anew { Some(env.encipher_anew()?) } else { None };
    let encryption = env.stats()?.encryption;
    env.close()?;
    if place.json {
        output::json(&json!({
            "encryption": encryption.map(|encryption| output::encryption(&encryption)),
            "pages": report.map(|report| report.pages),
            "older": report.map(|report| report.older),
        }))?;
    } else if let Some(encryption) = encryption {
        output::pairs([
            ("cipher", encryption.cipher.name().to_owned()),
            ("data key in use", encryption.key.to_string()),
            ("data keys", encryption.keys.to_string()),
        ])?;
        if let Some(report) = report {
            output::pairs([
                ("pages written again", report.pages.to_string()),
                ("blocks with older keys", report.older.to_string()),
            ])?;
        }
    } else {
        output::line("It is not encrypted.")?;
    }
    Ok(if report.is_some_and(|report| report.older > 0) { Outcome::No } else { Outcome::Done })
}
