//! Long runs of the checks: `sablecat-check <check> [--seeds N] [--from S]`. Exit code 0: all is well; 1: something is wrong; 2: the command
//! makes no sense.

use std::process::ExitCode;

use sablecat_check::seeds;

const USAGE: &str =
    "usage: sablecat-check <model|crash|crash-calls|store|faults|damage|histories|fuzz <pages|log|superblock>> [--seeds N] [--from S]";

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let (mut name, mut count, mut from) = (None, 1000, 0);
    while let Some(mut word) = words.next() {
        if word == "fuzz" {
            word.extend(words.next().map(|target| format!(" {target}")));
        }
        let number = |words: &mut dyn Iterator<Item = String>| words.next().and_then(|word| word.parse::<u64>().ok());
        let understood = match word.as_str() {
            "--seeds" => number(&mut words).map(|n| count = n),
            "--from" => number(&mut words).map(|n| from = n),
            _ if name.is_none() && seeds::CHECKS.iter().any(|(known, _)| *known == word) => {
                name = Some(word);
                Some(())
            }
            _ => None,
        };
        if understood.is_none() {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    let Some(name) = name else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let mut failed = 0;
    for seed in from..from.saturating_add(count) {
        if let Err(wrong) = seeds::one(&name, seed) {
            println!("{wrong}");
            failed += 1;
        }
    }
    println!("{name}: {count} seeds from {from}, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
