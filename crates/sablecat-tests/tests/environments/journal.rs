//! Journals, epochs, and going back, on the machine's own disk: what is kept, what is refused, and who may
//! share it.

use std::fs;
use std::path::PathBuf;

use sablecat::{Builder, Env, ErrorKind, Journal, Lsn, Target};

/// A directory for an environment, and one for its region; removed when dropped.
struct Place {
    base: PathBuf,
}

impl Place {
    fn new(name: &str) -> Place {
        let base = PathBuf::from("/dev/shm").join(format!("sablecat-journal-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&base);
        fs::create_dir_all(base.join("region")).expect("made");
        Place { base }
    }

    fn directory(&self) -> PathBuf {
        self.base.join("env")
    }

    fn builder(&self) -> Builder {
        let builder = Env::builder()
            .background(false)
            .cache_size(1 << 20)
            .log_buffer_size(1 << 16)
            .log_segment_size(1 << 16);
        builder.region_directory(self.base.join("region"))
    }

    /// Opens it, puts values of 1000 bytes under some keys, and closes it.
    fn put(&self, builder: Builder, keys: std::ops::Range<u32>, byte: u8) {
        let env = builder.open(self.directory()).expect("opened");
        let database = env.database("d").expect("made");
        keys.for_each(|key| database.insert(key.to_be_bytes(), [byte; 1000]).expect("inserted"));
        drop(database);
        env.close().expect("closed");
    }

    fn get(&self, key: u32) -> Option<u8> {
        let env = self.builder().open(self.directory()).expect("opened");
        let value = env.database("d").expect("made").get(key.to_be_bytes()).expect("read");
        value.map(|value| value[0])
    }

    fn journals(&self) -> usize {
        fs::read_dir(self.directory().join("journal")).map_or(0, Iterator::count)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.base);
    }
}

#[test]
fn a_journal_stays_on_whoever_opens_the_environment_and_leaves_no_trace_of_who_only_looks() {
    let place = Place::new("stays");
    place.put(place.builder().journal(Journal::new()), 0..10, 1);
    place.put(place.builder(), 0..10, 2);
    let kept = |place: &Place| {
        let history = place.builder().history(place.directory()).expect("read");
        (history.journal, history.epochs.len(), history.files)
    };
    let before = kept(&place);
    assert_eq!(before.0, Some(Journal::new()));
    assert!(before.1 >= 2 && before.2.iter().all(|file| file.archived.is_some()), "{before:?}");
    for _ in 0..5 {
        assert_eq!(place.get(3), Some(2));
    }
    let after = kept(&place);
    // The state that was in force when the first of them came is retained, once.
    assert!(after.1 <= before.1 + 1 && after.2 == before.2, "{before:?}, {after:?}");
}

#[test]
fn what_is_kept_of_the_log_has_a_limit_but_for_what_epochs_need() {
    let place = Place::new("limits");
    place.put(place.builder().journal(Journal::new().keep_bytes(1).epochs(32)), 0..300, 1);
    let env = place.builder().open(place.directory()).expect("opened");
    env.checkpoint().expect("written");
    env.close().expect("closed");
    assert!(place.journals() >= 4, "the oldest epoch needs all of it");
    place.put(place.builder().journal(Journal::new().keep_bytes(1).epochs(0)), 0..1, 1);
    let env = place.builder().open(place.directory()).expect("opened");
    env.checkpoint().expect("written");
    env.close().expect("closed");
    assert!(place.journals() <= 2, "{} journals", place.journals());
}

#[test]
fn epochs_hold_blocks_until_they_are_let_go() {
    let place = Place::new("blocks");
    place.put(place.builder().journal(Journal::new()), 0..500, 1);
    let blocks = |place: &Place, builder: Builder| {
        let env = builder.open(place.directory()).expect("opened");
        let database = env.database("d").expect("made");
        (0..500u32).for_each(|key| database.insert(key.to_be_bytes(), [2; 1000]).expect("inserted"));
        env.checkpoint().expect("written");
        let blocks = env.stats().expect("read").blocks;
        assert_eq!(env.verify(&mut |_| {}).expect("looked").problems, Vec::<String>::new());
        blocks
    };
    let held = blocks(&place, place.builder());
    let freed = blocks(&place, place.builder().no_journal());
    assert!(held > freed + 100, "{held} blocks with epochs, {freed} without");
}

#[test]
fn a_journal_does_not_go_on_with_that_of_another_time() {
    let place = Place::new("again");
    place.put(place.builder().journal(Journal::new()), 0..10, 1);
    place.put(place.builder().no_journal().log_segment_size(1 << 20), 0..10, 2);
    let refused = place.builder().journal(Journal::new()).open(place.directory()).expect_err("there is one");
    assert!(
        refused.kind() == ErrorKind::Exists
            && refused.to_string().contains(".journal belongs to an earlier journal"),
        "{refused}"
    );
    assert_eq!(place.get(3), Some(2));
    place.put(place.builder().journal(Journal::new().directory("journal.2")), 0..10, 3);
    place.put(place.builder(), 0..10, 4);
    let lsn = place.builder().history(place.directory()).expect("read").epochs[1].lsn;
    place
        .builder()
        .recovery(place.directory(), Target::Lsn(lsn))
        .and_then(|recovery| recovery.apply())
        .expect("gone back");
    assert_eq!(place.get(3), Some(3));
}

#[test]
fn what_cannot_be_is_refused() {
    let place = Place::new("refused");
    let refusal = |outcome: sablecat::Result<()>| outcome.expect_err("refused").kind();
    let open = |journal: Journal| place.builder().journal(journal).open(place.directory()).map(drop);
    assert_eq!(refusal(open(Journal::new().directory(""))), ErrorKind::Invalid);
    assert_eq!(refusal(open(Journal::new().epochs(33))), ErrorKind::Invalid);
    assert_eq!(
        refusal(place.builder().recovery(place.directory(), Target::Lsn(Lsn(0))).map(drop)),
        ErrorKind::NotFound
    );
    assert_eq!(refusal(place.builder().history(place.directory()).map(drop)), ErrorKind::NotFound);
    assert_eq!(refusal(Env::builder().journal(Journal::new()).in_memory().map(drop)), ErrorKind::Invalid);
    place.put(place.builder(), 0..1, 1);
    assert_eq!(
        refusal(place.builder().recovery(place.directory(), Target::Lsn(Lsn(0))).map(drop)),
        ErrorKind::Invalid
    );
    place.put(place.builder().journal(Journal::new()), 0..1, 1);
    // A Data Store has no log, so nothing could be rolled forward over what it does.
    assert_eq!(refusal(place.builder().open_data_store(place.directory()).map(drop)), ErrorKind::Invalid);
    let env = place.builder().open(place.directory()).expect("opened");
    assert_eq!(
        refusal(place.builder().recovery(place.directory(), Target::Lsn(Lsn(0))).map(drop)),
        ErrorKind::InUse
    );
    drop(env);
    let held = place
        .builder()
        .recovery(place.directory(), Target::Time(std::time::SystemTime::now().into()))
        .expect("prepared");
    assert_eq!(refusal(place.builder().open(place.directory()).map(drop)), ErrorKind::InUse);
    drop(held);
    drop(place.builder().open(place.directory()).expect("opened"));
}

#[test]
fn all_who_share_an_environment_keep_the_same_journal() {
    let place = Place::new("shared");
    let shared = || place.builder().shared(true);
    let first = shared().journal(Journal::new().epochs(5)).open(place.directory()).expect("opened");
    first.database("d").and_then(|d| d.insert(b"k", b"v")).expect("inserted");
    drop(shared().open(place.directory()).expect("as it is"));
    drop(shared().journal(Journal::new().epochs(5)).open(place.directory()).expect("the same"));
    for other in [shared().no_journal(), shared().journal(Journal::new().epochs(6))] {
        let refused = other.open(place.directory()).expect_err("another");
        assert_eq!(refused.kind(), ErrorKind::InUse, "{refused}");
    }
    first.close().expect("closed");
    drop(shared().no_journal().open(place.directory()).expect("alone, one may change it"));
}

/// A region that killed processes left behind knows nothing of what was done without it.
#[test]
fn a_region_from_before_going_back_is_set_aside() {
    let place = Place::new("region");
    place.put(place.builder().journal(Journal::new()), 0..1, 1);
    let lsn = place
        .builder()
        .history(place.directory())
        .expect("read")
        .epochs
        .last()
        .expect("the last checkpoint")
        .lsn;
    let env = place.builder().shared(true).open(place.directory()).expect("opened");
    env.database("d").and_then(|d| d.insert(0u32.to_be_bytes(), [2; 1000])).expect("inserted");
    env.sync().expect("durable");
    // As killed processes would leave it. Not a copy: it has terabytes of nothing.
    let region = fs::read_dir(place.base.join("region"))
        .expect("there")
        .next()
        .expect("a region")
        .expect("read")
        .path();
    let left = place.base.join("left");
    fs::hard_link(&region, &left).expect("linked");
    env.close().expect("closed");
    let plan = place
        .builder()
        .recovery(place.directory(), Target::Lsn(lsn))
        .and_then(|recovery| recovery.apply())
        .expect("gone back");
    assert_eq!(plan.commits_lost, 1);
    fs::rename(&left, &region).expect("put back");
    let env = place.builder().shared(true).open(place.directory()).expect("opened");
    let value = env.database("d").and_then(|d| d.get(0u32.to_be_bytes())).expect("read");
    assert_eq!(value.map(|value| value[0]), Some(1));
    env.close().expect("closed");
}

#[test]
fn damage_in_what_only_an_epoch_names_is_found_and_says_where() {
    use std::os::unix::fs::FileExt;

    const PAGE: u64 = 512;
    let place = Place::new("epoch-damage");
    let env = place
        .builder()
        .page_size(PAGE as usize)
        .journal(Journal::new().epochs(4))
        .open(place.directory())
        .expect("created");
    let database = env.database("d").expect("made");
    for round in 0..4u8 {
        (0..50u32).for_each(|key| database.insert(key.to_be_bytes(), [round; 200]).expect("inserted"));
        env.checkpoint().expect("written");
    }
    let problems =
        || env.verify(&mut |_| {}).map(|report| (report.problems, report.epochs)).expect("checked");
    assert_eq!(problems(), (vec![], 4));
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(place.directory().join("sablecat.db"))
        .expect("there");
    let (mut pages, mut maps, mut byte) = (0, 0, [0]);
    for at in (131_072 + 99..file.metadata().expect("there").len()).step_by(PAGE as usize) {
        file.read_exact_at(&mut byte, at).expect("read");
        file.write_all_at(&[byte[0] ^ 1], at).expect("written");
        let (found, _) = problems();
        // Every page that the trees consist of is in memory, so what is found is found in an epoch, or in the
        // map in force.
        for problem in &found {
            assert!(problem.contains(&format!("block {} ", at / PAGE)), "{problem}");
            pages += u32::from(problem.starts_with("epoch ") && problem.contains(": page "));
            maps += u32::from(problem.starts_with("epoch ") && problem.contains(": map block "));
        }
        file.write_all_at(&byte, at).expect("written");
    }
    assert!(pages > 60 && maps >= 4, "{pages} pages, {maps} blocks of maps");
    assert_eq!(problems(), (vec![], 4));
}
