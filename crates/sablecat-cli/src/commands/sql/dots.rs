//! The commands of the shell, which begin with a dot.

use super::rows::{self, Look, MODES, Mode};
use super::shell::{Shell, came_up};
use super::{dump, import};
use crate::Failure;

/// A command: its name, what it may be given, and what it does.
struct Command {
    name: &'static str,
    arguments: &'static str,
    does: &'static str,
    run: fn(&mut Shell, &[String]) -> Result<(), Failure>,
}

/// All of them. The first letters of a name are enough where no other one begins so.
const COMMANDS: &[Command] = &[
    Command {
        name: "changes",
        arguments: "on|off",
        does: "Say how many rows statements change",
        run: |shell, given| switch(given, &mut shell.shows_changes),
    },
    Command {
        name: "databases",
        arguments: "",
        does: "List the databases that are attached, with where they are",
        run: |shell, given| {
            at_most(given, 0)?;
            let (db, look, out) = shell.answering();
            rows::print(&mut db.prepare("SELECT name, file FROM pragma_database_list")?, look, out)
        },
    },
    Command {
        name: "dump",
        arguments: "[TABLE]",
        does: "Print the statements that make the database, or a table, anew; TABLE may have % and _",
        run: |shell, given| {
            at_most(given, 1)?;
            let (db, _, out) = shell.answering();
            dump::dump(db, given.first().map_or("%", String::as_str), out)
        },
    },
    Command { name: "exit", arguments: "", does: "End", run: end },
    Command {
        name: "headers",
        arguments: "on|off",
        does: "Print the names of columns first, in lists and comma-separated values",
        run: |shell, given| switch(given, &mut shell.look.has_heads),
    },
    Command { name: "help", arguments: "", does: "List these commands", run: help },
    Command {
        name: "import",
        arguments: "[--skip N] [--separator C] FILE TABLE",
        does: "Insert a file of comma-separated values; its first line names the columns of a new table",
        run: |shell, given| import::import(&mut shell.db, given),
    },
    Command {
        name: "indexes",
        arguments: "[TABLE]",
        does: "List the indices, or those of a table",
        run: |shell, given| {
            let indices = "SELECT name FROM sqlite_schema
                WHERE type = 'index' AND tbl_name LIKE ?1 ORDER BY 1";
            list(shell, given, indices)
        },
    },
    Command {
        name: "mode",
        arguments: "list|csv|json|table|line",
        does: "How rows are printed",
        run: |shell, given| {
            at_most(given, 1)?;
            let named = given.first().map(String::as_str).unwrap_or_default();
            let mode = MODES.iter().find(|(name, _)| *name == named);
            let names: Vec<&str> = MODES.iter().map(|(name, _)| *name).collect();
            let (_, mode) = mode.ok_or_else(|| format!("the modes are {}", names.join(", ")))?;
            shell.look.mode = *mode;
            Ok(())
        },
    },
    Command {
        name: "nullvalue",
        arguments: "TEXT",
        does: "What is printed where there is no value",
        run: |shell, given| {
            shell.look.null = only(given)?.to_owned();
            Ok(())
        },
    },
    Command {
        name: "once",
        arguments: "FILE",
        does: "Write the next answer to a file",
        run: |shell, given| shell.send_to(Some(only(given)?), true),
    },
    Command {
        name: "output",
        arguments: "[FILE]",
        does: "Write answers to a file, or to standard output again",
        run: |shell, given| {
            at_most(given, 1)?;
            shell.send_to(given.first().map(String::as_str), false)
        },
    },
    Command { name: "quit", arguments: "", does: "End", run: end },
    Command {
        name: "read",
        arguments: "FILE",
        does: "Carry out the statements and commands of a file",
        run: |shell, given| shell.read(only(given)?),
    },
    Command {
        name: "schema",
        arguments: "[NAME]",
        does: "Print the statements that make tables, indices, views and triggers; NAME may have % and _",
        run: |shell, given| {
            let made_by = "SELECT sql || ';' FROM sqlite_schema
                WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
                AND (name LIKE ?1 OR tbl_name LIKE ?1) ORDER BY tbl_name, type DESC, name";
            list(shell, given, made_by)
        },
    },
    Command {
        name: "separator",
        arguments: "TEXT",
        does: "What parts values in lists; \\t is a tabulator",
        run: |shell, given| {
            shell.look.separator = only(given)?.replace("\\t", "\t");
            Ok(())
        },
    },
    Command {
        name: "tables",
        arguments: "[NAME]",
        does: "List tables and views; NAME may have % and _",
        run: |shell, given| {
            let tables = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')
                AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name LIKE ?1 ORDER BY 1";
            list(shell, given, tables)
        },
    },
    Command {
        name: "timer",
        arguments: "on|off",
        does: "Say how long statements take",
        run: |shell, given| switch(given, &mut shell.shows_time),
    },
];

