//! `processes`: which processes have an environment open, and what each holds.

use sablecat::{Env, Participant};
use sablecat_papers::Grid;
use serde_json::json;

use crate::arguments::Existing;
use crate::{Failure, Outcome, output};

/// List the processes that have an environment open, and what each holds
///
/// The command takes no locks, disturbs no process and waits for none: of a stopped process it shows what the
/// process still holds.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Existing,
}

pub(crate) fn run(Arguments { place }: &Arguments) -> Result<Outcome, Failure> {
    let processes = Env::builder().activity(place.path())?.processes;
    if place.json {
        let participant = |one: &Participant| {
            json!({
                "slot": one.slot,
                "name": one.name,
                "snapshot": one.snapshot.map(|at| at.0),
                "snapshot_lag": one.snapshot_lag,
                "given_up": one.given_up,
                "in_operation": one.in_operation,
                "committing": one.committing,
                "pages_latched": one.pages_latched,
                "record_locks": one.record_locks,
                "waits_for_lock": one.waits_for_lock,
                "roles": one.roles,
            })
        };
        let processes: Vec<_> = processes
            .iter()
            .map(|process| {
                let participants: Vec<_> = process.participants.iter().map(participant).collect();
                json!({
                    "pid": process.pid, "command": process.command, "alive": process.alive,
                    "participants": participants
                })
            })
            .collect();
        output::json(&json!({ "processes": processes }))?;
        return Ok(Outcome::Done);
    }
    if processes.is_empty() {
        output::line("no other process has the environment open")?;
        return Ok(Outcome::Done);
    }
    let mut grid = Grid::new("", ["pid", "slot", "snapshot", "behind, bytes", "doing", "name", "command"], 7);
    for process in &processes {
        let command =
            if process.alive { process.command.clone() } else { format!("(dead) {}", process.command) };
        let mut first = vec![process.pid.to_string()];
        for one in &process.participants {
            let cells = [
                one.slot.to_string(),
                one.snapshot.map_or("-".to_owned(), |at| at.0.to_string()),
                one.snapshot_lag.to_string(),
                doing(one),
                output::name(one.name.as_deref()),
            ];
            first.extend(cells);
            first.push(command.clone());
            grid.rows.push(std::mem::replace(&mut first, vec![String::new()]));
        }
        if process.participants.is_empty() {
            first.extend(["-", "-", "-", "nothing", ""].map(str::to_owned));
            first.push(command);
            grid.rows.push(first);
        }
    }
    output::table(&grid)?;
    Ok(Outcome::Done)
}

/// What a participant is at, in words.
fn doing(one: &Participant) -> String {
    let mut words: Vec<String> = one.roles.iter().map(|&role| role.to_owned()).collect();
    let facts = [
        (one.committing, "publishing"),
        (one.waits_for_lock, "waiting for a record lock"),
        (one.in_operation, "looking at pages"),
        (one.given_up, "snapshot given up"),
    ];
    words.extend(facts.into_iter().filter(|(holds, _)| *holds).map(|(_, word)| word.to_owned()));
    if one.pages_latched > 0 {
        words.push(format!("{} pages latched", one.pages_latched));
    }
    if one.record_locks > 0 {
        words.push(format!("{} records locked", one.record_locks));
    }
    if words.is_empty() { "idle".to_owned() } else { words.join(", ") }
}
