//! Damaged pages are refused, or every function gets along with them.

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// A damaged page is refused, or every function gets along with it.
    #[test]
    fn damage_is_refused_or_harmless(
        size in prop::sample::select(vec![480usize, 512, 1024, 4088]),
        leaf in any::<bool>(),
        fenced in any::<bool>(),
        keys in prop::collection::btree_set(a_key(14), 0..30),
        damage in prop::collection::vec(
            (prop_oneof![0usize..64, 0usize..256, any::<usize>()], prop_oneof![any::<u8>(), 0u8..4]),
            1..4,
        ),
        probe in a_key(14),
    ) {
        let mut page = vec![0; size];
        let fences = if fenced { Fences { lower: Some(b""), upper: Some(&[255; 14]) } } else { Fences::NONE };
        if leaf {
            let mut leaf = LeafMut::format(&mut page, PageId(1), TREE, 0, fences);
            for key in keys.iter() {
                let _ = leaf.insert(leaf.as_leaf().count(), key, StoredValue::Inline(key));
            }
        } else {
            let mut inner = InnerMut::format(&mut page, PageId(1), TREE, 0, 1, fences, PageId(1));
            for (i, key) in keys.iter().enumerate() {
                let _ = inner.insert(inner.as_inner().count(), key, PageId(i as u32 + 1));
            }
        }
        check_full(&page, Order::Bytes).unwrap();
        for (at, byte) in damage {
            page[at % size] = byte;
        }
        if check_bounds(&page).is_ok() {
            exercise(&page, &probe);
        }
    }
}

/// One page for each thing `check_bounds` looks for.
#[test]
fn each_kind_of_damage_is_named() {
    let mut sound = vec![0; 512];
    let fences = Fences { lower: Some(b"a"), upper: Some(b"b") };
    let mut leaf = LeafMut::format(&mut sound, PageId(1), TREE, 0, fences);
    for (slot, key) in [b"aa", b"ab", b"ac"].into_iter().enumerate() {
        leaf.insert(slot, key, StoredValue::Inline(b"12345")).unwrap();
    }
    leaf.insert(3, b"ad", StoredValue::Long { first_page: PageId(9), len: 1 << 40 }).unwrap();
    let cells = 512 - 2;
    // Suffix 2 (the fences share nothing), value 5, header 2; the long value's cell has header 4, value 12.
    let (offsets, third, long) = (128 + 4 * 4, cells - 27, cells - 27 - 18);
    let inner_sound = {
        let mut page = vec![0; 512];
        let mut inner = InnerMut::format(&mut page, PageId(1), TREE, 0, 1, fences, PageId(1));
        inner.insert(0, b"ab", PageId(2)).unwrap();
        page
    };
    check_bounds(&sound).and(check_bounds(&inner_sound)).unwrap();
    type Case<'a> = (&'a str, &'a [u8], &'a [(usize, u16)]);
    let cases: [Case<'_>; 16] = [
        ("kind", &sound, &[(20, 5)]),
        ("level", &sound, &[(20, 0x0101)]),
        ("flags", &sound, &[(22, 4)]),
        ("slots do not fit", &sound, &[(24, 400)]),
        ("slots do not fit", &sound, &[(28, 513)]),
        ("fence", &sound, &[(36, 300)]),
        ("fence", &sound, &[(38, 60)]),
        ("prefix", &sound, &[(26, 1)]),
        ("leaves the heap", &sound, &[(offsets, 500), (offsets + 2, 511)]),
        ("leaves the heap", &sound, &[(offsets + 4, 140)]),
        ("overlaps", &sound, &[(offsets, third as u16)]),
        ("leaves the heap", &sound, &[(long + 2, 0x8000 | 11)]),
        ("live and", &sound, &[(32, 1)]),
        ("child", &inner_sound, &[(44, 0)]),
        // A counted page without counts; a separator of one byte with a value of one byte.
        ("a value of 0", &inner_sound, &[(22, 2)]),
        ("a value of 1", &inner_sound, &[(cells - 4, 1 | 1 << 7)]),
    ];
    for (what, page, damage) in cases {
        let mut page = page.to_vec();
        for &(at, word) in damage {
            page[at..at + 2].copy_from_slice(&word.to_le_bytes());
        }
        let error = check_bounds(&page).unwrap_err();
        assert!(error.contains(what), "{what}: {error}");
    }
    // Longer than a key or a record may be, though it is all there.
    let mut page = vec![0; 1024];
    let mut leaf = LeafMut::format(&mut page, PageId(1), TREE, 0, Fences::NONE);
    leaf.insert(0, &[1; 120], StoredValue::Inline(b"")).unwrap();
    assert!(check_bounds(&page).unwrap_err().contains("a key of 120"));
    let mut leaf = LeafMut::format(&mut page, PageId(1), TREE, 0, Fences::NONE);
    leaf.insert(0, b"", StoredValue::Inline(&[1; 400])).unwrap();
    assert!(check_bounds(&page).unwrap_err().contains("a value of 400"));
    LeafMut::format(&mut page, PageId(1), TREE, 0, Fences { lower: Some(&[1; 200]), upper: None });
    assert!(check_bounds(&page).unwrap_err().contains("a fence of 200"));
}

/// What is safe to read but wrong is found by the full check alone.
#[test]
fn the_full_check_finds_what_bounds_let_pass() {
    let mut sound = vec![0; 1024];
    let fences = Fences { lower: Some(b"ka"), upper: Some(b"kz") };
    let mut leaf = LeafMut::format(&mut sound, PageId(1), TREE, 0, fences);
    for (slot, last) in (b'b'..=b'u').enumerate() {
        leaf.insert(slot, &[b'k', last, b'x'], StoredValue::Inline(b"1")).unwrap();
    }
    check_full(&sound, Order::Bytes).unwrap();
    let (heads, offsets) = (128, 128 + 4 * 20);
    // A cell: header 2, suffix 2, value 1; the fences are above.
    let first_cell = 1024 - 4 - 5;
    type Case<'a> = (&'a str, &'a [(usize, &'a [u8])]);
    let cases: [Case<'_>; 5] = [
        ("hint 0", &[(64, &[1])]),
        ("head of slot 3", &[(heads + 4 * 3, &[1])]),
        // The first key changed, and its head with it.
        ("not ascending", &[(first_cell + 2, b"e"), (heads, b"\0\0xe")]),
        ("beyond the fences", &[(first_cell + 2, b"\0"), (heads, b"\0\0x\0")]),
        ("skipped", &[(48, &[1, 0])]),
    ];
    for (what, damage) in cases {
        let mut page = sound.clone();
        for &(at, bytes) in damage {
            page[at..at + bytes.len()].copy_from_slice(bytes);
        }
        check_bounds(&page).unwrap();
        let error = check_full(&page, Order::Bytes).unwrap_err();
        assert!(error.contains(what), "{what}: {error}");
        exercise(&page, b"kbx");
    }
    let mut page = sound.clone();
    page.copy_within(offsets..offsets + 2, offsets + 38);
    page[offsets..offsets + 2].copy_from_slice(&sound[offsets + 38..offsets + 40]);
    check_bounds(&page).unwrap();
    assert!(check_full(&page, Order::Bytes).is_err());
    assert!(check_full(&sound, REVERSE).is_err());
}
