//! Keys: how they are ordered, and how to write numbers and tuples so that they sort.
//!
//! A key is a sequence of bytes. A database is sorted by keys, byte by byte, as numbers from 0 to 255. If one
//! key is the beginning of another, it comes first. That is the order of `&[u8]` in Rust, and of `str`. The
//! empty key is a valid key, and the first one.
//!
//! ```
//! # fn main() -> sablecat::Result<()> {
//! # let env = sablecat::Env::in_memory()?;
//! let db = env.database("words")?;
//! db.insert_batch([("b", ""), ("ab", ""), ("a", ""), ("B", ""), ("", "")])?;
//! let keys: Vec<_> = db.range(..)?.map(|record| Ok(record?.0)).collect::<sablecat::Result<_>>()?;
//! assert_eq!(keys, [&b""[..], b"B", b"a", b"ab", b"b"]);
//! # Ok(())
//! # }
//! ```
//!
//! Values have no order and no format: they are any bytes of the program.
//!
//! # Numbers
//!
//! Write unsigned integers with the highest byte first, always in the same number of bytes: `to_be_bytes`.
//! With the lowest byte first (`to_le_bytes`) they do not sort. Nor do decimal digits, unless they are padded
//! to one length.
//!
//! Signed integers sort when their highest bit is flipped. Floating-point numbers sort, as by `total_cmp`,
//! when the highest bit of positive ones and all bits of negative ones are flipped. To sort from the greatest
//! to the least, flip all bits of the ascending form.
//!
//! ```
//! fn unsigned(number: u64) -> [u8; 8] {
//!     number.to_be_bytes()
//! }
//! fn signed(number: i64) -> [u8; 8] {
//!     (number as u64 ^ 1 << 63).to_be_bytes()
//! }
//! fn float(number: f64) -> [u8; 8] {
//!     let bits = number.to_bits();
//!     (if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }).to_be_bytes()
//! }
//! fn descending(key: [u8; 8]) -> [u8; 8] {
//!     key.map(|byte| !byte)
//! }
//!
//! assert!(unsigned(255) < unsigned(256) && 255u64.to_le_bytes() > 256u64.to_le_bytes());
//! assert!(signed(i64::MIN) < signed(-1) && signed(-1) < signed(0) && signed(0) < signed(1));
//! assert!([f64::NEG_INFINITY, -1.5, -0.0, 0.0, 1e-300, 2.0].is_sorted_by_key(|number| float(*number)));
//! assert!(descending(unsigned(2)) < descending(unsigned(1)));
//! ```
//!
//! # Tuples
//!
//! Several values in one key: [`tuple::pack`](crate::tuple::pack) writes them so that keys sort element by
//! element, texts of any length and numbers of any size among them, and
//! [`tuple::unpack`](crate::tuple::unpack) reads them back.
//! [`tuple::beginning_with`](crate::tuple::beginning_with) is the range of those with the same first
//! elements.
//!
//! [`Subscript`](crate::globals::Subscript) and `Vec<Subscript>` are keys in the order of the language M
//! instead: the empty text, numbers by value, then texts. Each text that looks like a number is that number.
//!
//! By hand: parts of a fixed length are written one after the other. A part of any length must say where it
//! ends, in a way that sorts: if it never has a zero byte, as most text, end it with one. Do not write the
//! length before a text: then all short texts would sort before all long ones.
//!
//! ```
//! use sablecat::tuple::{pack, unpack};
//!
//! let texts = ["", "\0", "\0\0", "a", "a\0b", "ab"];
//! let tuples: Vec<_> = texts.iter().flat_map(|text| [pack(&(text, -7)), pack(&(text, 300))]).collect();
//! assert!(tuples.is_sorted());
//! assert_eq!(unpack::<(String, i64)>(&tuples[9])?, ("a\0b".to_owned(), 300));
//! # Ok::<(), sablecat::Error>(())
//! ```
//!
//! # Prefixes
//!
//! All keys with the same beginning are next to each other: [`Prefix`](crate::Prefix). So records can be
//! looked up by the first parts of a tuple. If the prefix includes the end of a part, exactly that part is
//! found; without it, all parts that begin with it.
//!
//! ```
//! # use sablecat::Prefix;
//! # fn main() -> sablecat::Result<()> {
//! # let env = sablecat::Env::in_memory()?;
//! let orders = env.database("orders")?;
//! for (customer, order) in [("ann", 1u32), ("ann", 2), ("anna", 3), ("bob", 4)] {
//!     orders.insert([customer.as_bytes(), &[0], &order.to_be_bytes()].concat(), "")?;
//! }
//! assert_eq!(orders.range(Prefix("ann\0"))?.count(), 2);
//! assert_eq!(orders.range(Prefix("ann"))?.count(), 3);
//!
//! // The last of a customer's; nothing is read but that.
//! let last = orders.range(Prefix("ann\0"))?.next_back().transpose()?;
//! assert_eq!(last.map(|(key, _)| key[4..].to_vec()), Some(2u32.to_be_bytes().to_vec()));
//! # Ok(())
//! # }
//! ```
//!
//! # Finding records by something else
//!
//! An [`Index`](crate::Index) (secondary index) finds records by what is in them, or by anything that a
//! function makes of them: the *extractor*, which is given when the environment is opened. The engine updates
//! the index with the records, in any process, so it is right after every commit. It may be unique, and its
//! keys may be foreign keys: keys of another database. `examples/secondary_index.rs` shows all of this.
//!
//! ```
//! use sablecat::{Env, IndexOptions};
//!
//! # fn main() -> sablecat::Result<()> {
//! let env = Env::builder().extractor("year", |_, film, years| years.push(&film[..4])).in_memory()?;
//! let films = env.database("films")?;
//! let by_year = env.index("films by year", &films, IndexOptions::new("year"))?;
//! films.insert("nosferatu", "1922 Murnau")?;
//! films.insert("metropolis", "1927 Lang")?;
//! films.insert("sunrise", "1927 Murnau")?;
//! for found in by_year.range(&env, "1925".."1930")? {
//!     let (year, film, value) = found?;
//!     assert_eq!((&*year, &value[..4]), (&b"1927"[..], &b"1927"[..]), "{film:?}");
//! }
//! assert_eq!(by_year.count(&env, "1927")?, 2);
//! # Ok(())
//! # }
//! ```
//!
//! Each change of a record with an index is a transaction that reads the old record. Several changes in one
//! [`Env::write`](crate::Env::write) share that transaction. An extractor must always return the same keys
//! for the same record; to change it, register the new one under another name, create a new index with that,
//! and remove the old index.
//!
//! # Long keys and long values
//!
//! Keys have up to 65,536 bytes, values up to 4,294,967,295. A longer one is
//! [`Invalid`](crate::ErrorKind::Invalid).
//!
//! Short keys are cheap, and what the keys of a page have in common is stored once. From an eighth of a page
//! less 16 bytes on (496, with pages of 4,096) keys cost more: they are split into slices of that length, and
//! each slice takes a search of its own, and a page of its own if no other key begins with it. So file paths
//! of usual lengths are fine, but thousands of long keys with nothing in common waste most of a page each.
//! For these choose larger pages ([`Builder::page_size`](crate::Builder::page_size)), or use a hash as the
//! key and put the long key into the value.
//!
//! ```
//! # fn main() -> sablecat::Result<()> {
//! # let env = sablecat::Env::in_memory()?;
//! let db = env.database("long")?;
//! db.insert(vec![b'x'; 65_536], "the longest")?;
//! assert_eq!(db.insert(vec![b'x'; 65_537], "").unwrap_err().kind(), sablecat::ErrorKind::Invalid);
//! # Ok(())
//! # }
//! ```
//!
//! Long values have pages of their own: those that, with their key, have more than three eighths of a page
//! (1,478 bytes of 4 KiB; in hash tables 734). [`Database::read_at`](crate::Database::read_at) reads a part
//! of one.
//!
//! # Hash tables
//!
//! A database may be a hash table: [`Env::database_as`](crate::Env::database_as) with
//! [`Method::Hash`](crate::Method::Hash). A record is then looked up in the one page that its key's hash
//! leads to, not on a path down a tree that compares keys. Choose it for records that are looked up by their
//! whole keys, in no order: sessions, caches, random identifiers, hashes of content. It inserts faster than a
//! B+tree where keys come in no order; everything else (transactions, snapshots, long keys and values, any
//! durability) is the same. Choose a B+tree, which is the default, if you need ranges of keys, prefixes, the
//! first or the last record, if keys come in order, or if records that are used together have similar keys:
//! these are in one page of a B+tree, and in as many pages of a hash table as there are records.
//!
//! Its order is that of the hashes of keys, with a seed that each database draws for itself. Ranges, cursors
//! and [`first`](crate::Database::first) go by that order. So a range from one key to another has the records
//! whose hashes are between theirs: a bound is useful to continue where an earlier read ended, and for little
//! else. Prefixes are refused. A bulk load takes records in any order.
//!
//! ```
//! # use std::ops::Bound;
//! # use sablecat::{Env, Method, Prefix};
//! # fn main() -> sablecat::Result<()> {
//! let env = Env::in_memory()?;
//! let sessions = env.database_as("sessions", Method::Hash)?;
//! sessions.bulk_load((0..1000u32).rev().map(|n| (n.to_string(), "somebody")))?;
//! assert_eq!(sessions.get("70")?.as_deref(), Some(&b"somebody"[..]));
//!
//! // All of them, a hundred at a time, while others may change some.
//! let (mut from, mut seen) = (Bound::Unbounded, 0);
//! loop {
//!     let some: Vec<_> =
//!         sessions.range((from.clone(), Bound::Unbounded))?.take(100).collect::<sablecat::Result<_>>()?;
//!     seen += some.len();
//!     let Some((last, _)) = some.last() else { break };
//!     from = Bound::Excluded(last.clone());
//! }
//! assert_eq!(seen, 1000);
//! assert!(sessions.range(Prefix("7")).is_err());
//! # Ok(())
//! # }
//! ```
//!
//! # More than memory holds
//!
//! An update of a B+tree reads the page that its record is in, and later writes it: where the records are
//! many times what the cache holds, two transfers for each record that is updated at random. An *LSM tree*,
//! [`Method::Lsm`](crate::Method::Lsm), collects what is written in memory, and merges it in the background,
//! in order, with what was written before. Choose it for records that are written more often than they are
//! read and far more than memory: measurements, events, histories by key. A lookup takes about as many
//! transfers as in a B+tree. Ranges, snapshots, transactions and durability are the same; keys fit a page
//! (495 bytes with pages of 4 KiB). It takes more of the disk: what was merged stays until snapshots that see
//! it end, and a record that was changed is there again until its layers are merged. Values so long that they
//! have pages of their own are written once, and not moved by merges. Queues cannot be in one. A Data Store
//! can write to one, but merges nothing. Where nothing runs in the background
//! ([`Builder::background`](crate::Builder::background)), commits merge.
//!
//! ```
//! # use sablecat::{Env, Method};
//! # fn main() -> sablecat::Result<()> {
//! let env = Env::in_memory()?;
//! let readings = env.database_as("readings", Method::Lsm)?;
//! for (minute, sensor) in (0..60u32).flat_map(|minute| (0..10u8).map(move |sensor| (minute, sensor))) {
//!     readings.insert([&[sensor][..], &minute.to_be_bytes()].concat(), "20.5")?;
//! }
//! assert_eq!(readings.range([7]..[8])?.count(), 60);
//! # Ok(())
//! # }
//! ```
//!
//! # Numbers of records
//!
//! A *counted* B+tree, [`Method::Counted`](crate::Method::Counted), knows the number of a key in the order of
//! keys, and the record with a number, without going through the records before it:
//! [`rank`](crate::Database::rank), [`nth`](crate::Database::nth), [`count`](crate::Database::count). Choose
//! it for ranked lists, pages of results, medians. Adding and removing records costs about twice as much
//! there, waiting not counted, and is done by one commit at a time.
//!
//! ```
//! # use sablecat::{Env, Method};
//! # fn main() -> sablecat::Result<()> {
//! let env = Env::in_memory()?;
//! let times = env.database_as("times", Method::Counted)?;
//! times.insert_batch((0..999u32).map(|n| ((n * n).to_be_bytes(), "")))?;
//! let median = times.nth(times.len()? / 2)?.map(|(key, _)| key);
//! assert_eq!(median.as_deref(), Some(&(499 * 499u32).to_be_bytes()[..]));
//! assert_eq!(times.rank(1_000u32.to_be_bytes())?, 32);
//! # Ok(())
//! # }
//! ```
//!
//! # Another order
//!
//! A database may have an order of the program's own: [`Builder::comparator`](crate::Builder::comparator).
//! Every process must register it, the same one, whenever it opens the environment: without it the database
//! cannot be opened. Its keys have at most an eighth of a page less 16 bytes, it cannot be asked for
//! prefixes, and every search calls the function. Keys whose bytes sort as needed are simpler.
//!
//! ```
//! # use sablecat::{Env, ErrorKind, Prefix};
//! # fn main() -> sablecat::Result<()> {
//! let env = Env::builder().comparator("backwards", |one, other| other.cmp(one)).in_memory()?;
//! let db = env.database_ordered_by("letters", "backwards")?;
//! db.insert_batch([("a", ""), ("b", "")])?;
//! assert_eq!(db.first()?, Some((b"b".to_vec(), vec![])));
//! db.insert([b'x'; 496], "the longest, with pages of 4096 bytes")?;
//! for error in [db.insert([b'x'; 497], "").unwrap_err(), db.range(Prefix("a")).unwrap_err()] {
//!     assert_eq!(error.kind(), ErrorKind::Invalid);
//! }
//! # Ok(())
//! # }
//! ```
