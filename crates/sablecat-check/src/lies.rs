//! A disk that lies: a write is lost, or goes to another place, and the disk says that it was done and
//! flushed. What was there before is whole and has a good checksum. A reader of it must notice, unless it was
//! written again in the meantime.
//!
//! What is lost of the log's end nobody can miss: there an older state may be shown, but one that was.

use sablecat_os::sim::{Fault, SimDisk, Survival};

use crate::alike::Wrong;
use crate::damage::{self, Verdict};
use crate::dice::Dice;

/// One lie in a workload of this seed, at a few of its calls in turn.
///
/// # Errors
/// Whatever was believed.
pub fn explore(seed: u64) -> Result<(), Wrong> {
    tally(seed, 8).map(|_| ())
}

/// As [`explore`], with so many lies; says how often each verdict came.
///
/// # Errors
/// Whatever was believed.
pub fn tally(seed: u64, times: u64) -> Result<[u64; 3], Wrong> {
    let closed = seed.is_multiple_of(2);
    let honest = SimDisk::new(seed);
    damage::subject_on(honest.clone(), seed, closed)?;
    let mut verdicts = [0; 3];
    for time in 0..times {
        let mut dice = Dice::new(seed.wrapping_mul(1000) + time);
        let fault = dice.pick(&[Fault::LostWrite, Fault::MisdirectedWrite]);
        let call = 1 + dice.below(honest.calls());
        let verdict = believed(seed, closed, call, fault)
            .map_err(|wrong| format!("closed {closed}, {fault:?} at call {call} about {wrong}"))?;
        verdicts[verdict as usize] += 1;
    }
    Ok(verdicts)
}

fn believed(seed: u64, closed: bool, call: u64, fault: Fault) -> Result<Verdict, Wrong> {
    let disk = SimDisk::new(seed);
    disk.fail_at(call, fault);
    let Ok(mut subject) = damage::subject_on(disk, seed, closed) else { return Ok(Verdict::Reported) };
    if closed {
        // What has not been flushed now will never be.
        subject.disk = subject.disk.crash_as(Survival::Nothing, seed);
    }
    let mut files = damage::files(&subject.disk).map_err(|error| error.to_string())?;
    files.retain(|path| subject.disk.has_lied_about(path).unwrap_or(false));
    let in_log = files.iter().any(|path| path.components().any(|part| part.as_os_str() == "log"));
    damage::examine(&subject, &subject.disk, in_log).map_err(|wrong| format!("{files:?}: {wrong}"))
}
