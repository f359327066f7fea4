//! `text`: the lines of a file as numbered records, and back.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use sablecat::{DatabaseOptions, Env, Holds, Numbered, TextFile};
use sablecat_os::regular;
use serde_json::json;

use crate::arguments::{InDatabase, Reading};
use crate::commands::db;
use crate::{Failure, Outcome, output};

/// Keep the lines of a text file as numbered records
///
/// Between `read` and `write` the records are changed as any others (`put`, `put --insert`, `del`), and the
/// file does not change. If the records have one length, so have those of the file, which follow each other
/// without line ends.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Replace all records of a database by the lines of a file, in one transaction
    ///
    /// Environment and database are created if they do not exist. The last line need not have a line end.
    Read {
        #[command(flatten)]
        place: InDatabase,
        #[command(flatten)]
        ends: Ends,
        /// Create the database, if there is none, with numbers that close up and make room
        #[arg(long)]
        renumbered: bool,
        /// The file
        file: PathBuf,
    },
    /// Write the records of a database to a file, as its lines
    ///
    /// They are written to a new file beside it, of its name and .new, which takes its place and its
    /// permissions: a reader finds the old lines or the new ones, after a crash too. A number without a
    /// record becomes an empty line. A symbolic link stays, and the file that it leads to is replaced.
    Write {
        #[command(flatten)]
        place: InDatabase,
        #[command(flatten)]
        reading: Reading,
        #[command(flatten)]
        ends: Ends,
        /// The file
        file: PathBuf,
    },
}

/// What lines end with.
#[derive(Clone, Copy, Debug, clap::Args)]
struct Ends {
    /// The byte that records end with in the file, as a number; 10 ends lines
    #[arg(long, value_name = "BYTE", default_value_t = b'\n')]
    delimiter: u8,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    match &arguments.what {
        What::Read { place, ends, renumbered, file } => read(place, *ends, *renumbered, file),
        What::Write { place, reading, ends, file } => {
            let (env, database) = place.open_to_read(reading)?;
            let text = TextFile::unread(Numbered::of(database)?, file, ends.delimiter);
            text.sync()?;
            drop(text);
            env.close()?;
            if place.environment.json {
                output::json(&json!({ "file": file.display().to_string() }))?;
            }
            Ok(Outcome::Done)
        }
    }
}

fn read(place: &InDatabase, ends: Ends, renumbered: bool, file: &Path) -> Result<Outcome, Failure> {
    // The library takes one that is not there for one without lines.
    if !file.try_exists().map_err(|error| format!("looking for {}: {error}", file.display()))? {
        return Err(format!("reading the text {}: there is no such file", file.display()).into());
    }
    // The text may be longer than memory: what is made for it is tried there, and that it can be read here.
    regular::open(file, OpenOptions::new().read(true), 0)
        .map_err(|error| format!("reading the text {}: {error}", file.display()))?;
    let holds = match renumbered {
        true => Holds::Renumbered { record_bytes: None, pad: 0 },
        false => Holds::Numbers { record_bytes: None, pad: 0 },
    };
    let numbered = |env: &Env| -> Result<Numbered, Failure> {
        let database = match env.existing_database(&place.db)? {
            Some(database) => database,
            None => db::made(env, &place.db, DatabaseOptions::new().holds(holds))?,
        };
        Ok(Numbered::of(database)?)
    };
    let records = place.environment.with_made_after(&place.db, numbered, |env| {
        let text = TextFile::open_with(numbered(env)?, file, ends.delimiter)?;
        Ok(text.numbered().len(env)?)
    })?;
    if place.environment.json {
        output::json(&json!({ "records": records }))?;
    } else {
        output::line(&format!("{records} records read"))?;
    }
    Ok(Outcome::Done)
}
