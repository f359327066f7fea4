//! Opening an environment in a directory, or in memory alone: for one process, or as the first of several.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sablecat_os::atomic::Ordering;
use sablecat_os::disk::File;

use super::{Core, EnvPlace, attach, read_only};
use crate::access::PageWrite;
use crate::env::config::{Config, EnvMode, HeldEnvironment};
use crate::env::files::held::{make_ready, settle};
use crate::env::files::left::take_alone;
use crate::env::files::{LOG, VOLUME, find_volume, open_volume};
use crate::env::recovery::{RecoveryReport, begin_from, build_kernel, geometry, recover};
use crate::error::{Error, ErrorKind, Result};
use crate::pages::LocalParticipant;
use crate::pages::volume::Volume;
use crate::region::Region;
use crate::trace::{self, TracedWork};
use crate::txn::catalog::{CATALOG_ROOT, FIRST_TREE, catalog_tree};
use crate::txn::{self, Direct, Kernel};
use crate::types::{Lsn, VolumeId};

/// Opens the environment in a directory, creating or recovering it as need be.
pub(crate) fn open(directory: &Path, mut config: Config, mode: EnvMode) -> Result<Arc<Core>> {
    config.check()?;
    let directory = &settle(config.locate(directory)?, &mut config, mode)?;
    let _opening = trace::begin(TracedWork::Opening(directory));
    let opened = if config.read_only {
        read_only::open(directory, config, mode)
    } else {
        let (disk, encryption) = (Arc::clone(&config.disk), config.encryption.clone());
        open_to_write(directory, config, mode)
            .map_err(|error| read_only::explain(error, directory, &*disk, encryption.as_ref()))
    };
    opened.inspect(|core| core.recovery.tell())
}

fn open_to_write(directory: &Path, mut config: Config, mode: EnvMode) -> Result<Arc<Core>> {
    if let Some(image) = config.held.as_ref().map(HeldEnvironment::image) {
        config.take_after(&image)?;
    }
    config.take_after(&directory.join(VOLUME))?;
    if config.shared {
        return attach::open_shared(directory, config, mode);
    }
    let (_, path) = find_volume(directory, &config)?;
    let lock = take_alone(directory, &config)?;
    make_ready(directory, &config, true)?;
    // Looked for again: another may have made it before the lock was this one's.
    let exists = config.disk.exists(&path).map_err(|e| Error::io("looking for", &path, e))?;
    let volume = open_volume(exists, &path, &config)?;
    assemble(Some((directory, volume)), Some(lock), None, config, mode)
}

/// An environment in memory alone.
pub(crate) fn in_memory(mut config: Config, mode: EnvMode) -> Result<Arc<Core>> {
    config.check()?;
    if !config.declared.compressions.is_empty() {
        return Err(Error::invalid(
            "an environment in memory alone writes nothing that could be compressed; open it without \
             compression, or in a directory",
        ));
    }
    if !config.declared.is_empty() {
        return Err(Error::invalid(
            "an environment in memory alone has no volumes; place nothing, or open it in a directory",
        ));
    }
    if config.encryption.is_some() {
        return Err(Error::invalid(
            "an environment in memory alone writes nothing that could be encrypted; open it without a key, \
             or in a directory",
        ));
    }
    if config.read_only {
        return Err(Error::invalid(
            "an environment in memory alone would stay empty if it were read-only; open it without \
             Builder::read_only, or in a directory",
        ));
    }
    if config.journaling.over(None).is_some() {
        return Err(Error::invalid(
            "an environment in memory alone has no log, so it cannot keep a journal; open it without a \
             journal, or in a directory",
        ));
    }
    // Nothing can be evicted, so the cache is all there is: unless a limit was asked for, room for as much as
    // the machine has. It is taken as it is used.
    config.cache_bytes.get_or_insert_with(sablecat_os::machine::memory_bytes);
    assemble(None, None, None, config, mode)
}

