//! Filling segments with zeros, as far as there is room on the disk.

use std::io;

use sablecat_os::disk::{AlignedBuf, File};

use super::BLOCK;
use super::turn::HeldTurn;
use crate::error::is_full;

/// How much is written at once while a file is filled.
pub(super) const FILL_BYTES: usize = 1 << 20;

/// So many times what is filled now is reserved.
const RESERVED_TIMES: u64 = 4;

/// Takes the space of some of what is left of a segment at `offset`, of which `piece` bytes will be filled
/// now: a disk that becomes full stops no commit before they have used that up. Where the disk has not much
/// more, `room` bytes, nothing is taken: checkpoints need it more. Nor where what is taken is ready, as the
/// same pages would be taken twice, and the second time cleared, which a write does not need.
pub(super) fn reserve_ahead(
    file: &dyn File,
    offset: u64,
    (piece, left): (u64, u64),
    room: u64,
    held: &HeldTurn<'_>,
) -> io::Result<()> {
    check_turn(held)?;
    let wanted = left.min(RESERVED_TIMES * piece);
    if room / 2 < wanted || file.is_ready_preallocated() {
        return Ok(());
    }
    match file.preallocate(offset, wanted) {
        // Others have taken it meanwhile. Some file systems keep what they had given by then.
        Err(e) if is_full(&e) && piece < wanted => {
            check_turn(held)?;
            file.punch(offset + piece, wanted - piece).map(drop)
        }
        Err(e) if is_full(&e) => Ok(()),
        reserved => reserved,
    }
}

/// Writes `bytes` zeros at `offset`, or, on a full disk, as many as there is room for. Says how many.
pub(super) fn fill_some(
    file: &dyn File,
    offset: u64,
    mut bytes: u64,
    held: &HeldTurn<'_>,
) -> io::Result<u64> {
    loop {
        match fill(file, offset, bytes, held) {
            Err(e) if is_full(&e) && bytes > BLOCK => bytes = (bytes / 2).next_multiple_of(BLOCK),
            filled => return filled.map(|()| bytes),
        }
    }
}

/// Writes `bytes` zeros at `offset`, where the file has none but such; or takes the space alone where that
/// does as well. A holder that insists looks at the turn before each write, and has opened the file before
/// that: so after it was succeeded it writes once at most, to a file that had the name before.
pub(super) fn fill(file: &dyn File, offset: u64, bytes: u64, held: &HeldTurn<'_>) -> io::Result<()> {
    let most = FILL_BYTES.min(usize::try_from(bytes).unwrap_or(FILL_BYTES));
    let zeros = (!file.is_ready_preallocated()).then(|| AlignedBuf::new(most));
    let mut done = 0;
    while done < bytes {
        check_turn(held)?;
        let piece = (bytes - done).min(most as u64);
        match &zeros {
            Some(zeros) => file.write_at(&zeros[..piece as usize], offset + done)?,
            None => file.preallocate(offset + done, piece)?,
        }
        held.move_on();
        done += piece;
    }
    Ok(())
}

/// That the turn is still the holder's, before it changes what lies ahead in a file that it has opened.
fn check_turn(held: &HeldTurn<'_>) -> io::Result<()> {
    if held.is_lost() {
        return Err(io::Error::other("the turn is another's, and there may be records by now"));
    }
    Ok(())
}
