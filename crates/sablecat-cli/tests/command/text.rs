//! `text`: the lines of a file as numbered records, and back.

use std::fs;
use std::os::unix::fs::symlink;

use crate::kinds::{all_done, refused};
use crate::support::{Scratch, answer};
use serde_json::json;

#[test]
fn lines_are_read_changed_and_written_back() {
    let scratch = Scratch::new("text");
    let at = |name: &str| scratch.path().join(name);
    fs::write(at("steps"), "wash\n\ndry").expect("written");
    symlink("steps", at("link")).expect("made");
    let read = scratch.run("text read env link --db steps --renumbered");
    assert_eq!(read, answer(0, "3 records read\n", ""));
    assert_eq!(scratch.run("scan env --db steps"), answer(0, "1\twash\n2\t\n3\tdry\n", ""));
    all_done(
        &scratch,
        &["put env 2 rinse --db steps", "put env 3 spin --insert --db steps", "del env 1 --db steps"],
    );
    assert_eq!(fs::read_to_string(at("steps")).expect("read"), "wash\n\ndry", "until it is written");
    all_done(&scratch, &["text write env link --db steps", "text write env new --db steps --delimiter 44"]);
    assert_eq!(fs::read_to_string(at("steps")).expect("read"), "rinse\nspin\ndry\n");
    assert_eq!(fs::read_to_string(at("new")).expect("read"), "rinse,spin,dry,");
    assert!(at("link").is_symlink());
    // Numbers that stay; and again, in the place of all that there were.
    assert_eq!(scratch.json("text read env new --db kept --delimiter 44 --json"), json!({"records": 3}));
    all_done(&scratch, &["del env 2 --db kept", "put env 5 press --db kept"]);
    assert_eq!(scratch.json("text write env new --db kept --json"), json!({"file": "new"}));
    assert_eq!(fs::read_to_string(at("new")).expect("read"), "rinse\n\ndry\n\npress\n");
    assert_eq!(scratch.run("text read env steps --db kept"), answer(0, "3 records read\n", ""));
    assert_eq!(scratch.run("count env --db kept"), answer(0, "3\n", ""));
    // Of one length.
    all_done(&scratch, &["db create env rows --holds numbers --record-bytes 4 --pad 46"]);
    assert_eq!(scratch.run("text read env steps --db rows"), answer(0, "4 records read\n", ""));
    all_done(&scratch, &["text write env rows --db rows"]);
    assert_eq!(fs::read_to_string(at("rows")).expect("read"), "rinse\nspin\ndry\n.");
    assert_eq!(scratch.json("verify env --json")["problems"], json!([]));
}

#[test]
fn what_is_no_text_changes_nothing() {
    let scratch = Scratch::new("text-refused");
    let at = |name: &str| scratch.path().join(name);
    fs::write(at("text"), "one\n").expect("written");
    fs::create_dir(at("directory")).expect("made");
    refused(&scratch, "text read env none", "reading the text none: there is no such file");
    refused(&scratch, "text read env directory", "directory");
    assert!(!at("env").exists());
    assert_eq!(scratch.run("text read env text").code, 0);
    refused(&scratch, "text read env none", "there is no such file");
    refused(&scratch, "text read env directory", "directory");
    assert_eq!(scratch.run("scan env"), answer(0, "1\tone\n", ""), "they are as they were");
    assert_eq!(scratch.run_with("put env 2", b"two\nlines", &[]), answer(0, "", ""));
    refused(&scratch, "text write env text", "record 2 contains the byte 0x0a");
    assert_eq!(fs::read_to_string(at("text")).expect("read"), "one\n");
    all_done(&scratch, &["put env k v --db plain"]);
    for device in ["/dev/null", "."] {
        refused(&scratch, &format!("text read env {device} --db new"), "it is not a regular file");
    }
    symlink("directory", at("link")).expect("made");
    refused(&scratch, "text write env /dev/stdout", "it is not a regular file");
    // Nor among the environment's own files, however the path gets there.
    symlink("env", at("there")).expect("made");
    all_done(&scratch, &["put env k v --db placed --volume more=more.db"]);
    for path in
        ["env/more.db", "env/sablecat.db", "env/../env/sablecat.lock", "there/sablecat.new", "env/log/1"]
    {
        refused(&scratch, &format!("text write env {path}"), "one of the environment's own files");
    }
    refused(&scratch, "text write env link", "writing the text link: it is not a regular file");
    for call in ["text read env text --db plain", "text write env text --db plain"] {
        refused(&scratch, call, "\"plain\" holds plain records, and was asked for as");
    }
    refused(&scratch, "text write env text --db none", "there is no database none in env");
    refused(&scratch, "text write none text", "there is no environment in");
}
