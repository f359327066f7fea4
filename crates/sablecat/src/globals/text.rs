//! Texts as M's programs and extracts write them: what can be printed in quotes, all else by its number.

/// Whether a byte is shown as it is: what a terminal of eight-bit characters can print.
fn is_graphic(byte: u8) -> bool {
    !matches!(byte, 0..=31 | 127..=159 | 255)
}

/// A text as an expression: `"say ""hi"""_$C(7,10)`.
pub(super) fn quoted(text: &[u8]) -> Vec<u8> {
    if text.is_empty() {
        return b"\"\"".to_vec();
    }
    let mut out = Vec::with_capacity(text.len() + 2);
    for run in text.chunk_by(|&a, &b| is_graphic(a) == is_graphic(b)) {
        if !out.is_empty() {
            out.push(b'_');
        }
        if is_graphic(run[0]) {
            out.push(b'"');
            for &byte in run {
                out.extend(std::iter::repeat_n(byte, if byte == b'"' { 2 } else { 1 }));
            }
            out.push(b'"');
        } else {
            out.extend_from_slice(numbered("$C", run.iter().map(|&byte| byte.into())).as_bytes());
        }
    }
    out
}

/// A text as an expression in UTF-8, from which [`LineReader`] reads it again with characters of Unicode:
/// `"Grüße"_$C(10)_$ZCH(255)`.
pub(super) fn shown(text: &[u8]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for chunk in text.utf8_chunks() {
        let characters: Vec<char> = chunk.valid().chars().collect();
        for run in characters.chunk_by(|a, b| a.is_control() == b.is_control()) {
            parts.push(if run[0].is_control() {
                numbered("$C", run.iter().map(|&c| u32::from(c)))
            } else {
                format!("\"{}\"", String::from_iter(run).replace('"', "\"\""))
            });
        }
        if !chunk.invalid().is_empty() {
            parts.push(numbered("$ZCH", chunk.invalid().iter().map(|&byte| u32::from(byte))));
        }
    }
    if parts.is_empty() { "\"\"".to_owned() } else { parts.join("_") }
}

/// Characters or bytes by their numbers: `$C(7,10)`.
fn numbered(function: &str, numbers: impl Iterator<Item = u32>) -> String {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    format!("{function}({})", numbers.join(","))
}

/// What is left to read of a line, and what numbers of characters mean in it.
pub(super) struct LineReader<'l> {
    line: &'l [u8],
    at: usize,
    /// Whether `$C` names characters of Unicode, of which some are several bytes; if not, bytes.
    unicode: bool,
}

/// What is wrong with a line.
pub(super) type Wrong = String;

impl<'l> LineReader<'l> {
    pub(super) fn new(line: &'l [u8], unicode: bool) -> LineReader<'l> {
        LineReader { line, at: 0, unicode }
    }

    /// An error that says where in the line it is.
    pub(super) fn expected(&self, what: &str) -> Wrong {
        let found = match self.line.get(self.at) {
            Some(&byte) => format!("{:?}", char::from(byte)),
            None => "the line's end".to_owned(),
        };
        format!("{what} expected at column {}, where {found} is", self.at + 1)
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    /// Passes over a byte, if it comes next.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Passes over bytes that must come next.
    pub(super) fn want(&mut self, what: &str) -> Result<(), Wrong> {
        if !self.line[self.at..].starts_with(what.as_bytes()) {
            return Err(self.expected(&format!("{what:?}")));
        }
        self.at += what.len();
        Ok(())
    }

    /// The bytes from here on of which `belongs` says that they belong together.
    pub(super) fn run(&mut self, belongs: impl Fn(u8) -> bool) -> &'l [u8] {
        let rest = &self.line[self.at..];
        let run = &rest[..rest.iter().position(|&byte| !belongs(byte)).unwrap_or(rest.len())];
        self.at += run.len();
        run
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.line.len()
    }

    /// A text, in quotes and by numbers; or a number, as its text.
    pub(super) fn text(&mut self) -> Result<Vec<u8>, Wrong> {
        if !matches!(self.peek(), Some(b'"' | b'$')) {
            let number = self.run(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'.'));
            return if number.is_empty() {
                Err(self.expected("a text or a number"))
            } else {
                Ok(number.to_vec())
            };
        }
        let mut text = Vec::new();
        loop {
            match self.peek() {
                Some(b'"') => self.quotes(&mut text)?,
                Some(b'$') => self.numbers(&mut text)?,
                _ => return Err(self.expected("a text")),
            }
            if !self.take(b'_') {
                return Ok(text);
            }
        }
    }

    /// A text in quotes, in which two stand for one.
    fn quotes(&mut self, text: &mut Vec<u8>) -> Result<(), Wrong> {
        self.want("\"")?;
        loop {
            text.extend_from_slice(self.run(|byte| byte != b'"'));
            if !self.take(b'"') {
                return Err(self.expected("the text's closing quotes"));
            }
            if !self.take(b'"') {
                return Ok(());
            }
            text.push(b'"');
        }
    }

    /// Characters or bytes by their numbers: `$C(9,10)`, `$ZCH(255)`, and their long names.
    fn numbers(&mut self, text: &mut Vec<u8>) -> Result<(), Wrong> {
        self.want("$")?;
        let name = self.run(|byte| byte.is_ascii_alphabetic()).to_ascii_uppercase();
        let bytes = match &name[..] {
            b"C" | b"CHAR" => !self.unicode,
            b"ZCH" | b"ZCHAR" => true,
            _ => return Err(self.expected("$C or $ZCH")),
        };
        self.want("(")?;
        loop {
            let digits = self.run(|byte| byte.is_ascii_digit());
            let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u32>().ok());
            if bytes {
                let byte = number.and_then(|number| u8::try_from(number).ok());
                text.push(byte.ok_or_else(|| self.expected("after a number from 0 to 255, something else"))?);
            } else {
                let character = number.and_then(char::from_u32);
                let character =
                    character.ok_or_else(|| self.expected("after a character's number, something else"))?;
                text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            if !self.take(b',') {
                return self.want(")");
            }
        }
    }
}
