//! Queues, keys with several values, records by number, globals, records that expire, sequences and indices,
//! over power failures, calls that fail and full disks: what is there afterwards is what was there after the
//! last operation that succeeded, or after the one that was under way, and indices agree with it.

use std::sync::Arc;

use sablecat::globals::Globals;
use sablecat::{
    Database, Duplicates, Durability, Env, Expiring, Index, IndexOptions, Lifetime, Moment, MultiMap,
    Numbered, OnRemove, Queue, Result, Sequence, SequenceOptions,
};
use sablecat_check::dice::Dice;
use sablecat_os::sim::{Fault, SimDisk};

/// Operations of a run.
const STEPS: usize = 120;

/// The time, which stands still.
const NOW: u64 = 1_000_000;

fn open(disk: &SimDisk, durability: Durability) -> Result<Env> {
    Env::builder()
        .page_size(512)
        .cache_size(0)
        .background(false)
        .log_buffer_size(1 << 16)
        .log_segment_size(1 << 16)
        .durability(durability)
        .clock(|| Moment { ms: NOW })
        .extractor("all", |_, value, keys| keys.push(value))
        .disk(Arc::new(disk.clone()))
        .open("env")
}

struct Kinds {
    jobs: Queue,
    sorted: MultiMap,
    inserted: MultiMap,
    kept: Numbered,
    lines: Numbered,
    globals: Globals,
    leases: Expiring,
    meta: Database,
    numbers: Sequence,
    /// Of people in towns: a town goes with all people in it.
    towns: Database,
    people: Database,
    by_town: Index,
}

/// All that there is, of each kind; of a queue also its last number, which does not come again.
type All = Vec<String>;

impl Kinds {
    fn open(env: &Env) -> Result<Kinds> {
        let (meta, towns, people) = (env.database("meta")?, env.database("towns")?, env.database("people")?);
        let options = IndexOptions::new("all").references(&towns, OnRemove::Cascade);
        Ok(Kinds {
            by_town: env.index("by town", &people, options)?,
            towns,
            people,
            leases: Expiring::open(env, "leases")?,
            numbers: meta.sequence("next", SequenceOptions::new().cache(2))?,
            meta,
            jobs: Queue::open(env, "jobs", 12)?,
            sorted: MultiMap::open(env, "sorted", Duplicates::Sorted)?,
            inserted: MultiMap::open(env, "inserted", Duplicates::Inserted)?,
            kept: Numbered::open(env, "kept")?,
            lines: Numbered::open_renumbered(env, "lines")?,
            globals: Globals::open(env, "globals")?,
        })
    }

    fn all(&self, env: &Env) -> Result<All> {
        let mut all =
            vec![format!("jobs, next {:?}", self.jobs.database().last()?.map(|(number, _)| number))];
        let state = env.snapshot()?;
        let shown = |what: &str, key: &[u8], value: &[u8]| {
            format!("{what} {}: {}", key.escape_ascii(), value.escape_ascii())
        };
        for job in self.jobs.iter(&state)? {
            let (number, job) = job?;
            all.push(shown("job", number.to_string().as_bytes(), &job));
        }
        for (name, map) in [("sorted", &self.sorted), ("inserted", &self.inserted)] {
            for pair in map.range(&state, ..)? {
                let (key, value) = pair?;
                all.push(shown(name, &key, &value));
            }
        }
        for (name, numbered) in [("kept", &self.kept), ("line", &self.lines)] {
            for record in numbered.iter(&state)? {
                let (number, record) = record?;
                all.push(shown(name, number.to_string().as_bytes(), &record));
            }
        }
        // As it is stored: what has expired, and how far sequences are.
        let databases =
            [self.leases.database(), &self.meta, &self.towns, &self.people, self.by_town.database()];
        for database in databases {
            for record in state.range(database, ..)? {
                let (key, value) = record?;
                all.push(shown(database.name(), &key, &value));
            }
        }
        let mut text = Vec::new();
        self.globals.export(&state, &mut text)?;
        // Its second line has the time.
        all.extend(String::from_utf8_lossy(&text).lines().skip(2).map(str::to_owned));
        Ok(all)
    }

