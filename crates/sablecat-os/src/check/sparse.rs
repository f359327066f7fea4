//! Files with holes: a region's file is hundreds of gigabytes long and has some megabytes in it.

use std::fs::{self, File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::mapping::Mapping;

/// Bytes copied at a time.
const CHUNK: usize = 1 << 18;

/// Where a file has data, in order; everything else reads as zero. Moves the file's position.
///
/// # Errors
/// Those of the system.
pub fn extents(file: &File) -> io::Result<Vec<Range<u64>>> {
    let (mut found, mut at) = (Vec::new(), 0);
    loop {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            // Nothing but a hole from here on.
            Err(Errno::NXIO) => return Ok(found),
            Err(error) => return Err(error.into()),
        };
        at = seek(file, SeekFrom::Hole(start))?;
        found.push(start..at);
    }
}

/// Copies a file to a new one of the same length, holes left out.
///
/// # Errors
/// Those of the system; `AlreadyExists` if there is a file at `to`.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (File::open(from)?, File::create_new(to)?);
    let mut buffer = vec![0; CHUNK];
    for extent in extents(&from)? {
        let mut at = extent.start;
        while at < extent.end {
            let len = buffer.len().min((extent.end - at) as usize);
            from.read_exact_at(&mut buffer[..len], at)?;
            to.write_all_at(&buffer[..len], at)?;
            at += len as u64;
        }
    }
    to.set_len(from.metadata()?.len())
}

/// A file that is looked at again and again, at the cost of one system call and of reading the memory that it
/// lies in.
#[derive(Debug)]
pub struct Watched {
    began: [u64; 4],
    /// None for a file that was empty.
    mapping: Option<Mapping>,
}

impl Watched {
    /// Begins to watch a file.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new(path: &Path) -> io::Result<Watched> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let len = metadata.len() as usize;
        let mapping = if len > 0 { Some(Mapping::file_to_look_at(file, len)?) } else { None };
        Ok(Watched { began: shape(&metadata), mapping })
    }

    /// Whether it is still the same file that is at `path`, of the same length, and no hole of it has been
    /// filled or made.
    ///
    /// # Errors
    /// Those of the system.
    pub fn has_its_shape(&self, path: &Path) -> io::Result<bool> {
        Ok(shape(&fs::symlink_metadata(path)?) == self.began)
    }

    /// Whether these bytes are there. The file must still [have its shape](Watched::has_its_shape): what was
    /// cut off faults.
    ///
    /// # Panics
    /// If they are not within the length that it had.
    #[must_use]
    pub fn has(&self, at: u64, bytes: &[u8]) -> bool {
        let Some(mapping) = &self.mapping else { return bytes.is_empty() };
        let at = at as usize;
        assert!(
            at.checked_add(bytes.len()).is_some_and(|end| end <= mapping.len()),
            "{at} and {} bytes are in the file",
            bytes.len()
        );
        // SAFETY: the range is within the mapping. Others may write to it, so it is compared where it is,
        // outside Rust's references.
        unsafe {
            libc::memcmp(mapping.base().as_ptr().add(at).cast(), bytes.as_ptr().cast(), bytes.len()) == 0
        }
    }
}

/// Which file it is, how long, and how much of it is no hole.
fn shape(metadata: &Metadata) -> [u64; 4] {
    [metadata.dev(), metadata.ino(), metadata.len(), metadata.blocks()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watched_file_shows_what_is_written_filled_cut_or_replaced() {
        let path = std::env::temp_dir().join(format!("sablecat-watched-{}", std::process::id()));
        let file = File::create_new(&path).unwrap();
        file.set_len(1 << 30).unwrap();
        file.write_all_at(&[1; 5000], 1 << 20).unwrap();
        let watched = Watched::new(&path).unwrap();
        assert!(watched.has_its_shape(&path).unwrap() && watched.has(1 << 20, &[1; 5000]));
        file.write_all_at(&[2], (1 << 20) + 4999).unwrap();
        assert!(!watched.has(1 << 20, &[1; 5000]) && watched.has(1 << 20, &[1; 4999]));
        assert!(watched.has_its_shape(&path).unwrap());
        let other = path.with_extension("other");
        let changes: [&dyn Fn(); 3] = [
            &|| file.write_all_at(&[0], 1 << 29).unwrap(),
            &|| file.set_len((1 << 30) - 1).unwrap(),
            &|| fs::copy(&path, &other).and_then(|_| fs::rename(&other, &path)).unwrap(),
        ];
        for change in changes {
            let watched = Watched::new(&path).unwrap();
            assert!(watched.has_its_shape(&path).unwrap());
            change();
            assert!(!watched.has_its_shape(&path).unwrap());
        }
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_copy_has_the_data_and_the_holes() {
        let path = std::env::temp_dir().join(format!("sablecat-sparse-{}", std::process::id()));
        let (from, to) = (path.with_extension("from"), path.with_extension("to"));
        let file = File::create_new(&from).unwrap();
        file.set_len(1 << 40).unwrap();
        let data = [(0, vec![1; 5000]), (1 << 30, vec![2; CHUNK + 1])];
        data.iter().for_each(|(at, bytes)| file.write_all_at(bytes, *at).unwrap());
        copy(&from, &to).unwrap();
        let copied = File::open(&to).unwrap();
        assert_eq!(copied.metadata().unwrap().len(), 1 << 40);
        for (at, bytes) in data {
            let mut read = vec![0; bytes.len()];
            copied.read_exact_at(&mut read, at).unwrap();
            assert!(read == bytes, "{at}");
        }
        assert!(
            extents(&copied).unwrap().iter().map(|extent| extent.end - extent.start).sum::<u64>() < 1 << 20
        );
        std::fs::remove_file(&from).unwrap();
        std::fs::remove_file(&to).unwrap();
    }
}
