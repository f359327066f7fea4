//! How large databases are said to be, beside how large they are.

use std::ops::Bound;

use sablecat::{Database, DatabaseStats, Env, ErrorKind, Isolation, KeyRange, Method, Prefix, Read};

fn key(n: u64) -> [u8; 8] {
    // A bijection that scatters the keys.
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Pages and records that there are, by looking at all.
fn true_of(env: &Env) -> (u64, u64) {
    let report = env.verify(&mut |_| {}).expect("verified");
    assert_eq!(report.problems, Vec::<String>::new());
    // The catalog has one page.
    (report.pages - 1, report.records)
}

fn with_database() -> (Env, Database) {
    let env = Env::builder().cache_size(256 << 20).background(false).in_memory().expect("made");
    let db = env.database("d").expect("created");
    (env, db)
}

/// Whether a number is within so many percent of another.
fn is_near(said: u64, is: u64, percent: u64) -> bool {
    said.abs_diff(is) * 100 <= is * percent
}

#[test]
fn small_databases_are_told_exactly() {
    let (env, db) = with_database();
    let empty = db.stats().expect("looked");
    assert_eq!((empty.depth, empty.pages, empty.records, empty.bytes, empty.is_exact), (1, 1, 0, 0, true));
    assert_eq!((empty.fill(), DatabaseStats::default().fill()), (0.0, 0.0));
    let mut sizes = 0;
    for n in 0..1500 {
        db.insert(key(n), [7; 40]).expect("inserted");
        if n % 100 == 99 {
            let said = db.stats().expect("looked");
            let (pages, records) = true_of(&env);
            assert_eq!((said.pages, said.records, said.is_exact), (pages, records, true), "after {n}");
            assert_eq!(said.depth, 1 + u32::from(pages > 1));
            assert!(said.bytes > records * 44 && said.bytes < pages * said.page_size, "{said:?}");
            sizes += u32::from(pages > 1);
        }
    }
    assert!(sizes > 10, "a root that is a leaf, and one that has leaves below it");
}

#[test]
fn large_databases_are_told_about_right_and_the_same_each_time() {
    let (env, db) = with_database();
    let mut depths = Vec::new();
    for (from, to) in [(0, 20_000), (20_000, 120_000)] {
        (from..to).for_each(|n| db.insert(key(n), [7; 40]).expect("inserted"));
        let (pages, records) = true_of(&env);
        let said = db.stats().expect("looked");
        assert!(
            is_near(said.pages, pages, 8) && is_near(said.records, records, 8),
            "{said:?} of {pages} pages and {records} records"
        );
        assert!(!said.is_exact && (0.5..0.9).contains(&said.fill()), "{said:?}: {}", said.fill());
        assert_eq!(db.stats().expect("looked again"), said);
        depths.push(said.depth);
    }
    assert_eq!(depths, [3, 3]);
    // Of every four two, so that pages are emptier than before.
    let fill = db.stats().expect("looked").fill();
    (0..120_000).filter(|n| n % 4 < 2).for_each(|n| assert!(db.remove(key(n)).expect("removed")));
    let (pages, records) = true_of(&env);
    let said = db.stats().expect("looked");
    assert!(
        is_near(said.pages, pages, 8) && is_near(said.records, records, 8),
        "{said:?} of {pages} pages and {records} records"
    );
    assert!(said.fill() < fill, "{said:?}");
}

/// Pages with many children weigh as much as what is below them: who took each child of the root for the same
/// would be far off.
#[test]
fn parts_that_are_unequal_are_weighed() {
    let (env, db) = with_database();
    // Far more records to a page, and far more pages below an inner one, in one part than in the other.
    (0..60_000u64).for_each(|n| db.insert([&b"a"[..], &key(n)].concat(), b"").expect("inserted"));
    (0..6_000u64)
        .for_each(|n| db.insert([&b"b"[..], &key(n), &[b'x'; 300]].concat(), [7; 300]).expect("inserted"));
    let (pages, records) = true_of(&env);
    let said = db.stats().expect("looked");
    assert!(
        is_near(said.pages, pages, 15) && is_near(said.records, records, 15),
        "{said:?} of {pages} pages and {records} records"
    );
}

#[test]
fn long_keys_and_values_count() {
    let (env, db) = with_database();
    (0..20u8).for_each(|n| db.insert([&[b'k'; 600][..], &[n]].concat(), b"nested").expect("inserted"));
    db.insert("long", vec![7; 1 << 20]).expect("inserted");
    let said = db.stats().expect("looked");
    assert_eq!((said.pages, said.records), true_of(&env));
    assert!(said.is_exact && said.records == 21 && said.bytes > 1 << 20, "{said:?}");
    // So many subtrees that not all are looked at.
    (0..2000u64).for_each(|n| {
        (0..1 + n % 3).for_each(|m| {
            db.insert([&key(n)[..], &[b'k'; 600], &[m as u8]].concat(), b"nested").expect("inserted")
        });
    });
    let (pages, records) = true_of(&env);
    let said = db.stats().expect("looked");
    assert!(
        !said.is_exact && is_near(said.records, records, 20) && is_near(said.pages, pages, 20),
        "{said:?} of {pages}, {records}"
    );
}

#[test]
fn what_is_gone_has_no_size_and_a_data_stores_has() {
    let (env, db) = with_database();
    assert!(env.remove_database("d").expect("removed"));
    assert_eq!(db.stats().expect_err("it is gone").kind(), ErrorKind::NotFound);
    let mut store = Env::builder().data_store_in_memory().expect("made");
    let words = store.database("words").expect("created");
    (0..5000).for_each(|n| store.insert(&words, key(n), [7; 40]).expect("inserted"));
    let said = store.database_stats(&words).expect("looked");
    assert!(is_near(said.records, 5000, 5) && said.depth == 2, "{said:?}");
}

/// How many records there are in a range.
fn count(db: &Database, (lower, upper): (Bound<&[u8]>, Bound<&[u8]>)) -> u64 {
    db.range((lower, upper)).expect("read").inspect(|record| assert!(record.is_ok())).count() as u64
}

/// Numbers that look random.
fn numbers() -> impl Iterator<Item = u64> {
    (1u64..).map(|n| {
        (n ^ n << 31).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(29).wrapping_mul(0x94d0_49bb_1331_11eb)
    })
}

#[test]
fn the_records_of_ranges_are_told_exactly_where_they_are_few_and_about_right_where_not() {
    let (_env, db) = with_database();
    (0..120_000).for_each(|n| db.insert(key(n), [7; 40]).expect("inserted"));
    let (mut exact, mut about) = (0, 0);
    let mut numbers = numbers();
    for round in 0..200 {
        let from = numbers.next().expect("endless");
        // From a few records to all that there are above.
        let to = from.saturating_add(numbers.next().expect("endless") >> (round % 20));
        let (lower, upper) = (from.to_be_bytes(), to.to_be_bytes());
        let bounds = match round % 4 {
            0 => (Bound::Included(&lower[..]), Bound::Included(&upper[..])),
            1 => (Bound::Excluded(&lower[..]), Bound::Excluded(&upper[..])),
            2 => (Bound::Unbounded, Bound::Excluded(&upper[..])),
            _ => (Bound::Included(&lower[..]), Bound::Unbounded),
        };
        let (said, is) = (db.estimate(bounds).expect("looked"), count(&db, bounds));
        if said.is_exact {
            assert_eq!(said.records, is, "{bounds:?}");
            exact += 1;
        } else {
            assert!(is > 2000 && is_near(said.records, is, 12), "{said:?} of {is} in {bounds:?}");
            about += 1;
        }
        assert_eq!(db.estimate(bounds).expect("looked again"), said);
    }
    assert!(exact > 20 && about > 20, "{exact} exactly, {about} about");
    // Between two neighbours, at a record, behind all, and the wrong way round.
    let mut keys: Vec<_> = (0..120_000).map(key).collect();
    keys.sort_unstable();
    for two in keys.windows(2).step_by(997) {
        let said = [
            db.estimate((Bound::Excluded(two[0]), Bound::Excluded(two[1]))),
            db.estimate(two[0]..two[1]),
            db.estimate(two[0]..=two[1]),
            db.estimate(two[1]..two[0]),
        ];
        let said = said.map(|said| said.map(|said| (said.records, said.is_exact)).expect("looked"));
        assert_eq!(said, [(0, true), (1, true), (2, true), (0, true)]);
    }
    assert_eq!(db.estimate([u8::MAX; 9]..).expect("looked").records, 0);
}

#[test]
fn ranges_are_told_of_with_comparators_prefixes_long_keys_and_in_hash_tables_and_data_stores() {
    let backwards = |one: &[u8], other: &[u8]| other.cmp(one);
    let env = Env::builder().comparator("backwards", backwards).background(false).in_memory().expect("made");
    let db = env.database_ordered_by("backwards", "backwards").expect("created");
    (0..5000u32).for_each(|n| db.insert(n.to_be_bytes(), [7; 40]).expect("inserted"));
    let few = db.estimate(400u32.to_be_bytes()..300u32.to_be_bytes()).expect("looked");
    assert_eq!((few.records, few.is_exact), (100, true));
    assert_eq!(
        db.estimate(Prefix("")).expect_err("keys that begin alike are anywhere").kind(),
        ErrorKind::Invalid
    );

    let db = env.database("long keys").expect("created");
    for begins in ["a", "b", "c"] {
        (0..40u8)
            .for_each(|n| db.insert([begins.as_bytes(), &[b'k'; 600], &[n]].concat(), "").expect("inserted"));
        db.insert(begins, "short").expect("inserted");
    }
    let b = db.estimate(Prefix("b")).expect("looked");
    assert_eq!((b.records, b.is_exact), (41, true));
    let within = db.estimate([&b"b"[..], &[b'k'; 600], &[20]].concat()..).expect("looked");
    assert!(!within.is_exact && (41..=82).contains(&within.records), "{within:?}: 61");

    let db = env.database_as("hash", Method::Hash).expect("created");
    (0..20_000).for_each(|n| db.insert(key(n), [7; 40]).expect("inserted"));
    let half = db.range(..).expect("read").nth(9_999).expect("there").expect("read").0.to_vec();
    for (said, is) in
        [(db.estimate(..), 20_000), (db.estimate(..=&half), 10_000), (db.estimate(&half..), 10_001)]
    {
        let said = said.expect("looked").records;
        assert!(is_near(said, is, 12), "{said} of {is}");
    }

    let mut store = Env::builder().data_store_in_memory().expect("made");
    let db = store.database("d").expect("created");
    (0..100u8).for_each(|n| store.insert(&db, [n], "").expect("inserted"));
    assert_eq!(store.estimate(&db, [10]..[30]).expect("looked").records, 20);
}

/// What a range is said to have, if that is exact.
fn exactly<S: Read>(from: &S, db: &Database<S::Of>, keys: impl KeyRange) -> u64 {
    let said = from.estimate(db, keys).expect("looked");
    assert!(said.is_exact, "{said:?}");
    said.records
}

#[test]
fn a_transaction_estimates_what_it_has_pending_with_what_its_snapshot_has() {
    for method in [Method::Btree, Method::Counted, Method::Hash] {
        let env = Env::builder().background(false).in_memory().expect("made");
        let db = env.database_as("d", method).expect("created");
        db.insert_batch((0..200u64).map(|n| (key(n), "before"))).expect("inserted");
        let before = env.snapshot().expect("a seat");
        let mut txn = env.begin().expect("a seat");
        for n in 0..50 {
            txn.insert(&db, key(1000 + n), "new").expect("set");
            txn.insert(&db, key(n), "changed").expect("set");
            txn.remove(&db, key(100 + n)).expect("removed");
            // Of these there are none, and there were none.
            txn.remove(&db, key(2000 + n)).expect("nothing to remove");
        }
        assert_eq!(exactly(&txn, &db, ..), 200);
        if method != Method::Hash {
            let (low, high) = ([1 << 6; 8], [3 << 6; 8]);
            assert_eq!(exactly(&txn, &db, low..high), txn.count(&db, low..high).expect("counted"));
            txn.remove_range(&db, low..high).expect("removed");
            txn.insert(&db, [1 << 7; 8], "set within it").expect("set");
            assert_eq!(exactly(&txn, &db, low..high), 1);
            assert_eq!(exactly(&txn, &db, high..low), 0);
            assert_eq!(exactly(&txn, &db, ..), txn.count(&db, ..).expect("counted"));
        }
        txn.insert(&db, "one more", "").expect("set");
        let all = exactly(&txn, &db, ..);
        assert_eq!(all, txn.len(&db).expect("counted"));
        assert_eq!((exactly(&env, &db, ..), exactly(&before, &db, ..)), (200, 200));
        txn.commit().expect("committed");
        assert_eq!((exactly(&env, &db, ..), exactly(&before, &db, ..)), (all, 200));
    }
}

#[test]
fn what_is_pending_in_a_large_range_corrects_what_is_about_right() {
    let (env, db) = with_database();
    (0..60_000).for_each(|n| db.insert(key(n), [7; 40]).expect("inserted"));
    let mut txn = env.begin().expect("a seat");
    let all = txn.estimate(&db, ..).expect("looked");
    assert!(!all.is_exact && is_near(all.records, 60_000, 12), "{all:?}");
    (60_000..90_000).for_each(|n| txn.insert(&db, key(n), "").expect("set"));
    let with = txn.estimate(&db, ..).expect("looked");
    assert_eq!((with.records, with.is_exact), (all.records + 30_000, false));
    let gone = txn.remove_range(&db, [0x40]..[0xc0]).expect("removed");
    let left = txn.estimate(&db, ..).expect("looked");
    assert!(is_near(left.records, 90_000 - gone, 12), "{left:?} of {}", 90_000 - gone);
    assert_eq!(exactly(&txn, &db, [0x50]..[0x60]), 0);
}

#[test]
fn databases_that_a_transaction_makes_and_removes_are_estimated_as_they_are_read() {
    let env = Env::builder().background(false).in_memory().expect("made");
    let old = env.database("old").expect("created");
    old.insert("key", "value").expect("inserted");
    let mut txn = env.begin().expect("a seat");
    let new = txn.database("new").expect("made");
    assert_eq!(exactly(&txn, &new, ..), 0);
    (0..30u8).for_each(|n| txn.insert(&new, [n], "").expect("set"));
    assert_eq!((exactly(&txn, &new, ..), exactly(&txn, &new, [10]..[15])), (30, 5));
    assert!(txn.remove_database("old").expect("there") && txn.remove_database("new").expect("there"));
    for db in [&old, &new] {
        let (said, got) = (txn.estimate(db, ..).expect_err("gone"), txn.get(db, "key").expect_err("gone"));
        assert_eq!((said.kind(), said.to_string()), (ErrorKind::NotFound, got.to_string()));
    }
    assert_eq!(exactly(&env, &old, ..), 1);
    drop(txn);
    let (said, got) = (new.estimate(..).expect_err("not made"), new.get("key").expect_err("not made"));
    assert_eq!((said.kind(), said.to_string()), (got.kind(), got.to_string()));
    let elsewhere = Env::in_memory().expect("made").database("old").expect("created");
    assert_eq!(env.begin().expect("a seat").estimate(&elsewhere, ..).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn an_estimate_does_not_count_as_read() {
    let env = Env::builder().isolation(Isolation::Serializable).background(false).in_memory().expect("made");
    let db = env.database("d").expect("created");
    db.insert_batch((0..100u8).map(|n| ([n], ""))).expect("inserted");
    for counts in [false, true] {
        let mut txn = env.begin().expect("a seat");
        txn.get(&db, [0]).expect("read: it has its snapshot");
        // Others come first, beside what it sets, and at what it sets.
        db.insert([101 + u8::from(counts)], "").expect("inserted");
        db.insert([50], "theirs").expect("inserted");
        txn.insert(&db, [50], "its own").expect("set without having been read");
        assert_eq!(exactly(&txn, &db, ..), 100 + u64::from(counts));
        if counts {
            assert_eq!(txn.count(&db, ..).expect("counted"), 101);
        }
        assert_eq!(txn.commit().map_err(|error| error.kind()).err(), counts.then_some(ErrorKind::Conflict));
    }
}

#[test]
fn records_of_a_kilobyte_lie_beside_each_other() {
    let (env, db) = with_database();
    let (records, bytes) = (3000, 1000);
    for n in 0..records {
        db.insert(key(n), vec![7; bytes]).expect("inserted");
    }
    let (pages, there) = true_of(&env);
    assert_eq!(there, records);
    // Three fit a page, and two do after any split.
    assert!(pages * 2 < there * 5 / 4, "{pages} pages");
    // One that does not fit beside another has pages of its own.
    db.insert("long", vec![8; 1500]).expect("inserted");
    assert!(true_of(&env).0 > pages && db.get("long").expect("read").is_some_and(|long| long.len() == 1500));
}

/// Leaves and what is above them, of so many records of a kilobyte with these keys, inserted in this order.
fn pages_of(keys: impl Iterator<Item = Vec<u8>>) -> u64 {
    let (env, db) = with_database();
    keys.for_each(|key| db.insert(key, [7; 1000]).expect("inserted"));
    true_of(&env).0
}

#[test]
fn a_leaf_of_few_records_is_divided_evenly_with_the_one_it_is_split_for() {
    let mut state = 7u64;
    let scattered = (0..3000).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state ^ (state >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd).to_be_bytes().to_vec()
    });
    // Of three to a leaf there are 2.33 in the mean, if each of which a fourth comes has two and two then.
    let pages = pages_of(scattered);
    assert!(pages < 3000 * 10 / 22, "{pages} pages");
}

#[test]
fn records_in_order_fill_the_leaves_wherever_they_come() {
    let around = || (0..40u64).map(|n| [&[if n % 2 == 0 { b'a' } else { b'z' }][..], &key(n)].concat());
    let between = |n: u64| [b"m", &n.to_be_bytes()[..]].concat();
    for pages in [
        pages_of(around().chain((0..1200).map(between))),
        pages_of(around().chain((0..1200).rev().map(between))),
    ] {
        assert!(pages < 1200 / 3 + 50, "{pages} pages");
    }
}
