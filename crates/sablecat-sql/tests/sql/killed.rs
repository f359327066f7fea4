//! Processes that transfer money and are killed at any moment: the sums are right afterwards, indices and
//! tables agree, and what was told to be committed is there.
//!
//! `SABLECAT_TEST_KILLS` says how many rounds.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rusqlite::Connection;

use crate::asked::{number, setting};
use crate::dice::Dice;
use crate::directory::Directory;

const DIRECTORY: &str = "SABLECAT_TEST_SQL_DIRECTORY";
const SEED: &str = "SABLECAT_TEST_SQL_SEED";
const ACCOUNTS: u64 = 50;

/// What a child does: it transfers until it is killed, and says the number of each transfer that is done.
#[test]
fn a_child_that_transfers() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let seed: u64 = std::env::var(SEED).expect("a seed").parse().expect("a number");
    let db = Connection::open(directory).expect("the database is there");
    // With the operating system, or with the disk as well: what is told to be committed outlives the process.
    let synchronous = if seed.is_multiple_of(2) { "FULL" } else { "NORMAL" };
    db.pragma_update(None, "synchronous", synchronous).expect("a setting");
    let mut dice = Dice::new(seed);
    for transfer in 0.. {
        let (from, to, sum) = (dice.below(ACCOUNTS), dice.below(ACCOUNTS), dice.below(10));
        let id = seed * 1_000_000 + transfer;
        loop {
            let done = db.execute_batch(&format!(
                "BEGIN;
                 UPDATE accounts SET balance = balance - {sum} WHERE id = {from};
                 UPDATE accounts SET balance = balance + {sum} WHERE id = {to};
                 INSERT INTO transfers VALUES ({id}, {from}, {to}, {sum});
                 COMMIT;"
            ));
            match done {
                Ok(()) => break,
                Err(_) if db.is_autocommit() => {}
                Err(_) => db.execute_batch("ROLLBACK").expect("it can be given up"),
            }
        }
        println!("done {id}");
    }
}

fn child(directory: &Directory, seed: u64) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "killed::a_child_that_transfers", "--nocapture"])
        .env(DIRECTORY, directory.path().join("ours"))
        .env(SEED, seed.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a child")
}

#[test]
fn whoever_is_killed_leaves_sums_and_indices_right() {
    let rounds: u64 = setting("SABLECAT_TEST_KILLS", 4);
    let directory = Directory::new();
    let db = directory.ours();
    db.execute_batch(&format!(
        "CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER);
         CREATE INDEX accounts_by_balance ON accounts (balance);
         CREATE TABLE transfers (id INTEGER PRIMARY KEY, \"from\", \"to\", sum);
         CREATE INDEX transfers_by_end ON transfers (\"to\", \"from\");
         WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {ACCOUNTS} - 1)
         INSERT INTO accounts SELECT i, 1000 FROM n;"
    ))
    .expect("accounts");
    drop(db);
    let mut dice = Dice::new(7);
    for round in 0..rounds {
        // In every other round somebody stays, and the dead are mended by the living.
        let stays = round % 2 == 0;
        let stayed = stays.then(|| directory.ours());
        // Of two at once one is to flush what it commits and the other is not.
        let mut children: Vec<_> =
            (0..2).map(|child_of| child(&directory, 2 * round + child_of + 1)).collect();
        let mut told = Vec::new();
        for child in &mut children {
            let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
            let mut left = 5 + dice.below(60);
            for line in lines {
                // The test's own program says other things first.
                let Ok(line) = line else { break };
                if let Some((_, id)) = line.rsplit_once("done ") {
                    told.push(id.parse::<i64>().expect("a number"));
                    left -= 1;
                }
                if left == 0 {
                    break;
                }
            }
            child.kill().expect("it is killed");
            child.wait().expect("it is dead");
        }
        let db = stayed.unwrap_or_else(|| directory.ours());
        assert_eq!(number(&db, "SELECT sum(balance) FROM accounts"), 1000 * ACCOUNTS as i64, "round {round}");
        let kept = "SELECT count(*) FROM accounts WHERE balance <> 1000
             + (SELECT total(sum) FROM transfers WHERE \"to\" = accounts.id)
             - (SELECT total(sum) FROM transfers WHERE \"from\" = accounts.id)";
        assert_eq!(number(&db, kept), 0, "round {round}: accounts and transfers");
        for id in told {
            let found = number(&db, &format!("SELECT count(*) FROM transfers WHERE id = {id}"));
            assert_eq!(found, 1, "round {round}: transfer {id} was done");
        }
        let checked: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a check");
        assert_eq!(checked, "ok", "round {round}");
    }
}
