//! Rows inserted into a new table with two indices, in one transaction: one index by a number in no order,
//! one by a text in no order.

use super::library::{Connection, Fault};
use super::protocol::Done;
use super::worker::Clock;
use crate::workload::mix;

/// Rows between two looks whether to end.
const ROWS_BETWEEN_LOOKS: u64 = 10_000;

/// Inserts them; the commit is timed as well.
pub(super) fn run(connection: &Connection, rows: u64) -> Result<Done, Fault> {
    connection.execute(
        "CREATE TABLE goods (id INTEGER PRIMARY KEY, number INTEGER NOT NULL, name TEXT NOT NULL,
                             price INTEGER);
         CREATE INDEX by_number ON goods (number);
         CREATE INDEX by_name ON goods (name);",
    )?;
    let clock = Clock::start();
    connection.execute("BEGIN")?;
    let mut insert = connection.prepare("INSERT INTO goods VALUES (?1, ?2, ?4, ?3)")?;
    let mut sum = 0i64;
    for row in 0..rows {
        if row % ROWS_BETWEEN_LOOKS == 0 && sablecat_os::interrupt::is_asked() {
            return Err(Fault::of("interrupted"));
        }
        let number = number(row);
        sum = sum.wrapping_add(number);
        insert.bind_text(4, &format!("article {:012}", mix(row) % 1_000_000_000_000))?;
        insert.run(&[row as i64 + 1, number, (row % 1000) as i64])?;
    }
    drop(insert);
    connection.execute("COMMIT")?;
    let done = clock.stop();
    // By each index, and of the table itself.
    let counts = [
        "SELECT count(*), sum(number) FROM goods WHERE number >= 0",
        "SELECT count(*), sum(length(name)) FROM goods WHERE name >= 'article'",
        "SELECT count(*), sum(price) FROM goods NOT INDEXED",
    ];
    let found: Vec<i64> =
        counts.iter().map(|sql| connection.numbers(sql, 2)).collect::<Result<Vec<_>, _>>()?.concat();
    let prices: u64 = (0..rows).map(|row| row % 1000).sum();
    let expected = [rows as i64, sum, rows as i64, rows as i64 * 20, rows as i64, prices as i64];
    if found != expected {
        return Err(Fault::of(format!("{found:?} are there instead of {expected:?}")));
    }
    Ok(Done { ops: rows, ..done })
}

/// A number that is another for each row as a rule, and below 2^36, so that sums of hundreds of millions have
/// room.
fn number(row: u64) -> i64 {
    (mix(row ^ 0x5eed) >> 28) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::library::LINKED;

    #[test]
    fn all_rows_are_in_the_table_and_in_both_indices() {
        let connection = Connection::open(&LINKED, ":memory:").unwrap();
        assert_eq!(run(&connection, 1234).unwrap().ops, 1234);
        assert!(run(&connection, 1).is_err(), "the table is there");
    }
}
