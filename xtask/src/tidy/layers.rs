//! Layers point one way: a module of the engine names modules of lower layers only.
//!
//! Read from the paths that begin with `crate::`, in `use` lines and elsewhere. Modules of one row stand
//! beside each other and do not know each other; the first row, which everything is counted in, is the
//! exception. DESIGN.md says what each layer owns.
//!
//! So do the rooms of some layers: each uses the ones before it in `ROOMS`, and never what the layer's own
//! file, `mod.rs`, shows of all of them to the layers above. That is read from the paths that begin with the
//! layer, and from those that leave a room by `super`. (A room's functions are those of its own type, which
//! owns that of the room before it: so the compiler sees to what is called.)
//!
//! And above `pages` nobody reaches through it into the region: what is meant has a name there, but for the
//! few files of `REGION`.
//!
//! And nobody but `pages`, and who mends what the dead left, sets or ends a pin: others have a guard for it.
//!
//! And above `access` no access method is named, be it by its module or by its name in `Method`, but for the
//! default by the latter: what is there works with any (access/method.rs). Tests may look inside one, and so
//! may the few files of `NAMING`. The methods are the folders of `access`, and the names in `Method`: so none
//! is forgotten.

use std::collections::{BTreeSet, HashMap};

use super::Problem;
use crate::files::TextFile;
use crate::source;

/// The layers, lowest first.
const LAYERS: [&[&str]; 10] = [
    &["types", "error", "trace", "seldom", "zeros"],
    &["region", "tuple", "crypt"],
    &["log", "pages"],
    &["access"],
    &["txn"],
    &["env"],
    &["api"],
    &["globals"],
    &["typed"],
    &["fuzzing", "guide"],
];
const SOURCE: &str = "crates/sablecat/src/";
/// The rooms of some layers, lowest first. The first row are files that use none of them.
const ROOMS: [(&str, &[&[&str]]); 3] = [
    (
        PAGES,
        &[
            &["header", "bell"],
            &["participants"],
            &["allocation"],
            &["volume"],
            &["generation"],
            &["pool"],
            &["visibility"],
            &["store"],
        ],
    ),
    (
        "txn",
        &[
            &["options", "pairs", "ranges", "refusals"],
            &["locks"],
            &["catalog"],
            &["pending"],
            &["state"],
            &["commit"],
            &["seen"],
            &["trees"],
            &["transactions"],
            &["mending"],
            &["operations"],
        ],
    ),
    (
        "env",
        &[
            &["mutex", "placed"],
            &["config"],
            &["files"],
            &["recovery"],
            &["running"],
            &["upkeep"],
            &["databases"],
            &["streams"],
            &["opening"],
        ],
    ),
];
const PAGES: &str = "pages";
/// Files above `pages` that work on the region itself, and why.
const REGION: [(&str, &str); 6] = [
    ("env/opening/attach.rs", "makes it, enters and leaves it"),
    ("env/running/counters.rs", "counts all that is in it"),
    ("env/running/processes.rs", "shows all that is in it"),
    ("txn/locks/table.rs", "lays the lock table out in it"),
    ("txn/commit/mod.rs", "hands it to the log, which asks it who lives"),
    ("txn/mending/reap.rs", "mends what the dead left anywhere in it"),
];
/// What sets and ends the pins of a slot, and the room beside `pages` that may: it ends those of the dead.
const PINS: [&str; 4] = ["set_pin", "unpin", "set_guard", "unguard"];
const MENDING: &str = "txn/mending/";
/// The layer of the access methods, and the file that has their names.
const ACCESS: &str = "access";
const METHOD: &str = "access/method.rs";
/// Files above `access` that name methods, and why.
const NAMING: [(&str, &str); 1] = [("fuzzing.rs", "it makes pages of each, for fuzzers to damage")];

