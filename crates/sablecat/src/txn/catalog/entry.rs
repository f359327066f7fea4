//! What the catalog says of a tree: the value of a name, or of a note.
//!
//! ```text
//! value   version u8 = 6 | flags u8 | tree u32 | root page u32 | volume u8 | method u8
//!         | if flag 8: its maker's member u16, incarnation u32 | options
//! flags   in a note, 2: pages that its records name as made are to be freed with it; 4: those named as
//!         replaced; 8: it says which process made it
//! option  tag u8 | length u16 | so many bytes; with bit 7 of the tag nothing may be done with the tree by a
//!         process that does not know the tag
//! ```
//!
//! An option that a build does not know, and need not, goes with the entry wherever that goes. A tree whose
//! method or whose option is not known cannot be opened, renamed, removed, freed or replayed; all others can,
//! so nothing here fails before somebody asks for that tree ([`CatalogEntry::method`]).
//!
//! Up to version 5 all trees were B+trees without options, and the comparator's name stood at the end, if
//! flag 1 was set: in names at 11, in notes of version 5, which say which process made them, at 17. Version 4
//! was that of notes of lists alone, so that a build which did not know of them freed none and kept what they
//! name. Version 1 had no volume; everything was in the main one.

use super::relation::Relations;
use super::{CatalogKey, Holds};
use crate::access::{Method, Seed};
use crate::error::{Error, Result};
use crate::region::MemberIncarnation;
use crate::types::{PageId, TreeId, VolumeId};

const VERSION: u8 = 6;
/// The oldest that it reads.
const VERSION_MIN: u8 = 1;
/// Of the notes of lists, from when notes did not yet say which process had made them.
const LIST_OF_NOBODY: u8 = 4;
/// Of notes, before names and notes had one version.
const NOTE_WITHOUT_METHOD: u8 = 5;

/// In old entries.
const CUSTOM: u8 = 1;
const MADE: u8 = 2;
const REPLACED: u8 = 4;
const HAS_MAKER: u8 = 8;

const FLAGS_AT: usize = 1;
const TREE_AT: usize = 2;
const ROOT_AT: usize = 6;
const VOLUME_AT: usize = 10;
const METHOD_AT: usize = 11;
const HEADER_BYTES: usize = 12;

/// The bit of an option's tag that says that the tag must be known.
const MUST_BE_KNOWN: u8 = 0x80;
/// The option that names the comparator.
const COMPARATOR: u8 = MUST_BE_KNOWN | 1;
/// The option that is the seed of a hash table.
const HASH_SEED: u8 = MUST_BE_KNOWN | 2;
/// The option that says what kind of records there are (holds.rs).
const HOLDS: u8 = MUST_BE_KNOWN | 8;
/// The option, of no bytes, that says that nothing is logged of its records.
const TEMPORARY: u8 = MUST_BE_KNOWN | 9;
/// The longest that an option can be.
pub(crate) const OPTION_BYTES_MAX: usize = u16::MAX as usize;

/// What the catalog says of a database, or of a tree that is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CatalogEntry {
    pub(crate) tree: TreeId,
    pub(crate) root: PageId,
    /// The volume of its pages.
    pub(crate) volume: VolumeId,
    pub(crate) comparator: Option<String>,
    /// What a hash table hashes its keys with.
    pub(crate) seed: Option<Seed>,
    /// What kind of records it holds.
    pub(crate) holds: Holds,
    /// Whether its records are gone when the environment is opened afresh: nothing is logged of them.
    pub(crate) temporary: bool,
    /// Whether it is a list of pages, and which of them are to be freed with it.
    pub(crate) list: Option<Listed>,
    /// In a note, the process that sees to it.
    pub(crate) maker: Option<MemberIncarnation>,
    /// The number of its method, which this build may not know: [`CatalogEntry::method`] says.
    pub(crate) method: u8,
    /// What it is an index of, and what indices it has.
    pub(crate) relations: Box<Relations>,
    /// Options that this build does not know, with their tags.
    pub(crate) others: Vec<(u8, Vec<u8>)>,
    /// Flags that this build does not know.
    pub(crate) other_flags: u8,
}

/// What a list names of a commit that builds trees anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Listed {
    /// Pages made for it: to be freed if it does not come about.
    Made,
    /// Pages that it replaces: to be freed if it does.
    Replaced,
}

