//! `get`: the value of a key.

use serde_json::{Map, Value};

use crate::arguments::{InDatabase, Reading};
use crate::naming::{Name, Spelling};
use crate::shown::{Shown, Stretch};
use crate::{Failure, Outcome, output};

/// Print the value of a key
///
/// Into a pipe or a file the value goes as it is, without a line end. Where a key has several values, each is
/// a line, with bytes that are not printable as \xNN; of an index these are the keys of the records found.
/// With --at or --len a part of the value is printed, and read: nothing, behind its end. Exit code 1 means
/// that there is no such key.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: InDatabase,
    #[command(flatten)]
    reading: Reading,
    /// Print the part of the value that begins this many bytes after its beginning
    #[arg(long, value_name = "OFFSET")]
    at: Option<u64>,
    /// Print at most this many bytes of the value
    #[arg(long, value_name = "N")]
    len: Option<u64>,
    /// The key; the number, of a record of a queue or of numbered records; a reference such as
    /// 'acct(42,"name")', of a node of globals
    key: String,
}

pub(crate) fn run(Arguments { place, reading, at, len, key }: &Arguments) -> Result<Outcome, Failure> {
    let (env, database) = place.open_to_read(reading)?;
    let shown = Shown::new(database)?;
    let name = shown.name(key, place.spelling)?;
    let is_part = at.is_some() || len.is_some();
    if is_part {
        shown.require_stretches()?;
    }
    let stretch = Stretch { at: at.unwrap_or(0), len: len.unwrap_or(u64::MAX) };
    let found = match (shown.has_several(), place.environment.json) {
        (true, json) => several(&shown, &name, json, place.spelling),
        (false, true) => as_json(&shown, &name, stretch, is_part, place.spelling),
        (false, false) => as_bytes(&shown, &name, stretch, place.spelling.hex),
    };
    drop(shown);
    env.close()?;
    Ok(if found? { Outcome::Done } else { Outcome::No })
}

/// All values of a key: a line each, or an array.
fn several(database: &Shown, name: &Name, json: bool, spelling: Spelling) -> Result<bool, Failure> {
    let hex = spelling.hex;
    let values = database.values(name)?;
    if json {
        let shown: Vec<Map<_, _>> = values.iter().map(|value| output::member("value", value, hex)).collect();
        let mut document = output::record(name, None, spelling);
        document.insert("values".to_owned(), shown.into());
        document.insert("found".to_owned(), Value::from(!values.is_empty()));
        output::json(&document)?;
    } else {
        values.iter().try_for_each(|value| output::value_line(value, hex))?;
    }
    Ok(!values.is_empty())
}

fn as_json(
    database: &Shown,
    name: &Name,
    stretch: Stretch,
    is_part: bool,
    spelling: Spelling,
) -> Result<bool, Failure> {
    let found = read(database, name, stretch)?;
    let mut document = output::record(name, found.as_ref().map(|(value, _)| &value[..]), spelling);
    document.insert("found".to_owned(), Value::from(found.is_some()));
    if let Some((_, whole)) = found.as_ref().filter(|_| is_part) {
        document.insert("value_bytes".to_owned(), Value::from(*whole));
    }
    if let Some(ms) = database.expires(name)? {
        document.insert("expires".to_owned(), Value::from(ms));
    }
    output::json(&document)?;
    Ok(found.is_some())
}

fn as_bytes(database: &Shown, name: &Name, stretch: Stretch, hex: bool) -> Result<bool, Failure> {
    if output::is_line(hex) {
        let found = read(database, name, stretch)?;
        found.iter().try_for_each(|(value, _)| output::value_line(value, hex))?;
        return Ok(found.is_some());
    }
    Ok(database.each_part(name, stretch, output::value_part)?.is_some())
}

/// A stretch of a value, and the length of the whole value.
fn read(database: &Shown, name: &Name, stretch: Stretch) -> Result<Option<(Vec<u8>, u64)>, Failure> {
    let mut value = Vec::new();
    let whole = database.each_part(name, stretch, |part| {
        value.extend_from_slice(part);
        Ok(())
    })?;
    Ok(whole.map(|whole| (value, whole)))
}
