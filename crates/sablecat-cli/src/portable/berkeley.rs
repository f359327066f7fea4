//! Berkeley DB's portable text, as its documentation describes it (`db_dump`, `db_load`), and as its programs
//! of version 5.3 write and read it.
//!
//! ```text
//! VERSION=3
//! format=print
//! database=fruit
//! type=btree
//! HEADER=END
//!  apple
//!  red\0agreen
//! DATA=END
//! ```
//!
//! A header of names and values, then keys and values in turns, a line each after a space: as hexadecimal
//! digits (`format=bytevalue`), or as text in which what cannot be printed is two digits after a backslash
//! (`format=print`). One such section for each database.

use std::io::{self, BufRead, Write};

use sablecat::Method;

use super::lines::Lines;
use super::{Part, Parts};
use crate::Failure;
use crate::arguments::to_hex;

/// Names in headers that say nothing about what the records are: sizes of pages, and the like.
const OF_NO_CONCERN: [&str; 12] = [
    "bt_minkey",
    "chksum",
    "db_lorder",
    "db_pagesize",
    "extentsize",
    "h_ffactor",
    "h_nelem",
    "nodegroup",
    "mp_mmapsize",
    "mp_multiple",
    "dupsort",
    "subdatabase",
];

/// Writes the text.
pub(crate) struct Writer<W> {
    out: W,
    print: bool,
}

impl<W: Write> Writer<W> {
    /// `print`: text as it is.
    pub(crate) fn new(out: W, print: bool) -> Writer<W> {
        Writer { out, print }
    }

    /// Begins a database; without a name, what it is loaded into says which.
    pub(crate) fn begin(&mut self, name: Option<&str>, method: Method) -> Result<(), Failure> {
        let format = if self.print { "print" } else { "bytevalue" };
        write!(self.out, "VERSION=3\nformat={format}\n")?;
        if let Some(name) = name {
            if name.contains(['\n', '\r']) {
                return Err(
                    format!("the name {name:?} does not fit a line of this format; dump it as JSON").into()
                );
            }
            writeln!(self.out, "database={name}")?;
        }
        let kind = if method == Method::Hash { "hash" } else { "btree" };
        Ok(write!(self.out, "type={kind}\nHEADER=END\n")?)
    }

    pub(crate) fn record(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.line(key)?;
        self.line(value)
    }

    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.out.write_all(b"DATA=END\n")
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn line(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(b" ")?;
        if !self.print {
            self.out.write_all(to_hex(bytes).as_bytes())?;
        } else {
            for &byte in bytes {
                match byte {
                    b'\\' => self.out.write_all(b"\\\\")?,
                    b' '..=b'~' => self.out.write_all(&[byte])?,
                    _ => write!(self.out, "\\{byte:02x}")?,
                }
            }
        }
        self.out.write_all(b"\n")
    }
}

/// Reads the text.
pub(crate) struct Reader<R> {
    lines: Lines<R>,
    /// Within the records of a database: whether they are text.
    print: Option<bool>,
    /// Whether that database may have several values for a key.
    duplicates: bool,
    /// The last key of it.
    last: Option<Vec<u8>>,
}

impl<R: BufRead> Parts for Reader<R> {
    fn next(&mut self) -> Result<Option<Part>, Failure> {
        let Some(print) = self.print else {
            return if self.lines.advance()? { self.header().map(Some) } else { Ok(None) };
        };
        self.within_data()?;
        if self.lines.line() == b"DATA=END" {
            self.print = None;
            return self.next();
        }
        let key = self.bytes(print)?;
        if self.last.as_ref() == Some(&key) {
            let why = if self.duplicates {
                "has several values, which a database cannot hold yet"
            } else {
                "is there twice"
            };
            return Err(self.lines.wrong(format!("the key {} {why}", key.escape_ascii())));
        }
        self.within_data()?;
        let value = self.bytes(print)?;
        self.last = Some(key.clone());
        Ok(Some(Part::Record(key, value)))
    }

