//! `restore`: an environment made from a backup.

use std::path::PathBuf;

use sablecat::Copied;
use serde_json::json;

use super::backup::{Compressing, finish, open_to};
use crate::arguments::Existing;
use crate::aside::Aside;
use crate::keying::Copying;
use crate::{Failure, Outcome, interrupt, output};

/// Make an environment from a backup, or from any other environment that is closed
///
/// The backup is read and stays unchanged. The new environment has the backup's databases, and a log of its
/// own. It is made in NEW.unfinished, beside the new directory, and moved to that directory when it is
/// complete, verified and closed.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The backup
    #[command(flatten)]
    backup: Existing,
    /// The new environment's directory; it must not exist, or be empty
    #[arg(value_name = "NEW")]
    to: PathBuf,
    #[command(flatten)]
    copying: Copying,
    #[command(flatten)]
    compressing: Compressing,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let Some(backup) = arguments.backup.open_closed() else {
        // If it is the key that is wrong, opening it in that way says so.
        arguments.backup.builder()?.read_only(true).open(arguments.backup.path())?;
        let shown = arguments.backup.shown();
        return Err(
            format!("{shown} is not a closed environment; finish the backup, or make a new one").into()
        );
    };
    let keys = (&arguments.copying, &arguments.backup.keying);
    let aside = Aside::new(&arguments.to)?;
    let to = open_to(&aside.path(), &backup, keys, &arguments.compressing)?;
    let copied = backup.snapshot()?.copy_into(&to, &mut |_| interrupt::unwind_if_told())?;
    let problems = finish(to)?;
    if problems.is_empty() {
        aside.put()?;
    }
    backup.close()?;
    tell(arguments.backup.json, copied, &problems)
}

fn tell(json: bool, copied: Copied, problems: &[String]) -> Result<Outcome, Failure> {
    if json {
        output::json(&json!({
            "databases": copied.databases,
            "records": copied.records,
            "problems": problems,
        }))?;
    } else if problems.is_empty() {
        output::line(&format!("restored {} records of {} databases", copied.records, copied.databases))?;
    } else {
        output::line("not restored: the new environment was read back and has problems")?;
        problems.iter().try_for_each(|problem| output::line(problem))?;
    }
    Ok(if problems.is_empty() { Outcome::Done } else { Outcome::No })
}
