//! Lookups while checkpoints reuse the map under them.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use sablecat_os::disk::{File, How, Window};

use super::*;

/// What happens once before the next read, outside of every lock.
type Hook = Box<dyn FnOnce() + Send>;

/// A disk whose reads can be interrupted.
#[derive(Clone)]
struct Interrupted {
    disk: Arc<dyn Disk>,
    hook: Arc<Mutex<Option<Hook>>>,
}

struct InterruptedFile {
    file: Arc<dyn File>,
    hook: Arc<Mutex<Option<Hook>>>,
}

impl std::fmt::Debug for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.disk.fmt(f)
    }
}

impl std::fmt::Debug for InterruptedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.file.fmt(f)
    }
}

impl Disk for Interrupted {
    fn open(&self, path: &Path, how: How) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(InterruptedFile { file: self.disk.open(path, how)?, hook: Arc::clone(&self.hook) }))
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir_all(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }
    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.disk.free_bytes(dir)
    }
}

impl File for InterruptedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let hook = self.hook.lock().expect("no panic").take();
        if let Some(hook) = hook {
            hook();
        }
        self.file.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(buf, offset)
    }
    fn write_all_at(&self, bufs: &[&[u8]], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bufs, offset)
    }
    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn preallocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.preallocate(offset, len)
    }
    fn try_lock(&self) -> io::Result<bool> {
        self.file.try_lock()
    }
    fn window(&self, offset: u64, len: usize) -> io::Result<Box<dyn Window>> {
        self.file.window(offset, len)
    }
    fn is_direct(&self) -> bool {
        self.file.is_direct()
    }
}

#[test]
fn a_lookup_whose_map_blocks_are_reused_under_it_looks_again() {
    let disk = Interrupted { disk: Arc::new(disk(1)), hook: Arc::default() };
    let store = Arc::new(Store::create(&disk, 512).expect("no faults"));
    for generation in 1..30 {
        store.checkpoint(&(1..300).map(|page| (page, Some(generation))).collect()).expect("no faults");
        // Between the lookup's look at the root and its read, three checkpoints go by: every block of its map is something else.
        let interrupting = Arc::clone(&store);
        let hook = move || {
            for stamp in 100..103 {
                let changes = (1..300).map(|page| (page, Some(stamp + generation))).collect();
                interrupting.checkpoint(&changes).expect("no faults");
            }
        };
        *disk.hook.lock().expect("no panic") = Some(Box::new(hook));
        let (first, entries) = store.volume.lookup_leaf(PageId(77)).expect("the map is whole at all times");
        assert_eq!(first, PageId(56));
        let mut bytes = [0; 512];
        store.volume.read_block(entries[77 - 56], &mut bytes).expect("no damage");
        assert_eq!(bytes[4..], image(512, 77, 102 + generation)[4..], "the newest generation's page");
    }
}

#[test]
fn lookups_beside_checkpoints_see_one_generation_or_the_next() {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    let disk = disk(1);
    let store = Store::create(&disk, 512).expect("no faults");
    store.checkpoint(&(1..2000).map(|page| (page, Some(0))).collect()).expect("no faults");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (store, done) = (&store, &done);
        for n in 0..2 {
            scope.spawn(move || {
                let mut page = n;
                while !done.load(Relaxed) {
                    page = (page * 7 + 13) % 1999 + 1;
                    let (first, entries) = store.volume.lookup_leaf(PageId(page)).expect("never damaged");
                    assert_ne!(entries[(page - first.0) as usize], BlockId::NONE);
                }
            });
        }
        for stamp in 1..60 {
            store.checkpoint(&(1..2000).step_by(stamp).map(|page| (page, Some(stamp as u64))).collect()).expect("no faults");
        }
        done.store(true, Relaxed);
    });
}

#[test]
fn a_volume_on_the_machines_own_disk_direct_or_not() {
    let directory: PathBuf = std::env::temp_dir().join(format!("sablecat-volume-{}", std::process::id()));
    let path = directory.join("sablecat.db");
    let host = sablecat_os::disk::HostDisk;
    host.create_dir_all(&directory).expect("a temporary directory");
    for (page_size, direct) in [(512, false), (512, true), (4096, false), (4096, true), (65536, true)] {
        let volume = Volume::create(&host, &path, page_size, UUID, direct).expect("a new volume");
        assert!(page_size >= 4096 || !volume.file().is_direct());
        let store = Store::over(volume).expect("room");
        let changes: Changes = (1..300).map(|page| (page, Some(7))).collect();
        store.checkpoint(&changes).expect("room on the disk");
        let model = after(&Model::new(), &changes);
        store.assert_is(&model);
        drop(store);
        let store = Store::over(Volume::open(&host, &path, direct, false).expect("it is there")).expect("room");
        store.assert_is(&model);
        store.learn_free().expect("no damage");
        store.checkpoint(&changes.keys().map(|&page| (page, None)).collect()).expect("room on the disk");
        store.volume.give_back_tail(&store.blocks, false).expect("no faults");
        drop(store);
        Volume::open(&host, &path, direct, true).expect("it is there, for reading");
    }
    for name in host.list(&directory).expect("it is there") {
        host.remove(&directory.join(name)).expect("a file");
    }
    std::fs::remove_dir(&directory).expect("empty");
}
