//! The ways of a read and a write through the layers, as ARCHITECTURE.md lists them, are those of the code:
//! each function is in the file that its line names, which belongs to the layer that the line begins with;
//! each but the first is called in that file or one of an earlier line; and there are as many functions, and
//! as many changes of layer, as the text before the list says.

use super::Problem;
use crate::files::TextFile;
use crate::source;

const DOCUMENT: &str = "ARCHITECTURE.md";
const SOURCE: &str = "crates/sablecat/src/";
const LAYERS: [&str; 6] = ["api", "env", "txn", "pages", "access", "log"];

pub(super) fn check(files: &[TextFile]) -> Vec<Problem> {
    let Some(document) = files.iter().find(|file| file.path == DOCUMENT) else { return Vec::new() };
    let mut problems = Vec::new();
    let mut said = None;
    let mut lines = document.text.lines().enumerate().peekable();
    let mut text = String::new();
    while let Some((number, line)) = lines.next() {
        if line.starts_with('#') {
            text.clear();
        }
        text.push_str(line);
        text.push(' ');
        said = counts(&text).or(said);
        if line != "```text" || !lines.peek().is_some_and(|(_, line)| is_step(line)) {
            continue;
        }
        let (mut functions, mut changes, mut last) = (0, 0, None);
        let mut above = String::new();
        while let Some((at, line)) = lines.next_if(|(_, line)| is_step(line)) {
            let mut step = line.split("  ").map(str::trim).filter(|part| !part.is_empty());
            let mut next = || step.next().unwrap_or_default();
            let (layer, names, place) = (next(), next(), next());
            let path = place.split(':').next().unwrap_or_default();
            let there = files.iter().find(|file| file.path.strip_prefix(SOURCE) == Some(path));
            if there.is_none() || path.split('/').next() != Some(layer) {
                problems.push(Problem::new(document, at + 1, format!("{path} is no file of {layer}")));
            }
            let code = there.map(|file| source::code(&file.text)).unwrap_or_default();
            above.push_str(&code);
            for name in names.split(", ") {
                let function = name.trim_start_matches("or ").rsplit("::").next().unwrap_or_default();
                let is_there = source::words(&code, function).any(|at| code[..at].ends_with("fn "));
                if there.is_some() && !is_there {
                    problems.push(Problem::new(document, at + 1, format!("{path} has no fn {function}")));
                }
                if is_there && functions > 0 && !is_called(&above, function) {
                    let what = format!("no file up to here calls {function}");
                    problems.push(Problem::new(document, at + 1, what));
                }
                functions += usize::from(!name.starts_with("or "));
            }
            changes += usize::from(last.is_some_and(|last| last != layer));
            last = Some(layer);
        }
        if said.take() != Some((functions, changes)) {
            problems.push(Problem::new(
                document,
                number + 1,
                format!("the text is to say: {functions} functions and {changes} changes of layer"),
            ));
        }
    }
    problems
}

/// Whether a function is called anywhere in the code.
fn is_called(code: &str, function: &str) -> bool {
    source::words(code, function)
        .any(|at| !code[..at].ends_with("fn ") && code[at + function.len()..].starts_with('('))
}

/// Whether a line is a step of such a way.
fn is_step(line: &str) -> bool {
    line.split(' ').next().is_some_and(|word| LAYERS.contains(&word)) && line.contains(".rs")
}

/// The last "N functions and M changes of layer" in a text.
fn counts(text: &str) -> Option<(usize, usize)> {
    let (before, after) = text.rsplit_once(" functions and ")?;
    let (changes, _) = after.split_once(" changes of layer")?;
    Some((before.rsplit(' ').next()?.parse().ok()?, changes.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(said: &str, steps: &str) -> Vec<TextFile> {
        let file = |path: &str, text: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
        vec![
            file(DOCUMENT, &format!("## Get\n\nIts way: {said}.\n\n```text\n{steps}```\n")),
            file(
                &format!("{SOURCE}txn/operations/single.rs"),
                "fn get_one() { self.show_one() }\nfn show_one() { covers(); t.find() }\n",
            ),
            file(&format!("{SOURCE}access/method.rs"), "fn covers() {}\nfn find() {}\n"),
        ]
    }

    const STEPS: &str = "txn     Kernel::get_one, show_one     txn/operations/single.rs: why\n\
                         access          Tree::covers, or find   access/method.rs\n";

    #[test]
    fn a_way_is_that_of_the_code() {
        assert_eq!(check(&way("3 functions and 1 changes of layer", STEPS)), []);
        assert_eq!(check(&way("3 functions\nand 1 changes of layer", STEPS)), []);
    }

    #[test]
    fn what_is_not_there_or_counted_wrongly_is_told() {
        assert_eq!(check(&way("4 functions and 1 changes of layer", STEPS)).len(), 1);
        assert_eq!(check(&way("a short one", STEPS)).len(), 1);
        let gone = STEPS.replace("show_one", "shown");
        assert_eq!(check(&way("3 functions and 1 changes of layer", &gone))[0].line, 6);
        let mut uncalled = way("3 functions and 1 changes of layer", STEPS);
        uncalled[1].text = uncalled[1].text.replace("covers()", "covered()");
        assert_eq!(check(&uncalled)[0].line, 7);
        let elsewhere = STEPS.replace("txn/operations/single.rs", "access/method.rs");
        assert!(!check(&way("3 functions and 1 changes of layer", &elsewhere)).is_empty());
    }
}
