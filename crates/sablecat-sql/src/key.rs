//! Keys of indices: bytes whose order is that of the values they are made of.
//!
//! Each value is a tag and what follows; it says itself where it ends, so that keys that begin with the same
//! values begin with the same bytes, and no others do. In a column that goes down all of its bytes are turned
//! over.
//!
//! ```text
//! null      05
//! number    10, and what is below turned over, if it is negative; else
//!           18, the double below it or equal, without its sign, and what it has beyond that, 11 bits:
//!           75 bits by 7 in a byte, each byte with a last bit that says whether anything but zeros follows
//! text      20, the bytes, end
//! blob      30, the bytes, end
//! end       00 01; a byte 00 before it is 00 ff
//! ```
//!
//! Integers and reals compare by what they are worth, as SQLite compares them: an integer that no double is
//! equal to has the next double below and the distance from that. Text is as its collation sees it: in NOCASE
//! with A to Z as a to z, up to a zero byte, after which the length alone counts; in RTRIM without spaces at
//! the end. What such a key does not say the record beside it does.

use crate::record::Value;

/// How a column of an index is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) collation: Collation,
    pub(crate) descending: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collation {
    Binary,
    NoCase,
    RTrim,
}

/// How text is written in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    Utf16Le,
    Utf16Be,
}

const NULL: u8 = 0x05;
const NEGATIVE: u8 = 0x10;
const POSITIVE: u8 = 0x18;
const TEXT: u8 = 0x20;
const BLOB: u8 = 0x30;
const END: [u8; 2] = [0, 1];
const ESCAPED_ZERO: [u8; 2] = [0, 0xff];
/// Above all that a value may begin with, turned over or not.
pub(crate) const ABOVE: u8 = 0xff;

