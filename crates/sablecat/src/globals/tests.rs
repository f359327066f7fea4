//! Numbers and subscripts against plainer ways to compute the same.

use std::cmp::Ordering;

use proptest::prelude::*;

use super::subscript::{end_of, key_of, parts_of};
use super::*;

fn number(text: &str) -> Number {
    Number::canonical(text.as_bytes()).unwrap_or_else(|| panic!("{text:?} is written as M writes a number"))
}

#[test]
fn numbers_are_read_from_the_beginning_of_a_text() {
    // What GT.M computes for each of them plus zero.
    for (text, value) in [
        ("1234567890123456789", "1234567890123456780"),
        ("123456789012345678.9", "123456789012345678"),
        ("12abc", "12"),
        ("--5", "5"),
        ("+-+3", "-3"),
        ("1E3x", "1000"),
        ("1E-3", ".001"),
        ("1.E2", "100"),
        ("1E", "1"),
        (".E1", "0"),
        (".", "0"),
        ("", "0"),
        ("abc", "0"),
        ("-.0", "0"),
        ("0001", "1"),
        ("1.50", "1.5"),
        ("1e3", "1"),
        ("1E-44", "0"),
        ("1E46", "10000000000000000000000000000000000000000000000"),
    ] {
        assert_eq!(Number::of_text(text.as_bytes()).to_string(), value, "{text:?}");
    }
    let largest = format!("{}{}", "9".repeat(18), "0".repeat(29));
    assert_eq!(Number::of_text(b"1E1000000000000000000000").to_string(), largest);
    assert_eq!(Number::of_text(b"-1E47").to_string(), format!("-{largest}"));
    assert_eq!(Number::of_text(&[b'9'; 100_000]).to_string(), largest);
}

/// However many places it takes: else a number, and the text that M writes for it, are two subscripts.
#[test]
fn a_number_is_the_one_that_its_text_is() {
    for digits in ["1", "12", "-12", "123456789", "123456789012345678", "-999999999999999999"] {
        for exponent in -62..=46 {
            let number = Number::of_text(format!("{digits}E{exponent}").as_bytes());
            let text = number.to_string();
            assert_eq!(Number::canonical(text.as_bytes()), Some(number), "{text}");
            assert_eq!(Subscript::from(&text), Subscript::from(number), "{text}");
        }
    }
}

#[test]
fn sums_are_exact_and_then_cut() {
    for (one, other, sum) in [
        (".1", ".2", ".3"),
        ("-4.7", "5", ".3"),
        ("999999999999999999", "1", "1000000000000000000"),
        ("999999999999999999", ".9", "999999999999999999"),
        ("5", "-5", "0"),
        ("0", "-.5", "-.5"),
        ("1", "-.000000000000000001", ".999999999999999999"),
        ("1", "-.0000000000000000000000000000000000000000001", ".999999999999999999"),
        ("-1", ".0000000000000000000000000000000000000000001", "-.999999999999999999"),
        ("123456789012345678000", "-1", "123456789012345677000"),
    ] {
        for (one, other) in [(one, other), (other, one)] {
            assert_eq!(
                number(one).plus(number(other)).expect("a number").to_string(),
                sum,
                "{one} + {other}"
            );
        }
    }
    let largest = Number::of_text(b"1E47");
    assert!(largest.plus(largest).is_err());
    assert_eq!(largest.plus(Number::from(1)).expect("cut").to_string(), largest.to_string());
}

fn a_number() -> impl Strategy<Value = (i128, u32)> {
    // So many millionths of millionths: digits, and at most 24 places after the point.
    (-1_000_000_000_000i128..1_000_000_000_000, 0..24u32)
}

/// The text that M writes for `digits`, of which `places` are after the point.
fn written(digits: i128, places: u32) -> String {
    let text = format!("{:0>1$}", digits.unsigned_abs(), places as usize + 1);
    let (whole, part) = text.split_at(text.len() - places as usize);
    let (whole, part) = (whole.trim_start_matches('0'), part.trim_end_matches('0'));
    match (digits, whole, part) {
        (0, ..) => "0".to_owned(),
        (_, whole, "") => format!("{}{whole}", if digits < 0 { "-" } else { "" }),
        (_, whole, part) => format!("{}{whole}.{part}", if digits < 0 { "-" } else { "" }),
    }
}

