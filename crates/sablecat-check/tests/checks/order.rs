//! That the judge of long histories sees what cannot be, and lets pass what can.

use sablecat_check::order::{Call, Key, Read, Write, check};

/// One that returned, between two ticks.
fn call(id: u64, (begun, returned): (u64, u64), reads: &[(Key, u64, u64)], writes: &[(Key, u64)]) -> Call {
    let reads = reads.iter().map(|&(key, number, by)| Read { key, seen: Some((number, by)) }).collect();
    let writes = writes.iter().map(|&(key, number)| Write { key, number, removed: false }).collect();
    Call { id, begun, returned: Some(returned), snapshot: false, reads, writes }
}

fn in_doubt(call: Call) -> Call {
    Call { returned: None, ..call }
}

fn at_snapshot(calls: &[Call]) -> Vec<Call> {
    calls.iter().map(|call| Call { snapshot: true, ..call.clone() }).collect()
}

fn removing(id: u64, span: (u64, u64), key: Key, number: u64) -> Call {
    let removed = vec![Write { key, number, removed: true }];
    Call { writes: removed, ..call(id, span, &[], &[]) }
}

fn finding_none(id: u64, span: (u64, u64), key: Key) -> Call {
    Call { reads: vec![Read { key, seen: None }], ..call(id, span, &[], &[]) }
}

fn refused(calls: &[Call], why: &str) {
    let wrong = check(calls).expect_err("it cannot be");
    assert!(wrong.contains(why), "{wrong}");
}

#[test]
fn calls_at_the_same_time_may_have_happened_in_any_order() {
    check(&[
        call(1, (0, 9), &[(1, 1, 0)], &[(1, 2)]),
        call(2, (1, 8), &[(1, 2, 1)], &[]),
        call(3, (2, 7), &[(1, 1, 0)], &[]),
    ])
    .unwrap();
    check(&[call(1, (0, 1), &[], &[(1, 2), (2, 2)]), call(2, (2, 3), &[(1, 2, 1), (2, 2, 1)], &[(1, 3)])])
        .unwrap();
}

#[test]
fn a_stale_read_is_found() {
    refused(&[call(1, (0, 1), &[(1, 1, 0)], &[(1, 2)]), call(2, (2, 3), &[(1, 1, 0)], &[])], "too late");
    // Of what two calls before the last one wrote.
    let writes = [call(1, (0, 1), &[], &[(1, 2)]), call(2, (2, 3), &[], &[(1, 3)])];
    refused(&[writes.to_vec(), vec![call(3, (4, 5), &[(1, 2, 1)], &[])]].concat(), "too late");
}

#[test]
fn a_read_of_what_is_written_only_later_is_found() {
    refused(&[call(1, (4, 5), &[], &[(1, 2)]), call(2, (0, 1), &[(1, 2, 1)], &[])], "too late");
}

#[test]
fn what_was_seen_is_not_unseen_by_a_later_reader() {
    // The write is in progress all the while.
    let write = call(1, (0, 9), &[], &[(1, 2)]);
    refused(&[write, call(2, (1, 2), &[(1, 2, 1)], &[]), call(3, (3, 4), &[(1, 1, 0)], &[])], "too late");
}

#[test]
fn a_lost_update_is_found() {
    refused(
        &[call(1, (0, 9), &[(1, 1, 0)], &[(1, 2)]), call(2, (0, 9), &[(1, 1, 0)], &[(1, 2)])],
        "lost update",
    );
}

#[test]
fn writes_that_are_half_seen_are_found() {
    let halves = [call(1, (0, 9), &[], &[(1, 2), (2, 2)]), call(2, (0, 9), &[(1, 2, 1), (2, 1, 0)], &[])];
    refused(&halves, "circle");
    refused(&at_snapshot(&halves), "circle");
}

#[test]
fn write_skew_is_forbidden_but_at_snapshot_isolation() {
    let skew = [call(1, (0, 9), &[(1, 1, 0)], &[(2, 2)]), call(2, (0, 9), &[(2, 1, 0)], &[(1, 2)])];
    refused(&skew, "circle");
    check(&at_snapshot(&skew)).unwrap();
}

#[test]
fn a_snapshot_that_is_not_the_newest_when_it_was_taken_is_found() {
    refused(
        &at_snapshot(&[call(1, (0, 1), &[], &[(1, 2)]), call(2, (2, 9), &[(1, 1, 0)], &[(2, 2)])]),
        "too late",
    );
}

#[test]
fn an_order_that_only_several_calls_together_contradict_is_found() {
    // 3 is before 1, which is before 2, which ended before 3 was begun.
    let calls = [
        call(1, (0, 9), &[(1, 1, 0)], &[(2, 2)]),
        call(2, (1, 3), &[(2, 2, 1)], &[(3, 2)]),
        call(3, (4, 6), &[(2, 1, 0)], &[]),
    ];
    refused(&calls, "too late");
    check(&calls[..2]).unwrap();
}

#[test]
fn a_call_in_doubt_happened_if_it_was_seen_and_all_of_it() {
    let doubtful = in_doubt(call(1, (0, 1), &[], &[(1, 2), (2, 2)]));
    let sees_none = call(2, (5, 6), &[(1, 1, 0), (2, 1, 0)], &[]);
    let sees_all = call(3, (7, 8), &[(1, 2, 1), (2, 2, 1)], &[]);
    check(&[doubtful.clone(), sees_none.clone()]).unwrap();
    check(&[doubtful.clone(), sees_none, sees_all.clone()]).unwrap();
    refused(&[doubtful.clone(), sees_all, call(4, (9, 10), &[(2, 1, 0)], &[])], "too late");
    refused(&[doubtful, call(2, (5, 6), &[(1, 2, 1), (2, 1, 0)], &[])], "circle");
}

#[test]
fn a_value_that_nobody_wrote_is_found() {
    refused(&[call(1, (0, 1), &[], &[(1, 2)]), call(2, (2, 3), &[(1, 3, 1)], &[])], "did not make");
    refused(&[call(1, (0, 1), &[], &[(1, 2)]), call(2, (2, 3), &[(1, 3, 7)], &[])], "of which nobody knows");
}

#[test]
fn a_record_is_missing_only_while_it_may_have_been_removed() {
    let calls =
        [call(1, (0, 1), &[], &[(1, 10)]), removing(2, (4, 5), 1, 20), call(3, (8, 9), &[], &[(1, 30)])];
    let with = |other: Call| [calls.to_vec(), vec![other]].concat();
    for span in [(2, 4), (5, 6), (7, 8), (0, 9)] {
        check(&with(finding_none(4, span, 1))).unwrap();
    }
    for span in [(2, 3), (10, 11)] {
        refused(&with(finding_none(4, span, 1)), "was there all the while");
    }
    let doubtful = [calls[0].clone(), in_doubt(removing(2, (4, 5), 1, 20))];
    check(&[doubtful.to_vec(), vec![finding_none(4, (6, 7), 1)]].concat()).unwrap();
    refused(&[doubtful.to_vec(), vec![finding_none(4, (2, 3), 1)]].concat(), "was there all the while");
}
