//! Globals as text, as GT.M's utilities write and read them: ZWR, a node and its value on each line.

use std::io::{BufRead, Write as Out};

use sablecat_os::calendar::Moment;

use super::subscript::{Subscript, parts_of};
use super::text::{LineReader, Wrong, quoted};
use super::{Globals, Node, Number};
use crate::error::{Error, Result};
use crate::{Kind, Read, Write};

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];

/// What is expected where there is something like a number.
const OTHER_THAN_NUMBER: &str = "after a number that is written as M writes it, something else";

/// How a key refers to its node: `^acct(42,"name")`.
fn reference(key: &[u8]) -> Result<Vec<u8>> {
    let (name, subscripts) = parts_of(key)?;
    let mut out = [b"^", name.as_bytes()].concat();
    for (n, subscript) in subscripts.iter().enumerate() {
        out.push(if n == 0 { b'(' } else { b',' });
        match subscript.number() {
            Some(number) => out.extend_from_slice(number.to_string().as_bytes()),
            None => out.extend_from_slice(&quoted(&subscript.text())),
        }
    }
    if !subscripts.is_empty() {
        out.push(b')');
    }
    Ok(out)
}

impl<K: Kind> Globals<K> {
    /// Writes all nodes as text in ZWR format, which `MUPIP LOAD` reads: two lines that say what it is, then
    /// one for each node with its value, in order. Bytes that cannot be printed are written by their numbers.
    /// Returns how many nodes there were.
    ///
    /// # Errors
    /// `Io` if `out` fails; `Invalid` for a record that is no node; as [`Read::range`].
    pub fn export(&self, from: &impl Read<Of = K>, mut out: impl Out) -> Result<u64> {
        let failed = |source| Error::stream("writing an export of globals", source);
        write!(out, "sablecat EXTRACT\n{} ZWR\n", stamp()).map_err(failed)?;
        let mut count = 0;
        for record in from.range(&self.database, ..)? {
            let (key, value) = record?;
            let line = [&reference(&key)?[..], b"=", &quoted(&value), b"\n"].concat();
            out.write_all(&line).map_err(failed)?;
            count += 1;
        }
        out.flush().map_err(failed)?;
        Ok(count)
    }

    /// Sets all nodes of a text in ZWR format, as `MUPIP EXTRACT -FORMAT=ZWR` and [`Globals::export`] write
    /// it: its first two lines are skipped, but the second must end with `ZWR`. If the first line says
    /// `UTF-8`, `$C` names characters of Unicode, else bytes. Other nodes that exist stay. Returns how many
    /// nodes the text had.
    ///
    /// # Errors
    /// `Invalid` for anything else, with the number of its line, and `Io` if `text` fails: what was set until
    /// then is set, so give up the transaction. As [`Write::insert`].
    pub fn import(&self, to: &mut impl Write<Of = K>, text: impl BufRead) -> Result<u64> {
        let mut lines = Lines { text, number: 0, line: Vec::new() };
        let unicode = lines.next()?.is_some_and(|label| contains(label, b"UTF-8"));
        if !lines.next()?.is_some_and(|line| line.trim_ascii_end().ends_with(b"ZWR")) {
            return Err(lines.wrong("the end of the second line says the format, which is to be ZWR"));
        }
        let mut count = 0;
        while lines.next()?.is_some() {
            let (node, value) = self.parse(&lines.line, unicode).map_err(|wrong| lines.wrong(&wrong))?;
            node.set(to, value)?;
            count += 1;
        }
        Ok(count)
    }

    /// The node that a text refers to: `^acct(42,"name")`.
    ///
    /// # Errors
    /// `Invalid` if it is no reference.
    pub fn node(&self, reference: &str) -> Result<Node<'_, K>> {
        let mut text = LineReader::new(reference.as_bytes(), true);
        let node = self.reference(&mut text).and_then(|node| {
            if text.is_at_end() { Ok(node) } else { Err(text.expected("the reference's end")) }
        });
        node.map_err(|wrong| Error::invalid(format!("{reference:?} as a reference to a node: {wrong}")))
    }

    /// A line: a reference to a node, and its value.
    fn parse(&self, line: &[u8], unicode: bool) -> std::result::Result<(Node<'_, K>, Vec<u8>), Wrong> {
        let mut line = LineReader::new(line, unicode);
        let node = self.reference(&mut line)?;
        line.want("=")?;
        let is_number = !matches!(line.peek(), Some(b'"' | b'$'));
        let value = line.text()?;
        if is_number && Number::canonical(&value).is_none() {
            return Err(line.expected(OTHER_THAN_NUMBER));
        }
        if line.is_at_end() { Ok((node, value)) } else { Err(line.expected("the line's end")) }
    }

    fn reference(&self, text: &mut LineReader<'_>) -> std::result::Result<Node<'_, K>, Wrong> {
        text.want("^")?;
        let name = text.run(|byte| byte == b'%' || byte.is_ascii_alphanumeric());
        let name = std::str::from_utf8(name).map_err(|_| text.expected("a name"))?;
        let mut node = self.global(name).map_err(|error| error.to_string())?;
        if text.take(b'(') {
            loop {
                let is_number = !matches!(text.peek(), Some(b'"' | b'$'));
                let subscript = text.text()?;
                let subscript = Subscript::from(&subscript[..]);
                if is_number && subscript.number().is_none() {
                    return Err(text.expected(OTHER_THAN_NUMBER));
                }
                node = node.at(subscript);
                if !text.take(b',') {
                    text.want(")")?;
                    break;
                }
            }
        }
        Ok(node)
    }
}

/// The lines of a text, each of which ends with one: a last one without was cut short.
struct Lines<R> {
    text: R,
    number: u64,
    line: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    fn next(&mut self) -> Result<Option<&[u8]>> {
        self.line.clear();
        self.number += 1;
        let read = self.text.read_until(b'\n', &mut self.line);
        if read.map_err(|source| Error::stream(format!("reading line {} of globals", self.number), source))?
            == 0
        {
            return Ok(None);
        }
        if self.line.pop() != Some(b'\n') {
            return Err(self.wrong("it does not end: the text was cut short"));
        }
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        Ok(Some(&self.line))
    }

    #[cold]
    fn wrong(&self, why: &str) -> Error {
        Error::invalid(format!("line {} of globals in ZWR format: {why}", self.number))
    }
}

fn contains(text: &[u8], what: &[u8]) -> bool {
    text.windows(what.len()).any(|window| window == what)
}

/// The time as GT.M writes it: `23-NOV-2026  15:39:48`.
fn stamp() -> String {
    let now = Moment::from(std::time::SystemTime::now()).compact();
    let month = now[4..6].parse::<usize>().map_or("", |month| MONTHS[month - 1]);
    format!("{}-{month}-{}  {}:{}:{}", &now[6..8], &now[..4], &now[9..11], &now[11..13], &now[13..15])
}
