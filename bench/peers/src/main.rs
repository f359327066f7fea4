//! `sablecat-peers`: other embedded stores, run on sablecat's workload, one process per system.
//!
//! ```text
//! sablecat-peers list                   one JSON document: the systems, their versions, what each mode means
//! sablecat-peers serve --system NAME    then one JSON request per line in, one JSON answer per line out
//! ```
//!
//! The layers, each a file: [`protocol`] is the words of the requests and answers, [`server`] carries them
//! out, [`asked`] says which of them make sense, [`contents`] remembers what a directory holds, [`system`] is
//! what an adapter is, [`c`] the door to those in C (src/c), [`rust`] has the others, [`upkeep`] keeps house
//! beside a run, [`watch`] times its operations, [`machine`] reads memory and disk use, and [`workload`],
//! [`shape`] and [`mix`] are the records and what is done to them. These three, [`asked`] and the loops of
//! [`rust`] are files of the papers' crate. README.md has the protocol with examples and the table of modes.
//!
//! A process serves one system, so that its resident memory is that system's; the program that compares them
//! runs several side by side and asks each in turn.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;

#[path = "../../../crates/sablecat-papers/src/serve/asked.rs"]
mod asked;
mod c;
mod contents;
mod machine;
#[path = "../../../crates/sablecat-papers/src/mix.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with a crate that uses and exports all of it")]
mod mix;
mod protocol;
mod rust;
mod server;
#[path = "../../../crates/sablecat-papers/src/shape.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with a crate that uses and exports all of it")]
mod shape;
mod system;
mod upkeep;
mod watch;
#[path = "../../../crates/sablecat-papers/src/workload.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with a crate that uses and exports all of it")]
mod workload;

const USAGE: &str = "usage: sablecat-peers list | sablecat-peers serve --system NAME";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["list"] => say(&protocol::List::of_all()),
        ["serve", "--system", name] => serve(name),
        ["--help" | "-h" | "help"] => writeln!(io::stdout(), "{USAGE}"),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sablecat-peers: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Answers requests until the input ends; then closes what is open.
fn serve(name: &str) -> io::Result<()> {
    let mut server = match system::find(name) {
        Ok(system) => server::Server::new(system),
        Err(reason) => {
            eprintln!("skipped: {name}: {reason}");
            return say(&protocol::Answer::Skipped { skipped: format!("{name}: {reason}") });
        }
    };
    for line in io::stdin().lock().lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        say(&server.answer(&line))?;
    }
    server.finish();
    Ok(())
}

fn say(answer: &impl serde::Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, answer)?;
    out.write_all(b"\n")?;
    out.flush()
}
