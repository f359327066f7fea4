//! Playing steps against the engine and the model side by side: every answer must be the same, and the state
//! and `verify` at the end.

use sablecat::{Env, ErrorKind, ReadTxn, Result};

use crate::engine;
use crate::model::Model;
use crate::step::Step;

/// Why a check failed.
pub type Wrong = String;

/// A snapshot that is kept, and the state it must go on showing.
struct Kept {
    txn: ReadTxn,
    model: Model,
    given_up: bool,
}

/// Plays steps in an environment that `open` opens, and opens again when a step says so.
///
/// # Errors
/// What was answered and what should have been.
pub fn play(
    steps: &[Step],
    model: &mut Model,
    mut open: impl FnMut() -> Result<Env>,
) -> std::result::Result<(), Wrong> {
    let mut rest = steps;
    loop {
        let env = open().map_err(|error| format!("opening: {error}"))?;
        compare(&env, model)
            .map_err(|wrong| format!("after opening, {} steps before the end: {wrong}", rest.len()))?;
        let here = rest.iter().position(|step| matches!(step, Step::Reopen)).unwrap_or(rest.len());
        life(&env, &rest[..here], model)
            .map_err(|(n, wrong)| format!("step {}: {wrong}", steps.len() - rest.len() + n))?;
        compare(&env, model).map_err(|wrong| {
            format!("before closing, {} steps before the end: {wrong}", rest.len() - here)
        })?;
        env.close().map_err(|error| format!("closing: {error}"))?;
        if here == rest.len() {
            return Ok(());
        }
        rest = &rest[here + 1..];
    }
}

fn life(env: &Env, steps: &[Step], model: &mut Model) -> std::result::Result<(), (usize, Wrong)> {
    let mut kept: Vec<Kept> = Vec::new();
    for (n, step) in steps.iter().enumerate() {
        let wrong = |wrong: String| (n, format!("{step:?}: {wrong}"));
        match step {
            Step::Hold => {
                let txn = env.snapshot().map_err(|error| wrong(error.to_string()))?;
                kept.push(Kept { txn, model: model.clone(), given_up: false });
            }
            Step::Release if !kept.is_empty() => drop(kept.remove(0)),
            Step::Look(name, question) if !kept.is_empty() => {
                let kept = &mut kept[0];
                let expected = kept.model.apply(&Step::Read(name.clone(), question.clone()));
                match engine::ask_snapshot(&kept.txn, name, question) {
                    Err(error) if error.kind() == ErrorKind::SnapshotTooOld => kept.given_up = true,
                    Ok(_) if kept.given_up => {
                        return Err(wrong("a snapshot that was given up answers again".into()));
                    }
                    Ok(answer) if answer == expected => {}
                    other => {
                        return Err(wrong(format!("a kept snapshot answered {other:?}, not {expected:?}")));
                    }
                }
            }
            _ => {
                let answer = engine::apply(env, step)
                    .map_err(|error| wrong(format!("answered {:?}: {error}", error.kind())))?;
                let expected = model.apply(step);
                if answer != expected {
                    return Err(wrong(format!("answered {answer:?}, not {expected:?}")));
                }
            }
        }
    }
    Ok(())
}

/// Compares the whole state, and runs `verify`.
///
/// # Errors
/// The difference, or the problems.
pub fn compare(env: &Env, model: &Model) -> std::result::Result<(), Wrong> {
    let found = engine::state(env).map_err(|error| format!("reading everything: {error}"))?;
    if found != *model {
        return Err(format!("the state is wrong (engine against model): {}", found.difference(model)));
    }
    clean(env)
}

/// Runs `verify`.
///
/// # Errors
/// The problems.
pub fn clean(env: &Env) -> std::result::Result<(), Wrong> {
    match engine::problems(env) {
        Ok(problems) if problems.is_empty() => Ok(()),
        Ok(problems) => Err(format!(
            "verify found {} problems: {}",
            problems.len(),
            problems[..problems.len().min(5)].join("; ")
        )),
        Err(error) => Err(format!("verify could not run: {error}")),
    }
}
