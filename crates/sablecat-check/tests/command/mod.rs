//! Running the command: from the same place each time, so that a change of something else does not meet what
//! nobody has seen yet; or from the place that `SABLECAT_TEST_FROM` says.

use std::process::Command;

/// The command's exit status where processes cannot be stepped.
pub(crate) const NOT_PERMITTED: i32 = 3;

/// Runs a check. What fails says how to see it again.
pub(crate) fn run(check: &str, words: &[&str]) {
    let from = std::env::var("SABLECAT_TEST_FROM").unwrap_or_else(|_| "1".to_owned());
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