/// Makes an environment of a volume (none: in memory alone) in a region that nobody uses yet (none: a private
/// one is made).
pub(super) fn assemble(
    place: Option<(&Path, Volume)>,
    lock: Option<Arc<dyn File>>,
    shared: Option<(Arc<Region>, PathBuf)>,
    config: Config,
    mode: EnvMode,
) -> Result<Arc<Core>> {
    let (directory, volume) = match place {
        Some((directory, volume)) => (Some(directory.to_path_buf()), Some(volume)),
        None => (None, None),
    };
    let superblock = volume.as_ref().map(Volume::superblock);
    let codec = superblock.as_ref().map_or_else(|| config.codec(), |superblock| Ok(superblock.codec))?;
    let (region, shared) = match shared {
        Some((region, path)) => (region, Some(path)),
        None => (Arc::new(Region::private(geometry(&config, codec, volume.as_ref()))?), None),
    };
    let leftover_log = directory
        .as_ref()
        .map(|directory| directory.join(LOG))
        .filter(|log| mode == EnvMode::DataStore && config.disk.exists(log).unwrap_or(false));
    let journal =
        config.journaling.over(superblock.as_ref().and_then(|superblock| superblock.journal.clone()));
    if journal.is_some() && mode == EnvMode::DataStore {
        return Err(Error::invalid(
            "a Data Store has no log, so it cannot keep a journal; open the environment once with \
             transactions and turn the journal off",
        ));
    }
    let kernel = build_kernel(directory.as_deref(), volume, &region, &config, (mode, journal.as_ref()))?;
    let begins = superblock.as_ref().is_some_and(|superblock| superblock.journal.is_none());
    if let Some(old) = kernel.log.oldest_archived()?.filter(|_| begins) {
        // It would not go on with what is to come.
        return Err(Error::new(
            ErrorKind::Exists,
            format!(
                "{} belongs to an earlier journal; move it away, or keep the new journal in another \
                 directory",
                old.display()
            ),
        ));
    }

    let header = region.header();
    let mut report = RecoveryReport::default();
    if let Some(superblock) = &superblock {
        superblock.check_generations_left()?;
        begin_from(&kernel, superblock)?;
        report.checkpoint = superblock.checkpoint;
        report.created = superblock.map_height == 0;
        report.closed = superblock.clean && !report.created;
    } else {
        kernel.pages.page_ids().assume_used_below(1)?;
        header.tree_next.0.store(FIRST_TREE, Ordering::Release);
        report.created = true;
    }
    if let Some(log) = leftover_log
        && superblock.as_ref().is_some_and(|superblock| !superblock.clean)
    {
        return Err(Error::invalid(format!(
            "the environment in {} was last used with transactions and not closed; open it once without \
             Data Store mode to recover it",
            log.parent().unwrap_or(&log).display()
        )));
    }

    let seat = kernel.pages.participants.sit()?;
    if kernel.pages.volume().is_some_and(Volume::is_in_doubt) {
        report.doubt = true;
        go_back(&kernel, &seat, mode)?;
    }
    if report.created {
        // SAFETY: no handle exists yet: nobody else is in the environment.
        let mut direct = unsafe { Direct::new(&kernel.pages, &seat) };
        let root = direct.allocate(VolumeId::MAIN)?;
        if root != CATALOG_ROOT {
            return Err(Error::corruption(format!(
                "the superblock says that there are no pages, and that ids below {root} may be in use"
            )));
        }
        catalog_tree().tree().format(direct.write(root)?);
    }
    let mut changed = report.created;
    if kernel.log.keeps_records() {
        changed |= recover::replay(&kernel, &seat, &config, superblock.as_ref(), &mut report)?;
    }
    changed |= recover::empty_temporary(&kernel, &seat)?;
    let end = if kernel.log.keeps_records() { report.end } else { header.visible() };
    let caller = txn::caller(&kernel.pages, seat.number());
    let mut floor = Lsn(0);
    if let Some(superblock) = superblock.as_ref().filter(|_| kernel.log.keeps_records()) {
        floor = superblock.checkpoint.max(superblock.log_floor);
        if superblock.log_floor > superblock.log_position {
            // Taken back to an earlier time, and the files that say what came after it are still where the
            // log goes on.
            kernel.log.give_up_files(superblock.log_floor, caller)?;
        }
    }
    let start = kernel.log.start_fresh(end, floor, caller)?;
    kernel.log.time_is_at_least(superblock.as_ref().map_or(0, |superblock| superblock.time_ms));
    header.visible.0.store(start.0, Ordering::Release);
    drop(seat);

    let core =
        Core::new(kernel, config, (mode, journal), report, EnvPlace { directory, lock, region: shared });
    header.checkpointed.store(start.0, Ordering::Release);
    match core.begin_life(changed) {
        // What was replayed is read; what is changed goes to the log, as far as there is room.
        Err(error) if core.can_wait(&error) => {
            let checkpoint =
                core.kernel.pages.volume().map_or(start, |volume| volume.superblock().checkpoint);
            header.checkpointed.store(checkpoint.0, Ordering::Release);
        }
        begun => begun?,
    }
    core.finish_drops()?;
    core.remove_names_left();
    core.start_housekeeping()?;
    Ok(core)
}

