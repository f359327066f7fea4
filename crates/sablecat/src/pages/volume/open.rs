//! Opening volumes: creating the main one, finding the others that it names, adding some.
//!
//! The superblock says which volumes there are, so it is read first. The file of each of the others is
//! believed if its header says that it is that volume, in the state that it was left in ([`super::extra`]). A
//! volume is added by making its file and then writing a superblock that names it: a crash in between leaves
//! a file that nothing names, and which the next process that adds a volume there replaces.

use std::iter::repeat;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use sablecat_os::disk::{Disk, File, How};

use super::blocks::BlockFiles;
use super::codec::{Codec, PLAIN_MARK};
use super::compression::Compression;
use super::data_file::{self, DIRECT_PAGE_MIN, DataFile};
use super::extra::{self, VolumeHeader};
use super::file::Volume;
use super::map::MapReader;
use super::packed::{BLOCK_SIZE_MIN, GRANULE};
use super::placement::{Declared, ExtraVolume, Placement};
use super::superblock::{self, Newest, Superblock};
use super::watch::GenerationWatch;
use crate::crypt::{Encryption, Keyring};
use crate::error::{Error, ErrorKind, Result};
use crate::pages::allocation::{RESERVED_BYTES, first_within};
use crate::types::{Berth, VolumeId};

/// How volumes are opened.
#[derive(Clone, Copy)]
struct Opening<'a> {
    direct: bool,
    read_only: bool,
    /// Nobody else has them open.
    alone: bool,
    declared: &'a Declared,
    encryption: Option<&'a Encryption>,
}

impl Volume {
    /// Creates the file of an empty main volume without encryption: see [`Volume::create_with`].
    #[cfg(test)]
    pub(crate) fn create(
        disk: &dyn Disk,
        path: &Path,
        codec: Codec,
        uuid: [u8; 16],
        direct: bool,
    ) -> Result<Volume> {
        Volume::create_with(disk, path, codec, uuid, (direct, None))
    }

