//! Running the command, from another place each time.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The command's exit status where processes cannot be stepped.
pub(crate) const NOT_PERMITTED: i32 = 3;

/// Runs a check with chance of its own. What fails says how to see it again.
pub(crate) fn run(check: &str, words: &[&str]) {
    let from = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64 % 1_000_000)
        .to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sablecat-check"));
    let out = command.args([check, "--from", &from]).args(words).output().expect("started");
    let said = String::from_utf8_lossy(&out.stdout);
    if out.status.code() == Some(NOT_PERMITTED) {
        eprintln!("{said}");
        return;
    }
    assert!(
        out.status.success(),
        "{check} --from {from} {words:?}: {said}{}",
        String::from_utf8_lossy(&out.stderr)
    );
}
