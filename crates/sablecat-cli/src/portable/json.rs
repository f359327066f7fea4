//! Records as JSON, an object on each line.
//!
//! ```text
//! {"sablecat":"dump","version":1}
//! {"database":"fruit"}
//! {"database":"fruit","key":"apple","value_hex":"ff00"}
//! {"end":true,"records":1}
//! ```
//!
//! `key_hex` and `value_hex` stand where bytes are no text. The first line and the last may both be missing,
//! in what others write; where there is the first, the last must be there, and count right. A line with a
//! database alone says that there is one, perhaps without records, and, with `"method":"hash"`, that it is a
//! hash table if it is made.

use std::io::{self, BufRead, Write};

use sablecat::Method;
use serde_json::{Map, Value, json};

use super::lines::Lines;
use super::{Part, Parts};
use crate::arguments::from_hex;
use crate::{Failure, output};

/// What a hash table is called.
const HASH: &str = "hash";

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
    pub(crate) fn begin(&mut self, name: &str, method: Method) -> io::Result<()> {
        self.database = name.into();
        let mut object = json!({ "database": name });
        if method == Method::Hash {
            object["method"] = HASH.into();
        }
        writeln!(self.out, "{object}")
    }

    pub(crate) fn record(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let mut object = Map::new();
        object.insert("database".to_owned(), self.database.clone());
        object.append(&mut output::members(key, Some(value), false));
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
        Reader { lines, begun: false, ended: false, records: 0, database: None, held: None }
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
            Some(_) => return Err(self.lines.wrong(format!("\"method\" is {HASH:?}, or not there"))),
        };
        let (key, value) = (self.bytes(&mut object, "key")?, self.bytes(&mut object, "value")?);
        if let Some(member) = object.keys().next() {
            return Err(self.lines.wrong(format!("{member:?} is not known")));
        }
        let record = match (key, value) {
            (Some(key), Some(value)) => Some(Part::Record(key, value)),
            (None, None) if name.is_some() => None,
            _ => return Err(self.lines.wrong("a key and a value expected, or a database alone")),
        };
        self.records += u64::from(record.is_some());
        if record.is_some() && self.database.as_ref() == Some(&name) {
            return Ok(record);
        }
        self.database = Some(name.clone());
        self.held = record;
        Ok(Some(Part::Database(name, method)))
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
            _ => Err(self.lines.wrong(format!("{name:?} or {hex:?} is a text, and there is one of them"))),
        }
    }
}
