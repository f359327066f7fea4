//! What the machine says about this process: its resident memory, and the disk blocks of a directory.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const MB: f64 = (1 << 20) as f64;

/// The process's resident memory in MB: now, and at its highest.
pub(crate) fn resident_mb() -> (f64, f64) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    (status_mb(&status, "VmRSS:"), status_mb(&status, "VmHWM:"))
}

/// A line of /proc/self/status, which counts in kB; 0 where there is none.
fn status_mb(status: &str, name: &str) -> f64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kb = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kb.unwrap_or(0.0) * 1024.0 / MB
}

/// The blocks allocated to all files below `dir`, in MB, as `du` counts them: holes are free.
pub(crate) fn disk_mb(dir: &Path) -> io::Result<f64> {
    let mut bytes = 0.0;
    for entry in fs::read_dir(dir)? {
        // A store may remove a file of its own between the listing and the look.
        let Ok(metadata) =
            entry.as_ref().map_err(io::Error::kind).and_then(|e| e.metadata().map_err(|e| e.kind()))
        else {
            continue;
        };
        if metadata.is_dir() {
            bytes += disk_mb(&entry?.path())? * MB;
        } else {
            bytes += metadata.blocks() as f64 * 512.0;
        }
    }
    Ok(bytes / MB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_line_is_read_in_kilobytes() {
        let status = "VmHWM:\t   10240 kB\nVmRSS:\t    2048 kB\n";
        assert_eq!((status_mb(status, "VmRSS:"), status_mb(status, "VmHWM:")), (2.0, 10.0));
        assert_eq!(status_mb(status, "VmSwap:"), 0.0);
        assert!(resident_mb().0 > 0.0);
    }
}
