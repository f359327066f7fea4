//! Sequences that processes share, which are killed at any moment: no number is handed out twice, also if
//! nothing is left of all of them but what is in the files.
//!
//! The workers are this test program itself, started again with `SABLECAT_TEST_DIR` set, so that it runs
//! [`worker`] alone. What is committed in memory alone is gone with the region; numbers are not.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use sablecat::{Durability, Env, SequenceOptions};
use sablecat_tests::Place;
use sablecat_tests::dice::Dice;
use sablecat_tests::worker::{DIRECTORY, Worker};

/// Long for anything that is to happen.
const PATIENCE: Duration = Duration::from_secs(600);

fn given_in(base: &Path) -> std::path::PathBuf {
    base.join("given")
}

/// Writes down each number as soon as it has it.
#[test]
#[ignore = "the workers of the test below"]
fn worker() {
    let Some(path) = std::env::var_os(DIRECTORY) else { return };
    let (path, id) = (Path::new(&path), std::process::id());
    let base = path.parent().unwrap();
    let env = Env::builder()
        .shared(true)
        .cache_size(1 << 20)
        .durability(Durability::Memory)
        .region_directory(base.join("region"))
        .open(path)
        .unwrap();
    let meta = env.database("meta").unwrap();
    let mut dice = Dice(id.into());
    let handles = [1, 3, 10].map(|cache| meta.sequence("s", SequenceOptions::new().cache(cache)).unwrap());
    let options = File::options().create(true).append(true).clone();
    let mut given = options.open(given_in(base).join(id.to_string())).unwrap();
    loop {
        let handle = dice.of(&[0, 1, 2]);
        let (first, last) = match dice.below(5) {
            0 => handles[handle].next_block(1 + dice.below(4)).unwrap(),
            _ => handles[handle].next().map(|number| (number, number)).unwrap(),
        };
        let numbers: Vec<u8> = (first..=last).flat_map(i64::to_le_bytes).collect();
        given.write_all(&numbers).unwrap();
        // Others' commits, which wait for no disk.
        meta.insert(id.to_le_bytes(), first.to_le_bytes()).unwrap();
    }
}

/// All numbers that are known to have been handed out. What one was killed at half way nobody has seen.
fn given(base: &Path) -> Vec<i64> {
    let files = fs::read_dir(given_in(base)).unwrap();
    let bytes = files.map(|file| fs::read(file.unwrap().path()).unwrap());
    bytes
        .flat_map(|bytes| {
            let numbers = bytes.chunks_exact(8).map(|number| i64::from_le_bytes(number.try_into().unwrap()));
            numbers.collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn no_number_comes_twice_from_processes_that_are_killed() {
    let place = Place::new("sequences");
    fs::create_dir(given_in(&place.base)).unwrap();
    let rounds = std::env::var("SABLECAT_TEST_KILLS").map_or(12, |kills| kills.parse().unwrap());
    let mut dice = Dice(1);
    for round in 0..rounds {
        let mut workers: Vec<_> = (0..3).map(|_| Worker::start(worker, &place.env())).collect();
        for victim in 0..3 {
            let (before, begun) = (given(&place.base).len(), Instant::now());
            while given(&place.base).len() < before + 20 {
                assert!(begun.elapsed() < PATIENCE, "they work");
                workers.iter_mut().for_each(Worker::assert_works);
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(Duration::from_micros(dice.below(10_000)));
            // The others go on, or at last nobody is left.
            if victim < 2 {
                workers.remove(0);
            }
        }
        drop(workers);
        if round % 2 == 0 {
            fs::remove_file(place.region()).unwrap();
        }
        let mut seen = HashSet::new();
        for number in given(&place.base) {
            assert!(seen.insert(number), "{number} was handed out twice, by round {round}");
        }
    }
}
