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
//! (`format=print`). One such section for each database, whose name is text of that kind in both forms.
//!
//! Of numbered records (`type=queue`, `type=recno`) the values alone stand there, or, with `keys=1`, the
//! numbers as well, in decimal digits. Of 5.3's programs db5.3_dump writes these with `-k`; db5.3_load reads
//! them rightly with `format=bytevalue` alone, and takes the first character of `re_pad=0x20` for the byte.

use std::io::{self, BufRead, Write};

use sablecat::{Duplicates, Holds, Method};

use super::kinds::{Made, Which};
use super::lines::Lines;
use super::{Part, Parts};
use crate::Failure;
use crate::arguments::to_hex;

/// Names in headers that say nothing about what the records are: sizes of pages, and the like.
const OF_NO_CONCERN: [&str; 10] = [
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
];

/// What shorter records are filled up with, unless the header says something else.
const PAD: u8 = b' ';

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
    pub(crate) fn begin(&mut self, name: Option<&str>, made: Made) -> Result<(), Failure> {
        let format = if self.print { "print" } else { "bytevalue" };
        write!(self.out, "VERSION=3\nformat={format}\n")?;
        if let Some(name) = name {
            self.out.write_all(b"database=")?;
            self.printed(name.as_bytes())?;
            self.out.write_all(b"\n")?;
        }
        self.kind(made)?;
        Ok(self.out.write_all(b"HEADER=END\n")?)
    }

    fn kind(&mut self, made: Made) -> io::Result<()> {
        let of_one_length = |out: &mut W, bytes: u32, pad: u8| {
            writeln!(out, "re_len={bytes}")?;
            if pad == PAD { Ok(()) } else { writeln!(out, "re_pad=0x{pad:02x}") }
        };
        match made.holds {
            Holds::Values(Duplicates::Sorted) => self.out.write_all(b"type=btree\nduplicates=1\ndupsort=1\n"),
            Holds::Values(Duplicates::Inserted) => self.out.write_all(b"type=btree\nduplicates=1\n"),
            Holds::Queue { record_bytes, pad } => {
                self.out.write_all(b"type=queue\n")?;
                of_one_length(&mut self.out, record_bytes, pad)?;
                self.out.write_all(b"keys=1\n")
            }
            Holds::Numbers { record_bytes, pad } => {
                self.out.write_all(b"type=recno\n")?;
                record_bytes.map_or(Ok(()), |bytes| of_one_length(&mut self.out, bytes, pad))?;
                self.out.write_all(b"keys=1\n")
            }
            Holds::Renumbered { record_bytes, pad } => {
                self.out.write_all(b"type=recno\nrenumber=1\n")?;
                record_bytes.map_or(Ok(()), |bytes| of_one_length(&mut self.out, bytes, pad))?;
                self.out.write_all(b"keys=1\n")
            }
            _ if made.method == Method::Counted => self.out.write_all(b"type=btree\nrecnum=1\n"),
            _ if made.method == Method::Hash => self.out.write_all(b"type=hash\n"),
            _ => self.out.write_all(b"type=btree\n"),
        }
    }

    pub(crate) fn record(&mut self, which: Which<'_>, value: &[u8]) -> Result<(), Failure> {
        match which {
            Which::Key(key) | Which::Expiring(key, _) => self.line(key)?,
            Which::Number(number) if number <= u64::from(u32::MAX) => {
                self.line(number.to_string().as_bytes())?;
            }
            Which::Number(number) => {
                let why = format!("record {number} has a number above Berkeley DB's; dump it as JSON");
                return Err(why.into());
            }
        }
        Ok(self.line(value)?)
    }

    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.out.write_all(b"DATA=END\n")
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn line(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(b" ")?;
        if self.print {
            self.printed(bytes)?;
        } else {
            self.out.write_all(to_hex(bytes).as_bytes())?;
        }
        self.out.write_all(b"\n")
    }

    /// Text as it is, and digits for what cannot be printed.
    fn printed(&mut self, bytes: &[u8]) -> io::Result<()> {
        bytes.iter().try_for_each(|&byte| match byte {
            b'\\' => self.out.write_all(b"\\\\"),
            b' '..=b'~' => self.out.write_all(&[byte]),
            _ => write!(self.out, "\\{byte:02x}"),
        })
    }
}

