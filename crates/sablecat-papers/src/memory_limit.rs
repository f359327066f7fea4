//! A limit on the memory of one process, with what the system caches of its files and what it has mapped of
//! them: a memory control group of Linux's, of either version, where this process may make one.
//!
//! Root may as a rule, and so may a user in a group that was delegated to it (as systemd does with sessions).
//! The group is made below the one that this process is in, or below one above that, and goes when the limit
//! is dropped, after the process.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// A group is busy until its last process has been cleared away.
const TRIES_TO_REMOVE: u32 = 100;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// Below which groups others can be made, and what the limit's file is called there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parent {
    dir: PathBuf,
    limit: &'static str,
}

/// A group with a limit. Dropped, it is removed.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    group: PathBuf,
}

impl MemoryLimit {
    /// A group for processes that come to so many bytes together.
    ///
    /// # Errors
    /// When the system has no such groups, or lets this process make none.
    pub(crate) fn new(bytes: u64) -> io::Result<MemoryLimit> {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let parents = parents(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"));
        let mut last = io::Error::new(io::ErrorKind::Unsupported, "there is no memory control group");
        for parent in parents {
            match MemoryLimit::below(&parent, bytes) {
                Ok(limit) => return Ok(limit),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn below(parent: &Parent, bytes: u64) -> io::Result<MemoryLimit> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("sablecat-papers-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let group = parent.dir.join(name);
        fs::create_dir(&group)?;
        // From here on it is removed again if anything goes wrong.
        let made = MemoryLimit { group };
        fs::write(made.group.join(parent.limit), bytes.to_string())?;
        // What does not fit is not to be kept elsewhere. Where nothing is, there is no such file.
        let _ = fs::write(made.group.join("memory.swap.max"), "0");
        let _ = fs::write(made.group.join("memory.swappiness"), "0");
        Ok(made)
    }

    /// Whether one can be set.
    pub(crate) fn is_possible() -> bool {
        MemoryLimit::new(1 << 30).is_ok()
    }

    /// Has the limit hold for a process, for all that it takes from now on.
    ///
    /// # Errors
    /// When there is no such process, or it may not be moved.
    pub(crate) fn hold(&self, process: u32) -> io::Result<()> {
        fs::write(self.group.join("cgroup.procs"), process.to_string())
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        for _ in 0..TRIES_TO_REMOVE {
            match fs::remove_dir(&self.group) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => thread::sleep(BETWEEN_TRIES),
                // What cannot be removed holds nothing, and goes when the machine is started anew.
                _ => return,
            }
        }
    }
}

/// Where a process is that says this of itself in /proc/self/cgroup and /proc/self/mountinfo.
fn parents(cgroup: &str, mounts: &str) -> Vec<Parent> {
    let groups = cgroup.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let mut found = Vec::new();
    for (controllers, path) in groups {
        let is_memory = controllers.split(',').any(|controller| controller == "memory");
        if !is_memory && !controllers.is_empty() {
            continue;
        }
        let mounted = mounts
            .lines()
            .filter_map(mount)
            .find(|mount| if is_memory { mount.is_memory } else { mount.is_unified });
        let Some(dir) = mounted.and_then(|mount| mount.dir(path)) else { continue };
        if is_memory {
            found.push(Parent { dir, limit: "memory.limit_in_bytes" });
            continue;
        }
        // Groups with processes of their own have none below them that are limited, but for the root.
        let above = dir.ancestors().filter(|dir| {
            let given = fs::read_to_string(dir.join("cgroup.subtree_control")).unwrap_or_default();
            given.split_whitespace().any(|controller| controller == "memory")
        });
        found.extend(above.map(|dir| Parent { dir: dir.to_owned(), limit: "memory.max" }));
    }
    found
}

/// Where groups are mounted.
struct Mount<'m> {
    root: &'m str,
    at: &'m Path,
    is_memory: bool,
    is_unified: bool,
}

impl Mount<'_> {
    /// The directory of a group; none: it is not below what is mounted.
    fn dir(&self, group: &str) -> Option<PathBuf> {
        let within = Path::new(group).strip_prefix(self.root).ok()?;
        Some(self.at.join(within))
    }
}

/// A line of /proc/self/mountinfo: some fields, a dash, the kind of file system, its source, its options.
fn mount(line: &str) -> Option<Mount<'_>> {
    let (place, system) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (root, at) = (place.next()?, Path::new(place.next()?));
    let mut system = system.split(' ');
    let (kind, options) = (system.next()?, system.nth(1)?);
    let is_memory = kind == "cgroup" && options.split(',').any(|option| option == "memory");
    Some(Mount { root, at, is_memory, is_unified: kind == "cgroup2" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn a_group_is_found_where_it_is_mounted() {
        let mounts = "24 22 0:21 / /proc rw - proc proc rw\n\
                      35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                      36 31 0:33 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n";
        let found = parents("5:cpu:/a\n4:memory:/a/b\n0::/\n", mounts);
        let dir = PathBuf::from("/sys/fs/cgroup/memory/a/b");
        assert_eq!(found, [Parent { dir, limit: "memory.limit_in_bytes" }]);
        // In a container what is mounted may be a part of all groups.
        let part = "35 31 0:32 /a /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        assert_eq!(parents("4:memory:/a/b\n", part)[0].dir, Path::new("/sys/fs/cgroup/memory/b"));
        assert_eq!(parents("4:memory:/c\n", part), []);
        assert_eq!(parents("4:memory:/a\n", "nonsense\n - \n"), []);
    }

    #[test]
    fn a_group_of_the_second_version_has_groups_below_it_where_one_above_gives_them_memory() {
        let place = crate::place::Place::below(&std::env::temp_dir()).unwrap();
        let root = place.path().join("root");
        let own = root.join("session/own");
        fs::create_dir_all(&own).unwrap();
        let mounts = format!("30 29 0:26 / {} rw - cgroup2 cgroup2 rw\n", root.display());
        assert_eq!(parents("0::/session/own\n", &mounts), []);
        fs::write(root.join("session/cgroup.subtree_control"), "cpu memory\n").unwrap();
        let found = parents("0::/session/own\n", &mounts);
        assert_eq!(found, [Parent { dir: root.join("session"), limit: "memory.max" }]);
    }

    /// Where this process may set none there is nothing to be seen but that.
    #[test]
    fn a_process_has_no_more_than_its_limit() {
        let Ok(limit) = MemoryLimit::new(32 << 20) else {
            assert!(!MemoryLimit::is_possible());
            return;
        };
        let group = limit.group.clone();
        // It keeps all that it reads. Not a shell: the pages that one alone has mapped are counted in another
        // test at the same time.
        let mut child = Command::new("tail")
            .args(["-c", "268435456"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("tail");
        limit.hold(child.id()).unwrap();
        let mut input = child.stdin.take().expect("asked for");
        let megabyte = vec![0; 1 << 20];
        let given = (0..256).take_while(|_| input.write_all(&megabyte).is_ok()).count();
        drop(input);
        let ended = child.wait().expect("it ends");
        assert!(given < 256 && !ended.success(), "{given} MB were taken: {ended}");
        drop(limit);
        assert!(!group.exists());
    }
}
