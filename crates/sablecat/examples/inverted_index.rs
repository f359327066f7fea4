//! Full-text search: documents, and an index that says which of them have a word.
//!
//! `cargo run -p sablecat --example inverted_index [DIRECTORY]`
//!
//! The index is a second database. Its keys are a word, a zero byte, and a document's name; so all documents
//! with one word stand together, and so do all words that begin alike. A document and its entries change in
//! one transaction: no search finds a word in a document that does not have it any more.

use std::collections::BTreeSet;
use std::env;
use std::error::Error;
use std::path::PathBuf;

use sablecat::{Database, Env, Prefix, Result, Txn};

/// Between a word and the name of a document. No word has it.
const END_OF_WORD: u8 = 0;

struct Library {
    env: Env,
    documents: Database,
    index: Database,
}

impl Library {
    fn open(directory: PathBuf) -> Result<Library> {
        let env = Env::open(directory)?;
        Ok(Library { documents: env.database("documents")?, index: env.database("index")?, env })
    }

    /// Stores a document in the place of one of the same name, if there is one.
    fn store(&self, name: &str, text: &str) -> Result<()> {
        self.env.write(|txn| {
            self.take_out(txn, name)?;
            txn.insert(&self.documents, name, text)?;
            words(text).iter().try_for_each(|word| txn.insert(&self.index, entry(word, name), []))
        })
    }

    /// Removes a document; false if there is none of this name.
    fn remove(&self, name: &str) -> Result<bool> {
        self.env.write(|txn| self.take_out(txn, name))
    }

    /// The part of a transaction that both have: a document goes, and its entries with it.
    fn take_out(&self, txn: &mut Txn<'_>, name: &str) -> Result<bool> {
        let Some(text) = txn.take(&self.documents, name)? else { return Ok(false) };
        for word in words(&String::from_utf8_lossy(&text)) {
            txn.remove(&self.index, entry(&word, name))?;
        }
        Ok(true)
    }

    /// The documents that have every one of some words, as of one moment.
    fn with_all(&self, words: &[&str]) -> Result<BTreeSet<String>> {
        let now = self.env.snapshot()?;
        let mut found: Option<BTreeSet<String>> = None;
        for word in words {
            let beginning = entry(&word.to_lowercase(), "");
            let names = now
                .range(&self.index, Prefix(&beginning))?
                .map(|record| Ok(text(&record?.0[beginning.len()..])));
            let names = names.collect::<Result<BTreeSet<_>>>()?;
            found = Some(found.map_or(names.clone(), |found| found.intersection(&names).cloned().collect()));
        }
        Ok(found.unwrap_or_default())
    }

    /// The words of the library that begin so: suggestions for a word half typed.
    fn beginning_with(&self, beginning: &str) -> Result<BTreeSet<String>> {
        let entries = self.index.range(Prefix(beginning.to_lowercase()))?;
        entries
            .map(|record| Ok(text(record?.0.split(|&byte| byte == END_OF_WORD).next().unwrap_or_default())))
            .collect()
    }
}

/// The words of a text, each once.
fn words(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// The key of the entry that says that a document has a word.
fn entry(word: &str, name: &str) -> Vec<u8> {
    [word.as_bytes(), &[END_OF_WORD], name.as_bytes()].concat()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let library = Library::open(
        env::args_os().nth(1).map_or_else(|| env::temp_dir().join("sablecat-inverted-index"), PathBuf::from),
    )?;
    library.store("rose", "Rose is a rose is a rose is a rose.")?;
    library.store(
        "daffodils",
        "I wandered lonely as a cloud, when all at once I saw a crowd of golden daffodils",
    )?;
    library.store("worm", "O Rose, thou art sick. The invisible worm that flies in the night")?;

    println!("rose: {:?}", library.with_all(&["rose"])?);
    assert_eq!(library.with_all(&["Rose"])?, set(&["rose", "worm"]));
    assert_eq!(library.with_all(&["rose", "a"])?, set(&["rose"]));
    println!("wor...: {:?}", library.beginning_with("wor")?);
    assert_eq!(library.beginning_with("a")?, set(&["a", "all", "art", "as", "at"]));

    // The old words of a document go with it.
    library.store("rose", "What's in a name? That which we call a rose, by any other word")?;
    assert_eq!(library.with_all(&["is"])?, set(&[]));
    assert_eq!(library.beginning_with("wo")?, set(&["word", "worm"]));
    library.remove("worm")?;
    assert_eq!(library.with_all(&["rose"])?, set(&["rose"]));
    assert!(!library.remove("worm")?);
    println!("{} documents, {} entries", library.documents.len()?, library.index.len()?);
    Ok(())
}
