//! Records as JSON, an object on each line.
//!
//! ```text
//! {"sablecat":"dump","version":1}
//! {"database":"fruit"}
//! {"database":"fruit","key":"apple","value_hex":"ff00"}
//! {"end":true,"records":1}
//! ```
//!
//! `key_hex` and `value_hex` stand where bytes are no text, and a `number` in place of a key where a record
//! has one. The first line and the last may both be missing, in what others write; where there is the first,
//! the last must be there, and count right. A line with a database alone says that there is one, perhaps
//! without records, and, with `"method":"hash"` or `"counted"`, that it is a hash table or a counted B+tree
//! if it is made; with `"holds"`, which kind of records it has: `"values"` (with `"sorted"`), `"queue"`,
//! `"numbers"` and `"renumbered"` (with `"record_bytes"` and `"pad"`), `"globals"`, `"expiring"`. Records of
//! such a one may have `"expires"`: from when on they are gone, in milliseconds since 1970. With
//! `"temporary":true` it is a temporary database if it is made.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};

use sablecat::{Duplicates, Holds, Method};
use serde_json::{Map, Value, json};

use super::kinds::{Made, Which};
use super::lines::Lines;
use super::{Part, Parts};
use crate::arguments::from_hex;
use crate::{Failure, output};

/// What methods are called, but for B+trees.
const HASH: &str = "hash";
const COUNTED: &str = "counted";
const LSM: &str = "lsm";
/// What kinds of records are called.
const VALUES: &str = "values";
const QUEUE: &str = "queue";
const NUMBERS: &str = "numbers";
const RENUMBERED: &str = "renumbered";
const GLOBALS: &str = "globals";
const EXPIRING: &str = "expiring";
/// The member that says that a database is temporary.
const TEMPORARY: &str = "temporary";

/// Writes the text.
pub(crate) struct Writer<W> {
    out: W,
    database: Value,
    records: u64,
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(mut out: W) -> io::Result<Writer<W>> {
        writeln!(out, "{}", json!({ "sablecat": "dump", "version": 1 }))?;
        Ok(Writer { out, database: Value::Null, records: 0 })
    }

    /// Begins a database.
    pub(crate) fn begin(&mut self, name: &str, made: Made) -> io::Result<()> {
        self.database = name.into();
        let mut object = json!({ "database": name });
        match made.method {
            Method::Hash => object["method"] = HASH.into(),
            Method::Lsm => object["method"] = LSM.into(),
            // Renumbered records are always counted.
            Method::Counted if !matches!(made.holds, Holds::Renumbered { .. }) => {
                object["method"] = COUNTED.into();
            }
            _ => {}
        }
        match made.holds {
            Holds::Values(order) => {
                object["holds"] = VALUES.into();
                object["sorted"] = (order == Duplicates::Sorted).into();
            }
            Holds::Queue { record_bytes, pad } => {
                object["holds"] = QUEUE.into();
                object["record_bytes"] = record_bytes.into();
                object["pad"] = pad.into();
            }
            Holds::Numbers { record_bytes, pad } | Holds::Renumbered { record_bytes, pad } => {
                let renumbers = matches!(made.holds, Holds::Renumbered { .. });
                object["holds"] = if renumbers { RENUMBERED } else { NUMBERS }.into();
                if let Some(bytes) = record_bytes {
                    object["record_bytes"] = bytes.into();
                    object["pad"] = pad.into();
                }
            }
            Holds::Globals => object["holds"] = GLOBALS.into(),
            Holds::Expiring => object["holds"] = EXPIRING.into(),
            _ => {}
        }
        if made.temporary {
            object[TEMPORARY] = true.into();
        }
        writeln!(self.out, "{object}")
    }

    pub(crate) fn record(&mut self, which: Which<'_>, value: &[u8]) -> io::Result<()> {
        let mut object = Map::new();
        object.insert("database".to_owned(), self.database.clone());
        match which {
            Which::Key(key) => object.append(&mut output::members(key, Some(value), false)),
            Which::Expiring(key, expires) => {
                object.append(&mut output::members(key, Some(value), false));
                object.insert("expires".to_owned(), expires.into());
            }
            Which::Number(number) => {
                object.insert("number".to_owned(), number.into());
                object.append(&mut output::member("value", value, false));
            }
        }
        serde_json::to_writer(&mut self.out, &object)?;
        self.records += 1;
        self.out.write_all(b"\n")
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        writeln!(self.out, "{}", json!({ "end": true, "records": self.records }))?;
        self.out.flush()
    }
}

