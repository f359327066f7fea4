//! The commands where a process may have little address space.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::process::Command;

use crate::support::Scratch;

/// What a shell says, with what is complained of, in which all commands have so many KiB of address space.
fn within(scratch: &Scratch, kib: u64, script: &str) -> String {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("ulimit -v {kib}; exec 2>&1; {script}")])
        .current_dir(scratch.path())
        .env("S", env!("CARGO_BIN_EXE_sablecat"));
    String::from_utf8(shell.output().unwrap().stdout).unwrap()
}

#[test]
fn an_environment_has_places_for_what_the_address_space_allows() {
    let scratch = Scratch::new("limited");
    // Those of the first have some places, those of the second few.
    for (kib, key) in [(1 << 20, "some"), (200 << 10, "few")] {
        let script = format!(
            "$S put e {key} v && $S scan e --read-only --keys-only && $S verify e && $S compact e \
             >/dev/null && $S del e {key}"
        );
        let said = within(&scratch, kib, &script);
        assert!(said.contains(key) && said.contains("problems") && !said.contains("sablecat:"), "{said}");
    }
    // Of one that was made with places for everything, and written elsewhere.
    assert_eq!(scratch.run("put f k v").code, 0);
    assert_eq!(within(&scratch, 200 << 10, "$S get f k; $S put f k w; $S get f k"), "vw");
}

#[test]
fn who_cannot_have_the_cache_is_told_what_to_do() {
    let scratch = Scratch::new("none");
    let said = within(&scratch, 100 << 10, "$S put e k v");
    assert!(said.contains("address space") && said.contains("ulimit -v") && said.contains("cache"), "{said}");
}

/// Beyond the limit the system would end the process, without a word.
#[test]
fn who_may_not_make_a_file_as_long_as_the_shared_memory_is_told_so() {
    let scratch = Scratch::new("files");
    let said = within(&scratch, 64 << 20, "ulimit -f 65536; $S put e k v");
    assert!(said.contains("ulimit -f") && said.contains("cache"), "{said}");
    assert_eq!(scratch.run("put e k v").code, 0);
}
