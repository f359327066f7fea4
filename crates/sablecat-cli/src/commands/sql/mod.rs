//! `sql`: statements, on the tables of an environment; from a script, or as they are typed.
//!
//! ```text
//! shell.rs    lines, put together to statements and commands of the shell, and carried out
//! dots.rs     the commands of the shell, which begin with a dot
//! rows.rs     what a statement returns, printed in one of several ways
//! dump.rs     a database as the statements that make it
//! import.rs   a file of comma-separated values, inserted into a table
//! typing.rs   lines as they are typed: history, completion, statements of several lines
//! ```

mod dots;
mod dump;
mod import;
mod rows;
mod shell;
mod typing;

use std::io::{self, BufRead, IsTerminal};
use std::path::PathBuf;

use crate::{Failure, Outcome};
use rows::Mode;
use shell::Shell;

/// Run SQL on an environment, which is created if there is none
///
/// The SQL is SQLite's. Without --command it is read from standard input: on a terminal one statement at a
/// time, with history and completion. Lines that begin with a dot are commands of the shell: .help lists
/// them. Rows are printed one per line, with their values separated by `|`, as SQLite's shell prints them,
/// and on a terminal as tables. The first statement that fails ends a script; a transaction that is open then
/// is rolled back.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The environment's directory, or a database file of SQLite's
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The SQL to run, instead of standard input; repeatable
    #[arg(short, long, value_name = "SQL")]
    command: Vec<String>,
    /// Print the rows of each statement that has some as a JSON array of objects; blobs as hexadecimal digits
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let is_typed = arguments.command.is_empty() && io::stdin().is_terminal();
    let mode = match arguments.json {
        true => Mode::Json,
        false if is_typed && io::stdout().is_terminal() => Mode::Table,
        false => Mode::List,
    };
    let mut shell = Shell::open(&arguments.dir, mode)?;
    if is_typed {
        typing::run(&mut shell)?;
    } else if arguments.command.is_empty() {
        shell.script(io::stdin().lock().lines())?;
    } else {
        for command in &arguments.command {
            shell.text(command)?;
            if shell.ended {
                break;
            }
        }
    }
    shell.close()?;
    Ok(Outcome::Done)
}
