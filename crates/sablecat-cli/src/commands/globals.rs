//! `globals`: from node to node, nodes merged, nodes locked while a command runs.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use clap::Subcommand;
use sablecat::Locker;
use sablecat::globals::{Globals, Node};
use serde_json::json;

use crate::arguments::{InDatabase, Reading};
use crate::lifetime::ttl;
use crate::naming::{Name, node};
use crate::output::Records;
use crate::{Failure, Outcome, SIGNALLED, interrupt, output};

/// How long it waits for a lock before it asks whether it was told to stop.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Go from node to node of globals, merge nodes, and lock them
///
/// A node is named by a reference such as 'acct(42,"name")', with or without ^ before it. `get`, `put`,
/// `increment`, `del`, `scan` and `count` take references too, and `load` and `dump` have the format zwr.
/// `db create --holds globals` creates a database for globals.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Print whether a node has a value and children, as $DATA does: 0, 1 (a value), 10 (children) or 11
    /// (both). Exit code 1 means 0
    Data {
        #[command(flatten)]
        place: InDatabase,
        #[command(flatten)]
        reading: Reading,
        /// The node
        node: String,
    },
    /// Print the next child of the same parent, or of a global the next global, as $ORDER does. The node
    /// itself need not exist. Exit code 1 means that there is none
    Next {
        #[command(flatten)]
        step: Step,
    },
    /// Print the child of the same parent before a node, or of a global the global before it, as $ORDER does.
    /// The node itself need not exist. Exit code 1 means that there is none
    Previous {
        #[command(flatten)]
        step: Step,
    },
    /// Print the children of a node, those without a value too; without a node, all globals
    Children {
        #[command(flatten)]
        place: InDatabase,
        #[command(flatten)]
        reading: Reading,
        /// The node
        node: Option<String>,
        /// From the last child to the first
        #[arg(long)]
        reverse: bool,
        /// At most this many children
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// Copy a node, its value and all its descendants, into another node, as MERGE does; what that has
    /// besides stays. Exit code 1 means that there is nothing to copy
    Merge {
        #[command(flatten)]
        place: InDatabase,
        /// The node that is copied
        from: String,
        /// The node into which it is copied
        to: String,
        /// The database that FROM is in, if it is another
        #[arg(long, value_name = "NAME")]
        from_db: Option<String>,
    },
    /// Lock a node, as LOCK does, run a command, and unlock the node when the command has ended
    ///
    /// Until then no other owner of locks, in any process, can lock the node, a descendant or an ancestor of
    /// it. Reading and setting nodes is not affected. The exit code is that of the command, or 128 and the
    /// number of the signal that ended it; it is 1 if the lock was not got in time. Told to stop by a signal,
    /// this process waits for the command; told once more, or killed, it ends, and the node is unlocked
    /// although the command may still run.
    Lock {
        #[command(flatten)]
        place: InDatabase,
        /// The node, which need not exist
        node: String,
        /// How long to wait for the lock: seconds, or a number with ms, s, m, h or d [default: as long as it
        /// takes]
        #[arg(long, value_name = "TIME", value_parser = ttl)]
        timeout: Option<Duration>,
        /// The command and its arguments
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

/// From one node to another.
#[derive(Debug, clap::Args)]
struct Step {
    #[command(flatten)]
    place: InDatabase,
    #[command(flatten)]
    reading: Reading,
    /// The nearest node of the same global that has a value, descendants among them, as $QUERY does
    #[arg(long)]
    value: bool,
    /// The node
    node: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    match &arguments.what {
        What::Data { place, reading, node } => data(place, reading, node),
        What::Next { step } => step.go(true),
        What::Previous { step } => step.go(false),
        What::Children { place, reading, node, reverse, limit } => {
            children(place, reading, node.as_deref(), *reverse, *limit)
        }
        What::Merge { place, from, to, from_db } => merge(place, from, to, from_db.as_deref()),
        What::Lock { place, node, timeout, command } => lock(place, node, *timeout, command),
    }
}

fn data(place: &InDatabase, reading: &Reading, reference: &str) -> Result<Outcome, Failure> {
    let (env, database) = place.open_to_read(reading)?;
    let globals = Globals::of(database)?;
    let asked = node(&globals, reference)?;
    let data = asked.data(&env.snapshot()?)?;
    if place.environment.json {
        let shown = asked.to_string();
        output::json(&json!({ "node": shown, "value": data.value, "children": data.children }))?;
    } else {
        output::line(&(10 * u8::from(data.children) + u8::from(data.value)).to_string())?;
    }
    drop(globals);
    env.close()?;
    Ok(if data.value || data.children { Outcome::Done } else { Outcome::No })
}

impl Step {
    fn go(&self, forward: bool) -> Result<Outcome, Failure> {
        let (env, database) = self.place.open_to_read(&self.reading)?;
        let globals = Globals::of(database)?;
        let begin = node(&globals, &self.node)?;
        let state = env.snapshot()?;
        let found = match (forward, self.value) {
            (true, false) => begin.next_sibling(&state)?,
            (true, true) => begin.next(&state)?,
            (false, false) => begin.previous_sibling(&state)?,
            (false, true) => begin.previous(&state)?,
        };
        let shown = found.map(|node| node.to_string());
        if self.place.environment.json {
            output::json(&json!({ "node": shown, "found": shown.is_some() }))?;
        } else {
            shown.iter().try_for_each(|node| output::line(node))?;
        }
        drop((globals, state));
        env.close()?;
        Ok(if shown.is_some() { Outcome::Done } else { Outcome::No })
    }
}

fn children(
    place: &InDatabase,
    reading: &Reading,
    parent: Option<&str>,
    reverse: bool,
    limit: Option<usize>,
) -> Result<Outcome, Failure> {
    let (env, database) = place.open_to_read(reading)?;
    let globals = Globals::of(database)?;
    let state = env.snapshot()?;
    let children = match parent {
        Some(parent) => node(&globals, parent)?.children(&state),
        None => globals.all(&state),
    };
    let ordered: Box<dyn Iterator<Item = _>> =
        if reverse { Box::new(children.rev()) } else { Box::new(children) };
    let mut records = Records::new(place.environment.json, place.spelling);
    for child in ordered.take(limit.unwrap_or(usize::MAX)) {
        interrupt::check()?;
        records.push(&Name::Node(child?.to_string()), None)?;
    }
    records.finish()?;
    drop((globals, state));
    env.close()?;
    Ok(Outcome::Done)
}

fn merge(place: &InDatabase, from: &str, to: &str, from_db: Option<&str>) -> Result<Outcome, Failure> {
    let (env, database) = place.open()?;
    let globals = Globals::of(database)?;
    let others = match from_db {
        Some(name) => Globals::of(place.find(&env, name)?)?,
        None => globals.clone(),
    };
    let (from, to) = (node(&others, from)?, node(&globals, to)?);
    let merged = env.write(|txn| {
        let there = from.data(&*txn)?;
        to.merge(txn, &from)?;
        Ok(there.value || there.children)
    })?;
    if place.environment.json {
        output::json(&json!({ "from": from.to_string(), "to": to.to_string(), "found": merged }))?;
    }
    drop((globals, others));
    env.close()?;
    Ok(if merged { Outcome::Done } else { Outcome::No })
}

fn lock(
    place: &InDatabase,
    reference: &str,
    timeout: Option<Duration>,
    command: &[OsString],
) -> Result<Outcome, Failure> {
    let (program, arguments) = command.split_first().ok_or("there is no command to run")?;
    let (env, database) = place.open()?;
    let globals = Globals::of(database)?;
    let wanted = node(&globals, reference)?;
    let mut locker = env.locker()?;
    let outcome = if is_locked(&wanted, &mut locker, timeout)? {
        let status = Command::new(program).args(arguments).status();
        let status = status.map_err(|error| format!("running {}: {error}", program.display()))?;
        Outcome::Ended(exit_code(status))
    } else {
        eprintln!("sablecat: {wanted} is locked by another owner; the command was not run");
        Outcome::No
    };
    drop((globals, locker));
    env.close()?;
    Ok(outcome)
}

/// Locks a node; false if that was not possible in time.
fn is_locked(node: &Node<'_>, locker: &mut Locker, timeout: Option<Duration>) -> Result<bool, Failure> {
    let begun = Instant::now();
    loop {
        interrupt::check()?;
        let left = timeout.map_or(ASK_EVERY, |timeout| timeout.saturating_sub(begun.elapsed()));
        if node.lock_within(locker, left.min(ASK_EVERY))? {
            return Ok(true);
        }
        if left.is_zero() {
            return Ok(false);
        }
    }
}

/// What a process has ended with, as shells say it.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| i32::from(SIGNALLED) + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
