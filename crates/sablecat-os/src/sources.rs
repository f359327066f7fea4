//! A number for the sources that a crate was built from, for its build script: `build.rs` here, and that of
//! the library, which has this file by a link.
//!
//! Processes that share memory must agree on every word of it: where it stands, which process writes it when,
//! what a reader concludes. All of that is code, so two builds share memory if they are of the same code, and
//! there is no list of what counts that somebody would have to keep. Comments, blank lines and tests are no
//! part of it. Nor is where the sources lie, when they were written, or by which system, so the number is the
//! same wherever the same release is built.

use std::fs;
use std::io;
use std::path::Path;

/// Fowler, Noll and Vo's, of 64 bits: nobody is kept from making two sources alike, but nothing does so by
/// accident.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x100_0000_01b3;

/// The number of what is in a directory.
///
/// # Errors
/// Those of the system.
pub(crate) fn number(directory: &Path) -> io::Result<u64> {
    let mut number = OFFSET;
    add(directory, &mut number)?;
    Ok(number)
}

fn add(directory: &Path, number: &mut u64) -> io::Result<()> {
    let mut entries = fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name == "tests" || name == "tests.rs" {
            continue;
        }
        if path.is_dir() {
            add_line(&name, number);
            add(&path, number)?;
            add_line("", number);
        } else if name.ends_with(".rs") {
            add_line(&name, number);
            let text = fs::read_to_string(&path)?;
            let lines =
                text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
            lines.for_each(|line| add_line(line, number));
        }
    }
    Ok(())
}

fn add_line(line: &str, number: &mut u64) {
    for byte in line.bytes().chain([b'\n']) {
        *number = (*number ^ u64::from(byte)).wrapping_mul(PRIME);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_change_of_code_makes_another_number_and_nothing_else_does() {
        let base = std::env::temp_dir().join(format!("sablecat-sources-{}", std::process::id()));
        let write = |name: &str, text: &str| {
            let path = base.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("lib.rs", "//! Words.\nmod words;\n\nconst A: u32 = 1;\n");
        write("words/mod.rs", "/// A word.\nstruct Word(u64);\n");
        let before = number(&base).unwrap();
        let same: [(&str, &str); 4] = [
            ("lib.rs", "//! Other words.\r\nmod words;\r\n    const A: u32 = 1;  \r\n// More.\n"),
            ("words/tests/some.rs", "fn test() {}\n"),
            ("tests.rs", "fn test() {}\n"),
            ("words/README.md", "words\n"),
        ];
        for (name, text) in same {
            write(name, text);
            assert_eq!(number(&base).unwrap(), before, "{name}");
        }
        let others: [(&str, &str); 4] = [
            ("lib.rs", "mod words;\nconst A: u32 = 2;\n"),
            ("lib.rs", "const A: u32 = 1;\nmod words;\n"),
            ("words/mod.rs", "struct Word(u32);\n"),
            ("words/more.rs", ""),
        ];
        let mut numbers = vec![before];
        for (name, text) in others {
            write(name, text);
            numbers.push(number(&base).unwrap());
        }
        fs::rename(base.join("words"), base.join("other")).unwrap();
        numbers.push(number(&base).unwrap());
        numbers.sort_unstable();
        assert!(numbers.windows(2).all(|pair| pair[0] != pair[1]), "{numbers:x?}");
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn the_number_is_that_of_these_sources() {
        assert_eq!(number(Path::new("src")).unwrap(), crate::SOURCES);
    }
}