/// Adds a value to a key.
pub(crate) fn push(key: &mut Vec<u8>, value: Value<'_>, order: Order, encoding: Encoding) {
    let begin = key.len();
    match value {
        Value::Null => key.push(NULL),
        Value::Integer(integer) => push_integer(key, integer),
        Value::Real(real) => push_real(key, real),
        Value::Text(text) => {
            key.push(TEXT);
            push_text(key, text, order.collation, encoding);
            key.extend(END);
        }
        Value::Blob(blob, zeros) => {
            key.push(BLOB);
            push_bytes(key, blob);
            (0..zeros).for_each(|_| key.extend(ESCAPED_ZERO));
            key.extend(END);
        }
    }
    if order.descending {
        key[begin..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// A row id as the key of a table.
pub(crate) fn of_rowid(rowid: i64) -> [u8; 8] {
    (rowid as u64 ^ 1 << 63).to_be_bytes()
}

/// The row id that a key of a table is.
pub(crate) fn rowid(key: &[u8]) -> Option<i64> {
    key.try_into().ok().map(|bytes| (u64::from_be_bytes(bytes) ^ 1 << 63) as i64)
}

fn push_integer(key: &mut Vec<u8>, integer: i64) {
    let magnitude = integer.unsigned_abs();
    let mut below = magnitude as f64;
    // Rounded up: the next double below. Doubles of this size are whole numbers.
    if below as u128 > u128::from(magnitude) {
        below = f64::from_bits(below.to_bits() - 1);
    }
    let beyond = magnitude - below as u64;
    push_number(key, integer < 0, below, beyond);
}

fn push_real(key: &mut Vec<u8>, real: f64) {
    push_number(key, real < 0.0, real.abs(), 0);
}

fn push_number(key: &mut Vec<u8>, negative: bool, below: f64, beyond: u64) {
    key.push(if negative { NEGATIVE } else { POSITIVE });
    let begin = key.len();
    // 63 bits of the double and 11 of the rest, from the top.
    let mut bits = u128::from(below.to_bits()) << 65 | u128::from(beyond) << 54;
    loop {
        let byte = (bits >> 121) as u8;
        bits <<= 7;
        key.push(byte << 1 | u8::from(bits != 0));
        if bits == 0 {
            break;
        }
    }
    if negative {
        key[begin..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

fn push_bytes(key: &mut Vec<u8>, bytes: &[u8]) {
    for part in bytes.split_inclusive(|byte| *byte == 0) {
        match part.split_last() {
            Some((0, before)) => {
                key.extend_from_slice(before);
                key.extend(ESCAPED_ZERO);
            }
            _ => key.extend_from_slice(part),
        }
    }
}

fn push_text(key: &mut Vec<u8>, text: &[u8], collation: Collation, encoding: Encoding) {
    if collation == Collation::Binary {
        return push_bytes(key, text);
    }
    let converted;
    let text = match encoding {
        Encoding::Utf8 => text,
        Encoding::Utf16Le | Encoding::Utf16Be => {
            converted = utf8(text, encoding);
            converted.as_bytes()
        }
    };
    match collation {
        Collation::Binary => {}
        Collation::RTrim => {
            let end = text.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
            push_bytes(key, &text[..end]);
        }
        Collation::NoCase => match text.iter().position(|byte| *byte == 0) {
            None => key.extend(text.iter().map(u8::to_ascii_lowercase)),
            Some(zero) => {
                key.extend(text[..zero].iter().map(u8::to_ascii_lowercase));
                key.extend(ESCAPED_ZERO);
                push_bytes(key, &(text.len() as u64).to_be_bytes());
            }
        },
    }
}

/// Text in two bytes a unit, as SQLite converts it before it compares.
fn utf8(text: &[u8], encoding: Encoding) -> String {
    let units = text.chunks_exact(2).map(|pair| match encoding {
        Encoding::Utf16Be => u16::from_be_bytes([pair[0], pair[1]]),
        _ => u16::from_le_bytes([pair[0], pair[1]]),
    });
    char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use proptest::prelude::*;

    use super::*;

    const BINARY: Order = Order { collation: Collation::Binary, descending: false };

    fn key(values: &[Value<'_>], order: Order) -> Vec<u8> {
        let mut key = Vec::new();
        values.iter().for_each(|value| push(&mut key, *value, order, Encoding::Utf8));
        key
    }

    /// How SQLite compares an integer with a real.
    fn compared(integer: i64, real: f64) -> Ordering {
        if real < -9_223_372_036_854_775_808.0 {
            return Ordering::Greater;
        }
        if real >= 9_223_372_036_854_775_808.0 {
            return Ordering::Less;
        }
        let whole = real as i64;
        integer.cmp(&whole).then_with(|| 0.0f64.partial_cmp(&(real - whole as f64)).expect("numbers"))
    }

    fn number() -> impl Strategy<Value = Value<'static>> {
        let near = (-3i64..3, prop::sample::select(vec![0u32, 1, 8, 31, 52, 53, 54, 60, 62]), any::<bool>());
        let near = near.prop_map(|(by, power, negative)| {
            let at = (1i64 << power).wrapping_add(by);
            if negative { at.wrapping_neg() } else { at }
        });
        prop_oneof![
            any::<i64>().prop_map(Value::Integer),
            near.clone().prop_map(Value::Integer),
            near.prop_map(|integer| Value::Real(integer as f64 + 0.5)),
            any::<i64>().prop_map(|integer| Value::Real(integer as f64)),
            any::<f64>().prop_filter("a number", |real| !real.is_nan()).prop_map(Value::Real),
            Just(Value::Integer(i64::MIN)),
            Just(Value::Integer(i64::MAX)),
            Just(Value::Real(-0.0)),
            Just(Value::Real(f64::INFINITY)),
            Just(Value::Real(f64::NEG_INFINITY)),
        ]
    }

    proptest! {
        #[test]
        fn numbers_sort_by_what_they_are_worth(a in number(), b in number()) {
            let expected = match (a, b) {
                (Value::Integer(a), Value::Integer(b)) => a.cmp(&b),
                (Value::Real(a), Value::Real(b)) => a.partial_cmp(&b).expect("numbers"),
                (Value::Integer(a), Value::Real(b)) => compared(a, b),
                (Value::Real(a), Value::Integer(b)) => compared(b, a).reverse(),
                _ => unreachable!("numbers"),
            };
            prop_assert_eq!(key(&[a], BINARY).cmp(&key(&[b], BINARY)), expected);
            let down = Order { descending: true, ..BINARY };
            prop_assert_eq!(key(&[a], down).cmp(&key(&[b], down)), expected.reverse());
        }

        #[test]
        fn text_sorts_as_bytes_and_only_equal_values_begin_alike(
            a in prop::collection::vec(prop::sample::select(vec![0u8, 1, 0x7f, 0xfe, 0xff]), 0..6),
            b in prop::collection::vec(prop::sample::select(vec![0u8, 1, 0x7f, 0xfe, 0xff]), 0..6),
        ) {
            for descending in [false, true] {
                let order = Order { descending, ..BINARY };
                let (one, other) = (key(&[Value::Text(&a)], order), key(&[Value::Text(&b)], order));
                let expected = if descending { b.cmp(&a) } else { a.cmp(&b) };
                prop_assert_eq!(one.cmp(&other), expected);
                prop_assert_eq!(other.starts_with(&one), a == b);
                prop_assert!(one.first() < Some(&ABOVE));
            }
        }
    }

    #[test]
    fn kinds_sort_as_in_sqlite_and_small_numbers_are_short() {
        let kinds = [
            Value::Null,
            Value::Real(f64::NEG_INFINITY),
            Value::Integer(0),
            Value::Text(b""),
            Value::Blob(b"", 0),
        ];
        assert!(kinds.is_sorted_by(|a, b| key(&[*a], BINARY) < key(&[*b], BINARY)));
        assert_eq!(key(&[Value::Integer(0)], BINARY).len(), 2);
        assert!(key(&[Value::Integer(100_000)], BINARY).len() <= 5);
        assert_eq!(key(&[Value::Blob(b"a", 2)], BINARY), key(&[Value::Blob(b"a\0\0", 0)], BINARY));
    }

    #[test]
    fn collations_see_what_sqlites_see() {
        let nocase = Order { collation: Collation::NoCase, descending: false };
        assert_eq!(key(&[Value::Text(b"Ada")], nocase), key(&[Value::Text(b"aDA")], nocase));
        assert_eq!(key(&[Value::Text(b"a\0x")], nocase), key(&[Value::Text(b"A\0y")], nocase));
        assert!(key(&[Value::Text(b"a\0x")], nocase) < key(&[Value::Text(b"A\0yy")], nocase));
        assert!(key(&[Value::Text(b"[")], nocase) < key(&[Value::Text(b"A")], nocase));
        let rtrim = Order { collation: Collation::RTrim, descending: false };
        assert_eq!(key(&[Value::Text(b"a  ")], rtrim), key(&[Value::Text(b"a")], rtrim));
        assert!(key(&[Value::Text(b" a")], rtrim) < key(&[Value::Text(b"a")], rtrim));
        let mut wide = Vec::new();
        push(&mut wide, Value::Text(&[b'A', 0, 0xe9, 0]), nocase, Encoding::Utf16Le);
        assert_eq!(wide, key(&[Value::Text("a\u{e9}".as_bytes())], nocase));
    }

    #[test]
    fn row_ids_sort_as_numbers() {
        let rowids = [i64::MIN, -1, 0, 1, i64::MAX];
        assert!(rowids.is_sorted_by_key(|id| of_rowid(*id)));
        assert!(rowids.iter().all(|id| rowid(&of_rowid(*id)) == Some(*id)));
        assert_eq!(rowid(b"short"), None);
    }
}
