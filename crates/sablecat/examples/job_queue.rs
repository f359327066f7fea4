//! A queue of jobs for several worker processes, of which one is killed in the middle: every job is done
//! exactly once.
//!
//! `cargo run -p sablecat --example job_queue [DIRECTORY]`
//!
//! A worker takes the first job that no other worker has locked, does it, and stores the result, all in one
//! transaction. So a job and its result change places at once: a worker that is killed before its commit has
//! done nothing, and the job is there for the next. The lock goes with the process. What a job does outside
//! of the environment, to send a letter say, is not undone with it: that happens at least once.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
use std::{env, thread};

use sablecat::{Database, Env, Isolation, TxnOptions};

const WORKERS: usize = 4;
const JOBS: u64 = 400;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args_os().skip(1);
    let directory =
        arguments.next().map_or_else(|| env::temp_dir().join("sablecat-job-queue"), PathBuf::from);
    match arguments.next() {
        None => share_out(&directory),
        Some(name) => work(&directory, &name.to_string_lossy()),
    }
}

/// Every process that uses the environment opens it like this. There is no server.
fn open(directory: &Path) -> sablecat::Result<(Env, Database, Database)> {
    let env = Env::builder().shared(true).cache_size(16 << 20).open(directory)?;
    let (jobs, done) = (env.database("jobs")?, env.database("done")?);
    Ok((env, jobs, done))
}

/// The first process: fills the queue, starts the workers, kills one of them, and counts.
fn share_out(directory: &Path) -> Result<(), Box<dyn Error>> {
    let (env, jobs, done) = open(directory)?;
    let before = done.len()?;
    let waiting = env.write(|txn| {
        // Big-endian numbers sort as numbers: the oldest job stands first.
        let newest = txn.last(&jobs)?.max(txn.last(&done)?);
        let next = newest.map_or(0, |(job, _)| number(&job) + 1);
        for job in next..next + JOBS {
            txn.insert(&jobs, job.to_be_bytes(), format!("the square of {job}"))?;
        }
        txn.len(&jobs)
    })?;

    let program = env::current_exe()?;
    let start = |worker: usize| Command::new(&program).arg(directory).arg(format!("worker {worker}")).spawn();
    let mut victim = start(0)?;
    let mut workers = (1..WORKERS).map(start).collect::<Result<Vec<_>, _>>()?;
    if kill_in_the_middle(&env, &mut victim)? {
        println!("killed a worker that had a job in hand");
    }
    for worker in &mut workers {
        let status = worker.wait()?;
        if !status.success() {
            return Err(format!("a worker ended with {status}").into());
        }
    }

    assert!(jobs.is_empty()?, "the workers end when nothing is left to do");
    assert_eq!(done.len()? - before, waiting, "every job has one result");
    for record in done.range(..)? {
        let (job, result) = record?;
        assert_eq!(number(&result), number(&job).pow(2));
    }
    println!("{waiting} jobs are done, each once");
    Ok(())
}

/// Kills a worker while it has a record locked; false if it has ended before that was seen.
fn kill_in_the_middle(env: &Env, worker: &mut Child) -> Result<bool, Box<dyn Error>> {
    while worker.try_wait()?.is_none() {
        if env.locks().iter().any(|lock| lock.pid == worker.id()) {
            worker.kill()?;
            worker.wait()?;
            return Ok(true);
        }
        thread::sleep(Duration::from_micros(500));
    }
    Ok(false)
}

/// A worker: takes jobs until there are none.
fn work(directory: &Path, name: &str) -> Result<(), Box<dyn Error>> {
    let (env, jobs, done) = open(directory)?;
    // Not serialisable: a worker passes by the jobs that others have locked, and does not mind what becomes
    // of them.
    let options = TxnOptions::new().isolation(Isolation::Snapshot);
    let mut count = 0;
    loop {
        let took_one = env.write_with(options, |txn| {
            let Some((job, _)) = txn.pop_first_unlocked(&jobs)? else { return Ok(false) };
            thread::sleep(Duration::from_millis(2)); // the work
            assert!(
                txn.insert_new(&done, &job, number(&job).pow(2).to_be_bytes())?,
                "nobody has done it before"
            );
            Ok(true)
        })?;
        if took_one {
            count += 1;
        } else {
            // Others have what is left in hand: sleeps until the last job is done. They may be killed, and
            // then there is one to be done after all.
            let end = env.write_when_within(Duration::from_millis(50), |txn| {
                Ok(txn.first(&jobs)?.is_none().then_some(()))
            })?;
            if end.is_some() {
                break;
            }
        }
    }
    println!("{name} has done {count}");
    Ok(())
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("keys and results have eight bytes"))
}
