//! A bank as TPC-B has one: branches with ten tellers and a hundred accounts each, and a history of what was
//! transferred.
//!
//! A transfer adds an amount to an account, looks at its balance, adds the amount to a teller and to the
//! teller's branch, and appends a row to the history; all in one transaction. The teller is anybody, the
//! account of the same branch in 85 of 100 cases, otherwise anybody's. So all balances begin at zero, and at
//! any time the sums over accounts, tellers, branches and history are the same: that of all transfers that
//! were committed. There are as many rows in the history as these are.

use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use sablecat_os::interrupt;

use super::library::{Connection, Fault, Statement};
use super::protocol::{Done, Transfers};
use super::scale::{ACCOUNTS, Scale, TELLERS};
use super::systems::System;
use crate::machine;
use crate::workload::mix;

/// Of so many transfers in a hundred the account is of the teller's branch.
const AT_HOME_PERCENT: u64 = 85;
/// No transfer is larger.
const AMOUNT_MAX: i64 = 999_999;
/// How long a transaction may be run again and again after the time is over before something must be wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes the tables. Rows have a hundred bytes or so, those of the history fifty.
pub(super) fn make(connection: &Connection, scale: Scale) -> Result<(), Fault> {
    connection.execute(
        "CREATE TABLE branches (bid INTEGER PRIMARY KEY, bbalance INTEGER NOT NULL, filler TEXT NOT NULL);
         CREATE TABLE tellers
             (tid INTEGER PRIMARY KEY, bid INTEGER NOT NULL, tbalance INTEGER NOT NULL, filler TEXT NOT NULL);
         CREATE TABLE accounts
             (aid INTEGER PRIMARY KEY, bid INTEGER NOT NULL, abalance INTEGER NOT NULL, filler TEXT NOT NULL);
         CREATE TABLE history
             (tid INTEGER NOT NULL, bid INTEGER NOT NULL, aid INTEGER NOT NULL, delta INTEGER NOT NULL,
              mtime INTEGER NOT NULL, filler TEXT NOT NULL);
         BEGIN;",
    )?;
    let filler = "x".repeat(84);
    let fill = |sql: &str, rows: u64, a_branch: u64| {
        let mut insert = connection.prepare(&format!("INSERT INTO {sql}, 0, '{filler}')"))?;
        for row in 0..rows {
            let (row, branch) = (row as i64 + 1, (row / a_branch) as i64 + 1);
            if a_branch > 1 { insert.run(&[row, branch])? } else { insert.run(&[row])? }
        }
        Ok::<_, Fault>(())
    };
    fill("branches VALUES (?1", scale.branches, 1)?;
    fill("tellers VALUES (?1, ?2", scale.tellers(), TELLERS)?;
    fill("accounts VALUES (?1, ?2", scale.accounts(), ACCOUNTS)?;
    connection.execute("COMMIT; ANALYZE; PRAGMA wal_checkpoint;")
}

/// Reads everything once, so that it is in the cache.
pub(super) fn warm(connection: &Connection) -> Result<(), Fault> {
    SUMS.iter().try_for_each(|sql| connection.numbers(sql, 1).map(|_| ()))
}

/// A query for each sum that is to be the same, and how many transfers there were.
const SUMS: [&str; 5] = [
    "SELECT sum(abalance) FROM accounts",
    "SELECT sum(tbalance) FROM tellers",
    "SELECT sum(bbalance) FROM branches",
    "SELECT sum(delta) FROM history",
    "SELECT count(*) FROM history",
];

/// What the sums are, in their order.
pub(super) fn sums(connection: &Connection) -> Result<Vec<i64>, Fault> {
    SUMS.iter().map(|sql| Ok(connection.numbers(sql, 1)?[0])).collect()
}

/// What is wrong with the sums of a bank in which so much was transferred; nothing if that is right.
pub(super) fn problem(sums: &[i64], moved: i64, transfers: u64) -> Option<String> {
    let &[accounts, tellers, branches, history, rows] = sums else {
        return Some(format!("{} sums instead of {}", sums.len(), SUMS.len()));
    };
    if [accounts, tellers, branches, history] == [moved; 4] && rows == transfers as i64 {
        return None;
    }
    Some(format!(
        "{transfers} transfers of {moved} altogether have left accounts of {accounts}, tellers of {tellers}, \
         branches of {branches}, and a history of {rows} with {history}"
    ))
}

/// What is to be done next.
#[derive(Clone, Copy, Debug)]
enum Act {
    Transfer { account: i64, teller: i64, branch: i64, amount: i64 },
    Look { account: i64 },
}

/// Draws what is done, one after the other.
struct Draw {
    state: u64,
    scale: Scale,
    transfers_percent: u64,
}

