//! `load`: databases from text that this or another program wrote.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;

use sablecat::globals::Globals;
use sablecat::{Duplicates, Holds, Txn};
use serde_json::json;

use crate::arguments::Existing;
use crate::aside::Aside;
use crate::portable::kinds::{Held, Made};
use crate::portable::lines::Lines;
use crate::portable::{Format, Part, Parts, berkeley, json};
use crate::{Failure, Outcome, interrupt, output};

/// Insert or update records from text that `dump` or another program wrote
///
/// All records are set, or none after any error: in one transaction. Until it has committed, its changes take
/// space on the disk twice, in the log and in files. Creates the environment and the databases if they do not
/// exist: an environment without volumes of its own in DIR.unfinished, which is moved to DIR when it is
/// complete. Existing records get the values of the text; where a key has several values, the values of the
/// text are added. Berkeley DB's hash tables of such keys go into B+trees, and a warning on standard error
/// says so. Numbered records for which the text has no numbers are appended after the existing ones.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Existing,
    /// The file with the text; without it, standard input is read
    file: Option<PathBuf>,
    /// The format of the text; without it, the beginning of the text tells the format
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The database for records for which the text names none
    #[arg(long, value_name = "NAME", default_value = "main")]
    db: String,
    /// Leave existing records as they are; the exit code is 1 if there were any
    #[arg(long)]
    no_overwrite: bool,
}

/// What was read and set.
#[derive(Debug, Default)]
struct Loaded {
    records: u64,
    /// Those that were there already, and left alone.
    kept: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let text: Box<dyn Read> = match &arguments.file {
        Some(path) => {
            Box::new(File::open(path).map_err(|error| format!("opening {}: {error}", path.display()))?)
        }
        None => Box::new(io::stdin().lock()),
    };
    let mut lines = Lines::new(BufReader::with_capacity(1 << 16, text));
    let format = arguments.format_of(&mut lines)?;
    if format == Format::Zwr && arguments.no_overwrite {
        return Err("nodes of globals are always overwritten: leave out --no-overwrite".into());
    }
    // Made aside if there is none, so that an error leaves none behind.
    let aside = arguments.place.is_to_be_made().then(|| Aside::new(arguments.place.path())).transpose()?;
    let env = match &aside {
        Some(aside) => arguments.place.builder()?.shared(true).open(aside.path())?,
        None => arguments.place.open_or_create()?,
    };
    let mut txn = env.begin()?;
    let loaded = arguments.load(&mut txn, lines, format)?;
    txn.commit()?;
    let closed = env.close();
    match aside {
        None => {
            closed.map_err(|error| format!("all records were set; closing the environment: {error}"))?;
        }
        Some(aside) => {
            closed?;
            aside.put()?;
        }
    }
    if arguments.place.json {
        output::json(&json!({ "records": loaded.records, "kept": loaded.kept }))?;
    } else {
        output::line(&format!("{} records set", loaded.records))?;
        if loaded.kept > 0 {
            output::line(&format!("{} existed already, and were left as they are", loaded.kept))?;
        }
    }
    Ok(if loaded.kept == 0 { Outcome::Done } else { Outcome::No })
}

impl Arguments {
    /// The format of a text, of which the first line is read.
    fn format_of(&self, lines: &mut Lines<impl BufRead>) -> Result<Format, Failure> {
        if !lines.advance()? {
            return Err("the input is empty".into());
        }
        lines.back();
        match (self.format, lines.line()) {
            (Some(format), _) => Ok(format),
            (None, line) if line.starts_with(b"VERSION=") => Ok(Format::Db),
            (None, line) if line.starts_with(b"{") => Ok(Format::Json),
            (None, line) if line.windows(7).any(|word| word == b"EXTRACT") => Ok(Format::Zwr),
            _ => Err(lines.wrong(
                "the beginning of the text is that of no known format; name the format with --format",
            )),
        }
    }

    fn load(&self, txn: &mut Txn<'_>, lines: Lines<impl BufRead>, format: Format) -> Result<Loaded, Failure> {
        match format {
            Format::Db | Format::DbPrint => self.set_all(txn, &mut berkeley::Reader::new(lines)),
            Format::Json => self.set_all(txn, &mut json::Reader::new(lines)),
            Format::Zwr => {
                let globals = Globals::of(txn.database_holding(&self.db, Holds::Globals)?)?;
                let records = globals.import(txn, Stoppable(lines.into_text()))?;
                interrupt::check()?;
                Ok(Loaded { records, kept: 0 })
            }
        }
    }

    /// Sets all that a text says.
    fn set_all(&self, txn: &mut Txn<'_>, text: &mut impl Parts) -> Result<Loaded, Failure> {
        let (mut loaded, mut databases) = (Loaded::default(), HashMap::new());
        let mut current: Option<String> = None;
        while let Some(part) = text.next()? {
            interrupt::check()?;
            let done = match (part, current.as_ref().and_then(|name| databases.get(name))) {
                (Part::Database(name, made), _) => {
                    let name = name.unwrap_or_else(|| self.db.clone());
                    current = Some(name.clone());
                    self.open(txn, &mut databases, name, made)
                }
                (part, Some((held, _))) => self.set(txn, held, &part, &mut loaded),
                (_, None) => return Err(text.wrong(&"a record before any database")),
            };
            done.map_err(|error| text.wrong(&error))?;
        }
        Ok(loaded)
    }

    /// A database, opened or created once; what it is, if it is created.
    fn open(
        &self,
        txn: &mut Txn<'_>,
        databases: &mut HashMap<String, (Held, Made)>,
        name: String,
        made: Made,
    ) -> Result<(), Failure> {
        if self.no_overwrite && made.holds == Holds::Values(Duplicates::Inserted) {
            return Err("values in the order of insertion are always added: leave out --no-overwrite".into());
        }
        if let Some((_, before)) = databases.get(&name) {
            return if *before == made {
                Ok(())
            } else {
                Err(format!("the database {name:?} is described in another way than before").into())
            };
        }
        let held = Held::open(txn, &name, made)?;
        databases.insert(name, (held, made));
        Ok(())
    }

    fn set(&self, txn: &mut Txn<'_>, held: &Held, part: &Part, loaded: &mut Loaded) -> Result<(), Failure> {
        let Some((which, value)) = part.record() else { return Ok(()) };
        let set = held.set(txn, which, value, !self.no_overwrite)?;
        loaded.records += u64::from(set);
        loaded.kept += u64::from(!set);
        Ok(())
    }
}

/// Ends the text once a signal has come.
struct Stoppable<R>(R);

impl<R: BufRead> Read for Stoppable<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl<R: BufRead> BufRead for Stoppable<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match interrupt::signal() {
            Some(_) => Err(io::Error::other("interrupted")),
            None => self.0.fill_buf(),
        }
    }

    fn consume(&mut self, count: usize) {
        self.0.consume(count);
    }
}
