//! A line of each kind of thing that sablecat stores and does: those of the table in the README.
//!
//! `cargo run -p sablecat --example tour [DIRECTORY]`

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use sablecat::globals::{Globals, Subscript};
use sablecat::typed::Typed;
#[cfg(all(feature = "encryption", feature = "zstd"))]
use sablecat::{Compression, EncryptionKey};
use sablecat::{
    DatabaseOptions, Duplicates, Env, Expiring, Index, IndexOptions, Isolation, Method, MultiMap, Numbered,
    OnRemove, Queue, Result, SequenceOptions, TextFile, TxnOptions, tuple,
};

fn main() -> Result<()> {
    let chosen = env::args_os().nth(1).map(PathBuf::from);
    let directory = chosen.unwrap_or_else(|| env::temp_dir().join("sablecat-tour"));
    // A person is a city and a name.
    let part = |n: usize| {
        move |_: &[u8], person: &[u8], keys: &mut sablecat::IndexKeys| {
            person.split(|&byte| byte == b',').nth(n).into_iter().for_each(|part| keys.push(part));
        }
    };
    let env = Env::builder().extractor("city", part(0)).extractor("name", part(1)).open(&directory)?;

    // Records in the order of their keys, or by their hashes, or with numbers, or merged in the background.
    let people = env.database("people")?;
    people.insert("1", "Rome,Livia")?;
    people.insert("2", "Oslo,Kari")?;
    assert_eq!(people.range("1".."3")?.count(), 2);
    let sessions = env.database_as("sessions", Method::Hash)?;
    sessions.insert("4f1c", "ada")?;
    let scores = env.database_as("scores", Method::Counted)?;
    scores.insert("ada", "70")?;
    assert_eq!(scores.nth(0)?.map(|(name, _)| name).as_deref(), Some(&b"ada"[..]));

    let readings = env.database_as("readings", Method::Lsm)?;
    readings.insert("7/2026-11-29", "20.5")?;
    assert_eq!(readings.range("7/".."8")?.count(), 1);

    // Records that are gone from a time on.
    let logins = Expiring::open(&env, "logins")?;
    env.write(|txn| logins.insert(txn, "4f1c", "ada", Duration::from_secs(3600)))?;
    assert!(logins.contains_key(&env, "4f1c")?);

    // Records that are gone when nobody has the environment open any more, in one transaction with others.
    let online = env.database_with("online", DatabaseOptions::new().temporary(true))?;
    env.write(|txn| {
        txn.insert(&online, "ada", "line 7")?;
        txn.insert(&people, "3", "Lima,Rosa")
    })?;

    // Queues, records by number, files of lines.
    let jobs = Queue::open(&env, "jobs", 32)?;
    jobs.append_one("wash")?;
    let (_, job) = jobs.consume_wait()?;
    assert!(job.starts_with(b"wash"));
    let steps = Numbered::open_renumbered(&env, "steps")?;
    env.write(|txn| steps.append(txn, "rinse").map(drop))?;
    let notes = TextFile::open(Numbered::open_renumbered(&env, "notes")?, directory.join("notes.txt"))?;
    env.write(|txn| notes.numbered().append(txn, "a line").map(drop))?;
    notes.sync()?;

    // Several values for a key; what is found by something else than the key.
    let tags = MultiMap::open(&env, "tags", Duplicates::Sorted)?;
    env.write(|txn| tags.insert(txn, "rose", "red").map(drop))?;
    let by_city = env.index("people by city", &people, IndexOptions::new("city"))?;
    assert_eq!(by_city.get_all(&env, "Rome")?.count(), 1);
    let by_name = env.index("people by name", &people, IndexOptions::new("name"))?;
    assert_eq!(Index::join(&env, &[(&by_city, b"Rome"), (&by_name, b"Livia")])?.count(), 1);

    // Houses are in cities, and go with these.
    let (cities, houses) = (env.database("cities")?, env.database("houses")?);
    let in_city = IndexOptions::new("city").references(&cities, OnRemove::Cascade);
    env.index("houses by city", &houses, in_city)?;
    env.write(|txn| {
        txn.insert(&cities, "Rome", "")?;
        txn.insert(&houses, "7", "Rome,Via Appia")?;
        txn.remove(&cities, "Rome")?;
        assert!(!txn.contains_key(&houses, "7")?);
        Ok(())
    })?;

    // From record to record; and a part of a value.
    env.write(|txn| {
        let mut cursor = people.cursor();
        cursor.at_or_after(txn, "2")?;
        cursor.put(txn, "Oslo,Kari")?;
        assert_eq!(cursor.next(txn)?, Some(&b"3"[..]));
        Ok(())
    })?;
    people.splice("1", 0, 4, "Bari")?;
    people.splice("1", 0, 4, "Rome")?;

    // Keys of several values, types, trees of nodes.
    let orders = env.database("orders")?;
    orders.insert(tuple::pack(&("ada", 2026, 7)), "tea")?;
    let paid: Typed<(String, u32), u64> = Typed::open(&env, "paid")?;
    env.write(|txn| paid.insert(txn, &("ada".to_owned(), 20), &700))?;
    let parts: Typed<Subscript<'static>, u32> = Typed::open(&env, "parts")?;
    env.write(|txn| parts.insert(txn, &Subscript::from("9.5"), &7))?;
    let globals = Globals::open(&env, "globals")?;
    let acct = globals.global("acct")?;
    env.write(|txn| acct.at(42).at("name").set(txn, "Ada"))?;

    // In one call.
    let counts = env.database("counts")?;
    counts.increment("visits", 1)?;
    counts.compare_and_swap("leader", None, Some(b"ada"))?;
    let invoice = counts.sequence("invoice", SequenceOptions::new())?.next()?;
    assert!(invoice > 0);
    orders.remove_range(tuple::pack(&("ada", 2020))..tuple::pack(&("ada", 2024)))?;
    let about = orders.estimate(..)?;
    assert_eq!(about.records, 1);

    // Pages that are compressed, files that are encrypted.
    #[cfg(all(feature = "encryption", feature = "zstd"))]
    {
        let (key, letters) = (EncryptionKey::random(), directory.join("letters"));
        let builder = Env::builder().page_size(16384).compression(Compression::zstd());
        builder.encryption_key(key).open(&letters)?.rotate_key()?;
        std::fs::remove_dir_all(&letters).expect("removed");
    }

    // Transactions.
    env.write_with(TxnOptions::new().isolation(Isolation::Snapshot), |txn| txn.insert(&counts, "a", "b"))?;
    let snapshot = env.snapshot()?;
    assert_eq!(snapshot.get(&people, "2")?.as_deref(), Some(&b"Oslo,Kari"[..]));
    println!("a line of each: {} databases", env.databases()?.len());
    Ok(())
}
