//! Records on their way into a store, one behind the other in one piece of memory that is used again.

/// Keys and values, in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    /// Of each record: where its key ends, and its value.
    ends: Vec<(usize, usize)>,
}

impl Batch {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|&(_, end)| end));
        let records = starts.zip(&self.ends);
        records.map(|(start, &(key_end, end))| (&self.bytes[start..key_end], &self.bytes[key_end..end]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_comes_back_in_order() {
        let mut batch = Batch::default();
        for records in [&[("a", "1"), ("", ""), ("bc", "23")][..], &[("d", "")], &[]] {
            batch.clear();
            records.iter().for_each(|(key, value)| batch.push(key.as_bytes(), value.as_bytes()));
            let back: Vec<_> = batch.iter().collect();
            assert_eq!(back, records.iter().map(|(k, v)| (k.as_bytes(), v.as_bytes())).collect::<Vec<_>>());
        }
    }
}
