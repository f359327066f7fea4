//! Indices of queues: records are found by them until they are consumed, the last too, which leaves a mark.

use sablecat::{Env, ErrorKind, Index, IndexOptions, Isolation, OnRemove, Queue, TxnOptions};

const ISOLATIONS: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];

/// Jobs by their first letters; a job has one.
fn jobs() -> (Env, Queue, Index) {
    let builder = Env::builder().extractor("letter", |_, job, keys| keys.push(&job[..1]));
    let env = builder.background(false).in_memory().expect("opened");
    let jobs = Queue::open(&env, "jobs", 4).expect("made");
    let index = env.index("by letter", jobs.database(), IndexOptions::new("letter")).expect("made");
    (env, jobs, index)
}

fn sound(env: &Env) {
    assert_eq!(env.verify(&mut |_| {}).expect("read").problems, [""; 0]);
}

/// The extractor was shown the mark, as a record of no bytes.
#[test]
fn the_place_of_the_last_record_is_none_of_the_index() {
    for isolation in ISOLATIONS {
        let (env, jobs, index) = jobs();
        for job in ["wash", "dry", "iron"] {
            jobs.append_one(job).expect("appended");
        }
        let options = TxnOptions::new().isolation(isolation);
        for left in (0..3).rev() {
            let consumed = env.write_with(options, |txn| jobs.consume(txn)).expect("consumed");
            assert_eq!(consumed.map(|(number, _)| number), Some(3 - left));
            assert_eq!(index.database().len().expect("read"), left, "{isolation:?}");
            sound(&env);
        }
        // One that is taken out of turn; the mark before it goes.
        let fourth = jobs.append_one("fold").expect("appended");
        assert_eq!(index.count(&env, "f").expect("read"), 1);
        assert!(env.write_with(options, |txn| jobs.remove(txn, fourth)).expect("removed"));
        assert_eq!(jobs.database().len().expect("read"), 1, "a mark is left");
        assert!(index.database().is_empty().expect("read"));
        let late = env.index("made late", jobs.database(), IndexOptions::new("letter")).expect("made");
        assert!(late.database().is_empty().expect("read"));
        assert_eq!(jobs.append_one("mend").expect("appended"), fourth + 1);
        assert_eq!((index.count(&env, "m").expect("read"), late.count(&env, "m").expect("read")), (1, 1));
        sound(&env);
    }
}

/// A number would come twice, and records be consumed that others refer to.
#[test]
fn a_queue_is_not_thinned_out_by_an_index_and_has_no_references() {
    let (env, jobs, index) = jobs();
    jobs.append_one("wash").expect("appended");
    let removed = env.write(|txn| index.remove(txn, "w")).expect_err("by its number");
    assert_eq!(removed.kind(), ErrorKind::NotAllowed);
    let removed = env.write(|txn| {
        let mut cursor = index.cursor();
        assert!(cursor.seek(txn, "w")?);
        cursor.remove(txn)
    });
    assert_eq!(removed.expect_err("by its number").kind(), ErrorKind::NotAllowed);
    assert_eq!(jobs.len(&env).expect("read"), 1);
    let plain = env.database("plain").expect("made");
    for (of, to) in [(jobs.database(), &plain), (&plain, jobs.database())] {
        let options = IndexOptions::new("letter").references(to, OnRemove::Cascade);
        let refused = env.index("refers", of, options).expect_err("to a queue, or of one");
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert!(refused.to_string().contains("which is a queue"), "{refused}");
    }
}
