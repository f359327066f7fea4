//! Keys that are tuples, written as JSON: `["acct",42,null,1.5,true,["nested"]]`.
//!
//! | element | is written |
//! |---|---|
//! | nothing, false, true, a text | as in JSON |
//! | an integer of 64 bits, a float of 64 bits | as a number, the float with a point or an exponent |
//! | another integer | `{"integer":"0x0102…"}`, or in decimal digits, a number of 128 bits as a number too |
//! | a float of 32 bits | `{"float":1.5}` |
//! | a float that is infinite or no number | `{"float_bits":"7fc00000"}`, `{"double_bits":"7ff8000000000000"}` |
//! | bytes | `{"hex":"00ff"}` |
//! | a UUID | `{"uuid":"01020304-0506-0708-090a-0b0c0d0e0f10"}` |
//! | a tuple | as an array |
//!
//! A key that is no tuple is written `{"hex":"00ff"}`. What is shown is read as the same key again.

use sablecat::tuple::{DEPTH_MAX, Element, Integer, Uuid, pack, unpack};
use serde_json::{Number, Value, json};

use crate::Failure;
use crate::arguments::{from_hex, to_hex};

/// The key that a text stands for.
pub(crate) fn read(text: &str) -> Result<Vec<u8>, Failure> {
    let mut reader = Reader { text, at: 0 };
    let key = reader.key().and_then(|key| match reader.peek() {
        None => Ok(key),
        Some(_) => reader.expected("the end"),
    });
    key.map_err(|wrong| format!("{text:?} as a tuple: {wrong}").into())
}

/// Whether a text stands for a tuple, and not for other bytes.
pub(crate) fn is_tuple(text: &str) -> bool {
    text.trim_start().starts_with('[')
}

/// A key as JSON; none if it is no tuple.
pub(crate) fn shown(key: &[u8]) -> Option<Value> {
    let elements: Vec<Element> = unpack(key).ok()?;
    // Integers can be read from bytes that nobody writes: these would stand for another key.
    if pack(&elements) != key {
        return None;
    }
    elements.iter().map(shown_one).collect::<Option<_>>().map(Value::Array)
}

/// A key as a line of text can show it.
pub(crate) fn text(key: &[u8]) -> String {
    let shown = shown(key).unwrap_or_else(|| json!({ "hex": to_hex(key) })).to_string();
    let mut text = String::with_capacity(shown.len());
    for c in shown.chars() {
        match c.is_control() {
            // JSON has them as they are. They have sixteen bits at most.
            true => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => text.push(c),
        }
    }
    text
}

/// An element; none if it is of a kind that is not known here.
fn shown_one(element: &Element) -> Option<Value> {
    Some(match element {
        Element::Null => Value::Null,
        Element::Bytes(bytes) => json!({ "hex": to_hex(bytes) }),
        Element::Text(text) => text.as_str().into(),
        Element::Nested(elements) => elements.iter().map(shown_one).collect::<Option<Vec<_>>>()?.into(),
        Element::Integer(integer) => match (i64::try_from(integer), u64::try_from(integer)) {
            (Ok(integer), _) => integer.into(),
            (_, Ok(integer)) => integer.into(),
            _ => json!({ "integer": integer.to_string() }),
        },
        Element::Float(float) if float.is_finite() => json!({ "float": f64::from(*float) }),
        Element::Float(float) => json!({ "float_bits": to_hex(&float.to_bits().to_be_bytes()) }),
        Element::Double(double) if double.is_finite() => (*double).into(),
        Element::Double(double) => json!({ "double_bits": to_hex(&double.to_bits().to_be_bytes()) }),
        Element::Bool(truth) => (*truth).into(),
        Element::Uuid(uuid) => json!({ "uuid": uuid.to_string() }),
        _ => return None,
    })
}

/// What is wrong with a text.
type Wrong = String;

