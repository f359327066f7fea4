//! Environments that are held in memory, and files that are where nobody expects them: left there, of
//! another, under two names, of another owner, used in between without the memory.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use sablecat::{Builder, Env, ErrorKind, Journal};
use sablecat_tests::{Place, copy, get, put};

fn memory(place: &Place) -> PathBuf {
    place.base.join("memory")
}

fn image(place: &Place) -> PathBuf {
    place.env().join("sablecat.db")
}

fn name(place: &Place) -> PathBuf {
    place.env().join("sablecat.memory")
}

fn held(place: &Place) -> Builder {
    place.builder().held_in(memory(place))
}

/// That it is refused, saying why.
fn refused(builder: Builder, path: &Path, why: &str) {
    let error = builder.open(path).map(drop).expect_err(why);
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains(why), "{error}");
}

/// What an environment on the disk has is newer than what was left in the memory in which it once was.
#[test]
fn what_was_left_in_the_memory_is_not_gone_on_with_in_the_place_of_what_is_put_there() {
    let place = Place::new("held-left");
    let env = held(&place).open(place.env()).unwrap();
    put(&env, "flushed");
    env.flush_image().unwrap();
    env.close().unwrap();
    // Its checkpoints are more than those of the image.
    (0..6).for_each(|_| put(&place.open().unwrap(), "left in memory"));
    fs::remove_file(name(&place)).unwrap();
    let env = place.open().unwrap();
    put(&env, "on the disk");
    env.close().unwrap();
    refused(held(&place), &place.env(), "has files of an environment");
    assert!(!name(&place).exists());
    let env = place.open().unwrap();
    assert_eq!(get(&env).unwrap(), b"on the disk");
    env.close().unwrap();
    fs::remove_dir_all(memory(&place)).unwrap();
    assert_eq!(get(&held(&place).open(place.env()).unwrap()).unwrap(), b"on the disk");
}

/// Nor is the environment of no use any more, since it is to be where another one is.
#[test]
fn a_memory_that_another_has_is_refused_before_anything_is_changed() {
    let [place, other] = ["held-had", "held-has"].map(Place::new);
    let env = held(&other).open(other.env()).unwrap();
    put(&env, "other");
    let env = place.open().unwrap();
    put(&env, "one");
    env.close().unwrap();
    refused(place.builder().held_in(memory(&other)), &place.env(), "has files of an environment");
    let log = memory(&place).join("log");
    fs::create_dir_all(&log).unwrap();
    fs::write(log.join("0000000000000000.log"), "x").unwrap();
    refused(held(&place), &place.env(), "has files of an environment");
    // A directory that cannot be made.
    fs::write(place.base.join("file"), "x").unwrap();
    place.builder().held_in(place.base.join("file/memory")).open(place.env()).map(drop).unwrap_err();
    assert_eq!(get(&place.open().unwrap()).unwrap(), b"one");
    let fresh = Place::new("held-fresh");
    refused(fresh.builder().held_in(memory(&other)), &fresh.env(), "has files of an environment");
    assert_eq!(get(&fresh.builder().held_in(memory(&fresh)).open(fresh.env()).unwrap()), None);
}

/// By whatever path: an image would take the place of the volume that it was made of.
#[test]
fn an_environment_is_not_held_in_its_own_directory() {
    let place = Place::new("held-itself");
    put(&place.open().unwrap(), "there");
    let link = place.base.join("link");
    symlink(place.env(), &link).unwrap();
    for memory in [link.clone(), place.env().join("../env"), place.env().join(".")] {
        refused(place.builder().held_in(&memory), &place.env(), "which is the directory for its image");
        assert!(!name(&place).exists());
    }
    // Later on.
    let env = held(&place).open(place.env()).unwrap();
    put(&env, "in memory");
    env.flush_image().unwrap();
    env.close().unwrap();
    let aside = place.base.join("aside");
    fs::rename(memory(&place), &aside).unwrap();
    symlink(place.env(), memory(&place)).unwrap();
    for read_only in [false, true] {
        let builder = if read_only { Env::builder().read_only(true) } else { place.builder() };
        refused(builder, &place.env(), "which is the directory for its image");
    }
    fs::remove_file(memory(&place)).unwrap();
    fs::rename(&aside, memory(&place)).unwrap();
    assert_eq!(get(&place.open().unwrap()).unwrap(), b"in memory");
}

#[test]
fn who_only_reads_is_not_shown_another_environment() {
    let [place, other] = ["held-read", "held-foreign"].map(Place::new);
    for (place, value) in [(&place, "one"), (&other, "other")] {
        let env = held(place).open(place.env()).unwrap();
        put(&env, value);
        env.flush_image().unwrap();
        env.close().unwrap();
    }
    let read = || Env::builder().read_only(true);
    assert_eq!(get(&read().open(place.env()).unwrap()).unwrap(), b"one");
    fs::rename(memory(&place), place.base.join("aside")).unwrap();
    assert_eq!(get(&read().open(place.env()).unwrap()).unwrap(), b"one");
    fs::rename(image(&place), place.base.join("own")).unwrap();
    fs::copy(image(&other), image(&place)).unwrap();
    refused(read(), &place.env(), "another environment");
    fs::rename(place.base.join("own"), image(&place)).unwrap();
    copy(&memory(&other), &memory(&place));
    refused(read(), &place.env(), "another environment");
}

