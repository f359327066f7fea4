//! The timed loops over the records, and what they add up.
//!
//! One loop serves every kind of store through [`Table`], compiled for each, so that what is timed is the
//! store's own calls and the workload. The clock is read around a loop, and inside it only when the run has a
//! time limit: every 64 operations, or every one where it waits for the disk anyway.

use std::ops::{Deref, Range};
use std::time::{Duration, Instant};

use super::batch::Batch;
use super::watch::Watch;
use crate::mix::{Act, What};
use crate::protocol::Kind;
use crate::shape::{ANY_VERSION, KEY_BYTES_MAX, Shape, VALUE_BYTES_MAX};
use crate::workload::{self, Order};

/// Records that a load puts into one batch.
const LOAD_BATCH: u64 = 1000;

/// One thread's part of a run.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) kind: Kind,
    pub(super) order: Order,
    pub(super) shape: Shape,
    pub(super) records: u64,
    /// How many of the records are there.
    pub(super) present: u64,
    /// The positions of this thread.
    pub(super) share: Range<u64>,
    /// Of a mix: what this thread does.
    pub(super) acts: Vec<Act>,
    /// Of a mix: whether a lookup and the update after it are one transaction.
    pub(super) whole: bool,
    /// Of a mix: whether each act is timed.
    pub(super) timed: bool,
    pub(super) version: u32,
    pub(super) passes: u32,
    /// 0: no limit.
    pub(super) seconds_max: f64,
}

/// What a loop needs of a store.
pub(super) trait Table {
    /// Operations between two looks at the clock, a power of two.
    const CHECK_EVERY: u64;
    type Error: std::fmt::Display;

    /// Stores one record, as a commit of its own where the store has commits.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Self::Error>;

    /// Stores records as cheaply as the store can.
    fn put_batch(&mut self, records: &Batch) -> Result<(), Self::Error>;

    /// Removes a record, as a commit of its own where the store has commits; whether it was there.
    fn remove(&mut self, key: &[u8]) -> Result<bool, Self::Error>;

    /// Shows the value of a key, in place, and returns what `look` made of it.
    fn look(&mut self, key: &[u8], look: impl FnOnce(Option<&[u8]>) -> bool) -> Result<bool, Self::Error>;

    /// Sets the value of a key to what `change` makes of the one that it has, in one transaction.
    fn modify(&mut self, key: &[u8], change: impl FnMut(Option<&[u8]>) -> Vec<u8>)
    -> Result<(), Self::Error>;

    /// Shows so many records from a key on, in order; how many there were.
    fn range(&mut self, from: &[u8], count: u32, each: impl FnMut(&[u8], &[u8])) -> Result<u32, Self::Error>;

    /// Folds every record into one value, beginning with `initial`.
    fn scan<B>(&mut self, initial: B, each: impl FnMut(B, &[u8], &[u8]) -> B) -> Result<B, Self::Error>;
}

/// What a loop came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) ops: u64,
    pub(super) errors: u64,
    pub(super) first_error: String,
    /// Records that a mix has added.
    pub(super) inserted: u64,
    /// How long acts took, where that was asked for.
    pub(super) watch: Option<Box<Watch>>,
    /// Start and end of the loop.
    pub(super) time: Option<(Instant, Instant)>,
}

impl Tally {
    /// Counts a failed operation; the first one's text is kept.
    #[cold]
    pub(super) fn fail(&mut self, what: &str, key: u64, why: impl std::fmt::Display) {
        if self.errors == 0 {
            self.first_error = format!("{what} of key {key}: {why}");
        }
        self.errors += 1;
    }

    /// From the first start to the last end.
    pub(super) fn seconds(&self) -> f64 {
        self.time.map_or(0.0, |(start, end)| (end - start).as_secs_f64())
    }

    pub(super) fn sum(tallies: Vec<Tally>) -> Tally {
        let mut sum = Tally::default();
        for tally in tallies {
            sum.ops += tally.ops;
            if sum.errors == 0 {
                sum.first_error = tally.first_error;
            }
            sum.errors += tally.errors;
            sum.inserted += tally.inserted;
            sum.watch = match (sum.watch, tally.watch) {
                (Some(one), Some(other)) => Some(one.and(*other)),
                (one, other) => one.or(other),
            };
            sum.time = match (sum.time, tally.time) {
                (Some((start, end)), Some((other_start, other_end))) => {
                    Some((start.min(other_start), end.max(other_end)))
                }
                (one, other) => one.or(other),
            };
        }
        sum
    }
}

/// When a loop has to stop; asked before its first operation.
pub(super) struct Limit {
    end: Option<Instant>,
}

impl Limit {
    pub(super) fn new(start: Instant, seconds_max: f64) -> Limit {
        Limit { end: (seconds_max > 0.0).then(|| start + Duration::from_secs_f64(seconds_max)) }
    }

