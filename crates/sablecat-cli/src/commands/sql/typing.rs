//! Lines as they are typed: history, completion, statements of several lines.

use std::path::PathBuf;
use std::{env, fs};

use rusqlite::Connection;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Context, Editor, Helper};

use super::dots;
use super::shell::Shell;
use crate::{Failure, NAME, interrupt};

const PROMPT: &str = "sql> ";
/// So many statements are remembered.
const HISTORY_MAX: usize = 10_000;
/// Words of SQL that are completed.
const WORDS: &[&str] = &[
    "ALTER",
    "ANALYZE",
    "ATTACH",
    "AUTOINCREMENT",
    "BEGIN",
    "BETWEEN",
    "CASCADE",
    "CHECK",
    "COLLATE",
    "COLUMN",
    "COMMIT",
    "CONFLICT",
    "CONSTRAINT",
    "CREATE",
    "CROSS",
    "DEFAULT",
    "DELETE",
    "DETACH",
    "DISTINCT",
    "EXCEPT",
    "EXCLUSIVE",
    "EXISTS",
    "EXPLAIN",
    "FOREIGN",
    "FROM",
    "GLOB",
    "GROUP BY",
    "HAVING",
    "IMMEDIATE",
    "INDEX",
    "INNER",
    "INSERT INTO",
    "INTEGER",
    "INTERSECT",
    "JOIN",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NATURAL",
    "NULL",
    "OFFSET",
    "ORDER BY",
    "OUTER",
    "PARTITION BY",
    "PRAGMA",
    "PRIMARY KEY",
    "QUERY PLAN",
    "RECURSIVE",
    "REFERENCES",
    "REINDEX",
    "RELEASE",
    "RENAME",
    "REPLACE",
    "RETURNING",
    "ROLLBACK",
    "SAVEPOINT",
    "SELECT",
    "STRICT",
    "TABLE",
    "TEMPORARY",
    "TRANSACTION",
    "TRIGGER",
    "UNION",
    "UNIQUE",
    "UPDATE",
    "USING",
    "VACUUM",
    "VALUES",
    "VIEW",
    "VIRTUAL",
    "WHERE",
    "WINDOW",
    "WITH",
    "WITHOUT ROWID",
];

/// What helps to type.
struct Help {
    /// Names of the schema.
    names: Vec<String>,
    files: FilenameCompleter,
}

impl Helper for Help {}
impl Highlighter for Help {}
impl Hinter for Help {
    type Hint = String;
}

impl Validator for Help {
    /// A statement goes on until it is whole; a command of the shell is a line.
    fn validate(&self, typed: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let typed = typed.input();
        let is_whole = typed.trim().is_empty() || typed.starts_with('.') || sablecat_sql::is_complete(typed);
        Ok(if is_whole { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Completer for Help {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        match line.starts_with('.') && line[..at].contains(' ') {
            true => self.files.complete(line, at, context),
            false => Ok(self.words(&line[..at])),
        }
    }
}

impl Help {
    /// Where the word that a text ends with begins, and what it may be.
    fn words(&self, typed: &str) -> (usize, Vec<Pair>) {
        let pair = |word: &str| Pair { display: word.to_owned(), replacement: word.to_owned() };
        if let Some(name) = typed.strip_prefix('.') {
            return (1, dots::names().filter(|command| command.starts_with(name)).map(pair).collect());
        }
        let begin = typed
            .rfind(|char: char| !char.is_alphanumeric() && char != '_')
            .map_or(0, |before| before + typed[before..].chars().next().map_or(0, char::len_utf8));
        let word = typed[begin..].to_lowercase();
        if word.is_empty() {
            return (begin, Vec::new());
        }
        let begins_so = |name: &&str| name.to_lowercase().starts_with(&word);
        let names = self.names.iter().map(String::as_str).filter(begins_so).map(pair);
        // In the letters that the word is typed in.
        let is_small = typed[begin..].starts_with(char::is_lowercase);
        let words = WORDS.iter().copied().filter(begins_so);
        let words = words.map(|word| if is_small { pair(&word.to_lowercase()) } else { pair(word) });
        (begin, names.chain(words).collect())
    }
}

/// Reads lines from the terminal until there are no more. What fails is said, and the next one is read.
pub(super) fn run(shell: &mut Shell) -> Result<(), Failure> {
    let config = Config::builder().max_history_size(HISTORY_MAX)?.auto_add_history(true).build();
    let mut editor: Editor<Help, FileHistory> = Editor::with_config(config)?;
    let history = history();
    if let Some(path) = &history {
        // There is none before the first time.
        let _ = editor.load_history(path);
    }
    println!("SQLite {} on {NAME}; .help lists commands, Ctrl-D ends.", sablecat_sql::SQLITE_VERSION);
    loop {
        let names = names(&shell.db).unwrap_or_default();
        editor.set_helper(Some(Help { names, files: FilenameCompleter::new() }));
        match editor.readline(PROMPT) {
            Ok(typed) => {
                let done = shell.text(&typed);
                // Ctrl-C ends what is being done; other signals end the shell.
                let is_told = interrupt::signal().is_some() && !interrupt::forget_interrupt()?;
                match done {
                    Ok(()) if !is_told && !shell.ended => {}
                    Err(error) if !is_told => eprintln!("{error}"),
                    _ => break,
                }
            }
            // What was typed is dropped.
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(path) = &history {
        editor.save_history(path).map_err(|error| format!("writing {}: {error}", path.display()))?;
    }
    Ok(())
}

/// Where statements are remembered; nowhere if there is no place for that.
fn history() -> Option<PathBuf> {
    let of = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let directory = of("XDG_STATE_HOME").or_else(|| Some(of("HOME")?.join(".local/state")))?.join(NAME);
    fs::create_dir_all(&directory).ok()?;
    Some(directory.join("sql-history"))
}

/// The names of tables, views and indices, and of their columns.
fn names(db: &Connection) -> rusqlite::Result<Vec<String>> {
    let names = "SELECT name FROM sqlite_schema UNION
        SELECT c.name FROM sqlite_schema s JOIN pragma_table_info(s.name) c
        WHERE s.type IN ('table', 'view')";
    db.prepare(names)?.query_map([], |row| row.get(0))?.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_words_and_commands_are_completed() {
        let help = Help { names: vec!["people".into(), "Person".into()], files: FilenameCompleter::new() };
        let complete = |typed: &str| {
            let (begin, pairs) = help.words(typed);
            (begin, pairs.into_iter().map(|pair| pair.replacement).collect::<Vec<_>>())
        };
        assert_eq!(complete("SELECT * FROM pe"), (14, vec!["people".to_owned(), "Person".to_owned()]));
        assert_eq!(complete("sel"), (0, vec!["select".to_owned()]));
        assert_eq!(complete("x ORD"), (2, vec!["ORDER BY".to_owned()]));
        assert_eq!(complete(".sch"), (1, vec!["schema".to_owned()]));
        assert_eq!(complete("SELECT é"), (7, vec![]));
        assert_eq!(complete("SELECT "), (7, vec![]));
    }
}