/// Reads the text.
pub(crate) struct Reader<R> {
    lines: Lines<R>,
    /// Within the records of a database: whether they are text.
    print: Option<bool>,
    /// What that database is.
    made: Made,
    /// Whether the numbers of its records stand there.
    keys: bool,
    /// The last key of it.
    last: Option<Vec<u8>>,
    /// The last number of it.
    last_number: u64,
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
        let record_bytes = match self.made.holds {
            Holds::Queue { record_bytes, .. } => Some(Some(record_bytes)),
            Holds::Numbers { record_bytes, .. } | Holds::Renumbered { record_bytes, .. } => {
                Some(record_bytes)
            }
            _ => None,
        };
        if let Some(record_bytes) = record_bytes {
            return self.numbered(print, record_bytes).map(Some);
        }
        let key = self.bytes(print)?;
        if self.made.holds == Holds::Records && self.last.as_ref() == Some(&key) {
            return Err(self.lines.wrong(format!("the key {} is there twice", key.escape_ascii())));
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
        Reader { lines, print: None, made: Made::default(), keys: false, last: None, last_number: 0 }
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
        let (mut name, mut print, mut kind) = (None, None, None);
        let (mut duplicates, mut sorted, mut record_bytes, mut pad) = (false, false, None, PAD);
        let (mut counts, mut renumbers) = (false, false);
        (self.keys, self.last, self.last_number) = (false, None, 0);
        let mut first = true;
        loop {
            let Ok(line) = std::str::from_utf8(self.lines.line()).map(str::to_owned) else {
                return Err(self.lines.wrong("a line of a header that is not UTF-8"));
            };
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
                ("VERSION", "2" | "3") => {}
                ("recnum", "0" | "1") => counts = value == "1",
                ("renumber", "0" | "1") => renumbers = value == "1",
                ("keys", "0" | "1") => self.keys = value == "1",
                ("VERSION", _) => {
                    return Err(self
                        .lines
                        .wrong(format!("version {value:?} of the format; known are 2 and 3")));
                }
                ("format", "print") => print = Some(true),
                ("format", "bytevalue") => print = Some(false),
                ("type", "btree" | "hash" | "queue" | "recno") => kind = Some(value.to_owned()),
                ("type", "heap") => {
                    return Err(self
                        .lines
                        .wrong("a database of the type heap, which sablecat does not have"));
                }
                ("re_len", _) => match value.parse() {
                    Ok(bytes) if bytes > 0 => record_bytes = Some(bytes),
                    _ => return Err(self.lines.wrong("re_len is a number of bytes")),
                },
                ("re_pad", _) => match byte(value) {
                    Some(byte) => pad = byte,
                    None => return Err(self.lines.wrong("re_pad is a byte: 0x20, or a character")),
                },
                ("database" | "subdatabase", _) => {
                    let read = from_print(value.as_bytes()).map_err(|why| self.lines.wrong(why))?;
                    let read = String::from_utf8(read);
                    name = Some(read.map_err(|_| self.lines.wrong("a name that is not UTF-8"))?);
                }
                ("duplicates", "0" | "1") => duplicates = value == "1",
                ("dupsort", "0" | "1") => sorted = value == "1",
                ("HEADER", "END") => break,
                _ if OF_NO_CONCERN.contains(&what) => {}
                _ => return Err(self.lines.wrong(format!("{line:?} is not a known line of a header"))),
            }
            if !self.lines.advance()? {
                return Err(self.lines.wrong("HEADER=END is missing: the input was cut short"));
            }
        }
        let holds = match (kind.as_deref(), record_bytes) {
            (None, _) => {
                return Err(self.lines.wrong("the header does not say the type of the database"));
            }
            (Some("queue"), Some(record_bytes)) => Holds::Queue { record_bytes, pad },
            (Some("queue"), None) => {
                return Err(self.lines.wrong("the header does not say re_len, the bytes of a record"));
            }
            // The pad of records of any length says nothing.
            (Some("recno"), record_bytes) => {
                let pad = if record_bytes.is_some() { pad } else { 0 };
                if renumbers {
                    Holds::Renumbered { record_bytes, pad }
                } else {
                    Holds::Numbers { record_bytes, pad }
                }
            }
            _ if sorted => Holds::Values(Duplicates::Sorted),
            _ if duplicates => Holds::Values(Duplicates::Inserted),
            _ => Holds::Records,
        };
        if kind.as_deref() == Some("hash") && holds != Holds::Records {
            eprintln!(
                "sablecat: line {}: a hash table whose keys have several values: these are loaded into a \
                 B+tree, in the order of the keys, and dumped as that",
                self.lines.number()
            );
        }
        let method = match kind.as_deref() {
            Some("hash") if holds == Holds::Records => Method::Hash,
            Some("btree") if holds == Holds::Records && counts => Method::Counted,
            _ => Method::Btree,
        };
        self.made = Made { method, holds, temporary: false };
        self.print = Some(print.ok_or_else(|| self.lines.wrong("the header does not say the format"))?);
        Ok(Part::Database(name, self.made))
    }

    /// A record that has a number, of which the line is the first.
    fn numbered(&mut self, print: bool, record_bytes: Option<u32>) -> Result<Part, Failure> {
        let mut number = None;
        if self.keys {
            let key = self.bytes(print)?;
            let read = std::str::from_utf8(&key).ok().and_then(|text| text.parse().ok());
            match read.filter(|&number: &u64| number > self.last_number) {
                Some(read) => (number, self.last_number) = (Some(read), read),
                None => {
                    return Err(self
                        .lines
                        .wrong("a number in digits, greater than the one before, expected"));
                }
            }
            self.within_data()?;
        }
        let record = self.bytes(print)?;
        match record_bytes {
            Some(bytes) if record.len() > bytes as usize => {
                Err(self.lines.wrong(format!("a record of {} bytes, where re_len is {bytes}", record.len())))
            }
            _ => Ok(Part::Numbered(number, record)),
        }
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

/// A byte in a header, as digits or as itself.
fn byte(text: &str) -> Option<u8> {
    match (text.strip_prefix("0x"), text.as_bytes()) {
        (Some(digits), _) => u8::from_str_radix(digits, 16).ok(),
        (None, &[byte]) => Some(byte),
        _ => None,
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