/// It was used on the disk in between, and has more there than an image can have.
#[test]
fn an_image_with_a_journal_or_other_volumes_is_refused() {
    for is_journal in [false, true] {
        let place = Place::new("held-more");
        let env = held(&place).open(place.env()).unwrap();
        put(&env, "flushed");
        env.flush_image().unwrap();
        env.close().unwrap();
        let aside = place.base.join("aside");
        fs::rename(name(&place), &aside).unwrap();
        let more = if is_journal {
            place.builder().journal(Journal::new())
        } else {
            place.builder().volume("other", "other.db")
        };
        more.open(place.env()).unwrap().close().unwrap();
        fs::rename(&aside, name(&place)).unwrap();
        // Beside files that are there, and to be loaded.
        fs::rename(memory(&place), place.base.join("files")).unwrap();
        refused(place.builder(), &place.env(), "keeps a journal, or has other volumes");
        copy(&place.base.join("files"), &memory(&place));
        refused(place.builder(), &place.env(), "keeps a journal, or has other volumes");
    }
}

/// Another machine, or another container, which has a memory of its own, loads the same image and goes on
/// from there. What it was told is in its image stays there, also from who has made more checkpoints since.
#[test]
fn an_image_that_others_made_is_not_replaced() {
    let place = Place::new("held-machines");
    let env = held(&place).open(place.env()).unwrap();
    put(&env, "both");
    env.flush_image().unwrap();
    put(&env, "here");
    env.close().unwrap();
    (0..5).for_each(|_| put(&place.open().unwrap(), "here"));
    let aside = place.base.join("aside");
    fs::rename(memory(&place), &aside).unwrap();
    let env = place.open().unwrap();
    assert_eq!(get(&env).unwrap(), b"both");
    put(&env, "there");
    env.flush_image().unwrap();
    put(&env, "there again");
    env.flush_image().unwrap();
    env.close().unwrap();
    fs::remove_dir_all(memory(&place)).unwrap();
    fs::rename(&aside, memory(&place)).unwrap();
    let others = fs::read(image(&place)).unwrap();
    let env = place.open().unwrap();
    assert_eq!(get(&env).unwrap(), b"here");
    let error = env.flush_image().unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("move it away"), "{error}");
    assert_eq!(fs::read(image(&place)).unwrap(), others);
    fs::rename(image(&place), place.base.join("others")).unwrap();
    env.flush_image().unwrap();
    env.flush_image().unwrap();
    put(&env, "here again");
    env.flush_image().unwrap();
}

/// That nothing was committed since does not make it whole.
#[test]
fn an_image_that_was_cut_short_is_replaced_though_nothing_was_committed_since() {
    let place = Place::new("held-short");
    let env = held(&place).open(place.env()).unwrap();
    put(&env, "flushed");
    env.flush_image().unwrap();
    let whole = fs::read(image(&place)).unwrap();
    fs::write(image(&place), &whole[..whole.len() - 1]).unwrap();
    assert!(env.flush_image().unwrap().bytes > 0);
    env.close().unwrap();
    fs::remove_dir_all(memory(&place)).unwrap();
    assert_eq!(get(&place.open().unwrap()).unwrap(), b"flushed");
}

/// Who has files open that are gone is told so, also if it has committed nothing since its last image: what
/// others commit to the files that are there is in none that it makes.
#[test]
fn an_image_is_not_said_to_have_what_others_have() {
    let place = Place::new("held-others");
    let env = held(&place).open(place.env()).unwrap();
    put(&env, "flushed");
    env.flush_image().unwrap();
    env.fail_if_poisoned().unwrap();
    assert_eq!(env.flush_image().unwrap().bytes, 0);
    fs::remove_dir_all(memory(&place)).unwrap();
    let loaded = place.open().unwrap();
    put(&loaded, "loaded");
    assert_eq!(env.fail_if_poisoned().unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(env.flush_image().unwrap_err().kind(), ErrorKind::Poisoned);
    loaded.fail_if_poisoned().unwrap();
    assert!(loaded.flush_image().unwrap().bytes > 0);
}

/// What a killed process left of an image is another's, is no file that may be written, or leads elsewhere.
#[test]
fn what_is_left_of_an_unfinished_image_is_in_nobodys_way() {
    let place = Place::new("held-unfinished");
    let env = held(&place).file_mode(0o600).open(place.env()).unwrap();
    put(&env, "1");
    let (unfinished, victim) = (place.env().join("sablecat.db.unfinished"), place.base.join("victim"));
    fs::write(&unfinished, "left").unwrap();
    fs::set_permissions(&unfinished, fs::Permissions::from_mode(0o666)).unwrap();
    env.flush_image().unwrap();
    assert_eq!(fs::metadata(image(&place)).unwrap().permissions().mode() & 0o777, 0o600);
    put(&env, "2");
    fs::write(&victim, "as it was").unwrap();
    symlink(&victim, &unfinished).unwrap();
    env.flush_image().unwrap();
    assert_eq!(fs::read(&victim).unwrap(), b"as it was");
    env.close().unwrap();
    fs::remove_dir_all(memory(&place)).unwrap();
    assert_eq!(get(&place.open().unwrap()).unwrap(), b"2");
}

/// Who may give files away has made an image of an environment of somebody else, who could not open it any
/// more. Without that right there is nothing to test.
#[test]
fn an_image_stays_its_owners_whoever_makes_it() {
    let place = Place::new("held-owned");
    let env = held(&place).file_mode(0o600).open(place.env()).unwrap();
    put(&env, "1");
    let owner = Some(65534);
    if chown(image(&place), owner, owner).is_err() {
        eprintln!("skipped: files may not be given away here");
        return;
    }
    env.flush_image().unwrap();
    let found = fs::metadata(image(&place)).unwrap();
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o777), (65534, 65534, 0o600));
    env.close().unwrap();
    // And what is loaded of it.
    fs::remove_dir_all(memory(&place)).unwrap();
    drop(place.open().unwrap());
    let found = fs::metadata(memory(&place).join("sablecat.db")).unwrap();
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o777), (65534, 65534, 0o600));
}
