//! What a statement returns, printed in one of several ways.

use std::io::Write;

use rusqlite::types::ValueRef;
use rusqlite::{Row, Statement};
use sablecat_papers::Grid;
use serde_json::{Map, Number, Value};

use crate::arguments::to_hex;
use crate::{Failure, interrupt, output};

/// How rows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// A line each, values parted.
    List,
    /// Comma-separated values, as RFC 4180 has them.
    Csv,
    /// An array of objects.
    Json,
    /// Columns one below the other, each as wide as it has to be.
    Table,
    /// A line for each value, with the column's name.
    Line,
}

/// All of them, by name.
pub(super) const MODES: &[(&str, Mode)] = &[
    ("list", Mode::List),
    ("csv", Mode::Csv),
    ("json", Mode::Json),
    ("table", Mode::Table),
    ("line", Mode::Line),
];

/// How answers look.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) mode: Mode,
    /// What parts values in a list.
    pub(super) separator: String,
    /// What stands for no value.
    pub(super) null: String,
    /// The columns' names come first, in lists and of comma-separated values.
    pub(super) has_heads: bool,
}

impl Look {
    pub(super) fn new(mode: Mode) -> Look {
        Look { mode, separator: "|".to_owned(), null: String::new(), has_heads: false }
    }

    fn text(&self, value: ValueRef<'_>) -> Vec<u8> {
        match value {
            ValueRef::Null => self.null.clone().into_bytes(),
            ValueRef::Integer(integer) => integer.to_string().into_bytes(),
            ValueRef::Real(real) => format!("{real:?}").into_bytes(),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
        }
    }
}

/// Runs a statement to its end, and prints its rows.
pub(super) fn print(
    statement: &mut Statement<'_>,
    look: &Look,
    out: &mut (impl Write + ?Sized),
) -> Result<(), Failure> {
    let heads: Vec<String> = statement.column_names().map(str::to_owned).collect();
    match look.mode {
        Mode::List => print_list(statement, (&heads, look), out),
        Mode::Csv => print_csv(statement, (&heads, look), out),
        Mode::Json => print_json(statement, &heads, out),
        Mode::Table => print_table(statement, (heads, look), out),
        Mode::Line => print_lines(statement, (&heads, look), out),
    }
}

/// Each row of a statement; whether there were any.
fn each(
    statement: &mut Statement<'_>,
    mut show: impl FnMut(&Row<'_>) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    let mut rows = statement.raw_query();
    let mut any = false;
    while let Some(row) = rows.next()? {
        interrupt::check()?;
        show(row)?;
        any = true;
    }
    Ok(any)
}

fn print_list(
    statement: &mut Statement<'_>,
    (heads, look): (&[String], &Look),
    out: &mut (impl Write + ?Sized),
) -> Result<(), Failure> {
    if look.has_heads && !heads.is_empty() {
        writeln!(out, "{}", heads.join(&look.separator))?;
    }
    each(statement, |row| {
        for column in 0..heads.len() {
            if column > 0 {
                out.write_all(look.separator.as_bytes())?;
            }
            out.write_all(&look.text(row.get_ref(column)?))?;
        }
        Ok(out.write_all(b"\n")?)
    })?;
    Ok(())
}

fn print_csv(
    statement: &mut Statement<'_>,
    (heads, look): (&[String], &Look),
    out: &mut (impl Write + ?Sized),
) -> Result<(), Failure> {
    let mut lines = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(out);
    if look.has_heads && !heads.is_empty() {
        lines.write_record(heads).map_err(of_csv)?;
    }
    each(statement, |row| {
        let values = (0..heads.len()).map(|column| Ok(look.text(row.get_ref(column)?)));
        lines.write_record(values.collect::<Result<Vec<_>, Failure>>()?).map_err(of_csv)
    })?;
    Ok(lines.flush()?)
}

/// Why comma-separated values could not be written: what writes them hands on what the file said.
fn of_csv(error: csv::Error) -> Failure {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error.into(),
        other => format!("writing comma-separated values: {other:?}").into(),
    }
}

fn print_json(
    statement: &mut Statement<'_>,
    heads: &[String],
    out: &mut (impl Write + ?Sized),
) -> Result<(), Failure> {
    let mut before: &[u8] = b"[";
    let any = each(statement, |row| {
        out.write_all(std::mem::replace(&mut before, b",\n"))?;
        Ok(serde_json::to_writer(&mut *out, &object(heads, row)?)?)
    })?;
    if any {
        out.write_all(b"]\n")?;
    }
    Ok(())
}

fn object(heads: &[String], row: &Row<'_>) -> Result<Map<String, Value>, Failure> {
    let mut object = Map::new();
    for (column, head) in heads.iter().enumerate() {
        let value = match row.get_ref(column)? {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(integer) => integer.into(),
            // What JSON has no number for is said in words.
            ValueRef::Real(real) => {
                Number::from_f64(real).map_or_else(|| real.to_string().into(), Value::Number)
            }
            ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
            ValueRef::Blob(blob) => to_hex(blob).into(),
        };
        object.insert(head.clone(), value);
    }
    Ok(object)
}

fn print_table(
    statement: &mut Statement<'_>,
    (heads, look): (Vec<String>, &Look),
    out: &mut (impl Write + ?Sized),
) -> Result<(), Failure> {
    let text_columns = heads.len();
    let mut grid = Grid { heads, text_columns, ..Grid::default() };
    let any = each(statement, |row| {
        let cell = |column| Ok(String::from_utf8_lossy(&look.text(row.get_ref(column)?)).into_owned());
        grid.rows.push((0..text_columns).map(cell).collect::<Result<_, Failure>>()?);
        Ok(())
    })?;
    if any {
        out.write_all(output::rendered(&grid).as_bytes())?;
    }
    Ok(())
}

fn print_lines(
    statement: &mut Statement<'_>,
    (heads, look): (&[String], &Look),
    out: &mut (impl Write + ?Sized),
) -> Result<(), Failure> {
    let width = heads.iter().map(|head| head.chars().count()).max().unwrap_or(0);
    let mut before: &[u8] = b"";
    each(statement, |row| {
        out.write_all(std::mem::replace(&mut before, b"\n"))?;
        for (column, head) in heads.iter().enumerate() {
            write!(out, "{head:>width$} = ")?;
            out.write_all(&look.text(row.get_ref(column)?))?;
            out.write_all(b"\n")?;
        }
        Ok(())
    })?;
    Ok(())
}
