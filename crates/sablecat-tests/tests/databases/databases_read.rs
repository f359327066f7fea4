//! Which databases there are, as something that a serialisable transaction has read: beside who makes and
//! removes them.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use sablecat::{Env, ErrorKind, Isolation, Result, Txn, TxnOptions};

fn at(isolation: Isolation) -> TxnOptions {
    TxnOptions::new().isolation(isolation)
}

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.expect_err("refused").kind()
}

/// Nothing is wrong, and no page is lost to use.
fn check(env: &Env) {
    env.checkpoint().unwrap();
    let report = env.verify(&mut |_| {}).unwrap();
    assert_eq!((report.problems, report.pages_unreachable), (vec![], 0));
}

#[test]
fn who_lists_names_conflicts_with_who_changes_them_and_with_nobody_else() {
    let env = Env::in_memory().unwrap();
    let count = env.database("count").unwrap();
    let list = |between: &dyn Fn()| {
        let mut txn = env.begin_with(at(Isolation::Serializable)).unwrap();
        let names = txn.databases().unwrap();
        txn.database(&format!("own {}", names.len())).unwrap();
        between();
        txn.insert(&count, "names", names.len().to_le_bytes()).unwrap();
        txn.commit()
    };
    list(&|| ()).unwrap();
    list(&|| drop(env.begin().unwrap().database("never"))).unwrap();
    assert_eq!(kind(list(&|| drop(env.database("phantom")))), ErrorKind::Conflict);
    check(&env);
}

#[test]
fn a_database_removed_after_it_was_read_is_a_conflict_for_the_reader() {
    let env = Env::in_memory().unwrap();
    for wins in [true, false] {
        let (read, other) = (env.database("read").unwrap(), env.database("other").unwrap());
        other.remove("k").unwrap();
        read.insert("a", "1").unwrap();
        // Each sees the state before the other: one of them has to go.
        let mut reader = env.begin_with(at(Isolation::Serializable)).unwrap();
        assert_eq!(reader.get(&read, "a").unwrap().as_deref(), Some(&b"1"[..]));
        reader.insert(&other, "k", "2").unwrap();
        let mut remover = env.begin_with(at(Isolation::Serializable)).unwrap();
        assert_eq!(remover.get(&other, "k").unwrap(), None);
        assert!(remover.remove_database("read").unwrap());
        if wins {
            reader.commit().unwrap();
            assert_eq!(kind(remover.commit()), ErrorKind::Conflict);
        } else {
            remover.commit().unwrap();
            assert_eq!(kind(reader.commit()), ErrorKind::Conflict);
        }
    }
    check(&env);
}

/// Each sees the state before the other: who found no database, and who made one. Whether the one looked for
/// a name, or in the database, which it had a handle of by then.
#[test]
fn a_database_created_after_it_was_found_not_to_be_there_is_a_conflict() {
    type Look = fn(&mut Txn<'_>, &Env);
    let found_none: [Look; 6] = [
        |txn, _| assert!(txn.existing_database("new").unwrap().is_none()),
        |txn, env| assert_eq!(kind(txn.get(&env.database("new").unwrap(), "k")), ErrorKind::NotFound),
        |txn, env| assert_eq!(kind(txn.first(&env.database("new").unwrap())), ErrorKind::NotFound),
        |txn, env| assert_eq!(kind(txn.len(&env.database("new").unwrap())), ErrorKind::NotFound),
        |txn, env| {
            assert_eq!(kind(txn.get_for_update(&env.database("new").unwrap(), "k")), ErrorKind::NotFound)
        },
        |txn, env| {
            let (new, other) = (env.database("new").unwrap(), env.database("other").unwrap());
            txn.get_with(&other, "there", |_| {
                assert_eq!(kind(txn.value_len(&new, "k")), ErrorKind::NotFound)
            })
            .unwrap();
        },
    ];
    for (n, look) in found_none.into_iter().enumerate() {
        for (isolation, removed) in
            [(Isolation::Serializable, false), (Isolation::Serializable, true), (Isolation::Snapshot, false)]
        {
            let env = Env::in_memory().unwrap();
            let other = env.database("other").unwrap();
            other.insert("there", "1").unwrap();
            let mut reader = env.begin_with(at(isolation)).unwrap();
            assert_eq!(reader.get(&other, "there").unwrap().as_deref(), Some(&b"1"[..]));
            let mut maker = env.begin_with(at(isolation)).unwrap();
            assert_eq!(maker.get(&other, "k").unwrap(), None);
            maker.database("new").unwrap();
            maker.commit().unwrap();
            look(&mut reader, &env);
            if removed {
                env.remove_database("new").unwrap();
            }
            reader.insert(&other, "k", "2").unwrap();
            match reader.commit() {
                Ok(_) => assert!(removed || isolation == Isolation::Snapshot, "look {n}"),
                Err(error) => assert!(!removed && error.kind() == ErrorKind::Conflict, "look {n}: {error}"),
            }
            check(&env);
        }
    }
}
