//! What the command says of itself: its help, the scripts for shells, the manual pages, the README. Each
//! names every command, and none that is hidden.

use std::fs;

use crate::support::{Scratch, answer};

/// The commands that the help lists.
fn commands(scratch: &Scratch) -> Vec<String> {
    let help = scratch.run("--help").out;
    let (_, list) = help.split_once("Commands:\n").expect("a list of commands");
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.map(|line| line.split_whitespace().next().expect("a command").to_owned());
    names.filter(|name| name != "help").collect()
}

/// Whether something is named in a text, and not only as part of another name.
fn names(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric();
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part))
}

#[test]
fn shells_complete_every_command() {
    let scratch = Scratch::new("completions");
    let commands = commands(&scratch);
    assert!(commands.len() > 10, "{commands:?}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = scratch.run(&format!("completions {shell}"));
        assert_eq!((script.code, script.err.as_str()), (0, ""), "{shell}");
        for name in commands.iter().map(String::as_str).chain(["--read-only", "json", "quick"]) {
            let name = name.trim_start_matches("--");
            assert!(names(&script.out, name), "{shell}: {name}");
        }
        for hidden in ["papers-serve", "papers-sql", "papers-work"] {
            assert!(!script.out.contains(hidden), "{shell}: {hidden} is hidden");
        }
        assert!(names(&script.out, "report"), "{shell}: papers report");
    }
    let unknown = scratch.run("completions csh");
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("possible values: bash, elvish, fish"), "{}", unknown.err);
}

#[test]
fn every_command_has_a_manual_page() {
    let scratch = Scratch::new("man");
    assert_eq!(scratch.run("man pages/man1"), answer(0, "", ""));
    let page = |name: &str| {
        fs::read_to_string(scratch.path().join("pages/man1").join(name)).expect("it was written")
    };
    let whole = page("sablecat.1");
    assert_eq!(scratch.run("man"), answer(0, &whole, ""));
    assert!(whole.contains("Exit codes: 0 done;"));
    let commands = commands(&scratch);
    for name in &commands {
        assert!(whole.contains(&format!("sablecat\\-{name}(1)")), "{name}");
        let page = page(&format!("sablecat-{name}.1"));
        assert!(
            page.contains(&format!(".TH sablecat-{name} 1"))
                && page.contains(&format!("fBsablecat {name}\\fR")),
            "{page}"
        );
    }
    assert!(page("sablecat-get.1").contains("\\-\\-read\\-only"));
    let within = [
        "queue-append",
        "queue-consume",
        "queue-peek",
        "globals-data",
        "globals-next",
        "globals-previous",
        "globals-children",
        "globals-merge",
        "globals-lock",
        "text-read",
        "text-write",
        "db-create",
        "db-rename",
        "db-clear",
        "db-remove",
        "volume-hold",
        "volume-flush",
        "volume-guard",
        "papers-report",
    ];
    for name in within {
        let page = page(&format!("sablecat-{name}.1"));
        assert!(page.contains(&format!("fBsablecat {}\\fR", name.replace('-', " "))), "{page}");
    }
    let written = fs::read_dir(scratch.path().join("pages/man1")).expect("there").count();
    assert_eq!(written, commands.len() + within.len() + 1, "and no others");

    fs::write(scratch.path().join("file"), "").expect("written");
    let refused = scratch.run("man file");
    assert_eq!((refused.code, refused.out.as_str()), (2, ""));
    assert!(refused.err.starts_with("sablecat: making file: "), "{}", refused.err);
}

#[test]
fn the_readme_lists_every_command() {
    let readme = include_str!("../../README.md");
    let (_, part) = readme.split_once("## On a fresh machine\n").expect("a part about the command");
    let (list, _) = part.split_once("\n## ").expect("another part after it");
    for name in commands(&Scratch::new("readme")) {
        assert!(names(list, &name), "{name}");
    }
}

#[test]
fn the_help_shows_options_where_they_belong() {
    let scratch = Scratch::new("help");
    for command in ["get", "put", "del", "scan", "stat"] {
        let help = scratch.run(&format!("{command} -h")).out;
        let (_, rest) = help.split_once("Volumes:\n").expect("a part for volumes");
        let (volumes, keys) = rest.split_once("Encryption:\n").expect("a part for keys behind it");
        let shown = |part: &str| -> Vec<String> {
            part.lines().filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
        };
        assert_eq!(
            shown(volumes),
            ["--volume", "--place", "--compression", "--unencrypted-volume", "--page-size"],
            "{command}: {help}"
        );
        assert_eq!(shown(keys), ["--key-file", "--key-variable", "--cipher"], "{command}: {help}");
    }
}

/// What a command accepts is made when it is asked for, and help asks in several ways.
#[test]
fn the_list_says_of_each_command_what_its_own_help_begins_with() {
    let scratch = Scratch::new("list");
    let whole = scratch.run("--help").out;
    assert_eq!([scratch.run("help").out, scratch.run("").err], [whole.as_str(); 2]);
    for name in commands(&scratch) {
        let short = scratch.run(&format!("{name} -h")).out;
        let said = short.lines().next().expect("a sentence");
        let line = whole.lines().find(|line| line.trim_start().starts_with(&format!("{name} ")));
        assert_eq!(line.expect("it is in the list").trim_start()[name.len()..].trim_start(), said, "{name}");
        let long = scratch.run(&format!("{name} --help"));
        assert_eq!(scratch.run(&format!("help {name}")), long, "{name}");
        assert!(long.out.starts_with(said), "{name}");
        assert_eq!(scratch.run(&format!("{name} --no-such-option")).code, 2, "{name}");
    }
    assert!(scratch.run("ge").err.contains("exists: 'get'"), "{}", scratch.run("ge").err);
}
