//! Environments that are held in memory: the file that says so, and where.
//!
//! An environment of which the files are in a directory in memory is named by another one, on a disk, that
//! has its image. There this file stands beside the image:
//!
//! ```text
//! sablecat memory 1
//! environment 6d1f0c5a2b3e4f708192a3b4c5d6e7f8
//! directory /dev/shm/accounts
//! crc32c 0badcafe
//! ```
//!
//! Four lines of text: the version; the identity of the main volume; where the files are, an absolute path;
//! the checksum of the lines before. It is made once, under a name of its own that is then replaced, and
//! never changed.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use sablecat_os::disk::{Disk, How};

use crate::error::{Error, Result};

/// What the file is called.
pub(in crate::env) const NAME: &str = "sablecat.memory";
/// While it is made.
const UNFINISHED: &str = "sablecat.memory.new";
/// The version that this build writes and reads.
const VERSION: u32 = 1;
const MAGIC: &str = "sablecat memory";
/// No path is longer.
const BYTES_MAX: usize = 8192;

/// Where an environment is that is held in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HeldEnvironment {
    /// The directory by which it is named, which has the image.
    pub(in crate::env) directory: PathBuf,
    /// The directory in memory, which has its files.
    pub(in crate::env) memory: PathBuf,
    /// The identity of its main volume.
    pub(in crate::env) uuid: [u8; 16],
}

impl HeldEnvironment {
    /// What the directory says by which an environment is named; none if it is not held in memory.
    ///
    /// # Errors
    /// `Corruption` if the file is damaged; `Invalid` if it is of another version; `Io`.
    pub(in crate::env) fn find(disk: &dyn Disk, directory: &Path) -> Result<Option<HeldEnvironment>> {
        let path = directory.join(NAME);
        let io = |e| Error::io("reading", &path, e);
        if !disk.exists(&path).map_err(|e| Error::io("looking for", &path, e))? {
            return Ok(None);
        }
        let file = disk.open(&path, How { read_only: true, ..How::default() }).map_err(io)?;
        let mut bytes = vec![0; BYTES_MAX];
        let length = file.read_at(&mut bytes, 0).map_err(io)?;
        let text = str::from_utf8(&bytes[..length]).unwrap_or_default();
        let (uuid, memory) = decode(text).ok_or_else(|| {
            let version = text.strip_prefix(MAGIC).and_then(|rest| rest.lines().next());
            match version.and_then(|version| version.trim().parse::<u32>().ok()) {
                Some(version) if version != VERSION => Error::invalid(format!(
                    "{}: it has version {version}, and this build knows version {VERSION}",
                    path.display()
                )),
                _ => Error::corruption(format!(
                    "{} is damaged: it does not say where in memory the environment is",
                    path.display()
                )),
            }
        })?;
        Ok(Some(HeldEnvironment { directory: directory.to_owned(), memory, uuid }))
    }

    /// Says from now on that the environment is held in memory. Durable when it returns.
    ///
    /// # Errors
    /// `Invalid` for a path that is no text; those of the disk.
    pub(in crate::env) fn write(&self, disk: &dyn Disk) -> Result<()> {
        let text = self.encode()?;
        let (unfinished, path) = (self.directory.join(UNFINISHED), self.directory.join(NAME));
        let io = |e| Error::io("writing", &unfinished, e);
        let file = disk.open(&unfinished, How { create: true, ..How::default() }).map_err(io)?;
        file.set_len(0).map_err(io)?;
        file.write_at(text.as_bytes(), 0).map_err(io)?;
        file.sync().map_err(io)?;
        drop(file);
        disk.rename(&unfinished, &path).map_err(|e| Error::io("naming", &path, e))?;
        disk.sync_dir(&self.directory).map_err(|e| Error::io("flushing the directory", &self.directory, e))
    }

    fn encode(&self) -> Result<String> {
        let memory = self.memory.to_str().filter(|path| !path.contains('\n') && path.len() < BYTES_MAX / 2);
        let memory = memory.ok_or_else(|| {
            Error::invalid(format!(
                "{:?} is not one line of UTF-8 text, or is too long; choose another directory in memory",
                self.memory
            ))
        })?;
        let uuid = u128::from_be_bytes(self.uuid);
        let mut text = format!("{MAGIC} {VERSION}\nenvironment {uuid:032x}\ndirectory {memory}\n");
        let sum = crc32c::crc32c(text.as_bytes());
        writeln!(text, "crc32c {sum:08x}").expect("a String takes all");
        Ok(text)
    }
}

/// The identity and the directory that a file tells of; none if it is none.
fn decode(text: &str) -> Option<([u8; 16], PathBuf)> {
    let mut lines = text.split_inclusive('\n');
    let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_suffix('\n');
    let version = field("sablecat memory ")?;
    let uuid = u128::from_str_radix(field("environment ")?, 16).ok()?.to_be_bytes();
    let memory = PathBuf::from(field("directory ")?);
    let sum = field("crc32c ")?;
    let is_whole = memory.is_absolute() && version.parse() == Ok(VERSION) && lines.next().is_none();
    let body = &text[..text.len() - "crc32c ".len() - sum.len() - 1];
    (is_whole && u32::from_str_radix(sum, 16) == Ok(crc32c::crc32c(body.as_bytes())))
        .then_some((uuid, memory))
}

#[cfg(test)]
mod tests {
    use sablecat_os::sim::SimDisk;

    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn what_is_written_is_read_and_any_other_byte_is_damage() {
        let disk = SimDisk::new(1);
        let directory = Path::new("/named");
        disk.create_dir_all(directory).unwrap();
        assert_eq!(HeldEnvironment::find(&disk, directory).unwrap(), None);
        let held = HeldEnvironment {
            directory: directory.to_owned(),
            memory: "/memory/a b".into(),
            uuid: [0xa5; 16],
        };
        held.write(&disk).unwrap();
        assert_eq!(HeldEnvironment::find(&disk, directory).unwrap(), Some(held.clone()));

        let text = held.encode().unwrap();
        for at in 0..text.len() {
            for bit in 0..7 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                let changed = String::from_utf8(bytes).unwrap();
                // Digits are the same in either case.
                let is_same = changed.eq_ignore_ascii_case(&text) && text.as_bytes()[at].is_ascii_hexdigit();
                assert!(decode(&changed).is_none() || is_same, "byte {at}, bit {bit}: {changed}");
            }
            assert_eq!(decode(&text[..at]), None, "{at} bytes");
        }
        let file = disk.open(&directory.join(NAME), How::default()).unwrap();
        let newer = text.replace("memory 1", "memory 2");
        file.write_at(newer.as_bytes(), 0).unwrap();
        assert_eq!(HeldEnvironment::find(&disk, directory).unwrap_err().kind(), ErrorKind::Invalid);
        file.write_at(b"x", 0).unwrap();
        assert_eq!(HeldEnvironment::find(&disk, directory).unwrap_err().kind(), ErrorKind::Corruption);
        let no_text = HeldEnvironment { memory: "/a\nb".into(), ..held };
        assert_eq!(no_text.write(&disk).unwrap_err().kind(), ErrorKind::Invalid);
    }
}