pub(super) fn check(files: &[TextFile]) -> Vec<Problem> {
    let exported = files
        .iter()
        .find(|file| file.path == format!("{SOURCE}lib.rs"))
        .map(|lib| exports(&source::code(&lib.text)))
        .unwrap_or_default();
    let methods = Methods::of(files);
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
                format!(
                    "module {module} belongs to no layer; give it one in xtask/src/tidy/layers.rs and \
                     DESIGN.md"
                ),
            ));
            continue;
        };
        let code = source::code(&file.text);
        if layer(ACCESS).is_some_and(|access| own > access) && !is_test(&file.path) {
            problems.extend(methods.named(file, &code));
        }
        if layer(PAGES).is_some_and(|pages| own > pages) && !is_test(&file.path) {
            problems.extend(reaches_into_region(file, &code));
        }
        if module != PAGES && !is_test(&file.path) {
            problems.extend(pins_set(file, &code));
        }
        if !is_test(&file.path) {
            let rooms = ROOMS.iter().find(|(layer, _)| *layer == module);
            problems.extend(rooms.into_iter().flat_map(|(_, rows)| rooms_above(file, &code, module, rows)));
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

/// Where a room of a layer names one that is not below it, or a thing by the name that all of the layer has
/// for it.
fn rooms_above(file: &TextFile, code: &str, layer: &str, rows: &[&[&str]]) -> Vec<Problem> {
    let code = before_tests(code);
    let inside = file.path.strip_prefix(SOURCE).and_then(|path| path.strip_suffix(".rs"));
    let module: Vec<&str> =
        inside.unwrap_or_default().split('/').filter(|name| *name != "mod" && !name.is_empty()).collect();
    let Some(&room) = module.get(1) else { return Vec::new() };
    let row = |room: &str| rows.iter().position(|row| row.contains(&room));
    let Some(own) = row(room) else {
        return vec![Problem::new(
            file,
            0,
            format!("room {room} of {layer} has no place; give it one in xtask/src/tidy/layers.rs"),
        )];
    };
    // From a module so deep, as many times `super` lead out of the room.
    let outwards = "super::".repeat(module.len() - 1);
    let named = paths(code, &format!("crate::{layer}::")).into_iter().chain(paths(code, &outwards));
    named
        .filter(|(_, name)| name != room && row(name).is_none_or(|other| other >= own))
        .map(|(at, name)| {
            let line = source::line_of(code, at);
            Problem::new(file, line, format!("{layer}/{room} uses {name}, which is not a room below it"))
        })
        .collect()
}

/// What comes before a file's tests.
fn before_tests(code: &str) -> &str {
    code.find("#[cfg(test)]\nmod ").map_or(code, |tests| &code[..tests])
}

/// Where a file above `pages` reaches into the region.
fn reaches_into_region(file: &TextFile, code: &str) -> Vec<Problem> {
    let path = file.path.strip_prefix(SOURCE).unwrap_or_default();
    if REGION.iter().any(|(allowed, _)| *allowed == path) {
        return Vec::new();
    }
    let code = before_tests(code);
    let reaching = source::words(code, "region").filter(|&at| {
        let after = &code[at + "region".len()..];
        let is_field = code[..at].ends_with('.') && !code[..at].ends_with("..");
        code[..at].ends_with("pages.") || is_field && after.starts_with(['.', '('])
    });
    reaching
        .map(|at| {
            let line = source::line_of(code, at);
            Problem::new(file, line, format!("reaches into the region; ask {PAGES} for what it means"))
        })
        .collect()
}

/// Where a file outside `pages` sets or ends a pin itself.
fn pins_set(file: &TextFile, code: &str) -> Vec<Problem> {
    if file.path.strip_prefix(SOURCE).is_some_and(|path| path.starts_with(MENDING)) {
        return Vec::new();
    }
    let code = before_tests(code);
    let of = |name: &'static str| {
        let is_used = move |at: &usize| code[..*at].ends_with(['.', ':']);
        source::words(code, name).filter(is_used).map(move |at| {
            let line = source::line_of(code, at);
            Problem::new(file, line, format!("{name} of a slot; have a guard of {PAGES} that ends with you"))
        })
    };
    PINS.iter().flat_map(|name| of(name)).collect()
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// Whether a file has nothing but tests in it.
fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// The access methods that there are.
#[derive(Default)]
struct Methods {
    /// Their modules.
    modules: BTreeSet<String>,
    /// Their names, but for the one that is meant where nobody asks for another.
    names: Vec<String>,
}

impl Methods {
    fn of(files: &[TextFile]) -> Methods {
        let mut methods = Methods::default();
        for file in files {
            let Some(path) = file.path.strip_prefix(SOURCE) else { continue };
            if let [ACCESS, folder, _, ..] = path.split('/').collect::<Vec<_>>()[..] {
                methods.modules.insert(folder.to_owned());
            }
            if path == METHOD {
                methods.names = names_of_methods(&source::code(&file.text));
            }
        }
        methods
    }

    /// Where a method is named: by its module, as part of a path, or as one of `Method`.
    fn named(&self, file: &TextFile, code: &str) -> Vec<Problem> {
        let path = file.path.strip_prefix(SOURCE).unwrap_or_default();
        if NAMING.iter().any(|(allowed, _)| *allowed == path) {
            return Vec::new();
        }
        let code = before_tests(code);
        let is_module = |at: usize, method: &str| {
            let before = &code[..at];
            let is_of_std = before.ends_with("std::") || before.ends_with("core::");
            !is_of_std && (before.ends_with("::") || code[at + method.len()..].starts_with("::"))
        };
        let modules = self.modules.iter().flat_map(|method| {
            let found = source::words(code, method).filter(move |&at| is_module(at, method));
            found.map(move |at| (at, method))
        });
        let names = self.names.iter().flat_map(|name| {
            let found = source::words(code, name).filter(|&at| code[..at].ends_with("Method::"));
            found.map(move |at| (at, name))
        });
        let told = modules.chain(names).map(|(at, method)| {
            let what = format!("names {method}; above {ACCESS} no access method is known");
            Problem::new(file, source::line_of(code, at), what)
        });
        told.collect()
    }
}

/// The names in `Method`, but for that which is marked as the default.
fn names_of_methods(code: &str) -> Vec<String> {
    let Some((_, names)) = code.split_once("enum Method {") else { return Vec::new() };
    let names = names.split('}').next().unwrap_or_default();
    let mut is_default = false;
    let mut found = Vec::new();
    for line in names.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let name = first_name(line);
        if name.is_empty() {
            is_default |= line == "#[default]";
        } else if !std::mem::take(&mut is_default) {
            found.push(name);
        }
    }
    found
}

