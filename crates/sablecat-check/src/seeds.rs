//! Running a check over many seeds, and telling how to run a failing one again.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::alike::Wrong;
use crate::method;

/// A check of one seed.
pub type Check = fn(u64) -> Result<(), Wrong>;

/// What can be run by name.
pub const CHECKS: [(&str, Check); 18] = [
    ("model", crate::model_check),
    ("crash", crate::crash::explore),
    ("crash-calls", |seed| crate::crash::every_call(seed, 25).map(|_| ())),
    ("backward", crate::backward::explore),
    ("backward-calls", crate::backward::every_call),
    ("backward-times", crate::backward::times),
    ("store", crate::store::explore),
    ("faults", crate::faults::explore),
    ("faults-shared", crate::shared::faults),
    ("faults-mending", crate::deaths::explore),
    ("crash-shared", crate::shared::crashes),
    ("damage", crate::damage::explore),
    ("lies", crate::lies::explore),
    ("histories", crate::history::explore),
    ("operator", crate::operator::explore),
    ("fuzz pages", crate::fuzz::pages),
    ("fuzz log", crate::fuzz::log),
    ("fuzz superblock", crate::fuzz::volume),
];

/// What a panic says.
pub(crate) fn said(panic: &(dyn Any + Send)) -> String {
    let text =
        panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panic: {}", text.unwrap_or("of an unknown kind"))
}

/// Runs one seed of a check; a panic is a failure too.
///
/// # Errors
/// What was wrong, and the command that shows it again.
pub fn one(name: &str, seed: u64) -> Result<(), Wrong> {
    let Some((_, check)) = CHECKS.iter().find(|(known, _)| *known == name) else {
        return Err(format!("there is no check {name:?}"));
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| check(seed))).unwrap_or_else(|panic| Err(said(&*panic)));
    outcome.map_err(|wrong| {
        let method = method::words().join(" ");
        format!(
            "seed {seed}: {wrong}\n    to see it again: cargo run --release -p sablecat-check -- {name} \
             --seeds 1 --from {seed} {method}"
        )
    })
}

/// Runs a check over seeds.
///
/// # Panics
/// If any of them fails, with all that failed, up to ten.
pub fn all(name: &str, seeds: std::ops::Range<u64>) {
    let count = seeds.end - seeds.start;
    let wrong: Vec<Wrong> = seeds.filter_map(|seed| one(name, seed).err()).take(10).collect();
    assert!(
        wrong.is_empty(),
        "{name}: {} or more of {count} seeds failed:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
