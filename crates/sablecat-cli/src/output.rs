//! The one place that prints answers: text and tables for people, JSON for programs.
//!
//! A key or value is any bytes, and both forms keep it whole. Text shows what is not printable as `\xNN`
//! escapes, unless hexadecimal digits were asked for. JSON has `"key"` when it is text and `"key_hex"` when
//! it is not, or when digits were asked for; `"value"` likewise. In place of a key, a record may have a
//! `"tuple"` or a `"number"`, or be a `"node"` of a global.

use std::error::Error;
use std::io::{self, IsTerminal, Write};

use sablecat_papers::Grid;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::arguments::to_hex;
use crate::naming::{Name, Spelling};
use crate::{Failure, tuples};

/// Prints one JSON document, indented.
pub(crate) fn json(document: &impl Serialize) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, document)?;
    Ok(writeln!(out)?)
}

/// Prints a line.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    Ok(writeln!(io::stdout().lock(), "{text}")?)
}

/// Prints lines.
pub(crate) fn lines(mut lines: impl Iterator<Item = String>) -> Result<(), Failure> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    lines.try_for_each(|line| writeln!(out, "{line}"))?;
    Ok(out.flush()?)
}

/// Prints a number, which has this name in JSON.
pub(crate) fn number(json_wanted: bool, name: &str, number: impl Into<Value>) -> Result<(), Failure> {
    let number = number.into();
    if json_wanted { json(&Map::from_iter([(name.to_owned(), number)])) } else { line(&number.to_string()) }
}

/// Prints names and what they stand for, one pair a line.
pub(crate) fn pairs<const N: usize>(pairs: [(&str, String); N]) -> Result<(), Failure> {
    let mut grid = Grid::new("", ["", ""], 1);
    grid.rows = pairs.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    table(&grid)
}

/// Whether a value alone is printed as a line: of digits, or on a terminal. Else its bytes go out as they
/// are, into a pipe or a file.
pub(crate) fn is_line(hex: bool) -> bool {
    hex || io::stdout().is_terminal()
}

/// Prints a value alone as a line.
pub(crate) fn value_line(bytes: &[u8], hex: bool) -> Result<(), Failure> {
    line(&text(bytes, hex))
}

/// Prints part of a value, as it is.
pub(crate) fn value_part(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

/// A record as the members of a JSON object; for commands that only know the key, or only show it, without
/// its value.
pub(crate) fn members(key: &[u8], value: Option<&[u8]>, hex: bool) -> Map<String, Value> {
    let mut members = value.map(|value| member("value", value, hex)).unwrap_or_default();
    members.append(&mut member("key", key, hex));
    members
}

/// The same of a record that may have a tuple or a number, or be a node, in place of a key.
pub(crate) fn record(name: &Name, value: Option<&[u8]>, spelling: Spelling) -> Map<String, Value> {
    let hex = spelling.hex;
    let (what, named) = match name {
        Name::Key(key) => match tuples::shown(key).filter(|_| spelling.tuple) {
            Some(elements) => ("tuple", elements),
            None => return members(key, value, hex),
        },
        Name::Number(number) => ("number", Value::from(*number)),
        Name::Node(reference) => ("node", reference.as_str().into()),
    };
    let mut members = value.map(|value| member("value", value, hex)).unwrap_or_default();
    members.insert(what.to_owned(), named);
    members
}

/// Bytes as the one member of a JSON object.
pub(crate) fn member(name: &str, bytes: &[u8], hex: bool) -> Map<String, Value> {
    let member = match std::str::from_utf8(bytes) {
        Ok(text) if !hex => (name.to_owned(), text.into()),
        _ => (format!("{name}_hex"), to_hex(bytes).into()),
    };
    [member].into_iter().collect()
}

/// Prints records as they come: a line each, or the elements of a JSON array.
pub(crate) struct Records {
    out: io::BufWriter<io::StdoutLock<'static>>,
    json: bool,
    spelling: Spelling,
    count: u64,
}

impl Records {
    pub(crate) fn new(json: bool, spelling: Spelling) -> Records {
        Records { out: io::BufWriter::with_capacity(1 << 16, io::stdout().lock()), json, spelling, count: 0 }
    }

    /// One record: what names it and its value, or the name alone.
    pub(crate) fn push(&mut self, name: &Name, value: Option<&[u8]>) -> Result<(), Failure> {
        if self.json {
            self.out.write_all(if self.count == 0 { b"[\n  " } else { b",\n  " })?;
            serde_json::to_writer(&mut self.out, &record(name, value, self.spelling))?;
        } else {
            match name {
                Name::Key(key) if self.spelling.tuple => self.out.write_all(tuples::text(key).as_bytes())?,
                Name::Key(key) => self.out.write_all(text(key, self.spelling.hex).as_bytes())?,
                Name::Number(number) => write!(self.out, "{number}")?,
                Name::Node(reference) => self.out.write_all(reference.as_bytes())?,
            }
            if let Some(value) = value {
                write!(self.out, "\t{}", text(value, self.spelling.hex))?;
            }
            self.out.write_all(b"\n")?;
        }
        self.count += 1;
        Ok(())
    }

    /// After the last record.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        if self.json {
            self.out.write_all(if self.count == 0 { b"[]\n" } else { b"\n]\n" })?;
        }
        Ok(self.out.flush()?)
    }
}

