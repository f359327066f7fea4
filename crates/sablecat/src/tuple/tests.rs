//! Bytes that are published, or that another implementation makes; order and return trip of any values; bytes
//! that are none.

use std::borrow::Cow;
use std::fmt::Debug;

use proptest::prelude::*;

use super::*;
use crate::error::ErrorKind;

/// The examples in FoundationDB's `design/tuple.md`.
#[test]
fn published_examples_are_packed_as_they_should() {
    assert_eq!(pack(&(b"foo\x00bar",)), b"\x01foo\x00\xffbar\x00");
    assert_eq!(pack(&("F\u{d4}O\u{0}bar",)), b"\x02F\xc3\x94O\x00\xffbar\x00");
    assert_eq!(pack(&((b"foo\x00bar", None::<u8>, ()),)), b"\x05\x01foo\x00\xffbar\x00\x00\xff\x05\x00\x00");
    assert_eq!(pack(&(-5551212,)), b"\x11\xabK\x93");
    assert_eq!(pack(&(-42f32,)), b"\x20\x3d\xd7\xff\xff");
}

fn bytes_of(hexadecimal: &str) -> Vec<u8> {
    (0..hexadecimal.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hexadecimal[at..at + 2], 16).unwrap())
        .collect()
}

/// A packed tuple as both read it: what its Python library writes of what it has unpacked.
fn shown(elements: &[Element]) -> String {
    let parts: Vec<_> = elements.iter().map(shown_one).collect();
    format!("({})", parts.join(","))
}

fn shown_one(element: &Element) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match element {
        Element::Null => "null".to_owned(),
        Element::Bytes(bytes) => format!("b{}", hex(bytes)),
        Element::Text(text) => format!("t{}", hex(text.as_bytes())),
        Element::Nested(elements) => shown(elements),
        Element::Integer(integer) => integer.with_bytes(|digits| {
            format!("i{}{}", if integer.is_negative() { "-" } else { "+" }, hex(digits))
        }),
        Element::Float(float) => format!("f{:08x}", float.to_bits()),
        Element::Double(double) => format!("d{:016x}", double.to_bits()),
        Element::Bool(truth) => truth.to_string(),
        Element::Uuid(uuid) => format!("u{}", hex(&uuid.0)),
    }
}

/// Tuples that FoundationDB's Python library 7.3 packed, in its order: `tests/data/tuples.txt` has a line for
/// each, of its bytes and what they are.
#[test]
fn what_another_implementation_packed_is_the_same_here() {
    let lines = include_str!("../../tests/data/tuples.txt");
    let mut last = Vec::new();
    let mut count = 0;
    for line in lines.lines() {
        let (packed, means) = line.split_once(' ').unwrap();
        let packed = bytes_of(packed);
        assert!(last < packed, "{line}");
        let elements: Vec<Element> = unpack(&packed).unwrap();
        assert_eq!(shown(&elements), means);
        assert_eq!(pack(&elements), packed, "{means}");
        last = packed;
        count += 1;
    }
    assert!(count > 500, "{count}");
}

