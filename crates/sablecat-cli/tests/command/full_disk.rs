//! The commands on a file system that is full. It takes the right to mount one; without that there is nothing
//! to test.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::fs;
use std::process::Command;

use crate::support::Scratch;

/// The commands in a shell, each of which must succeed, on a file system of its own in the directory `mnt`.
/// False if none may be mounted.
fn on_small_disk(scratch: &Scratch, script: &str) -> bool {
    let mnt = scratch.path().join("mnt");
    fs::create_dir(&mnt).unwrap();
    let shell = |script: &str| {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-ec", script])
            .current_dir(scratch.path())
            .env("S", env!("CARGO_BIN_EXE_sablecat"));
        command.output()
    };
    let mount = "mount -t tmpfs -o size=40m none mnt; cd mnt;";
    if !shell(mount).is_ok_and(|tried| tried.status.success()) {
        eprintln!("skipped: no file system may be mounted here");
        return false;
    }
    let done = shell(&format!("{mount} {script}")).unwrap();
    assert!(
        done.status.success(),
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    true
}

#[test]
fn a_disk_that_others_have_filled_locks_nobody_out() {
    let scratch = Scratch::new("others");
    on_small_disk(
        &scratch,
        r#"
        $S put e k v; $S put e l w
        head -c 50000000 /dev/zero >f 2>/dev/null || true
        test "$($S get e k)" = v
        for command in "stat e" "scan e" "verify e" "recover e" "del e k" "compact e" "verify e"; do
            $S $command
        done
        test "$($S scan e --json)" = "$($S scan e --json --read-only)"
        test "$($S get e l)" = w
        rm f
        $S put e k x
        test "$($S get e k)" = x
        "#,
    );
}

#[test]
fn a_disk_that_the_environment_has_filled_itself_has_room_after_deletions() {
    let scratch = Scratch::new("itself");
    on_small_disk(
        &scratch,
        r#"
        v=$(head -c 120000 /dev/zero | tr '\0' a)
        head -c 20000000 /dev/zero >f
        i=0
        while $S put e k$i "$v" 2>/dev/null; do i=$((i + 1)); done
        test $i -gt 10
        head -c 50000000 /dev/zero >g 2>/dev/null || true
        for command in "stat e" "verify e" "get e k0" "recover e"; do $S $command; done
        n=0
        while test $n -lt $((i / 2)); do $S del e k$n; n=$((n + 1)); done
        $S compact e; $S verify e
        test $($S scan e --keys-only | wc -l) = $((i - n))
        $S put e k0 "$v"
        "#,
    );
}
