//! `locks`: who has records locked, who waits for whom, who has which role.

use sablecat::{Activity, Env, Process, RecordLock};
use sablecat_papers::Grid;
use serde_json::json;

use crate::arguments::{InDatabase, Reading};
use crate::{Failure, Outcome, output};

/// List the record locks, the transactions that wait for them, and the roles of processes
///
/// A record is shown as a number, part of a hash of its database and key, which cannot be reversed. With
/// --key only the locks on the record of that key are shown; its database must have been there at the last
/// checkpoint. The command takes no locks, disturbs no process and waits for none.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: InDatabase,
    /// Only locks on the record of this key
    #[arg(long)]
    key: Option<String>,
}

pub(crate) fn run(Arguments { place, key }: &Arguments) -> Result<Outcome, Failure> {
    let Activity { mut locks, processes, .. } = Env::builder().activity(place.environment.path())?;
    if let Some(key) = key {
        let (_env, database) = place.open_to_read(&Reading { read_only: true })?;
        let record = database.lock_number(place.spelling.key(key)?)?;
        locks.retain(|lock| lock.record == record);
    }
    let roles = roles(&processes);
    if place.environment.json {
        let lock = |lock: &RecordLock| {
            json!({
                "record": format!("{:011x}", lock.record),
                "pid": lock.pid,
                "slot": lock.slot,
                "name": lock.name,
                "mode": mode(lock),
                "many_records": lock.coarse,
                "waits_for": lock.waits_for,
            })
        };
        let locks: Vec<_> = locks.iter().map(lock).collect();
        let roles: Vec<_> =
            roles.iter().map(|(role, pid, slot)| json!({ "role": role, "pid": pid, "slot": slot })).collect();
        output::json(&json!({ "locks": locks, "roles": roles }))?;
        return Ok(Outcome::Done);
    }
    if locks.is_empty() && roles.is_empty() {
        output::line("no record is locked, and no process has a role")?;
        return Ok(Outcome::Done);
    }
    let mut grid = Grid::new("", ["record or role", "pid", "slot", "mode", "waits for slots", "name"], 6);
    for lock in &locks {
        let many = if lock.coarse { ", many records" } else { "" };
        let waits_for = lock.waits_for.as_ref().map_or_else(String::new, |slots| {
            slots.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        });
        let cells = [
            format!("{:011x}", lock.record),
            lock.pid.to_string(),
            lock.slot.to_string(),
            format!("{}{many}", mode(lock)),
            waits_for,
            output::name(lock.name.as_deref()),
        ];
        grid.rows.push(cells.into());
    }
    for (role, pid, slot) in roles {
        grid.rows.push(vec![
            role.to_owned(),
            pid.to_string(),
            slot.to_string(),
            String::new(),
            String::new(),
            String::new(),
        ]);
    }
    output::table(&grid)?;
    Ok(Outcome::Done)
}

fn mode(lock: &RecordLock) -> &'static str {
    match (lock.exclusive, lock.waits_for.is_some()) {
        (true, false) => "exclusive",
        (false, false) => "shared",
        (true, true) => "waits for it exclusively",
        (false, true) => "waits for it shared",
    }
}

/// Each role that somebody has: what it is, whose process and slot.
fn roles(processes: &[Process]) -> Vec<(&'static str, u32, u16)> {
    let participants =
        processes.iter().flat_map(|process| process.participants.iter().map(move |one| (process.pid, one)));
    participants.flat_map(|(pid, one)| one.roles.iter().map(move |&role| (role, pid, one.slot))).collect()
}