impl Draw {
    fn next(&mut self) -> Act {
        let mut below = |limit: u64| {
            self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            // The upper half of a product: even enough for so few.
            ((u128::from(mix(self.state)) * u128::from(limit)) >> 64) as u64
        };
        if below(100) >= self.transfers_percent {
            return Act::Look { account: below(self.scale.accounts()) as i64 + 1 };
        }
        let teller = below(self.scale.tellers());
        let branch = teller / TELLERS;
        let account = if below(100) < AT_HOME_PERCENT {
            branch * ACCOUNTS + below(ACCOUNTS)
        } else {
            below(self.scale.accounts())
        };
        let amount = below(2 * AMOUNT_MAX as u64 + 1) as i64 - AMOUNT_MAX;
        Act::Transfer {
            account: account as i64 + 1,
            teller: teller as i64 + 1,
            branch: branch as i64 + 1,
            amount,
        }
    }
}

/// A connection's statements.
struct Desk<'c> {
    connection: &'c Connection,
    begin: Statement<'c>,
    commit: Statement<'c>,
    rollback: Statement<'c>,
    account: Statement<'c>,
    balance: Statement<'c>,
    teller: Statement<'c>,
    branch: Statement<'c>,
    history: Statement<'c>,
}

impl<'c> Desk<'c> {
    fn new(connection: &'c Connection, begin: &str) -> Result<Desk<'c>, Fault> {
        Ok(Desk {
            connection,
            begin: connection.prepare(begin)?,
            commit: connection.prepare("COMMIT")?,
            rollback: connection.prepare("ROLLBACK")?,
            account: connection.prepare("UPDATE accounts SET abalance = abalance + ?1 WHERE aid = ?2")?,
            balance: connection.prepare("SELECT abalance FROM accounts WHERE aid = ?1")?,
            teller: connection.prepare("UPDATE tellers SET tbalance = tbalance + ?1 WHERE tid = ?2")?,
            branch: connection.prepare("UPDATE branches SET bbalance = bbalance + ?1 WHERE bid = ?2")?,
            history: connection
                .prepare("INSERT INTO history VALUES (?1, ?2, ?3, ?4, ?5, 'xxxxxxxxxxxxxxxxxxxxxx')")?,
        })
    }

    fn transfer(
        &mut self,
        account: i64,
        teller: i64,
        branch: i64,
        amount: i64,
        at: i64,
    ) -> Result<(), Fault> {
        let done = self.begin.run(&[]).and_then(|()| {
            self.account.change_one(&[amount, account])?;
            self.balance.one(&[account])?;
            self.teller.change_one(&[amount, teller])?;
            self.branch.change_one(&[amount, branch])?;
            self.history.change_one(&[teller, branch, account, amount, at])?;
            self.commit.run(&[])
        });
        if done.is_err() && !self.connection.is_outside() {
            // Some libraries have ended it by then; why it failed is what counts.
            self.rollback.run(&[])?;
        }
        done
    }
}

/// What the threads of a process have in common.
struct Crew<'s> {
    system: &'s System,
    asked: &'s Transfers,
    /// For the only one that may write, where that is so.
    turn: Mutex<()>,
    begin: Barrier,
    end: Barrier,
}

/// Runs transfers by as many threads as are asked for, each with a connection that it opens; of one, on the
/// connection that there is.
pub(super) fn run(
    system: &System,
    asked: &Transfers,
    own: &Connection,
    open: &(dyn Fn() -> Result<Connection, String> + Sync),
) -> Result<Done, String> {
    let alone = asked.threads <= 1;
    let threads = if alone { 0 } else { asked.threads };
    let crew = Crew {
        system,
        asked,
        turn: Mutex::new(()),
        begin: Barrier::new(threads as usize + 1),
        end: Barrier::new(threads as usize + 1),
    };
    let mut cpu_seconds = 0.0;
    let done: Result<Vec<Done>, String> = thread::scope(|scope| {
        let crew = &crew;
        let work = move |thread: u32| {
            move || -> Result<Done, String> {
                // A thread that fails must not keep the others waiting.
                let connection = open();
                let desk = connection.as_ref().map_err(String::clone).and_then(|connection| {
                    warm(connection)?;
                    Ok(Desk::new(connection, crew.system.begin)?)
                });
                crew.begin.wait();
                let done = desk.and_then(|mut desk| crew.work(&mut desk, thread));
                crew.end.wait();
                done
            }
        };
        let all: Vec<_> = (0..threads).map(|thread| scope.spawn(work(thread))).collect();
        let desk = if alone {
            warm(own).and_then(|()| Desk::new(own, crew.system.begin)).map(Some)
        } else {
            Ok(None)
        };
        crew.begin.wait();
        let cpu = machine::own_cpu_seconds();
        let by_this = desk
            .map_err(String::from)
            .and_then(|desk| desk.map(|mut desk| crew.work(&mut desk, 0)).transpose());
        crew.end.wait();
        cpu_seconds = machine::own_cpu_seconds() - cpu;
        let mut done: Vec<Done> = by_this?.into_iter().collect();
        for thread in all {
            done.push(thread.join().map_err(|_| "a thread has panicked".to_owned())??);
        }
        Ok(done)
    });
    // Processor time is the process's.
    Ok(Done { cpu_seconds, ..Done::side_by_side(done?) })
}

