//! What the machine says: about itself for a report's head, about a process's memory and a directory's blocks
//! for its figures.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Advice, FsWord, fadvise, statfs};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

const MB: f64 = (1 << 20) as f64;

/// The machine of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor, as the system calls it.
    pub cpu: String,
    /// How many processors may be used.
    pub cpus: usize,
    /// Memory that may be used.
    pub memory_mb: u64,
    /// Operating system, its release, the architecture.
    pub system: String,
}

impl Machine {
    /// This one.
    pub fn here() -> Machine {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Machine {
            cpu: cpu_model(&cpuinfo).unwrap_or("unknown processor").to_owned(),
            cpus: sablecat_os::machine::cpus(),
            memory_mb: sablecat_os::machine::memory_bytes() >> 20,
            system: format!("{} {} {}", std::env::consts::OS, release.trim(), std::env::consts::ARCH),
        }
    }
}

/// The first processor's name; arm64 kernels give none.
fn cpu_model(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim())
}

/// This process's resident memory in MB: now, and at its highest.
pub(crate) fn resident_mb() -> (f64, f64) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    (status_mb(&status, "VmRSS:"), status_mb(&status, "VmHWM:"))
}

/// What memory a process costs, in MB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Footprint {
    /// Pages that it alone has mapped, its own and those of files.
    pub(crate) private_mb: f64,
    /// What the system needs to map its pages, those that it shares as well.
    pub(crate) page_tables_mb: f64,
}

/// What another process costs at the moment.
///
/// # Errors
/// When there is no such process, or the system does not tell.
pub(crate) fn footprint(process: u32) -> io::Result<Footprint> {
    let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let mb = |lines, name| line_mb(lines, name).ok_or_else(|| io::Error::other(format!("no line {name}")));
    let private_mb = mb(&rollup, "Private_Clean:")? + mb(&rollup, "Private_Dirty:")?;
    Ok(Footprint { private_mb, page_tables_mb: mb(&status, "VmPTE:")? })
}

/// Memory that could be taken without making others give some back; 0 if the system does not tell.
pub(crate) fn memory_available_bytes() -> u64 {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    (status_mb(&info, "MemAvailable:") * MB) as u64
}

/// A line of /proc/self/status or /proc/meminfo, which count in kB; 0 where there is none.
fn status_mb(status: &str, name: &str) -> f64 {
    line_mb(status, name).unwrap_or(0.0)
}

fn line_mb(lines: &str, name: &str) -> Option<f64> {
    let line = lines.lines().find_map(|line| line.strip_prefix(name))?;
    let kb: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kb * 1024.0 / MB)
}

/// Processor time of this process, of all its threads, in seconds.
pub(crate) fn own_cpu_seconds() -> f64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 * 1e-9
}

/// Processor time of the children that this process has waited for, in seconds, to the hundredth.
pub(crate) fn children_cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    children_ticks(&stat).unwrap_or(0) as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// User and system time of the children, in a line as in /proc/self/stat.
fn children_ticks(stat: &str) -> Option<u64> {
    // The second field is the program's name in parentheses, which may have spaces; children's times are the
    // 16th and 17th.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(13);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// The blocks allocated to all files below `dir`, in MB, as `du` counts them: holes are free.
pub(crate) fn disk_mb(dir: &Path) -> f64 {
    let mut blocks = 0;
    // A store may remove a file between the listing and the look; what cannot be looked at is not counted.
    let _ = each_file(dir, &mut |path| blocks += path.metadata().map_or(0, |metadata| metadata.blocks()));
    blocks as f64 * 512.0 / MB
}

/// Whether `dir` is on a file system that is kept in memory, where a flush costs nothing.
pub(crate) fn is_in_memory(dir: &Path) -> bool {
    const TMPFS: FsWord = 0x0102_1994;
    const RAMFS: FsWord = 0x8584_58f6;
    statfs(dir).is_ok_and(|stat| matches!(stat.f_type, TMPFS | RAMFS))
}

/// Asks the system to drop what it caches of the files below `dir`: what is written back and not mapped, that
/// is.
pub(crate) fn drop_cached(dir: &Path) {
    // Only advice: a file that is gone by now, or refuses, is as good as dropped.
    let _ = each_file(dir, &mut |path| {
        if let Ok(file) = File::open(path) {
            let _ = fadvise(&file, 0, None, Advice::DontNeed);
        }
    });
}

fn each_file(dir: &Path, each: &mut dyn FnMut(&Path)) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            each_file(&path, each)?;
        } else {
            each(&path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_status_line_is_read_in_kilobytes() {
        let status = "VmHWM:\t   10240 kB\nVmRSS:\t    2048 kB\n";
        assert_eq!((status_mb(status, "VmRSS:"), status_mb(status, "VmHWM:")), (2.0, 10.0));
        assert_eq!(status_mb(status, "VmSwap:"), 0.0);
        assert!(resident_mb().0 > 0.0 && memory_available_bytes() > 0);
    }

    #[test]
    fn a_process_costs_what_it_has_touched() {
        // It says a line when it has started, and another when it has as many bytes as it was asked for.
        let script =
            "echo; read bytes; kept=$(head -c $bytes /dev/zero | tr '\\0' x); echo; read end; : $kept";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let (mut input, mut output) =
            (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut said = || output.read_line(&mut String::new()).unwrap();
        said();
        let before = footprint(child.id()).unwrap();
        input.write_all(b"8388608\n").unwrap();
        said();
        let after = footprint(child.id()).unwrap();
        drop(input);
        child.wait().unwrap();
        assert!(before.private_mb > 0.0 && before.page_tables_mb > 0.0, "{before:?}");
        assert!(
            after.private_mb >= before.private_mb + 8.0 && after.page_tables_mb > before.page_tables_mb,
            "{before:?} {after:?}"
        );
        assert!(footprint(child.id()).is_err(), "it has ended");
        assert!(footprint(std::process::id()).unwrap().private_mb > 0.0);
    }

    #[test]
    fn the_time_of_children_stands_behind_the_name() {
        let stat = "7 (a (b) c) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20";
        assert_eq!(children_ticks(stat), Some(16 + 17));
        assert_eq!(children_ticks("7 (a"), None);
        assert!(children_cpu_seconds() >= 0.0);
    }

    #[test]
    fn a_processor_has_a_name_on_some_machines() {
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: A B\nmodel name\t: C\n"), Some("A B"));
        assert_eq!(cpu_model("processor\t: 0\n"), None);
        assert!(Machine::here().cpus >= 1);
    }

    #[test]
    fn blocks_are_counted_in_all_folders() {
        let dir = crate::place::Place::below(&std::env::temp_dir()).unwrap();
        let inner = dir.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("file"), vec![1; 1 << 20]).unwrap();
        assert!(disk_mb(dir.path()) >= 1.0);
        drop_cached(dir.path());
        assert_eq!(disk_mb(&dir.path().join("absent")), 0.0);
    }
}