    /// Creates the file of an empty main volume; it is durable, or not there at all, whatever happens
    /// meanwhile.
    ///
    /// The file is made under a name of its own and renamed, replacing a file of that name if there is one.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn create_with(
        disk: &dyn Disk,
        path: &Path,
        codec: Codec,
        uuid: [u8; 16],
        (direct, encryption): (bool, Option<&Encryption>),
    ) -> Result<Volume> {
        debug_assert_eq!(codec.cipher(), encryption.map(|encryption| encryption.cipher));
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".new");
        let unfinished = PathBuf::from(unfinished);
        let how = How { create: true, create_new: false, read_only: false, direct: false, durable: false };
        let file = disk.open(&unfinished, how).map_err(|e| Error::io("creating", &unfinished, e))?;
        let io = |e| Error::io("creating", &unfinished, e);
        file.set_len(0).map_err(io)?;
        file.set_len(RESERVED_BYTES).map_err(io)?;
        if let Some(encryption) = encryption {
            Keyring::create(encryption, uuid, &*file, &unfinished)?;
        }
        let initial = Superblock::initial(uuid, codec);
        superblock::write(&*file, &unfinished, &initial, Berth::usual(initial.generation))?;
        file.sync().map_err(io)?;
        drop(file);
        disk.rename(&unfinished, path).map_err(|e| Error::io("creating", path, e))?;
        let directory = path.parent().unwrap_or(Path::new(""));
        disk.sync_dir(directory).map_err(|e| Error::io("flushing the directory", directory, e))?;
        Volume::open_with(disk, path, direct, &Declared::default(), encryption)
    }

    /// Opens the main volume, which is not encrypted, at its newest complete generation, and those that it
    /// names.
    ///
    /// Unless read-only, that generation's superblock is written once more and flushed: it may have reached
    /// the file but not the disk when its writer died, and what follows relies on it. So it is to where
    /// another could not be read.
    ///
    /// # Errors
    /// Not found; corruption if no superblock is valid; invalid for another format version, or if a file is
    /// there in the place of another volume and is not that volume as it was left; `EncryptionKey` if no key
    /// was given to one that is encrypted, another than its own, or one to one that is not; those of the
    /// disk.
    #[cfg(test)]
    pub(crate) fn open(disk: &dyn Disk, path: &Path, direct: bool, read_only: bool) -> Result<Volume> {
        let volume = Volume::begin(
            disk,
            path,
            Opening { direct, read_only, alone: true, declared: &Declared::default(), encryption: None },
        )?;
        volume.make_sure()?;
        Ok(volume)
    }

    /// As `Volume::open`, to be written to; then adds the volumes, and goes by the rules, that are declared
    /// and were not known. Durable when it returns.
    ///
    /// # Errors
    /// As [`Volume::open_with`]; invalid for what cannot be declared; corruption if it is in doubt which
    /// superblock is the newest; exists if there are other files in the places of new volumes. The
    /// environment is what it was then; a file may have been made that nothing names.
    pub(crate) fn open_with(
        disk: &dyn Disk,
        path: &Path,
        direct: bool,
        declared: &Declared,
        encryption: Option<&Encryption>,
    ) -> Result<Volume> {
        let how = Opening { direct, read_only: false, alone: true, declared, encryption };
        let mut volume = Volume::begin(disk, path, how)?;
        // Flushed with the superblock.
        volume.keys.iter().try_for_each(|keys| keys.write_again())?;
        volume.make_sure()?;
        volume.mend_keys()?;
        volume.add(disk, direct, declared)?;
        Ok(volume)
    }

    /// Opens a volume that other processes have open, writing nothing.
    ///
    /// # Errors
    /// As [`Volume::open_with`].
    pub(crate) fn join(
        disk: &dyn Disk,
        path: &Path,
        (direct, read_only): (bool, bool),
        encryption: Option<&Encryption>,
    ) -> Result<Volume> {
        let declared = &Declared::default();
        Volume::begin(disk, path, Opening { direct, read_only, alone: false, declared, encryption })
    }

    /// Opens volumes to read what others may be writing; those that were moved are where they are declared to
    /// be.
    ///
    /// # Errors
    /// As [`Volume::open_with`]; invalid if the declaration has volumes or rules that are not known.
    pub(crate) fn read(
        disk: &dyn Disk,
        path: &Path,
        declared: &Declared,
        encryption: Option<&Encryption>,
    ) -> Result<Volume> {
        let how = Opening { direct: false, read_only: true, alone: false, declared, encryption };
        let volume = Volume::begin(disk, path, how)?;
        let known = volume.superblock().placement;
        let placement = volume.declared(declared)?;
        if placement.volumes.len() != known.volumes.len() || placement.rules != known.rules {
            return Err(Error::invalid(
                "adding volumes or rules to an environment that is opened read-only; open it for writing",
            ));
        }
        Ok(volume)
    }

    /// Whether a declaration says anything new.
    ///
    /// # Errors
    /// Invalid for what cannot be declared.
    pub(crate) fn is_news(&self, declared: &Declared) -> Result<bool> {
        Ok(self.declared(declared)? != self.superblock().placement)
    }

    /// What becomes of volumes, rules and compression by a declaration.
    ///
    /// # Errors
    /// Invalid for what cannot be.
    fn declared(&self, declared: &Declared) -> Result<Placement> {
        let first_block = first_within(VolumeId(1), self.block_size());
        let placement = declared.over(&self.superblock().placement, first_block, self.keys.as_deref())?;
        check_compressions(&placement, self.path(), self.block_size())?;
        Ok(placement)
    }

    /// Refuses what cannot be declared of a main volume that is to be created there.
    ///
    /// # Errors
    /// Invalid, as of [`Volume::add`], but for what depends on keys and files.
    pub(crate) fn check_new(path: &Path, codec: Codec, declared: &Declared) -> Result<()> {
        let first_block = first_within(VolumeId(1), codec.block_size());
        let placement = declared.over(&Placement::default(), first_block, None)?;
        check_compressions(&placement, path, codec.block_size())
    }

    /// The newest complete superblock of a main volume, of which nothing else is looked at.
    ///
    /// # Errors
    /// As [`Volume::open_with`].
    pub(crate) fn look(disk: &dyn Disk, path: &Path) -> Result<Superblock> {
        Volume::look_closely(disk, path).map(|newest| newest.superblock)
    }

    /// The keys of an environment of which nothing else is looked at, if it is encrypted.
    ///
    /// # Errors
    /// As [`Volume::open_with`].
    pub(crate) fn look_at_keys(
        disk: &dyn Disk,
        path: &Path,
        superblock: &Superblock,
        encryption: Option<&Encryption>,
    ) -> Result<Option<Arc<Keyring>>> {
        if superblock.codec.cipher().is_none() && encryption.is_none() {
            return Ok(None);
        }
        unlock(&open_main(disk, path, false, true)?, path, superblock, encryption).map(|(keys, _)| keys)
    }

    /// As [`Volume::look`], with what was found wrong on the way.
    ///
    /// # Errors
    /// As [`Volume::open_with`].
    pub(crate) fn look_closely(disk: &dyn Disk, path: &Path) -> Result<Newest> {
        superblock::read_newest(&*open_main(disk, path, false, true)?, path)
    }

    /// As [`Volume::look`], in the file that is open here.
    ///
    /// # Errors
    /// As [`Volume::open_with`].
    pub(crate) fn look_again(&self) -> Result<Superblock> {
        superblock::read_newest(self.file(), self.path()).map(|newest| newest.superblock)
    }

    fn begin(disk: &dyn Disk, path: &Path, how: Opening<'_>) -> Result<Volume> {
        let Opening { direct, read_only, declared, encryption, .. } = how;
        let open = |direct| open_main(disk, path, direct, read_only);
        let mut file = open(false)?;
        let (newest, watch) = if read_only {
            GenerationWatch::begin(&*file, path)?
        } else {
            (superblock::read_newest(&*file, path)?, None)
        };
        let superblock = newest.superblock;
        let codec = superblock.codec;
        // A read-only process looks at the superblocks time and again, which should not be a matter of the
        // disk.
        if direct && !read_only && codec.block_size() >= DIRECT_PAGE_MIN {
            file = open(true)?;
        }
        let (keys, key_complaints) = unlock(&file, path, &superblock, encryption)?;
        let made = (codec, keys.clone());
        let mut volume = Volume {
            blocks: BlockFiles {
                codec,
                keys,
                files: vec![DataFile::new(path, file, VolumeId::MAIN, made, read_only)?],
            },
            read_only,
            map: MapReader::new(superblock.map()),
            in_force: Mutex::new((superblock, newest.berth)),
            watch: Mutex::new(watch),
            complaints: newest.complaints,
            in_doubt: newest.in_doubt,
            passed_by: newest.passed_by,
            are_keys_damaged: false,
        };
        volume.are_keys_damaged = !key_complaints.is_empty();
        volume.complaints.extend(key_complaints);
        let superblock = volume.superblock();
        for (number, extra) in superblock.placement.numbered() {
            let path =
                volume.directory().join(declared.path_of(&extra.name).unwrap_or(Path::new(&extra.path)));
            volume.open_extra(disk, how, &superblock, (number, extra), &path)?;
        }
        volume.set_compressions(&superblock);
        if !read_only {
            // A file system that makes no holes is gone on with, without compression.
            volume
                .files
                .iter()
                .filter(|file| file.compression() != Compression::None)
                .try_for_each(|file| file.try_hole().map(drop))?;
        }
        Ok(volume)
    }

    /// Opens the file of a volume other than the main one, if it is the one that the superblock speaks of.
    fn open_extra(
        &mut self,
        disk: &dyn Disk,
        how: Opening<'_>,
        superblock: &Superblock,
        (number, extra): (VolumeId, &ExtraVolume),
        path: &Path,
    ) -> Result<()> {
        let name = &extra.name;
        let wrong = |kind, why: String| {
            let message = format!(
                "{}: {why}; needed is the volume {name:?} of the environment in {}: put its file there, or \
                 give its path when you open the environment",
                path.display(),
                self.directory().display()
            );
            Error::new(kind, message)
        };
        let file =
            data_file::open(disk, path, how.direct && self.block_size() >= DIRECT_PAGE_MIN, self.read_only)
                .map_err(|e| match e.kind() {
                std::io::ErrorKind::NotFound => wrong(ErrorKind::NotFound, "there is no such file".into()),
                _ => Error::io("opening", path, e),
            })?;
        let (header, complaints) = VolumeHeader::read(&*file, path).map_err(|error| match error.kind() {
            ErrorKind::Corruption => wrong(ErrorKind::Corruption, error.to_string()),
            _ => error,
        })?;
        let refuse = |why: String| Err(wrong(ErrorKind::Invalid, why));
        if header.environment != superblock.uuid {
            return refuse("this is a volume of another environment".into());
        }
        if (header.volume, header.uuid, header.block_size as usize)
            != (number, extra.uuid, superblock.codec.block_size())
        {
            return refuse(format!(
                "this is another volume of the environment (number {} instead of {number})",
                header.volume
            ));
        }
        if header.generation < extra.generation {
            let (found, needed) = (header.generation, extra.generation);
            return refuse(format!(
                "this is an older state of the volume: it was last written by checkpoint {found}, and \
                 {needed} wrote to it"
            ));
        }
        // While others have it open they may have written checkpoints since the superblock was read.
        if how.alone && header.generation > superblock.generation + 1 {
            let (found, last) = (header.generation, superblock.generation);
            return refuse(format!(
                "it is newer than {}: checkpoint {found} wrote to it, and the last there is {last}",
                self.path().display()
            ));
        }
        self.complaints.extend(complaints);
        let has_plain = superblock.placement.marks & PLAIN_MARK != 0;
        let is_encrypted = |keys: &&Arc<Keyring>| !has_plain || !keys.is_plain(number.0, &extra.uuid);
        let made = (self.codec, self.keys.as_ref().filter(is_encrypted).cloned());
        self.blocks.files.push(DataFile::new(path, file, number, made, self.read_only)?);
        Ok(())
    }

    /// Writes copies of the keys again that could not be read.
    fn mend_keys(&self) -> Result<()> {
        match &self.keys {
            Some(keys) if self.are_keys_damaged => keys.mend(),
            _ => Ok(()),
        }
    }

    /// Adds what is declared to what the superblock says. New files are made first; then one superblock, of
    /// the same map, names all of it.
    ///
    /// # Errors
    /// As [`Volume::open_with`].
    pub(crate) fn add(&mut self, disk: &dyn Disk, direct: bool, declared: &Declared) -> Result<()> {
        let before = self.superblock();
        let placement = self.declared(declared)?;
        if placement == before.placement {
            return Ok(());
        }
        if self.in_doubt {
            return Err(Error::corruption(format!(
                "{}: {}; open the environment once without new volumes and rules, which finds out whether a \
                 checkpoint was lost",
                self.path().display(),
                self.complaints.join("; ")
            )));
        }
        let generation = before.next_generation()?;
        let next = Superblock { generation, placement, old_ends: None, ..before };
        let known = |uuid: &[u8; 16]| next.placement.volumes.iter().any(|volume| volume.uuid == *uuid);
        for (number, extra) in next.placement.numbered().skip(self.files.len() - 1) {
            let path = self.directory().join(&extra.path);
            let header = VolumeHeader {
                environment: next.uuid,
                uuid: extra.uuid,
                block_size: next.codec.block_size() as u32,
                volume: number,
                generation: 0,
            };
            extra::create(disk, &path, &header, known)?;
            let how = Opening { direct, read_only: false, alone: true, declared, encryption: None };
            self.open_extra(disk, how, &next, (number, extra), &path)?;
        }
        let chosen = next
            .placement
            .compressions()
            .zip(before.placement.compressions().chain(repeat(Compression::None)));
        for (file, (now, then)) in self.files.iter().zip(chosen) {
            if now != then && now != Compression::None && !file.try_hole()? {
                return Err(Error::invalid(format!(
                    "{}: its file system does not support holes in files, so compression {now} would save \
                     nothing; choose none, or another file system",
                    file.path().display()
                )));
            }
        }
        let berth = self.berths_of_next().next().expect("there are several");
        self.write_superblock(&next, berth)?;
        self.sync()?;
        self.adopt(next, berth);
        Ok(())
    }

    fn directory(&self) -> PathBuf {
        self.path().parent().unwrap_or(Path::new("")).to_owned()
    }
}