/// The names of all commands, for completion.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|command| command.name)
}

/// Carries out a line that begins with a dot.
pub(super) fn carry_out(shell: &mut Shell, line: &str) -> Result<(), Failure> {
    let words = words(line.strip_prefix('.').unwrap_or(line))?;
    let (name, given) = words.split_first().map_or(("", &[][..]), |(name, given)| (&**name, given));
    let mut begin_so = COMMANDS.iter().filter(|command| !name.is_empty() && command.name.starts_with(name));
    let exactly = COMMANDS.iter().find(|command| command.name == name);
    let command = match (exactly, begin_so.next(), begin_so.next()) {
        (Some(command), ..) | (None, Some(command), None) => command,
        _ => {
            return Err(
                format!("no command begins with .{name}, or several do; .help lists the commands").into()
            );
        }
    };
    (command.run)(shell, given)
        .map_err(|error| came_up(format_args!(".{} {}", command.name, command.arguments), error))
}

fn end(shell: &mut Shell, given: &[String]) -> Result<(), Failure> {
    at_most(given, 0)?;
    shell.ended = true;
    Ok(())
}

fn help(shell: &mut Shell, _: &[String]) -> Result<(), Failure> {
    let width = COMMANDS.iter().map(|command| command.name.len() + command.arguments.len() + 1).max();
    let width = width.unwrap_or(0);
    let (_, _, out) = shell.answering();
    for Command { name, arguments, does, .. } in COMMANDS {
        let usage = format!("{name} {arguments}");
        writeln!(out, ".{usage:<width$}  {does}")?;
    }
    Ok(writeln!(
        out,
        "All other lines are SQL, up to a semicolon. The end of the input, Ctrl-D, ends the shell too."
    )?)
}

/// The words of a line; what is between quotes is one.
pub(super) fn words(line: &str) -> Result<Vec<String>, Failure> {
    let (mut words, mut chars) = (Vec::new(), line.chars().peekable());
    loop {
        while chars.next_if(|char| char.is_whitespace()).is_some() {}
        let Some(first) = chars.next() else { return Ok(words) };
        let mut word = String::new();
        if first == '\'' || first == '"' {
            loop {
                match chars.next() {
                    // Twice, it stands for itself.
                    Some(char) if char == first => match chars.next_if_eq(&first) {
                        Some(quote) => word.push(quote),
                        None => break,
                    },
                    Some(char) => word.push(char),
                    None => return Err(format!("a quote {first} is not closed").into()),
                }
            }
        } else {
            word.push(first);
            while let Some(char) = chars.next_if(|char| !char.is_whitespace()) {
                word.push(char);
            }
        }
        words.push(word);
    }
}

fn at_most(given: &[String], most: usize) -> Result<(), Failure> {
    match given.get(most) {
        Some(more) => Err(format!("{more:?} is one argument too many").into()),
        None => Ok(()),
    }
}

fn only(given: &[String]) -> Result<&str, Failure> {
    at_most(given, 1)?;
    Ok(given.first().ok_or("an argument is missing")?)
}

fn switch(given: &[String], what: &mut bool) -> Result<(), Failure> {
    *what = match only(given)? {
        "on" => true,
        "off" => false,
        other => return Err(format!("{other:?} is neither on nor off").into()),
    };
    Ok(())
}

/// Prints a line for each row of what a statement returns for a name, or for all.
fn list(shell: &mut Shell, given: &[String], sql: &str) -> Result<(), Failure> {
    at_most(given, 1)?;
    let (db, _, out) = shell.answering();
    let mut statement = db.prepare(sql)?;
    statement.raw_bind_parameter(1, given.first().map_or("%", String::as_str))?;
    rows::print(&mut statement, &Look::new(Mode::List), out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_words_and_what_is_quoted_is_one() {
        let parted = words("import  'my file.csv' \"a \"\"b\"\"\" it's").expect("closed quotes");
        assert_eq!(parted, ["import", "my file.csv", "a \"b\"", "it's"]);
        assert!(words("read 'open").is_err());
        assert!(COMMANDS.is_sorted_by_key(|command| command.name), "as .help shows them");
    }
}
