//! What several commands accept, and how it becomes an environment, a database, bytes.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use sablecat::{Builder, Database, Env, Error, ErrorKind};

use crate::Failure;
use crate::keying::Keying;
use crate::naming::{self, Spelling};
use crate::placing::Placing;

/// Memory for what is carried out there first. Of a long value no more is tried than fits.
const REHEARSED_BYTES: u64 = 16 << 20;

/// An environment that must exist.
#[derive(Debug, Args)]
pub(crate) struct Existing {
    /// The environment's directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    placing: Placing,
    #[command(flatten)]
    pub(crate) keying: Keying,
}

impl Existing {
    /// Settings with the volumes that were declared, and the key that was named.
    pub(crate) fn builder(&self) -> Result<Builder, Failure> {
        self.keying.give(self.placing.declare(Env::builder()))
    }

    /// Opens it beside the processes that share it, recovering it if it was not closed.
    pub(crate) fn open(&self) -> Result<Env, Failure> {
        Ok(self.builder()?.shared(true).create(false).open(&self.dir)?)
    }

    /// Opens it to look at it: its last checkpoint, if it was closed with that and nobody has opened it
    /// since, or if that was asked for or nothing else is permitted; otherwise as [`Existing::open`] does.
    pub(crate) fn open_to_read(&self, reading: &Reading) -> Result<Env, Failure> {
        let last_checkpoint = || Ok(self.builder()?.read_only(true).open(&self.dir)?);
        if reading.read_only {
            return last_checkpoint();
        }
        if let Some(env) = self.open_closed() {
            return Ok(env);
        }
        match self.builder()?.shared(true).create(false).open(&self.dir) {
            Err(error) if error.kind() == ErrorKind::ReadOnly => {
                eprintln!("sablecat: {error}; it is read that way here");
                last_checkpoint()
            }
            Err(error) if error.kind() == ErrorKind::InUse => {
                Err(format!("{error}; --read-only shows its last checkpoint").into())
            }
            opened => Ok(opened?),
        }
    }

    /// Opens it to look at it, and writes nothing, if it was closed and nobody has opened it since.
    pub(crate) fn open_closed(&self) -> Option<Env> {
        if !self.placing.is_empty() {
            return None;
        }
        // What is wrong with it is said by the other way to open it, which looks at all of it.
        let env = self.builder().ok()?.read_only(true).open(&self.dir).ok()?;
        env.recovery().closed.then_some(env)
    }

    /// Opens it, and creates it if there is none.
    pub(crate) fn open_or_create(&self) -> Result<Env, Failure> {
        Ok(self.builder()?.shared(true).open(&self.dir)?)
    }

    /// Carries something out in it, and makes it if there is none. Where it or a database of it is to be
    /// made, that is carried out in memory first: arguments that are no good leave nothing behind.
    pub(crate) fn with_made<T>(
        &self,
        database: &str,
        work: impl Fn(&Env) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.with_made_after(database, &work, &work)
    }

    /// The same where something else is carried out in memory first: less than all, which may be much.
    pub(crate) fn with_made_after<T, U>(
        &self,
        database: &str,
        rehearsed: impl Fn(&Env) -> Result<U, Failure>,
        work: impl Fn(&Env) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let env = match self.builder()?.shared(true).create(false).open(&self.dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                rehearse(self.placing.page_size(), &rehearsed)?;
                self.open_or_create()?
            }
            opened => {
                let env = opened?;
                if env.existing_database(database)?.is_none() {
                    rehearse(Some(env.stats()?.page_size as usize), &rehearsed)?;
                }
                env
            }
        };
        let done = work(&env)?;
        env.close()?;
        Ok(done)
    }

    /// Whether nothing is where it is to be, and none of its files is to be anywhere else.
    pub(crate) fn is_to_be_made(&self) -> bool {
        let there = fs::symlink_metadata(&self.dir);
        there.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) && !self.placing.has_volumes()
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.dir
    }

    /// The directory as it was given.
    pub(crate) fn shown(&self) -> String {
        self.dir.display().to_string()
    }
}

