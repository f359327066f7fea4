//! Tells the command what `sablecat-sql` was built of: which version of SQLite, and where its headers are.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for what in ["VERSION", "SOURCE"] {
        let told = std::env::var(format!("DEP_SABLECAT_SQLITE_{what}")).unwrap_or_default();
        println!("cargo:rustc-env=SQLITE_{what}={told}");
    }
}