/// Goes on from a checkpoint although a later one may have been, of which nothing can be read. With a log
/// nothing is lost by that, if the blocks are those of this checkpoint still; without one whatever came after
/// it is.
fn go_back(kernel: &Kernel, me: &LocalParticipant, mode: EnvMode) -> Result<()> {
    let Some(volume) = kernel.pages.volume() else { return Ok(()) };
    let (path, generation) = (volume.path().display(), volume.generation());
    let why = format!(
        "{path}: {}; a checkpoint later than {generation} may have been lost",
        volume.complaints().join("; ")
    );
    if mode == EnvMode::DataStore {
        return Err(Error::corruption(format!(
            "{why}; restore a backup, or, to go on with checkpoint {generation} nevertheless, open the \
             environment once without Data Store mode and close it"
        )));
    }
    let broken = |error| Error::corruption(format!("{why}, and {generation} is not whole: {error}"));
    volume.scan().map_err(broken)?;
    kernel.pages.check_blocks(me, &mut |_, error| Err(broken(error)))?;
    recover::check_log(kernel, &volume.superblock())?;
    // That is decided. What is about to be written takes blocks which the later one may have had: it must not
    // be found again.
    volume.end_passed_by()
}

impl Core {
    /// Makes room in the log, and writes to the volume what was recovered: so that the log before this life
    /// is not needed again, and the next recovery begins where this life does.
    fn begin_life(&self, changed: bool) -> Result<()> {
        self.find_room_for_log()?;
        if changed || self.kernel.log.keeps_records() {
            self.with_end_of_log(|| self.checkpoint(false).map(drop))?;
            if self.recovery.recovered && self.shared.is_none() {
                // Of what the log of that life took: an environment whose process was killed again and again
                // on a full disk would have nothing left.
                self.kernel.pages.give_back_tail();
            }
        }
        Ok(())
    }

    /// Whether what was replayed, for which the disk has no space, need not be in the volume yet: the
    /// superblock says where to replay from, the log from there stays until the next checkpoint, and that of
    /// this life goes on from it. Not where the log begins above that, after a recovery backward: the next
    /// opening would give up the files. Nor where the superblock has to say something new of the journal.
    fn can_wait(&self, error: &Error) -> bool {
        let RecoveryReport { created, doubt, .. } = self.recovery;
        let volume = self.kernel.pages.volume();
        error.kind() == ErrorKind::DiskFull
            && !created
            && !doubt
            && volume.map(Volume::superblock).is_some_and(|superblock| {
                !superblock.clean
                    && superblock.log_floor <= superblock.log_position
                    && self.is_journal_of(&superblock)
            })
    }

    /// Makes sure that commits have some room in the log. If the disk has none, the log of the life before
    /// has: everything is written to the volume as if to be closed, which takes free blocks there, and that
    /// log is removed. Or else half of the volume's reserve is given up.
    fn find_room_for_log(&self) -> Result<()> {
        let log = &self.kernel.log;
        if !log.keeps_records() || log.has_room(1) {
            return Ok(());
        }
        match self.with_end_of_log(|| self.checkpoint_and_remove_log()) {
            Err(error) if self.can_wait(&error) => {}
            emptied => emptied?,
        }
        let seat = self.kernel.pages.participants.sit()?;
        // The first segment is not made of a spare; on a full disk there may be room where they are.
        log.remove_spares()?;
        let prepare = || log.prepare_next(txn::caller(&self.kernel.pages, seat.number()));
        // Whatever the reason, the next checkpoint must not say that there is a log where there is no
        // segment. What little there is room for is enough to delete something.
        match prepare() {
            Err(error) if error.is_full() && !log.has_room(1) => {
                self.kernel.pages.give_back_reserve(&seat);
                prepare()
            }
            Err(error) if !log.has_room(1) => Err(error),
            _ => Ok(()),
        }
    }

    /// Does something that writes to the volume what was recovered. If there is no space for it, what the
    /// life before had taken for its log and not used yet is given up for it.
    fn with_end_of_log(&self, write: impl Fn() -> Result<()>) -> Result<()> {
        match write() {
            Err(error) if error.is_full() && self.recovery.recovered => {
                match self.kernel.log.empty_last(self.recovery.end) {
                    Ok(()) => write(),
                    Err(_) => Err(error),
                }
            }
            done => done,
        }
    }

    /// Takes away what a process that was killed has left of a file for a large transaction. A name that
    /// stays does no harm.
    pub(super) fn remove_names_left(&self) {
        if let Some(place) = &self.kernel.spill {
            let _ = place.remove_name();
        }
    }

