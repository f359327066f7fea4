//! Several processes sell tickets from one environment, at the same time, and never more than there are.
//!
//! `cargo run -p sablecat --example several_processes [DIRECTORY]`
//!
//! Each process counts what it sold in a record of its own, and what is left follows from all of these. So
//! two sales may change different records and still depend on each other: at `Isolation::Snapshot` two
//! processes could both sell the last ticket. Transactions are serialisable unless asked for less, so one of
//! the two is run again, and finds that nothing is left.

use std::error::Error;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, thread};

use sablecat::{Database, Durability, Env, Read};

const PROCESSES: usize = 4;
const TICKETS: u64 = 500;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args_os().skip(1);
    let directory =
        arguments.next().map_or_else(|| env::temp_dir().join("sablecat-several-processes"), PathBuf::from);
    match arguments.next() {
        None => manage(&directory),
        Some(name) => sell(&directory, &name.to_string_lossy()),
    }
}

/// Every process that uses the environment opens it like this; the first one creates it. Sales are handed to
/// the system when their commit returns: no killed process loses one, a failure of the machine may.
fn open(directory: &Path) -> sablecat::Result<(Env, Database)> {
    let env = Env::builder()
        .shared(true)
        .cache_size(16 << 20)
        .durability(Durability::WriteNoSync)
        .open(directory)?;
    let sold = env.database("sold")?;
    Ok((env, sold))
}

/// The first process: starts the sellers and checks their accounts.
fn manage(directory: &Path) -> Result<(), Box<dyn Error>> {
    let (env, sold) = open(directory)?;
    sold.clear()?;
    let program = env::current_exe()?;
    let start = |seller: usize| Command::new(&program).arg(directory).arg(format!("seller {seller}")).spawn();
    let mut sellers = (0..PROCESSES).map(start).collect::<Result<Vec<_>, _>>()?;
    for seller in &mut sellers {
        let status = seller.wait()?;
        if !status.success() {
            return Err(format!("a seller ended with {status}").into());
        }
    }
    for record in sold.range(..)? {
        let (seller, count) = record?;
        println!("{} sold {}", String::from_utf8_lossy(&seller), number(&count));
    }
    assert_eq!(total(&env, &sold)?, TICKETS, "all tickets are sold, and no more than there are");
    println!("all {TICKETS} tickets are sold");
    Ok(())
}

/// A seller: sells one ticket after the other until there are none.
fn sell(directory: &Path, name: &str) -> Result<(), Box<dyn Error>> {
    let (env, sold) = open(directory)?;
    let mut count = 0;
    // Run again if another process got in the way: nobody has seen what a run did that was lost.
    while env.write(|txn| {
        if total(txn, &sold)? >= TICKETS {
            return Ok(false);
        }
        thread::sleep(Duration::from_micros(100)); // the customer pays
        txn.update(&sold, name, |count| Some((count.map_or(0, number) + 1).to_be_bytes().to_vec()))?;
        Ok(true)
    })? {
        count += 1;
    }
    println!("{name} found nothing left after {count}");
    Ok(())
}

/// How many tickets have been sold, as a transaction or anybody else sees it.
fn total<R: Read<Of = Env>>(from: &R, sold: &Database) -> sablecat::Result<u64> {
    from.fold(sold, .., 0, |sum, _, count| ControlFlow::Continue(sum + number(count)))
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("counts have eight bytes"))
}
