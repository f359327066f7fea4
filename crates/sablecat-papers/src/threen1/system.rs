//! What the driver asks of a system whose worker processes share a database.

use std::path::Path;
use std::process::Command;

use super::check::Results;
use super::input::Line;

/// A system, and how it is set up.
pub(super) trait System {
    /// As its rows are labelled.
    fn name(&self) -> &'static str;

    /// What distinguishes this from other rows of the same system.
    fn options(&self) -> &'static str;

    /// What its commits promise, in the words of our own rungs.
    fn durability(&self) -> &'static str;

    /// Makes an empty database for a line in a directory that does not exist. Nobody has it open afterwards.
    fn create(&self, dir: &Path, line: &Line) -> Result<(), String>;

    /// The process that is worker so-and-so. It may print, a line each time, how many more integers it has
    /// done.
    fn worker(&self, dir: &Path, line: &Line, number: u32) -> Result<Command, String>;

    /// What the workers have left behind, once all have ended. Nobody has it open afterwards.
    fn results(&self, dir: &Path, line: &Line) -> Result<Results, String>;

    /// After a failure: gives back what outlives the files, as well as can be.
    fn abandon(&self, dir: &Path);
}
