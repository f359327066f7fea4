//! The programs in `examples/`: each is run twice in one directory, since a program finds what it left the
//! last time, and does what it says.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// After this a program is taken to be stuck: some take a second.
const TIME: Duration = Duration::from_secs(600);

/// The program of an example, which `cargo test` builds before it runs tests.
fn program(name: &str) -> PathBuf {
    // TARGET/PROFILE/deps/examples-HASH is this one.
    let own = std::env::current_exe().expect("a program");
    let path = own.ancestors().nth(2).expect("in a directory of cargo's").join("examples").join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name).with_extension("rs");
    let made = |path: &Path| fs::metadata(path).and_then(|file| file.modified());
    let is_new = made(&path).is_ok_and(|made_at| made(&source).expect("it has a source") <= made_at);
    assert!(
        is_new,
        "{} is not there, or older than its source: run `cargo build -p sablecat --examples` first",
        path.display()
    );
    path
}

fn ends(child: &mut Child) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < TIME {
        if child.try_wait().expect("waited for").is_some() {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    false
}

/// Runs an example twice; what each run printed.
fn run(name: &str) -> [String; 2] {
    let directory = std::env::temp_dir().join(format!("sablecat-example-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    let runs = [(); 2].map(|()| {
        let mut command = Command::new(program(name));
        let mut child =
            command.arg(&directory).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
        if !ends(&mut child) {
            child.kill().expect("killed");
            panic!("{name} did not end: {:?}", child.wait_with_output());
        }
        let output = child.wait_with_output().expect("ended");
        let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text"));
        assert!(output.status.success() && err.is_empty(), "{name}: {}\n{out}{err}", output.status);
        out
    });
    fs::remove_dir_all(&directory).expect("removed");
    runs
}

#[test]
fn jobs_are_done_once_although_a_worker_is_killed() {
    let runs = run("job_queue");
    assert!(runs.iter().all(|printed| printed.ends_with("400 jobs are done, each once\n")), "{runs:?}");
    // Where the machine is busy all may be done before the program sees a worker at it.
    assert!(
        runs.iter().any(|printed| printed.contains("killed a worker that had a job in hand\n")),
        "{runs:?}"
    );
}

#[test]
fn as_many_tickets_are_sold_as_there_are() {
    for printed in run("several_processes") {
        assert!(printed.ends_with("all 500 tickets are sold\n"), "{printed}");
    }
}

#[test]
fn documents_are_found_by_their_words() {
    for printed in run("inverted_index") {
        assert_eq!(printed, "rose: {\"rose\", \"worm\"}\nwor...: {\"worm\"}\n2 documents, 29 entries\n");
    }
}

#[test]
fn what_is_over_leaves_the_cache() {
    for printed in run("cache_with_expiry") {
        assert_eq!(printed, "249 entries were over\npage 7 is there after a restart\n");
    }
}

#[test]
fn an_address_is_given_once() {
    for printed in run("secondary_index") {
        assert!(printed.starts_with("refused: setting the record 3 of \"users\""), "{printed}");
        assert!(printed.ends_with("\n2 users, 1 orders\n"), "{printed}");
    }
}

#[test]
fn a_backup_is_of_one_moment_and_brought_up_to_date() {
    for printed in run("backup") {
        let commits = printed.strip_prefix("commits since the copy: ").and_then(|rest| rest.split_once('\n'));
        let (commits, rest) = commits.unwrap_or_else(|| panic!("{printed}"));
        assert!(commits.parse::<u64>().is_ok_and(|commits| commits > 0), "{printed}");
        assert_eq!(rest, "the backup is whole: true\n");
    }
}

#[test]
fn changes_are_gone_on_with() {
    for printed in run("change_feed") {
        assert!(
            printed.starts_with("stock: apples is 10\nstock: apples is 9\n")
                && printed.ends_with("is gone\n"),
            "{printed}"
        );
    }
}

#[test]
fn the_tour_goes_through_everything() {
    for printed in run("tour") {
        assert_eq!(printed, "a line of each: 21 databases\n");
    }
}

#[test]
fn each_line_of_the_readme_is_in_the_tour() {
    let (readme, tour) = (include_str!("../../../README.md"), include_str!("../examples/tour.rs"));
    let table = readme.split("## What it stores").nth(1).and_then(|rest| rest.split("\n## ").next());
    let lines = table.expect("it is there").lines().filter_map(|line| line.split('|').nth(2));
    let codes: Vec<_> = lines.filter_map(|cell| cell.trim().strip_prefix('`')?.strip_suffix('`')).collect();
    assert!(codes.len() > 10, "{codes:?}");
    let plain = |text: &str| text.split_whitespace().collect::<String>();
    for code in codes {
        assert!(plain(tour).contains(&plain(code)), "{code} is not in the tour");
    }
}

#[test]
fn each_example_is_run() {
    let run = include_str!("examples.rs");
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")).expect("there") {
        let name = entry.expect("read").path().file_stem().expect("a name").to_string_lossy().into_owned();
        assert!(run.contains(&format!("run(\"{name}\")")), "nothing runs {name}");
    }
}
