//! A database as the statements that make it, in one transaction: tables with their rows, then what is made
//! of them. SQLite's shell and ours carry them out, whosever the database is.
//!
//! Rows of virtual tables are inserted into these, so that what they keep them in is made anew; that is left
//! out, as are computed columns, and what `ANALYZE` has found.

use std::io::Write;

use rusqlite::Connection;

use super::rows::{self, Look, Mode};
use crate::Failure;

/// Prints the statements for what is called so, by SQLite's `LIKE`. All of it is of one state.
pub(super) fn dump(db: &Connection, of: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let is_alone = db.is_autocommit();
    if is_alone {
        db.execute_batch("BEGIN")?;
    }
    let done = print(db, of, out);
    if is_alone {
        db.execute_batch("COMMIT")?;
    }
    done
}

fn print(db: &Connection, of: &str, out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out, "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;")?;
    let tables = "SELECT s.name, s.sql FROM main.sqlite_schema s JOIN pragma_table_list l
        ON l.schema = 'main' AND l.name = s.name AND l.type IN ('table', 'virtual')
        WHERE s.type = 'table' AND s.name LIKE ?1
        AND (s.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' OR s.name = 'sqlite_sequence')
        ORDER BY s.name = 'sqlite_sequence', l.type, s.rowid";
    let mut tables = db.prepare(tables)?;
    let tables = tables.query_map([of], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (name, sql) in tables.collect::<Result<Vec<(String, String)>, _>>()? {
        match name == "sqlite_sequence" {
            true => writeln!(out, "DELETE FROM sqlite_sequence;")?,
            false => writeln!(out, "{sql};")?,
        }
        print_rows(db, &name, out)?;
    }
    let rest = "SELECT sql || ';' FROM main.sqlite_schema WHERE type IN ('index', 'trigger', 'view')
        AND sql IS NOT NULL AND (name LIKE ?1 OR tbl_name LIKE ?1)
        ORDER BY CASE type WHEN 'index' THEN 1 WHEN 'view' THEN 2 ELSE 3 END, rowid";
    let mut rest = db.prepare(rest)?;
    rest.raw_bind_parameter(1, of)?;
    rows::print(&mut rest, &Look::new(Mode::List), out)?;
    Ok(writeln!(out, "COMMIT;")?)
}

fn print_rows(db: &Connection, table: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let mut columns = db.prepare("SELECT name, hidden FROM pragma_table_xinfo(?1)")?;
    let columns = columns.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let columns = columns.collect::<Result<Vec<(String, i64)>, _>>()?;
    let kept = || columns.iter().filter(|(_, hidden)| *hidden == 0).map(|(name, _)| quoted(name));
    let names = match kept().count() == columns.len() {
        true => String::new(),
        false => format!("({})", kept().collect::<Vec<_>>().join(",")),
    };
    // Of text quote() has what comes before a zero byte.
    let value = |name: String| {
        format!(
            "iif(typeof({name}) = 'text' AND instr({name}, char(0)), \
             'CAST(x''' || hex({name}) || ''' AS TEXT)', quote({name}))"
        )
    };
    let values: Vec<String> = kept().map(value).collect();
    let begins = format!("INSERT INTO {}{names} VALUES(", quoted(table)).replace('\'', "''");
    let select =
        format!("SELECT '{begins}' || {} || ');' FROM {}", values.join(" || ',' || "), quoted(table));
    rows::print(&mut db.prepare(&select)?, &Look::new(Mode::List), out)
}

/// A name, as SQL has those of any characters.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
