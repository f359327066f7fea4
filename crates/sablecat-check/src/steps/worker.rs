//! The process that is stepped.

use std::path::Path;

use sablecat_os::check::stepped;

use super::opening::open_with;
use super::operation::{Act, Operation};
use super::state::Place;

/// Does an operation between two marks, in an environment that its parent has made.
///
/// # Errors
/// What went wrong, in words.
pub fn work(base: &Path, operation: &Operation) -> Result<(), String> {
    let place = Place::of_another(base);
    let text = |error: sablecat::Error| error.to_string();
    if stepped::offer().is_err() {
        std::process::exit(stepped::NOT_PERMITTED);
    }
    if operation.opens() {
        stepped::mark();
        let env = open_with(&place, operation.cache_bytes()).map_err(text)?;
        stepped::mark();
        return env.close().map_err(text);
    }
    let env = open_with(&place, operation.cache_bytes()).map_err(text)?;
    operation.prepare(&env).map_err(text)?;
    stepped::mark();
    match operation.act {
        Act::Work(work) => work(&env).map_err(text)?,
        Act::Checkpoint | Act::Succeed => drop(env.checkpoint().map_err(text)?),
        Act::Mend => env.keep_house().map_err(text)?,
        Act::Close => {
            env.close().map_err(text)?;
            stepped::mark();
            return Ok(());
        }
        Act::Create | Act::Attach | Act::Recover | Act::SetAside | Act::Reap | Act::Rescue => {}
    }
    stepped::mark();
    Ok(())
}