    fn wrong(&self, why: &dyn std::fmt::Display) -> Failure {
        self.lines.wrong(why)
    }
}

impl<R: BufRead> Reader<R> {
    pub(crate) fn new(lines: Lines<R>) -> Reader<R> {
        Reader { lines, print: None, duplicates: false, last: None }
    }

    /// Goes to the next line of the records, which there must be.
    fn within_data(&mut self) -> Result<(), Failure> {
        if self.lines.advance()? {
            Ok(())
        } else {
            Err(self.lines.wrong("DATA=END is missing: the input was cut short"))
        }
    }

    fn header(&mut self) -> Result<Part, Failure> {
        let (mut name, mut print, mut method) = (None, None, None);
        self.duplicates = false;
        self.last = None;
        let mut first = true;
        loop {
            let line = String::from_utf8_lossy(self.lines.line()).into_owned();
            let Some((what, value)) = line.split_once('=') else {
                return Err(self
                    .lines
                    .wrong(format!("a name and a value of a header expected, not {line:?}")));
            };
            if first != (what == "VERSION") {
                return Err(self
                    .lines
                    .wrong(format!("a header begins with VERSION, once; here is {line:?}")));
            }
            first = false;
            match (what, value) {
                ("VERSION", "2" | "3") | ("keys", "1") | ("recnum", "0" | "1") => {}
                ("VERSION", _) => {
                    return Err(self
                        .lines
                        .wrong(format!("version {value:?} of the format; known are 2 and 3")));
                }
                ("format", "print") => print = Some(true),
                ("format", "bytevalue") => print = Some(false),
                ("type", "btree") => method = Some(Method::Btree),
                ("type", "hash") => method = Some(Method::Hash),
                ("type", "recno" | "queue" | "heap") => {
                    return Err(self.lines.wrong(format!(
                        "a database of the type {value}; there are none of numbered records yet"
                    )));
                }
                ("database", _) => name = Some(value.to_owned()),
                ("duplicates", "0" | "1") => self.duplicates = value == "1",
                ("HEADER", "END") => break,
                _ if OF_NO_CONCERN.contains(&what) => {}
                _ => return Err(self.lines.wrong(format!("{line:?} is not known in a header"))),
            }
            if !self.lines.advance()? {
                return Err(self.lines.wrong("HEADER=END is missing: the input was cut short"));
            }
        }
        let method =
            method.ok_or_else(|| self.lines.wrong("the header does not say the type of the database"))?;
        self.print = Some(print.ok_or_else(|| self.lines.wrong("the header does not say the format"))?);
        Ok(Part::Database(name, method))
    }

    /// What the line stands for.
    fn bytes(&self, print: bool) -> Result<Vec<u8>, Failure> {
        let Some(rest) = self.lines.line().strip_prefix(b" ") else {
            return Err(self.lines.wrong("a key or value begins with a space"));
        };
        let bytes = if print { from_print(rest) } else { from_digits(rest) };
        bytes.map_err(|why| self.lines.wrong(why))
    }
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

fn from_digits(text: &[u8]) -> Result<Vec<u8>, &'static str> {
    let pair = |pair: &[u8]| match pair {
        &[high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    };
    text.chunks(2).map(pair).collect::<Option<_>>().ok_or("not pairs of hexadecimal digits")
}

fn from_print(text: &[u8]) -> Result<Vec<u8>, &'static str> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
        } else if let Some(after) = rest.strip_prefix(b"\\") {
            bytes.push(b'\\');
            rest = after;
        } else {
            let (pair, after) = rest.split_at_checked(2).ok_or("nothing after a backslash")?;
            bytes.extend(from_digits(pair).map_err(|_| "no two hexadecimal digits after a backslash")?);
            rest = after;
        }
    }
    Ok(bytes)
}
