//! Which volumes there are beside the main one, and what is placed in them. Part of the superblock.
//!
//! ```text
//! 2560, 3072, 3584: the pieces, 504 bytes each, of
//!   number of volumes u8, number of rules u8
//!   each volume, from number 1 on:
//!     uuid 16 | generation u64 | blocks below this may be in use u64 | name | path
//!   each rule:
//!     kind u8 (1 database, 2 databases beginning with, 3 keys) | volume u8 | name or beginning | key prefix
//!   names, paths, prefixes: length u16, bytes
//!   where blocks may be compressed, or not enciphered (superblock.rs), each volume: compressor u8, level u8
//! 512 * n + 504: seal of sector n, as with a journal (keeping.rs)
//! ```
//!
//! All zero where nothing is placed. So the superblock, which is the one switch between generations, says
//! which other files belong to them, and a process that opens the environment knows that before anything is
//! read from them. Volumes and rules are the environment's, not a process's.

use std::path::{Path, PathBuf};

use super::bytes::{SUPERBLOCK_BYTES, u64_at};
use super::codec::PLAIN_MARK;
use super::compression::Compression;
use crate::crypt::Keyring;
use crate::error::{Error, Result};
use crate::region::VOLUMES_MAX;
use crate::types::VolumeId;

const SECTOR: usize = 512;
const SEAL_AT: usize = 504;
const PIECES: std::ops::Range<usize> = 5..8;
/// Bytes that volumes and rules have together.
const ROOM: usize = PIECES.end.saturating_sub(PIECES.start) * SEAL_AT;
/// The longest name of a volume, name or beginning of a name of a database, and prefix of keys: a stem of the
/// shortest pages.
const NAME_BYTES_MAX: usize = 48;
/// The longest path.
const PATH_BYTES_MAX: usize = 300;
/// What the main volume is called.
pub(crate) const MAIN_NAME: &str = "main";

/// What a placement rule places in a volume. See [`Builder::place`](crate::Builder::place).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Place {
    /// The database of this name.
    Database(String),
    /// The databases whose names begin with this.
    DatabasesBeginningWith(String),
    /// In the database of this name, the records whose keys begin with these bytes.
    Keys(String, Vec<u8>),
}

impl Place {
    /// The database of this name.
    pub fn database(name: impl Into<String>) -> Place {
        Place::Database(name.into())
    }

    /// The databases whose names begin with this.
    pub fn databases_beginning_with(beginning: impl Into<String>) -> Place {
        Place::DatabasesBeginningWith(beginning.into())
    }

    /// In the database of this name, the records whose keys begin with these bytes.
    pub fn keys(database: impl Into<String>, prefix: impl Into<Vec<u8>>) -> Place {
        Place::Keys(database.into(), prefix.into())
    }

    fn parts(&self) -> (u8, &str, &[u8]) {
        match self {
            Place::Database(name) => (1, name, &[]),
            Place::DatabasesBeginningWith(beginning) => (2, beginning, &[]),
            Place::Keys(name, prefix) => (3, name, prefix),
        }
    }

    fn of_parts(kind: u8, name: String, prefix: &[u8]) -> Option<Place> {
        match (kind, prefix) {
            (1, []) => Some(Place::Database(name)),
            (2, []) => Some(Place::DatabasesBeginningWith(name)),
            (3, [_, ..]) => Some(Place::Keys(name, prefix.to_vec())),
            _ => None,
        }
    }
}

/// A volume other than the main one, as the superblock remembers it. Its number follows from its place among
/// them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ExtraVolume {
    pub(crate) name: String,
    /// Where its file is, from the environment's directory on.
    pub(crate) path: String,
    pub(crate) uuid: [u8; 16],
    /// The newest generation that has blocks in it; 0: none has.
    pub(crate) generation: u64,
    /// Places of blocks below this may be in use.
    pub(crate) blocks_high: u64,
    /// How its pages are compressed that are written from now on.
    pub(crate) compression: Compression,
}

/// What goes where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rule {
    pub(crate) place: Place,
    pub(crate) volume: VolumeId,
}

