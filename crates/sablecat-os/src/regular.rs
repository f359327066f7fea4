//! Opening files that are to be files, and nothing else.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens the file at `path` with these options and `flags`, as those of open(2).
///
/// # Errors
/// `InvalidInput` if something else has that name: opening a FIFO would wait until its other end is opened,
/// and opening a device may have it do something. Those of the system.
pub fn open(path: &Path, how: &OpenOptions, flags: libc::c_int) -> io::Result<File> {
    let open = |flags| how.clone().custom_flags(flags).open(path);
    let file = match open(flags | libc::O_NONBLOCK | libc::O_NOCTTY) {
        // Others have a lease on the file, and are waited for.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => open(flags | libc::O_NOCTTY)?,
        opened => opened?,
    };
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    /// Also of a FIFO that nobody has opened at its other end.
    #[test]
    fn what_is_no_file_is_not_opened_and_not_waited_for() {
        let place = std::env::temp_dir().join(format!("sablecat-regular-{}", std::process::id()));
        std::fs::create_dir(&place).unwrap();
        let fifo = place.join("fifo");
        mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
        for path in [&*fifo, &*place, Path::new("/dev/null")] {
            for write in [false, true] {
                let how = OpenOptions::new().read(true).write(write).clone();
                assert!(open(path, &how, 0).is_err(), "{} is opened", path.display());
            }
        }
        let file = place.join("file");
        open(&file, OpenOptions::new().read(true).write(true).create_new(true), 0).unwrap();
        open(&file, OpenOptions::new().read(true), 0).unwrap();
        std::fs::remove_dir_all(&place).unwrap();
    }
}
