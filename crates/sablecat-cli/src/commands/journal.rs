//! `journal`: what an environment keeps to go back to, and how that is changed.

use std::time::Duration;

use sablecat::{Env, Journal};
use sablecat_papers::thousands;
use serde_json::json;

use crate::arguments::Existing;
use crate::{Failure, Outcome, output};

/// Show or change the journal, the log archive with which an environment can be taken back to an earlier
/// state (see recover)
///
/// With a journal, finished log segments are moved into a directory instead of being used again, and
/// checkpoints are retained as epochs (restore points). To change the settings, no other process may have the
/// environment open.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Existing,
    /// Keep a journal from now on, with the settings of the other options; settings that are not given get
    /// their defaults
    #[arg(long)]
    on: bool,
    /// Keep no journal from now on; its files stay
    #[arg(long, conflicts_with = "on")]
    off: bool,
    /// The directory for old log segments, relative to the environment's directory and on the same file
    /// system
    #[arg(long, value_name = "PATH", requires = "on")]
    directory: Option<String>,
    /// How many bytes of old log are kept [default: all]
    #[arg(long, value_name = "N", requires = "on")]
    keep_bytes: Option<u64>,
    /// For how many seconds old log is kept [default: forever]
    #[arg(long, value_name = "SECONDS", requires = "on")]
    keep_for: Option<u64>,
    /// How many epochs are retained, which are checkpoints before the last one; up to 32 [default: 8]
    #[arg(long, value_name = "N", requires = "on")]
    epochs: Option<u32>,
    /// The least number of seconds between two epochs [default: 0]
    #[arg(long, value_name = "SECONDS", requires = "on")]
    epoch_spacing: Option<u64>,
    /// For how many seconds epochs are retained [default: until there are too many]
    #[arg(long, value_name = "SECONDS", requires = "on")]
    keep_epochs_for: Option<u64>,
}

impl Arguments {
    fn wanted(&self) -> Journal {
        let seconds = |n: u64| Duration::from_secs(n);
        let mut journal = Journal::new();
        if let Some(directory) = &self.directory {
            journal = journal.directory(directory);
        }
        if let Some(bytes) = self.keep_bytes {
            journal = journal.keep_bytes(bytes);
        }
        if let Some(time) = self.keep_for {
            journal = journal.keep_for(seconds(time));
        }
        if let Some(count) = self.epochs {
            journal = journal.epochs(count);
        }
        if let Some(time) = self.epoch_spacing {
            journal = journal.epoch_spacing(seconds(time));
        }
        if let Some(time) = self.keep_epochs_for {
            journal = journal.keep_epochs_for(seconds(time));
        }
        journal
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let place = &arguments.place;
    let open = || Ok::<_, Failure>(place.builder()?.shared(true).create(false));
    if arguments.on {
        open()?.journal(arguments.wanted()).open(place.path())?.close()?;
    } else if arguments.off {
        open()?.no_journal().open(place.path())?.close()?;
    }
    let journal = Env::builder().history(place.path())?.journal;
    if place.json {
        output::json(&json!({ "journal": journal.as_ref().map(|journal| json!({
            "directory": journal.directory,
            "bytes_max": journal.bytes_max,
            "age_max_ms": journal.age_max_ms,
            "epochs_max": journal.epochs_max,
            "epoch_spacing_ms": journal.epoch_spacing_ms,
            "epoch_age_max_ms": journal.epoch_age_max_ms,
        })) }))?;
        return Ok(Outcome::Done);
    }
    let Some(journal) = journal else {
        output::line("No journal is kept.")?;
        return Ok(Outcome::Done);
    };
    let limit = |value: u64, none: &str| if value == 0 { none.to_owned() } else { thousands(value as f64) };
    let time = |ms: u64, none: &str| limit(ms.div_ceil(1000), none);
    output::pairs([
        ("directory", journal.directory.clone()),
        ("bytes kept", limit(journal.bytes_max, "all")),
        ("kept for, seconds", time(journal.age_max_ms, "for ever")),
        ("epochs retained", journal.epochs_max.to_string()),
        ("seconds between them", time(journal.epoch_spacing_ms, "any")),
        ("retained for, seconds", time(journal.epoch_age_max_ms, "until there are too many")),
    ])?;
    Ok(Outcome::Done)
}
