//! Layers point one way: a module of the engine names modules of lower layers only.
//!
//! Read from the paths that begin with `crate::`, in `use` lines and elsewhere. Modules of one row stand
//! beside each other and do not know each other; the first row, which everything is counted in, is the
//! exception. DESIGN.md says what each layer owns.
//!
//! And above `access` no access method is named: what is there works with any (access/method.rs). Tests may
//! look inside one.

use std::collections::HashMap;

use super::Problem;
use crate::files::TextFile;
use crate::source;

/// The layers, lowest first.
const LAYERS: [&[&str]; 9] = [
    &["types", "error", "trace"],
    &["region", "tuple"],
    &["log", "pages"],
    &["access"],
    &["txn"],
    &["env"],
    &["api"],
    &["globals", "typed"],
    &["fuzzing", "guide"],
];
const SOURCE: &str = "crates/sablecat/src/";
/// The layer of the access methods, and their modules.
const ACCESS: &str = "access";
const METHODS: [&str; 1] = ["btree"];

pub(super) fn check(files: &[TextFile]) -> Vec<Problem> {
    let exported = files
        .iter()
        .find(|file| file.path == format!("{SOURCE}lib.rs"))
        .map(|lib| exports(&source::code(&lib.text)))
        .unwrap_or_default();
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.is("rs")) {
        let Some(module) = file.path.strip_prefix(SOURCE).and_then(|rest| rest.split(['/', '.']).next())
        else {
            continue;
        };
        if module == "lib" {
            continue;
        }
        let Some(own) = layer(module) else {
            problems.push(Problem::new(
                file,
                0,
                format!("module {module} belongs to no layer; give it one in xtask/src/tidy/layers.rs and DESIGN.md"),
            ));
            continue;
        };
        let code = source::code(&file.text);
        if layer(ACCESS).is_some_and(|access| own > access) && !is_test(&file.path) {
            problems.extend(methods_named(file, &code));
        }
        for (at, name) in crate_paths(&code) {
            let named = exported.get(&name).map_or(name.as_str(), String::as_str);
            let allowed = named == module
                || layer(named).is_some_and(|other| other < own || (other == own && own == 0));
            if !allowed {
                let line = source::line_of(&code, at);
                problems.push(Problem::new(
                    file,
                    line,
                    format!("{module} uses {named}, which is not a layer below it"),
                ));
            }
        }
    }
    problems
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// Whether a file has nothing but tests in it.
fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// Where a module of the access methods is part of a path.
fn methods_named(file: &TextFile, code: &str) -> Vec<Problem> {
    let of = |method: &'static str| {
        let is_path =
            move |at: &usize| code[..*at].ends_with("::") || code[*at + method.len()..].starts_with("::");
        source::words(code, method).filter(is_path).map(move |at| {
            Problem::new(
                file,
                source::line_of(code, at),
                format!("names {method}; above {ACCESS} no access method is known"),
            )
        })
    };
    METHODS.iter().flat_map(|method| of(method)).collect()
}

/// The first names of all paths that begin with `crate::`, with their offsets.
fn crate_paths(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for at in source::words(code, "crate") {
        let Some(rest) = code[at..].strip_prefix("crate::") else { continue };
        match rest.strip_prefix('{').and_then(|group| group.split_once('}')) {
            Some((group, _)) => found.extend(group.split(',').map(|name| (at, first_name(name.trim())))),
            None => found.push((at, first_name(rest))),
        }
    }
    found.retain(|(_, name)| !name.is_empty());
    found
}

fn first_name(path: &str) -> String {
    path.chars().take_while(|&c| c.is_alphanumeric() || c == '_').collect()
}

/// What the crate's root exports, and from which module.
fn exports(lib: &str) -> HashMap<String, String> {
    let mut exports = HashMap::new();
    for at in source::words(lib, "pub use") {
        let Some((line, _)) = lib[at + "pub use".len()..].split_once(';') else { continue };
        let Some((module, names)) = line.trim().split_once("::") else { continue };
        for name in names.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|name| !name.is_empty())
        {
            exports.insert(name.to_owned(), module.to_owned());
        }
    }
    exports
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: format!("{SOURCE}{path}"), text: text.to_owned() }
    }

    #[test]
    fn lower_layers_may_be_used_and_others_may_not() {
        let fine = file(
            "pages/pool/latch.rs",
            "use crate::region::X;\nuse crate::{error::Result, types::Lsn};\nuse crate::pages::volume;\n",
        );
        assert_eq!(check(&[fine]), []);
        let beside = file("pages/pool/latch.rs", "\nlet x = crate::log::Log;\n");
        assert_eq!(check(&[beside])[0].line, 2);
        let above = file("access/mod.rs", "use crate::txn::Kernel;");
        assert_eq!(check(&[above]).len(), 1);
    }

    #[test]
    fn no_access_method_is_named_above_them() {
        let within = file("access/method.rs", "use super::btree;\nfn f() { btree::g() }\n");
        assert_eq!(check(&[within]), []);
        let other = file("txn/write_set.rs", "use std::collections::btree_map;\nlet btree = 1;\n");
        assert_eq!(check(&[other]), []);
        let tests = file("txn/tests/nested.rs", "use crate::access::btree::nest;\n");
        assert_eq!(check(&[tests]), []);
        let above = file(
            "txn/apply.rs",
            "use crate::access::Tree;\nuse crate::access::btree;\nfn f() { btree::find() }\n",
        );
        assert_eq!(check(&[above]).iter().map(|problem| problem.line).collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn names_of_the_root_count_as_their_modules() {
        let lib = file("lib.rs", "pub use error::{Error, Result};\npub use api::Env;\n");
        let fine = file("region/mod.rs", "fn f() -> crate::Result<()> { Ok(()) }");
        let wrong = file("txn/mod.rs", "fn f(_: crate::Env) {}");
        assert_eq!(check(&[lib, fine, wrong]).len(), 1);
    }
}
