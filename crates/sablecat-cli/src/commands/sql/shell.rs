//! Lines, put together to statements and commands of the shell, and carried out.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::{Batch, Connection};

use super::dots;
use super::rows::{self, Look, Mode};
use crate::{Failure, interrupt, output};

/// So many steps of SQLite's machine are taken between two looks whether a signal came.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;
/// Files may be read by files that are read, so deep.
const READ_WITHIN_MAX: usize = 20;

/// A connection, and what the shell's commands have set.
pub(super) struct Shell {
    pub(super) db: Connection,
    pub(super) look: Look,
    /// Where answers go, and which ones.
    out: Box<dyn Write>,
    sent: Sent,
    pub(super) shows_time: bool,
    pub(super) shows_changes: bool,
    /// The lines so far of a statement that goes on,
    pending: String,
    /// and the number of the first of them.
    begun: usize,
    /// How many files are being read, one because another one says so.
    within: usize,
    /// A command has said that it is the end: nothing more is carried out.
    pub(super) ended: bool,
}

/// Which answers go where they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    All,
    /// The next one alone,
    Next,
    /// which is this one.
    This,
}

/// Says where an error came up, but of an answer that nobody reads any more, which is none: see
/// [`output::is_broken_pipe`].
pub(super) fn came_up(place: impl Display, error: Failure) -> Failure {
    if output::is_broken_pipe(&*error) { error } else { format!("{place}: {error}").into() }
}

impl Shell {
    pub(super) fn open(path: &Path, mode: Mode) -> Result<Shell, Failure> {
        let mut db = Connection::open(sablecat_sql::uri(path))?;
        db.progress_handler(STEPS_BETWEEN_LOOKS, Some(|| interrupt::signal().is_some()))?;
        Ok(Shell {
            db,
            look: Look::new(mode),
            out: Box::new(BufWriter::new(io::stdout())),
            sent: Sent::All,
            shows_time: false,
            shows_changes: false,
            pending: String::new(),
            begun: 0,
            within: 0,
            ended: false,
        })
    }

    /// Where answers go, and how they look.
    pub(super) fn answering(&mut self) -> (&Connection, &Look, &mut dyn Write) {
        (&self.db, &self.look, &mut *self.out)
    }

    /// Answers go to a file from now on, or to standard output; `once`: the next one alone.
    pub(super) fn send_to(&mut self, file: Option<&str>, once: bool) -> Result<(), Failure> {
        self.out.flush()?;
        self.out = match file {
            Some(path) => Box::new(BufWriter::new(
                File::create(path).map_err(|error| format!("creating {path} for answers: {error}"))?,
            )),
            None => Box::new(BufWriter::new(io::stdout())),
        };
        self.sent = if once { Sent::Next } else { Sent::All };
        Ok(())
    }

    /// Carries out a script. The first line that fails ends it.
    pub(super) fn script(&mut self, lines: impl Iterator<Item = io::Result<String>>) -> Result<(), Failure> {
        for (number, line) in lines.enumerate() {
            if self.ended {
                return Ok(());
            }
            self.line(&line?, number + 1)?;
        }
        self.rest()
    }

    /// Carries out a text as a script.
    pub(super) fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.script(text.lines().map(|line| Ok(line.to_owned())))
    }

    /// Carries out the statements and commands of a file.
    pub(super) fn read(&mut self, path: &str) -> Result<(), Failure> {
        if self.within == READ_WITHIN_MAX {
            return Err(
                format!("reading {path}: .read is nested more than {READ_WITHIN_MAX} files deep").into()
            );
        }
        let file = File::open(path).map_err(|error| format!("reading {path}: {error}"))?;
        self.within += 1;
        let done = self.script(BufReader::new(file).lines());
        self.within -= 1;
        done.map_err(|error| came_up(path, error))
    }

    /// Takes one more line, of this number, and carries out what is whole by it.
    fn line(&mut self, line: &str, number: usize) -> Result<(), Failure> {
        if self.pending.trim().is_empty() {
            self.pending.clear();
            self.begun = number;
            if line.starts_with('.') {
                self.answers();
                let done = dots::carry_out(self, line);
                self.answered()?;
                return done;
            }
        }
        self.pending.push_str(line);
        self.pending.push('\n');
        // Only there a statement can end.
        if line.contains(';') && sablecat_sql::is_complete(&self.pending) {
            self.rest()?;
        }
        Ok(())
    }

    /// Carries out what there is of a statement.
    fn rest(&mut self) -> Result<(), Failure> {
        let sql = std::mem::take(&mut self.pending);
        if sql.trim().is_empty() {
            return Ok(());
        }
        let begun = self.begun;
        self.answers();
        let done = self.statements(&sql);
        self.answered()?;
        done.map_err(|error| match begun {
            1 => error,
            line => came_up(format_args!("line {line}"), error),
        })
    }

    fn statements(&mut self, sql: &str) -> Result<(), Failure> {
        let (before, begun) = (self.db.total_changes(), Instant::now());
        let mut statements = Batch::new(&self.db, sql);
        while let Some(mut statement) = statements.next()? {
            rows::print(&mut statement, &self.look, &mut *self.out)?;
        }
        if self.shows_changes {
            writeln!(self.out, "{} rows changed", self.db.total_changes() - before)?;
        }
        if self.shows_time {
            writeln!(self.out, "{:.3} s", begun.elapsed().as_secs_f64())?;
        }
        Ok(())
    }

    /// An answer begins.
    fn answers(&mut self) {
        if self.sent == Sent::Next {
            self.sent = Sent::This;
        }
    }

    /// It is whole.
    fn answered(&mut self) -> Result<(), Failure> {
        self.out.flush()?;
        match self.sent {
            Sent::This => self.send_to(None, false),
            Sent::All | Sent::Next => Ok(()),
        }
    }

    pub(super) fn close(mut self) -> Result<(), Failure> {
        self.out.flush()?;
        Ok(self.db.close().map_err(|(_, error)| error)?)
    }
}