    #[inline]
    pub(super) fn is_reached(&self, ops: u64, check_every: u64) -> bool {
        match self.end {
            Some(end) => ops & (check_every - 1) == 0 && Instant::now() >= end,
            None => false,
        }
    }
}

/// A shape; which one may be known where a loop is compiled.
trait Known: Deref<Target = Shape> + Copy {}

impl Known for &Shape {}

/// The first paper's shape.
#[derive(Clone, Copy)]
struct Plain;

impl Known for Plain {}

impl Deref for Plain {
    type Target = Shape;

    #[inline]
    fn deref(&self) -> &Shape {
        &Shape::PLAIN
    }
}

/// Does a job.
pub(super) fn run<T: Table>(table: &mut T, job: &Job) -> Tally {
    // Asked once, and not for each record; and a key whose length is known is looked for by shorter code.
    if job.shape.is_plain() { run_over(table, job, Plain) } else { run_over(table, job, &job.shape) }
}

fn run_over<T: Table>(table: &mut T, job: &Job, shape: impl Known) -> Tally {
    let mut tally = Tally::default();
    let start = Instant::now();
    let limit = Limit::new(start, job.seconds_max);
    match job.kind {
        Kind::Load => load(table, (job, shape), &mut tally),
        Kind::Write => put(table, (job, shape), "write", &limit, &mut tally),
        Kind::Update => put(table, (job, shape), "update", &limit, &mut tally),
        Kind::Read => read(table, (job, shape), &limit, &mut tally),
        Kind::Bulk => bulk(table, job, &limit, &mut tally),
        Kind::Take => tally.fail("take", 0, "it is no queue"),
        Kind::Delete => delete(table, (job, shape), &limit, &mut tally),
        Kind::Mix => mix(table, job, &limit, &mut tally),
    }
    tally.time = Some((start, Instant::now()));
    tally
}

fn load<T: Table>(table: &mut T, (job, shape): (&Job, impl Known), tally: &mut Tally) {
    let mut batch = Batch::default();
    let (mut key_bytes, mut value_bytes) = ([0; KEY_BYTES_MAX], [0; VALUE_BYTES_MAX]);
    let mut position = job.share.start;
    while position < job.share.end {
        let stop = job.share.end.min(position + LOAD_BATCH);
        batch.clear();
        for key in (position..stop).map(|position| job.order.key(position)) {
            let value = shape.value(key, job.version, &mut value_bytes);
            batch.push(shape.key(key, &mut key_bytes), value);
        }
        if let Err(error) = table.put_batch(&batch) {
            tally.fail("load", position, error);
        }
        position = stop;
    }
    tally.ops = job.share.end - job.share.start;
}

fn put<T: Table>(
    table: &mut T,
    (job, shape): (&Job, impl Known),
    what: &str,
    limit: &Limit,
    tally: &mut Tally,
) {
    let (mut key_bytes, mut value_bytes) = ([0; KEY_BYTES_MAX], [0; VALUE_BYTES_MAX]);
    for position in job.share.clone() {
        let key = job.order.key(position);
        let value = shape.value(key, job.version, &mut value_bytes);
        if let Err(error) = table.put(shape.key(key, &mut key_bytes), value) {
            tally.fail(what, key, error);
        }
        tally.ops += 1;
        if limit.is_reached(tally.ops, T::CHECK_EVERY) {
            return;
        }
    }
}

fn read<T: Table>(table: &mut T, (job, shape): (&Job, impl Known), limit: &Limit, tally: &mut Tally) {
    let mut key_bytes = [0; KEY_BYTES_MAX];
    for _ in 0..job.passes {
        for position in job.share.clone() {
            let key = job.order.key(position);
            let is_right =
                |value: Option<&[u8]>| value.is_some_and(|value| shape.is_value(key, job.version, value));
            match table.look(shape.key(key, &mut key_bytes), is_right) {
                Ok(true) => {}
                Ok(false) => tally.fail("read", key, "not the value that was stored"),
                Err(error) => tally.fail("read", key, error),
            }
            tally.ops += 1;
            if limit.is_reached(tally.ops, T::CHECK_EVERY) {
                return;
            }
        }
    }
}

fn delete<T: Table>(table: &mut T, (job, shape): (&Job, impl Known), limit: &Limit, tally: &mut Tally) {
    let mut key_bytes = [0; KEY_BYTES_MAX];
    for position in job.share.clone() {
        let key = job.order.key(position);
        match table.remove(shape.key(key, &mut key_bytes)) {
            Ok(true) => {}
            Ok(false) => tally.fail("delete", key, "there was none"),
            Err(error) => tally.fail("delete", key, error),
        }
        tally.ops += 1;
        if limit.is_reached(tally.ops, T::CHECK_EVERY) {
            return;
        }
    }
}

