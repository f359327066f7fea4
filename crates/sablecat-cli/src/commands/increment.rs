//! `increment`: add to a number that a record is.

use sablecat::globals::{Globals, Number};
use sablecat::{Database, Holds, Txn};
use serde_json::Value;

use crate::arguments::InDatabase;
use crate::naming::Name;
use crate::{Failure, Outcome, output};

/// What numbers of globals are below.
const NUMBERS_END: f64 = 1e47;

/// Add to a number, and print the sum
///
/// A plain record is a number if its value has eight bytes: an integer with a sign, the lowest byte first.
/// The value of a node of globals is taken for a number as $INCREMENT does. Without a record the number is 0.
/// Environment and database are created if they do not exist. The sum is durable when it is printed.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: InDatabase,
    /// The key; a reference such as 'acct(42,"visits")', of a node of globals
    key: String,
    /// What is added: an integer, or for a node of globals a number such as -1.5 or 3E10
    #[arg(default_value = "1", allow_negative_numbers = true)]
    by: String,
}

pub(crate) fn run(Arguments { place, key, by }: &Arguments) -> Result<Outcome, Failure> {
    let (name, sum) = place.environment.with_made(&place.db, |env| {
        let database = match env.existing_database(&place.db)? {
            Some(database) => database,
            None => env.database(&place.db)?,
        };
        let name = Name::of(&database, key, place.spelling)?;
        let sum = env.try_write(|txn| add(txn, &database, &name, by))?;
        Ok((name, sum))
    })?;
    if place.environment.json {
        let mut document = output::record(&name, None, place.spelling);
        document.insert("sum".to_owned(), sum);
        output::json(&document)?;
    } else {
        output::line(sum.as_str().unwrap_or(&sum.to_string()))?;
    }
    Ok(Outcome::Done)
}

/// The sum: a number, or the text that a node has.
fn add(txn: &mut Txn<'_>, database: &Database, name: &Name, by: &str) -> Result<Value, Failure> {
    match (database.holds(), name) {
        (Holds::Records, Name::Key(key)) => {
            let by: i64 = by.parse().map_err(|_| {
                format!("{by:?} as what is added: to plain records an integer of 64 bits is added")
            })?;
            // Locked: others who add wait, instead of doing it again.
            txn.get_for_update(database, key)?;
            Ok(txn.increment(database, key, by)?.into())
        }
        (Holds::Globals, Name::Node(reference)) => {
            let by = number(by)?;
            let globals = Globals::of(database.clone())?;
            let node = globals.node(reference)?;
            txn.get_for_update(database, node.key())?;
            Ok(node.increment(txn, by)?.to_string().into())
        }
        (holds, _) => Err(format!(
            "incrementing a record of {}: the database holds {holds}; only plain records and nodes of \
             globals are incremented",
            database.name()
        )
        .into()),
    }
}

/// A number of globals, all of the text.
fn number(text: &str) -> Result<Number, Failure> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.E".contains(&byte))
        && text.parse().is_ok_and(|number: f64| number.abs() < NUMBERS_END);
    if is_number {
        Ok(Number::of_text(text.as_bytes()))
    } else {
        let why = "numbers are written as -1.5 or 3E10, and are below 1E47";
        Err(format!("{text:?} as what is added: {why}").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_whole_texts() {
        for (text, begins) in [("1", "1"), ("-0.50", "-.5"), ("+3E2", "300"), (".5", ".5"), ("9E46", "9")] {
            assert!(number(text).unwrap().to_string().starts_with(begins), "{text}");
        }
        for wrong in ["", "-", ".", "E5", "3 apples", "3e2", "inf", "nan", "1E47", "-1E999", "0x1", "1.2.3"] {
            assert!(number(wrong).is_err(), "{wrong}");
        }
    }
}
