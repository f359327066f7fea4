//! What the driving end asks of a process that works on a database, and what it is told: a line of JSON each,
//! as between the other suites and theirs ([`crate::protocol`]).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::scale::Scale;
use super::systems::UseBy;
use crate::patience::{Asked, for_records, for_seconds};
use crate::protocol::Mode;

/// A line of input.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub(super) enum Request {
    /// Say which version the library is.
    Version,
    /// Open a database, or make it.
    Open(Open),
    /// Make the tables of a bank.
    Bank(Scale),
    /// Transfers, by threads.
    Transfer(Transfers),
    /// The sums of a bank's tables.
    Sums,
    /// Make the relations, so many rows in the large ones.
    Relations {
        /// How many.
        rows: u64,
    },
    /// Run a query, again and again.
    Query(Query),
    /// Insert rows into a new table with two indices.
    Fill {
        /// How many.
        rows: u64,
    },
    /// Close it.
    Close,
}

/// Pairs of rows that a join without an index looks at for each that it looks a record up for: relations are
/// joined in the square of their rows.
const PAIRS: u64 = 500;

impl Asked for Request {
    fn what(&self) -> String {
        let word = match self {
            Request::Version => "version",
            Request::Open(_) => "open",
            Request::Bank(_) => "bank",
            Request::Transfer(_) => "transfer",
            Request::Sums => "sums",
            Request::Relations { .. } => "relations",
            Request::Query(query) => return format!("query {}", query.sql),
            Request::Fill { .. } => "fill",
            Request::Close => "close",
        };
        word.to_owned()
    }

    fn work(&self) -> Duration {
        match self {
            Request::Version | Request::Open(_) | Request::Sums | Request::Close => Duration::ZERO,
            Request::Bank(scale) => for_records(scale.accounts()),
            Request::Transfer(transfers) => for_seconds(transfers.seconds),
            // The queries that come after have as long as well.
            Request::Relations { rows } => for_records(rows.saturating_mul(*rows) / PAIRS),
            Request::Query(query) => for_seconds(query.seconds_max),
            Request::Fill { rows } => for_records(*rows),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Open {
    /// The database goes in there.
    pub(super) dir: String,
    pub(super) mode: Mode,
    pub(super) cache_bytes: u64,
    pub(super) use_by: UseBy,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Transfers {
    pub(super) scale: Scale,
    pub(super) threads: u32,
    /// Another one for each process.
    pub(super) seed: u64,
    pub(super) seconds: f64,
    /// Of a hundred transactions so many are transfers; the others look an account up.
    pub(super) transfers_percent: u32,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Query {
    /// Before each run, outside of the time.
    pub(super) before: Vec<String>,
    pub(super) sql: String,
    /// A row of numbers that shows whether it did what it should, outside of the time. Empty: what counts are
    /// its own rows, how many there are, and the sum of their first column.
    pub(super) check: String,
    /// How many numbers that has.
    pub(super) columns: usize,
    /// After each run, outside of the time.
    pub(super) after: Vec<String>,
    pub(super) times: u32,
    /// Not again after so long.
    pub(super) seconds_max: f64,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Done {
    /// How long it took.
    pub(super) seconds: f64,
    /// Processor time of the process meanwhile.
    pub(super) cpu_seconds: f64,
    /// Transactions, or runs of a query, or rows.
    #[serde(default)]
    pub(super) ops: u64,
    /// Those of them that are transfers.
    #[serde(default)]
    pub(super) transfers: u64,
    /// How often one was begun anew.
    #[serde(default)]
    pub(super) again: u64,
    /// The sum of all transfers.
    #[serde(default)]
    pub(super) moved: i64,
    /// What was asked for.
    #[serde(default)]
    pub(super) numbers: Vec<i64>,
    /// The library's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) version: String,
    #[serde(default)]
    pub(super) rss_mb: f64,
    #[serde(default)]
    pub(super) disk_mb: f64,
}

impl Done {
    /// What threads or processes have done side by side, all in all.
    pub(super) fn side_by_side(each: impl IntoIterator<Item = Done>) -> Done {
        let mut all = Done::default();
        for one in each {
            all.ops += one.ops;
            all.transfers += one.transfers;
            all.again += one.again;
            all.moved += one.moved;
            all.cpu_seconds += one.cpu_seconds;
            all.seconds = all.seconds.max(one.seconds);
            all.rss_mb = all.rss_mb.max(one.rss_mb);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_have_as_long_as_a_join_of_all_pairs() {
        let minutes = |rows| Request::Relations { rows }.work().as_secs() / 60;
        assert_eq!((minutes(10_000), minutes(100_000)), (1, 166));
        let transfer = Transfers {
            scale: Scale::of_accounts(1),
            threads: 1,
            seed: 0,
            seconds: 3.0,
            transfers_percent: 100,
        };
        assert_eq!(Request::Transfer(transfer).work(), Duration::from_secs(60));
        let query = Query { sql: "SELECT 1".to_owned(), ..Query::default() };
        assert_eq!(Request::Query(query).what(), "query SELECT 1");
    }
}
