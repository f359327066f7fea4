//! Files whose lines are numbered records.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sablecat_os::disk::{Disk, File, How};

use super::{Env, Numbered, Txn};
use crate::error::{Error, ErrorKind, Result};

/// Bytes that are read or written at a time.
const PIECE: usize = 1 << 16;
/// What the name of the file ends with that takes the place of the old one.
const NEW: &str = ".new";
/// Symbolic links that lead to one another, at most: as many as Linux follows.
const LINKS_MAX: u32 = 40;

/// A text file whose lines are [`Numbered`] records: read when it is opened, and written back by
/// [`sync`](TextFile::sync). In Berkeley DB it is the source file (`re_source`) of a DB_RECNO database.
///
/// ```
/// use sablecat::{Numbered, TextFile};
///
/// # fn main() -> sablecat::Result<()> {
/// # let env = sablecat::Env::in_memory()?;
/// # let directory = std::env::temp_dir().join(format!("sablecat-text-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory).expect("made");
/// # let path = directory.join("list");
/// std::fs::write(&path, "tea\nbread\n").expect("written");
/// let list = TextFile::open(Numbered::open(&env, "list")?, &path)?;
/// env.write(|txn| {
///     list.numbered().put(txn, 1, "coffee")?;
///     list.numbered().put(txn, 4, "cheese") // the third line is an empty one
/// })?;
/// list.sync()?;
/// assert_eq!(std::fs::read_to_string(&path).expect("read"), "coffee\nbread\n\ncheese\n");
/// # std::fs::remove_dir_all(directory).expect("removed");
/// # Ok(())
/// # }
/// ```
///
/// Between the two, records are changed in the database, like any others, and the file does not change. If
/// the records have one length, so have those of the file, which follow each other without line ends.
#[derive(Clone, Debug)]
pub struct TextFile {
    numbered: Numbered,
    path: PathBuf,
    delimiter: u8,
}

impl TextFile {
    /// Reads the lines of a file into a database, replacing all its records, in one transaction. A file that
    /// does not exist has no lines, for a database without records; the last line need not have a line end.
    ///
    /// # Errors
    /// `NotFound` if the file does not exist and the database has records: they stay, and may be written by
    /// way of [`TextFile::unread`]. `Io` from reading the file; as [`Env::write`].
    pub fn open(numbered: Numbered, path: impl AsRef<Path>) -> Result<TextFile> {
        TextFile::open_with(numbered, path, b'\n')
    }

    /// As [`TextFile::open`], for a file in which records end with this byte.
    ///
    /// # Errors
    /// As [`TextFile::open`].
    pub fn open_with(numbered: Numbered, path: impl AsRef<Path>, delimiter: u8) -> Result<TextFile> {
        let file = TextFile::unread(numbered, path, delimiter);
        file.env().write(|txn| file.read(txn))?;
        Ok(file)
    }

    /// The file of this path for records that there are: nothing is read from it, and [`TextFile::sync`]
    /// writes them there, ended with this byte.
    pub fn unread(numbered: Numbered, path: impl AsRef<Path>, delimiter: u8) -> TextFile {
        TextFile { numbered, path: path.as_ref().to_owned(), delimiter }
    }

