//! Cursors of records that expire: what they look for, and what they set.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use sablecat::{Env, Expiring};

const HOUR: Duration = Duration::from_secs(3600);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Of some keys there are records, of others records that have expired.
    #[test]
    fn what_has_expired_is_not_found(
        keys in prop::collection::btree_map(0u8..12, any::<bool>(), 0..10),
        wanted in 0u8..12,
        set in 0u8..12,
    ) {
        let env = Env::in_memory().expect("created");
        let records = Expiring::open(&env, "d").expect("created");
        let mut txn = env.begin().expect("begun");
        for (key, is_live) in &keys {
            let lifetime = if *is_live { HOUR } else { Duration::ZERO };
            records.insert(&mut txn, [*key], "value", lifetime).expect("set");
        }
        let mut live: BTreeSet<u8> =
            keys.into_iter().filter_map(|(key, is_live)| is_live.then_some(key)).collect();
        let mut cursor = records.cursor();

        let found = live.range(wanted..).next().or_else(|| live.range(..wanted).next_back()).copied();
        prop_assert_eq!(cursor.seek(&txn, [wanted]).expect("read"), found.map(|found| found.cmp(&wanted)));
        prop_assert_eq!(cursor.key().map(|key| key[0]), found);

        prop_assert_eq!(cursor.insert_new(&mut txn, [set], "new", HOUR).expect("set"), live.insert(set));
        prop_assert_eq!(cursor.key(), Some(&[set][..]));
        let other = cursor.clone();
        let next = live.range(set + 1..).next().copied();
        prop_assert_eq!(cursor.next(&txn).expect("read").map(|key| key[0]), next);
        prop_assert_eq!(cursor.compare(&other).expect("of one database"), Some(Ordering::Greater));

        cursor.insert(&mut txn, [wanted], "set", HOUR).expect("set");
        live.insert(wanted);
        prop_assert_eq!(cursor.value(&txn).expect("read"), Some(b"set".to_vec()));
        let before = live.range(..wanted).next_back().copied();
        prop_assert_eq!(cursor.prev(&txn).expect("read").map(|key| key[0]), before);
    }
}
