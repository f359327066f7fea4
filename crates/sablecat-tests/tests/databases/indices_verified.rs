//! Indices that disagree with what they are of are found: by themselves, and by the environment, which has
//! their extractors or has not.

use std::sync::Arc;

use sablecat::{Env, Index, IndexOptions};
use sablecat_os::sim::SimDisk;

#[test]
fn verifying_an_index_finds_where_it_disagrees() {
    let disk = SimDisk::new(1);
    let open = |from: usize| {
        let builder = Env::builder().disk(Arc::new(disk.clone())).background(false);
        builder
            .extractor("part", move |_, value, keys| keys.push(&value[from..]))
            .open("env")
            .expect("opened")
    };
    for unique in [false, true] {
        let name = format!("by part {unique}");
        let env = open(0);
        let records = env.database(&name).expect("made");
        let index = env
            .index(&format!("{name} index"), &records, IndexOptions::new("part").unique(unique))
            .expect("made");
        records.insert_batch([("1", "ab"), ("2", "cd")]).expect("inserted");
        assert_eq!(index.verify(&env).expect("read"), [""; 0]);
        drop((records, index));
        env.close().expect("closed");
        // An extractor that says something else than it did.
        let env = open(1);
        let index = Index::existing(&env, &format!("{name} index")).expect("read").expect("there");
        let problems = index.verify(&env).expect("read");
        assert_eq!(problems.len(), 4, "{problems:?}");
        // The environment finds the same, beside what it found before.
        let all = env.verify(&mut |_| {}).expect("read").problems;
        let of_index = |problem: &String| problem.starts_with(&format!("database {:?}", index.name()));
        assert_eq!(all.iter().filter(|problem| of_index(problem)).count(), 4, "{all:?}");
        drop(index);
        env.close().expect("closed");
    }
}

#[test]
fn without_its_extractor_an_index_is_verified_in_part() {
    let disk = SimDisk::new(1);
    let builder = || Env::builder().disk(Arc::new(disk.clone())).background(false);
    let env = builder().extractor("all", |_, value, keys| keys.push(value)).open("env").expect("opened");
    let records = env.database("records").expect("made");
    env.index("index", &records, IndexOptions::new("all")).expect("made");
    records.insert_batch([("1", "ab"), ("2", "cd")]).expect("inserted");
    drop(records);
    env.close().expect("closed");
    // An extractor that says nothing: an entry stays, and one is not made.
    let env = builder().extractor("all", |_, _, _| {}).open("env").expect("opened");
    let records = env.database("records").expect("there");
    records.remove("1").expect("removed");
    records.insert("3", "ef").expect("inserted");
    drop(records);
    env.close().expect("closed");
    let env = builder().open("env").expect("opened");
    let report = env.verify(&mut |_| {}).expect("read");
    assert_eq!(report.indices_not_compared, ["index"]);
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    assert!(report.problems[0].contains("is for the record 1,"), "{:?}", report.problems);
}