/// The volumes beside the main one, and what is placed in them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Placement {
    pub(crate) volumes: Vec<ExtraVolume>,
    pub(crate) rules: Vec<Rule>,
    /// How pages in the main volume are compressed.
    pub(crate) compression: Compression,
    /// Which compressors there may be blocks of, in any volume, and whether some are not enciphered: never
    /// fewer.
    pub(crate) marks: u8,
}

impl Placement {
    /// The number of a volume.
    pub(crate) fn volume(&self, name: &str) -> Option<VolumeId> {
        if name == MAIN_NAME {
            return Some(VolumeId::MAIN);
        }
        let index = self.volumes.iter().position(|volume| volume.name == name)?;
        Some(VolumeId(index as u8 + 1))
    }

    /// Whether there is anything beside the main volume.
    pub(super) fn has_volumes(&self) -> bool {
        !self.volumes.is_empty() || !self.rules.is_empty()
    }

    /// How each volume's pages are compressed, the main one's first.
    pub(super) fn compressions(&self) -> impl Iterator<Item = Compression> + use<'_> {
        [self.compression].into_iter().chain(self.volumes.iter().map(|volume| volume.compression))
    }

    /// The number of each volume, with what is remembered of it.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (VolumeId, &ExtraVolume)> {
        (1..).map(VolumeId).zip(&self.volumes)
    }

    /// Where a new database of this name goes: by the rule for the whole name, or else by that with the
    /// longest beginning.
    pub(crate) fn of_database(&self, name: &str) -> VolumeId {
        let fits = |rule: &&Rule| match &rule.place {
            Place::Database(whole) => whole == name,
            Place::DatabasesBeginningWith(beginning) => name.starts_with(beginning.as_str()),
            Place::Keys(..) => false,
        };
        let rank = |rule: &&Rule| match &rule.place {
            Place::DatabasesBeginningWith(beginning) => beginning.len(),
            _ => usize::MAX,
        };
        self.rules.iter().filter(fits).max_by_key(rank).map_or(VolumeId::MAIN, |rule| rule.volume)
    }

    /// Where records of a database go that do not go where the rest of it does: key prefixes and volumes.
    pub(crate) fn keys_of<'a>(&'a self, database: &'a str) -> impl Iterator<Item = (&'a [u8], VolumeId)> {
        self.rules.iter().filter_map(move |rule| match &rule.place {
            Place::Keys(name, prefix) if name == database => Some((&prefix[..], rule.volume)),
            _ => None,
        })
    }

    fn bytes(&self) -> Vec<u8> {
        fn text(into: &mut Vec<u8>, bytes: &[u8]) {
            into.extend((bytes.len() as u16).to_le_bytes());
            into.extend(bytes);
        }
        let mut bytes = vec![self.volumes.len() as u8, self.rules.len() as u8];
        for volume in &self.volumes {
            bytes.extend(volume.uuid);
            bytes.extend(volume.generation.to_le_bytes());
            bytes.extend(volume.blocks_high.to_le_bytes());
            text(&mut bytes, volume.name.as_bytes());
            text(&mut bytes, volume.path.as_bytes());
        }
        for rule in &self.rules {
            let (kind, name, prefix) = rule.place.parts();
            bytes.extend([kind, rule.volume.0]);
            text(&mut bytes, name.as_bytes());
            text(&mut bytes, prefix);
        }
        if self.marks != 0 {
            self.volumes.iter().for_each(|volume| bytes.extend(volume.compression.parts()));
        }
        bytes
    }

    /// Writes it into the bytes of a superblock, which are zero there.
    pub(super) fn encode(&self, bytes: &mut [u8; SUPERBLOCK_BYTES]) {
        let all = self.bytes();
        assert!(all.len() <= ROOM, "the size is checked when volumes and rules are given");
        for (piece, part) in PIECES.zip(all.chunks(SEAL_AT)) {
            bytes[piece * SECTOR..][..part.len()].copy_from_slice(part);
        }
    }

    /// Reads what [`Placement::encode`] wrote, where blocks may be made as the marks say.
    ///
    /// # Errors
    /// What cannot be.
    pub(super) fn decode(
        bytes: &[u8; SUPERBLOCK_BYTES],
        marks: u8,
    ) -> std::result::Result<Placement, String> {
        let all: Vec<u8> =
            PIECES.flat_map(|piece| bytes[piece * SECTOR..][..SEAL_AT].iter().copied()).collect();
        let placement = PlacementReader(&all).placement(marks).ok_or("a list of volumes that is no list")?;
        placement.check().map(|()| placement)
    }

    /// What about it cannot be.
    fn check(&self) -> std::result::Result<(), String> {
        if self.volumes.len() >= VOLUMES_MAX {
            return Err(format!(
                "{} volumes beside the main one; there can be {} at most",
                self.volumes.len(),
                VOLUMES_MAX - 1
            ));
        }
        for (n, volume) in self.volumes.iter().enumerate() {
            let ExtraVolume { name, path, .. } = volume;
            if name.is_empty() || name.len() > NAME_BYTES_MAX || name == MAIN_NAME {
                return Err(format!(
                    "{name:?} as the name of a volume; names have 1 to {NAME_BYTES_MAX} bytes, and \
                     {MAIN_NAME:?} is taken"
                ));
            }
            if path.is_empty() || path.len() > PATH_BYTES_MAX {
                return Err(format!(
                    "a path of {} bytes for the volume {name:?}; it must have 1 to {PATH_BYTES_MAX}",
                    path.len()
                ));
            }
            if let Some(other) =
                self.volumes[..n].iter().find(|other| other.name == *name || other.path == *path)
            {
                return Err(format!(
                    "the volumes {:?} and {name:?}, in {:?} and {path:?}, are the same",
                    other.name, other.path
                ));
            }
        }
        for rule in &self.rules {
            let (kind, name, prefix) = rule.place.parts();
            if name.len() > NAME_BYTES_MAX
                || prefix.len() > NAME_BYTES_MAX
                || (kind == 3) == prefix.is_empty()
            {
                return Err(format!(
                    "a placement rule for {:?}: names and prefixes of keys have 1 to {NAME_BYTES_MAX} bytes",
                    rule.place
                ));
            }
            if rule.volume.index() > self.volumes.len() {
                return Err(format!("a rule for volume {}, which there is not", rule.volume));
            }
        }
        if let Some(compression) = self.compressions().find(|how| how.mark() & !self.marks != 0) {
            return Err(format!("compression {compression}, and no mark that there may be such blocks"));
        }
        let taken = self.bytes().len();
        if taken > ROOM || self.rules.len() > usize::from(u8::MAX) {
            return Err(format!(
                "volumes and rules that take {taken} bytes; there is room for {ROOM}: choose shorter paths \
                 and names, or fewer rules"
            ));
        }
        Ok(())
    }
}