/// Bytes as a line of text can show them.
pub(crate) fn text(bytes: &[u8], hex: bool) -> String {
    if hex {
        return to_hex(bytes);
    }
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                '\t' | '\n' | '\r' => text.extend(c.escape_default()),
                // Those beyond are of two bytes or more.
                c if c.is_ascii_control() => text.push_str(&format!("\\x{:02x}", c as u32)),
                c if c.is_control() => text.extend(c.escape_unicode()),
                c => text.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text
}

/// The name of a transaction as a cell of a table shows it.
pub(crate) fn name(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| text(name.as_bytes(), false))
}

/// Prints a table.
pub(crate) fn table(grid: &Grid) -> Result<(), Failure> {
    Ok(io::stdout().lock().write_all(rendered(grid).as_bytes())?)
}

/// A table as it is printed.
pub(crate) fn rendered(grid: &Grid) -> String {
    let headed = grid.heads.iter().any(|head| !head.is_empty());
    let width = |column: usize| {
        grid.rows.iter().chain([&grid.heads]).map(|cells| cells[column].chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..grid.heads.len()).map(width).collect();
    let row = |cells: &Vec<String>| {
        let cells = cells.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if column < grid.text_columns { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let title = (!grid.title.is_empty()).then(|| grid.title.clone());
    let heads = headed.then(|| row(&grid.heads));
    let rule = headed.then(|| widths.iter().map(|&width| "─".repeat(width)).collect::<Vec<_>>().join("  "));
    let lines = title
        .into_iter()
        .chain(heads)
        .chain(rule)
        .chain(grid.rows.iter().map(row))
        .chain(grid.widest())
        .chain(grid.remarks.iter().cloned());
    lines.map(|line| line + "\n").collect()
}

/// Whether the failure is that nobody reads the output any more.
pub(crate) fn is_broken_pipe(failure: &(dyn Error + 'static)) -> bool {
    let kind = match (failure.downcast_ref::<io::Error>(), failure.downcast_ref::<serde_json::Error>()) {
        (Some(error), _) => Some(error.kind()),
        (_, Some(error)) => error.io_error_kind(),
        _ => None,
    };
    kind == Some(io::ErrorKind::BrokenPipe)
}

/// What an environment is enciphered with.
pub(crate) fn encryption(encryption: &sablecat::EncryptionStats) -> serde_json::Value {
    serde_json::json!({
        "cipher": encryption.cipher.name(),
        "key": encryption.key,
        "keys": encryption.keys,
    })
}

/// What an index is.
pub(crate) fn index(index: &sablecat::IndexInfo) -> serde_json::Value {
    let references = index.references.as_ref().map(|(database, _)| database);
    serde_json::json!({
        "of": index.primary,
        "extractor": index.extractor,
        "unique": index.unique,
        "references": references,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_shows_every_byte() {
        assert_eq!(text("Grüße".as_bytes(), false), "Grüße");
        assert_eq!(text(b"a\tb\n\\\x00\x7f\xff", false), "a\\tb\\n\\\\\\x00\\x7f\\xff");
        assert_eq!(text(b"a\xff", true), "61ff");
    }

    #[test]
    fn json_says_when_bytes_are_not_text() {
        let json = |key, value, hex| Value::Object(members(key, value, hex)).to_string();
        assert_eq!(json(b"a", Some(b"b"), false), r#"{"key":"a","value":"b"}"#);
        assert_eq!(json(b"a", Some(b"\xff"), false), r#"{"key":"a","value_hex":"ff"}"#);
        assert_eq!(json(b"a", None, true), r#"{"key_hex":"61"}"#);
    }

    #[test]
    fn a_table_lines_its_columns_up() {
        let mut grid = Grid::new("Title", ["name", "ops"], 1);
        grid.rows = vec![vec!["a".to_owned(), "1,000".to_owned()], vec!["größer".to_owned(), "2".to_owned()]];
        grid.remarks = vec!["So much for that.".to_owned()];
        let expected =
            "Title\nname      ops\n──────  ─────\na       1,000\ngrößer      2\nSo much for that.\n";
        assert_eq!(rendered(&grid), expected);
    }
}
