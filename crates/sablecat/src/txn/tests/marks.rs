//! A mark that a snapshot was given up stays in the slot of the participant that sat there. The next one to
//! sit there, if it finds no frame before it has a pin of its own, must not take the mark for its own.

use std::sync::mpsc;

use super::*;
use crate::error::ErrorKind;

const RECORDS: u64 = 5000;

/// How `work` ends in a seat with such a mark while another has all frames in use.
fn ends_without_frames(work: impl FnOnce(&Store) -> Result<()> + Send + 'static) {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let store = Store::new(128, 6, Some(volume(1)));
        (0..RECORDS).for_each(|n| store.put(&n.to_be_bytes(), &[0; 40]).unwrap());
        let reader = store.begin(Isolation::Snapshot, true);
        let number = reader.number();
        (0..RECORDS).step_by(50).for_each(|n| store.put(&n.to_be_bytes(), &[1; 40]).unwrap());
        let pages = &store.kernel.pages;
        let holder = pages.participants.sit().unwrap();
        let mut taken = Vec::new();
        while let Ok(frame) = pages.with_frames(&holder, || pages.take_frame(&holder)) {
            taken.push(frame);
        }
        assert!(pages.region.slot(number).is_revoked(), "the reader's snapshot was in the way");
        drop(reader);
        let me = pages.participants.sit().unwrap();
        assert_eq!(me.number(), number, "the seat of who read");
        pages.forget_free(&me);
        drop(me);
        sender.send(work(&store)).unwrap();
        std::mem::forget(holder);
    });
    let ended = receiver.recv_timeout(Duration::from_secs(60)).expect("it does not try for ever");
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::CacheFull);
}

#[test]
fn a_single_change_ends_although_its_seat_has_a_mark() {
    ends_without_frames(|store| store.put(&77_u64.to_be_bytes(), &[2; 40]));
}

#[test]
fn a_single_read_ends_although_its_seat_has_a_mark() {
    ends_without_frames(|store| store.kernel.read_one(&store.tree, &77_u64.to_be_bytes(), |_| ()));
}
