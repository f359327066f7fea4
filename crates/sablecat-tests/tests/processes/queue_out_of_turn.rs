//! Records of a queue that are removed out of their turn. (They are beside all else in `queue.rs`, too.)

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use sablecat::{Env, ErrorKind};

use crate::queue::{ISOLATIONS, at, queue, record};

#[test]
fn of_two_who_take_a_record_out_of_turn_or_in_turn_one_does() {
    for isolation in ISOLATIONS {
        let env = Env::in_memory().unwrap();
        let jobs = queue(&env);
        for consumes_first in [true, false] {
            let number = jobs.append_one(record(1)).unwrap();
            let mut txn = env.begin_with(at(isolation)).unwrap();
            assert!(jobs.remove(&mut txn, number).unwrap());
            if consumes_first {
                assert_eq!(jobs.consume_one().unwrap().map(|(taken, _)| taken), Some(number));
                assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::Conflict, "{isolation:?}");
            } else {
                txn.commit().unwrap();
                assert_eq!(jobs.consume_one().unwrap(), None);
            }
            assert!(jobs.append_one(record(2)).unwrap() > number, "the last leaves a mark");
            assert!(jobs.consume_one().unwrap().is_some());
        }
    }
}

#[test]
fn a_queue_of_which_the_last_is_removed_again_and_again_has_one_mark() {
    let env = Env::in_memory().unwrap();
    let jobs = queue(&env);
    for n in 0..300 {
        let number = jobs.append_one(record(n)).unwrap();
        assert!(env.write(|txn| jobs.remove(txn, number)).unwrap());
    }
    assert_eq!((jobs.len(&env).unwrap(), jobs.database().len().unwrap()), (0, 1));
    // In one transaction as well.
    env.write(|txn| {
        for n in 0..300 {
            let number = jobs.append(txn, record(n))?;
            assert!(jobs.remove(txn, number)?);
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(jobs.database().len().unwrap(), 1);
}
