//! Records of a leaf with keys that do not fit in a word, for who is shown several at once.

use sablecat_os::prefetch::Steps;

use super::node::Alike;

/// How many keys are put together before these records are shown.
const TOGETHER: usize = 4;

/// Records of a leaf that are cut alike, in order: all keys begin with one prefix, and are of one length.
#[derive(Debug)]
pub struct Several<'a> {
    prefix: &'a [u8],
    key_len: usize,
    alike: Alike<'a>,
    ahead: Steps,
    /// Keys that are put together, one behind the other, and their values.
    keys: &'a mut [u8],
    values: [&'a [u8]; TOGETHER],
}

impl<'a> Several<'a> {
    /// Of the records, with each of which something is fetched ahead. `keys` is memory.
    #[inline(always)]
    pub(super) fn new(prefix: &'a [u8], alike: Alike<'a>, ahead: Steps, keys: &'a mut Keys) -> Several<'a> {
        let key_len = prefix.len() + alike.suffix_len();
        let keys = keys.begin(prefix, key_len);
        Several { prefix, key_len, alike, ahead, keys, values: [&[]; TOGETHER] }
    }

    /// How many records have not been handed out, and what is to be fetched with those.
    pub(super) fn left(&self) -> (usize, Steps) {
        (self.alike.left(), self.ahead)
    }

    /// What all keys begin with.
    #[inline(always)]
    pub(crate) fn prefix(&self) -> &'a [u8] {
        self.prefix
    }

    /// The next record, where it lies: what follows the prefix in its key, and the value.
    #[inline(always)]
    pub(crate) fn next_in_place(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let record = self.alike.next_long()?;
        self.ahead.step();
        Some(record)
    }

    /// The next few records, with whole keys; none if there are no more.
    ///
    /// Some keys are put together, then these records are shown, and so on. A load of bytes that have just
    /// been copied may have to wait until they have reached the cache: those of a key have by the time that
    /// it is shown.
    #[inline(always)]
    pub(crate) fn whole(&mut self) -> Option<WholeRecords<'_>> {
        let (mut rest, mut count) = (&mut *self.keys, 0);
        for place in &mut self.values {
            let Some((key, behind)) = rest.split_at_mut_checked(self.key_len) else { break };
            let Some((suffix, value)) = self.alike.next_long() else { break };
            self.ahead.step();
            copy_few(&mut key[self.prefix.len()..], suffix);
            (*place, rest) = (value, behind);
            count += 1;
        }
        let whole =
            WholeRecords { keys: self.keys, key_len: self.key_len, values: self.values[..count].iter() };
        (count > 0).then_some(whole)
    }
}

/// Records with whole keys.
pub(crate) struct WholeRecords<'a> {
    /// Of these and others, one behind the other.
    keys: &'a [u8],
    key_len: usize,
    values: std::slice::Iter<'a, &'a [u8]>,
}

impl<'a> Iterator for WholeRecords<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let value = self.values.next()?;
        let (key, rest) = self.keys.split_at_checked(self.key_len)?;
        self.keys = rest;
        Some((key, value))
    }
}

/// Where keys are put together.
#[derive(Debug)]
pub(super) struct Keys {
    /// Short ones: a visit of few records asks for no memory.
    short: [u8; SHORT_BYTES],
    long: Vec<u8>,
}

const SHORT_BYTES: usize = 32 * TOGETHER;

impl Default for Keys {
    fn default() -> Keys {
        Keys { short: [0; SHORT_BYTES], long: Vec::new() }
    }
}

impl Keys {
    /// Room for keys of one length that begin with `prefix`, which is there: for fewer if they are very long.
    fn begin(&mut self, prefix: &[u8], key_len: usize) -> &mut [u8] {
        const BYTES: usize = 4096;
        let keys = (BYTES / key_len).clamp(1, TOGETHER);
        let bytes = match self.short.get_mut(..keys * key_len) {
            Some(short) => short,
            None => {
                self.long.resize(keys * key_len, 0);
                &mut self.long
            }
        };
        for key in bytes.chunks_exact_mut(key_len) {
            key[..prefix.len()].copy_from_slice(prefix);
        }
        bytes
    }
}

/// Copies bytes of which there are few, without a call: pieces from the beginning, and from the end, which
/// may overlap.
#[inline(always)]
fn copy_few(to: &mut [u8], from: &[u8]) {
    const WIDE: usize = 16;
    if let (Some(last_to), Some(last)) = (to.last_chunk_mut::<WIDE>(), from.last_chunk::<WIDE>()) {
        *last_to = *last;
        let (to, from) = (to.as_chunks_mut::<WIDE>().0, from.as_chunks::<WIDE>().0);
        match (to, from) {
            ([first_to, second_to], [first, second]) => (*first_to, *second_to) = (*first, *second),
            (to, from) => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
        }
    } else {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    }
}
