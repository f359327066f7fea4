//! `get`: the value of a key.

use serde_json::{Map, Value};

use crate::arguments::{InDatabase, Reading};
use crate::naming::Name;
use crate::shown::Shown;
use crate::{Failure, Outcome, output};

/// Print the value of a key
///
/// Into a pipe or a file the value goes as it is, without a line end. Where a key has several values, each is
/// a line, with bytes that are not printable as \xNN; of an index these are the keys of the records found.
/// Exit code 1 means that there is no such key.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: InDatabase,
    #[command(flatten)]
    reading: Reading,
    /// The key; the number, of a record of a queue or of numbered records; a reference such as
    /// 'acct(42,"name")', of a node of globals
    key: String,
}

pub(crate) fn run(Arguments { place, reading, key }: &Arguments) -> Result<Outcome, Failure> {
    let (env, database) = place.open_to_read(reading)?;
    let shown = Shown::new(database)?;
    let name = shown.name(key, place.hex)?;
    let found = match (shown.has_several(), place.environment.json) {
        (true, json) => several(&shown, &name, json, place.hex),
        (false, true) => as_json(&shown, &name, place.hex),
        (false, false) => as_bytes(&shown, &name, place.hex),
    };
    drop(shown);
    env.close()?;
    Ok(if found? { Outcome::Done } else { Outcome::No })
}

/// All values of a key: a line each, or an array.
fn several(database: &Shown, name: &Name, json: bool, hex: bool) -> Result<bool, Failure> {
    let values = database.values(name)?;
    if json {
        let shown: Vec<Map<_, _>> = values.iter().map(|value| output::member("value", value, hex)).collect();
        let mut document = output::record(name, None, hex);
        document.insert("values".to_owned(), shown.into());
        document.insert("found".to_owned(), Value::from(!values.is_empty()));
        output::json(&document)?;
    } else {
        values.iter().try_for_each(|value| output::value_line(value, hex))?;
    }
    Ok(!values.is_empty())
}

fn as_json(database: &Shown, name: &Name, hex: bool) -> Result<bool, Failure> {
    let value = database.get(name)?;
    let mut document = output::record(name, value.as_deref(), hex);
    document.insert("found".to_owned(), Value::from(value.is_some()));
    if let Some(ms) = database.expires(name)? {
        document.insert("expires".to_owned(), Value::from(ms));
    }
    output::json(&document)?;
    Ok(value.is_some())
}

fn as_bytes(database: &Shown, name: &Name, hex: bool) -> Result<bool, Failure> {
    if output::is_line(hex) {
        let value = database.get(name)?;
        value.iter().try_for_each(|value| output::value_line(value, hex))?;
        return Ok(value.is_some());
    }
    database.each_part(name, output::value_part)
}
