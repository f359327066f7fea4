//! The text files of the checkout.

use std::fs;
use std::io;
use std::path::Path;

/// Directories that hold nothing anybody wrote here.
const SKIPPED: [&str; 3] = [".git", "target", "proptest-regressions"];
/// Files that a tool writes.
const GENERATED: [&str; 1] = ["Cargo.lock"];

/// One text file.
#[derive(Debug)]
pub(crate) struct TextFile {
    /// Where it is, from the root of the checkout, with `/` between the parts.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl TextFile {
    /// True if the file's name ends in `.` and this.
    pub(crate) fn is(&self, extension: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, have)| have == extension)
    }
}

/// All text files below `root`, in the order of their paths. What is not UTF-8 is no text.
pub(crate) fn all(root: &Path) -> io::Result<Vec<TextFile>> {
    let mut found = Vec::new();
    walk(root, "", &mut found)?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn walk(directory: &Path, prefix: &str, found: &mut Vec<TextFile>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
        // Files of these names too: in a second work tree, `.git` is one.
        if SKIPPED.contains(&name.as_str()) {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(&entry.path(), &path, found)?;
        } else if kind.is_file()
            && !GENERATED.contains(&name.as_str())
            && let Ok(text) = String::from_utf8(fs::read(entry.path())?)
        {
            found.push(TextFile { path, text });
        }
    }
    Ok(())
}
