//! What each suite is, and of which paper.

/// A suite, for readers that have not read of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct About {
    pub(super) title: &'static str,
    pub(super) what: &'static str,
}

/// What there is to say of a suite; a name that is not known yet stands for itself.
pub(super) fn about(suite: &str) -> About {
    let (title, what) = match suite {
        "wp43" => (
            "Berkeley DB 4.3 white paper, 2005",
            "Single operations of one thread on records of 8 + 32 bytes, all in cache: the Data Store (DS), \
             without log and transactions, and the transactional store (TDS) at each step of its durability.",
        ),
        "wp11g" => (
            "Berkeley DB 11g Release 2 white paper, 2011",
            "Batches of ten neighbouring records of 64 + 64 bytes, fetched, updated, deleted and inserted, \
             one transaction a record, in six configurations and by 1 to 16 threads.",
        ),
        "tpcb" => (
            "Berkeley DB 11g Release 2 white paper, 2011: TPC-B in SQL",
            "Transfers in a bank of accounts, tellers and branches, with a row of history each, by 1 to 10 \
             threads with a connection each and by as many processes, without waiting for the disk and with \
             it. The sums of all tables are compared after each run.",
        ),
        "wisconsin" => (
            "Berkeley DB 11g Release 2 white paper, 2011: the Wisconsin benchmark in SQL",
            "Its 32 queries, selections, joins, projections, aggregates and changes, on the standard \
             relations, by one user; and a table with two indices that is filled. Every result is compared \
             with what it must be.",
        ),
        "soliddata" => (
            "Berkeley DB on Solid Data storage, 2002",
            "Fifty threads that each read, change and write back small records in a transaction, and a \
             hundred threads of which one operation in five writes; on a disk, and in memory that is \
             written to one when power fails.",
        ),
        "bangdb" => (
            "BangDB, embedded, about 2012",
            "Random keys of 20 bytes and values of 100 to 400, four threads, ordered and hashed, with a log \
             that is flushed in the background and without one; with the data in the pool and larger than \
             it.",
        ),
        "ycsb" => (
            "YCSB core workloads, 2010",
            "Mixes of lookups, updates, insertions and scans of records of a thousand bytes, some of which \
             are wanted more than others.",
        ),
        "latency" => (
            "Latency",
            "How long single operations take under concurrency, at each durability, beside checkpoints and \
             without, with the operations counted that could not begin while another took long.",
        ),
        "engine" => (
            "The engine itself",
            "What the papers only name: recovery, opening, processes that attach, caches too small for the \
             data, hash tables, queues, several values for a key, indices.",
        ),
        "threen1" => (
            "GT.M and file systems: the 3n+1 problem, about 2010",
            "Worker processes that share one environment follow number sequences and store what they find.",
        ),
        _ => ("Measurements", ""),
    };
    About { title, what }
}