/// Reads the text.
pub(crate) struct Reader<R> {
    lines: Lines<R>,
    /// Whether there was a first line, which says that there must be a last.
    begun: bool,
    ended: bool,
    records: u64,
    /// The name of the database that began last.
    database: Option<Option<String>>,
    /// What was said of each.
    made: HashMap<Option<String>, Made>,
    /// A record whose database has just begun.
    held: Option<Part>,
}

impl<R: BufRead> Parts for Reader<R> {
    fn next(&mut self) -> Result<Option<Part>, Failure> {
        if let Some(part) = self.held.take() {
            return Ok(Some(part));
        }
        while self.lines.advance()? {
            if self.ended {
                return Err(self.lines.wrong("there is more after the last line"));
            }
            let object: Map<String, Value> = serde_json::from_slice(self.lines.line())
                .map_err(|error| self.lines.wrong(format!("not a JSON object: {error}")))?;
            if object.contains_key("sablecat") {
                self.first(&object)?;
            } else if object.contains_key("end") {
                self.last(&object)?;
            } else if let Some(part) = self.part(object)? {
                return Ok(Some(part));
            }
        }
        if self.begun && !self.ended {
            return Err(self
                .lines
                .wrong("the last line, with the count of records, is missing: the input was cut short"));
        }
        Ok(None)
    }

    fn wrong(&self, why: &dyn std::fmt::Display) -> Failure {
        self.lines.wrong(why)
    }
}

impl<R: BufRead> Reader<R> {
    pub(crate) fn new(lines: Lines<R>) -> Reader<R> {
        Reader {
            lines,
            begun: false,
            ended: false,
            records: 0,
            database: None,
            made: HashMap::new(),
            held: None,
        }
    }

    fn first(&mut self, object: &Map<String, Value>) -> Result<(), Failure> {
        if self.begun || self.database.is_some() || object.get("version") != Some(&1.into()) {
            return Err(self.lines.wrong("a first line of a dump of version 1 expected, and that once"));
        }
        self.begun = true;
        Ok(())
    }

    fn last(&mut self, object: &Map<String, Value>) -> Result<(), Failure> {
        let said = object.get("records").and_then(Value::as_u64);
        if said != Some(self.records) {
            return Err(self
                .lines
                .wrong(format!("there were {} records, and the last line says otherwise", self.records)));
        }
        self.ended = true;
        Ok(())
    }

