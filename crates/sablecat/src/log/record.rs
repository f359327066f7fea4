//! Log records: how one is built before its place is known, sealed when it is, and recognised again.
//!
//! ```text
//!  0 len u32            bytes of the whole record, a multiple of 8
//!  4 crc u32            crc32c of the body with its padding, then len, then bytes 8..24
//!  8 lsn u64            where the record begins
//! 16 distance u32       (lsn - what was durable when it was appended) / 8; all ones: unknown
//! 20 kind u8
//! 21 version u8         1, or 2: ranges are removed
//! 22 padding u8         0..8, zero bytes at the end
//! 23 codec u8           0: the body is as it is here; 1: it is enciphered
//! 24 body, padding
//! ```
//!
//! Integers are little-endian. The checksum covers the body first, so that all but 20 bytes of it is computed
//! before the commit role is taken. `distance` is how a scan tells damage from a torn end: a good record
//! knows that everything below `lsn - 8 * distance` was durable.
//!
//! An *enciphered* body is longer by [`crypt::RECORD_BYTES`], and the checksum is that of what comes of it:
//! so the log is written, scanned and copied without a key, and only a reader that wants what is in a body
//! needs one. It is enciphered before its place is known, with which it is therefore not authenticated.
//!
//! A record's end is the next one's beginning. A commit's LSN is the end of its record.

use std::ops::Bound;

use crate::crypt::{self, Keyring};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{Lsn, TreeId};

use super::{operation, sum};

/// Bytes before the body.
pub(super) const HEADER_BYTES: usize = 24;
/// No record is longer. Keeps a damaged length from making a reader ask for gigabytes.
pub(crate) const RECORD_BYTES_MAX: usize = 16 << 20;
const VERSION: u8 = 1;
/// The version of a commit that removes ranges: a build that does not know these knows that much.
const RANGES_VERSION: u8 = 2;
const DISTANCE_UNKNOWN: u32 = u32::MAX;
/// The codec of a body that is enciphered.
const ENCIPHERED: u8 = 1;

/// What a record is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum RecordKind {
    /// The operations of one transaction.
    Commit = 1,
    /// A publish that changes no content: takes its place in the order, nothing to replay.
    Filler = 2,
    /// A part of a large write set.
    Chunk = 3,
    /// The commit of a write set that stands in chunks.
    CommitChunked = 4,
    /// A note that a checkpoint was made.
    Checkpoint = 5,
    /// What time it is.
    Time = 6,
}

impl RecordKind {
    fn from_byte(byte: u8) -> Option<RecordKind> {
        [
            RecordKind::Commit,
            RecordKind::Filler,
            RecordKind::Chunk,
            RecordKind::CommitChunked,
            RecordKind::Checkpoint,
            RecordKind::Time,
        ]
        .into_iter()
        .find(|&kind| kind as u8 == byte)
    }
}

/// A record in the making. Reuse it: its memory stays.
#[derive(Debug, Default)]
pub(crate) struct RecordBuilder {
    bytes: Vec<u8>,
    body_crc: u32,
    finished: bool,
}

impl RecordBuilder {
    /// A record is at most so much longer than its operations.
    pub(crate) const OVERHEAD_MAX: usize = HEADER_BYTES + crypt::RECORD_BYTES + 8;

    /// A builder without memory yet.
    pub(crate) fn new() -> RecordBuilder {
        RecordBuilder::default()
    }

    /// A builder that uses the memory of `bytes`.
    #[inline]
    pub(crate) fn over(bytes: Vec<u8>) -> RecordBuilder {
        RecordBuilder { bytes, ..RecordBuilder::default() }
    }

    /// The builder's memory, for another.
    #[inline]
    pub(crate) fn into_memory(self) -> Vec<u8> {
        self.bytes
    }

