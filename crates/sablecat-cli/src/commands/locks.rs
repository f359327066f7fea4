//! `locks`: who has records locked, who waits for whom, who has which role.

use sablecat::{Process, RecordLock};
use sablecat_papers::Grid;
use serde_json::json;

use crate::arguments::InDatabase;
use crate::{Failure, Outcome, output};

/// List who has records locked, who waits for whom, and who has which role
///
/// A record is shown by a number, from which nobody can tell its database and key; with --key only the record of that key is shown. Looking takes
/// nothing from anybody: no lock, no snapshot.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: InDatabase,
    /// Only locks on the record of this key
    #[arg(long)]
    key: Option<String>,
}

pub(crate) fn run(Arguments { place, key }: &Arguments) -> Result<Outcome, Failure> {
    let (locks, processes) = match key {
        None => {
            let env = place.environment.open()?;
            let seen = (env.locks(), env.processes());
            env.close()?;
            seen
        }
        Some(key) => {
            let (env, database) = place.open()?;
            let record = database.lock_number(place.bytes(key)?)?;
            let mut locks = env.locks();
            locks.retain(|lock| lock.record == record);
            let seen = (locks, env.processes());
            drop(database);
            env.close()?;
            seen
        }
    };
    let roles = roles(&processes);
    if place.environment.json {
        let lock = |lock: &RecordLock| {
            json!({
                "record": format!("{:011x}", lock.record),
                "pid": lock.pid,
                "slot": lock.slot,
                "mode": mode(lock),
                "many_records": lock.coarse,
                "waits_for": lock.waits_for,
            })
        };
        let locks: Vec<_> = locks.iter().map(lock).collect();
        let roles: Vec<_> = roles.iter().map(|(role, pid, slot)| json!({ "role": role, "pid": pid, "slot": slot })).collect();
        output::json(&json!({ "locks": locks, "roles": roles }))?;
        return Ok(Outcome::Done);
    }
    if locks.is_empty() && roles.is_empty() {
        output::line("nobody has a record locked, and nobody has a role")?;
        return Ok(Outcome::Done);
    }
    let mut grid = Grid::new("", ["record or role", "pid", "slot", "mode", "waits for slots"], 5);
    for lock in &locks {
        let many = if lock.coarse { ", many records" } else { "" };
        let waits_for =
            lock.waits_for.as_ref().map_or_else(String::new, |slots| slots.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
        let cells =
            [format!("{:011x}", lock.record), lock.pid.to_string(), lock.slot.to_string(), format!("{}{many}", mode(lock)), waits_for];
        grid.rows.push(cells.into());
    }
    for (role, pid, slot) in roles {
        grid.rows.push(vec![role.to_owned(), pid.to_string(), slot.to_string(), String::new(), String::new()]);
    }
    output::table(&grid)?;
    Ok(Outcome::Done)
}

fn mode(lock: &RecordLock) -> &'static str {
    match (lock.exclusive, lock.waits_for.is_some()) {
        (true, false) => "exclusive",
        (false, false) => "shared",
        (true, true) => "waits to have it exclusively",
        (false, true) => "waits to share it",
    }
}

/// Each role that others have: what it is, whose process and slot.
fn roles(processes: &[Process]) -> Vec<(&'static str, u32, u16)> {
    let others = processes.iter().filter(|process| !process.asking);
    let participants = others.flat_map(|process| process.participants.iter().map(move |one| (process.pid, one)));
    participants.flat_map(|(pid, one)| one.roles.iter().map(move |&role| (role, pid, one.slot))).collect()
}
