//! `sablecat`: look at, change, check and measure an environment from the command line.
//!
//! ```text
//! arguments.rs    what several commands accept: the directory, the database, keys and values
//! interrupt.rs    being told to stop
//! keying.rs       where the keys of encrypted environments are
//! naming.rs       what names a record: a key, a number, a node of a global
//! portable/       databases as text that other programs read and write
//! output.rs       the one place that prints: tables for people, JSON for programs
//! part.rs         the records between two keys, or those that begin with one
//! progress.rs     bars for long work, on a terminal only
//! removal.rs      records removed, of whatever kind
//! shown.rs        a database as it is shown: by what it holds
//! tuples.rs       keys that are tuples, written as JSON
//! commands/       one file a command
//! ```
//!
//! Every command ends with one of three exit codes: 0, it is done; 1, it is done and the answer is no (the
//! key is absent, problems were found); 2, it could not be done, and standard error says why. Standard output
//! has only the answer. Told to stop by a signal, it closes the environment and ends with 128 and the
//! signal's number; `volume guard`, which does nothing else until then, with 0 if it could. `globals lock`,
//! which runs a command, ends with what that has ended with.
//!
//! Only `put`, `increment`, `queue append`, `sequence`, `text read`, `db create`, `load`, `sql`, `backup`,
//! `restore`, `volume hold` and `papers` create environments. The others open what exists, which recovers it
//! if need be, and refuse to make it up. What only reads writes nothing to an environment that was closed.

mod arguments;
mod aside;
mod commands;
mod interrupt;
mod keying;
mod lifetime;
mod naming;
mod output;
mod part;
mod placing;
mod portable;
mod progress;
mod removal;
mod shown;
mod tuples;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use commands::{
    backup, checkpoint, compact, completions, count, db, del, dump, get, globals, increment, journal, keygen,
    keys, load, locks, log, man, papers, processes, put, queue, recover, restore, scan, sequence, serve, sql,
    stat, statements, text, verify, volume, work,
};

/// What the command is called.
const NAME: &str = "sablecat";

/// Added to a signal's number.
const SIGNALLED: u8 = 128;

/// Look at, change, check and measure a sablecat environment.
#[derive(Debug, Parser)]
#[command(
    name = NAME,
    version,
    after_help = "Exit codes: 0 done; 1 the key is absent or problems were found; 2 the command failed; \
                  129, 130, 143 interrupted by a signal, after closing the environment."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

// What each accepts, and what help says of it, is made when it is asked for.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
enum Command {
    Get(get::Arguments),
    Put(put::Arguments),
    Increment(increment::Arguments),
    Del(del::Arguments),
    Scan(scan::Arguments),
    Count(count::Arguments),
    Queue(queue::Arguments),
    Globals(globals::Arguments),
    Sequence(sequence::Arguments),
    Text(text::Arguments),
    Db(db::Arguments),
    Sql(sql::Arguments),
    Dump(dump::Arguments),
    Load(load::Arguments),
    Stat(stat::Arguments),
    Verify(verify::Arguments),
    Checkpoint(checkpoint::Arguments),
    Compact(compact::Arguments),
    Backup(backup::Arguments),
    Restore(restore::Arguments),
    Recover(recover::Arguments),
    Journal(journal::Arguments),
    Volume(volume::Arguments),
    Keygen(keygen::Arguments),
    Keys(keys::Arguments),
    Log(log::Arguments),
    Processes(processes::Arguments),
    Locks(locks::Arguments),
    Papers(Box<papers::Arguments>),
    Completions(completions::Arguments),
    Man(man::Arguments),
    #[command(name = serve::NAME, hide = true)]
    Serve(serve::Arguments),
    #[command(name = statements::NAME, hide = true)]
    Statements(statements::Arguments),
    #[command(name = work::NAME, hide = true)]
    Work(work::Arguments),
}

/// What a command came to, if it could be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// The key is absent, or problems were found.
    No,
    /// What it has run has ended with this.
    Ended(u8),
}