/// What is left to read of a text.
struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    /// The next character that is no space.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    /// An error that says where it is.
    fn expected<T>(&mut self, what: &str) -> Result<T, Wrong> {
        let found = self.peek().map_or_else(|| "the end".to_owned(), |c| format!("{c:?}"));
        Err(format!("{what} expected at column {}, where {found} is", self.column(self.at)))
    }

    /// The same about something that was read.
    fn expected_at<T>(&mut self, begun: usize, what: &str) -> Result<T, Wrong> {
        if begun == self.at {
            return self.expected(what);
        }
        let found = &self.text[begun..self.at];
        Err(format!("{what} expected at column {}, where {found} is", self.column(begun)))
    }

    /// Columns are characters, from 1 on.
    fn column(&self, at: usize) -> usize {
        self.text[..at].chars().count() + 1
    }

    /// Passes over a character, if it comes next.
    fn take(&mut self, c: char) -> bool {
        let is_next = self.peek() == Some(c);
        self.at += if is_next { c.len_utf8() } else { 0 };
        is_next
    }

    /// Passes over a character that must come next.
    fn want(&mut self, c: char) -> Result<(), Wrong> {
        if self.take(c) { Ok(()) } else { self.expected(&format!("{c:?}")) }
    }

    fn key(&mut self) -> Result<Vec<u8>, Wrong> {
        if self.take('[') {
            return Ok(pack(&self.elements(0)?));
        }
        match self.peek() {
            Some('{') => {
                let begun = self.at;
                match self.object()? {
                    Element::Bytes(bytes) => Ok(bytes),
                    _ => self.expected_at(begun, "[, or {\"hex\":…} for a key that is no tuple,"),
                }
            }
            _ => self.expected("["),
        }
    }

    /// What is left of an array, within so many others.
    fn elements(&mut self, depth: usize) -> Result<Vec<Element>, Wrong> {
        let mut elements = Vec::new();
        if self.take(']') {
            return Ok(elements);
        }
        loop {
            elements.push(self.element(depth)?);
            if !self.take(',') {
                return match self.take(']') {
                    true => Ok(elements),
                    false => self.expected("',' or ']'"),
                };
            }
        }
    }

    fn element(&mut self, depth: usize) -> Result<Element, Wrong> {
        match self.peek() {
            Some('[') if depth == DEPTH_MAX => {
                self.expected(&format!("no more than {DEPTH_MAX} tuples within each other"))
            }
            Some('[') => {
                self.at += 1;
                Ok(Element::Nested(self.elements(depth + 1)?))
            }
            Some('{') => self.object(),
            Some('"') => self.string().map(Element::Text),
            Some('-' | '0'..='9') => self.number(),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Result<Element, Wrong> {
        let (begun, word) = (self.at, self.run(|c| c.is_alphanumeric()));
        match word {
            "null" => Ok(Element::Null),
            "false" => Ok(Element::Bool(false)),
            "true" => Ok(Element::Bool(true)),
            _ => {
                self.at = begun;
                self.expected("a text, a number, null, false, true, [ or {")
            }
        }
    }

    /// The characters from here on of which `belongs` says that they belong together.
    fn run(&mut self, belongs: impl Fn(char) -> bool) -> &'t str {
        let rest = &self.text[self.at..];
        let run = &rest[..rest.find(|c| !belongs(c)).unwrap_or(rest.len())];
        self.at += run.len();
        run
    }

    fn string(&mut self) -> Result<String, Wrong> {
        if self.peek() != Some('"') {
            return self.expected("a text in quotes");
        }
        let begun = self.at;
        let mut is_escaped = false;
        let rest = &self.text[begun + 1..];
        let end = rest.find(|c| {
            let ends = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            ends
        });
        let Some(end) = end else {
            self.at = self.text.len();
            return self.expected("the text's closing quotes");
        };
        self.at = begun + 1 + end + 1;
        let read = serde_json::from_str(&self.text[begun..self.at]);
        read.or_else(|_| self.expected_at(begun, "a text as JSON has it"))
    }

    /// A number as it is written.
    fn digits(&mut self) -> Result<(usize, &'t str), Wrong> {
        self.peek();
        let begun = self.at;
        let digits = self.run(|c| c.is_ascii_digit() || "+-.eE".contains(c));
        match serde_json::from_str::<Number>(digits) {
            Ok(_) => Ok((begun, digits)),
            Err(_) => self.expected_at(begun, "a number as JSON has it"),
        }
    }

    fn number(&mut self) -> Result<Element, Wrong> {
        let (begun, digits) = self.digits()?;
        if !digits.contains(['.', 'e', 'E']) {
            return match integer(digits) {
                Some(integer) => Ok(Element::Integer(integer)),
                None => self.expected_at(begun, "an integer of 128 bits, or {\"integer\":\"0x…\"},"),
            };
        }
        match digits.parse::<f64>() {
            Ok(double) => Ok(Element::Double(double)),
            Err(_) => self.expected_at(begun, "a number"),
        }
    }

    /// An element that JSON has not: its kind and how it is written.
    fn object(&mut self) -> Result<Element, Wrong> {
        const KINDS: &str = "\"hex\", \"uuid\", \"float\", \"integer\", \"float_bits\" or \"double_bits\"";
        self.want('{')?;
        self.peek();
        let begun = self.at;
        let kind = self.string()?;
        let after_kind = self.at;
        self.want(':')?;
        self.peek();
        let value = self.at;
        let read = match &kind[..] {
            "float" => {
                let (begun, digits) = self.digits()?;
                match digits.parse::<f32>() {
                    Ok(float) if float.is_finite() => Element::Float(float),
                    _ => return self.expected_at(begun, "a float of 32 bits"),
                }
            }
            "hex" | "uuid" | "integer" | "float_bits" | "double_bits" => {
                let written = self.string()?;
                match spelled(&kind, &written) {
                    Some(element) => element,
                    None => return self.expected_at(value, &format!("what {kind:?} is followed by")),
                }
            }
            _ => {
                self.at = after_kind;
                return self.expected_at(begun, KINDS);
            }
        };
        self.want('}')?;
        Ok(read)
    }
}