impl Crew<'_> {
    fn work(&self, desk: &mut Desk<'_>, thread: u32) -> Result<Done, String> {
        let &Transfers { scale, seed, seconds, transfers_percent, .. } = self.asked;
        let state = mix(seed << 16 | u64::from(thread));
        let mut draw = Draw { state, scale, transfers_percent: transfers_percent.into() };
        let mut done = Done::default();
        let began = Instant::now();
        let end = began + Duration::from_secs_f64(seconds);
        while Instant::now() < end && !interrupt::is_asked() {
            let act = draw.next();
            while let Err(fault) = self.carry_out(desk, act, done.ops) {
                if !fault.is_busy() || end.elapsed() > PATIENCE {
                    return Err(fault.to_string());
                }
                done.again += 1;
            }
            done.ops += 1;
            if let Act::Transfer { amount, .. } = act {
                done.transfers += 1;
                done.moved += amount;
            }
        }
        done.seconds = began.elapsed().as_secs_f64();
        Ok(done)
    }

    fn carry_out(&self, desk: &mut Desk<'_>, act: Act, at: u64) -> Result<(), Fault> {
        match act {
            Act::Look { account } => desk.balance.one(&[account]).map(|_| ()),
            Act::Transfer { account, teller, branch, amount } => {
                let queues = self.system.queues && self.asked.threads > 1;
                let _turn = queues.then(|| self.turn.lock().unwrap_or_else(PoisonError::into_inner));
                desk.transfer(account, teller, branch, amount, at as i64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::library::LINKED;

    fn asked(scale: Scale, threads: u32) -> Transfers {
        Transfers { scale, threads, seed: 1, seconds: 0.05, transfers_percent: 50 }
    }

    #[test]
    fn sums_are_those_of_the_transfers_and_anything_else_is_told() {
        let connection = Connection::open(&LINKED, ":memory:").unwrap();
        let scale = Scale::of_accounts(250);
        assert_eq!((scale.branches, scale.tellers(), scale.accounts()), (3, 30, 300));
        make(&connection, scale).unwrap();
        let system = System::named("sqlite").unwrap();
        let open = || Err("nobody else opens it".to_owned());
        let done = run(system, &asked(scale, 1), &connection, &open).unwrap();
        assert!(done.transfers > 0 && done.ops > done.transfers && done.again == 0, "{done:?}");
        let is_right = |sums: &[i64]| problem(sums, done.moved, done.transfers).is_none();
        assert!(is_right(&sums(&connection).unwrap()));
        for wrong in [
            "UPDATE accounts SET abalance = abalance + 1 WHERE aid = 1",
            "UPDATE tellers SET tbalance = tbalance + 1 WHERE tid = 1",
            "UPDATE branches SET bbalance = bbalance - 1 WHERE bid = 3",
            "UPDATE history SET delta = delta + 1 WHERE rowid = 1",
            "INSERT INTO history VALUES (1, 1, 1, 0, 0, '')",
            "DELETE FROM history",
        ] {
            connection.execute("SAVEPOINT s").unwrap();
            connection.execute(wrong).unwrap();
            assert!(!is_right(&sums(&connection).unwrap()), "{wrong}");
            connection.execute("ROLLBACK TO s; RELEASE s").unwrap();
        }
        assert!(is_right(&sums(&connection).unwrap()));
        assert!(!is_right(&[]));
    }

    #[test]
    fn a_thread_that_cannot_open_keeps_nobody_waiting() {
        let connection = Connection::open(&LINKED, ":memory:").unwrap();
        let scale = Scale::of_accounts(1);
        make(&connection, scale).unwrap();
        let system = System::named("sqlite").unwrap();
        let open = || Err("it is closed".to_owned());
        assert_eq!(run(system, &asked(scale, 3), &connection, &open), Err("it is closed".to_owned()));
    }

    #[test]
    fn whoever_is_drawn_is_there() {
        let scale = Scale { branches: 2 };
        let mut draw = Draw { state: 5, scale, transfers_percent: 60 };
        let (mut transfers, mut away) = (0, 0);
        for _ in 0..10_000 {
            let Act::Transfer { account, teller, branch, amount } = draw.next() else { continue };
            assert!((1..=200).contains(&account) && (1..=20).contains(&teller) && amount.abs() <= AMOUNT_MAX);
            assert_eq!(branch, (teller - 1) / 10 + 1);
            transfers += 1;
            away += u32::from((account - 1) / 100 + 1 != branch);
        }
        // Half of those from anywhere are of the other branch.
        assert!((5_700..6_300).contains(&transfers) && (300..600).contains(&away), "{transfers} {away}");
    }
}
