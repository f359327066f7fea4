//! All that processes share in an environment, as bytes: its files and its region.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use sablecat_os::check::sparse::{self, Watched};

/// A directory for an environment and one for its region. Removed when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    base: PathBuf,
}

impl Place {
    /// A new, empty one.
    pub(crate) fn new(base: PathBuf) -> io::Result<Place> {
        let place = Place { base };
        place.clear()?;
        Ok(place)
    }

    /// The one that another process made.
    pub(crate) fn of_another(base: &Path) -> std::mem::ManuallyDrop<Place> {
        std::mem::ManuallyDrop::new(Place { base: base.to_owned() })
    }

    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    pub(crate) fn environment(&self) -> PathBuf {
        self.base.join("env")
    }

    pub(crate) fn regions(&self) -> PathBuf {
        self.base.join("region")
    }

    fn clear(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.base) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::create_dir_all(self.environment())?;
        fs::create_dir_all(self.regions())
    }

    /// What its region's file is called: what belongs to the region may have something after that.
    fn region_name(&self) -> io::Result<String> {
        let directory = fs::metadata(self.environment())?;
        Ok(format!("sablecat-{:x}-{:x}", directory.dev(), directory.ino()))
    }

    /// Whether it has a region. Without one nobody has the environment open.
    pub(crate) fn has_region(&self) -> io::Result<bool> {
        self.regions().join(self.region_name()?).try_exists()
    }

    /// What a region is called that was set aside, if one was.
    pub(crate) fn set_aside(&self) -> io::Result<Option<String>> {
        let name = format!("{}.aside", self.region_name()?);
        Ok(self.regions().join(&name).try_exists()?.then_some(name))
    }

    /// All files here: what each is called wherever the environment is, and where it is.
    fn files(&self) -> io::Result<Vec<(Name, PathBuf)>> {
        let mut found = Vec::new();
        walk(&self.environment(), &mut PathBuf::new(), &mut found)?;
        let region = self.region_name()?;
        for entry in fs::read_dir(self.regions())? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let suffix = name
                .strip_prefix(&region)
                .ok_or_else(|| io::Error::other(format!("whose region is {name}?")))?;
            found.push((Name::Region(suffix.to_owned()), entry.path()));
        }
        Ok(found)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.base);
    }
}

fn walk(directory: &Path, within: &mut PathBuf, found: &mut Vec<(Name, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        within.push(entry.file_name());
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), within, found)?;
        } else {
            found.push((Name::File(within.clone()), entry.path()));
        }
        within.pop();
    }
    Ok(())
}

/// What a file is called wherever its environment is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Name {
    /// A file in the environment's directory.
    File(PathBuf),
    /// The region, or what lies beside it: what follows the region's name.
    Region(String),
}

/// What is in a file: its length, and its data with where each stretch begins.
#[derive(Clone, Debug)]
struct Bytes {
    length: u64,
    data: Vec<(u64, Vec<u8>)>,
}

impl Bytes {
    fn read(path: &Path) -> io::Result<Bytes> {
        let file = File::open(path)?;
        let mut data = Vec::new();
        for extent in sparse::extents(&file)? {
            let mut bytes = vec![0; (extent.end - extent.start) as usize];
            file.read_exact_at(&mut bytes, extent.start)?;
            data.push((extent.start, bytes));
        }
        Ok(Bytes { length: file.metadata()?.len(), data })
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let file = File::create(path)?;
        file.set_len(self.length)?;
        self.data.iter().try_for_each(|(at, bytes)| file.write_all_at(bytes, *at))
    }
}

/// The state of a place at one moment.
#[derive(Debug)]
pub(crate) struct State {
    files: BTreeMap<Name, Bytes>,
}

impl State {
    /// The state of a place in which nobody is at work.
    pub(crate) fn of(place: &Place) -> io::Result<State> {
        let read = |(name, path): (Name, PathBuf)| Ok((name, Bytes::read(&path)?));
        Ok(State { files: place.files()?.into_iter().map(read).collect::<io::Result<_>>()? })
    }

    /// The files of this state, and the region of another.
    pub(crate) fn with_memory_of(&self, other: &State) -> State {
        let is_file = |name: &Name| matches!(name, Name::File(_));
        let files = self.files.iter().filter(|(name, _)| is_file(name));
        let regions = other.files.iter().filter(|(name, _)| !is_file(name));
        State { files: files.chain(regions).map(|(name, bytes)| (name.clone(), bytes.clone())).collect() }
    }

    /// Brings a place into this state; without regions, that is as after the end of the machine's run.
    pub(crate) fn put(&self, place: &Place, with_regions: bool) -> io::Result<()> {
        place.clear()?;
        let region = place.region_name()?;
        for (name, bytes) in &self.files {
            match name {
                Name::File(path) => bytes.write(&place.environment().join(path))?,
                Name::Region(suffix) if with_regions => {
                    bytes.write(&place.regions().join(format!("{region}{suffix}")))?
                }
                Name::Region(_) => {}
            }
        }
        Ok(())
    }
}

/// A place, and the state that it was in: to see soon whether it still is. A look is some 100 us, nearly all
/// of it for reading the region.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    place: &'a Place,
    state: State,
    watched: BTreeMap<Name, Watched>,
}

impl Watch<'_> {
    /// Begins with the state that a place is in. Nobody is at work there.
    pub(crate) fn begin(place: &Place) -> io::Result<Watch<'_>> {
        let watch = |(name, path): (Name, PathBuf)| Ok((name, Watched::new(&path)?));
        let watched = place.files()?.into_iter().map(watch).collect::<io::Result<_>>()?;
        Ok(Watch { place, state: State::of(place)?, watched })
    }

    /// Whether the place is still in that state. A hole that was filled is a change, even if with zeros.
    pub(crate) fn is_still_so(&self) -> io::Result<bool> {
        let files = self.place.files()?;
        for (name, path) in &files {
            let (Some(known), Some(watched)) = (self.state.files.get(name), self.watched.get(name)) else {
                return Ok(false);
            };
            if !watched.has_its_shape(path)? || !known.data.iter().all(|(at, bytes)| watched.has(*at, bytes))
            {
                return Ok(false);
            }
        }
        Ok(files.len() == self.state.files.len())
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn into_state(self) -> State {
        self.state
    }
}
