//! Every `unsafe` says why it is sound: a `SAFETY:` comment at a block or an impl, a `# Safety` section or
//! such a comment at a function. And the library has it in a few named modules only; ARCHITECTURE.md lists
//! them for people.

use super::Problem;
use crate::files::TextFile;
use crate::source;

/// Modules of the library that may have unsafe code, from `crates/sablecat/src/`. Those whose names end in
/// `/` stand for all below.
const ALLOWED: [&str; 19] = [
    "access/btree/node/simd.rs",
    "access/hash/tags.rs",
    "api/data_store.rs",
    "api/kept.rs",
    "env/files/mod.rs",
    "env/opening/open.rs",
    "env/recovery/recover.rs",
    "log/flush.rs",
    "log/lane.rs",
    "log/mod.rs",
    "log/ring.rs",
    "log/succession.rs",
    "log/sum.rs",
    "pages/",
    "region/bytes.rs",
    "region/fence.rs",
    "region/mod.rs",
    "txn/commit/direct.rs",
    "txn/locks/table.rs",
];
const SOURCE: &str = "crates/sablecat/src/";

fn is_allowed(path: &str) -> bool {
    path.strip_prefix(SOURCE).is_none_or(|module| {
        module.contains("tests") || ALLOWED.iter().any(|allowed| module.starts_with(allowed))
    })
}

pub(super) fn check(files: &[TextFile]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.is("rs")) {
        let code = source::code(&file.text);
        let raw: Vec<&str> = file.text.lines().collect();
        let bare: Vec<&str> = code.lines().collect();
        let mut last = 0;
        for at in source::words(&code, "unsafe") {
            let line = source::line_of(&code, at);
            // A type such as `unsafe fn(u8)` promises nothing by itself, and one note serves a whole line.
            // (The name of the calling convention is a literal, and blank by now.)
            let after = code[at + "unsafe".len()..].trim_start();
            let is_type = after.starts_with("fn(")
                || after.strip_prefix("extern").is_some_and(|rest| rest.trim_start().starts_with("fn("));
            if line != last && !is_allowed(&file.path) {
                problems.push(Problem::new(
                    file,
                    line,
                    "unsafe in a module that is to have none; see xtask/src/tidy/unsafety.rs",
                ));
            }
            if line != last && !is_type && !is_noted(&raw, &bare, line - 1) {
                problems.push(Problem::new(
                    file,
                    line,
                    "unsafe without a note: say in a `// SAFETY:` comment (for a function, under `# \
                     Safety`) why it is sound",
                ));
            }
            last = line;
        }
    }
    problems
}

/// Whether a note stands in the line, or above it before the statement or item begins.
fn is_noted(raw: &[&str], code: &[&str], line: usize) -> bool {
    let says = |line: usize| raw[line].contains("SAFETY:") || raw[line].contains("# Safety");
    let mut at = line;
    loop {
        if says(at) {
            return true;
        }
        let Some(above) = at.checked_sub(1) else { return false };
        let text = raw[above].trim();
        let is_comment = text.starts_with("//");
        let is_attribute = text.starts_with("#[");
        let ends_something = text.is_empty() || code[above].trim_end().ends_with([';', '{', '}']);
        if ends_something && !is_comment && !is_attribute {
            return false;
        }
        at = above;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> usize {
        check(&[TextFile { path: "a.rs".to_owned(), text: text.to_owned() }]).len()
    }

    #[test]
    fn a_note_above_the_statement_counts() {
        assert_eq!(problems("// SAFETY: yes.\nlet a = unsafe { b() };\n"), 0);
        assert_eq!(problems("// SAFETY: yes.\nlet a = one(\n    unsafe { b() },\n);\n"), 0);
        assert_eq!(problems("/// # Safety\n/// Be careful.\n#[inline]\nunsafe fn f() {}\n"), 0);
    }

    #[test]
    fn a_note_of_another_statement_does_not() {
        assert_eq!(problems("// SAFETY: yes.\nlet a = 1;\nlet b = unsafe { c() };\n"), 1);
        assert_eq!(problems("unsafe impl Send for A {}\n"), 1);
    }

    #[test]
    fn only_named_modules_have_any() {
        let file = |module: &str| TextFile {
            path: format!("{SOURCE}{module}"),
            text: "// SAFETY: yes.\nunsafe { a() };\n".to_owned(),
        };
        assert_eq!(check(&[file("pages/pool/frames.rs"), file("txn/commit/direct.rs")]), []);
        assert_eq!(check(&[file("txn/trees/apply.rs")]).len(), 1);
    }

    #[test]
    fn a_type_of_functions_needs_none() {
        assert_eq!(
            problems("struct A {\n    one: unsafe extern \"C\" fn(u8),\n    two: unsafe fn(u8),\n}\n"),
            0
        );
    }
}