    /// One operation, by itself or in a transaction with others.
    fn step(&self, env: &Env, dice: &mut Dice) -> Result<()> {
        let what = dice.below(16);
        let (key, value) =
            (vec![dice.below(3) as u8; dice.index(3)], vec![dice.below(5) as u8; dice.index(40)]);
        let number = 1 + dice.below(30);
        match what {
            0..=2 => self.jobs.append_one(&value[..value.len().min(12)]).map(drop),
            3 | 4 => self.jobs.consume_one().map(drop),
            5 => self.sorted.insert_one(key, value),
            6 => self.inserted.insert_one(key, value),
            7 => env.write(|txn| {
                self.sorted.remove_all(txn, &key)?;
                self.inserted.remove(txn, &key, &value)?;
                self.kept.remove(txn, number).map(drop)
            }),
            8 => env.write(|txn| self.kept.put(txn, number, &value)),
            9 => env.write(|txn| {
                let at = number.min(self.lines.len(txn)? + 1);
                self.lines.insert(txn, at, &value)?;
                if value.len() > 30 { self.lines.remove(txn, 1).map(drop) } else { Ok(()) }
            }),
            10 => env.write(|txn| {
                let node = self.globals.global("a")?.at(number as i64).at(&key[..]);
                node.set(txn, &value)?;
                if value.is_empty() { self.globals.global("a")?.at(3).kill(txn) } else { Ok(()) }
            }),
            11 => {
                let lifetime = [Lifetime::Unlimited, Lifetime::Until(Moment { ms: NOW - 5 + number })];
                let lifetime = lifetime[dice.index(2)];
                env.write(|txn| match value.len() {
                    0..25 => self.leases.insert(txn, &key, &value, lifetime),
                    25..35 => self.leases.touch(txn, &key, lifetime).map(drop),
                    _ => self.leases.remove(txn, &key).map(drop),
                })
            }
            12 => {
                env.sweep()?;
                // It does not wait for the disk itself.
                env.sync()
            }
            13 if number < 15 => self.numbers.next().map(drop),
            13 => env.write(|txn| self.numbers.next_in(txn)).map(drop),
            14 => env.write(|txn| {
                txn.insert(&self.towns, &key, "")?;
                txn.insert(&self.people, number.to_be_bytes(), &key)?;
                if value.len() > 25 { txn.remove(&self.towns, &key).map(drop) } else { Ok(()) }
            }),
            _ if number < 10 => env.checkpoint().map(drop),
            // From one to another, or not at all.
            _ => env.write(|txn| {
                let Some((_, job)) = self.jobs.consume(txn)? else { return Ok(()) };
                self.inserted.insert(txn, "done", &job)?;
                self.lines.append(txn, job)?;
                self.globals.global("done")?.increment(txn, 1).map(drop)
            }),
        }
    }
}

/// Goes on until something fails or all is done: how many operations succeeded, and whether all is done. As
/// long as nothing goes wrong, `after` is told what there is after each.
fn run(disk: &SimDisk, durability: Durability, mut after: impl FnMut(All)) -> (usize, Result<()>) {
    let mut done = 0;
    let mut go = || {
        let env = open(disk, durability)?;
        let kinds = Kinds::open(&env)?;
        after(kinds.all(&env)?);
        let mut dice = Dice::new(7);
        for _ in 0..STEPS {
            kinds.step(&env, &mut dice)?;
            done += 1;
            after(kinds.all(&env)?);
        }
        drop(kinds);
        env.close()
    };
    let ended = go();
    (done, ended)
}