#[test]
fn integers_of_all_types_and_sizes_come_back() {
    fn same<T: Copy + Debug + PartialEq + Pack + for<'b> Unpack<'b>>(values: impl IntoIterator<Item = T>) {
        for value in values {
            let packed = pack(&(value,));
            assert_eq!(unpack::<(T,)>(&packed).unwrap(), (value,));
        }
    }
    same([0, 1, u8::MAX]);
    same([i8::MIN, -1, 0, i8::MAX]);
    same([u64::MAX, 1 << 32]);
    same([i64::MIN, i64::MAX]);
    same([u128::MAX, 1 << 64, u128::from(u64::MAX)]);
    same([i128::MIN, i128::MAX, -(1 << 64), -(1 << 64) + 1]);
    same([usize::MAX]);
    same([isize::MIN]);
    assert_eq!(pack(&(7u8,)), pack(&(7i128,)), "whatever the type");
    let error = unpack::<(u8,)>(&pack(&(256,))).unwrap_err();
    assert_eq!(error.to_string(), "byte 0 of a tuple: the integer 256 does not fit u8");
    assert_eq!(pack(&(u64::MAX,)), b"\x1c\xff\xff\xff\xff\xff\xff\xff\xff");
    let least_of_eight_bytes = -i128::from(u64::MAX);
    assert_eq!(pack(&(least_of_eight_bytes,)), b"\x0c\0\0\0\0\0\0\0\0");
    assert_eq!(
        unpack::<(i128,)>(b"\x0b\xf7\0\0\0\0\0\0\0\0").unwrap(),
        (least_of_eight_bytes,),
        "as another implementation has it"
    );
    assert_eq!(unpack::<(u64,)>(&pack(&(-1,))).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(Integer::from_bytes(true, &[0, 0]).unwrap(), Integer::from(0));
    assert_eq!(Integer::from_bytes(false, &[1; 256]).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(Integer::from_bytes(false, &[0; 300]).is_ok());
}

#[test]
fn text_and_bytes_are_borrowed_where_they_can_be() {
    let packed = pack(&("plain", "with\0zero", b"bytes"));
    let (plain, zero, bytes): (Cow<'_, str>, Cow<'_, str>, Cow<'_, [u8]>) = unpack(&packed).unwrap();
    assert!(matches!(plain, Cow::Borrowed("plain")) && matches!(bytes, Cow::Borrowed(b"bytes")));
    assert_eq!(zero, "with\0zero");
    assert_eq!(unpack::<(char, [u8; 2])>(&pack(&('ä', [1, 0]))).unwrap(), ('ä', [1, 0]));
    assert!(unpack::<(char,)>(&pack(&("ab",))).is_err());
    assert!(unpack::<([u8; 3],)>(&pack(&([1, 0],))).is_err());
}

#[test]
fn what_is_nothing_is_told_from_what_is_missing() {
    assert_eq!(unpack::<(Option<u8>, Option<u8>)>(&pack(&(None::<u8>, 3))).unwrap(), (None, Some(3)));
    assert!(unpack::<(Option<u8>,)>(b"").is_err());
    type Within = ((Option<String>, Option<u8>), u8);
    assert_eq!(unpack::<Within>(&pack(&((None::<&str>, None::<u8>), 1))).unwrap(), ((None, None), 1));
    assert!(
        unpack::<((Option<u8>, Option<u8>),)>(&pack(&((None::<u8>,),))).is_err(),
        "the inner tuple has one element"
    );
    assert_eq!(unpack::<((), u8)>(&pack(&((), 1))).unwrap(), ((), 1));
    assert_eq!(unpack::<()>(&pack(&())).unwrap(), ());
}

/// A key that was packed can be read as a tuple again, whatever it was packed of.
#[test]
fn what_could_not_be_unpacked_is_not_packed() {
    let nested = |depth: usize| (0..depth).fold(vec![1.into()], |within, _| vec![Element::Nested(within)]);
    let deepest = nested(DEPTH_MAX);
    assert_eq!(unpack::<Vec<Element>>(&try_pack(&deepest).unwrap()).unwrap(), deepest);
    for depth in [DEPTH_MAX + 1, DEPTH_MAX + 2, 1000] {
        let error = try_pack(&nested(depth)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("more than 100 tuples within each other"), "{error}");
    }
    // One after the other they are not within each other.
    let many = vec![Element::Nested(deepest[1..].to_vec()); 200];
    assert_eq!(pack(&many).len(), 400);
    let packed = std::panic::catch_unwind(|| pack(&nested(DEPTH_MAX + 1)));
    assert!(packed.is_err());
}

#[test]
fn bytes_that_are_no_tuple_are_refused_with_the_place() {
    let says = |bytes: &[u8], what: &str| {
        let error = unpack::<Vec<Element>>(bytes).expect_err("no tuple");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(what), "{bytes:02x?}: {error}");
    };
    says(b"\x15\x01\x03", "byte 2 of a tuple of 3 bytes: an element of kind 0x03");
    says(b"\x15", "cut off within the element at byte 0");
    says(b"\x02abc", "cut off within the element at byte 0");
    says(b"\x02abc\x00\xff", "cut off");
    says(b"\x02\xc3\x00", "the text at byte 0 of a tuple is not UTF-8");
    says(b"\x05\x15\x01", "cut off");
    says(b"\x1d", "cut off");
    says(b"\x0b\xf6\x01", "cut off");
    says(b"\x20\x00\x00", "cut off");
    says(b"\x30\x00", "cut off");
    says(&[5; 200], "more than 100 tuples within each other, at byte 100");
    assert!(
        unpack::<(u8,)>(&pack(&(1, 2)))
            .unwrap_err()
            .to_string()
            .contains("where the end of the tuple should be")
    );
    assert!(
        unpack::<(u8, u8)>(&pack(&(1,)))
            .unwrap_err()
            .to_string()
            .contains("the end of a tuple where an integer should be")
    );
}

#[test]
fn a_range_has_the_tuples_that_begin_alike_and_no_others() {
    let has = |(from, to): (Bound<Vec<u8>>, Bound<Vec<u8>>), key: &[u8]| {
        let (Bound::Included(from), Bound::Excluded(to)) = (from, to) else {
            panic!("another kind of range")
        };
        (&from[..]..&to[..]).contains(&key)
    };
    let of_a = || beginning_with(&("a",));
    for within in
        [pack(&("a",)), pack(&("a", None::<u8>)), pack(&("a", "z")), pack(&("a", Uuid([0xff; 16]), true))]
    {
        assert!(has(of_a(), &within));
    }
    for without in
        [pack(&("a\0b",)), pack(&("a\0",)), pack(&("ab",)), pack(&("",)), pack(&(b"a",)), pack(&(("a",),))]
    {
        assert!(!has(of_a(), &without), "{without:02x?}");
    }
    assert!(has(beginning_with(&()), &pack(&(true, 3))));
}

fn element() -> impl Strategy<Value = Element> {
    let digits =
        || prop_oneof![prop::collection::vec(any::<u8>(), 0..4), prop::collection::vec(any::<u8>(), 6..20)];
    let bytes = || prop::collection::vec(prop_oneof![Just(0), Just(1), Just(0xff), any::<u8>()], 0..6);
    let leaf = prop_oneof![
        Just(Element::Null),
        bytes().prop_map(Element::Bytes),
        prop::collection::vec(prop_oneof![Just('\0'), Just('a'), any::<char>()], 0..4)
            .prop_map(|text| Element::Text(text.iter().collect())),
        (any::<bool>(), digits())
            .prop_map(|(negative, digits)| Element::Integer(Integer::from_bytes(negative, &digits).unwrap())),
        any::<i16>().prop_map(Element::from),
        any::<u32>().prop_map(|bits| Element::Float(f32::from_bits(bits))),
        any::<u64>().prop_map(|bits| Element::Double(f64::from_bits(bits))),
        any::<bool>().prop_map(Element::Bool),
        any::<[u8; 16]>().prop_map(|bytes| Element::Uuid(Uuid(bytes))),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Element::Nested))
}

proptest! {
    #[test]
    fn bytes_sort_as_the_tuples_do(
        one in prop::collection::vec(element(), 0..4),
        other in prop::collection::vec(element(), 0..4),
    ) {
        prop_assert_eq!(one.cmp(&other), pack(&one).cmp(&pack(&other)));
    }

    #[test]
    fn tuples_that_begin_alike_sort_as_they_go_on(
        begin in prop::collection::vec(element(), 0..3),
        one in prop::collection::vec(element(), 0..3),
        other in prop::collection::vec(element(), 0..3),
    ) {
        let whole = |rest: &[Element]| pack(&[&begin[..], rest].concat());
        prop_assert_eq!(one.cmp(&other), whole(&one).cmp(&whole(&other)));
        let (Bound::Included(from), Bound::Excluded(to)) = beginning_with(&begin) else {
            panic!("another kind of range")
        };
        prop_assert!((from..to).contains(&whole(&one)));
    }

    #[test]
    fn what_was_packed_comes_back(elements in prop::collection::vec(element(), 0..5)) {
        prop_assert_eq!(unpack::<Vec<Element>>(&pack(&elements)).unwrap(), elements);
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in prop::collection::vec(
            prop_oneof![Just(0), Just(0xff), Just(5), 0x0bu8..0x32, any::<u8>()],
            0..40,
        ),
    ) {
        if let Ok(elements) = unpack::<Vec<Element>>(&bytes) {
            prop_assert_eq!(unpack::<Vec<Element>>(&pack(&elements)).unwrap(), elements);
        }
        let _ = unpack::<(String, i64, Option<Vec<u8>>)>(&bytes);
        let _ = unpack::<((u8, bool), Uuid, f64)>(&bytes);
    }
}