proptest! {
    #[test]
    fn numbers_sort_by_value_and_are_read_back((a, a_places) in a_number(), (b, b_places) in a_number()) {
        let (one, other) = (number(&written(a, a_places)), number(&written(b, b_places)));
        let scaled = |digits: i128, places: u32| digits * 10i128.pow(24 - places);
        let order = scaled(a, a_places).cmp(&scaled(b, b_places));
        prop_assert_eq!(one.cmp(&other), order);
        prop_assert_eq!(one == other, order == Ordering::Equal);
        for number in [one, other] {
            let mut key = Vec::new();
            number.encode(&mut key);
            key.extend_from_slice(b"rest");
            let mut rest = &key[..];
            prop_assert_eq!(Number::decode(&mut rest), Some(number));
            prop_assert_eq!(rest, b"rest");
        }
    }

    #[test]
    fn small_sums_are_those_of_integers(
        a in -1_000_000_000_000i64..1_000_000_000_000,
        b in -1_000_000_000_000i64..1_000_000_000_000,
    ) {
        prop_assert_eq!(Number::from(a).plus(Number::from(b)).expect("small").to_i64(), Some(a + b));
    }

    /// Texts with zeros and high bytes, numbers and texts like them, against a comparison of M's.
    #[test]
    fn subscripts_sort_as_in_m(a in a_text(), b in a_text()) {
        // The empty text, numbers, texts.
        let rank = |text: &[u8]| match Number::canonical(text) {
            _ if text.is_empty() => (0, None, Vec::new()),
            Some(number) => (1, Some(number), Vec::new()),
            None => (2, None, text.to_vec()),
        };
        prop_assert_eq!(Subscript::from(&a[..]).cmp(&Subscript::from(&b[..])), rank(&a).cmp(&rank(&b)));
    }

    #[test]
    fn keys_lead_back_to_their_parts(texts in prop::collection::vec(a_text(), 0..5)) {
        let mut key = key_of("a").expect("a name");
        let mut ends = vec![key.len()];
        for text in &texts {
            Subscript::from(&text[..]).encode(&mut key);
            ends.push(key.len());
        }
        let (name, subscripts) = parts_of(&key).expect("a node's");
        let found: Vec<Vec<u8>> = subscripts.iter().map(|subscript| subscript.text().to_vec()).collect();
        prop_assert_eq!((name, found), ("a", texts));
        for pair in ends.windows(2) {
            prop_assert_eq!(end_of(&key, pair[0]), pair[1]);
        }
    }

    #[test]
    fn a_node_as_it_is_shown_is_read_again(texts in prop::collection::vec(a_text(), 0..5)) {
        let env = Env::in_memory()?;
        let globals = Globals::open(&env, "g")?;
        let node = texts.iter().fold(globals.global("a")?, |node, text| node.at(&text[..]));
        let shown = node.to_string();
        let again = globals.node(&shown)?;
        prop_assert_eq!(again.key(), node.key(), "{}", shown);
    }

    /// What somebody else wrote is refused, or is just what would be written for what it says.
    #[test]
    fn any_bytes_are_a_key_or_none(bytes in prop::collection::vec(prop_oneof![0u8..8, any::<u8>()], 0..24)) {
        let bytes = [b"a\0", &bytes[..]].concat();
        if let Ok((name, subscripts)) = parts_of(&bytes) {
            let mut key = key_of(name).expect("a name");
            subscripts.iter().for_each(|subscript| subscript.encode(&mut key));
            prop_assert_eq!(key, bytes);
        }
    }
}

fn a_text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(
            prop::sample::select(vec![0u8, 1, 5, b'a', b'"', 0xc2, 0x85, 0xc8, 0xff]),
            0..5
        ),
        "-?[0-9]{0,3}\\.?[0-9]{0,3}".prop_map(String::into_bytes),
        (-1000i32..1000).prop_map(|n| n.to_string().into_bytes()),
    ]
}