/// The first names of all paths that begin with `crate::`, with their offsets.
fn crate_paths(code: &str) -> Vec<(usize, String)> {
    paths(code, "crate::")
}

/// The names behind a beginning of paths, with their offsets.
fn paths(code: &str, beginning: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let first = beginning.split("::").next().unwrap_or_default();
    for at in source::words(code, first).filter(|&at| !code[..at].ends_with("::")) {
        let Some(rest) = code[at..].strip_prefix(beginning) else { continue };
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
    fn rooms_of_pages_use_those_below_them() {
        let fine = file(
            "pages/pool/sweep.rs",
            "use super::Pool;\nuse crate::pages::header;\nuse crate::pages::participants::Participant;\n",
        );
        assert_eq!(check(&[fine]), []);
        let top = file("pages/mod.rs", "use crate::pages::store::Store;");
        assert_eq!(check(&[top]), []);
        let tests = file("pages/volume/tests/mod.rs", "use crate::pages::Pages;");
        assert_eq!(check(&[tests]), []);
        let lines = |file| check(&[file]).iter().map(|problem| problem.line).collect::<Vec<_>>();
        let above = file(
            "pages/pool/sweep.rs",
            "use crate::pages::store::run;\nuse crate::pages::{Pages, header};\n\
             fn f(_: crate::pages::Run) {}\n",
        );
        assert_eq!(lines(above), [1, 2, 3]);
        let out = file(
            "txn/trees/apply.rs",
            "use super::Trees;\nuse super::super::commit::publish;\nuse super::super::operations::Kernel;\n",
        );
        assert_eq!(lines(out), [3]);
        let out = file(
            "txn/trees/mod.rs",
            "use super::{commit, operations};\n#[cfg(test)]\nmod tests {\nuse super::super::operations;\n}\n",
        );
        assert_eq!(lines(out), [1]);
        assert_eq!(check(&[file("txn/pairs.rs", "use super::Kernel;")]).len(), 1);
        assert_eq!(check(&[file("pages/attic/mod.rs", "")]).len(), 1);
    }

    #[test]
    fn nobody_above_pages_reaches_into_the_region() {
        let fine = file(
            "txn/commit/publish.rs",
            "fn f() { self.pages.newest() }\n#[cfg(test)]\nmod tests { fn g() { pages.region.stall() } }\n",
        );
        assert_eq!(check(&[fine]), []);
        let allowed = file("txn/mending/reap.rs", "fn f() { pages.region().stall() }");
        assert_eq!(check(&[allowed]), []);
        let below = file("pages/pool/sweep.rs", "fn f() { self.region.stall() }");
        assert_eq!(check(&[below]), []);
        let reaching = file(
            "env/opening/open.rs",
            "fn f() { pages.region.stall() }\nfn g() { &kernel.pages.region }\n\
             fn h() { shared.region.slot(1) }\nfn i() { 0..region.slots() }\n",
        );
        assert_eq!(check(&[reaching]).iter().map(|problem| problem.line).collect::<Vec<_>>(), [1, 2, 3]);
    }

    /// The lines on which a file beside two access methods names one.
    fn naming(path: &str, text: &str) -> Vec<usize> {
        let methods = file(
            METHOD,
            "/// That.\n#[default]\npub enum Method {\n    /// A { tree.\n    #[default]\n    Btree,\n\
             #[cfg(feature = \"seam\")]\n    #[doc(hidden)]\n    Newest,\n    Hash,\n}\n\
             const Other: u8 = 1;\n",
        );
        let folders = ["access/btree/node/mod.rs", "access/newest/page.rs", "access/scan.rs"];
        let mut files: Vec<_> = folders.map(|path| file(path, "")).into();
        files.extend([methods, file(path, text)]);
        check(&files).iter().map(|problem| problem.line).collect()
    }

    #[test]
    fn nobody_outside_pages_sets_pins() {
        let fine = file(
            "region/slot.rs",
            "impl Slot { fn set_pin(&self) {} fn unpin(&self) {} }\n#[cfg(test)]\nmod tests { fn f() { \
             slot.unpin() } }\n",
        );
        assert_eq!(check(&[fine]), []);
        let within = file("pages/participants/pin.rs", "fn f() { slot.set_pin(at); slot.unguard() }");
        assert_eq!(check(&[within]), []);
        let mending = file("txn/mending/reap.rs", "fn f() { slot.unpin(); slot.unguard() }");
        assert_eq!(check(&[mending]), []);
        let tests = file("txn/tests/explore/reaping.rs", "fn f() { slot.set_pin(at) }");
        assert_eq!(check(&[tests]), []);
        let outside = file(
            "txn/seen/walk.rs",
            "fn f() { seat.slot().set_pin(at) }\nfn g() { slot.unpin() }\nfn h() { slot.set_guard(at) }\n\
             fn i() { guards.for_each(Slot::unguard) }\n",
        );
        assert_eq!(check(&[outside]).iter().map(|problem| problem.line).collect::<Vec<_>>(), [1, 2, 3, 4]);
        let below = file("log/flush.rs", "fn f() { slot.unpin() }");
        assert_eq!(check(&[below]).len(), 1);
    }

    #[test]
    fn no_access_method_is_named_above_them() {
        let within = "use super::btree;\nfn f() { btree::g(); Method::Newest }\n";
        assert_eq!(naming("access/whole.rs", within), []);
        let other = "use std::collections::btree_map;\nlet btree = 1;\nlet Hash = Other::Hash;\n";
        assert_eq!(naming("txn/pending/write_set.rs", other), []);
        assert_eq!(naming("txn/trees/apply.rs", "// Method::Hash\nfn f() { Method::Btree.g() }\n"), []);
        assert_eq!(naming("txn/tests/nested.rs", "use crate::access::btree::nest;\n"), []);
        let tests = "#[cfg(test)]\nmod tests { fn f() { Method::Hash } }\n";
        assert_eq!(naming("txn/trees/apply.rs", tests), []);
        assert_eq!(naming("fuzzing.rs", "fn f() { Method::Hash }\n"), []);
        let modules = "use crate::access::Tree;\nuse crate::access::btree;\nfn f() { newest::find() }\n";
        assert_eq!(naming("txn/trees/apply.rs", modules), [2, 3]);
        let names = "use crate::access::Method;\nfn f() { Method::Newest }\nfn g() { Method::Hash }\n";
        assert_eq!(naming("env/databases/mod.rs", names), [2, 3]);
    }

    #[test]
    fn names_of_the_root_count_as_their_modules() {
        let lib = file("lib.rs", "pub use error::{Error, Result};\npub use api::Env;\n");
        let fine = file("region/mod.rs", "fn f() -> crate::Result<()> { Ok(()) }");
        let wrong = file("txn/mod.rs", "fn f(_: crate::Env) {}");
        assert_eq!(check(&[lib, fine, wrong]).len(), 1);
    }
}