    /// Begins a record, dropping what was there.
    #[inline]
    pub(crate) fn begin(&mut self, kind: RecordKind) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&[0; HEADER_BYTES]);
        self.bytes[20] = kind as u8;
        self.bytes[21] = VERSION;
        self.finished = false;
    }

    /// Adds "`key` of `tree` becomes `value`" to a commit.
    #[inline]
    pub(crate) fn put(&mut self, tree: TreeId, key: &[u8], value: &[u8]) {
        operation::encode_put(&mut self.bytes, tree, key, value);
    }

    /// Adds the beginning of a put, whose value of `value_len` bytes is to follow by [`RecordBuilder::raw`],
    /// in this record or the next.
    pub(crate) fn begin_put(&mut self, tree: TreeId, key: &[u8], value_len: usize) {
        operation::encode_put_up_to_value(&mut self.bytes, tree, key, value_len);
    }

    /// Adds "`key` of `tree` goes" to a commit.
    #[inline]
    pub(crate) fn delete(&mut self, tree: TreeId, key: &[u8]) {
        operation::encode_delete(&mut self.bytes, tree, key);
    }

    /// Adds "all keys of `tree` between two bounds go" to a commit.
    pub(crate) fn delete_range(&mut self, tree: TreeId, bounds: (Bound<&[u8]>, Bound<&[u8]>)) {
        operation::encode_delete_range(&mut self.bytes, tree, bounds);
        self.says_ranges();
    }

    /// The commit removes ranges, here or in its chunks.
    pub(crate) fn says_ranges(&mut self) {
        self.bytes[21] = RANGES_VERSION;
    }

    /// Adds bytes to the body as they are.
    #[inline]
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The body so far.
    pub(crate) fn body(&self) -> &[u8] {
        debug_assert!(!self.finished);
        &self.bytes[HEADER_BYTES..]
    }

    /// Pads the body and computes its checksum: the last thing before the commit role is taken.
    #[inline]
    pub(crate) fn finish_body(&mut self) {
        assert!(!self.finished && self.bytes.len() >= HEADER_BYTES, "begin comes first, finish once");
        let padding = self.bytes.len().next_multiple_of(8) - self.bytes.len();
        self.bytes.extend_from_slice(&[0; 8][..padding]);
        assert!(self.bytes.len() <= RECORD_BYTES_MAX, "long write sets are logged in chunks");
        let len = self.bytes.len() as u32;
        self.bytes[0..4].copy_from_slice(&len.to_le_bytes());
        self.bytes[22] = padding as u8;
        self.body_crc = sum::crc32c(&self.bytes[HEADER_BYTES..]);
        self.finished = true;
    }

    /// Enciphers the body of a finished record, unless it has none, or is enciphered already.
    pub(super) fn encipher(&mut self, keys: &Keyring) {
        assert!(self.finished, "the body is finished before it is enciphered");
        let text = self.bytes.len() - usize::from(self.bytes[22]);
        if self.bytes[23] == ENCIPHERED || text == HEADER_BYTES {
            return;
        }
        self.bytes.truncate(text);
        keys.seal_record([self.bytes[20], self.bytes[21]], &mut self.bytes, HEADER_BYTES);
        self.bytes[23] = ENCIPHERED;
        self.finished = false;
        self.finish_body();
    }

    /// The record's bytes in the log: exact after [`RecordBuilder::finish_body`], and what they would be then
    /// if asked before.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len().next_multiple_of(8)
    }

    /// Gives the record its place: `lsn` is where it begins, `durable` any LSN known to be durable. May be
    /// done again for another place.
    #[inline]
    pub(crate) fn seal(&mut self, lsn: Lsn, durable: Lsn) -> &[u8] {
        assert!(self.finished, "the body is finished before the record is sealed");
        debug_assert!(durable <= lsn && lsn.0.is_multiple_of(8));
        // Rounded up: the claim may only fall short of what was durable.
        let distance = u32::try_from((lsn.0 - durable.0).div_ceil(8)).unwrap_or(DISTANCE_UNKNOWN);
        // Loaded before there is something new beside it, which would have to be waited for.
        let (len, rest) = (self.bytes.len() as u32, (u64_at(&self.bytes, 16) >> 32) as u32);
        self.bytes[8..16].copy_from_slice(&lsn.0.to_le_bytes());
        self.bytes[16..20].copy_from_slice(&distance.to_le_bytes());
        let crc = seal_crc(self.body_crc, (len, lsn.0, distance, rest));
        self.bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        &self.bytes
    }
}

/// The checksum of a record whose body's checksum is `body_crc`, and whose header has these four: its length,
/// its place, how far it is from what is durable, and the rest.
#[inline]
fn seal_crc(body_crc: u32, (len, lsn, distance, rest): (u32, u64, u32, u32)) -> u32 {
    let first = u64::from(len) | lsn << 32;
    sum::append_words(body_crc, [first, lsn >> 32 | u64::from(distance) << 32], rest)
}

