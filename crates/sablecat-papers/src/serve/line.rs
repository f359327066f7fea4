//! A queue as the harness uses it: by one thread, each record appended and consumed by itself.

use std::path::Path;
use std::time::Instant;

use sablecat::{Env, Queue};

use super::engine::{configure, say};
use super::loops::{Job, Limit, Tally};
use crate::protocol::{Kind, Mode, Open};
use crate::workload::{self, VALUE_BYTES};

/// An open queue, in an environment of its own.
pub(super) struct Line {
    queue: Queue,
    env: Env,
    /// Operations between two looks at the clock.
    check_every: u64,
}

impl Line {
    pub(super) fn open(open: &Open, shared: bool) -> Result<Line, String> {
        if open.mode == Mode::Ds {
            return Err("a data store has no queues".to_owned());
        }
        let env = configure(open).shared(shared).open(Path::new(&open.dir)).map_err(say)?;
        let queue = Queue::open(&env, "queue", VALUE_BYTES as u32).map_err(say)?;
        Ok(Line { queue, env, check_every: if open.mode == Mode::Sync { 1 } else { 64 } })
    }

    /// Appends the records of a job, or takes them, in their order.
    pub(super) fn run(&self, job: &Job) -> Result<Tally, String> {
        let mut tally = Tally::default();
        let start = Instant::now();
        let limit = Limit::new(start, job.seconds_max);
        for position in job.share.clone() {
            let record = job.order.key(position);
            match job.kind {
                Kind::Write => {
                    if let Err(error) = self.queue.append_one(workload::value(record, job.version)) {
                        tally.fail("append", record, error);
                    }
                }
                Kind::Take => match self.queue.consume_one() {
                    Ok(Some((_, value))) if workload::is_value(record, job.version, &value) => {}
                    Ok(_) => tally.fail("take", record, "not the record that comes next"),
                    Err(error) => tally.fail("take", record, error),
                },
                _ => return Err("a queue is written to, and its records are taken".to_owned()),
            }
            tally.ops += 1;
            if limit.is_reached(tally.ops, self.check_every) {
                break;
            }
        }
        tally.time = Some((start, Instant::now()));
        Ok(tally)
    }

    pub(super) fn close(self) -> Result<(), String> {
        drop(self.queue);
        self.env.close().map_err(say)
    }
}
