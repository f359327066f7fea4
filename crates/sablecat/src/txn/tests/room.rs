//! Transactions that change more pages than the cache has room for.

use super::*;
use crate::error::ErrorKind;

const FRAMES: usize = 128;
const RECORDS: u64 = 5000;

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// Records in some ten times as many leaves as there are frames.
fn store() -> Store {
    let store = Store::new(FRAMES, 6, Some(volume(1)));
    (0..RECORDS).for_each(|n| store.put(&key(n), &[0; 40]).unwrap());
    store
}

#[test]
fn a_transaction_that_cannot_fit_is_refused_and_takes_no_snapshot_from_anybody() {
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
        let store = store();
        let mut reader = store.begin(Isolation::Snapshot, true);
        let seen = |reader: &mut Transaction<'_>| reader.get(&store.tree, &key(7), |value| value.map(<[u8]>::to_vec)).unwrap();
        assert_eq!(seen(&mut reader), Some(vec![0; 40]));
        let mut txn = store.begin(isolation, false);
        assert!(txn.get(&store.tree, &key(1), |value| value.is_some()).unwrap());
        (0..RECORDS).for_each(|n| txn.set(&store.tree, &key(n), Some(&[1; 40])).unwrap());
        let error = txn.commit(Durability::Memory).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Full, "{isolation:?}: {error}");
        assert!(!error.is_retryable() && error.to_string().contains("the transaction needs"), "{error}");
        drop(txn);
        assert_eq!(seen(&mut reader), Some(vec![0; 40]), "others keep their snapshots");
        drop(reader);
        assert_eq!(store.get(&key(RECORDS - 1)), Some(vec![0; 40]));
        store.assert_nothing_leaks();
    }
}
