//! `dump`: databases as text that other programs read.

use std::io::{self, BufWriter, Write};

use sablecat::globals::Globals;
use sablecat::{Expiring, Holds, ReadTxn};

use crate::arguments::{Existing, Reading};
use crate::portable::kinds::{Held, Made, written};
use crate::portable::{Format, berkeley, json};
use crate::{Failure, Outcome, interrupt};

/// Print databases as text that `load` and other programs can read
///
/// All databases are printed from one snapshot; other processes may write meanwhile. Expired records are left
/// out. Only JSON has the times at which records expire, and only JSON and ZWR have nodes of globals: loaded
/// from Berkeley DB's text, records never expire, and nodes are plain records, under their keys as they are
/// stored; a warning on standard error says so. Berkeley DB's db_load reads the formats db and db-print
/// (record numbers only in db). If --db names a single database, it is printed without its name, so that
/// db_load makes it the database of its file: which a queue must be.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Existing,
    #[command(flatten)]
    reading: Reading,
    /// Only this database; repeatable. Without it: all databases
    #[arg(long = "db", value_name = "NAME")]
    databases: Vec<String>,
    /// The format of the text; --json is short for --format json
    #[arg(long, value_enum, default_value = "db", conflicts_with = "json")]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let env = arguments.place.open_to_read(&arguments.reading)?;
    let state = env.snapshot()?;
    let mut names = arguments.databases.clone();
    if names.is_empty() {
        names = not_indices(&state)?;
    }
    arguments.print(&state, &names)?;
    drop(state);
    env.close()?;
    Ok(Outcome::Done)
}

/// The databases that are no index, in the order of their names. The others follow from these, and a text
/// does not say what an index is: loaded, it would be a database that nobody keeps.
fn not_indices(state: &ReadTxn) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for name in state.databases()? {
        let database = state.existing_database(&name)?;
        match database.as_ref().and_then(|database| database.index_of()) {
            None => names.push(name),
            // It is made with what it is the index of.
            Some(_) if Expiring::is_index(state, &name)? => {}
            Some(index) => eprintln!(
                "sablecat: {name} is left out: it is an index of {} by {:?}, which a program makes again \
                 when it opens that (Env::index)",
                index.primary, index.extractor
            ),
        }
    }
    Ok(names)
}

impl Arguments {
    fn print(&self, state: &ReadTxn, names: &[String]) -> Result<(), Failure> {
        let out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
        match if self.place.json { Format::Json } else { self.format } {
            Format::Db => self.berkeley(state, names, out, false),
            Format::DbPrint => self.berkeley(state, names, out, true),
            Format::Json => {
                let mut writer = json::Writer::new(out)?;
                for name in names {
                    let held = Held::existing(state, name)?;
                    writer.begin(name, Made::of(held.database()))?;
                    held.each(state, |which, value| written(writer.record(which, value)))?;
                }
                Ok(writer.finish()?)
            }
            Format::Zwr => match names {
                [name] => {
                    let held = Held::existing(state, name)?;
                    Globals::of(held.database().clone())?.export(state, Stoppable(out))?;
                    interrupt::check()
                }
                _ => Err("the format zwr is for a single database of globals: name it with --db".into()),
            },
        }
    }

    fn berkeley(
        &self,
        state: &ReadTxn,
        names: &[String],
        out: impl Write,
        print: bool,
    ) -> Result<(), Failure> {
        let mut writer = berkeley::Writer::new(out, print);
        let alone = self.databases.len() == 1;
        for name in names {
            let held = Held::existing(state, name)?;
            if matches!(held, Held::Expiring(_)) {
                eprintln!(
                    "sablecat: the records of {name} expire, which this format does not say: when loaded, \
                     they never expire; --json keeps their times"
                );
            }
            if held.database().holds() == Holds::Globals {
                eprintln!(
                    "sablecat: {name} holds globals, which this format does not say: when loaded, its nodes \
                     are plain records; --format zwr and --json keep them"
                );
            }
            if held.database().is_temporary() {
                eprintln!(
                    "sablecat: {name} is temporary, which this format does not say: when loaded, it is \
                     durable; --json says it"
                );
            }
            writer.begin((!alone).then_some(name), Made::of(held.database()))?;
            held.each(state, |which, value| writer.record(which, value))?;
            writer.end()?;
        }
        Ok(writer.finish()?)
    }
}

/// Fails once a signal has come.
struct Stoppable<W>(W);

impl<W: Write> Write for Stoppable<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match interrupt::signal() {
            Some(_) => Err(io::Error::other("interrupted")),
            None => self.0.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
