//! A file system made for one run: in an image file on a loop device, mounted, and gone afterwards.
//!
//! The image loses its name as soon as it is mounted, and the loop device lets go of it when it is unmounted,
//! so the mount is all that has to be undone.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::statvfs;

use crate::machine;

/// A kind of file system that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// As the kernel and the paper call it.
    pub name: &'static str,
    /// How it is made in a file, without being asked anything; nothing if it has no image.
    mkfs: &'static [&'static str],
    /// Debian's package of the program that makes it.
    package: &'static str,
}

/// The paper's, and one in memory.
const FILE_SYSTEMS: [FileSystem; 7] = [
    FileSystem { name: "ext4", mkfs: &["mkfs.ext4", "-q", "-F"], package: "e2fsprogs" },
    FileSystem { name: "ext3", mkfs: &["mkfs.ext3", "-q", "-F"], package: "e2fsprogs" },
    FileSystem { name: "ext2", mkfs: &["mkfs.ext2", "-q", "-F"], package: "e2fsprogs" },
    FileSystem { name: "jfs", mkfs: &["mkfs.jfs", "-q"], package: "jfsutils" },
    FileSystem { name: "btrfs", mkfs: &["mkfs.btrfs", "-q", "-f"], package: "btrfs-progs" },
    FileSystem { name: "xfs", mkfs: &["mkfs.xfs", "-q", "-f"], package: "xfsprogs" },
    FileSystem { name: "tmpfs", mkfs: &[], package: "" },
];

impl FileSystem {
    /// The one of that name.
    ///
    /// # Errors
    /// A sentence that names those that there are.
    pub fn named(name: &str) -> Result<FileSystem, String> {
        let known = || FILE_SYSTEMS.map(|file_system| file_system.name).join(", ");
        FILE_SYSTEMS
            .into_iter()
            .find(|file_system| file_system.name == name)
            .ok_or_else(|| format!("no such file system, only {}", known()))
    }
}

/// A mounted file system, with nothing in it. Dropping it unmounts it.
#[derive(Debug)]
pub(super) struct Mounted {
    at: PathBuf,
    mounted: bool,
}

impl Mounted {
    /// Makes and mounts one of so many bytes in a new directory below `dir`.
    ///
    /// # Errors
    /// A sentence that says what is missing. Nothing is left behind then.
    pub(super) fn new(file_system: FileSystem, bytes: u64, dir: &Path) -> Result<Mounted, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("to mount it takes root".to_owned());
        }
        let at = dir.join(file_system.name);
        fs::create_dir(&at).map_err(|error| format!("cannot create {}: {error}", at.display()))?;
        // From here on dropping it removes the directory.
        let mut mounted = Mounted { at, mounted: false };
        if file_system.mkfs.is_empty() {
            enough(bytes, machine::memory_available_bytes(), "there is memory for")?;
            mounted.mount(
                file_system,
                &["-t", file_system.name, "-o", &format!("size={bytes}"), file_system.name],
            )?;
        } else {
            let space = statvfs(dir).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
            enough(bytes, space, &format!("there is room in {} for", dir.display()))?;
            let image = Image::new(&dir.join(file_system.name).with_extension("img"), bytes)?;
            make(file_system, &image.0)?;
            mounted
                .mount(file_system, &["-t", file_system.name, "-o", "loop", &image.0.to_string_lossy()])?;
        }
        Ok(mounted)
    }

    pub(super) fn path(&self) -> &Path {
        &self.at
    }

    fn mount(&mut self, file_system: FileSystem, arguments: &[&str]) -> Result<(), String> {
        let done = run(Command::new("mount").args(arguments).arg(&self.at), "mount", "mount");
        // It loads what the kernel has as a module, so only now the list is complete.
        let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
        if done.is_err() && !known.split_whitespace().any(|word| word == file_system.name) {
            return Err("this kernel does not have it".to_owned());
        }
        self.mounted = done.is_ok();
        done
    }

    /// Undoes it.
    ///
    /// # Errors
    /// A sentence, when it is used by somebody; it then goes when they do.
    pub(super) fn unmount(mut self) -> Result<(), String> {
        self.undo()
    }

    fn undo(&mut self) -> Result<(), String> {
        let mut done = Ok(());
        if std::mem::take(&mut self.mounted) {
            done = run(Command::new("umount").arg(&self.at), "umount", "mount");
            if done.is_err() {
                run(Command::new("umount").arg("--lazy").arg(&self.at), "umount", "mount")?;
            }
        }
        // Empty, or not ours to remove.
        let _ = fs::remove_dir(&self.at);
        done
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Only on the way of another error, which says more.
        let _ = self.undo();
    }
}