    pub(super) fn start_housekeeping(self: &Arc<Self>) -> Result<()> {
        if self.mode == EnvMode::Transactional && self.config.background && self.directory.is_some() {
            self.keeper.start(self)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sablecat_os::disk::{Disk, How};
    use sablecat_os::sim::{Fault, SimDisk, Survival};

    use super::*;
    use crate::env::databases::Asked;
    use crate::pages::volume::COPIES_AT;
    use crate::txn::{Durability, RecordChange};
    use crate::types::Berth;

    const DIRECTORY: &str = "env";
    const RECORDS: u32 = 2000;
    /// At how many moments an opening is cut short.
    const CUTS: u64 = 30;

    fn config(disk: &SimDisk) -> Config {
        Config {
            disk: Arc::new(disk.clone()),
            background: false,
            page_size: Some(512),
            cache_bytes: Some(0),
            ..Config::default()
        }
    }

    fn open_on(disk: &SimDisk) -> Result<Arc<Core>> {
        open(Path::new(DIRECTORY), config(disk), EnvMode::Transactional)
    }

    fn file(disk: &SimDisk) -> Arc<dyn File> {
        disk.open(&Path::new(DIRECTORY).join(VOLUME), How::default()).unwrap()
    }

    /// What is in both copies of a berth.
    fn copies(disk: &SimDisk, berth: Berth) -> [Vec<u8>; 2] {
        COPIES_AT[berth.index()].map(|at| {
            let mut bytes = vec![0; 4096];
            file(disk).read_at(&mut bytes, at).unwrap();
            bytes
        })
    }

    fn put(disk: &SimDisk, at: u64, bytes: &[u8]) {
        file(disk).write_at(bytes, at).unwrap();
        file(disk).sync().unwrap();
    }

    /// A disk with more than the cache holds, changed and changed again between two checkpoints, the second
    /// of which is the last; where its superblock is, and what was there before.
    fn with_two_checkpoints() -> (SimDisk, Berth, [Vec<u8>; 2]) {
        let disk = SimDisk::new(1);
        let core = open_on(&disk).unwrap();
        let records = core.database_or_new("records", Asked::default()).unwrap();
        let change = |stamp: u8| {
            for n in 0..RECORDS {
                core.kernel
                    .change_one(
                        &records.tree,
                        &n.to_be_bytes(),
                        RecordChange::Put(&[stamp; 100]),
                        Durability::NoSync,
                    )
                    .unwrap();
            }
        };
        change(1);
        core.checkpoint(false).unwrap();
        let berth = Berth::usual(core.kernel.pages.volume().unwrap().generation() + 1);
        let before = copies(&disk, berth);
        change(2);
        core.checkpoint(false).unwrap();
        change(3);
        core.sync().unwrap();
        (disk.crash_as(Survival::Nothing, 1), berth, before)
    }

    /// Of the last superblock one copy is there, or none can be read: in one opening, which is cut short, and
    /// not in the next.
    #[test]
    fn a_superblock_that_cannot_be_read_for_a_moment_is_not_believed_after_others_have_been_built_upon() {
        let (whole, berth, before) = with_two_checkpoints();
        let [first, second] = COPIES_AT[berth.index()];
        let last = copies(&whole, berth);
        let begun = || {
            let disk = whole.crash_as(Survival::Everything, 1);
            put(&disk, second, &before[1]);
            disk
        };
        // Which call of an opening is the one that reads the first copy.
        let is_it = |call: &u64| {
            let disk = begun();
            disk.fail_at(disk.calls() + call, Fault::Error(std::io::ErrorKind::Other));
            let says = |core: Arc<Core>| {
                core.kernel
                    .pages
                    .volume()
                    .unwrap()
                    .complaints()
                    .iter()
                    .any(|one| one.contains(&format!("byte {first}:")))
            };
            open_on(&disk).is_ok_and(says)
        };
        let unreadable = (1..100).find(is_it).unwrap();
        for in_doubt in [false, true] {
            let calls = {
                let disk = begun();
                let before = disk.calls();
                drop(open_on(&disk).unwrap());
                disk.calls() - before
            };
            for cut in (1..=CUTS).map(|n| n * calls / CUTS) {
                let disk = begun();
                if in_doubt {
                    [first, second].into_iter().for_each(|at| put(&disk, at, &[0xa5; 4096]));
                } else {
                    disk.fail_at(disk.calls() + unreadable, Fault::Error(std::io::ErrorKind::Other));
                }
                disk.crash_at(disk.calls() + cut);
                let opened = open_on(&disk);
                if let Ok(core) = &opened {
                    assert_eq!(core.recovery.doubt, in_doubt);
                }
                drop(opened);
                disk.clear_faults();
                let disk = disk.crash_as(Survival::Nothing, cut);
                if in_doubt && copies(&disk, berth) == [[0xa5; 4096]; 2] {
                    put(&disk, first, &last[0]);
                }
                let core = open_on(&disk)
                    .unwrap_or_else(|error| panic!("in doubt: {in_doubt}, cut at {cut}: {error}"));
                let records = core.database("records").unwrap().unwrap();
                for n in 0..RECORDS {
                    let value = core.kernel.get_one(&records.tree, &n.to_be_bytes()).unwrap();
                    assert_eq!(value, Some(vec![3; 100]), "in doubt: {in_doubt}, cut at {cut}");
                }
            }
        }
    }
}