/// Reads bytes that may be anything.
struct PlacementReader<'a>(&'a [u8]);

impl<'a> PlacementReader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn number(&mut self) -> Option<u64> {
        self.take(8).map(|bytes| u64_at(bytes, 0))
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.take(2)?;
        self.take(usize::from(u16::from_le_bytes([length[0], length[1]])))
    }

    fn string(&mut self) -> Option<String> {
        String::from_utf8(self.text()?.to_vec()).ok()
    }

    fn placement(&mut self, marks: u8) -> Option<Placement> {
        let (volumes, rules) = (self.byte()?, self.byte()?);
        let volumes = (0..volumes).map(|_| {
            let uuid = self.take(16)?;
            let (generation, blocks_high) = (self.number()?, self.number()?);
            Some(ExtraVolume {
                uuid: std::array::from_fn(|n| uuid[n]),
                generation,
                blocks_high,
                name: self.string()?,
                path: self.string()?,
                compression: Compression::None,
            })
        });
        let mut volumes = volumes.collect::<Option<Vec<_>>>()?;
        let rules = (0..rules).map(|_| {
            let (kind, volume) = (self.byte()?, VolumeId(self.byte()?));
            let name = self.string()?;
            Some(Rule { place: Place::of_parts(kind, name, self.text()?)?, volume })
        });
        let rules = rules.collect::<Option<Vec<_>>>()?;
        if marks != 0 {
            for volume in &mut volumes {
                volume.compression = Compression::of_parts([self.byte()?, self.byte()?])?;
            }
        }
        Some(Placement { volumes, rules, marks, ..Placement::default() })
    }
}

