//! Changes of a record in one call, at random, against a map: in databases, in transactions that commit and
//! roll back, and in Data Stores.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sablecat::{DataStore, Database, Env, ErrorKind, Method, Record, Result, Txn, Write};

type Bytes = Vec<u8>;
type Model = BTreeMap<Bytes, Bytes>;

#[derive(Clone, Debug)]
enum Verb {
    Swap(Bytes, Option<Bytes>, Option<Bytes>),
    Update(Bytes, Change),
    Increment(Bytes, i64),
    Replace(Bytes, Bytes),
    InsertNew(Bytes, Bytes),
    Take(Bytes),
    PopFirst,
    PopLast,
}

/// What an update makes of a value.
#[derive(Clone, Debug)]
enum Change {
    Same,
    Nothing,
    Longer,
    To(Bytes),
}

impl Change {
    fn of(&self, value: Option<&[u8]>) -> Option<Bytes> {
        match self {
            Change::Same => value.map(<[u8]>::to_vec),
            Change::Nothing => None,
            Change::Longer => Some([value.unwrap_or_default(), b"+"].concat()),
            Change::To(value) => Some(value.clone()),
        }
    }
}

#[derive(PartialEq, Eq, Debug)]
enum Answer {
    Is(bool),
    Sum(i64),
    Value(Option<Bytes>),
    Record(Option<Record>),
    Refused(ErrorKind),
}

fn answer(result: Result<Answer>) -> Answer {
    result.unwrap_or_else(|error| Answer::Refused(error.kind()))
}

fn within<W: Write>(to: &mut W, db: &Database<W::Of>, verb: &Verb) -> Answer {
    answer(match verb {
        Verb::Swap(key, expected, new) => {
            to.compare_and_swap(db, key, expected.as_deref(), new.as_deref()).map(Answer::Is)
        }
        Verb::Update(key, change) => to.update(db, key, |value| change.of(value)).map(Answer::Value),
        Verb::Increment(key, by) => to.increment(db, key, *by).map(Answer::Sum),
        Verb::Replace(key, value) => to.replace(db, key, value).map(Answer::Value),
        Verb::InsertNew(key, value) => to.insert_new(db, key, value).map(Answer::Is),
        Verb::Take(key) => to.take(db, key).map(Answer::Value),
        Verb::PopFirst => to.pop_first(db).map(Answer::Record),
        Verb::PopLast => to.pop_last(db).map(Answer::Record),
    })
}

/// As a transaction of its own.
fn alone(db: &Database, verb: &Verb) -> Answer {
    answer(match verb {
        Verb::Swap(key, expected, new) => {
            db.compare_and_swap(key, expected.as_deref(), new.as_deref()).map(Answer::Is)
        }
        Verb::Update(key, change) => db.update(key, |value| change.of(value)).map(Answer::Value),
        Verb::Increment(key, by) => db.increment(key, *by).map(Answer::Sum),
        Verb::Replace(key, value) => db.replace(key, value).map(Answer::Value),
        Verb::InsertNew(key, value) => db.insert_new(key, value).map(Answer::Is),
        Verb::Take(key) => db.take(key).map(Answer::Value),
        Verb::PopFirst => db.pop_first().map(Answer::Record),
        Verb::PopLast => db.pop_last().map(Answer::Record),
    })
}

fn set(model: &mut Model, key: &[u8], value: Option<Bytes>) -> Option<Bytes> {
    match value {
        Some(value) => model.insert(key.to_vec(), value),
        None => model.remove(key),
    }
}

fn in_model(model: &mut Model, verb: &Verb) -> Answer {
    match verb {
        Verb::Swap(key, expected, new) => {
            let is_so = model.get(key) == expected.as_ref();
            if is_so {
                set(model, key, new.clone());
            }
            Answer::Is(is_so)
        }
        Verb::Update(key, change) => {
            let after = change.of(model.get(key).map(|value| &**value));
            set(model, key, after.clone());
            Answer::Value(after)
        }
        Verb::Increment(key, by) => {
            let before = match model.get(key) {
                None => Some(0),
                Some(value) => value[..].try_into().ok().map(i64::from_le_bytes),
            };
            let Some(sum) = before.and_then(|before| before.checked_add(*by)) else {
                return Answer::Refused(ErrorKind::Invalid);
            };
            set(model, key, Some(sum.to_le_bytes().into()));
            Answer::Sum(sum)
        }
        Verb::Replace(key, value) => Answer::Value(set(model, key, Some(value.clone()))),
        Verb::InsertNew(key, value) => {
            let is_new = !model.contains_key(key);
            model.entry(key.clone()).or_insert_with(|| value.clone());
            Answer::Is(is_new)
        }
        Verb::Take(key) => Answer::Value(model.remove(key)),
        Verb::PopFirst => Answer::Record(model.pop_first()),
        Verb::PopLast => Answer::Record(model.pop_last()),
    }
}