    fn part(&mut self, mut object: Map<String, Value>) -> Result<Option<Part>, Failure> {
        let name = match object.remove("database") {
            Some(Value::String(name)) => Some(name),
            None => None,
            Some(_) => return Err(self.lines.wrong("\"database\" is a text")),
        };
        let method = match object.remove("method") {
            None => Method::Btree,
            Some(method) if method == HASH => Method::Hash,
            Some(method) if method == COUNTED => Method::Counted,
            Some(method) if method == LSM => Method::Lsm,
            Some(_) => {
                let why = format!("\"method\" is {HASH:?}, {COUNTED:?} or {LSM:?}, or not there");
                return Err(self.lines.wrong(why));
            }
        };
        let holds = self.holds(&mut object)?;
        let temporary = match object.remove(TEMPORARY) {
            None => false,
            Some(Value::Bool(temporary)) => temporary,
            Some(_) => return Err(self.lines.wrong(format!("{TEMPORARY:?} is true or false, or not there"))),
        };
        let (key, value) = (self.bytes(&mut object, "key")?, self.bytes(&mut object, "value")?);
        let number = match object.remove("number") {
            None => None,
            Some(number) => match number.as_u64() {
                Some(number) if number > 0 => Some(number),
                _ => return Err(self.lines.wrong("\"number\" is a whole number above 0")),
            },
        };
        let expires = match object.remove("expires") {
            None => None,
            Some(expires) => match expires.as_u64() {
                Some(expires) if expires > 0 => Some(expires),
                _ => return Err(self.lines.wrong("\"expires\" is a number of milliseconds since 1970")),
            },
        };
        if let Some(member) = object.keys().next() {
            return Err(self.lines.wrong(format!("{member:?} is not known")));
        }
        let record = match (key, number, value) {
            (Some(key), None, Some(value)) => Some(match expires {
                Some(expires) => Part::Expiring(key, value, expires),
                None => Part::Record(key, value),
            }),
            (None, Some(number), Some(value)) if expires.is_none() => {
                Some(Part::Numbered(Some(number), value))
            }
            (None, None, None) if name.is_some() && expires.is_none() => None,
            _ => return Err(self.lines.wrong("a key and a value expected, or a database alone")),
        };
        self.records += u64::from(record.is_some());
        if record.is_some() && self.database.as_ref() == Some(&name) {
            return Ok(record);
        }
        // A record says nothing of its database: that is as it was said before.
        let made = match (&record, self.made.get(&name)) {
            (Some(_), Some(made)) => *made,
            _ => Made { method, holds, temporary },
        };
        self.made.insert(name.clone(), made);
        self.database = Some(name.clone());
        self.held = record;
        Ok(Some(Part::Database(name, made)))
    }

    /// What a database is said to hold.
    fn holds(&self, object: &mut Map<String, Value>) -> Result<Holds, Failure> {
        let Some(kind) = object.remove("holds") else { return Ok(Holds::Records) };
        let byte = |value: Option<Value>| match value {
            None => Ok(0),
            Some(value) => value
                .as_u64()
                .and_then(|pad| u8::try_from(pad).ok())
                .ok_or_else(|| self.lines.wrong("\"pad\" is a byte")),
        };
        let bytes = match object.remove("record_bytes") {
            None => None,
            Some(value) => match value.as_u64().and_then(|bytes| u32::try_from(bytes).ok()) {
                Some(bytes) if bytes > 0 => Some(bytes),
                _ => return Err(self.lines.wrong("\"record_bytes\" is a number of bytes")),
            },
        };
        match (kind.as_str(), bytes) {
            (Some(VALUES), None) => match object.remove("sorted") {
                Some(Value::Bool(true)) => Ok(Holds::Values(Duplicates::Sorted)),
                Some(Value::Bool(false)) => Ok(Holds::Values(Duplicates::Inserted)),
                _ => Err(self.lines.wrong("\"sorted\" is true or false")),
            },
            (Some(QUEUE), Some(record_bytes)) => {
                Ok(Holds::Queue { record_bytes, pad: byte(object.remove("pad"))? })
            }
            (Some(NUMBERS), record_bytes) => {
                Ok(Holds::Numbers { record_bytes, pad: byte(object.remove("pad"))? })
            }
            (Some(RENUMBERED), record_bytes) => {
                Ok(Holds::Renumbered { record_bytes, pad: byte(object.remove("pad"))? })
            }
            (Some(GLOBALS), None) => Ok(Holds::Globals),
            (Some(EXPIRING), None) => Ok(Holds::Expiring),
            _ => Err(self.lines.wrong(format!("it cannot be that \"holds\" is {kind}"))),
        }
    }

    /// The bytes of a member, as text or as digits.
    fn bytes(&self, object: &mut Map<String, Value>, name: &str) -> Result<Option<Vec<u8>>, Failure> {
        let hex = format!("{name}_hex");
        match (object.remove(name), object.remove(&hex)) {
            (None, None) => Ok(None),
            (Some(Value::String(text)), None) => Ok(Some(text.into_bytes())),
            (None, Some(Value::String(digits))) => match from_hex(&digits) {
                Some(bytes) => Ok(Some(bytes)),
                None => Err(self.lines.wrong(format!("{hex:?} is pairs of hexadecimal digits"))),
            },
            _ => Err(self
                .lines
                .wrong(format!("one of {name:?} and {hex:?} must be there, as a text, and not both"))),
        }
    }
}
