//! Tells the crate which sources it is built from: `SABLECAT_SOURCES`, a number in sixteen digits.

use std::path::Path;

#[path = "src/sources.rs"]
mod sources;

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rustc-env=SABLECAT_SOURCES={:016x}", sources::number(Path::new("src"))?);
    Ok(())
}