/// Why a command could not be carried out: a sentence for standard error.
type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let command = asked_for();
    // Those that start processes of their own leave signals to these.
    let listens = !matches!(
        command,
        Command::Papers(_) | Command::Serve(_) | Command::Statements(_) | Command::Work(_)
    );
    if let Err(error) = if listens { interrupt::listen() } else { Ok(()) } {
        eprintln!("sablecat: listening for signals: {error}");
        return ExitCode::from(2);
    }
    // A command that stays until it is told to stop has done what it was to do.
    let stays = matches!(&command, Command::Volume(arguments) if arguments.stays());
    // Nothing is used after it was unwound from but the signal.
    let ended = catch_unwind(AssertUnwindSafe(|| carry_out(command)));
    // What it has run may have been told to stop with it, and says by its exit code what came of that.
    let has_run = matches!(ended, Ok(Ok(Outcome::Ended(_))));
    if let Some(signal) = interrupt::signal().filter(|_| !stays && !has_run) {
        return ExitCode::from(SIGNALLED + signal);
    }
    match ended.unwrap_or_else(|panic| resume_unwind(panic)) {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::No) => ExitCode::from(1),
        Ok(Outcome::Ended(code)) => ExitCode::from(code),
        // The reader of our output has had enough: `sablecat scan … | head`.
        Err(failure) if output::is_broken_pipe(&*failure) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("sablecat: {failure}");
            ExitCode::from(2)
        }
    }
}

/// The command that this process was given. Where its first word says which one that is, what the others
/// accept is not made: that of all takes longer than all else until a command begins.
fn asked_for() -> Command {
    let mut accepted = Arguments::command();
    let mut words = std::env::args_os().skip(1);
    let is_clear = words.next().is_some_and(|word| match word.to_str() {
        Some("--version" | "-V") => true,
        Some("help") => words.next().is_some(),
        _ => accepted.find_subcommand(&word).is_some(),
    });
    if !is_clear {
        accepted.build();
    }
    let given = Arguments::from_arg_matches_mut(&mut accepted.get_matches());
    given.unwrap_or_else(|error| error.format(&mut Arguments::command()).exit()).command
}

/// What the command accepts, as data: without what is hidden, which scripts for shells would show.
fn described() -> clap::Command {
    let whole = Arguments::command();
    let shown = clap::Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .disable_help_subcommand(true);
    shown
        .about(whole.get_about().cloned().unwrap_or_default())
        .after_help(whole.get_after_help().cloned().unwrap_or_default())
        .subcommands(whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned())
}

fn carry_out(command: Command) -> Result<Outcome, Failure> {
    match command {
        Command::Get(arguments) => get::run(&arguments),
        Command::Put(arguments) => put::run(&arguments),
        Command::Increment(arguments) => increment::run(&arguments),
        Command::Del(arguments) => del::run(&arguments),
        Command::Scan(arguments) => scan::run(&arguments),
        Command::Count(arguments) => count::run(&arguments),
        Command::Sequence(arguments) => sequence::run(&arguments),
        Command::Text(arguments) => text::run(&arguments),
        Command::Db(arguments) => db::run(&arguments),
        Command::Queue(arguments) => queue::run(&arguments),
        Command::Globals(arguments) => globals::run(&arguments),
        Command::Sql(arguments) => sql::run(&arguments),
        Command::Dump(arguments) => dump::run(&arguments),
        Command::Load(arguments) => load::run(&arguments),
        Command::Stat(arguments) => stat::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Checkpoint(arguments) => checkpoint::run(&arguments),
        Command::Compact(arguments) => compact::run(&arguments),
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Restore(arguments) => restore::run(&arguments),
        Command::Recover(arguments) => recover::run(&arguments),
        Command::Journal(arguments) => journal::run(&arguments),
        Command::Volume(arguments) => volume::run(&arguments),
        Command::Keygen(arguments) => keygen::run(&arguments),
        Command::Keys(arguments) => keys::run(&arguments),
        Command::Log(arguments) => log::run(&arguments),
        Command::Processes(arguments) => processes::run(&arguments),
        Command::Locks(arguments) => locks::run(&arguments),
        Command::Papers(arguments) => papers::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Man(arguments) => man::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Statements(arguments) => statements::run(&arguments),
        Command::Work(arguments) => work::run(&arguments),
    }
}
