//! `count`: how many records there are.

use sablecat::Holds;
use serde_json::json;

use crate::arguments::{InDatabase, Reading};
use crate::naming::Names;
use crate::part::Part;
use crate::shown::Shown;
use crate::{Failure, Outcome, output};

/// Print how many records there are: in a database, or in a part of it
///
/// Where a key has several values, each counts. In a database that counts its records (`db create --method
/// counted`) this reads a few pages, however many records there are: `--to KEY` then says quickly how many
/// come before a key.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: InDatabase,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    part: Part,
    /// Print an estimate, from some dozens of pages: of plain records and those that expire
    #[arg(long)]
    estimate: bool,
}

pub(crate) fn run(Arguments { place, reading, part, estimate }: &Arguments) -> Result<Outcome, Failure> {
    let (env, database) = place.open_to_read(reading)?;
    let shown = Shown::new(database.clone())?;
    let names = part.names(&shown, place.spelling)?;
    let json = place.environment.json;
    if *estimate {
        let (name, holds) = (database.name(), database.holds());
        if !matches!(holds, Holds::Records | Holds::Expiring) || database.index_of().is_some() {
            return Err(format!(
                "an estimate of {name}: the database holds {holds}; that is only for plain records and for \
                 records that expire; without --estimate they are counted"
            )
            .into());
        }
        let estimate = match &names {
            Names::Between(from, to) => {
                database.estimate((shown.bound(from.as_ref())?, shown.bound(to.as_ref())?))?
            }
            Names::BeginningWith(prefix) => database.estimate(sablecat::Prefix(shown.key(prefix)?))?,
        };
        if json {
            output::json(&json!({ "records": estimate.records, "is_exact": estimate.is_exact }))?;
        } else {
            output::line(&estimate.records.to_string())?;
        }
    } else {
        output::number(json, "records", shown.count(&names)?)?;
    }
    drop((shown, database));
    env.close()?;
    Ok(Outcome::Done)
}