    /// The records.
    pub fn numbered(&self) -> &Numbered {
        &self.numbered
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn env(&self) -> &Env {
        self.numbered.database().env()
    }

    fn read(&self, txn: &mut Txn<'_>) -> Result<()> {
        let (disk, database) = (&self.env().core().config.disk, self.numbered.database());
        let io = |error| Error::io("reading the text", &self.path, error);
        let file = match disk.open(&self.path, How { read_only: true, ..How::default() }) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return match txn.first(database)? {
                    None => Ok(()),
                    // Of a path with an error in it nothing else would tell.
                    Some(_) => Err(Error::new(
                        ErrorKind::NotFound,
                        format!(
                            "reading the text {}: there is no such file, and the records of {} would go; \
                             they can be written there (TextFile::unread, sync), or removed first",
                            self.path.display(),
                            database.name()
                        ),
                    )),
                };
            }
            file => file.map_err(io)?,
        };
        txn.clear(database)?;
        let (mut piece, mut record, mut at) = (vec![0; PIECE], Vec::new(), 0);
        let mut appender = self.numbered.appender(txn)?;
        let mut put = |record: &mut Vec<u8>| {
            appender.append(txn, &*record)?;
            record.clear();
            Ok::<_, Error>(())
        };
        loop {
            let read = file.read_at(&mut piece, at).map_err(io)?;
            if read == 0 {
                break;
            }
            at += read as u64;
            for &byte in &piece[..read] {
                match self.numbered.record_bytes() {
                    None if byte == self.delimiter => put(&mut record)?,
                    None => record.push(byte),
                    Some(bytes) => {
                        record.push(byte);
                        if record.len() >= bytes {
                            put(&mut record)?;
                        }
                    }
                }
            }
        }
        if record.is_empty() { Ok(()) } else { put(&mut record) }
    }

    /// Writes the records, from one snapshot, to a new file beside the old one, with the same permissions,
    /// and renames it to the old one's name, which it has with `.new` after it until then: a reader of the
    /// file finds the old lines or the new ones, after a crash too. Durable when it returns. A gap becomes an
    /// empty line, or a record of padding only.
    ///
    /// A symbolic link stays, and the file that it leads to is replaced, in the directory where that is; if
    /// there is none it is made.
    ///
    /// # Errors
    /// `Io` and `DiskFull` from writing: the old file is as it was. `Io` if what is there is no regular file,
    /// which would be replaced by one: a device, a FIFO, a directory; and if a symbolic link has the name of
    /// the new one. `Invalid` if a record contains the byte that ends records, and for one of the
    /// environment's own files. `InUse` while another call
    /// writes the same file. As [`Env::snapshot`].
    pub fn sync(&self) -> Result<()> {
        let config = &self.env().core().config;
        let io = |what: &'static str, path: &Path, error| Error::io(what, path, error);
        let path = &self.target()?;
        if self.env().core().is_own_file(path)? {
            return Err(Error::invalid(format!(
                "writing the text {}: it has the place of one of the environment's own files; choose another",
                self.path.display()
            )));
        }
        // As it was given: of what is no file, /proc has links that lead nowhere.
        let given = &self.path;
        let mode = if config.disk.exists(given).map_err(|error| io("looking for", given, error))? {
            if !config.disk.is_regular(given).map_err(|error| io("looking at", given, error))? {
                let error = std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is not a regular file");
                return Err(io("writing the text", given, error));
            }
            config.disk.mode(given).map_err(|error| io("looking at", given, error))?
        } else {
            None
        };
        let disk = mode.and_then(|mode| config.disk.with_mode(mode)).unwrap_or_else(|| config.disk.clone());
        let mut new = path.clone().into_os_string();
        new.push(NEW);
        let new = PathBuf::from(new);
        // Locked to the end: nobody else has it by this name.
        let file = self.take_new(&*disk, &new)?;
        let named = self
            .write_to(&*file, &new)
            .and_then(|()| disk.rename(&new, path).map_err(|error| io("renaming", &new, error)));
        if named.is_err() {
            // A part of it is of no use, and may have taken the last room on the disk.
            let _ = disk.remove(&new);
        }
        named?;
        let parent = path.parent().unwrap_or(Path::new(""));
        disk.sync_dir(parent).map_err(|error| io("flushing the directory", parent, error))
    }

    /// Where the text is, or is to be: at the path, or where symbolic links lead from there.
    fn target(&self) -> Result<PathBuf> {
        let disk = &self.env().core().config.disk;
        let mut target = self.path.clone();
        for _ in 0..=LINKS_MAX {
            match disk.link(&target).map_err(|error| Error::io("looking at", &target, error))? {
                None => return Ok(target),
                // It says it from the directory that it is in.
                Some(to) => target = target.parent().unwrap_or(Path::new("")).join(to),
            }
        }
        let error = std::io::Error::other(format!("they are more than {LINKS_MAX}, or lead in a circle"));
        Err(Error::io("following the symbolic links from", &self.path, error))
    }

    /// Makes the file that is to become the text, and locks it.
    fn take_new(&self, disk: &dyn Disk, new: &Path) -> Result<Arc<dyn File>> {
        let io = |what: &'static str| move |error| Error::io(what, new, error);
        // Who writes a text makes none; what one leads to is somebody's, and would become the text.
        if disk.link(new).map_err(io("looking at"))?.is_some() {
            let error = std::io::Error::new(std::io::ErrorKind::AlreadyExists, "it is a symbolic link");
            return Err(io("making")(error));
        }
        loop {
            let file = disk.open(new, How { create: true, ..How::default() }).map_err(io("making"))?;
            if !file.try_lock().map_err(io("locking"))? {
                return Err(Error::new(
                    ErrorKind::InUse,
                    format!(
                        "writing the text {}: another writer is writing it now; try again when it has ended",
                        self.path.display()
                    ),
                ));
            }
            // The writer that had it locked when it was opened may have made it the text meanwhile.
            let named = match disk.id(new) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                named => named.map_err(io("looking at"))?,
            };
            if named.is_none() || named == file.id().map_err(io("looking at"))? {
                return Ok(file);
            }
        }
    }

    /// Writes the records to a file, durably.
    fn write_to(&self, file: &dyn File, path: &Path) -> Result<()> {
        // What a crash may have left of another.
        file.set_len(0).map_err(|error| Error::io("writing", path, error))?;
        let mut out = Out { file, path, waiting: Vec::with_capacity(PIECE), at: 0 };
        self.write(&mut out)?;
        out.flush()?;
        file.sync().map_err(|error| Error::io("flushing", path, error))
    }

    fn write(&self, out: &mut Out<'_>) -> Result<()> {
        let state = self.env().snapshot()?;
        let (bytes, delimiter) = (self.numbered.record_bytes(), self.delimiter);
        let nothing = vec![self.numbered.pad(); bytes.unwrap_or_default()];
        let end = if bytes.is_some() { &[][..] } else { std::slice::from_ref(&delimiter) };
        let mut next = 1;
        for record in self.numbered.iter(&state)? {
            let (number, record) = record?;
            if bytes.is_none() && record.contains(&delimiter) {
                return Err(Error::invalid(format!(
                    "writing the text {}: record {number} contains the byte 0x{delimiter:02x}, which ends \
                     records",
                    self.path.display()
                )));
            }
            for _ in next..number {
                out.put(&nothing)?;
                out.put(end)?;
            }
            out.put(&record)?;
            out.put(end)?;
            next = number.saturating_add(1);
        }
        Ok(())
    }
}

/// What goes to a file, in pieces.
struct Out<'f> {
    file: &'f dyn File,
    path: &'f Path,
    waiting: Vec<u8>,
    at: u64,
}

impl Out<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= PIECE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.file.write_at(&self.waiting, self.at).map_err(|error| Error::io("writing", self.path, error))?;
        self.at += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }
}
