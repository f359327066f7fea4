//! Files with holes: a region's file is hundreds of gigabytes long and has some megabytes in it.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

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

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(extents(&copied).unwrap().iter().map(|extent| extent.end - extent.start).sum::<u64>() < 1 << 20);
        std::fs::remove_file(&from).unwrap();
        std::fs::remove_file(&to).unwrap();
    }
}