/// The checksum of a whole record.
fn crc_of(record: &[u8]) -> u32 {
    let (first, third) = (u64_at(record, 0), u64_at(record, 16));
    let header = (first as u32, u64_at(record, 8), third as u32, (third >> 32) as u32);
    seal_crc(sum::crc32c(&record[HEADER_BYTES..]), header)
}

/// Puts the checksum of a whole record into it.
#[cfg(feature = "fuzzing")]
pub(crate) fn seal_record(record: &mut [u8]) {
    let crc = crc_of(record);
    record[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// A record read back: checksum right, place right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LogRecord<'a> {
    pub(crate) kind: RecordKind,
    /// Where it begins.
    pub(crate) start: Lsn,
    /// Where it ends; a commit's LSN.
    pub(crate) end: Lsn,
    /// Everything below was durable when it was appended, as far as it says.
    pub(crate) durable: Lsn,
    pub(crate) body: &'a [u8],
    /// Its version, if its body is enciphered: what that was sealed with, beside the kind.
    enciphered: Option<u8>,
}

/// The length that a record at `lsn` claims in its first bytes, if they could be those of a record there.
pub(super) fn claimed_len(bytes: &[u8], lsn: Lsn) -> Option<usize> {
    if bytes.len() < HEADER_BYTES || u64_at(bytes, 8) != lsn.0 {
        return None;
    }
    let len = u64_at(bytes, 0) as u32 as usize;
    (len.is_multiple_of(8) && (HEADER_BYTES..=RECORD_BYTES_MAX).contains(&len)).then_some(len)
}

/// Whether the checksum of a whole record is right.
pub(super) fn is_good(record: &[u8]) -> bool {
    let crc = (u64_at(record, 0) >> 32) as u32;
    crc_of(record) == crc
}

/// The eight bytes at `at`, which the caller knows to be there.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight)
}