fn mix<T: Table>(table: &mut T, job: &Job, limit: &Limit, tally: &mut Tally) {
    tally.watch = job.timed.then(|| Box::new(Watch::start()));
    let (mut key_bytes, mut value_bytes) = ([0; KEY_BYTES_MAX], [0; VALUE_BYTES_MAX]);
    for act in &job.acts {
        let key = job.shape.key(act.number, &mut key_bytes);
        let is_whole = job.whole && act.what == What::Modify;
        if is_whole {
            modify(table, job, *act, key, tally);
        }
        if matches!(act.what, What::Read | What::Modify) && !is_whole {
            let is_right = |value: Option<&[u8]>| {
                value.is_some_and(|value| job.shape.is_value(act.number, ANY_VERSION, value))
            };
            match table.look(key, is_right) {
                Ok(true) => {}
                Ok(false) => tally.fail("read", act.number, "not a value that was stored"),
                Err(error) => tally.fail("read", act.number, error),
            }
        }
        if matches!(act.what, What::Update | What::Insert | What::Modify) && !is_whole {
            let value = job.shape.value(act.number, act.count, &mut value_bytes);
            match table.put(key, value) {
                Ok(()) => tally.inserted += u64::from(act.what == What::Insert),
                Err(error) => tally.fail("write", act.number, error),
            }
        }
        if act.what == What::Scan {
            short_scan(table, job, *act, key, tally);
        }
        tally.ops += 1;
        if let Some(watch) = &mut tally.watch {
            watch.stop(matches!(act.what, What::Read | What::Scan));
        }
        if limit.is_reached(tally.ops, T::CHECK_EVERY) {
            return;
        }
    }
}

/// What is found is a value that was stored, and another takes its place.
fn modify<T: Table>(table: &mut T, job: &Job, act: Act, key: &[u8], tally: &mut Tally) {
    let mut value_bytes = [0; VALUE_BYTES_MAX];
    let mut is_right = true;
    let changed = table.modify(key, |value| {
        is_right = value.is_some_and(|value| job.shape.is_value(act.number, ANY_VERSION, value));
        job.shape.value(act.number, act.count, &mut value_bytes).to_vec()
    });
    match changed {
        Ok(()) if is_right => {}
        Ok(()) => tally.fail("read", act.number, "not a value that was stored"),
        Err(error) => tally.fail("modify", act.number, error),
    }
}

/// A scan begins with the record that it was asked to begin with, and shows records only.
fn short_scan<T: Table>(table: &mut T, job: &Job, act: Act, key: &[u8], tally: &mut Tally) {
    let (mut is_first, mut wrong) = (true, None);
    let shown = table.range(key, act.count, |key, value| {
        let number = job.shape.number(key, value);
        let is_right = number.is_some_and(|number| job.shape.is_value(number, ANY_VERSION, value))
            && (!is_first || number == Some(act.number));
        if !is_right {
            wrong.get_or_insert("not a record that was stored, or not the first");
        }
        is_first = false;
    });
    match (shown, wrong) {
        (Ok(1..), None) => {}
        (Ok(_), wrong) => tally.fail("scan", act.number, wrong.unwrap_or("it shows nothing")),
        (Err(error), _) => tally.fail("scan", act.number, error),
    }
}

fn bulk<T: Table>(table: &mut T, job: &Job, limit: &Limit, tally: &mut Tally) {
    let (shape, version) = (job.shape, job.version);
    // Which of the two it is is asked once, not for each record: that would take longer than to show one.
    if shape.is_plain() {
        let is_value = move |number, value: &[u8]| workload::is_value(number, version, value);
        bulk_of(table, job, (limit, tally), |key, _| workload::key_number(key), is_value);
    } else {
        let is_value = |number, value: &[u8]| shape.is_value(number, version, value);
        bulk_of(table, job, (limit, tally), |key, value| shape.number(key, value), is_value);
    }
}

fn bulk_of<T: Table>(
    table: &mut T,
    job: &Job,
    (limit, tally): (&Limit, &mut Tally),
    number_of: impl Fn(&[u8], &[u8]) -> Option<u64> + Copy,
    is_value: impl Fn(u64, &[u8]) -> bool + Copy,
) {
    for _ in 0..job.passes {
        let noted = &mut *tally;
        // With what it checks by, so that this is not looked for behind references for each record.
        let scanned = table.scan((0u64, 0u64), move |(visited, key_sum), key, value| {
            let Some(number) = number_of(key, value) else {
                noted.fail("scan", visited, "a key that is no record's");
                return (visited + 1, key_sum);
            };
            if !is_value(number, value) {
                noted.fail("scan", number, "not the value that was stored");
            }
            (visited + 1, key_sum.wrapping_add(number))
        });
        match scanned {
            Err(error) => tally.fail("scan", 0, error),
            Ok((visited, key_sum)) => {
                tally.ops += visited;
                if visited != job.present {
                    tally.fail(
                        "scan",
                        visited,
                        "this many records were seen, which is not how many there are",
                    );
                } else if visited == job.records && key_sum != workload::key_sum(job.records) {
                    tally.fail("scan", visited, "a key came twice, another not at all");
                }
            }
        }
        if limit.is_reached(0, 1) {
            return;
        }
    }
}