/// Carries something out in memory, with pages of this size, on which the greatest lengths of keys depend.
/// What fails there because of what it was given is an error; what fails because memory is another place, in
/// which there is only a little room, is not.
fn rehearse<T>(page_size: Option<usize>, work: impl Fn(&Env) -> Result<T, Failure>) -> Result<(), Failure> {
    let builder = Env::builder().background(false).cache_size(REHEARSED_BYTES);
    let env = page_size.into_iter().fold(builder, Builder::page_size).in_memory();
    let failure = match env.map_err(Failure::from).and_then(|env| work(&env)) {
        Ok(_) => return Ok(()),
        Err(failure) => failure,
    };
    match failure.downcast_ref::<Error>() {
        Some(error) if error.kind() != ErrorKind::Invalid => Ok(()),
        _ => Err(failure),
    }
}

/// How an environment that is only to be looked at is opened.
#[derive(Debug, Args)]
pub(crate) struct Reading {
    /// Read the last checkpoint and write nothing, not even a lock; commits after that checkpoint are not
    /// seen
    ///
    /// Without this option: an environment that was closed is read in the same way. One that other processes
    /// have open is joined. One that was not closed is recovered first, and closed at the end.
    #[arg(long)]
    pub(crate) read_only: bool,
}

/// One of its databases, and how its bytes are written.
#[derive(Debug, Args)]
pub(crate) struct InDatabase {
    #[command(flatten)]
    pub(crate) environment: Existing,
    /// The database
    #[arg(long, value_name = "NAME", default_value = "main")]
    pub(crate) db: String,
    #[command(flatten)]
    pub(crate) spelling: Spelling,
}

impl InDatabase {
    /// Opens a database that must exist; the error names those that do.
    pub(crate) fn open(&self) -> Result<(Env, Database), Failure> {
        self.find_in(self.environment.open()?)
    }

    /// As [`InDatabase::open`], to remove records of it: of an index that is an error.
    pub(crate) fn open_to_change(&self) -> Result<(Env, Database), Failure> {
        let (env, database) = self.open()?;
        match database.index_of() {
            None => Ok((env, database)),
            Some(index) => Err(format!(
                "removing from {}: it is an index of {}; remove the record there, and it changes with it",
                self.db, index.primary
            )
            .into()),
        }
    }

    /// As [`InDatabase::open`], to look at it: see [`Existing::open_to_read`].
    pub(crate) fn open_to_read(&self, reading: &Reading) -> Result<(Env, Database), Failure> {
        self.find_in(self.environment.open_to_read(reading)?)
    }

    fn find_in(&self, env: Env) -> Result<(Env, Database), Failure> {
        let database = self.find(&env, &self.db)?;
        Ok((env, database))
    }

    /// A database of this name; the error names those that there are.
    pub(crate) fn find(&self, env: &Env, name: &str) -> Result<Database, Failure> {
        if let Some(database) = env.existing_database(name)? {
            return Ok(database);
        }
        let names = env.databases()?;
        let there_are =
            if names.is_empty() { "none at all".to_owned() } else { format!("only {}", names.join(", ")) };
        Err(format!("there is no database {name} in {}, {there_are}", self.environment.shown()).into())
    }

    /// The value that an argument stands for; without it, the bytes of standard input, unchanged.
    pub(crate) fn value_or_input(&self, argument: Option<&str>) -> Result<Vec<u8>, Failure> {
        match argument {
            Some(argument) => self.value(argument),
            None => {
                let mut bytes = Vec::new();
                io::stdin().lock().read_to_end(&mut bytes)?;
                Ok(bytes)
            }
        }
    }

    /// The value that an argument stands for.
    pub(crate) fn value(&self, argument: &str) -> Result<Vec<u8>, Failure> {
        naming::bytes(argument, self.spelling.hex)
    }
}

/// The bytes that hexadecimal digits stand for; none if they are no pairs of such.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> =
        text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

/// The hexadecimal digits of bytes.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes all");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_are_bytes_and_back() {
        for (text, bytes) in [("", &[][..]), ("00ff10", &[0, 255, 16]), ("Ab", &[0xab])] {
            assert_eq!(from_hex(text).as_deref(), Some(bytes));
            assert_eq!(to_hex(bytes), text.to_lowercase());
        }
        for wrong in ["0", "0g", "0x00", "é0"] {
            assert_eq!(from_hex(wrong), None, "{wrong}");
        }
    }
}