impl<'a> LogRecord<'a> {
    /// The record at the start of `bytes`, if there is a whole and good one that belongs at `lsn`.
    ///
    /// # Errors
    /// `Invalid` for a good record of a kind, version or codec that this library does not know.
    pub(crate) fn parse(bytes: &'a [u8], lsn: Lsn) -> Result<Option<LogRecord<'a>>> {
        let record =
            claimed_len(bytes, lsn).and_then(|len| bytes.get(..len)).filter(|record| is_good(record));
        match record {
            Some(record) => LogRecord::decode(record, lsn),
            None => Ok(None),
        }
    }

    /// The record that `record` is, its checksum known to be right.
    pub(super) fn decode(record: &'a [u8], lsn: Lsn) -> Result<Option<LogRecord<'a>>> {
        let word = u64_at(record, 16);
        let (distance, [kind, version, padding, codec]) = (word as u32, ((word >> 32) as u32).to_le_bytes());
        let unknown = |what: &str, value: u8| {
            let what = format!(
                "the log record at LSN {lsn} has {what} {value}, which this version of the library does not \
                 know; use a newer version"
            );
            Error::new(ErrorKind::Invalid, what)
        };
        if !matches!(version, VERSION | RANGES_VERSION) {
            return Err(unknown("version", version));
        }
        if !matches!(codec, 0 | ENCIPHERED) {
            return Err(unknown("codec", codec));
        }
        let kind = RecordKind::from_byte(kind).ok_or_else(|| unknown("kind", kind))?;
        let body =
            record.len().checked_sub(usize::from(padding)).and_then(|end| record.get(HEADER_BYTES..end));
        let (Some(body), Some(end)) = (body, lsn.0.checked_add(record.len() as u64)) else { return Ok(None) };
        let durable =
            if distance == DISTANCE_UNKNOWN { 0 } else { lsn.0.saturating_sub(u64::from(distance) * 8) };
        let enciphered = (codec == ENCIPHERED).then_some(version);
        Ok(Some(LogRecord { kind, start: lsn, end: Lsn(end), durable: Lsn(durable), body, enciphered }))
    }

    /// Whether its body is to be [deciphered](LogRecord::decipher) before anything is read in it.
    pub(super) fn is_enciphered(&self) -> bool {
        self.enciphered.is_some()
    }

    /// The same with its body in the clear, which is put into `text` if it has to be deciphered.
    ///
    /// # Errors
    /// Corruption if it is not what was enciphered; `EncryptionKey` if the key for it is not there.
    #[inline]
    pub(super) fn decipher<'t>(self, keys: Option<&Keyring>, text: &'t mut Vec<u8>) -> Result<LogRecord<'t>>
    where
        'a: 't,
    {
        if self.enciphered.is_none() && keys.is_none() { Ok(self) } else { self.decipher_with(keys, text) }
    }

    fn decipher_with<'t>(self, keys: Option<&Keyring>, text: &'t mut Vec<u8>) -> Result<LogRecord<'t>>
    where
        'a: 't,
    {
        let place = || format!("the log record at LSN {}", self.start);
        let Some(version) = self.enciphered else {
            // Nothing else was ever logged in the clear.
            let may_be_clear = self.kind == RecordKind::Time || self.body.is_empty();
            return if may_be_clear {
                Ok(self)
            } else {
                Err(Error::corruption(format!("{} is not encrypted, and the environment is", place())))
            };
        };
        let keys = keys.ok_or_else(|| {
            Error::corruption(format!("{} is encrypted, and the environment is not", place()))
        })?;
        keys.open_record([self.kind as u8, version], self.body, text)
            .map_err(|refused| refused.into_error(place()))?;
        Ok(LogRecord { body: text, enciphered: None, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> RecordBuilder {
        let mut builder = RecordBuilder::new();
        builder.begin(RecordKind::Commit);
        builder.put(TreeId(7), b"key", b"value");
        builder.delete(TreeId(300), b"gone");
        builder.finish_body();
        builder
    }

    #[test]
    fn a_sealed_record_reads_back() {
        let mut builder = sample();
        let bytes = builder.seal(Lsn(8000), Lsn(7000)).to_vec();
        assert_eq!(bytes.len(), builder.len());
        let record = LogRecord::parse(&bytes, Lsn(8000)).unwrap().unwrap();
        assert_eq!(
            (record.kind, record.end, record.durable),
            (RecordKind::Commit, Lsn(8000 + bytes.len() as u64), Lsn(7000))
        );
        assert_eq!(LogRecord::parse(&bytes, Lsn(8008)).unwrap(), None, "not at another place");
    }

    /// Builds that do not know ranges refuse such a commit for its version, and read all others.
    #[test]
    fn a_commit_that_removes_ranges_says_so() {
        let mut builder = RecordBuilder::new();
        builder.begin(RecordKind::Commit);
        builder.delete_range(TreeId(7), (Bound::Included(b"from"), Bound::Unbounded));
        builder.delete_range(TreeId(300), (Bound::Unbounded, Bound::Excluded(b"to")));
        builder.put(TreeId(300), b"k", b"v");
        builder.finish_body();
        let bytes = builder.seal(Lsn(0), Lsn(0)).to_vec();
        assert_eq!((bytes[20], bytes[21]), (1, 2));
        let body = b"\x03\x07\x01\x04from\x00\x03\xac\x02\x00\x02\x02to\x01\xac\x02\x01k\x01v";
        assert_eq!(LogRecord::parse(&bytes, Lsn(0)).unwrap().unwrap().body, body);
        builder.commit_chunked(1, 2, 3);
        assert_eq!(builder.seal(Lsn(0), Lsn(0))[21], 1, "the next one begins anew");
        builder.says_ranges();
        assert_eq!(builder.seal(Lsn(0), Lsn(0))[20..22], [4, 2]);
        assert_eq!(sample().seal(Lsn(0), Lsn(0))[20..22], [1, 1]);
    }

    #[test]
    fn a_filler_is_a_header() {
        let mut builder = RecordBuilder::new();
        builder.begin(RecordKind::Filler);
        builder.finish_body();
        assert_eq!(builder.len(), 24);
        let bytes = builder.seal(Lsn(0), Lsn(0)).to_vec();
        assert_eq!(LogRecord::parse(&bytes, Lsn(0)).unwrap().unwrap().body, b"");
    }

    #[test]
    fn the_durable_claim_never_says_too_much() {
        let mut builder = sample();
        for durable in [0, 1, 8, 7993, 8000] {
            let bytes = builder.seal(Lsn(8000), Lsn(durable)).to_vec();
            assert!(LogRecord::parse(&bytes, Lsn(8000)).unwrap().unwrap().durable.0 <= durable);
        }
        let far = Lsn(1 << 40);
        let bytes = builder.seal(far, Lsn(8)).to_vec();
        assert_eq!(LogRecord::parse(&bytes, far).unwrap().unwrap().durable, Lsn(0));
    }

    #[test]
    fn a_good_record_of_an_unknown_kind_or_version_is_an_error() {
        for (at, value) in [(20, 99), (21, 3)] {
            let mut builder = sample();
            builder.bytes[at] = value;
            let bytes = builder.seal(Lsn(0), Lsn(0)).to_vec();
            assert_eq!(LogRecord::parse(&bytes, Lsn(0)).unwrap_err().kind(), ErrorKind::Invalid);
        }
    }

    #[cfg(feature = "encryption")]
    #[test]
    fn an_enciphered_record_is_read_with_its_keys_alone_and_no_other_is_believed_there() {
        let keys = Keyring::of_nobody(crypt::Cipher::default());
        let mut text = Vec::new();
        for value in ["", "v", "value", "a value that is longer"] {
            let mut builder = RecordBuilder::new();
            builder.begin(RecordKind::Commit);
            builder.put(TreeId(7), b"key", value.as_bytes());
            let body = builder.body().to_vec();
            builder.finish_body();
            let clear = builder.seal(Lsn(8000), Lsn(0)).to_vec();
            builder.encipher(&keys);
            let bytes = builder.seal(Lsn(8000), Lsn(0)).to_vec();
            builder.encipher(&keys);
            assert_eq!(builder.seal(Lsn(8000), Lsn(0)), bytes, "once");
            assert!(bytes.len() <= HEADER_BYTES + body.len() + RecordBuilder::OVERHEAD_MAX);
            assert!(!bytes.windows(3).any(|window| window == b"key"));
            let record = LogRecord::parse(&bytes, Lsn(8000)).unwrap().unwrap();
            assert_eq!(record.end.0, 8000 + bytes.len() as u64);
            assert_eq!(record.decipher(Some(&keys), &mut text).unwrap().body, body);
            let other = Keyring::of_nobody(crypt::Cipher::default());
            for keys in [None, Some(&other)] {
                assert!(record.decipher(keys, &mut text).unwrap_err().is_corruption());
            }
            let record = LogRecord::parse(&clear, Lsn(8000)).unwrap().unwrap();
            assert_eq!(record.decipher(None, &mut text).unwrap().body, body);
            assert!(record.decipher(Some(&keys), &mut text).unwrap_err().is_corruption());
        }
        let mut builder = RecordBuilder::new();
        builder.begin(RecordKind::Filler);
        builder.finish_body();
        builder.encipher(&keys);
        assert_eq!(builder.len(), HEADER_BYTES);
    }

    proptest! {
        #[test]
        fn any_flipped_bit_is_seen(bit in 0usize..1 << 16) {
            let mut builder = sample();
            let mut bytes = builder.seal(Lsn(4096), Lsn(4000)).to_vec();
            let bit = bit % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(LogRecord::parse(&bytes, Lsn(4096)).unwrap(), None);
        }

        #[test]
        fn any_bytes_parse_without_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            lsn in any::<u64>(),
            fit in any::<bool>(),
        ) {
            let mut bytes = bytes;
            if fit && bytes.len() >= 24 {
                // Make it pass the checksum, so that what lies behind is reached.
                let len = bytes.len() / 8 * 8;
                bytes[0..4].copy_from_slice(&(len as u32).to_le_bytes());
                bytes[8..16].copy_from_slice(&lsn.to_le_bytes());
                bytes[21] = VERSION;
                bytes[20] %= 8;
                let crc = crc_of(&bytes[..len]);
                bytes[4..8].copy_from_slice(&crc.to_le_bytes());
            }
            if let Ok(Some(record)) = LogRecord::parse(&bytes, Lsn(lsn)) {
                let mut operations = operation::LogOperations::new(record.body, record.start);
                while let Ok(Some(_)) = operations.next() {}
            }
        }
    }
}
