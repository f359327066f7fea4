//! `get`: the value of a key.

use serde_json::Value;

use crate::arguments::{InDatabase, Reading};
use crate::shown::Shown;
use crate::{Failure, Outcome, output};

/// Bytes of a value in memory at once.
const PART_BYTES: usize = 1 << 20;

/// Print the value of a key
///
/// Into a pipe or a file the value goes as it is, without a line end. Exit code 1 means that there is no such
/// key.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: InDatabase,
    #[command(flatten)]
    reading: Reading,
    /// The key
    key: String,
}

pub(crate) fn run(Arguments { place, reading, key }: &Arguments) -> Result<Outcome, Failure> {
    let key = place.bytes(key)?;
    let (env, database) = place.open_to_read(reading)?;
    let shown = Shown::new(database)?;
    let found = if place.environment.json {
        as_json(&shown, &key, place.hex)
    } else {
        as_bytes(&shown, &key, place.hex)
    };
    drop(shown);
    env.close()?;
    Ok(if found? { Outcome::Done } else { Outcome::No })
}

fn as_json(database: &Shown, key: &[u8], hex: bool) -> Result<bool, Failure> {
    let value = database.get(key)?;
    let mut document = output::members(key, value.as_deref(), hex);
    document.insert("found".to_owned(), Value::from(value.is_some()));
    if let Some(ms) = database.expires(key)? {
        document.insert("expires".to_owned(), Value::from(ms));
    }
    output::json(&document)?;
    Ok(value.is_some())
}

/// A part at a time, of one state, so that a value need not fit in memory.
fn as_bytes(database: &Shown, key: &[u8], hex: bool) -> Result<bool, Failure> {
    let Some(len) = database.value_len(key)? else { return Ok(false) };
    if output::is_line(hex) {
        output::value_line(&database.get(key)?.unwrap_or_default(), hex)?;
        return Ok(true);
    }
    let mut part = vec![0; PART_BYTES.min(len as usize)];
    let mut offset = 0;
    while offset < len {
        let read = database.read_at(key, offset, &mut part)?.unwrap_or_default();
        output::value_part(&part[..read])?;
        offset += read as u64;
    }
    Ok(true)
}
