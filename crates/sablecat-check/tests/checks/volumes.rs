//! Power failures while volumes are added to an environment that has been in use. All other checks have
//! volumes in some of their settings.

#![allow(clippy::unwrap_used, reason = "an error is a failed test")]

use sablecat::{Builder, Env, ErrorKind, Place};
use sablecat_check::setting::{DIRECTORY, Setting};
use sablecat_os::disk::Disk;
use sablecat_os::sim::{SimDisk, Survival};

const RECORDS: u32 = 60;

/// A disk with an environment without volumes that was closed, or was not; and a directory beside it.
fn used(closed: bool) -> SimDisk {
    let disk = SimDisk::new(1);
    disk.create_dir_all("/elsewhere".as_ref()).unwrap();
    disk.sync_dir("/".as_ref()).unwrap();
    let env = builder(&disk).open(DIRECTORY).unwrap();
    put(&env, "before");
    if closed {
        env.close().unwrap();
        return disk;
    }
    env.sync().unwrap();
    disk.crash_as(Survival::Everything, 1)
}

fn builder(disk: &SimDisk) -> Builder {
    Setting::small(512, sablecat::Durability::Sync).builder_on(disk)
}

fn adding(disk: &SimDisk) -> Builder {
    let builder = builder(disk).volume("one", "/elsewhere/one.db").volume("two", "two.db");
    builder.place(Place::database("after"), "one").place(Place::keys("after", "00"), "two")
}

fn put(env: &Env, name: &str) {
    let database = env.database(name).unwrap();
    (0..RECORDS).for_each(|n| database.insert(format!("{n:04}"), name).unwrap());
}

/// How many records there are, all of which must be good.
fn check(env: &Env, name: &str) -> usize {
    assert_eq!(env.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
    let Some(database) = env.existing_database(name).unwrap() else { return 0 };
    database.range(..).unwrap().map(|record| assert_eq!(record.unwrap().1, name.as_bytes())).count()
}

#[test]
fn power_may_fail_after_any_call_of_adding_volumes_to_an_environment() {
    for closed in [true, false] {
        let before = used(closed);
        let whole = before.crash_as(Survival::Everything, 1);
        let env = adding(&whole).open(DIRECTORY).unwrap();
        let opened = whole.calls();
        put(&env, "after");
        env.close().unwrap();
        for call in (0..opened).chain((opened..whole.calls()).step_by(9)) {
            let disk = before.crash_as(Survival::Everything, 1);
            disk.crash_at(call);
            // Every insert is durable when it returns.
            let mut said = 0;
            if let Ok(env) = adding(&disk).open(DIRECTORY)
                && let Ok(database) = env.database("after")
            {
                while said < RECORDS && database.insert(format!("{said:04}"), "after").is_ok() {
                    said += 1;
                }
            }
            for survival in Survival::ALL {
                let what = format!("closed: {closed}, call {call}, {survival:?}");
                // A process that does not know of the volumes finds what there is; one that does goes on.
                let found = disk.crash_as(survival, call);
                let env = builder(&found).open(DIRECTORY).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(check(&env, "before"), RECORDS as usize, "{what}");
                let there = check(&env, "after");
                assert!(
                    (said as usize..=said as usize + 1).contains(&there),
                    "{what}: {there} records, {said} were said to be there"
                );
                env.close().unwrap_or_else(|error| panic!("{what}: {error}"));
                let env =
                    adding(&found).open(DIRECTORY).unwrap_or_else(|error| panic!("{what}, again: {error}"));
                put(&env, "after");
                assert_eq!(
                    (check(&env, "before"), check(&env, "after")),
                    (RECORDS as usize, RECORDS as usize),
                    "{what}, again"
                );
                assert_eq!(env.stats().unwrap().volumes.len(), 3);
                env.close().unwrap();
            }
        }
    }
}

/// Adding is the superblock's: files that were made before it, and are not named by it, belong to nobody.
#[test]
fn a_volume_that_was_left_over_is_used_and_anything_else_is_not() {
    let disk = used(true);
    // Fails where the second is to be made, when the first has been.
    disk.create_dir_all(&std::path::Path::new(DIRECTORY).join("two.db")).unwrap();
    let error = adding(&disk).open(DIRECTORY).expect_err("a directory is in the way");
    assert!(matches!(error.kind(), ErrorKind::Exists | ErrorKind::Io), "{error}");
    assert!(disk.exists("/elsewhere/one.db".as_ref()).unwrap());
    assert_eq!(builder(&disk).open(DIRECTORY).unwrap().stats().unwrap().volumes.len(), 1);
    let stranger =
        || builder(&disk).volume("one", "/elsewhere/one.db").open("/stranger").expect_err("it is another's");
    assert_eq!(stranger().kind(), ErrorKind::Exists);
    let env = builder(&disk)
        .volume("other", "/elsewhere/one.db")
        .place(Place::database("after"), "other")
        .open(DIRECTORY)
        .unwrap();
    put(&env, "after");
    env.close().unwrap();
    assert_eq!(stranger().kind(), ErrorKind::Exists);
}
