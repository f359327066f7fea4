//! One worker process: claims blocks of integers, looks numbers up, stores the steps of those that were
//! unknown.
//!
//! A lookup is a transaction, and so is the storing of one number's steps; or of a whole stack's, where each
//! commit waits for the device. A stack is stored beginning with the number met last, so that what is stored
//! always leads to 1, wherever the worker is killed. A claim is a transaction on the first unclaimed integer
//! and the worker's account, so a block is always in the account of exactly one worker. A worker that takes
//! over a killed worker's number finds there which block it was at, and how far at least, and goes on with
//! it.
//!
//! The accounts of all workers are neighbours, on one page, so a worker that wrote its own with every stack
//! would make all others wait for that page (measured: a third of the processor time of eight workers). It
//! writes it with the first stack after every [`ACCOUNT_EVERY`] integers, and with a stack that raises a
//! result: once that is stored its numbers are known, and a worker that comes after would not follow them
//! again. Account and stack are one transaction then.

use std::io::{self, Write};
use std::path::Path;

use super::input::Line;
use super::store::{Account, NEXT, Store, integer, say};
use super::variant::Variant;

/// How often the workers of a line say, all in all, that they have done more: often enough to kill them after
/// each percent, and too seldom to be felt.
const REPORTS: u64 = 1000;

/// Integers after which the account is stored again: what is looked up anew, and not counted, after a kill.
const ACCOUNT_EVERY: u64 = 256;

/// Does a worker's part of a line, in the environment that was created for it, with the options of that name.
/// Prints, a line each time, how many more integers it has done.
///
/// # Errors
/// A sentence, when an operation failed, when a number is beyond 64 bits, when there are no such options, or
/// when nobody reads what is printed.
pub fn work(dir: &Path, worker: u32, line: &Line, cache_bytes: u64, options: &str) -> Result<(), String> {
    let variant = Variant::named(options)?;
    let store = Store::open(dir, cache_bytes, variant)?;
    let report_every = (line.count() / REPORTS).max(1);
    let account = store.account(worker)?;
    let mut worker = Worker {
        store,
        at_once: variant.waits,
        key: worker.to_le_bytes(),
        account,
        stored: account,
        stack: Vec::new(),
    };
    let mut unsaid = 0;
    loop {
        while worker.account.at < worker.account.end {
            worker.next_integer()?;
            unsaid += 1;
            if unsaid == report_every || worker.account.at == worker.account.end {
                writeln!(io::stdout(), "{unsaid}").map_err(|error| format!("nobody listens: {error}"))?;
                unsaid = 0;
            }
        }
        if !worker.claim(line)? {
            return worker.store.close();
        }
    }
}

struct Worker {
    store: Store,
    /// Every stack is one transaction.
    at_once: bool,
    /// Of the account.
    key: [u8; 4],
    /// As it will be committed next.
    account: Account,
    /// As it was committed last.
    stored: Account,
    /// The numbers of a sequence that were unknown.
    stack: Vec<u64>,
}

impl Worker {
    /// Takes the next block, or says that there is none.
    fn claim(&mut self, line: &Line) -> Result<bool, String> {
        let Worker { store, key, account, stored, .. } = self;
        *account = store
            .env
            .write(|txn| {
                let next = txn
                    .get_for_update(&store.work, NEXT)?
                    .and_then(|bytes| integer(&bytes))
                    .unwrap_or(line.start);
                let end = line.block_end(next);
                let claimed = Account { at: next, end, ..*account };
                txn.insert(&store.work, NEXT, end.to_le_bytes())?;
                txn.insert(&store.work, *key, claimed.encode())?;
                Ok(claimed)
            })
            .map_err(say)?;
        *stored = *account;
        Ok(self.account.at < self.account.end)
    }

    /// Makes the steps of the block's next integer known.
    fn next_integer(&mut self) -> Result<(), String> {
        let mut number = self.account.at;
        let mut known = 0;
        loop {
            self.account.highest = self.account.highest.max(number);
            if number == 1 {
                break;
            }
            self.account.reads += 1;
            if let Some(steps) = self.store.steps(number)? {
                known = steps;
                break;
            }
            self.stack.push(number);
            number = successor(number)
                .ok_or_else(|| format!("the sequence of {} goes beyond 64 bits", self.account.at))?;
        }
        self.account.at += 1;
        if self.stack.is_empty() { Ok(()) } else { self.pop(known) }
    }

    /// Stores the steps of the numbers on the stack, the uppermost of which leads to one of `known` steps.
    fn pop(&mut self, known: u32) -> Result<(), String> {
        self.account.updates += self.stack.len() as u64;
        self.account.longest = self.account.longest.max(u64::from(known) + self.stack.len() as u64);
        let Worker { store, at_once, key, account, stored, stack } = self;
        let raised = (account.longest, account.highest) != (stored.longest, stored.highest);
        let is_due = raised || account.at - stored.at >= ACCOUNT_EVERY;
        let mut steps =
            stack.iter().rev().map(|number| number.to_be_bytes()).zip((known + 1..).map(u32::to_le_bytes));
        let stored_all = if is_due || *at_once {
            store.env.write(|txn| {
                steps.clone().try_for_each(|(number, steps)| txn.insert(&store.numbers, number, steps))?;
                if is_due { txn.insert(&store.work, *key, account.encode()) } else { Ok(()) }
            })
        } else {
            steps.try_for_each(|(number, steps)| store.numbers.insert(number, steps))
        };
        stored_all.map_err(say)?;
        if is_due {
            *stored = *account;
        }
        stack.clear();
        Ok(())
    }
}

/// The number after this one, if it has 64 bits.
pub(super) fn successor(number: u64) -> Option<u64> {
    if number.is_multiple_of(2) { Some(number / 2) } else { number.checked_mul(3)?.checked_add(1) }
}
