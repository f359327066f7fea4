//! Equality joins of several indices, against a search of all records.

use sablecat::{Env, ErrorKind, Index, IndexOptions, Record, Result};

/// Numbers that are found by what they leave when divided.
fn env() -> (Env, [Index; 4]) {
    let modulo =
        |by: u8| move |key: &[u8], _: &[u8], keys: &mut sablecat::IndexKeys| keys.push([key[0] % by]);
    let env = Env::builder()
        .extractor("2", modulo(2))
        .extractor("3", modulo(3))
        .extractor("5", modulo(5))
        .extractor("itself", |key, _, keys| keys.push(key))
        .in_memory()
        .expect("opened");
    let numbers = env.database("numbers").expect("made");
    let indices = ["2", "3", "5", "itself"].map(|name| {
        env.index(&format!("by {name}"), &numbers, IndexOptions::new(name).unique(name == "itself"))
            .expect("made")
    });
    numbers.insert_batch((0..=255u8).map(|n| ([n], "is there"))).expect("inserted");
    (env, indices)
}

#[test]
fn a_join_finds_what_has_all_keys_and_nothing_else() {
    let (env, [by_2, by_3, by_5, itself]) = env();
    let txn = env.begin().expect("begun");
    for (two, three, five) in (0..2).flat_map(|a| (0..4).flat_map(move |b| (0..5).map(move |c| (a, b, c)))) {
        let expected: Vec<u8> = (0..=255u8).filter(|n| (n % 2, n % 3, n % 5) == (two, three, five)).collect();
        let wanted = [(&by_5, &[five][..]), (&by_2, &[two]), (&by_3, &[three])];
        let found = |found: Result<_>| -> Vec<u8> { keys(found) };
        assert_eq!(found(Index::join(&env, &wanted).map(|one| one.collect::<Vec<_>>())), expected);
        assert_eq!(found(Index::join(&txn, &wanted).map(|one| one.collect::<Vec<_>>())), expected);
    }
    for n in [0, 7, 255] {
        let joined = |two: u8| {
            keys(
                Index::join(&env, &[(&itself, &[n][..]), (&by_2, &[two])]).map(|one| one.collect::<Vec<_>>()),
            )
        };
        assert_eq!((joined(n % 2), joined(1 - n % 2)), (vec![n], vec![]));
    }
    let one = keys(Index::join(&env, &[(&by_5, &[4][..])]).map(|one| one.collect::<Vec<_>>()));
    assert_eq!(one, (0..=255u8).filter(|n| n % 5 == 4).collect::<Vec<_>>());
}

fn keys(found: Result<Vec<Result<Record>>>) -> Vec<u8> {
    found.expect("begun").into_iter().map(|one| one.expect("read").0[0]).collect()
}

/// What one index alone has is leapt over, not looked at: where each index has half of all records, and no
/// record is in both halves, a join looks at some leaves and not at all.
#[test]
fn a_join_leaps_over_what_one_index_does_not_have() {
    let env = Env::builder()
        .extractor("half", |key, _, keys| keys.push([u8::from(key[0] >= 128)]))
        .extractor("constant", |_, _, keys| keys.push("x"))
        .in_memory()
        .expect("opened");
    let records = env.database("records").expect("made");
    let by_half = env.index("by half", &records, IndexOptions::new("half")).expect("made");
    let constant = env.index("constant", &records, IndexOptions::new("constant")).expect("made");
    let key = |n: u16| n.to_be_bytes();
    env.write(|txn| (0..30_000).step_by(3).try_for_each(|n| txn.insert(&records, key(n), "")))
        .expect("inserted");
    records.insert(key(u16::MAX), "").expect("inserted");
    let found: Vec<_> = Index::join(&env, &[(&constant, b"x"), (&by_half, &[1])]).expect("begun").collect();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].as_ref().expect("read").0, key(u16::MAX));
}

#[test]
fn indices_of_several_databases_are_not_joined() {
    let (env, [by_2, ..]) = env();
    let other = env.database("other").expect("made");
    let of_other = env.index("of other", &other, IndexOptions::new("2")).expect("made");
    let join = |wanted: &[(&Index, &[u8])]| Index::join(&env, wanted).map(drop).expect_err("refused").kind();
    assert_eq!(join(&[(&by_2, &[0]), (&of_other, &[0])]), ErrorKind::Invalid);
    assert_eq!(join(&[]), ErrorKind::Invalid);
}
