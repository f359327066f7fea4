//! Compressed environments by the command.

use std::fmt::Write;

use crate::support::Scratch;

#[test]
fn an_environment_is_compressed_as_it_is_asked_for_and_stat_says_what_that_saves() {
    let scratch = Scratch::new("compression");
    let done = |arguments: &str, input: &str| {
        let answer = scratch.run_with(arguments, input.as_bytes(), &[]);
        assert_eq!((answer.code, answer.err.as_str()), (0, ""), "{arguments}");
        answer.out
    };
    let refused = |arguments: &str, why: &str| {
        let answer = scratch.run(arguments);
        assert!(answer.code == 2 && answer.err.contains(why), "{arguments}: {}", answer.err);
    };
    let mut lines = String::new();
    for n in 0..5000 {
        let value = format!("record {n} is as all the others are ").repeat(10);
        writeln!(lines, r#"{{"key":"{n:05}","value":"{value}"}}"#).expect("to a string");
    }
    refused("put small a 1 --page-size 4096 --compression lz4", "16384");
    refused("put small a 1 --compression zip", "is not a compression");
    let files = scratch.run("put probe a 1 --compression lz4");
    if files.err.contains("holes") {
        return;
    }
    done("load env --format json --compression zstd --db main", &lines);
    let stat = scratch.json("stat env --json");
    assert_eq!((&stat["page_size"], &stat["volumes"][0]["compression"]), (&32768.into(), &"zstd:3".into()));
    assert_eq!(stat["volumes"][0]["makes_holes"], true);
    let [bytes, occupied] =
        ["volume_bytes", "occupied_bytes"].map(|name| stat[name].as_u64().expect("a number"));
    assert!(occupied * 2 < bytes, "{occupied} of {bytes}");
    assert!(done("stat env", "").contains("zstd:3"));
    // Changed, and changed back.
    done("put env later 1 --compression lz4", "");
    assert_eq!(scratch.json("stat env --json")["volumes"][0]["compression"], "lz4");
    done("put env later 2 --compression none", "");
    assert_eq!(scratch.json("stat env --json")["volumes"][0]["compression"], "none");
    done("put env later 3 --compression main=zstd:7", "");

    done("backup env copy", "");
    assert_eq!(scratch.json("stat copy --json")["volumes"][0]["compression"], "zstd:7");
    done("restore copy new --to-compression none", "");
    let stat = scratch.json("stat new --json");
    assert_eq!((&stat["volumes"][0]["compression"], &stat["page_size"]), (&"none".into(), &32768.into()));
    assert_eq!(done("get new later", ""), "3");
    assert_eq!(done("get copy 04321", ""), done("get new 04321", ""));
}
