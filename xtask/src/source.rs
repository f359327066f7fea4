//! Rust source without what only looks like code.

/// The text with comments and the insides of string and character literals replaced by spaces. Lines stay
/// where they are.
pub(crate) fn code(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let end = at
            + if rest.starts_with(b"//") {
                rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len())
            } else if rest.starts_with(b"/*") {
                block_comment(rest)
            } else if let Some(len) = raw_string(rest, at.checked_sub(1).map(|before| bytes[before])) {
                len
            } else if rest[0] == b'"' {
                string(rest)
            } else if rest[0] == b'\'' {
                character(rest)
            } else {
                out.push(rest[0]);
                at += 1;
                continue;
            };
        out.extend(bytes[at..end].iter().map(|&b| if b == b'\n' { b'\n' } else { b' ' }));
        at = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// The length of a raw string at the start of `rest`, if there is one.
fn raw_string(rest: &[u8], before: Option<u8>) -> Option<usize> {
    if rest[0] != b'r' || before.is_some_and(|b| b != b'b' && (b.is_ascii_alphanumeric() || b == b'_')) {
        return None;
    }
    let marks = rest[1..].iter().take_while(|&&b| b == b'#').count();
    if rest.get(1 + marks) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(1 + marks, b'#');
    let body = 2 + marks;
    let end = rest[body..].windows(close.len()).position(|window| window == close);
    Some(end.map_or(rest.len(), |end| body + end + close.len()))
}

fn string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length of a character literal; 1 for the mark of a lifetime.
fn character(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        return rest.iter().skip(3).position(|&b| b == b'\'').map_or(1, |end| end + 4);
    }
    // One character of up to four bytes, then the closing mark.
    (2..=5)
        .find(|&n| {
            rest.get(n) == Some(&b'\'')
                && std::str::from_utf8(&rest[1..n]).is_ok_and(|one| one.chars().count() == 1)
        })
        .map_or(1, |n| n + 1)
}

/// Where `word` stands by itself in `code`, as offsets.
pub(crate) fn words<'c>(code: &'c str, word: &'c str) -> impl Iterator<Item = usize> + 'c {
    let part_of_name = |b: Option<&u8>| b.is_some_and(|&b| b.is_ascii_alphanumeric() || b == b'_');
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let bytes = code.as_bytes();
        !part_of_name(at.checked_sub(1).and_then(|before| bytes.get(before)))
            && !part_of_name(bytes.get(at + word.len()))
    })
}

/// The number of the line that holds an offset, from 1.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_lines_stay() {
        let text = "let a = \"unsafe\"; // unsafe\nlet b = r#\"unsafe \" \"#; /* unsafe\n\
                    /* */ */ let c = 'u'; fn f<'a>() {}\n";
        let code = code(text);
        assert_eq!(code.lines().count(), text.lines().count());
        assert!(words(&code, "unsafe").next().is_none());
        assert!(code.contains("let c =") && code.contains("fn f<"));
    }

    #[test]
    fn escapes_do_not_end_a_literal() {
        let code = code(r#"let q = '\''; let s = "a\"b unsafe"; unsafe {}"#);
        assert_eq!(words(&code, "unsafe").count(), 1);
    }

    #[test]
    fn a_word_is_not_part_of_another() {
        assert_eq!(words("unsafely unsafe not_unsafe", "unsafe").collect::<Vec<_>>(), [9]);
    }
}