/// What there is after each operation, and how many calls it all takes.
fn undisturbed() -> (Vec<All>, u64) {
    let disk = SimDisk::new(1);
    let mut states = Vec::new();
    run(&disk, Durability::Sync, |all| states.push(all)).1.expect("nothing goes wrong");
    assert_eq!(states.len(), STEPS + 1);
    for name in ["job", "inserted", "line", "leases", "people", "by town"] {
        let is_of = |line: &String| line.starts_with(&format!("{name} "));
        assert!(states.iter().filter(|all| all.iter().any(is_of)).count() > STEPS / 10, "{name}");
    }
    (states, disk.calls())
}

/// What is found on a disk is what there was at some time from the first to the last of some operations on.
fn found(disk: &SimDisk, states: &[All], (first, last): (usize, usize), what: &str) {
    let env = open(disk, Durability::Sync).expect("opened");
    let kinds = Kinds::open(&env).expect("there");
    let all = kinds.all(&env).expect("read");
    let last = last.min(STEPS);
    assert!(
        states[first..=last].contains(&all),
        "{what}: after {last} operations there is\n{all:#?}\nand was\n{:#?}",
        states[last]
    );
    assert_eq!(env.verify(&mut |_| {}).expect("read").problems, [""; 0], "{what}");
    // And all goes on.
    let before = kinds.jobs.append_one("one more").expect("appended");
    let expected = kinds.jobs.len(&env).expect("read");
    assert!(kinds.jobs.get(&env, before).expect("read").is_some() && expected > 0, "{what}");
    kinds.towns.clear().expect("all people go with their towns");
    assert!(kinds.people.is_empty().expect("read") && kinds.by_town.database().is_empty().expect("read"));
}

#[test]
fn a_power_failure_anywhere_loses_nothing_that_was_flushed() {
    let (states, calls) = undisturbed();
    for crash in 0..100 {
        let disk = SimDisk::new(1);
        disk.crash_at(1 + crash * calls / 100);
        let (done, ended) = run(&disk, Durability::Sync, |_| {});
        ended.expect_err("no power");
        found(&disk.crash(crash), &states, (done, done + 1), &format!("crash {crash}"));
    }
}

#[test]
fn a_power_failure_anywhere_leaves_one_moment_of_what_was_not_flushed() {
    let (states, calls) = undisturbed();
    let mut behind = 0;
    for crash in 0..100 {
        let disk = SimDisk::new(1);
        disk.crash_at(1 + crash * calls / 100);
        let (done, _) = run(&disk, Durability::NoSync, |_| {});
        found(&disk.crash(crash), &states, (0, done + 1), &format!("crash {crash}"));
        behind += usize::from(disk.has_crashed());
    }
    assert!(behind > 20, "{behind} met a failure");
}

#[test]
fn a_call_that_fails_anywhere_loses_nothing() {
    let (states, calls) = undisturbed();
    let mut failed = 0;
    for fault in 0..120 {
        let disk = SimDisk::new(1);
        let kinds =
            [Fault::Error(std::io::ErrorKind::Other), Fault::ShortWrite, Fault::SyncFails, Fault::DiskFull];
        disk.fail_at(1 + fault * calls / 120, kinds[fault as usize % kinds.len()]);
        let (done, ended) = run(&disk, Durability::Sync, |_| {});
        failed += usize::from(ended.is_err());
        disk.clear_faults();
        found(&disk, &states, (done, done + 1), &format!("fault {fault}: {ended:?}"));
    }
    assert!(failed > 30, "{failed} runs met a fault");
}

#[test]
fn a_full_disk_loses_nothing() {
    let (states, _) = undisturbed();
    let mut full = 0;
    for chunks in 10..70 {
        let disk = SimDisk::new(1);
        disk.set_capacity(chunks * 4096);
        let (done, ended) = run(&disk, Durability::Sync, |_| {});
        full += usize::from(ended.is_err());
        disk.set_capacity(u64::MAX);
        found(&disk, &states, (done, done + 1), &format!("{chunks} chunks: {ended:?}"));
    }
    assert!(full > 10, "{full} disks were full");
}