/// Refuses compression of pages so small that it would save nothing.
fn check_compressions(placement: &Placement, path: &Path, block_size: usize) -> Result<()> {
    if block_size < BLOCK_SIZE_MIN
        && let Some(how) = placement.compressions().find(|&how| how != Compression::None)
    {
        return Err(Error::invalid(format!(
            "{}: compression {how} of pages of {block_size} bytes, which would save nothing: file systems \
             allocate space in units of {GRANULE} bytes; it is for pages of {BLOCK_SIZE_MIN} bytes and more, \
             best of 16384 to 65536, and an environment keeps the page size it was created with",
            path.display()
        )));
    }
    Ok(())
}

/// The keys of an environment in the file of its main volume, if it has any; and what is wrong with copies of
/// them.
///
/// # Errors
/// `EncryptionKey` if a user's key is missing, wrong, or not needed; corruption; those of the file.
fn unlock(
    file: &Arc<dyn File>,
    path: &Path,
    superblock: &Superblock,
    encryption: Option<&Encryption>,
) -> Result<(Option<Arc<Keyring>>, Vec<String>)> {
    match (superblock.codec.cipher(), encryption) {
        (None, None) => Ok((None, Vec::new())),
        (None, Some(_)) => Err(Error::new(
            ErrorKind::EncryptionKey,
            format!(
                "{}: a key was given, and the environment is not encrypted; open it without a key; to \
                 encrypt it, copy it into a new environment that is created with a key",
                path.display()
            ),
        )),
        (Some(cipher), encryption) => {
            let of = (cipher, superblock.uuid);
            Keyring::read(Arc::clone(file), path, of, encryption)
                .map(|(keys, complaints)| (Some(Arc::new(keys)), complaints))
        }
    }
}

fn open_main(disk: &dyn Disk, path: &Path, direct: bool, read_only: bool) -> Result<Arc<dyn File>> {
    data_file::open(disk, path, direct, read_only).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            Error::new(ErrorKind::NotFound, format!("there is no volume {}", path.display()))
        }
        _ => Error::io("opening", path, e),
    })
}
