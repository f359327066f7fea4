//! `recover`: open an environment and say what that took; or take it back to an earlier state.

use sablecat::{Env, History, JournalFile, Lsn, Moment, RecoveryPlan, RecoveryReport, Target};
use sablecat_papers::{Grid, thousands};
use serde_json::{Value, json};

use crate::arguments::Existing;
use crate::{Failure, Outcome, output};

/// Recover an environment that was not closed, and print what was replayed; or take it back to an earlier
/// state
///
/// Other commands recover such an environment too, silently, except with --read-only. To go back, the
/// environment must have kept a journal (see journal). Without --apply nothing is changed: the command only
/// prints what would be replayed and what would be lost. To go back, no other process may have the
/// environment open.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("target").args(["to_time", "to_lsn", "to_epoch"]))]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Existing,
    /// Go back to what had been committed at this time: UTC, as 2026-11-21T17:04:05.678Z, or without zeros at
    /// its end
    #[arg(long, value_name = "TIME", value_parser = moment)]
    to_time: Option<Moment>,
    /// Go back to the commits at or below this LSN
    #[arg(long, value_name = "LSN")]
    to_lsn: Option<u64>,
    /// Go back to the epoch (restore point) with this number
    #[arg(long, value_name = "EPOCH")]
    to_epoch: Option<u64>,
    /// Carry out the plan: take the environment back
    #[arg(long, requires = "target")]
    apply: bool,
    /// List the epochs (restore points) and the log files, old and new; change nothing
    #[arg(long, conflicts_with = "target")]
    list: bool,
}

fn moment(text: &str) -> Result<Moment, String> {
    Moment::parse(text).ok_or_else(|| {
        "give a time in UTC as 2026-11-21T17:04:05.678Z, or without what is zero at its end".to_owned()
    })
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let place = &arguments.place;
    let target = arguments.to_time.map(Target::Time);
    let target = target
        .or(arguments.to_lsn.map(|lsn| Target::Lsn(Lsn(lsn))))
        .or(arguments.to_epoch.map(Target::Epoch));
    match target {
        Some(target) => go_back(place, target, arguments.apply),
        None if arguments.list => list(place),
        None => recover(place),
    }
}

fn recover(place: &Existing) -> Result<Outcome, Failure> {
    let env = place.open_closed().map_or_else(|| place.open(), Ok)?;
    let report = env.recovery();
    env.close()?;
    if place.json {
        output::json(&json!({
            "closed": report.closed,
            "joined": report.joined,
            "recovered": report.recovered,
            "commits": report.commits,
            "operations": report.operations,
            "torn": report.torn,
            "doubt": report.doubt,
            "checkpoint": report.checkpoint.0,
            "end": report.end.0,
        }))?;
        return Ok(Outcome::Done);
    }
    if report.doubt {
        output::line(
            "A later checkpoint may have been lost; its contents were recovered from the log. Check the \
             disk.",
        )?;
    }
    if !report.recovered {
        output::line(match report {
            RecoveryReport { joined: true, .. } => {
                "Other processes have it open: there was nothing to recover."
            }
            RecoveryReport { closed: true, .. } => "It had been closed: there was nothing to recover.",
            _ => {
                "It had not been closed, and its last checkpoint has all commits: there was nothing to \
                 recover."
            }
        })?;
        return Ok(Outcome::Done);
    }
    output::pairs([
        ("commits replayed", thousands(report.commits as f64)),
        ("changes of records", thousands(report.operations as f64)),
        ("from the checkpoint at LSN", thousands(report.checkpoint.0 as f64)),
        ("to LSN", thousands(report.end.0 as f64)),
    ])?;
    if report.torn {
        output::line("After that came parts of commits that had not become durable; they are gone.")?;
    }
    Ok(Outcome::Done)
}

fn time(time: Option<Moment>) -> String {
    time.map_or("-".to_owned(), |time| time.to_string())
}

fn go_back(place: &Existing, target: Target, apply: bool) -> Result<Outcome, Failure> {
    let recovery = place.builder()?.recovery(place.path(), target)?;
    let plan = if apply { recovery.apply()? } else { recovery.plan().clone() };
    if place.json {
        output::json(&plan_json(&plan, apply))?;
        return Ok(Outcome::Done);
    }
    output::pairs([
        ("from epoch", format!("{}, of {}", plan.epoch.number, plan.epoch.time)),
        ("at LSN", plan.epoch.lsn.to_string()),
        ("commits replayed", thousands(plan.commits as f64)),
        ("changes of records", thousands(plan.operations as f64)),
        ("to LSN", plan.lsn.to_string()),
        ("last commit kept, about", time(plan.time)),
        ("commits lost", thousands(plan.commits_lost as f64)),
        ("first commit lost, about", time(plan.lost_from)),
        ("last commit lost, about", time(plan.lost_to)),
    ])?;
    if let Some(damage) = &plan.damage {
        output::line(&format!("More may be lost than could be counted: {damage}"))?;
    }
    output::line(if apply { "Done." } else { "Nothing was changed. With --apply the plan is carried out." })?;
    Ok(Outcome::Done)
}

fn plan_json(plan: &RecoveryPlan, applied: bool) -> Value {
    json!({
        "applied": applied,
        "epoch": {
            "number": plan.epoch.number, "lsn": plan.epoch.lsn.0, "time": plan.epoch.time.to_string()
        },
        "lsn": plan.lsn.0,
        "time": plan.time.map(|time| time.to_string()),
        "commits": plan.commits,
        "operations": plan.operations,
        "commits_lost": plan.commits_lost,
        "lost_from": plan.lost_from.map(|time| time.to_string()),
        "lost_to": plan.lost_to.map(|time| time.to_string()),
        "end": plan.end.0,
        "damage": plan.damage,
    })
}

fn list(place: &Existing) -> Result<Outcome, Failure> {
    let history = Env::builder().history(place.path())?;
    if place.json {
        output::json(&history_json(&history))?;
        return Ok(Outcome::Done);
    }
    let mut epochs = Grid::new("Epochs", ["number", "LSN", "time"], 0);
    for epoch in &history.epochs {
        let last = if epoch.current { " (last checkpoint)" } else { "" };
        epochs.rows.push(vec![
            epoch.number.to_string(),
            epoch.lsn.to_string(),
            format!("{}{last}", epoch.time),
        ]);
    }
    output::table(&epochs)?;
    let mut files = Grid::new("\nLog", ["from LSN", "life", "goes on from", "bytes", "archived", "file"], 0);
    for file in &history.files {
        files.rows.push(vec![
            file.first.to_string(),
            file.life.to_string(),
            file.continues.to_string(),
            thousands(file.bytes as f64),
            time(file.archived),
            file.path.display().to_string(),
        ]);
    }
    output::table(&files)?;
    if history.journal.is_none() {
        output::line("No journal is kept.")?;
    }
    Ok(Outcome::Done)
}

fn history_json(history: &History) -> Value {
    let file = |file: &JournalFile| {
        json!({
            "path": file.path.display().to_string(),
            "first": file.first.0,
            "life": file.life.0,
            "continues": file.continues.0,
            "bytes": file.bytes,
            "archived": file.archived.map(|time| time.to_string()),
        })
    };
    let epochs: Vec<_> = history
        .epochs
        .iter()
        .map(|epoch| {
            json!({
                "number": epoch.number, "lsn": epoch.lsn.0, "time": epoch.time.to_string(),
                "current": epoch.current
            })
        })
        .collect();
    json!({ "epochs": epochs, "files": history.files.iter().map(file).collect::<Vec<_>>() })
}
