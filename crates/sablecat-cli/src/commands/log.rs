//! `log`: what was committed, commit by commit.

use std::io::{self, BufWriter, Write};
use std::ops::Bound;
use std::time::Duration;

use sablecat::{Change, ChangesOptions, Commit, Env, Lsn};
use serde_json::{Map, Value, json};

use crate::arguments::Existing;
use crate::{Failure, Outcome, interrupt, output};

/// How long it waits for a commit before it asks whether it was told to stop.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Print the commits, one by one, from the oldest one in the log that is kept
///
/// Each change is a line: the commit's LSN, the kind of change, and what was changed, with tabs between. The
/// bounds of a removed range are ".." (unbounded), "=" and a key (inclusive), or "!" and a key (exclusive).
/// With --json each commit is one line of JSON. Without a journal (see journal) the log is kept only as far
/// back as recovery needs it, and an environment that was closed has no log to print.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Existing,
    /// After that, print new commits as they come, until interrupted
    #[arg(long)]
    follow: bool,
    /// Begin after the commit with this LSN
    #[arg(long, value_name = "LSN")]
    from: Option<u64>,
    /// Also print commits that are written to the operating system and not durable on the disk yet
    #[arg(long)]
    written: bool,
    /// Print keys and values as hexadecimal digits
    #[arg(long)]
    hex: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let place = &arguments.place;
    // Closed, and no journal kept: there is no log, and nothing need be written to find that out.
    if !arguments.follow
        && arguments.from.is_none()
        && place.open_closed().is_some()
        && Env::builder().history(place.path())?.journal.is_none()
    {
        return Ok(Outcome::Done);
    }
    let env = place.open()?;
    let from = arguments.from.map_or_else(|| env.oldest_change(), |lsn| Ok(Lsn(lsn)))?;
    let mut changes = env.changes_with(from, ChangesOptions::new().written(arguments.written))?;
    let mut out = BufWriter::new(io::stdout().lock());
    loop {
        interrupt::check()?;
        if let Some(commit) = changes.try_next()? {
            arguments.print(&mut out, &commit)?;
            continue;
        }
        // A reader at the other end of a pipe sees what there is.
        out.flush()?;
        if !arguments.follow {
            break;
        }
        if let Some(commit) = changes.next_within(ASK_EVERY)? {
            arguments.print(&mut out, &commit)?;
        }
    }
    drop((out, changes));
    env.close()?;
    Ok(Outcome::Done)
}

impl Arguments {
    fn print(&self, out: &mut impl Write, commit: &Commit<'_>) -> Result<(), Failure> {
        let mut changes = commit.changes();
        if !self.place.json {
            while let Some(change) = changes.next()? {
                self.line(out, commit.lsn(), change)?;
            }
            return Ok(());
        }
        // Of a large commit one change at a time is in memory.
        write!(out, "{{\"lsn\":{}", commit.lsn())?;
        if let Some(time) = commit.time() {
            write!(out, ",\"time\":{}", json!(time.to_string()))?;
        }
        write!(out, ",\"changes\":[")?;
        let mut comma = "";
        while let Some(change) = changes.next()? {
            write!(out, "{comma}")?;
            serde_json::to_writer(&mut *out, &self.object(change))?;
            comma = ",";
        }
        Ok(writeln!(out, "]}}")?)
    }

    fn line(&self, out: &mut impl Write, lsn: Lsn, change: Change<'_>) -> Result<(), Failure> {
        let bytes = |bytes: &[u8]| output::text(bytes, self.hex);
        let name = |name: &str| output::text(name.as_bytes(), false);
        match change {
            Change::Insert { database, key, value } => {
                writeln!(out, "{lsn}\tinsert\t{}\t{}\t{}", name(database), bytes(key), bytes(value))
            }
            Change::Remove { database, key } => {
                writeln!(out, "{lsn}\tremove\t{}\t{}", name(database), bytes(key))
            }
            Change::RemoveRange { database, lower, upper } => {
                let end = |bound: Bound<&[u8]>| match bound {
                    Bound::Unbounded => "..".to_owned(),
                    Bound::Included(key) => format!("={}", bytes(key)),
                    Bound::Excluded(key) => format!("!{}", bytes(key)),
                };
                writeln!(out, "{lsn}\tremove range\t{}\t{}\t{}", name(database), end(lower), end(upper))
            }
            Change::CreateDatabase { name: new, index: Some(index), .. } => {
                writeln!(out, "{lsn}\tcreate index\t{}\t{}", name(new), name(&index.primary))
            }
            Change::CreateDatabase { name: new, temporary: true, .. } => {
                writeln!(out, "{lsn}\tcreate temporary database\t{}", name(new))
            }
            Change::CreateDatabase { name: new, .. } => {
                writeln!(out, "{lsn}\tcreate database\t{}", name(new))
            }
            Change::RenameDatabase { from, to } => {
                writeln!(out, "{lsn}\trename database\t{}\t{}", name(from), name(to))
            }
            Change::RemoveDatabase { name: gone } => writeln!(out, "{lsn}\tremove database\t{}", name(gone)),
            _ => writeln!(out, "{lsn}\tsomething else"),
        }?;
        Ok(())
    }

    /// A key at an end of a range, and whether it is part of that.
    fn bound(&self, key: &[u8], included: bool) -> Value {
        let members = output::members(key, None, self.hex).into_iter();
        Value::Object(members.chain([("included".to_owned(), Value::from(included))]).collect())
    }

    fn object(&self, change: Change<'_>) -> Map<String, Value> {
        let (what, members) = match change {
            Change::Insert { database, key, value } => (
                "insert",
                [("database".to_owned(), database.into())]
                    .into_iter()
                    .chain(output::members(key, Some(value), self.hex))
                    .collect(),
            ),
            Change::Remove { database, key } => (
                "remove",
                [("database".to_owned(), database.into())]
                    .into_iter()
                    .chain(output::members(key, None, self.hex))
                    .collect(),
            ),
            Change::RemoveRange { database, lower, upper } => {
                let end = |bound: Bound<&[u8]>| match bound {
                    Bound::Unbounded => Value::Null,
                    Bound::Included(key) => self.bound(key, true),
                    Bound::Excluded(key) => self.bound(key, false),
                };
                let (lower, upper) = (end(lower), end(upper));
                ("remove_range", object(json!({ "database": database, "lower": lower, "upper": upper })))
            }
            Change::CreateDatabase { name, comparator, method, holds, index, temporary } => {
                let (method, holds) = (method.to_string(), holds.to_string());
                let mut how =
                    json!({ "name": name, "comparator": comparator, "method": method, "holds": holds });
                if let Some(index) = index {
                    how["index"] = output::index(index);
                }
                if temporary {
                    how["temporary"] = true.into();
                }
                ("create_database", object(how))
            }
            Change::RenameDatabase { from, to } => {
                ("rename_database", object(json!({ "from": from, "to": to })))
            }
            Change::RemoveDatabase { name } => ("remove_database", object(json!({ "name": name }))),
            _ => ("other", Map::new()),
        };
        [("change".to_owned(), Value::from(what))].into_iter().chain(members).collect()
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