/// An element of a kind that is written as a text.
fn spelled(kind: &str, written: &str) -> Option<Element> {
    Some(match kind {
        "hex" => Element::Bytes(from_hex(written)?),
        "uuid" => Element::Uuid(Uuid(from_hex(&written.replace('-', ""))?.try_into().ok()?)),
        "float_bits" => {
            Element::Float(f32::from_bits(u32::from_be_bytes(from_hex(written)?.try_into().ok()?)))
        }
        "double_bits" => {
            Element::Double(f64::from_bits(u64::from_be_bytes(from_hex(written)?.try_into().ok()?)))
        }
        _ => Element::Integer(integer(written)?),
    })
}

/// An integer in decimal digits, of 128 bits at most, or in hexadecimal ones.
fn integer(written: &str) -> Option<Integer> {
    let (negative, absolute) = match written.strip_prefix('-') {
        Some(absolute) => (true, absolute),
        None => (false, written),
    };
    match absolute.strip_prefix("0x") {
        Some(digits) => Integer::from_bytes(negative, &from_hex(digits)?).ok(),
        None if !absolute.bytes().all(|byte| byte.is_ascii_digit()) => None,
        None => {
            let absolute: u128 = absolute.parse().ok()?;
            Integer::from_bytes(negative, &absolute.to_be_bytes()).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_as_the_same_key() {
        let long = Integer::from_bytes(true, &[1; 255]).unwrap();
        let elements = vec![
            Element::Null,
            Element::Bytes(vec![0, 255]),
            "Grüße \"\\\n\u{7f}\u{9b}\0".into(),
            Element::Nested(vec![Element::Nested(vec![]), 1.into()]),
            i64::MIN.into(),
            u64::MAX.into(),
            i128::MIN.into(),
            u128::MAX.into(),
            Element::Integer(long),
            1.1f32.into(),
            f32::MIN_POSITIVE.into(),
            f32::NEG_INFINITY.into(),
            0.1f64.into(),
            (-0.0f64).into(),
            1e300f64.into(),
            5e-324f64.into(),
            3f64.into(),
            f64::NAN.into(),
            false.into(),
            Uuid([7; 16]).into(),
        ];
        for element in elements.iter().chain([&Element::Nested(elements.clone())]) {
            let key = pack(&vec![element.clone()]);
            let text = text(&key);
            assert!(text.starts_with('[') && !text.contains(char::is_control), "{text}");
            assert_eq!(read(&text).unwrap(), key, "{text}");
            assert_eq!(read(&shown(&key).unwrap().to_string()).unwrap(), key);
        }
        assert_eq!(
            text(&pack(&("acct", 42, None::<u8>, 1.5, true, (1,)))),
            r#"["acct",42,null,1.5,true,[1]]"#
        );
        // What is no tuple, and what is one that nobody writes so.
        for other in [&b"key"[..], b"\x16\x00\x07"] {
            assert_eq!(text(other), format!(r#"{{"hex":"{}"}}"#, to_hex(other)));
            assert_eq!(read(&text(other)).unwrap(), other);
        }
        assert_eq!((text(b""), read("[]").unwrap()), ("[]".to_owned(), Vec::new()));
    }

    #[test]
    fn texts_are_read_as_json_is() {
        let same = |text: &str, key: Vec<u8>| assert_eq!(read(text).unwrap(), key, "{text}");
        same(r#" [ "a" , -7 , [ ] , { "hex" : "Ff" } ] "#, pack(&("a", -7, (), [0xffu8])));
        same(r#"["\u00e4\ud83d\ude00\"\\"]"#, pack(&("ä😀\"\\",)));
        same("[1,1.0,1e0,-0]", pack(&(1, 1.0, 1.0, 0)));
        same("[340282366920938463463374607431768211455]", pack(&(u128::MAX,)));
        same(r#"[{"integer":"-0x01"},{"integer":"12"}]"#, pack(&(-1, 12)));
        same(r#"[{"float":1.5}]"#, pack(&(1.5f32,)));
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(unpack::<Vec<Element>>(&read(&nested(101)).unwrap()).is_ok());
        let error = read(&nested(102)).unwrap_err().to_string();
        assert!(
            error.contains("no more than 100 tuples within each other expected at column 102"),
            "{error}"
        );
    }

    #[test]
    fn errors_name_the_column() {
        for (text, says) in [
            ("", "[ expected at column 1, where the end is"),
            ("acct", "[ expected at column 1, where 'a' is"),
            ("[1", "',' or ']' expected at column 3, where the end is"),
            ("[1,]", "[ or { expected at column 4, where ']' is"),
            ("[\"ää\" 2]", "',' or ']' expected at column 7, where '2' is"),
            ("[1] x", "the end expected at column 5, where 'x' is"),
            ("[nul]", "a text, a number, null, false, true, [ or { expected at column 2, where 'n' is"),
            ("[\"a]", "the text's closing quotes expected at column 5, where the end is"),
            (r#"["\x"]"#, r#"a text as JSON has it expected at column 2, where "\x" is"#),
            ("[007]", "a number as JSON has it expected at column 2, where 007 is"),
            ("[1e999]", "a number as JSON has it expected at column 2, where 1e999 is"),
            ("[1.2.3]", "a number as JSON has it expected at column 2, where 1.2.3 is"),
            ("[999999999999999999999999999999999999999999]", "an integer of 128 bits"),
            (r#"[{"hex":"0"}]"#, r#"what "hex" is followed by expected at column 9, where "0" is"#),
            (r#"[{"integer":"-+1"}]"#, r#"what "integer" is followed by expected at column 13"#),
            (r#"[{"uuid":"00"}]"#, r#"what "uuid" is followed by expected at column 10"#),
            (r#"[{"float":1e39}]"#, "a float of 32 bits expected at column 11, where 1e39 is"),
            (r#"[{"float":"1"}]"#, "a number as JSON has it expected at column 11"),
            (
                r#"[{"bytes":"00"}]"#,
                "\"float_bits\" or \"double_bits\" expected at column 3, where \"bytes\" is",
            ),
            (r#"[{"hex":"00","a":1}]"#, "'}' expected at column 13, where ',' is"),
            ("[{}]", "a text in quotes expected at column 3, where '}' is"),
            (r#"{"uuid":"00000000000000000000000000000000"}"#, "{\"hex\":…} for a key that is no tuple"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
            assert!(error.starts_with(&format!("{text:?} as a tuple: ")), "{error}");
        }
    }
}