impl CatalogEntry {
    /// Of a tree that is to be made.
    pub(crate) fn new(tree: TreeId, volume: VolumeId, method: Method) -> CatalogEntry {
        CatalogEntry {
            tree,
            root: PageId::NONE,
            volume,
            comparator: None,
            seed: None,
            holds: Holds::default(),
            temporary: false,
            list: None,
            maker: None,
            method: method.number(),
            relations: Box::default(),
            others: Vec::new(),
            other_flags: 0,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let list = match self.list {
            None => 0,
            Some(Listed::Made) => MADE,
            Some(Listed::Replaced) => REPLACED,
        };
        let mut bytes =
            vec![VERSION, list | self.other_flags | if self.maker.is_some() { HAS_MAKER } else { 0 }];
        bytes.extend(self.tree.0.to_le_bytes());
        bytes.extend(self.root.0.to_le_bytes());
        bytes.extend([self.volume.0, self.method]);
        if let Some(MemberIncarnation { member, incarnation }) = self.maker {
            bytes.extend(member.to_le_bytes());
            bytes.extend(incarnation.to_le_bytes());
        }
        let comparator = self.comparator.iter().map(|name| (COMPARATOR, name.as_bytes()));
        let seed = self.seed.map(Seed::bytes);
        let holds = self.holds.encode();
        let known = comparator.chain(seed.iter().map(|seed| (HASH_SEED, &seed[..])));
        let known = known.chain(holds.iter().map(|holds| (HOLDS, &holds[..])));
        let known = known.chain(self.temporary.then_some((TEMPORARY, &[][..])));
        self.relations.encode(&mut bytes);
        for (tag, option) in known.chain(self.others.iter().map(|(tag, option)| (*tag, &option[..]))) {
            debug_assert!(option.len() <= OPTION_BYTES_MAX, "who makes one sees to it");
            bytes.push(tag);
            bytes.extend((option.len() as u16).to_le_bytes());
            bytes.extend(option);
        }
        bytes
    }

    /// The entry that a key of the catalog has.
    pub(crate) fn decode(key: &[u8], bytes: &[u8]) -> Result<CatalogEntry> {
        let wrong = |why: &str| {
            Error::corruption(format!("the catalog's entry for {:?} {why}", String::from_utf8_lossy(key)))
        };
        let version = bytes.first().copied().unwrap_or_default();
        if !(VERSION_MIN..=VERSION).contains(&version) {
            return Err(wrong("has a version this build does not know"));
        }
        let mut left = Left(bytes);
        let head = match version {
            VERSION_MIN => VOLUME_AT,
            VERSION => HEADER_BYTES,
            _ => METHOD_AT,
        };
        let head = left.take(head).ok_or_else(|| wrong("is too short"))?;
        let flags = head[FLAGS_AT];
        let has_maker =
            if version == VERSION { flags & HAS_MAKER != 0 } else { version == NOTE_WITHOUT_METHOD };
        let maker = if has_maker {
            let (member, incarnation) = left.maker().ok_or_else(|| wrong("is too short"))?;
            Some(MemberIncarnation { member, incarnation })
        } else {
            None
        };
        let list = match flags & (MADE | REPLACED) {
            _ if version < LIST_OF_NOBODY => None,
            0 if version != LIST_OF_NOBODY => None,
            MADE => Some(Listed::Made),
            REPLACED => Some(Listed::Replaced),
            _ => return Err(wrong("is a list and does not say which kind")),
        };
        let text = |bytes: &[u8]| {
            String::from_utf8(bytes.to_vec())
                .map_err(|_| wrong("has a name of a comparator that is not text"))
        };
        let (mut comparator, mut seed, mut holds, mut others) = (None, None, None, Vec::new());
        let (mut relations, mut temporary) = (Box::<Relations>::default(), false);
        if version == VERSION {
            while !left.0.is_empty() {
                match left.option().ok_or_else(|| wrong("has an option that is cut short"))? {
                    (COMPARATOR, _) if comparator.is_some() => return Err(wrong("names two comparators")),
                    (COMPARATOR, name) => comparator = Some(text(name)?),
                    (HASH_SEED, _) if seed.is_some() => return Err(wrong("has two seeds")),
                    (HASH_SEED, bytes) => {
                        let bytes = bytes.try_into().map_err(|_| wrong("has a seed of another length"))?;
                        seed = Some(Seed::of(bytes));
                    }
                    (HOLDS, _) if holds.is_some() => return Err(wrong("says twice what it holds")),
                    // One that this build does not know is kept with the others, and refused with them.
                    (HOLDS, option) if Holds::decode(option).is_some() => holds = Holds::decode(option),
                    (TEMPORARY, _) if temporary => return Err(wrong("says twice that it is temporary")),
                    // One with more to say is not known, as above.
                    (TEMPORARY, []) => temporary = true,
                    (tag, option) if relations.decode(tag, option).map_err(&wrong)? => {}
                    (tag, option) => others.push((tag, option.to_vec())),
                }
            }
        } else {
            let name = text(left.0)?;
            comparator = (flags & CUSTOM != 0).then_some(name);
        }
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        Ok(CatalogEntry {
            tree: TreeId(word(TREE_AT)),
            root: PageId(word(ROOT_AT)),
            volume: head.get(VOLUME_AT).map_or(VolumeId::MAIN, |&volume| VolumeId(volume)),
            comparator,
            seed,
            holds: holds.unwrap_or_default(),
            temporary,
            list,
            maker,
            method: head.get(METHOD_AT).copied().unwrap_or(Method::Btree.number()),
            relations,
            others,
            other_flags: if version == VERSION { flags & !(MADE | REPLACED | HAS_MAKER) } else { 0 },
        })
    }

    /// The same as the entry of a name.
    pub(crate) fn named(&self) -> CatalogEntry {
        CatalogEntry { maker: None, ..self.clone() }
    }

    /// How its records are arranged.
    ///
    /// # Errors
    /// `Invalid`, naming the database by the entry's key, if this build does not know that, or something else
    /// about it that it would have to.
    pub(crate) fn method(&self, key: &[u8]) -> Result<Method> {
        let unknown = |what: String| {
            let whose = match CatalogKey::of(key) {
                CatalogKey::Name(name) => format!("the database {:?}", String::from_utf8_lossy(name)),
                _ => format!("tree {}, which has no name any more", self.tree),
            };
            Error::not_known(format!(
                "{whose} has {what}, which this version of the library does not know; use a newer version"
            ))
        };
        let method =
            Method::of(self.method).ok_or_else(|| unknown(format!("access method {}", self.method)))?;
        if self.other_flags != 0 {
            return Err(unknown(format!("flags {:#x}", self.other_flags)));
        }
        match self.others.iter().find(|(tag, _)| tag & MUST_BE_KNOWN != 0) {
            Some((tag, _)) => Err(unknown(format!("option {tag:#x}"))),
            None => Ok(method),
        }
    }

    /// Makes the tree's root page, with nothing in it.
    pub(crate) fn form_root(&self, method: Method, bytes: &mut [u8]) {
        method.format(bytes, self.tree, self.root, self.comparator.is_some());
    }

    /// What to call its method, for people.
    pub(crate) fn method_name(&self) -> String {
        Method::of(self.method)
            .map_or_else(|| format!("unknown method {}", self.method), |method| method.to_string())
    }
}

/// Bytes of an entry that are still to be read.
struct Left<'b>(&'b [u8]);