/// A file of a size, without blocks. Dropping it removes its name; a loop device keeps the file.
struct Image(PathBuf);

impl Image {
    fn new(path: &Path, bytes: u64) -> Result<Image, String> {
        let created = File::create_new(path).and_then(|file| file.set_len(bytes));
        created
            .map(|()| Image(path.to_owned()))
            .map_err(|error| format!("cannot create {}: {error}", path.display()))
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // What could not be removed is in a directory that will be removed as a whole.
        let _ = fs::remove_file(&self.0);
    }
}

fn enough(needed: u64, available: u64, what: &str) -> Result<(), String> {
    let mb = |bytes: u64| bytes >> 20;
    if needed <= available {
        Ok(())
    } else {
        Err(format!("it takes {} MB, and {what} {} MB", mb(needed), mb(available)))
    }
}

fn make(file_system: FileSystem, image: &Path) -> Result<(), String> {
    let (program, options) = file_system.mkfs.split_first().ok_or("it is not made in an image")?;
    run(Command::new(program).args(options).arg(image), program, file_system.package)
}

/// Runs a program of one of Debian's packages, which says nothing when all goes well.
fn run(command: &mut Command, name: &str, package: &str) -> Result<(), String> {
    let output = command.output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("there is no {name} (Debian: apt install {package})"),
        _ => format!("{name}: {error}"),
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{name}: {}: {}", output.status, said.trim())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Place;

    fn is_mounted(at: &Path) -> bool {
        let at = at.canonicalize().unwrap_or(at.to_owned());
        fs::read_to_string("/proc/self/mounts")
            .unwrap()
            .lines()
            .any(|line| line.split(' ').nth(1) == at.to_str())
    }

    #[test]
    fn file_systems_have_names() {
        assert_eq!(FileSystem::named("xfs").map(|file_system| file_system.package), Ok("xfsprogs"));
        assert_eq!(
            FileSystem::named("ntfs"),
            Err("no such file system, only ext4, ext3, ext2, jfs, btrfs, xfs, tmpfs".to_owned())
        );
    }

    #[test]
    fn every_file_system_is_undone_or_says_what_is_missing() {
        let place = Place::below(&std::env::temp_dir()).unwrap();
        for file_system in FILE_SYSTEMS {
            match Mounted::new(file_system, 512 << 20, place.path()) {
                Ok(mounted) => {
                    let at = mounted.path().to_owned();
                    assert!(is_mounted(&at), "{}", file_system.name);
                    assert!(
                        !place.path().join(file_system.name).with_extension("img").exists(),
                        "the image has no name any more"
                    );
                    fs::write(at.join("file"), [1; 4096]).unwrap();
                    assert_eq!(mounted.unmount(), Ok(()));
                    assert!(!is_mounted(&at));
                }
                Err(why) => assert!(!why.is_empty(), "{}", file_system.name),
            }
            assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "{}", file_system.name);
        }
    }

    #[test]
    fn one_that_is_in_use_goes_with_its_last_user() {
        let place = Place::below(&std::env::temp_dir()).unwrap();
        let Ok(mounted) = Mounted::new(FILE_SYSTEMS[6], 1 << 20, place.path()) else { return };
        let at = mounted.path().to_owned();
        let _user = File::create(at.join("file")).unwrap();
        assert!(mounted.unmount().is_err());
        assert!(!is_mounted(&at) && !at.exists());
    }

    #[test]
    fn one_that_does_not_fit_is_refused_beforehand() {
        let place = Place::below(&std::env::temp_dir()).unwrap();
        for name in ["ext4", "tmpfs"] {
            let why = Mounted::new(FileSystem::named(name).unwrap(), 1 << 60, place.path()).unwrap_err();
            assert!(why.contains("it takes 1099511627776 MB") || why.contains("root"), "{why}");
        }
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