/// Of few keys, so that most of them come again.
fn a_key() -> impl Strategy<Value = Bytes> {
    (0u8..6).prop_map(|n| if n == 5 { vec![n; 3000] } else { vec![n; usize::from(n)] })
}

/// Few, so that what is expected is often so; numbers, and one too long for a page.
fn a_value() -> impl Strategy<Value = Bytes> {
    prop::sample::select(vec![
        Bytes::new(),
        b"a".to_vec(),
        1i64.to_le_bytes().to_vec(),
        i64::MAX.to_le_bytes().to_vec(),
        vec![7; 20_000],
    ])
}

fn a_verb() -> impl Strategy<Value = Verb> {
    let change = prop_oneof![
        Just(Change::Same),
        Just(Change::Nothing),
        Just(Change::Longer),
        a_value().prop_map(Change::To),
    ];
    let some = || prop::option::of(a_value());
    prop_oneof![
        3 => (a_key(), some(), some()).prop_map(|(key, expected, new)| Verb::Swap(key, expected, new)),
        2 => (a_key(), change).prop_map(|(key, change)| Verb::Update(key, change)),
        2 => (a_key(), prop::sample::select(vec![1, -1, 0, i64::MAX, i64::MIN]))
            .prop_map(|(key, by)| Verb::Increment(key, by)),
        2 => (a_key(), a_value()).prop_map(|(key, value)| Verb::Replace(key, value)),
        2 => (a_key(), a_value()).prop_map(|(key, value)| Verb::InsertNew(key, value)),
        1 => a_key().prop_map(Verb::Take),
        1 => Just(Verb::PopFirst),
        1 => Just(Verb::PopLast),
    ]
}

/// What becomes of some changes that are made one after another.
#[derive(Clone, Copy, Debug)]
enum Made {
    Alone,
    Committed,
    Aborted,
    RolledBack,
}

fn make(env: &Env, db: &Database, model: &mut Model, verbs: &[Verb], made: Made) -> Result<()> {
    let mut after = model.clone();
    if let Made::Alone = made {
        for verb in verbs {
            assert_eq!(alone(db, verb), in_model(model, verb), "{verb:?}");
        }
        return Ok(());
    }
    let mut txn = env.begin()?;
    let (before, half) = (txn.savepoint(), verbs.len() / 2);
    let each = |txn: &mut Txn<'_>, verbs: &[Verb], model: &mut Model| {
        for verb in verbs {
            assert_eq!(within(txn, db, verb), in_model(model, verb), "{verb:?}");
        }
    };
    each(&mut txn, &verbs[..half], &mut after);
    if let Made::RolledBack = made {
        txn.rollback_to(&before)?;
        after.clone_from(model);
    }
    each(&mut txn, &verbs[half..], &mut after);
    if let Made::Aborted = made {
        txn.abort();
        return Ok(());
    }
    txn.commit()?;
    *model = after;
    Ok(())
}

fn records(found: impl Iterator<Item = Result<Record>>) -> Model {
    found.collect::<Result<_>>().expect("read")
}

proptest! {
    #[test]
    fn records_are_changed_in_one_call_as_those_of_a_map_are(
        counted in any::<bool>(),
        rounds in prop::collection::vec((
            prop::collection::vec(a_verb(), 1..12),
            prop::sample::select(vec![Made::Alone, Made::Committed, Made::Aborted, Made::RolledBack]),
        ), 1..12),
    ) {
        let env = Env::in_memory().expect("created");
        let db =
            env.database_as("d", if counted { Method::Counted } else { Method::Btree }).expect("created");
        let mut store: DataStore = Env::builder().data_store_in_memory().expect("created");
        let stored = store.database("d").expect("created");
        let (mut model, mut of_store) = (Model::new(), Model::new());
        for (verbs, made) in &rounds {
            make(&env, &db, &mut model, verbs, *made).expect("made");
            prop_assert_eq!(records(db.range(..).expect("read")), model.clone());
            for verb in verbs {
                prop_assert_eq!(
                    within(&mut store, &stored, verb),
                    in_model(&mut of_store, verb),
                    "{:?}",
                    verb
                );
            }
            prop_assert_eq!(
                records(sablecat::Read::range(&store, &stored, ..).expect("read")),
                of_store.clone()
            );
        }
        prop_assert_eq!(env.verify(&mut |_| {}).expect("read").problems, [""; 0]);
    }
}