impl<'b> Left<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, left) = self.0.split_at_checked(count)?;
        self.0 = left;
        Some(taken)
    }

    fn half(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    fn maker(&mut self) -> Option<(u16, u32)> {
        let member = self.half()?;
        let incarnation = self.take(4)?;
        Some((member, u32::from_le_bytes([incarnation[0], incarnation[1], incarnation[2], incarnation[3]])))
    }

    fn option(&mut self) -> Option<(u8, &'b [u8])> {
        let tag = self.take(1)?[0];
        let len = self.half()?;
        Some((tag, self.take(len.into())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Hashing;

    fn entry(volume: VolumeId) -> CatalogEntry {
        CatalogEntry {
            root: PageId(4711),
            comparator: Some("order".into()),
            ..CatalogEntry::new(TreeId(17), volume, Method::Btree)
        }
    }

    fn decode(bytes: &[u8]) -> CatalogEntry {
        CatalogEntry::decode(b"d", bytes).expect("good")
    }

    #[test]
    fn an_entry_is_what_was_encoded() {
        let bytes = entry(VolumeId(3)).encode();
        assert_eq!(bytes, b"\x06\0\x11\0\0\0\x67\x12\0\0\x03\x01\x81\x05\0order");
        assert_eq!(decode(&bytes), entry(VolumeId(3)));
        let maker = Some(MemberIncarnation { member: 0x102, incarnation: 0x0304_0507 });
        for list in [None, Some(Listed::Made), Some(Listed::Replaced)] {
            for maker in [None, maker] {
                let note = CatalogEntry { list, maker, ..entry(VolumeId(0)) };
                assert_eq!(decode(&note.encode()), note);
                assert_eq!(decode(&note.named().encode()).maker, None);
            }
        }
        let note = CatalogEntry { maker, ..entry(VolumeId(3)) }.encode();
        assert_eq!(note, b"\x06\x08\x11\0\0\0\x67\x12\0\0\x03\x01\x02\x01\x07\x05\x04\x03\x81\x05\0order");
        let cut = [
            &bytes[..11],
            &bytes[..13],
            &bytes[..14],
            &bytes[..19],
            &note[..16],
            b"",
            b"\x07\0\x11\0\0\0\x67\x12\0\0\x03\x01",
        ];
        for wrong in cut.into_iter().map(<[u8]>::to_vec).chain([[&bytes[..], &bytes[12..]].concat()]) {
            assert!(CatalogEntry::decode(b"d", &wrong).expect_err("wrong").is_corruption());
        }
    }

    #[test]
    fn older_entries_are_read() {
        assert_eq!(decode(b"\x03\x01\x11\0\0\0\x67\x12\0\0\x03order"), entry(VolumeId(3)));
        assert_eq!(decode(b"\x02\x01\x11\0\0\0\x67\x12\0\0\x03order"), entry(VolumeId(3)));
        assert_eq!(decode(b"\x01\x01\x11\0\0\0\x67\x12\0\0order"), entry(VolumeId::MAIN));
        assert_eq!(
            decode(b"\x03\0\x11\0\0\0\x67\x12\0\0\x03"),
            CatalogEntry { comparator: None, ..entry(VolumeId(3)) }
        );
        let list = |list| CatalogEntry { list: Some(list), ..entry(VolumeId(3)) };
        assert_eq!(decode(b"\x04\x03\x11\0\0\0\x67\x12\0\0\x03order"), list(Listed::Made));
        assert_eq!(decode(b"\x04\x05\x11\0\0\0\x67\x12\0\0\x03order"), list(Listed::Replaced));
        let maker = Some(MemberIncarnation { member: 0x102, incarnation: 0x0304_0507 });
        let of_version_5 = b"\x05\x01\x11\0\0\0\x67\x12\0\0\x03\x02\x01\x07\x05\x04\x03order";
        assert_eq!(decode(of_version_5), CatalogEntry { maker, ..entry(VolumeId(3)) });
        assert_eq!(
            decode(b"\x05\x03\x11\0\0\0\x67\x12\0\0\x03\x02\x01\x07\x05\x04\x03order"),
            CatalogEntry { maker, ..list(Listed::Made) }
        );
        for wrong in [
            &b"\x01\x01\x11"[..],
            b"\x03\x01\x11\0\0\0\x67\x12\0\0",
            b"\x04\x01\x11\0\0\0\x67\x12\0\0\x03",
            &of_version_5[..16],
        ] {
            assert!(CatalogEntry::decode(b"d", wrong).expect_err("wrong").is_corruption());
        }
    }

    #[test]
    fn what_need_not_be_known_is_kept_and_what_must_be_is_refused_by_name() {
        let bytes = |method: u8, options: &[u8]| {
            [b"\x06\0\x11\0\0\0\x67\x12\0\0\x03", &[method][..], options].concat()
        };
        let kept = bytes(1, b"\x1e\x03\0abc\x1f\0\0");
        let entry = decode(&kept);
        assert_eq!(entry.method(b"d").expect("nothing must be known"), Method::Btree);
        let renamed = CatalogEntry { root: PageId(0x1268), ..entry }.named();
        assert_eq!(renamed.encode()[12..], kept[12..]);
        for (unknown, what) in
            [(bytes(9, b""), "access method 9"), (bytes(1, b"\x9f\x03\0abc"), "option 0x9f")]
        {
            let entry = decode(&unknown);
            assert_eq!(entry.encode(), unknown);
            let message = entry.method(b"letters").expect_err("unknown").to_string();
            assert!(message.contains("\"letters\"") && message.contains(what), "{message}");
            let message = entry.tree_of_note().expect_err("unknown").to_string();
            assert!(message.contains("tree 17") && message.contains(what), "{message}");
        }
        let with_flag = [&[6, 0x40], &kept[2..]].concat();
        assert!(decode(&with_flag).method(b"d").expect_err("unknown").to_string().contains("flags 0x40"));
        assert_eq!(decode(&with_flag).encode(), with_flag);
    }

    #[test]
    fn what_it_holds_is_said_once_and_what_is_not_known_of_that_is_refused() {
        let holds = Holds::Queue { record_bytes: 16, pad: b' ' };
        let entry = CatalogEntry { holds, ..CatalogEntry::new(TreeId(17), VolumeId::MAIN, Method::Btree) };
        let bytes = entry.encode();
        assert_eq!(bytes[12..], *b"\x88\x06\0\x02\x10\0\0\0 ");
        assert_eq!(decode(&bytes), entry);
        let twice = [&bytes[..], &bytes[12..]].concat();
        assert!(CatalogEntry::decode(b"d", &twice).unwrap_err().to_string().contains("says twice"));
        let newer = [&bytes[..12], b"\x88\x01\0\x63"].concat();
        assert_eq!(decode(&newer).encode(), newer);
        let error = decode(&newer).method(b"jobs").unwrap_err();
        assert!(error.is_not_known() && error.to_string().contains("option 0x88"), "{error}");
    }

    /// A build that does not know it leaves the database alone, for its tag has the bit.
    #[test]
    fn that_it_is_temporary_is_said_once_and_where_more_is_said_of_that_it_is_refused() {
        let made = CatalogEntry::new(TreeId(17), VolumeId::MAIN, Method::Btree);
        let bytes = CatalogEntry { temporary: true, ..made }.encode();
        assert_eq!(bytes[12..], *b"\x89\0\0");
        let entry = decode(&bytes);
        assert!(entry.temporary && entry.tree(b"d", None, None).unwrap().temporary);
        assert!(entry.named().temporary);
        let twice = [&bytes[..], &bytes[12..]].concat();
        assert!(CatalogEntry::decode(b"d", &twice).unwrap_err().to_string().contains("says twice"));
        let newer = [&bytes[..12], b"\x89\x01\0\x01"].concat();
        assert_eq!(decode(&newer).encode(), newer);
        let error = decode(&newer).method(b"sessions").unwrap_err();
        assert!(error.is_not_known() && error.to_string().contains("option 0x89"), "{error}");
    }

    #[test]
    fn a_hash_table_has_one_seed() {
        let seed = Seed::of(*b"sixteen of them.");
        let made = CatalogEntry::new(TreeId(17), VolumeId::MAIN, Method::Hash);
        let entry = CatalogEntry { seed: Some(seed), ..made.clone() };
        let bytes = entry.encode();
        assert_eq!(CatalogEntry::decode(b"d", &bytes).unwrap(), entry);
        let order = entry.order(b"d", None, 512).unwrap().expect("it has one");
        assert_eq!(order.table.as_ref().map(|table| table.hashing), Some(Hashing::new(seed, 512)));
        assert!(
            CatalogEntry::new(TreeId(17), VolumeId::MAIN, Method::Btree)
                .order(b"d", None, 512)
                .unwrap()
                .is_none()
        );
        let (head, option) = bytes.split_at(bytes.len() - 19);
        let cut = [head, &[HASH_SEED, 15, 0], &[7; 15]].concat();
        for (wrong, why) in [(cut, "another length"), ([head, option, option].concat(), "two seeds")] {
            assert!(CatalogEntry::decode(b"d", &wrong).unwrap_err().to_string().contains(why));
        }
        let error = made.order(b"d", None, 512).unwrap_err();
        assert!(error.is_corruption() && error.to_string().contains("has no seed"), "{error}");
    }
}