fn random_uuid() -> [u8; 16] {
    let mut uuid = [0; 16];
    sablecat_os::random::bytes(&mut uuid);
    uuid
}

/// What a caller that opens an environment says of volumes and rules.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Declared {
    /// Names, and where their files are or are to be.
    pub(crate) volumes: Vec<(String, PathBuf)>,
    /// What goes into the volume of which name.
    pub(crate) places: Vec<(Place, String)>,
    /// How pages of the volume of which name are compressed from now on.
    pub(crate) compressions: Vec<(String, Compression)>,
    /// Names of volumes whose blocks are not enciphered.
    pub(crate) unencrypted: Vec<String>,
}

impl Declared {
    /// Whether nothing is said.
    pub(crate) fn is_empty(&self) -> bool {
        self.volumes.is_empty()
            && self.places.is_empty()
            && self.compressions.is_empty()
            && self.unencrypted.is_empty()
    }

    /// What becomes of a placement by this: volumes it does not know are added, and are where nothing has
    /// been written yet.
    ///
    /// # Errors
    /// Invalid, saying what about it cannot be.
    pub(super) fn over(
        &self,
        before: &Placement,
        first_block: u64,
        keys: Option<&Keyring>,
    ) -> Result<Placement> {
        let mut after = before.clone();
        for (name, path) in &self.volumes {
            let Some(path) = path.to_str() else {
                return Err(Error::invalid(format!(
                    "the path of the volume {name:?} is not UTF-8: {}",
                    path.display()
                )));
            };
            match after.volumes.iter_mut().find(|volume| volume.name == *name) {
                Some(known) => known.path = path.to_owned(),
                None => {
                    let number = (after.volumes.len() + 1) as u8;
                    let uuid = match keys.filter(|_| self.unencrypted.contains(name)) {
                        Some(keys) => {
                            after.marks |= PLAIN_MARK;
                            keys.plain_uuid(number)
                        }
                        None => random_uuid(),
                    };
                    let (name, path) = (name.clone(), path.to_owned());
                    after.volumes.push(ExtraVolume {
                        name,
                        path,
                        uuid,
                        generation: 0,
                        blocks_high: first_block,
                        compression: Compression::None,
                    });
                }
            }
        }
        for (place, name) in &self.places {
            let volume = after.volume(name).ok_or_else(|| {
                Error::invalid(format!(
                    "{place:?} is placed in the volume {name:?}, which does not exist; declare it first"
                ))
            })?;
            match after.rules.iter_mut().find(|rule| rule.place == *place) {
                Some(rule) => rule.volume = volume,
                None => after.rules.push(Rule { place: place.clone(), volume }),
            }
        }
        for (name, compression) in &self.compressions {
            compression.check()?;
            let volume = after.volume(name).ok_or_else(|| {
                Error::invalid(format!(
                    "compression {compression} of the volume {name:?}, which does not exist; declare it first"
                ))
            })?;
            match volume.index().checked_sub(1) {
                None => after.compression = *compression,
                Some(index) => after.volumes[index].compression = *compression,
            }
            after.marks |= compression.mark();
        }
        for name in &self.unencrypted {
            if name == MAIN_NAME {
                if keys.is_none() {
                    continue;
                }
                return Err(Error::invalid(
                    "the main volume without encryption; in an encrypted environment it is always encrypted, \
                     since it says what is where: declare another volume, and place in it what is not to be \
                     encrypted",
                ));
            }
            let known = after.numbered().find(|(_, volume)| volume.name == *name);
            let (number, volume) = known.ok_or_else(|| {
                Error::invalid(format!(
                    "the volume {name:?} without encryption, which does not exist; declare it first"
                ))
            })?;
            if keys.is_some_and(|keys| !keys.is_plain(number.0, &volume.uuid)) {
                return Err(Error::invalid(format!(
                    "the volume {name:?} without encryption, which was made with it; a volume stays as it \
                     was made: declare another one, and place in it what is not to be encrypted"
                )));
            }
        }
        after.check().map_err(Error::invalid)?;
        Ok(after)
    }

    /// Where a volume is said to be.
    pub(super) fn path_of(&self, name: &str) -> Option<&Path> {
        self.volumes.iter().rfind(|(declared, _)| declared == name).map(|(_, path)| path.as_path())
    }
}
