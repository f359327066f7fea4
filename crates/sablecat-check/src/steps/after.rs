//! What survivors find in each state that the process leaves.

use std::sync::Arc;

use super::report::{Report, Why};
use super::state::{Place, State};
use super::survivor::{Left, Possible, come_after, patiently};

/// In one of so many states there is a survivor that finds that nobody lives. What it makes of a state hangs
/// on the log alone.
const RECOVER_EVERY: u64 = 3;

/// What survivors have found so far.
pub(super) struct After {
    pub(super) copies: Arc<[Place; 2]>,
    pub(super) possible: Arc<Possible>,
    pub(super) done: bool,
    pub(super) done_in_files: bool,
}

impl After {
    /// Sends survivors into a state.
    pub(super) fn look(&mut self, state: &State, report: &mut Report, promised: bool) -> Result<(), Why> {
        let done = self.survive(state, Left::Somebody)?;
        if !done && (self.done || promised) {
            return Err(Why::Wrong(lost(promised)));
        }
        if report.states.is_multiple_of(RECOVER_EVERY) {
            let recovered =
                self.survive(state, Left::Nobody).map_err(|wrong| format!("with nobody else: {wrong}"))?;
            if recovered != done {
                return Err(Why::Wrong(format!(
                    "done, for who reaps the dead: {done}; for who recovers: {recovered}"
                )));
            }
        }
        self.done = done;
        report.states += 1;
        report.done += u64::from(done);
        let done =
            self.survive(state, Left::Files).map_err(|wrong| format!("with the files alone: {wrong}"))?;
        if !done && (self.done_in_files || promised) {
            return Err(Why::Wrong(format!("with the files alone: {}", lost(promised))));
        }
        self.done_in_files = done;
        report.files_alone += 1;
        Ok(())
    }

    fn survive(&self, state: &State, left: Left) -> Result<bool, String> {
        state.put(&self.copies[0], left != Left::Files).map_err(|error| format!("copying: {error}"))?;
        let (copies, possible) = (Arc::clone(&self.copies), Arc::clone(&self.possible));
        patiently(move || come_after(&copies[0], &copies[1], left, &possible))
    }
}

pub(super) fn lost(promised: bool) -> String {
    if promised {
        "what the process was told is done is not there"
    } else {
        "what was done a moment before is not there any more"
    }
    .to_owned()
}
