//! How databases are arranged, and what they hold.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use sablecat::{DatabaseOptions, Duplicates, Env, ErrorKind, Expiring, Holds, Method};

/// What could not be opened as what it holds is not made.
#[test]
fn a_database_is_not_made_in_a_way_in_which_it_cannot_hold_what_it_is_to_hold() {
    let env = Env::builder().comparator("reversed", |a, b| b.cmp(a)).in_memory().unwrap();
    let ordered = [
        Holds::Values(Duplicates::Sorted),
        Holds::Values(Duplicates::Inserted),
        Holds::Queue { record_bytes: 4, pad: 0 },
        Holds::Numbers { record_bytes: None, pad: 0 },
        Holds::Renumbered { record_bytes: None, pad: 0 },
        Holds::Globals,
    ];
    let options = |holds| DatabaseOptions::new().holds(holds);
    let refused = |options: DatabaseOptions| {
        let error = env.database_with("db", options.clone()).unwrap_err();
        assert_eq!(
            (error.kind(), env.write(|txn| txn.database_with("db", options.clone())).unwrap_err().kind()),
            (ErrorKind::Invalid, ErrorKind::Invalid)
        );
        assert!(error.to_string().contains(r#"the database "db" as "#), "{error}");
    };
    for holds in ordered {
        refused(options(holds).method(Method::Hash));
        refused(options(holds).ordered_by("reversed"));
    }
    refused(options(Holds::Expiring).ordered_by("reversed"));
    refused(options(Holds::Renumbered { record_bytes: None, pad: 0 }).method(Method::Btree));
    for holds in [
        Holds::Queue { record_bytes: 0, pad: 0 },
        Holds::Numbers { record_bytes: Some(0), pad: 0 },
        Holds::Renumbered { record_bytes: Some(0), pad: 0 },
    ] {
        let error = env.database_with("db", options(holds)).unwrap_err();
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("of 0 bytes"), "{error}");
    }
    assert!(env.databases().unwrap().is_empty());
    for (n, holds) in ordered.into_iter().enumerate() {
        let method =
            env.database_with(&format!("{n}"), options(holds).method(Method::Counted)).unwrap().method();
        assert_eq!(method, Method::Counted);
    }
    for method in [Method::Btree, Method::Hash, Method::Counted] {
        let name = method.to_string();
        env.database_with(&name, options(Holds::Expiring).method(method)).unwrap();
        assert_eq!(Expiring::open(&env, &name).unwrap().database().method(), method);
    }
}
